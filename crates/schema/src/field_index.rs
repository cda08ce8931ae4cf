//! An index of a struct's fields by name. Every typed walk looks up each key of an object.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::Field;

/// Indexes into a list of fields, by name. Derived from the fields, so it is ignored when comparing structs.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldIndex {
    indexes: HashTable<u16>,
    hasher: DefaultHashBuilder,
}

impl FieldIndex {
    /// Builds the index of these fields.
    pub(crate) fn of(fields: &[Field]) -> Self {
        let mut field_index =
            Self { indexes: HashTable::with_capacity(fields.len()), hasher: DefaultHashBuilder::default() };
        for (index, field) in (0..=u16::MAX).zip(fields) {
            if field_index.index_of(fields, &field.name).is_none() {
                let rehash = |index: &u16| field_index.hasher.hash_one(fields[usize::from(*index)].name.as_str());
                field_index.indexes.insert_unique(field_index.hasher.hash_one(field.name.as_str()), index, rehash);
            }
        }
        field_index
    }

    /// Returns the index of the field with this name. `fields` must be the indexed list.
    pub(crate) fn index_of(&self, fields: &[Field], name: &str) -> Option<usize> {
        let is_match = |index: &u16| fields[usize::from(*index)].name == name;
        self.indexes.find(self.hasher.hash_one(name), is_match).map(|index| usize::from(*index))
    }
}

impl PartialEq for FieldIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
