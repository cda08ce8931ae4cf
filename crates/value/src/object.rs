//! JSON objects. The members of an object are a sorted list, or the text that they were read from or will be written
//! as: most field sets (`metav1.FieldsV1`, which is a text in Go, too) are only copied.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::{Str, Value};

/// Maximum number of members for a linear search.
const LINEAR_SEARCH_MAX: usize = 16;

/// A JSON object with unique keys, sorted by their bytes. The field order of Go structs is not stored here; the encoder
/// takes it from the schema.
#[derive(Clone)]
pub struct Object {
    members: Members,
}

/// The members of an object.
#[derive(Clone)]
enum Members {
    Decoded(Vec<Member>),
    Encoded(Arc<EncodedObject>),
}

/// A member of an object.
#[derive(Clone, PartialEq)]
pub struct Member {
    /// Decides most comparisons of keys, so that few compare text.
    prefix: u64,
    key: Str,
    value: Value,
}

impl Member {
    /// A member with this key.
    #[inline]
    #[must_use]
    pub fn new(key: Str, value: Value) -> Self {
        Self { prefix: key_prefix(&key), key, value }
    }

    /// Whether this is the key, whose prefix is the same. A key of up to eight bytes is its prefix and its length.
    #[inline]
    fn has_key(&self, key: &str) -> bool {
        let own = self.key.as_bytes();
        own.len() == key.len() && (own.len() <= 8 || own[8..] == key.as_bytes()[8..])
    }

    /// Compares the keys by their bytes.
    #[inline]
    fn cmp_key(&self, prefix: u64, key: &str) -> Ordering {
        self.prefix.cmp(&prefix).then_with(|| self.key.as_str().cmp(key))
    }
}

/// The first eight bytes of a key as a number, which is ordered like the keys. Shorter keys are padded with zeros.
#[inline]
#[must_use]
pub fn key_prefix(key: &str) -> u64 {
    let bytes = key.as_bytes();
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let unused = 8 * (8 - bytes.len());
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // The two halves may overlap.
        return u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << unused;
    }
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    if bytes.is_empty() { 0 } else { number << unused }
}

/// An object as JSON text, whose members are decoded when they are first used.
pub struct EncodedObject {
    text: Box<str>,
    is_sorted: bool,
    decode: fn(&str) -> Object,
    members: OnceLock<Vec<Member>>,
}

impl EncodedObject {
    /// Compact JSON of an object that has members. `is_sorted` says that the keys at every level are sorted by their bytes,
    /// and `decode` decodes the text.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>, is_sorted: bool, decode: fn(&str) -> Object) -> Self {
        let text = text.into();
        debug_assert!(text.len() > 2, "an object without members: {text}");
        Self { text, is_sorted, decode, members: OnceLock::new() }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the keys at every level are known to be sorted by their bytes.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    #[cold]
    fn members(&self) -> &[Member] {
        self.members.get_or_init(|| (self.decode)(&self.text).into_members())
    }
}

impl From<EncodedObject> for Object {
    fn from(encoded: EncodedObject) -> Self {
        Self { members: Members::Encoded(Arc::new(encoded)) }
    }
}

impl Default for Object {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let is_same_text = match (self.encoded(), other.encoded()) {
            (Some(text), Some(other)) => text.text == other.text,
            _ => false,
        };
        is_same_text || self.entries() == other.entries()
    }
}

impl Object {
    /// An empty object.
    #[must_use]
    pub const fn new() -> Self {
        Self { members: Members::Decoded(Vec::new()) }
    }

    /// An empty object with capacity for `n` entries.
    #[must_use]
    pub fn with_capacity(n: usize) -> Self {
        Self { members: Members::Decoded(Vec::with_capacity(n)) }
    }

    /// Creates an object from unsorted entries. The last of duplicate keys wins, as in Go.
    #[must_use]
    pub fn from_entries(entries: Vec<(Str, Value)>) -> Self {
        Self::from_members(entries.into_iter().map(|(key, value)| Member::new(key, value)).collect())
    }

