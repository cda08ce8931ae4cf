//! The set of the rows of an encrypted store as one number, and the number of rows for each data key. The sealed meta
//! record has the number, and every transaction updates both. The read of the log then notices a row that was removed or
//! put back. It also notices an older row in place of the row with the same revision.
//!
//! The number is the sum of the rows' codes modulo 2^256. It is an incremental multiset hash: rows can be added and
//! removed in any order. (Clarke et al., "Incremental Multiset Hash Functions and Their Application to Memory Integrity
//! Checking", 2003, MSet-Add-Hash. The number needs no random offset, because the meta record is encrypted.)

use std::collections::BTreeMap;

use super::key_ring::DataKeyId;

/// The code of a row, with the data key that seals the row.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct RowCode {
    pub(super) key: DataKeyId,
    pub(super) code: [u8; 32],
}

/// A sum of codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct RowSum([u64; 4]);

impl RowSum {
    pub(super) fn from_bytes(bytes: [u8; 32]) -> RowSum {
        let (words, _) = bytes.as_chunks();
        RowSum(std::array::from_fn(|word| u64::from_le_bytes(words[word])))
    }

    pub(super) fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (part, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(self.0) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn add(&mut self, RowSum(other): RowSum) {
        let mut carry = false;
        for (word, other) in self.0.iter_mut().zip(other) {
            let (sum, overflows) = word.overflowing_add(other);
            let (sum, overflows_by_carry) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, overflows || overflows_by_carry);
        }
    }

    /// The number that gives zero when it is added.
    fn negated(self) -> RowSum {
        let mut negated = RowSum(self.0.map(|word| !word));
        negated.add(RowSum([1, 0, 0, 0]));
        negated
    }
}

/// The sum of the codes of some rows, and the number of these rows by data key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct RowTally {
    sum: RowSum,
    rows: BTreeMap<DataKeyId, u64>,
}

impl RowTally {
    pub(in crate::embedded) fn sum(&self) -> RowSum {
        self.sum
    }

    /// The number of rows that a data key seals.
    pub(super) fn rows(&self, key: DataKeyId) -> u64 {
        self.rows.get(&key).copied().unwrap_or(0)
    }

    pub(in crate::embedded) fn add(&mut self, row: &RowCode) {
        self.sum.add(RowSum::from_bytes(row.code));
        *self.rows.entry(row.key).or_default() += 1;
    }

    pub(in crate::embedded) fn remove(&mut self, row: &RowCode) {
        self.sum.add(RowSum::from_bytes(row.code).negated());
        let rows = self.rows.entry(row.key).or_default();
        *rows = rows.saturating_sub(1);
    }

    /// Adds the rows of another tally.
    pub(in crate::embedded) fn merge(&mut self, other: &RowTally) {
        self.sum.add(other.sum);
        for (key, rows) in &other.rows {
            *self.rows.entry(*key).or_default() += rows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A code whose words often carry.
    fn row(number: u64) -> RowCode {
        let mut code = [0xff; 32];
        code[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        RowCode { key: DataKeyId(1 + number as u32 % 2), code }
    }

    #[test]
    fn a_tally_does_not_depend_on_the_order_of_its_changes() {
        let (mut one, mut first, mut rest) = (RowTally::default(), RowTally::default(), RowTally::default());
        (0..100).for_each(|number| one.add(&row(number)));
        (60..120).rev().for_each(|number| rest.add(&row(number)));
        (0..60).for_each(|number| first.add(&row(number)));
        first.merge(&rest);
        assert_ne!(one.sum(), first.sum());
        (100..120).for_each(|number| first.remove(&row(number)));
        assert_eq!(one, first);
        assert_eq!((first.rows(DataKeyId(1)), first.rows(DataKeyId(2)), first.rows(DataKeyId(3))), (50, 50, 0));
        first.add(&row(7));
        assert_ne!(one.sum(), first.sum(), "a row that is there twice is noticed");
        assert_eq!(RowSum::from_bytes(one.sum().to_bytes()), one.sum());
        (0..100).for_each(|number| one.remove(&row(number)));
        assert_eq!(one.sum(), RowSum::default());
    }
}
