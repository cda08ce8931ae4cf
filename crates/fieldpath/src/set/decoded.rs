//! A cache of decoded field sets by their texts. Each write of an object decodes its entries, although few of them
//! change. Objects of one kind that the same programs write have the same entries. The meaning of a text never changes,
//! so all servers of a process share the cache.

use std::mem;
use std::sync::LazyLock;

use hashbrown::HashMap;
use pintle_locks::Mutex;

use super::FieldSet;

/// The maximum length of a text in the cache, in bytes.
const MAX_TEXT: usize = 16 << 10;
/// The maximum length of all texts in one half of the cache, in bytes. A decoded set takes about six times as much.
const MAX_HALF: usize = 128 << 10;

/// The set that a text was decoded to.
#[derive(Clone)]
pub(super) struct Decoded {
    pub(super) set: FieldSet,
    /// Whether encoding the set gives the same text.
    pub(super) is_canonical: bool,
}

/// The texts that were used last, in two halves. When the newer half is full, it becomes the older one. The texts of
/// the former older half are forgotten unless they have been used again.
#[derive(Default)]
struct DecodedSets {
    newer: HashMap<Box<str>, Decoded>,
    older: HashMap<Box<str>, Decoded>,
    /// The bytes of the texts of the newer half.
    bytes: usize,
}

static DECODED: LazyLock<Mutex<DecodedSets>> = LazyLock::new(Mutex::default);

/// The forgotten texts and sets. They are dropped after the lock has been released, because that takes longer than all
/// else.
type Forgotten = HashMap<Box<str>, Decoded>;

impl DecodedSets {
    fn get(&mut self, text: &str) -> (Option<Decoded>, Forgotten) {
        if let Some(decoded) = self.newer.get(text) {
            return (Some(decoded.clone()), Forgotten::new());
        }
        let Some((text, decoded)) = self.older.remove_entry(text) else { return (None, Forgotten::new()) };
        let forgotten = self.insert(text, decoded.clone());
        (Some(decoded), forgotten)
    }

    fn insert(&mut self, text: Box<str>, decoded: Decoded) -> Forgotten {
        let mut forgotten = Forgotten::new();
        if self.bytes + text.len() > MAX_HALF {
            forgotten = mem::replace(&mut self.older, mem::take(&mut self.newer));
            self.bytes = 0;
        }
        self.bytes += text.len();
        self.newer.insert(text, decoded);
        forgotten
    }
}

/// The decoded set of a text, if the cache has it.
pub(super) fn get(text: &str) -> Option<Decoded> {
    if text.len() > MAX_TEXT {
        return None;
    }
    let (decoded, _forgotten) = DECODED.lock().get(text);
    decoded
}

/// Adds the decoded set of a text to the cache.
pub(super) fn insert(text: &str, set: &FieldSet) {
    if text.len() <= MAX_TEXT {
        let is_canonical = set.to_encoded().is_some_and(|own| own.text() == text);
        let decoded = Decoded { set: set.clone(), is_canonical };
        let _forgotten = DECODED.lock().insert(text.into(), decoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PathElement;

    fn text(number: usize, length: usize) -> Box<str> {
        format!("{number:0length$}").into()
    }

    #[test]
    fn texts_that_are_used_stay_and_memory_is_bounded() {
        let mut sets = DecodedSets::default();
        let set: FieldSet = [[PathElement::field("a")]].into_iter().collect();
        let decoded = || Decoded { set: set.clone(), is_canonical: true };
        let count = 10 * MAX_HALF / 1000;
        let mut forgotten = 0;
        sets.insert(text(0, 1000), decoded());
        for number in 1..count {
            forgotten += sets.insert(text(number, 1000), decoded()).len();
            let (found, also_forgotten) = sets.get(&text(0, 1000));
            forgotten += also_forgotten.len();
            assert!(found.is_some(), "{number}");
            let kept: usize = sets.newer.keys().chain(sets.older.keys()).map(|text| text.len()).sum();
            assert!(kept <= 2 * MAX_HALF, "{kept}");
        }
        assert_eq!(sets.newer.len() + sets.older.len() + forgotten, count);
        assert!(sets.get(&text(1, 1000)).0.is_none());
        assert!(sets.get(&text(count - 1, 1000)).0.is_some());
    }

    #[test]
    fn a_text_in_another_order_is_not_canonical() {
        let set: FieldSet = [[PathElement::field("a")], [PathElement::field("b")]].into_iter().collect();
        for (text, expect) in [(r#"{"f:a":{},"f:b":{}}"#, true), (r#"{"f:b":{},"f:a":{}}"#, false)] {
            insert(text, &set);
            let decoded = get(text).expect("a set");
            assert_eq!((decoded.set == set, decoded.is_canonical), (true, expect), "{text}");
        }
        assert!(get(&text(0, MAX_TEXT + 1)).is_none());
        insert(&text(0, MAX_TEXT + 1), &set);
        assert!(get(&text(0, MAX_TEXT + 1)).is_none());
    }
}
