//! Rows of the log: how a change is written and read back. Every row carries two checksums, one over its value and one
//! over the rest, because SQLite checks its own structure but not its content.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, Statement, params};

use super::file::Fault;
use crate::{Key, Revision, Timestamp};

/// One change as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) revision: Revision,
    pub(super) key: Key,
    /// The change that began the key's present life.
    pub(super) created: Revision,
    /// The change to this key before this one, if it was kept when this one was made.
    pub(super) previous: Option<Revision>,
    pub(super) time: Timestamp,
    pub(super) expires: Option<Timestamp>,
    /// The value's stored form; `None` is a deletion.
    pub(super) value: Option<Bytes>,
}

impl Row {
    fn links(&self) -> Links {
        let Row { revision, ref key, created, previous, time, expires, ref value } = *self;
        let size = value.as_ref().map(Bytes::len);
        Links { revision, key: key.clone(), created, previous, time, expires, size }
    }

    /// Both checksums in one number: the value's in the lower half, that of the rest in the upper.
    fn sum(&self) -> u64 {
        u64::from(self.links().sum()) << 32 | u64::from(crc32fast::hash(self.value.as_deref().unwrap_or_default()))
    }
}

/// How a row hangs together with others, without its content.
#[derive(Clone, Debug)]
pub(super) struct Links {
    pub(super) revision: Revision,
    pub(super) key: Key,
    pub(super) created: Revision,
    pub(super) previous: Option<Revision>,
    pub(super) time: Timestamp,
    pub(super) expires: Option<Timestamp>,
    /// The size of the value's stored form; `None` for a deletion.
    pub(super) size: Option<usize>,
}

impl Links {
    fn sum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        let numbers = [
            self.revision.0,
            self.created.0,
            self.previous.map_or(0, |revision| revision.0),
            self.time.0,
            self.expires.map_or(u64::MAX, |time| time.0),
            self.size.map_or(u64::MAX, |size| size as u64),
        ];
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(self.key.as_bytes());
        hasher.finalize()
    }
}

const CONTENT: &str = "revision, key, created, previous, time, expires, sum, value";
const LINKS: &str = "revision, key, created, previous, time, expires, sum, length(value)";

/// The statements that read the log.
#[derive(Debug)]
pub(super) struct LogReader<'c> {
    row: Statement<'c>,
    links: Statement<'c>,
    page: Statement<'c>,
    links_page: Statement<'c>,
}

impl<'c> LogReader<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<LogReader<'c>, Fault> {
        let page = |columns: &str| {
            connection.prepare(&format!(
                "SELECT {columns} FROM log WHERE revision > ?1 AND revision <= ?2 ORDER BY revision LIMIT ?3"
            ))
        };
        Ok(LogReader {
            row: connection.prepare(&format!("SELECT {CONTENT} FROM log WHERE revision = ?1"))?,
            links: connection.prepare(&format!("SELECT {LINKS} FROM log WHERE revision = ?1"))?,
            page: page(CONTENT)?,
            links_page: page(LINKS)?,
        })
    }

    /// The row of a revision that must be there.
    pub(super) fn row(&mut self, revision: Revision) -> Result<Row, Fault> {
        let row = self.row.query_row([integer(revision.0)], |row| Ok(content(row))).optional()?;
        row.unwrap_or_else(|| Err(missing(revision)))
    }

    /// The links of a revision, if its row is there.
    pub(super) fn links(&mut self, revision: Revision) -> Result<Option<Links>, Fault> {
        self.links.query_row([integer(revision.0)], |row| Ok(links(row))).optional()?.transpose()
    }

    /// The rows after one revision up to another, stopping early when they come to more than `bytes`.
    pub(super) fn page(
        &mut self,
        after: Revision,
        until: Revision,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Row>, Fault> {
        let mut found = Vec::new();
        let mut size = 0;
        let mut rows = self.page.query(params![integer(after.0), integer(until.0), integer(limit as u64)])?;
        while let Some(row) = rows.next()? {
            let row = content(row)?;
            size += row.value.as_ref().map_or(0, Bytes::len);
            found.push(row);
            if size > bytes {
                break;
            }
        }
        Ok(found)
    }

    /// Calls `each` with the links of the rows after one revision up to another.
    pub(super) fn scan(
        &mut self,
        after: Revision,
        until: Revision,
        limit: usize,
        mut each: impl FnMut(Links) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut rows = self.links_page.query(params![integer(after.0), integer(until.0), integer(limit as u64)])?;
        while let Some(row) = rows.next()? {
            each(links(row)?)?;
        }
        Ok(())
    }
}

