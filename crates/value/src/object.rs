//! JSON objects. The members of an object are a sorted list, which copies may share until they are changed. Or they are
//! kept as JSON text: the object was read from this text, or will be written as it. Most field sets (`metav1.FieldsV1`,
//! which is a text in Go, too) are kept as text, because they are only copied.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::tree::heap_bytes;
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
    /// Members that several objects have, until one of them is changed.
    Shared(Arc<SharedMembers>),
    Encoded(Arc<EncodedObject>),
}

/// The members of several objects, and where in a text they were read.
struct SharedMembers {
    members: Vec<Member>,
    start: u32,
    end: u32,
}

/// A member of an object.
#[derive(Clone, PartialEq)]
pub struct Member {
    /// Decides most comparisons of keys, so that few compare text.
    prefix: u64,
    key: Str,
    value: Value,
}

/// The memory of a member without the texts of its key and value, in bytes.
pub const MEMBER_BYTES: usize = size_of::<Member>();

impl Member {
    /// A member with this key.
    #[inline]
    #[must_use]
    pub fn new(key: Str, value: Value) -> Self {
        Self { prefix: key_prefix(&key), key, value }
    }

    fn held_bytes(&self) -> usize {
        MEMBER_BYTES - size_of::<Value>() + heap_bytes(&self.key) + self.value.held_bytes()
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
    is_sorted: OnceLock<bool>,
    members: OnceLock<Vec<Member>>,
}

impl EncodedObject {
    /// The maximum nesting of a text. The decoder accepts a little more.
    pub const MAX_DEPTH: usize = 100;

    /// Compact JSON of an object that has members, nested at most [`Self::MAX_DEPTH`] levels. The caller has checked
    /// that it is well-formed.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        debug_assert!(text.len() > 2, "an object without members: {text}");
        Self { text, is_sorted: OnceLock::new(), members: OnceLock::new() }
    }

    /// The same object, with the knowledge whether its keys are sorted ([`Self::is_sorted_by`]).
    #[must_use]
    pub fn with_order(self, is_sorted: bool) -> Self {
        Self { is_sorted: is_sorted.into(), ..self }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the keys at every level are known to be sorted by their bytes. `check` examines the text unless this is
    /// known already.
    pub fn is_sorted_by(&self, check: impl FnOnce(&str) -> bool) -> bool {
        *self.is_sorted.get_or_init(|| check(&self.text))
    }

    #[cold]
    fn members(&self) -> &[Member] {
        self.members.get_or_init(|| match serde_json::from_str(&self.text) {
            Ok(Value::Object(object)) => object.into_members(),
            _ => {
                debug_assert!(false, "the text was checked: {}", self.text);
                Vec::new()
            }
        })
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
        let is_same = match (&self.members, &other.members) {
            (Members::Encoded(encoded), Members::Encoded(other)) => encoded.text == other.text,
            _ => self.shares_members(other),
        };
        is_same || self.entries() == other.entries()
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

    /// Lets copies of the object share its members until they are changed. So copies cost little, and their common
    /// members are found at once. The object was read from this part of a text.
    #[must_use]
    pub fn into_shared(self, text: Range<u32>) -> Self {
        let shared = SharedMembers { members: self.into_members(), start: text.start, end: text.end };
        Self { members: Members::Shared(Arc::new(shared)) }
    }

    /// See [`Value::held_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.members {
            Members::Encoded(encoded) => encoded.text.len(),
            Members::Decoded(_) | Members::Shared(_) => self.entries().iter().map(Member::held_bytes).sum(),
        }
    }

    /// Changes the value of `key`, if there is one. Shared members stay shared unless the value becomes another one.
    pub fn change(&mut self, key: &str, change: &mut dyn FnMut(&mut Value)) {
        let Some(i) = self.find(key) else { return };
        if let Members::Decoded(members) = &mut self.members {
            return change(&mut members[i].value);
        }
        let value = &self.entries()[i].value;
        let mut changed = value.clone();
        change(&mut changed);
        if !changed.is_untouched(value) {
            self.entries_mut()[i].value = changed;
        }
    }

