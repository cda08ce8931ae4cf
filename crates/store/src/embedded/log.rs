//! Reads and writes the rows of the change log. Every row has two checksums, one over its value and one over the rest,
//! because SQLite checks its own structure but not the content.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, Statement, params};

use super::file::FileError;
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

    /// Both checksums in one number: the value's checksum in the lower half, the header's in the upper half.
    fn checksum(&self) -> u64 {
        both_checksums(self.header().checksum(), self.value.as_deref())
    }
}

/// Both checksums of a row, from the header's checksum and the value.
fn both_checksums(header: u32, value: Option<&[u8]>) -> u64 {
    u64::from(header) << 32 | u64::from(crc32fast::hash(value.unwrap_or_default()))
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

impl RowHeader {
    fn checksum(&self) -> u32 {
        let numbers = [
            self.revision.0,
            self.create_revision.0,
            self.previous.map_or(0, |revision| revision.0),
            self.time.0,
            self.expires.map_or(u64::MAX, |time| time.0),
            self.size.map_or(u64::MAX, |size| size as u64),
        ];
        let mut bytes = [0; 6 * size_of::<u64>()];
        for (part, number) in bytes.chunks_exact_mut(size_of::<u64>()).zip(numbers) {
            part.copy_from_slice(&number.to_le_bytes());
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes);
        hasher.update(self.key.as_bytes());
        hasher.finalize()
    }
}

/// The change log is one table, so that a value is written only once. `value` is the last column, so that the other
/// columns are read without it. A row without a value is a tombstone.
pub(super) const LOG_SCHEMA: &str = "CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    created INTEGER NOT NULL,
    previous INTEGER,
    time INTEGER NOT NULL,
    expires INTEGER,
    sum INTEGER NOT NULL,
    value BLOB
) STRICT";

const ROW_COLUMNS: &str = "revision, key, created, previous, time, expires, sum, value";
const HEADER_COLUMNS: &str = "revision, key, created, previous, time, expires, sum, length(value)";

/// The statements that read the log.
#[derive(Debug)]
pub(super) struct LogReader<'c> {
    row: Statement<'c>,
    header: Statement<'c>,
    row_page: Statement<'c>,
    header_page: Statement<'c>,
}

impl<'c> LogReader<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<LogReader<'c>, FileError> {
        let prepare_page = |columns: &str| {
            connection.prepare(&format!(
                "SELECT {columns} FROM log WHERE revision > ?1 AND revision <= ?2 ORDER BY revision LIMIT ?3"
            ))
        };
        Ok(LogReader {
            row: connection.prepare(&format!("SELECT {ROW_COLUMNS} FROM log WHERE revision = ?1"))?,
            header: connection.prepare(&format!("SELECT {HEADER_COLUMNS} FROM log WHERE revision = ?1"))?,
            row_page: prepare_page(ROW_COLUMNS)?,
            header_page: prepare_page(HEADER_COLUMNS)?,
        })
    }

    /// Reads the row of a revision, which must exist.
    pub(super) fn row(&mut self, revision: Revision) -> Result<LogRow, FileError> {
        self.row_of(revision, None)
    }

    /// Reads the row of a revision, which must exist. If `key` is given, it is the key of the row.
    fn row_of(&mut self, revision: Revision, key: Option<&Key>) -> Result<LogRow, FileError> {
        let row = self.row.query_row([to_sql_integer(revision.0)], |row| Ok(read_row(row, key))).optional()?;
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
            let row = rows.next()?.map(|row| read_row(row, Some(key))).transpose()?;
            found.push(row.filter(|row| row.revision == revision).ok_or_else(|| missing_row(revision))?);
        }
        Ok(found)
    }

    /// Reads the header of a revision, if its row exists.
    pub(super) fn header(&mut self, revision: Revision) -> Result<Option<RowHeader>, FileError> {
        self.header.query_row([to_sql_integer(revision.0)], |row| Ok(read_header(row))).optional()?.transpose()
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
            let row = read_row(row, None)?;
            size += row.value.as_ref().map_or(0, Bytes::len);
            found.push(row);
            if size > bytes {
                break;
            }
        }
        Ok(found)
    }

    /// Calls `visit` with the headers of the rows after one revision up to another.
    pub(super) fn scan(
        &mut self,
        after: Revision,
        until: Revision,
        limit: usize,
        mut visit: impl FnMut(RowHeader) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let mut rows = self.header_page.query(params![
            to_sql_integer(after.0),
            to_sql_integer(until.0),
            to_sql_integer(limit as u64)
        ])?;
        while let Some(row) = rows.next()? {
            visit(read_header(row)?)?;
        }
        Ok(())
    }
}

