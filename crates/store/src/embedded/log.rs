//! Reads and writes the rows of the change log, in the form that the file has.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, Statement, params};

use super::encryption::{RowCode, RowTally};
use super::file::FileError;
use super::row_format::RowFormat;
use crate::{Key, Record, Revision, Timestamp};

/// One change as a row of the log.
#[derive(Clone, Debug)]
pub(super) struct LogRow {
    pub(super) revision: Revision,
    pub(super) key: Key,
    /// The create revision of the key.
    pub(super) create_revision: Revision,
    /// The previous change of the key, if it was still retained when this row was written.
    pub(super) previous: Option<Revision>,
    pub(super) time: Timestamp,
    pub(super) expires: Option<Timestamp>,
    /// The transformed value; `None` is a tombstone.
    pub(super) value: Option<Bytes>,
}

impl LogRow {
    /// The record of a row that has a value, in its stored form.
    pub(super) fn into_record(self) -> Record {
        let LogRow { key, revision, create_revision, value, .. } = self;
        let value = value.unwrap_or_default();
        Record { key, value, mod_revision: revision, create_revision, stale: false }
    }

    pub(super) fn header(&self) -> RowHeader {
        let LogRow { revision, ref key, create_revision, previous, time, expires, ref value } = *self;
        let size = value.as_ref().map(Bytes::len);
        RowHeader { revision, key: key.clone(), create_revision, previous, time, expires, size }
    }
}

/// A row without its value.
#[derive(Clone, Debug)]
pub(super) struct RowHeader {
    pub(super) revision: Revision,
    pub(super) key: Key,
    pub(super) create_revision: Revision,
    pub(super) previous: Option<Revision>,
    pub(super) time: Timestamp,
    pub(super) expires: Option<Timestamp>,
    /// The size of the transformed value; `None` is a tombstone.
    pub(super) size: Option<usize>,
}

/// The statements that read the log.
#[derive(Debug)]
pub(super) struct LogReader<'c> {
    format: RowFormat,
    row: Statement<'c>,
    header: Statement<'c>,
    row_page: Statement<'c>,
    header_page: Statement<'c>,
}

