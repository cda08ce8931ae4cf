//! Where the fields of a struct are, by name. Every walk over an object by its type asks for each of its keys.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::Field;

/// Places in a list of fields, by the fields' names. Derived from the fields, so that it makes no two structs differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    places: HashTable<u16>,
    hasher: DefaultHashBuilder,
}

impl Names {
    /// The names of these fields.
    pub(crate) fn of(fields: &[Field]) -> Self {
        let mut names = Self { places: HashTable::with_capacity(fields.len()), hasher: DefaultHashBuilder::default() };
        for (place, field) in (0..=u16::MAX).zip(fields) {
            if names.place(fields, &field.name).is_none() {
                let rehash = |place: &u16| names.hasher.hash_one(fields[usize::from(*place)].name.as_str());
                names.places.insert_unique(names.hasher.hash_one(field.name.as_str()), place, rehash);
            }
        }
        names
    }

    /// The place of the field with this name in the fields that the names are of.
    pub(crate) fn place(&self, fields: &[Field], name: &str) -> Option<usize> {
        let is_it = |place: &u16| fields[usize::from(*place)].name == name;
        self.places.find(self.hasher.hash_one(name), is_it).map(|place| usize::from(*place))
    }
}

impl PartialEq for Names {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
