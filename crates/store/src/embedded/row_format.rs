//! The two forms of a store file: plain, and sealed with data keys. The readers and writers of the log and of the meta
//! record use this type and do not know the form.

use std::sync::Arc;

use rusqlite::{Row as SqlRow, Statement};

use super::encryption::{DATA_KEYS_SCHEMA, KeyRing, RowCode, sealed_meta, sealed_rows};
use super::file::FileError;
use super::log::{LogRow, RowHeader};
use super::{meta, plain_rows};
use crate::{Key, Revision};

/// The format version of an encrypted store.
pub(super) const SEALED_VERSION: i64 = 3;

/// The form of a store file.
#[derive(Clone, Debug, Default)]
pub(super) enum RowFormat {
    #[default]
    Plain,
    Sealed(Arc<KeyRing>),
}

impl RowFormat {
    /// The version that is in the header of a file with this form.
    pub(super) fn version(&self) -> i64 {
        match self {
            RowFormat::Plain => meta::PLAIN_VERSION,
            RowFormat::Sealed(_) => SEALED_VERSION,
        }
    }

    /// The names of the tables, with their schemas.
    pub(super) fn tables(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            RowFormat::Plain => &[("log", plain_rows::LOG_SCHEMA), ("meta", meta::META_SCHEMA)],
            RowFormat::Sealed(_) => {
                &[("log", sealed_rows::LOG_SCHEMA), ("meta", sealed_meta::META_SCHEMA), ("data_keys", DATA_KEYS_SCHEMA)]
            }
        }
    }

    /// The columns of a row. The first one is its revision.
    pub(super) fn row_columns(&self) -> &'static str {
        match self {
            RowFormat::Plain => plain_rows::ROW_COLUMNS,
            RowFormat::Sealed(_) => sealed_rows::ROW_COLUMNS,
        }
    }

    /// The columns of a row without its value.
    pub(super) fn header_columns(&self) -> &'static str {
        match self {
            RowFormat::Plain => plain_rows::HEADER_COLUMNS,
            RowFormat::Sealed(_) => sealed_rows::HEADER_COLUMNS,
        }
    }

    /// The statement for [`RowFormat::insert`].
    pub(super) fn insert_statement(&self) -> &'static str {
        match self {
            RowFormat::Plain => plain_rows::INSERT,
            RowFormat::Sealed(_) => sealed_rows::INSERT,
        }
    }

    /// The statement for [`RowFormat::delete`].
    pub(super) fn delete_statement(&self) -> &'static str {
        match self {
            RowFormat::Plain => plain_rows::DELETE,
            RowFormat::Sealed(_) => sealed_rows::DELETE,
        }
    }

    /// Inserts a row. Returns its code if the store is encrypted.
    pub(super) fn insert(&self, statement: &mut Statement<'_>, row: &LogRow) -> Result<Option<RowCode>, FileError> {
        match self {
            RowFormat::Plain => plain_rows::insert(statement, row).map(|()| None),
            RowFormat::Sealed(ring) => sealed_rows::insert(ring, statement, row).map(Some),
        }
    }

    /// Deletes the row of a revision, which must exist. Returns its code if the store is encrypted.
    pub(super) fn delete(
        &self,
        statement: &mut Statement<'_>,
        revision: Revision,
    ) -> Result<Option<RowCode>, FileError> {
        match self {
            RowFormat::Plain => plain_rows::delete(statement, revision).map(|()| None),
            RowFormat::Sealed(ring) => sealed_rows::delete(ring, statement, revision).map(Some),
        }
    }

    /// Reads the [`RowFormat::header_columns`].
    pub(super) fn read_header(&self, row: &SqlRow<'_>) -> Result<(RowHeader, Option<RowCode>), FileError> {
        match self {
            RowFormat::Plain => plain_rows::read_header(row).map(|header| (header, None)),
            RowFormat::Sealed(ring) => sealed_rows::read_header(ring, row).map(|(header, code)| (header, Some(code))),
        }
    }

    /// Reads the [`RowFormat::row_columns`]. If `key` is given, it is the key of the row.
    pub(super) fn read_row(&self, row: &SqlRow<'_>, key: Option<&Key>) -> Result<LogRow, FileError> {
        match self {
            RowFormat::Plain => plain_rows::read_row(row, key),
            RowFormat::Sealed(ring) => sealed_rows::read_row(ring, row, key).map(|(row, _)| row),
        }
    }
}