    /// Like [`Self::from_entries`].
    #[must_use]
    pub fn from_members(mut members: Vec<Member>) -> Self {
        if !members.is_sorted_by(|a, b| a.cmp_key(b.prefix, &b.key).is_lt()) {
            // The sort is stable, so that the last of duplicate keys can be kept.
            members.sort_by(|a, b| a.cmp_key(b.prefix, &b.key));
            members.dedup_by(|later, earlier| {
                let same = later.prefix == earlier.prefix && later.key == earlier.key;
                if same {
                    std::mem::swap(later, earlier);
                }
                same
            });
        }
        Self { members: Members::Decoded(members) }
    }

    /// The text that the object is kept as. `None` for an object whose members are kept one by one.
    #[must_use]
    pub fn encoded(&self) -> Option<&EncodedObject> {
        match &self.members {
            Members::Decoded(_) => None,
            Members::Encoded(encoded) => Some(encoded),
        }
    }

    #[inline]
    fn entries(&self) -> &[Member] {
        match &self.members {
            Members::Decoded(entries) => entries,
            Members::Encoded(encoded) => encoded.members(),
        }
    }

    #[inline]
    fn entries_mut(&mut self) -> &mut Vec<Member> {
        if let Members::Encoded(encoded) = &self.members {
            self.members = Members::Decoded(encoded.members().to_vec());
        }
        match &mut self.members {
            Members::Decoded(entries) => entries,
            Members::Encoded(_) => unreachable!("the members were decoded"),
        }
    }

    fn into_members(self) -> Vec<Member> {
        match self.members {
            Members::Decoded(entries) => entries,
            Members::Encoded(encoded) => encoded.members().to_vec(),
        }
    }

    /// The index of a key, or the index at which to insert it.
    fn search(&self, key: &str) -> Result<usize, usize> {
        let prefix = key_prefix(key);
        self.entries().binary_search_by(|member| member.cmp_key(prefix, key))
    }

    /// The index of a key. The prefix of a constant key is a constant, so this part is inlined.
    #[inline]
    fn find(&self, key: &str) -> Option<usize> {
        self.find_with_prefix(key_prefix(key), key)
    }

    fn find_with_prefix(&self, prefix: u64, key: &str) -> Option<usize> {
        let entries = self.entries();
        if entries.len() > LINEAR_SEARCH_MAX {
            return entries.binary_search_by(|member| member.cmp_key(prefix, key)).ok();
        }
        // Less work for the few members that most objects have.
        for (index, member) in entries.iter().enumerate() {
            if member.prefix >= prefix {
                if member.prefix > prefix {
                    return None;
                }
                if member.has_key(key) {
                    return Some(index);
                }
            }
        }
        None
    }