/// The statements that modify the log. They run inside a transaction.
#[derive(Debug)]
pub(super) struct LogWriter<'c> {
    insert: Statement<'c>,
    delete: Statement<'c>,
}

impl<'c> LogWriter<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<LogWriter<'c>, FileError> {
        Ok(LogWriter {
            insert: connection
                .prepare(&format!("INSERT INTO log ({ROW_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"))?,
            delete: connection.prepare("DELETE FROM log WHERE revision = ?1")?,
        })
    }

    pub(super) fn insert(&mut self, row: &LogRow) -> Result<(), FileError> {
        self.insert.execute(params![
            to_sql_integer(row.revision.0),
            row.key.as_str(),
            to_sql_integer(row.create_revision.0),
            row.previous.map(|revision| to_sql_integer(revision.0)),
            to_sql_integer(row.time.0),
            row.expires.map(|time| to_sql_integer(time.0)),
            row.checksum().cast_signed(),
            row.value.as_deref(),
        ])?;
        Ok(())
    }

    /// Deletes the row of a revision, which must exist.
    pub(super) fn delete(&mut self, revision: Revision) -> Result<(), FileError> {
        if self.delete.execute([to_sql_integer(revision.0)])? == 1 { Ok(()) } else { Err(missing_row(revision)) }
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

fn optional_unsigned_column(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    if row.get_ref(column)? == ValueRef::Null { Ok(None) } else { unsigned_column(row, column).map(Some) }
}

/// Reads the key. If it equals the known key, the result shares the known key's text.
fn key_column(row: &SqlRow<'_>, column: usize, known: Option<&Key>) -> rusqlite::Result<Key> {
    let key = row.get_ref(column)?.as_str()?;
    Ok(known.filter(|known| known.as_str() == key).map_or_else(|| Key::from(key), Key::clone))
}

/// The columns that [`ROW_COLUMNS`] and [`HEADER_COLUMNS`] share, with the size of the value and the checksums. The
/// checksums are not verified here.
fn read_columns(row: &SqlRow<'_>, size: Option<usize>, key: Option<&Key>) -> rusqlite::Result<(RowHeader, u64)> {
    let header = RowHeader {
        revision: Revision(unsigned_column(row, 0)?),
        key: key_column(row, 1, key)?,
        create_revision: Revision(unsigned_column(row, 2)?),
        previous: optional_unsigned_column(row, 3)?.map(Revision),
        time: Timestamp(unsigned_column(row, 4)?),
        expires: optional_unsigned_column(row, 5)?.map(Timestamp),
        size,
    };
    Ok((header, row.get::<_, i64>(6)?.cast_unsigned()))
}

fn read_header(row: &SqlRow<'_>) -> Result<RowHeader, FileError> {
    let size = optional_unsigned_column(row, 7)?.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let (header, checksum) = read_columns(row, size, None)?;
    if u64::from(header.checksum()) == checksum >> 32 { Ok(header) } else { Err(checksum_mismatch(header.revision)) }
}

fn read_row(row: &SqlRow<'_>, key: Option<&Key>) -> Result<LogRow, FileError> {
    let value = match row.get_ref(7)? {
        ValueRef::Blob(value) => Some(Bytes::copy_from_slice(value)),
        ValueRef::Null => None,
        other => return Err(FileError::Corrupted(format!("a value has the type {}", other.data_type()))),
    };
    let (header, checksum) = read_columns(row, value.as_ref().map(Bytes::len), key)?;
    if both_checksums(header.checksum(), value.as_deref()) != checksum {
        return Err(checksum_mismatch(header.revision));
    }
    let RowHeader { revision, key, create_revision, previous, time, expires, .. } = header;
    Ok(LogRow { revision, key, create_revision, previous, time, expires, value })
}

fn checksum_mismatch(revision: Revision) -> FileError {
    FileError::Corrupted(format!("the record of revision {revision} does not match its checksum"))
}