    /// See [`Value::share_with`].
    pub(crate) fn share_with(&mut self, other: &Self) -> bool {
        if self.shares_members(other) {
            return true;
        }
        let is_same = if self.encoded().is_some() {
            self == other
        } else {
            let (mut others, mut is_same) = (other.cursor(), self.len() == other.len());
            for member in self.entries_mut() {
                is_same &= others.find(member).is_some_and(|other| member.value.share_with(other));
            }
            is_same
        };
        if is_same && !matches!(other.members, Members::Decoded(_)) {
            self.clone_from(other);
        }
        is_same
    }

    /// The part of a text that the object was read from ([`Self::into_shared`]), if it has not been changed since.
    #[must_use]
    pub fn text_range(&self) -> Option<Range<usize>> {
        match &self.members {
            Members::Shared(shared) => Some(shared.start as usize..shared.end as usize),
            Members::Decoded(_) | Members::Encoded(_) => None,
        }
    }

    /// Whether both objects have the same members in memory, so that they are equal. Objects that are equal need not
    /// share their members.
    #[must_use]
    #[inline]
    pub fn shares_members(&self, other: &Self) -> bool {
        match (&self.members, &other.members) {
            (Members::Shared(members), Members::Shared(other)) => Arc::ptr_eq(members, other),
            (Members::Encoded(encoded), Members::Encoded(other)) => Arc::ptr_eq(encoded, other),
            _ => false,
        }
    }

    /// The text in which the object is kept. `None` for an object whose members are kept one by one.
    #[must_use]
    pub fn encoded(&self) -> Option<&EncodedObject> {
        match &self.members {
            Members::Decoded(_) | Members::Shared(_) => None,
            Members::Encoded(encoded) => Some(encoded),
        }
    }

    #[inline]
    fn entries(&self) -> &[Member] {
        match &self.members {
            Members::Decoded(entries) => entries,
            Members::Shared(shared) => &shared.members,
            Members::Encoded(encoded) => encoded.members(),
        }
    }

    #[inline]
    fn entries_mut(&mut self) -> &mut Vec<Member> {
        if !matches!(self.members, Members::Decoded(_)) {
            self.take_members();
        }
        match &mut self.members {
            Members::Decoded(entries) => entries,
            Members::Shared(_) | Members::Encoded(_) => unreachable!("the object has its own members"),
        }
    }

    /// Makes the members the object's own.
    #[cold]
    fn take_members(&mut self) {
        let members = std::mem::replace(&mut self.members, Members::Decoded(Vec::new()));
        self.members = Members::Decoded(Self { members }.into_members());
    }

    fn into_members(self) -> Vec<Member> {
        match self.members {
            Members::Decoded(entries) => entries,
            Members::Shared(shared) => match Arc::try_unwrap(shared) {
                Ok(shared) => shared.members,
                Err(shared) => shared.members.clone(),
            },
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

    /// Sets many keys at once, which moves each entry a few times only.
    pub fn insert_all(&mut self, entries: impl IntoIterator<Item = (Str, Value)>) {
        let mut entries = entries.into_iter().map(|(key, value)| Member::new(key, value)).peekable();
        if entries.peek().is_some() {
            let mut members = std::mem::take(self).into_members();
            members.extend(entries);
            *self = Self::from_members(members);
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
            Members::Shared(shared) => shared.members.is_empty(),
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

    /// The entries, sorted by key, each with the value that another object has for the key.
    #[inline]
    pub fn iter_beside<'o>(&'o self, other: &'o Self) -> impl Iterator<Item = (&'o str, &'o Value, Option<&'o Value>)> {
        let mut others = other.cursor();
        self.entries().iter().map(move |member| (member.key.as_str(), &member.value, others.find(member)))
    }

    /// Like [`Self::iter_beside`], with mutable values.
    #[inline]
    pub fn iter_mut_beside<'o>(
        &'o mut self,
        other: Option<&'o Self>,
    ) -> impl Iterator<Item = (&'o str, &'o mut Value, Option<&'o Value>)> {
        let mut others = other.map_or(Cursor(&[]), Self::cursor);
        self.entries_mut().iter_mut().map(move |member| {
            let other = others.find(member);
            (member.key.as_str(), &mut member.value, other)
        })
    }

    /// A cursor for lookups of many keys in their order.
    fn cursor(&self) -> Cursor<'_> {
        Cursor(self.entries())
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.entries().iter().map(|member| member.key.as_str())
    }

    /// The values, sorted by key.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.entries().iter().map(|member| &member.value)
    }

