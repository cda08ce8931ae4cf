//! A run of entries in the order of their keys. Beside the entries are the common prefix of all keys, and for each key
//! a hash and the bytes after the prefix. With them a search touches few entries and keys, which are elsewhere in
//! memory.

use std::cmp::Ordering;

use compact_str::CompactString;

use crate::SortedEntry;

#[derive(Clone, Debug)]
pub(crate) struct Chunk<T> {
    /// At least one entry, except in a chunk from which the last entry has just been removed.
    entries: Vec<T>,
    /// A common prefix of all keys. It need not be the longest.
    prefix: CompactString,
    /// For each key, the first four bytes after the prefix. They ascend; keys with equal bytes must be compared.
    next_bytes: Vec<u32>,
    /// The lowest bits of the hashes of the keys.
    hashes: Vec<u16>,
    /// The index of the next entry if keys are inserted in ascending order.
    next_index: usize,
}

/// The order of a key relative to the keys with the prefix.
enum PrefixOrder {
    /// The key is before all keys with the prefix.
    Before,
    /// The key has the prefix; the number is made of the bytes after it.
    Within(u32),
    /// The key is after all keys with the prefix.
    After,
}

/// The first four bytes as a number, filled up with zeros.
fn first_bytes(rest: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    let length = rest.len().min(4);
    bytes[..length].copy_from_slice(&rest[..length]);
    u32::from_be_bytes(bytes)
}

/// The common prefix of two keys.
fn common<'k>(one: &'k str, other: &str) -> &'k str {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    &one[..one.floor_char_boundary(same)]
}

/// How many hashes are compared before the first equal hash is looked for.
const HASHES_AT_ONCE: usize = 64;

impl<T> Chunk<T> {
    /// The entries, in order.
    pub(crate) fn entries(&self) -> &[T] {
        &self.entries
    }

    /// The entries, in order. The caller must not change their keys.
    pub(crate) fn entries_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }

    /// The index of the next entry if keys are inserted in ascending order.
    pub(crate) fn next_index(&self) -> usize {
        self.next_index
    }

    fn prefix_order(&self, key: &str) -> PrefixOrder {
        let (key, prefix) = (key.as_bytes(), self.prefix.as_bytes());
        match key.split_at_checked(prefix.len()) {
            Some((start, rest)) => match start.cmp(prefix) {
                Ordering::Less => PrefixOrder::Before,
                Ordering::Equal => PrefixOrder::Within(first_bytes(rest)),
                Ordering::Greater => PrefixOrder::After,
            },
            None if key < prefix => PrefixOrder::Before,
            None => PrefixOrder::After,
        }
    }
}

impl<T: SortedEntry> Chunk<T> {
    pub(crate) fn new(entry: T, hash: u16) -> Self {
        let prefix = CompactString::from(entry.key());
        Self { entries: vec![entry], prefix, next_bytes: vec![0], hashes: vec![hash], next_index: 1 }
    }

    /// True if a key is not before the first key.
    pub(crate) fn starts_at_or_before(&self, key: &str) -> bool {
        let (Some(first), Some(first_bytes)) = (self.entries.first(), self.next_bytes.first()) else { return false };
        match self.prefix_order(key) {
            PrefixOrder::Before => false,
            PrefixOrder::Within(bytes) if bytes == *first_bytes => first.key() <= key,
            PrefixOrder::Within(bytes) => *first_bytes < bytes,
            PrefixOrder::After => true,
        }
    }

    /// True if a key is after the last key.
    pub(crate) fn ends_before(&self, key: &str) -> bool {
        let (Some(last), Some(last_bytes)) = (self.entries.last(), self.next_bytes.last()) else { return true };
        match self.prefix_order(key) {
            PrefixOrder::Before => false,
            PrefixOrder::Within(bytes) if bytes == *last_bytes => last.key() < key,
            PrefixOrder::Within(bytes) => *last_bytes < bytes,
            PrefixOrder::After => true,
        }
    }

    /// The index of the entry of a key with this hash.
    pub(crate) fn index_of(&self, key: &str, hash: u16) -> Option<usize> {
        let parts = self.hashes.chunks(HASHES_AT_ONCE).zip(self.entries.chunks(HASHES_AT_ONCE));
        for (part, (hashes, entries)) in parts.enumerate() {
            // The loop does not end early, so that one instruction compares several hashes.
            if !hashes.iter().fold(false, |found, other| found | (*other == hash)) {
                continue;
            }
            let is_it = |(other, entry): (&u16, &T)| *other == hash && entry.key() == key;
            if let Some(index) = hashes.iter().zip(entries).position(is_it) {
                return Some(part * HASHES_AT_ONCE + index);
            }
        }
        None
    }

