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

pub(in crate::embedded) const INSERT: &str = "INSERT INTO meta (id, data_key, sealed) VALUES (1, ?1, ?2)";

/// Seven numbers and the sum of the rows.
const META_BYTES: usize = 7 * size_of::<u64>() + 32;

/// Reads the record, and continues the number of sealings of its data key.
pub(in crate::embedded) fn read(ring: &KeyRing, connection: &Connection) -> Result<Meta, FileError> {
    let query = "SELECT data_key, sealed FROM meta WHERE id = 1";
    let (id, sealed): (u64, Vec<u8>) =
        connection.query_row(query, [], |row| Ok((unsigned_column(row, 0)?, row.get(1)?)))?;
    let key = u32::try_from(id).ok().and_then(|id| ring.key(DataKeyId(id)));
    let opened = key.and_then(|key| {
        let (meta, sealings) = decode(&key.open(&sealed, Part::Meta)?)?;
        key.continue_sealings(sealings);
        Some(meta)
    });
    opened.ok_or_else(|| FileError::Corrupted("its meta record is not authentic".to_owned()))
}

pub(in crate::embedded) fn insert(ring: &KeyRing, statement: &mut Statement<'_>, meta: &Meta) -> Result<(), FileError> {
    let key = ring.newest()?;
    let sealed = key.seal(pintle_sealing::random()?, &encode(meta, key.sealings()), Part::Meta)?;
    statement.execute(params![key.id.0, sealed])?;
    Ok(())
}

fn encode(meta: &Meta, sealings: u64) -> Vec<u8> {
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
    plain
}

/// Returns the record and the number of sealings.
fn decode(plain: &[u8]) -> Option<(Meta, u64)> {
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
    Some((meta, number(6)?)).filter(|_| plain.len() == META_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_record_is_read_as_it_was_written(numbers in any::<[u64; 5]>(), is_open in any::<bool>(), rows in any::<[u8; 32]>()) {
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
            let plain = encode(&meta, sealings);
            prop_assert_eq!(plain.len(), META_BYTES);
            prop_assert_eq!(decode(&plain), Some((meta, sealings)));
            prop_assert_eq!(decode(&plain[1..]), None);
        }

        #[test]
        fn other_bytes_are_read_without_a_panic(plain in any::<Vec<u8>>()) {
            prop_assert_eq!(decode(&plain).is_some(), plain.len() == META_BYTES);
        }
    }
}