    /// Removes the entries for which `keep` returns false. `keep` gets the value that another object has for the key,
    /// too.
    pub fn retain_beside(
        &mut self,
        other: Option<&Self>,
        mut keep: impl FnMut(&str, &mut Value, Option<&Value>) -> bool,
    ) {
        let mut others = other.map_or(Cursor(&[]), Self::cursor);
        self.entries_mut().retain_mut(|member| {
            let other = others.find(member);
            keep(&member.key, &mut member.value, other)
        });
    }

    /// Removes the entries for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.entries_mut().retain_mut(|member| keep(&member.key, &mut member.value));
    }
}

/// A position among the sorted members of an object. Members before it precede every key that is still looked up.
struct Cursor<'o>(&'o [Member]);

impl<'o> Cursor<'o> {
    /// The value under the key of a member, which must come after the keys of earlier calls.
    #[inline]
    fn find(&mut self, member: &Member) -> Option<&'o Value> {
        while let [first, rest @ ..] = self.0 {
            match first.cmp_key(member.prefix, &member.key) {
                Ordering::Less => self.0 = rest,
                Ordering::Equal => {
                    self.0 = rest;
                    return Some(&first.value);
                }
                Ordering::Greater => break,
            }
        }
        None
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
    fn shared_members_are_copied_when_they_change() {
        let shared = |keys: &[&str]| keys.iter().map(|key| (*key, 1)).collect::<Object>().into_shared(3..7);
        for keys in [&["a", "b"][..], &["b", "a"], &["b", "a", "b"]] {
            let object = shared(keys);
            assert_eq!(Value::Object(object.clone()), object! {"a": 1, "b": 1});
            assert!(object.shares_members(&object.clone()) && !object.shares_members(&shared(keys)));
            assert_eq!(object, shared(keys));
            let mut changed = object.clone();
            assert_eq!(changed.text_range(), Some(3..7));
            changed.insert("a", 2);
            assert_eq!(changed.text_range(), None);
            assert_eq!((object.get("a"), changed.get("a")), (Some(&Value::Int(1)), Some(&Value::Int(2))));
            assert!(!changed.shares_members(&object) && changed != object);
            assert_eq!((object.len(), object.is_empty(), shared(&[]).is_empty()), (2, false, true));
            let entries = || vec![(Str::from("a"), Value::Int(1)), (Str::from("b"), Value::Int(1))];
            assert_eq!(object.clone().into_iter().collect::<Vec<_>>(), entries(), "copied");
            assert_eq!(object.into_iter().collect::<Vec<_>>(), entries(), "moved, because nobody else has them");
        }
    }

    #[test]
    fn shared_members_stay_shared_unless_a_value_changes() {
        let shared = |value: Value| match value {
            Value::Object(object) => Value::Object(object.into_shared(0..9)),
            other => other,
        };
        let item = || shared(object! {"x": shared(object! {"n": 1})});
        let inner = object! {"items": vec![item(), item()], "empty": object! {}};
        let original = shared(object! {"a": shared(inner), "b": Value::Null});
        let changed = |change: &mut dyn FnMut(&mut Value)| {
            let mut copy = original.clone();
            copy.change_at(&["a", "items"], &mut |items| {
                items.as_array_mut().expect("a list").iter_mut().for_each(&mut *change);
            });
            copy
        };
        assert!(changed(&mut |_| ()).shares_members(&original));
        let absent = changed(&mut |item| item.change_at(&["x", "m"], &mut |_| panic!("there is no m")));
        assert!(absent.shares_members(&original));
        let set = changed(&mut |item| item.change_at(&["x"], &mut |x| _ = x.set_default("n", 2)));
        assert!(set.shares_members(&original), "it is there already");
        let mut first = true;
        let set = changed(&mut |item| {
            if std::mem::take(&mut first) {
                item.change_at(&["x"], &mut |x| x.set("n", 2));
            }
        });
        assert_eq!(set["a"]["items"][0], object! {"x": object! {"n": 2}});
        assert!(set["a"]["items"][1].shares_members(&original["a"]["items"][1]));
        assert_eq!(original["a"]["items"][0], object! {"x": object! {"n": 1}});
        let mut same = original.clone();
        same.change_at(&["a", "empty"], &mut |empty| empty.change_at(&["x"], &mut |_| panic!("there is no x")));
        same.change_at(&["b"], &mut |_| panic!("null counts as absent"));
        assert!(same.shares_members(&original));
    }