/// The statements that change the log. They are used inside a transaction.
#[derive(Debug)]
pub(super) struct LogWriter<'c> {
    insert: Statement<'c>,
    delete: Statement<'c>,
    meta: Statement<'c>,
}

impl<'c> LogWriter<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<LogWriter<'c>, Fault> {
        Ok(LogWriter {
            insert: connection
                .prepare(&format!("INSERT INTO log ({CONTENT}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"))?,
            delete: connection.prepare("DELETE FROM log WHERE revision = ?1")?,
            meta: connection.prepare("UPDATE meta SET compacted = ?1, swept = ?2 WHERE id = 1")?,
        })
    }

    pub(super) fn insert(&mut self, row: &Row) -> Result<(), Fault> {
        self.insert.execute(params![
            integer(row.revision.0),
            row.key.as_str(),
            integer(row.created.0),
            row.previous.map(|revision| integer(revision.0)),
            integer(row.time.0),
            row.expires.map(|time| integer(time.0)),
            row.sum().cast_signed(),
            row.value.as_deref(),
        ])?;
        Ok(())
    }

    /// Removes a row that must be there.
    pub(super) fn delete(&mut self, revision: Revision) -> Result<(), Fault> {
        if self.delete.execute([integer(revision.0)])? == 1 { Ok(()) } else { Err(missing(revision)) }
    }

    pub(super) fn set_meta(&mut self, compacted: Revision, swept: Revision) -> Result<(), Fault> {
        self.meta.execute([integer(compacted.0), integer(swept.0)])?;
        Ok(())
    }
}

/// What the file says of its history: compacted to, swept to.
pub(super) fn read_meta(connection: &Connection) -> Result<(Revision, Revision), Fault> {
    let query = "SELECT compacted, swept FROM meta WHERE id = 1";
    let (compacted, swept) = connection.query_row(query, [], |row| Ok((natural(row, 0)?, natural(row, 1)?)))?;
    if swept > compacted || swept < Revision::EMPTY.0 {
        return Err(Fault::Damage(format!("its history is said to begin at {compacted} but swept to {swept}")));
    }
    Ok((Revision(compacted), Revision(swept)))
}

pub(super) fn missing(revision: Revision) -> Fault {
    Fault::Damage(format!("the record of revision {revision} is missing"))
}

/// SQLite's integers are signed; ours stay far below the limit and are held there.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn natural(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn optional(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    if row.get_ref(column)? == ValueRef::Null { Ok(None) } else { natural(row, column).map(Some) }
}

fn key(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Key> {
    Ok(Key::from(row.get_ref(column)?.as_str()?))
}

/// The columns that [`CONTENT`] and [`LINKS`] share, with the size of the value and the sums, which are not yet checked.
fn shared(row: &SqlRow<'_>, size: Option<usize>) -> rusqlite::Result<(Links, u64)> {
    let links = Links {
        revision: Revision(natural(row, 0)?),
        key: key(row, 1)?,
        created: Revision(natural(row, 2)?),
        previous: optional(row, 3)?.map(Revision),
        time: Timestamp(natural(row, 4)?),
        expires: optional(row, 5)?.map(Timestamp),
        size,
    };
    Ok((links, row.get::<_, i64>(6)?.cast_unsigned()))
}

fn links(row: &SqlRow<'_>) -> Result<Links, Fault> {
    let size = optional(row, 7)?.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let (links, sum) = shared(row, size)?;
    if u64::from(links.sum()) == sum >> 32 { Ok(links) } else { Err(altered(links.revision)) }
}

fn content(row: &SqlRow<'_>) -> Result<Row, Fault> {
    let value = match row.get_ref(7)? {
        ValueRef::Blob(value) => Some(Bytes::copy_from_slice(value)),
        ValueRef::Null => None,
        other => return Err(Fault::Damage(format!("a value is stored as {}", other.data_type()))),
    };
    let (links, sum) = shared(row, value.as_ref().map(Bytes::len))?;
    let Links { revision, key, created, previous, time, expires, .. } = links;
    let found = Row { revision, key, created, previous, time, expires, value };
    if found.sum() == sum { Ok(found) } else { Err(altered(revision)) }
}

fn altered(revision: Revision) -> Fault {
    Fault::Damage(format!("the record of revision {revision} does not match its checksum"))
}