    /// The value of `key`.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).map(|i| &self.entries()[i].value)
    }

    /// The mutable value of `key`.
    #[inline]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.find(key).map(|i| &mut self.entries_mut()[i].value)
    }

    /// Returns whether `key` exists. Its value may be `Null`.
    #[must_use]
    #[inline]
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Sets `key` and returns its previous value.
    pub fn insert(&mut self, key: impl AsRef<str> + Into<Str>, value: impl Into<Value>) -> Option<Value> {
        match self.search(key.as_ref()) {
            Ok(i) => Some(std::mem::replace(&mut self.entries_mut()[i].value, value.into())),
            Err(i) => {
                self.entries_mut().insert(i, Member::new(key.into(), value.into()));
                None
            }
        }
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.find(key).map(|i| self.entries_mut().remove(i).value)
    }

    /// The value of `key`, which is inserted as `Null` if it does not exist.
    pub fn entry(&mut self, key: &str) -> &mut Value {
        let i = match self.search(key) {
            Ok(i) => i,
            Err(i) => {
                self.entries_mut().insert(i, Member::new(Str::from(key), Value::Null));
                i
            }
        };
        &mut self.entries_mut()[i].value
    }

    /// The number of entries.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns whether there are no entries.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.members {
            Members::Decoded(entries) => entries.is_empty(),
            Members::Encoded(_) => false,
        }
    }

    /// The entries, sorted by key.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Value)> + ExactSizeIterator {
        self.entries().iter().map(|member| (member.key.as_str(), &member.value))
    }

    /// The entries with mutable values, sorted by key.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&str, &mut Value)> + ExactSizeIterator {
        self.entries_mut().iter_mut().map(|member| (member.key.as_str(), &mut member.value))
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.entries().iter().map(|member| member.key.as_str())
    }

    /// The values, sorted by key.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.entries().iter().map(|member| &member.value)
    }

    /// Removes the entries for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.entries_mut().retain_mut(|member| keep(&member.key, &mut member.value));
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl IntoIterator for Object {
    type Item = (Str, Value);
    type IntoIter = std::iter::Map<std::vec::IntoIter<Member>, fn(Member) -> (Str, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_members().into_iter().map(|member| (member.key, member.value))
    }
}

impl<K: Into<Str>, V: Into<Value>> FromIterator<(K, V)> for Object {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(iter: T) -> Self {
        Self::from_entries(iter.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn lookups_work_in_objects_of_any_length() {
        for length in 0..=40 {
            // Many keys have the same first eight bytes.
            let key = |i: usize| format!("{}{i}", ["", "k", "kk", "a-long-prefix-"][i % 4]);
            let mut object: Object = (0..length).map(|i| (key(i), i as i64)).collect();
            for i in 0..length + 3 {
                let expect = (i < length).then_some(Value::Int(i as i64));
                assert_eq!(object.get(&key(i)), expect.as_ref(), "{i} of {length}");
                assert_eq!(object.contains_key(&key(i)), expect.is_some());
            }
            for i in 0..length {
                assert_eq!(object.remove(&key(i)), Some(Value::Int(i as i64)));
            }
            assert!(object.is_empty() && object.get("k").is_none());
        }
    }

    #[test]
    fn the_prefix_of_a_key_is_ordered_like_the_key() {
        let keys =
            ["", "\0", "a", "aa", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh", "abcdefghi", "é"];
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                assert_eq!(Member::new(Str::from(*a), Value::Null).cmp_key(key_prefix(b), b), i.cmp(&j), "{a} {b}");
                assert!(i > j || key_prefix(a) <= key_prefix(b), "{a} {b}");
            }
        }
        assert_eq!(key_prefix("abcde"), u64::from_be_bytes(*b"abcde\0\0\0"));
    }

    #[test]
    fn an_encoded_object_is_decoded_when_its_members_are_used() {
        fn decode(text: &str) -> Object {
            assert_eq!(text, r#"{"a":1}"#);
            Object::from_iter([("a", 1)])
        }
        let encoded = || Object::from(EncodedObject::new(r#"{"a":1}"#, true, decode));
        let decoded = Object::from_iter([("a", 1)]);
        assert_eq!(encoded(), decoded);
        assert_eq!(encoded(), encoded());
        assert_ne!(encoded(), Object::new());
        assert_eq!((encoded().len(), encoded().is_empty()), (1, false));
        assert_eq!(encoded().get("a"), Some(&Value::Int(1)));
        assert_eq!(encoded().into_iter().collect::<Vec<_>>(), [(Str::from("a"), Value::Int(1))]);
        let (mut changed, shared) = {
            let first = encoded();
            (first.clone(), first)
        };
        changed.insert("b", 2);
        assert!(changed.encoded().is_none(), "a changed object has no text");
        assert_eq!(Value::Object(changed), object! {"a": 1, "b": 2});
        assert_eq!(shared.encoded().map(EncodedObject::text), Some(r#"{"a":1}"#));
    }
}
