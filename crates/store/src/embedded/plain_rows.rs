//! The rows of the log in a store that is not encrypted. Every row has two checksums, one over its value and one over the
//! rest, because SQLite checks its own structure but not the content.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Row as SqlRow, Statement, params};

use super::file::FileError;
use super::log::{LogRow, RowHeader, missing_row, to_sql_integer, unsigned_column};
use crate::{Key, Revision, Timestamp};

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

pub(super) const ROW_COLUMNS: &str = "revision, key, created, previous, time, expires, sum, value";
pub(super) const HEADER_COLUMNS: &str = "revision, key, created, previous, time, expires, sum, length(value)";
pub(super) const INSERT: &str = "INSERT INTO log (revision, key, created, previous, time, expires, sum, value)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
pub(super) const DELETE: &str = "DELETE FROM log WHERE revision = ?1";

pub(super) fn insert(statement: &mut Statement<'_>, row: &LogRow) -> Result<(), FileError> {
    let checksum = both_checksums(header_checksum(&row.header()), row.value.as_deref());
    statement.execute(params![
        to_sql_integer(row.revision.0),
        row.key.as_str(),
        to_sql_integer(row.create_revision.0),
        row.previous.map(|revision| to_sql_integer(revision.0)),
        to_sql_integer(row.time.0),
        row.expires.map(|time| to_sql_integer(time.0)),
        checksum.cast_signed(),
        row.value.as_deref(),
    ])?;
    Ok(())
}

/// Deletes the row of a revision, which must exist.
pub(super) fn delete(statement: &mut Statement<'_>, revision: Revision) -> Result<(), FileError> {
    if statement.execute([to_sql_integer(revision.0)])? == 1 { Ok(()) } else { Err(missing_row(revision)) }
}

/// Both checksums of a row in one number: the value's checksum in the lower half, the header's in the upper half.
fn both_checksums(header: u32, value: Option<&[u8]>) -> u64 {
    u64::from(header) << 32 | u64::from(crc32fast::hash(value.unwrap_or_default()))
}

fn header_checksum(header: &RowHeader) -> u32 {
    let numbers = [
        header.revision.0,
        header.create_revision.0,
        header.previous.map_or(0, |revision| revision.0),
        header.time.0,
        header.expires.map_or(u64::MAX, |time| time.0),
        header.size.map_or(u64::MAX, |size| size as u64),
    ];
    let mut bytes = [0; 6 * size_of::<u64>()];
    for (part, number) in bytes.chunks_exact_mut(size_of::<u64>()).zip(numbers) {
        part.copy_from_slice(&number.to_le_bytes());
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes);
    hasher.update(header.key.as_bytes());
    hasher.finalize()
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

pub(super) fn read_header(row: &SqlRow<'_>) -> Result<RowHeader, FileError> {
    let size = optional_unsigned_column(row, 7)?.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let (header, checksum) = read_columns(row, size, None)?;
    if u64::from(header_checksum(&header)) == checksum >> 32 {
        Ok(header)
    } else {
        Err(checksum_mismatch(header.revision))
    }
}

pub(super) fn read_row(row: &SqlRow<'_>, key: Option<&Key>) -> Result<LogRow, FileError> {
    let value = match row.get_ref(7)? {
        ValueRef::Blob(value) => Some(Bytes::copy_from_slice(value)),
        ValueRef::Null => None,
        other => return Err(FileError::Corrupted(format!("a value has the type {}", other.data_type()))),
    };
    let (header, checksum) = read_columns(row, value.as_ref().map(Bytes::len), key)?;
    if both_checksums(header_checksum(&header), value.as_deref()) != checksum {
        return Err(checksum_mismatch(header.revision));
    }
    let RowHeader { revision, key, create_revision, previous, time, expires, .. } = header;
    Ok(LogRow { revision, key, create_revision, previous, time, expires, value })
}

fn checksum_mismatch(revision: Revision) -> FileError {
    FileError::Corrupted(format!("the record of revision {revision} does not match its checksum"))
}
