//! The rows of the log in an encrypted store. A row has its revision and the number of its data key in the clear. Its
//! header (key, revisions, times, size) and its value are sealed on their own, so that headers are read without values.
//! Both are authentic for their revision only, and a value is authentic only with the header that was written with it.

use std::sync::Arc;

use bytes::Bytes;
use pintle_sealing::{OVERHEAD, nonce_of, random_pair};
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row as SqlRow, Statement, params};

use super::key_ring::{DataKey, DataKeyId, KeyRing, Part};
use super::row_tally::RowCode;
use crate::embedded::file::FileError;
use crate::embedded::log::{LogRow, RowHeader, missing_row, to_sql_integer, unsigned_column};
use crate::{Key, Revision, Timestamp};

/// `value` is the last column, so that the other columns are read without it. A row without a value is a tombstone.
pub(in crate::embedded) const LOG_SCHEMA: &str = "CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    data_key INTEGER NOT NULL,
    header BLOB NOT NULL,
    value BLOB
) STRICT";

pub(in crate::embedded) const ROW_COLUMNS: &str = "revision, data_key, header, value";
pub(in crate::embedded) const HEADER_COLUMNS: &str = "revision, data_key, header";
pub(in crate::embedded) const INSERT: &str =
    "INSERT INTO log (revision, data_key, header, value) VALUES (?1, ?2, ?3, ?4)";
pub(in crate::embedded) const DELETE: &str = "DELETE FROM log WHERE revision = ?1 RETURNING revision, data_key, header";

/// The numbers of a header: the create revision, the previous revision, the time, the expiry and the size.
const NUMBERS: usize = 5;
const NUMBERS_BYTES: usize = NUMBERS * size_of::<u64>();

/// The number that stands for no expiry, and for no value.
const NONE: u64 = u64::MAX;

/// A row in the form of the file.
pub(super) struct SealedRow {
    pub(super) key: DataKeyId,
    pub(super) header: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) code: RowCode,
}

/// Seals a row with the newest data key.
pub(super) fn seal(ring: &KeyRing, row: &LogRow) -> Result<SealedRow, FileError> {
    let key = ring.newest()?;
    let [header_nonce, value_nonce] = random_pair()?;
    let revision = row.revision.0;
    let header = key.seal(header_nonce, &encode_header(row), Part::Header(revision))?;
    let value = row.value.as_ref().map(|value| key.seal(value_nonce, value, Part::Value(revision, header_nonce)));
    Ok(SealedRow { key: key.id, header, value: value.transpose()?, code: key.row_code(&header_nonce) })
}

pub(in crate::embedded) fn insert(
    ring: &KeyRing,
    statement: &mut Statement<'_>,
    row: &LogRow,
) -> Result<RowCode, FileError> {
    let SealedRow { key, header, value, code } = seal(ring, row)?;
    statement.execute(params![to_sql_integer(row.revision.0), key.0, header, value])?;
    Ok(code)
}

/// Deletes the row of a revision, which must exist.
pub(in crate::embedded) fn delete(
    ring: &KeyRing,
    statement: &mut Statement<'_>,
    revision: Revision,
) -> Result<RowCode, FileError> {
    let code = statement.query_row([to_sql_integer(revision.0)], |row| Ok(read_code(ring, row))).optional()?;
    code.unwrap_or_else(|| Err(missing_row(revision)))
}

/// The code of a row. The header is not opened.
fn read_code(ring: &KeyRing, row: &SqlRow<'_>) -> Result<RowCode, FileError> {
    let SealedColumns { revision, key, header } = SealedColumns::read(ring, row)?;
    let nonce = nonce_of(header).ok_or_else(|| not_authentic("record", revision))?;
    Ok(key.row_code(nonce))
}

pub(in crate::embedded) fn read_header(ring: &KeyRing, row: &SqlRow<'_>) -> Result<(RowHeader, RowCode), FileError> {
    let SealedColumns { revision, key, header } = SealedColumns::read(ring, row)?;
    open_header(&key, revision, header, None)
}

