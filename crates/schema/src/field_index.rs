//! An index of a struct's fields by name. Every typed walk looks up each key of an object, and a usual hash table would
//! spend most of the time with hashing. Only the few structs with many fields have such a hash table. They are structs
//! of custom resources, whose authors could choose names that collide.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use pintle_value::key_prefix;

use crate::Field;

/// Maximum number of fields of a struct whose index needs no hashing. Every built-in struct has fewer fields.
const MAX_PREFIXED: usize = 64;

/// Maps names to indexes of a list of fields. It derives from the fields, so comparisons of structs ignore it.
#[derive(Clone, Debug)]
pub(crate) enum FieldIndex {
    ByPrefix(PrefixTable),
    ByHash { indexes: HashTable<u16>, hasher: DefaultHashBuilder },
}

impl Default for FieldIndex {
    fn default() -> Self {
        Self::ByPrefix(PrefixTable::default())
    }
}

impl FieldIndex {
    /// Builds the index of these fields.
    pub(crate) fn of(fields: &[Field]) -> Self {
        if fields.len() <= MAX_PREFIXED {
            return Self::ByPrefix(PrefixTable::of(fields));
        }
        let hasher = DefaultHashBuilder::default();
        let hash = |index: &u16| hasher.hash_one(fields[usize::from(*index)].name.as_str());
        let mut indexes = HashTable::with_capacity(fields.len());
        for (index, field) in (0..=u16::MAX).zip(fields) {
            let is_same = |other: &u16| fields[usize::from(*other)].name == field.name;
            // If several fields have a name, the first of them is found.
            indexes.entry(hash(&index), is_same, hash).or_insert(index);
        }
        Self::ByHash { indexes, hasher }
    }

    /// Returns the index of the field with this name. `fields` must be the indexed list.
    pub(crate) fn index_of(&self, fields: &[Field], name: &str) -> Option<usize> {
        match self {
            Self::ByPrefix(table) => table.index_of(fields, name),
            Self::ByHash { indexes, hasher } => {
                let is_match = |index: &u16| fields[usize::from(*index)].name == name;
                indexes.find(hasher.hash_one(name), is_match).map(|index| usize::from(*index))
            }
        }
    }
}

impl PartialEq for FieldIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// An index by the starts of names.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefixTable {
    /// A hash table with linear probing. Its size is a power of two, and at least half of it is empty.
    slots: Box<[Slot]>,
}

/// A slot of the hash table.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The start of the name, see [`key_prefix`]. Few names of a struct have the same start.
    prefix: u64,
    /// The field's index in the list, or [`EMPTY`].
    index: u16,
}

/// The index of no field.
const EMPTY: u16 = u16::MAX;

impl PrefixTable {
    fn of(fields: &[Field]) -> Self {
        let size = (2 * fields.len()).next_power_of_two().max(2);
        let mut table = Self { slots: vec![Slot { prefix: 0, index: EMPTY }; size].into_boxed_slice() };
        for (index, field) in (0..EMPTY).zip(fields) {
            if table.index_of(fields, &field.name).is_none() {
                let prefix = key_prefix(&field.name);
                let mut at = table.start(prefix);
                while table.slots[at].index != EMPTY {
                    at = table.next(at);
                }
                table.slots[at] = Slot { prefix, index };
            }
        }
        table
    }

    fn index_of(&self, fields: &[Field], name: &str) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let prefix = key_prefix(name);
        let mut at = self.start(prefix);
        loop {
            let slot = self.slots[at];
            if slot.index == EMPTY {
                return None;
            }
            if slot.prefix == prefix && fields[usize::from(slot.index)].name == name {
                return Some(usize::from(slot.index));
            }
            at = self.next(at);
        }
    }

    /// The slot at which the search for a name begins. The highest bits of a product depend on all bits of the prefix.
    fn start(&self, prefix: u64) -> usize {
        const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
        let bits = self.slots.len().trailing_zeros();
        (prefix.wrapping_mul(GOLDEN_RATIO) >> (64 - bits)) as usize
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}