impl<'c> LogReader<'c> {
    pub(super) fn new(connection: &'c Connection, format: &RowFormat) -> Result<LogReader<'c>, FileError> {
        let (row_columns, header_columns) = (format.row_columns(), format.header_columns());
        let prepare_page = |columns: &str| {
            connection.prepare(&format!(
                "SELECT {columns} FROM log WHERE revision > ?1 AND revision <= ?2 ORDER BY revision LIMIT ?3"
            ))
        };
        Ok(LogReader {
            row: connection.prepare(&format!("SELECT {row_columns} FROM log WHERE revision = ?1"))?,
            header: connection.prepare(&format!("SELECT {header_columns} FROM log WHERE revision = ?1"))?,
            row_page: prepare_page(row_columns)?,
            header_page: prepare_page(header_columns)?,
            format: format.clone(),
        })
    }

    /// Reads the row of a revision, which must exist.
    pub(super) fn row(&mut self, revision: Revision) -> Result<LogRow, FileError> {
        self.row_of(revision, None)
    }

    /// Reads the row of a revision, which must exist. If `key` is given, it is the key of the row.
    fn row_of(&mut self, revision: Revision, key: Option<&Key>) -> Result<LogRow, FileError> {
        let format = &self.format;
        let row = self.row.query_row([to_sql_integer(revision.0)], |row| Ok(format.read_row(row, key))).optional()?;
        row.unwrap_or_else(|| Err(missing_row(revision)))
    }

    /// Reads the rows of these keys. The rows must exist and have consecutive revisions that begin with `first`.
    pub(super) fn read_run(&mut self, first: Revision, keys: &[&Key]) -> Result<Vec<LogRow>, FileError> {
        if let [key] = keys {
            return Ok(vec![self.row_of(first, Some(key))?]);
        }
        let (before, count) = (first.0.saturating_sub(1), keys.len() as u64);
        let mut rows =
            self.row_page.query([to_sql_integer(before), to_sql_integer(before + count), to_sql_integer(count)])?;
        let mut found = Vec::with_capacity(keys.len());
        for (revision, key) in (first.0..).map(Revision).zip(keys) {
            let row = rows.next()?.map(|row| self.format.read_row(row, Some(key))).transpose()?;
            found.push(row.filter(|row| row.revision == revision).ok_or_else(|| missing_row(revision))?);
        }
        Ok(found)
    }

    /// Reads the header of a revision, if its row exists.
    pub(super) fn header(&mut self, revision: Revision) -> Result<Option<RowHeader>, FileError> {
        let format = &self.format;
        let header =
            self.header.query_row([to_sql_integer(revision.0)], |row| Ok(format.read_header(row))).optional()?;
        Ok(header.transpose()?.map(|(header, _)| header))
    }

    /// Reads the rows after one revision up to another. Stops early when their values exceed `bytes`.
    pub(super) fn read_page(
        &mut self,
        after: Revision,
        until: Revision,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<LogRow>, FileError> {
        let mut found = Vec::new();
        let mut size = 0;
        let mut rows = self.row_page.query(params![
            to_sql_integer(after.0),
            to_sql_integer(until.0),
            to_sql_integer(limit as u64)
        ])?;
        while let Some(row) = rows.next()? {
            let row = self.format.read_row(row, None)?;
            size += row.value.as_ref().map_or(0, Bytes::len);
            found.push(row);
            if size > bytes {
                break;
            }
        }
        Ok(found)
    }

    /// Calls `visit` with the headers of the rows after one revision up to another. In an encrypted store, it also gets the
    /// codes of the rows.
    pub(super) fn scan(
        &mut self,
        after: Revision,
        until: Revision,
        limit: usize,
        mut visit: impl FnMut(RowHeader, Option<RowCode>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let mut rows = self.header_page.query(params![
            to_sql_integer(after.0),
            to_sql_integer(until.0),
            to_sql_integer(limit as u64)
        ])?;
        while let Some(row) = rows.next()? {
            let (header, code) = self.format.read_header(row)?;
            visit(header, code)?;
        }
        Ok(())
    }
}

/// The statements that modify the log. They run inside a transaction. The writer of an encrypted store also keeps the
/// tally of the rows.
#[derive(Debug)]
pub(super) struct LogWriter<'c> {
    format: RowFormat,
    insert: Statement<'c>,
    delete: Statement<'c>,
    /// The rows of the last committed transaction.
    committed: RowTally,
    /// The rows of the current transaction.
    tally: RowTally,
    /// The newest row of the current transaction.
    newest: Option<Revision>,
    /// True if the meta record does not have the rows of the current transaction.
    is_changed: bool,
}

impl<'c> LogWriter<'c> {
    /// Creates a writer for a log with these rows.
    pub(super) fn new(
        connection: &'c Connection,
        format: &RowFormat,
        rows: RowTally,
    ) -> Result<LogWriter<'c>, FileError> {
        Ok(LogWriter {
            insert: connection.prepare(format.insert_statement())?,
            delete: connection.prepare(format.delete_statement())?,
            format: format.clone(),
            tally: rows.clone(),
            committed: rows,
            newest: None,
            is_changed: false,
        })
    }

    /// Begins a transaction. If the last one was not committed, its changes are forgotten.
    pub(super) fn begin(&mut self) {
        if self.is_changed {
            self.tally = self.committed.clone();
        }
        (self.newest, self.is_changed) = (None, false);
    }

    /// Records that the transaction is committed. Returns the rows of the log if they have changed.
    pub(super) fn commit(&mut self) -> Option<RowTally> {
        if !self.is_changed {
            return None;
        }
        self.committed = self.tally.clone();
        self.is_changed = false;
        Some(self.committed.clone())
    }

    /// The rows of the current transaction.
    pub(super) fn tally(&self) -> &RowTally {
        &self.tally
    }

    /// The newest row of the current transaction.
    pub(super) fn newest(&self) -> Option<Revision> {
        self.newest
    }

    /// True if the meta record must be written in this transaction.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Makes the transaction write the meta record.
    pub(super) fn set_changed(&mut self) {
        self.is_changed = true;
    }

    pub(super) fn insert(&mut self, row: &LogRow) -> Result<(), FileError> {
        if let Some(code) = self.format.insert(&mut self.insert, row)? {
            self.tally.add(&code);
            self.is_changed = true;
        }
        self.newest = Some(row.revision);
        Ok(())
    }

    /// Deletes the row of a revision, which must exist.
    pub(super) fn delete(&mut self, revision: Revision) -> Result<(), FileError> {
        if let Some(code) = self.format.delete(&mut self.delete, revision)? {
            self.tally.remove(&code);
            self.is_changed = true;
        }
        Ok(())
    }

    /// Records that a row was sealed again.
    pub(super) fn replace(&mut self, old: &RowCode, new: &RowCode) {
        self.tally.remove(old);
        self.tally.add(new);
        self.is_changed = true;
    }
}

/// The oldest and the newest revision of the log; `None` if it is empty.
pub(super) fn extent(connection: &Connection) -> Result<Option<(Revision, Revision)>, FileError> {
    let end = |order: &str| {
        let query = format!("SELECT revision FROM log ORDER BY revision {order} LIMIT 1");
        connection.query_row(&query, [], |row| unsigned_column(row, 0)).optional()
    };
    Ok(end("ASC")?.zip(end("DESC")?).map(|(oldest, newest)| (Revision(oldest), Revision(newest))))
}

/// The revisions of all rows.
pub(super) fn revisions(connection: &Connection) -> Result<Vec<Revision>, FileError> {
    let mut statement = connection.prepare("SELECT revision FROM log ORDER BY revision")?;
    let rows = statement.query_map([], |row| Ok(Revision(unsigned_column(row, 0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn missing_row(revision: Revision) -> FileError {
    FileError::Corrupted(format!("the record of revision {revision} is missing"))
}

/// SQLite's integers are signed. Real values are far below the limit; larger ones are clamped to it.
pub(super) fn to_sql_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned_column(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}