/// Reads a row. If `known` is given, it is the key of the row.
pub(in crate::embedded) fn read_row(
    ring: &KeyRing,
    row: &SqlRow<'_>,
    known: Option<&Key>,
) -> Result<(LogRow, RowCode), FileError> {
    let SealedColumns { revision, key, header } = SealedColumns::read(ring, row)?;
    let value = match row.get_ref(3)? {
        ValueRef::Blob(value) => Some(value),
        ValueRef::Null => None,
        other => return Err(FileError::Corrupted(format!("a value has the type {}", other.data_type()))),
    };
    open_row(&key, revision, header, value, known)
}

/// Opens a row with its data key.
pub(super) fn open_row(
    key: &DataKey,
    revision: Revision,
    header: &[u8],
    value: Option<&[u8]>,
    known: Option<&Key>,
) -> Result<(LogRow, RowCode), FileError> {
    let nonce = *nonce_of(header).ok_or_else(|| not_authentic("record", revision))?;
    let (header, code) = open_header(key, revision, header, known)?;
    // The header has the size of the value, so that a value cannot be removed or cut off.
    if header.size != value.map(|value| value.len().saturating_sub(OVERHEAD)) {
        return Err(not_authentic("value", revision));
    }
    let open = |sealed: &[u8]| key.open(sealed, Part::Value(revision.0, nonce));
    let value = value.map(|sealed| open(sealed).ok_or_else(|| not_authentic("value", revision))).transpose()?;
    let RowHeader { revision, key, create_revision, previous, time, expires, .. } = header;
    Ok((LogRow { revision, key, create_revision, previous, time, expires, value: value.map(Bytes::from) }, code))
}

/// The columns of a row without its value.
struct SealedColumns<'r> {
    revision: Revision,
    key: Arc<DataKey>,
    header: &'r [u8],
}

impl<'r> SealedColumns<'r> {
    fn read(ring: &KeyRing, row: &'r SqlRow<'_>) -> Result<SealedColumns<'r>, FileError> {
        let revision = Revision(unsigned_column(row, 0)?);
        let id = unsigned_column(row, 1)?;
        let key = u32::try_from(id).ok().and_then(|id| ring.key(DataKeyId(id)));
        let key = key.ok_or_else(|| {
            FileError::Corrupted(format!("the record of revision {revision} has the data key {id}, which is missing"))
        })?;
        let header = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        Ok(SealedColumns { revision, key, header })
    }
}

fn open_header(
    key: &DataKey,
    revision: Revision,
    sealed: &[u8],
    known: Option<&Key>,
) -> Result<(RowHeader, RowCode), FileError> {
    let header = key.open(sealed, Part::Header(revision.0)).and_then(|plain| decode_header(revision, &plain, known));
    let code = nonce_of(sealed).map(|nonce| key.row_code(nonce));
    header.zip(code).ok_or_else(|| not_authentic("record", revision))
}

fn encode_header(row: &LogRow) -> Vec<u8> {
    let numbers: [u64; NUMBERS] = [
        row.create_revision.0,
        row.previous.map_or(0, |revision| revision.0),
        row.time.0,
        row.expires.map_or(NONE, |time| time.0),
        row.value.as_ref().map_or(NONE, |value| value.len() as u64),
    ];
    let mut plain = Vec::with_capacity(NUMBERS_BYTES + row.key.len());
    numbers.iter().for_each(|number| plain.extend_from_slice(&number.to_le_bytes()));
    plain.extend_from_slice(row.key.as_bytes());
    plain
}

