//! Finds values in long enums without a comparison with each enum value. A list of many values may have a long enum.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use pintle_value::{Value, ValueKey};

use super::model::{IndexRange, to_index};

/// Enums of at most this length are searched from the start.
const SHORT: u32 = 16;

/// The values of the long enums of a schema.
#[derive(Debug, Default)]
pub(super) struct EnumIndex {
    hashes: RandomState,
    /// The indexes of values, by the start of their enum and their hash.
    found: HashMap<(u32, u64), Vec<u32>>,
}

impl EnumIndex {
    /// Adds an enum, unless it is short.
    pub(super) fn add(&mut self, range: IndexRange, values: &[Value]) {
        if range.len <= SHORT {
            return;
        }
        for (i, value) in range.slice(values).iter().enumerate() {
            let hash = self.hashes.hash_one(ValueKey(value));
            self.found.entry((range.start, hash)).or_default().push(to_index(i));
        }
    }

    /// Whether an enum has a value.
    pub(super) fn contains(&self, range: IndexRange, values: &[Value], value: &Value) -> bool {
        let values = range.slice(values);
        if range.len <= SHORT {
            return values.contains(value);
        }
        let found = self.found.get(&(range.start, self.hashes.hash_one(ValueKey(value))));
        found.into_iter().flatten().any(|i| values.get(*i as usize) == Some(value))
    }
}
