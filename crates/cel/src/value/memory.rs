//! The memory that a value holds. The evaluation charges it to the budget of its thread, and stops before it holds more
//! memory than an expression may hold.

use std::sync::Arc;

use pintle_budget as budget;

use super::{CelBytes, CelString, EvalResult, List, Map, MapKey, OwnedMap, Value};

/// The memory that the values of one evaluation may hold at once, in bytes. cel-go has no such limit. But the cost
/// limit alone does not stop functions whose results are larger than their arguments.
pub const MAX_EVALUATION_MEMORY: usize = 64 << 20;

/// The size of an element of a list, in bytes.
pub(crate) const ELEMENT_BYTES: usize = size_of::<Value<'_>>();
/// The size of an entry of a map, in bytes, with the unused part of its node.
pub(crate) const ENTRY_BYTES: usize = 2 * (size_of::<MapKey<'_>>() + size_of::<Value<'_>>());
/// The size of a string as an element of a list, in bytes, without its text.
pub(crate) const STRING_BYTES: usize = ELEMENT_BYTES + ALLOCATION_BYTES;
/// The size of an allocation beside its content, in bytes: the counters of its owners.
const ALLOCATION_BYTES: usize = 16;

/// Fails if the evaluation must not hold this many bytes more. It is called before building a value that may be much
/// larger than its parts. The value itself is charged once it is built.
pub(crate) fn ensure_room(bytes: usize) -> EvalResult<()> {
    let before = budget::mark();
    budget::try_charge(bytes)?;
    before.release_all_but(0);
    Ok(())
}

impl Value<'_> {
    /// The bytes of the value's own allocation. Its contents and borrowed data do not count.
    #[inline]
    pub(crate) fn own_bytes(&self) -> usize {
        match self {
            Self::String(CelString::Owned(text)) => ALLOCATION_BYTES + text.len(),
            Self::Bytes(CelBytes::Owned(bytes)) => ALLOCATION_BYTES + bytes.len(),
            Self::List(List::Owned(elements) | List::Adapted(elements, _)) => {
                ALLOCATION_BYTES + elements.len() * ELEMENT_BYTES
            }
            Self::Map(Map::Owned(entries) | Map::Struct { fields: entries, .. }) => {
                ALLOCATION_BYTES + entries.len() * ENTRY_BYTES
            }
            Self::Optional(Some(_)) => ALLOCATION_BYTES + ELEMENT_BYTES,
            _ => 0,
        }
    }

    /// The bytes of the value's own allocation, if the value is new, so that nothing else shares it.
    #[inline]
    pub(crate) fn new_bytes(&self) -> usize {
        let is_shared = match self {
            Self::String(CelString::Owned(text)) => Arc::strong_count(text) > 1,
            Self::Bytes(CelBytes::Owned(bytes)) => Arc::strong_count(bytes) > 1,
            Self::List(List::Owned(elements) | List::Adapted(elements, _)) => Arc::strong_count(elements) > 1,
            Self::Map(Map::Owned(entries) | Map::Struct { fields: entries, .. }) => Arc::strong_count(entries) > 1,
            Self::Optional(Some(value)) => Arc::strong_count(value) > 1,
            _ => true,
        };
        if is_shared { 0 } else { self.own_bytes() }
    }

    /// The bytes of the value and of all its contents, at most `max`. A part that several values share counts for each
    /// of them.
    #[must_use]
    pub fn held_bytes(&self, max: usize) -> usize {
        let own = self.own_bytes();
        if own >= max {
            return max;
        }
        own + match self {
            Self::List(List::Owned(elements) | List::Adapted(elements, _)) => held_bytes(&**elements, max - own),
            Self::Map(Map::Owned(entries) | Map::Struct { fields: entries, .. }) => held_by_entries(entries, max - own),
            Self::Optional(Some(value)) => value.held_bytes(max - own),
            _ => 0,
        }
    }
}

/// The bytes that values hold, at most `max`.
pub(crate) fn held_bytes<'v, 'a: 'v>(values: impl IntoIterator<Item = &'v Value<'a>>, max: usize) -> usize {
    let mut held = 0;
    for value in values {
        if held >= max {
            break;
        }
        held += value.held_bytes(max - held);
    }
    held
}

fn held_by_entries(entries: &OwnedMap<'_>, max: usize) -> usize {
    let mut held = 0;
    for (key, value) in entries {
        if held >= max {
            break;
        }
        if let MapKey::String(CelString::Owned(text)) = key {
            held += text.len();
        }
        held += value.held_bytes(max.saturating_sub(held));
    }
    held.min(max)
}