/// Reads a header. If the key equals the known key, the result shares the known key's text.
fn decode_header(revision: Revision, plain: &[u8], known: Option<&Key>) -> Option<RowHeader> {
    let (numbers, key) = plain.split_at_checked(NUMBERS_BYTES)?;
    let (numbers, _) = numbers.as_chunks();
    let number = |index: usize| numbers.get(index).map(|bytes| u64::from_le_bytes(*bytes));
    let some = |number: u64| Some(number).filter(|number| *number != NONE);
    let key = std::str::from_utf8(key).ok()?;
    Some(RowHeader {
        revision,
        key: known.filter(|known| known.as_str() == key).map_or_else(|| Key::from(key), Key::clone),
        create_revision: Revision(number(0)?),
        previous: Some(number(1)?).filter(|previous| *previous != 0).map(Revision),
        time: Timestamp(number(2)?),
        expires: some(number(3)?).map(Timestamp),
        size: some(number(4)?).map(|size| usize::try_from(size).unwrap_or(usize::MAX)),
    })
}

fn not_authentic(what: &str, revision: Revision) -> FileError {
    FileError::Corrupted(format!("the {what} of revision {revision} is not authentic"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use pintle_sealing::SecretKey;

    fn data_key() -> DataKey {
        DataKey::new(DataKeyId::FIRST, SecretKey::new([3; 32]))
    }

    fn row() -> impl Strategy<Value = LogRow> {
        let numbers = (1..1000_u64, 1..1000_u64, any::<Option<u32>>(), any::<u32>(), any::<Option<u32>>());
        let texts = (".{0,40}", any::<Option<Vec<u8>>>());
        (numbers, texts).prop_map(|((revision, created, previous, time, expires), (key, value))| LogRow {
            revision: Revision(revision),
            key: Key::from(key.as_str()),
            create_revision: Revision(created),
            previous: previous.filter(|previous| *previous > 0).map(|previous| Revision(previous.into())),
            time: Timestamp(time.into()),
            expires: expires.map(|expires| Timestamp(expires.into())),
            value: value.map(Bytes::from),
        })
    }

    fn seal_with(key: &DataKey, row: &LogRow) -> (Vec<u8>, Option<Vec<u8>>) {
        let [one, two] = random_pair().expect("random bytes");
        let revision = row.revision.0;
        let header = key.seal(one, &encode_header(row), Part::Header(revision)).expect("a short text");
        let value = row.value.as_ref().map(|value| key.seal(two, value, Part::Value(revision, one)));
        (header, value.map(|value| value.expect("a short text")))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_row_is_read_as_it_was_written(row in row()) {
            let key = data_key();
            let (header, value) = seal_with(&key, &row);
            let (read, _) = open_row(&key, row.revision, &header, value.as_deref(), None).expect("authentic");
            prop_assert_eq!(format!("{read:?}"), format!("{row:?}"));
            let other = Revision(row.revision.0 + 1);
            prop_assert!(open_row(&key, other, &header, value.as_deref(), None).is_err());
        }

        /// Whatever is in the columns, reading them neither panics nor succeeds.
        #[test]
        fn other_bytes_are_not_authentic(
            row in row(),
            bytes in any::<Vec<u8>>(),
            other in any::<Option<Vec<u8>>>(),
        ) {
            let key = data_key();
            let (header, value) = seal_with(&key, &row);
            prop_assert!(open_row(&key, row.revision, &bytes, value.as_deref(), None).is_err());
            prop_assert!(open_row(&key, row.revision, &bytes, other.as_deref(), None).is_err());
            let is_same = other.is_none() && value.is_none();
            prop_assert_eq!(open_row(&key, row.revision, &header, other.as_deref(), None).is_ok(), is_same);
        }

        /// A header that is authentic, but that no version has written.
        #[test]
        fn an_authentic_header_of_any_bytes_is_read_without_a_panic(plain in any::<Vec<u8>>()) {
            if let Some(header) = decode_header(Revision(7), &plain, None) {
                prop_assert_eq!(header.key.len() + NUMBERS_BYTES, plain.len());
            }
        }
    }
}
