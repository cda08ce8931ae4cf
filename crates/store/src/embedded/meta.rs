//! The one row of `meta`: how far the log is compacted, which of its older rows are retained, and whether the store is
//! open. The row has a checksum. Together with the rows' checksums it distinguishes a complete log from a log with
//! missing, repeated or outdated pages.

use rusqlite::{Connection, Statement, params};

use super::encryption::{RowSum, sealed_meta};
use super::file::FileError;
use super::log::{to_sql_integer, unsigned_column};
use super::row_format::RowFormat;
use crate::Revision;

/// The schema of the row.
pub(super) const META_SCHEMA: &str = "CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    compacted INTEGER NOT NULL,
    swept INTEGER NOT NULL,
    retained INTEGER NOT NULL,
    base INTEGER NOT NULL,
    open INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT";

/// The format version of a store that is not encrypted. It is incremented when an older program cannot read the file or
/// would corrupt it.
pub(super) const PLAIN_VERSION: i64 = 2;

/// The schema of the row in files of format 1.
pub(super) const META_SCHEMA_1: &str = "CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    compacted INTEGER NOT NULL,
    swept INTEGER NOT NULL
) STRICT";

/// A set of revisions as one number. Revisions can be added and removed in any order. Two different sets have the same
/// number with a probability of 2^-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RevisionSet(pub(super) u64);

impl RevisionSet {
    pub(super) fn add(&mut self, revision: Revision) {
        self.0 = self.0.wrapping_add(scatter(revision.0));
    }

    pub(super) fn remove(&mut self, revision: Revision) {
        self.0 = self.0.wrapping_sub(scatter(revision.0));
    }
}

/// Scrambles the bits of a number (the finalizer of SplitMix64).
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// The compact revision: the oldest revision that can be read.
    pub(super) compact_revision: Revision,
    /// Rows that are obsolete at this revision have been removed.
    pub(super) purged_revision: Revision,
    /// The revisions of the rows up to the purged revision. `None` in files of format 1.
    pub(super) retained: Option<RevisionSet>,
    /// The log may have no row after this revision: the log begins with it, or continues another store's revisions.
    pub(super) base: Revision,
    /// True if the store was not closed, so that the write-ahead log may continue the log.
    pub(super) is_open: bool,
    /// The newest revision. `None` in files that are not encrypted.
    pub(super) newest: Option<Revision>,
    /// The rows of the log. `None` in files that are not encrypted.
    pub(super) rows: Option<RowSum>,
}

impl Meta {
    /// The row of a log that begins after this revision. All earlier history counts as compacted.
    pub(super) fn beginning_after(base: Revision) -> Meta {
        let (retained, rows) = (Some(RevisionSet::default()), Some(RowSum::default()));
        Meta { compact_revision: base, purged_revision: base, retained, base, is_open: false, newest: Some(base), rows }
    }

    fn columns(&self) -> [i64; 5] {
        [
            to_sql_integer(self.compact_revision.0),
            to_sql_integer(self.purged_revision.0),
            self.retained.unwrap_or_default().0.cast_signed(),
            to_sql_integer(self.base.0),
            i64::from(self.is_open),
        ]
    }

    /// Reads the row.
    pub(super) fn read(connection: &Connection, format: &RowFormat) -> Result<Meta, FileError> {
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let meta = match format {
            RowFormat::Sealed(ring) => sealed_meta::read(ring, connection)?,
            RowFormat::Plain if version == 1 => Meta::read_format_1(connection)?,
            RowFormat::Plain => Meta::read_current(connection)?,
        };
        if meta.purged_revision > meta.compact_revision || meta.purged_revision < Revision::EMPTY {
            return Err(FileError::Corrupted(format!(
                "its compact revision {} and purged revision {} contradict each other",
                meta.compact_revision, meta.purged_revision
            )));
        }
        Ok(meta)
    }

    fn read_current(connection: &Connection) -> Result<Meta, FileError> {
        let query = "SELECT compacted, swept, base, retained, open, sum FROM meta WHERE id = 1";
        let (meta, sum) = connection.query_row(query, [], |row| {
            let meta = Meta {
                compact_revision: Revision(unsigned_column(row, 0)?),
                purged_revision: Revision(unsigned_column(row, 1)?),
                base: Revision(unsigned_column(row, 2)?),
                retained: Some(RevisionSet(row.get::<_, i64>(3)?.cast_unsigned())),
                is_open: row.get::<_, i64>(4)? != 0,
                newest: None,
                rows: None,
            };
            Ok((meta, row.get::<_, i64>(5)?))
        })?;
        if sum != checksum(&meta.columns()) {
            return Err(FileError::Corrupted("its meta record does not match its checksum".to_owned()));
        }
        Ok(meta)
    }

    fn read_format_1(connection: &Connection) -> Result<Meta, FileError> {
        let query = "SELECT compacted, swept FROM meta WHERE id = 1";
        Ok(connection.query_row(query, [], |row| {
            Ok(Meta {
                compact_revision: Revision(unsigned_column(row, 0)?),
                purged_revision: Revision(unsigned_column(row, 1)?),
                retained: None,
                base: Revision::EMPTY,
                is_open: false,
                newest: None,
                rows: None,
            })
        })?)
    }
}

fn checksum(columns: &[i64]) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    for column in columns {
        hasher.update(&column.to_le_bytes());
    }
    hasher.finalize().into()
}

/// The statements that write the row, inside a transaction.
#[derive(Debug)]
pub(super) struct MetaWriter<'c> {
    format: RowFormat,
    delete: Statement<'c>,
    insert: Statement<'c>,
}

impl<'c> MetaWriter<'c> {
    pub(super) fn new(connection: &'c Connection, format: &RowFormat) -> Result<MetaWriter<'c>, FileError> {
        let insert = match format {
            RowFormat::Plain => {
                "INSERT INTO meta (id, compacted, swept, retained, base, open, sum) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)"
            }
            RowFormat::Sealed(_) => sealed_meta::INSERT,
        };
        Ok(MetaWriter {
            format: format.clone(),
            delete: connection.prepare("DELETE FROM meta")?,
            insert: connection.prepare(insert)?,
        })
    }

    /// Writes to the file even if nothing changes. It does not use UPDATE, because SQLite skips an UPDATE with the same
    /// values.
    pub(super) fn write(&mut self, meta: &Meta) -> Result<(), FileError> {
        self.delete.execute([])?;
        match &self.format {
            RowFormat::Plain => {
                let columns = meta.columns();
                let [compacted, swept, retained, base, open] = columns;
                self.insert.execute(params![compacted, swept, retained, base, open, checksum(&columns)])?;
            }
            RowFormat::Sealed(ring) => sealed_meta::insert(ring, &mut self.insert, meta)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_revisions_does_not_depend_on_the_order() {
        let mut one = RevisionSet::default();
        let mut other = RevisionSet::default();
        (2..100).map(Revision).for_each(|revision| one.add(revision));
        (2..120).rev().map(Revision).for_each(|revision| other.add(revision));
        assert_ne!(one, other);
        (100..120).map(Revision).for_each(|revision| other.remove(revision));
        assert_eq!(one, other);
        other.add(Revision(7));
        assert_ne!(one, other, "a row that is there twice is noticed");
    }
}
