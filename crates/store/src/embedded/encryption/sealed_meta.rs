//! The meta record of an encrypted store. It is sealed as a whole. Besides the numbers of every store, it has the newest
//! revision and the sum of the codes of all rows. Every transaction writes it.

use rusqlite::{Connection, Statement, params};

use super::key_ring::{DataKeyId, KeyRing, Part};
use super::row_tally::RowSum;
use crate::Revision;
use crate::embedded::file::FileError;
use crate::embedded::log::unsigned_column;
use crate::embedded::meta::{Meta, RevisionSet};

pub(in crate::embedded) const META_SCHEMA: &str = "CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    data_key INTEGER NOT NULL,
    sealed BLOB NOT NULL
) STRICT";

pub(in crate::embedded) const REPLACE: &str = "REPLACE INTO meta (id, data_key, sealed) VALUES (1, ?1, ?2)";

/// Seven numbers and the sum of the rows. The ids of the data keys follow.
const META_BYTES: usize = 7 * size_of::<u64>() + 32;

/// Reads the record, and continues the number of sealings of its data key.
pub(in crate::embedded) fn read(ring: &KeyRing, connection: &Connection) -> Result<Meta, FileError> {
    let query = "SELECT data_key, sealed FROM meta WHERE id = 1";
    let (id, sealed): (u64, Vec<u8>) =
        connection.query_row(query, [], |row| Ok((unsigned_column(row, 0)?, row.get(1)?)))?;
    let key = u32::try_from(id).ok().and_then(|id| ring.key(DataKeyId(id)));
    let opened = key.and_then(|key| {
        let sealed = decode(&key.open(&sealed, Part::Meta)?)?;
        key.continue_sealings(sealed.sealings);
        Some(sealed)
    });
    let SealedMeta { meta, data_keys, .. } =
        opened.ok_or_else(|| FileError::Corrupted("its meta record is not authentic".to_owned()))?;
    // Somebody may have put a data key that he knows into the file.
    if data_keys != ring.ids_in_file() {
        return Err(FileError::Corrupted("its data keys are not those of its meta record".to_owned()));
    }
    Ok(meta)
}

/// The content of the record.
#[derive(Debug, PartialEq, Eq)]
struct SealedMeta {
    meta: Meta,
    /// The number of texts that its data key had sealed before.
    sealings: u64,
    /// The data keys of the file.
    data_keys: Vec<DataKeyId>,
}

pub(in crate::embedded) fn replace(
    ring: &KeyRing,
    statement: &mut Statement<'_>,
    meta: &Meta,
) -> Result<(), FileError> {
    let key = ring.newest()?;
    let plain = encode(meta, key.sealings(), &ring.ids_in_file());
    let sealed = key.seal(pintle_sealing::random()?, &plain, Part::Meta)?;
    statement.execute(params![key.id.0, sealed])?;
    Ok(())
}

fn encode(meta: &Meta, sealings: u64, data_keys: &[DataKeyId]) -> Vec<u8> {
    let numbers: [u64; 7] = [
        meta.compact_revision.0,
        meta.purged_revision.0,
        meta.retained.unwrap_or_default().0,
        meta.base.0,
        u64::from(meta.is_open),
        meta.newest.unwrap_or_default().0,
        sealings,
    ];
    let mut plain = Vec::with_capacity(META_BYTES);
    numbers.iter().for_each(|number| plain.extend_from_slice(&number.to_le_bytes()));
    plain.extend_from_slice(&meta.rows.unwrap_or_default().to_bytes());
    data_keys.iter().for_each(|id| plain.extend_from_slice(&id.0.to_le_bytes()));
    plain
}

fn decode(plain: &[u8]) -> Option<SealedMeta> {
    let (plain, data_keys) = plain.split_at_checked(META_BYTES)?;
    let (data_keys, rest) = data_keys.as_chunks();
    let data_keys = data_keys.iter().map(|id| DataKeyId(u32::from_le_bytes(*id))).collect();
    let (rows, numbers) = (*plain.last_chunk::<32>()?, plain.first_chunk::<{ META_BYTES - 32 }>()?);
    let (numbers, _) = numbers.as_chunks();
    let number = |index: usize| numbers.get(index).map(|bytes| u64::from_le_bytes(*bytes));
    let meta = Meta {
        compact_revision: Revision(number(0)?),
        purged_revision: Revision(number(1)?),
        retained: Some(RevisionSet(number(2)?)),
        base: Revision(number(3)?),
        is_open: number(4)? != 0,
        newest: Some(Revision(number(5)?)),
        rows: Some(RowSum::from_bytes(rows)),
    };
    Some(SealedMeta { meta, sealings: number(6)?, data_keys }).filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_record_is_read_as_it_was_written(
            numbers in any::<[u64; 5]>(),
            is_open in any::<bool>(),
            rows in any::<[u8; 32]>(),
            data_keys in any::<Vec<u32>>(),
        ) {
            let [compact, purged, base, newest, sealings] = numbers;
            let meta = Meta {
                compact_revision: Revision(compact),
                purged_revision: Revision(purged),
                retained: Some(RevisionSet(compact ^ purged)),
                base: Revision(base),
                is_open,
                newest: Some(Revision(newest)),
                rows: Some(RowSum::from_bytes(rows)),
            };
            let data_keys: Vec<DataKeyId> = data_keys.into_iter().map(DataKeyId).collect();
            let plain = encode(&meta, sealings, &data_keys);
            prop_assert_eq!(plain.len(), META_BYTES + 4 * data_keys.len());
            prop_assert_eq!(decode(&plain[1..]), None);
            prop_assert_eq!(decode(&plain), Some(SealedMeta { meta, sealings, data_keys }));
        }

        #[test]
        fn other_bytes_are_read_without_a_panic(plain in any::<Vec<u8>>()) {
            let is_whole = plain.len().checked_sub(META_BYTES).is_some_and(|rest| rest.is_multiple_of(4));
            prop_assert_eq!(decode(&plain).is_some(), is_whole);
        }
    }
}