    /// The index of the entry of a key, or the index at which the entry would be inserted.
    pub(crate) fn find(&self, key: &str) -> Result<usize, usize> {
        let bytes = match self.prefix_order(key) {
            PrefixOrder::Before => return Err(0),
            PrefixOrder::Within(bytes) => bytes,
            PrefixOrder::After => return Err(self.entries.len()),
        };
        let start = self.next_bytes.partition_point(|other| *other < bytes);
        let same = self.next_bytes[start..].partition_point(|other| *other == bytes);
        let found = self.entries[start..start + same].binary_search_by(|entry| entry.key().cmp(key));
        found.map(|index| start + index).map_err(|index| start + index)
    }

    /// Inserts an entry at its index. Reserves memory for at most a full chunk.
    pub(crate) fn insert(&mut self, index: usize, entry: T, hash: u16, capacity: usize) {
        let length = self.entries.len();
        if length == self.entries.capacity() {
            let more = length.clamp(1, capacity.saturating_sub(length).max(1));
            self.entries.reserve_exact(more);
            self.next_bytes.reserve_exact(more);
            self.hashes.reserve_exact(more);
        }
        let common = common(&self.prefix, entry.key()).len();
        if common < self.prefix.len() {
            self.prefix.truncate(common);
            self.set_next_bytes();
        }
        self.next_bytes.insert(index, first_bytes(&entry.key().as_bytes()[common..]));
        self.hashes.insert(index, hash);
        self.entries.insert(index, entry);
        self.next_index = index + 1;
    }

    pub(crate) fn remove(&mut self, index: usize) -> T {
        self.next_bytes.remove(index);
        self.hashes.remove(index);
        self.entries.remove(index)
    }

    /// Moves the entries from an index on to a new chunk. Neither chunk is empty.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let (entries, next_bytes, hashes) =
            (self.entries.split_off(at), self.next_bytes.split_off(at), self.hashes.split_off(at));
        let mut rest = Self { entries, prefix: self.prefix.clone(), next_bytes, hashes, next_index: 0 };
        rest.set_prefix();
        self.set_prefix();
        rest
    }

    /// Adds the entries of the next chunk.
    pub(crate) fn append(&mut self, next: Self) {
        self.entries.reserve_exact(next.entries.len());
        self.entries.extend(next.entries);
        self.next_bytes.reserve_exact(next.next_bytes.len());
        self.next_bytes.extend(next.next_bytes);
        self.hashes.reserve_exact(next.hashes.len());
        self.hashes.extend(next.hashes);
        self.prefix.clear();
        self.set_prefix();
        self.set_next_bytes();
    }

    /// Sets the prefix to the longest common prefix of the keys.
    pub(crate) fn set_prefix(&mut self) {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else { return };
        let common = common(first.key(), last.key());
        if common.len() != self.prefix.len() {
            self.prefix = common.into();
            self.set_next_bytes();
        }
    }

    fn set_next_bytes(&mut self) {
        let length = self.prefix.len();
        for (entry, found) in self.entries.iter().zip(&mut self.next_bytes) {
            *found = first_bytes(&entry.key().as_bytes()[length..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Key(&'static str);

    impl SortedEntry for Key {
        fn key(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn keys_with_the_same_hash_are_told_apart() {
        let mut chunk = Chunk::new(Key("a"), 7);
        for key in ["c", "b", "ab"] {
            let (Ok(index) | Err(index)) = chunk.find(key);
            chunk.insert(index, Key(key), 7, 8);
        }
        let index_of = |key: &str| chunk.index_of(key, 7);
        assert_eq!(["a", "ab", "b", "c", "d"].map(index_of), [Some(0), Some(1), Some(2), Some(3), None]);
        assert_eq!(chunk.index_of("a", 8), None);
    }

    #[test]
    fn keys_that_begin_alike_are_compared_whole() {
        let mut chunk = Chunk::new(Key("web-a"), 0);
        for key in ["web", "web-a\0", "web-ab", "web-b", "we"] {
            let (Ok(index) | Err(index)) = chunk.find(key);
            chunk.insert(index, Key(key), 0, 8);
        }
        let keys: Vec<_> = chunk.entries().iter().map(SortedEntry::key).collect();
        assert_eq!(keys, ["we", "web", "web-a", "web-a\0", "web-ab", "web-b"]);
        assert_eq!(["w", "web-", "web-aa", "x"].map(|key| chunk.find(key)), [Err(0), Err(2), Err(4), Err(6)]);
        assert!(chunk.starts_at_or_before("we") && !chunk.starts_at_or_before("w"));
        assert!(chunk.ends_before("web-c") && !chunk.ends_before("web-b"));
    }
}