    #[test]
    fn what_is_equal_shares_its_members_again() {
        let shared = |value: Value| match value {
            Value::Object(object) => Value::Object(object.into_shared(0..9)),
            other => other,
        };
        let of = |same: f64, changed: i64| {
            let list = vec![object! {"x": 1}, object! {"y": changed}].into_iter().map(shared).collect::<Vec<_>>();
            shared(object! {
                "a": shared(object! {"n": same, "m": Value::Null}),
                "b": shared(object! {"k": changed, "o": shared(object! {"z": "text"})}),
                "c": Value::Array(list),
            })
        };
        let original = of(0.0, 1);
        let mut equal = of(0.0, 1);
        assert!(!equal.shares_members(&original));
        equal.set("d", 1);
        equal.remove_at(&["d"]);
        assert!(equal.share_with(&original) && equal.shares_members(&original));

        let mut changed = of(-0.0, 2);
        changed.set("0", 1);
        assert!(!changed.share_with(&original));
        assert_eq!(changed.at(&["a", "n"]), Some(&Value::Float(-0.0)));
        assert!(!changed["a"].shares_members(&original["a"]), "the text of -0 is not that of 0");
        assert_eq!(changed.int_at(&["b", "k"]), Some(2));
        assert!(!changed["b"].shares_members(&original["b"]));
        assert!(changed["c"][0].shares_members(&original["c"][0]));
        assert!(!changed["c"][1].shares_members(&original["c"][1]));
        let mut touched = original.clone();
        for path in [&["b", "o", "z"][..], &["b", "k"]] {
            touched.at_mut(path).expect("a value");
        }
        assert!(!touched["b"]["o"].shares_members(&original["b"]["o"]));
        touched.set_at(&["b", "k"], 3);
        assert!(!touched.share_with(&original));
        assert!(touched["b"]["o"].shares_members(&original["b"]["o"]));
        assert_eq!(touched.int_at(&["b", "k"]), Some(3));
    }

    #[test]
    fn the_members_of_two_objects_are_found_beside_each_other() {
        let keys = ["", "a", "abcdefgh", "abcdefghi", "abcdefghj", "b"];
        let subsets = || {
            (0..1u32 << keys.len()).map(|set| {
                let members = keys.iter().enumerate().filter(move |(at, _)| set & 1 << at != 0);
                Object::from_iter(members.map(|(at, key)| (*key, at as i64)))
            })
        };
        for (mut one, other) in subsets().flat_map(|one| subsets().map(move |other| (one.clone(), other))) {
            let expect: Vec<_> = one.keys().map(|key| (key.to_owned(), other.get(key).cloned())).collect();
            let found: Vec<_> =
                one.iter_beside(&other).map(|(key, _, beside)| (key.to_owned(), beside.cloned())).collect();
            assert_eq!(found, expect);
            let with_values = one.iter_beside(&other).all(|(key, value, _)| one.get(key) == Some(value));
            assert!(with_values, "{one:?}");
            let found: Vec<_> =
                one.iter_mut_beside(Some(&other)).map(|(key, _, beside)| (key.to_owned(), beside.cloned())).collect();
            assert_eq!(found, expect);
            assert!(one.iter_mut_beside(None).all(|(_, _, beside)| beside.is_none()));
            one.retain_beside(Some(&other), |key, _, beside| {
                assert_eq!(beside, other.get(key));
                beside.is_some()
            });
            assert!(one.keys().eq(expect.iter().filter(|(_, beside)| beside.is_some()).map(|(key, _)| key)));
        }
    }

    #[test]
    fn an_encoded_object_is_decoded_when_its_members_are_used() {
        let encoded = || Object::from(EncodedObject::new(r#"{"a":1}"#));
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
        let starts_with_a = |text: &str| text.starts_with(r#"{"a"#);
        assert_eq!(shared.encoded().map(|object| object.is_sorted_by(starts_with_a)), Some(true));
        let unsorted = EncodedObject::new(r#"{"a":1}"#).with_order(false);
        assert!(!unsorted.is_sorted_by(starts_with_a), "as it was told");
        let deep = |depth| format!("{}{{}}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let deepest = EncodedObject::new(deep(EncodedObject::MAX_DEPTH));
        assert_eq!(Object::from(deepest).len(), 1);
    }
}
