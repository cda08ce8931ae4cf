//! A run of entries in the order of their keys. Beside the entries are a copy of the first key and a hash of each key.
//! With them the search for an entry touches few entries and keys, which are elsewhere in memory. The search for the place
//! of an insertion, or for the start of a range, compares whole keys.

use compact_str::CompactString;

use crate::SortedEntry;

#[derive(Clone, Debug)]
pub(crate) struct Chunk<T> {
    /// At least one entry, except in a chunk from which the last entry has just been removed.
    entries: Vec<T>,
    /// No key is before it. It is after all keys of the chunk before this one.
    start: CompactString,
    /// The lowest bits of the hashes of the keys.
    hashes: Vec<u16>,
    /// The index of the next entry if keys are inserted in ascending order.
    next_index: usize,
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

    /// True if a key is not before the keys of the chunk.
    pub(crate) fn starts_at_or_before(&self, key: &str) -> bool {
        self.start.as_str() <= key
    }
}

impl<T: SortedEntry> Chunk<T> {
    pub(crate) fn new(entry: T, hash: u16) -> Self {
        let start = CompactString::from(entry.key());
        Self { entries: vec![entry], start, hashes: vec![hash], next_index: 1 }
    }

    /// True if a key is after the last key.
    pub(crate) fn ends_before(&self, key: &str) -> bool {
        self.entries.last().is_none_or(|last| last.key() < key)
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
        self.entries.binary_search_by(|entry| entry.key().cmp(key))
    }

    /// Inserts an entry at its index. Reserves memory for at most a full chunk.
    pub(crate) fn insert(&mut self, index: usize, entry: T, hash: u16, capacity: usize) {
        let length = self.entries.len();
        if length == self.entries.capacity() {
            let more = length.clamp(1, capacity.saturating_sub(length).max(1));
            self.entries.reserve_exact(more);
            self.hashes.reserve_exact(more);
        }
        if index == 0 {
            self.start = entry.key().into();
        }
        self.hashes.insert(index, hash);
        self.entries.insert(index, entry);
        self.next_index = index + 1;
    }

    pub(crate) fn remove(&mut self, index: usize) -> T {
        self.hashes.remove(index);
        self.entries.remove(index)
    }

    /// Moves the entries from an index on to a new chunk. Neither chunk is empty.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let (entries, hashes) = (self.entries.split_off(at), self.hashes.split_off(at));
        let start = entries.first().map_or_else(CompactString::default, |first| first.key().into());
        Self { entries, start, hashes, next_index: 0 }
    }

    /// Adds the entries of the next chunk.
    pub(crate) fn append(&mut self, next: Self) {
        self.entries.reserve_exact(next.entries.len());
        self.entries.extend(next.entries);
        self.hashes.reserve_exact(next.hashes.len());
        self.hashes.extend(next.hashes);
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
    fn a_chunk_starts_at_its_lowest_key() {
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
        let rest = chunk.split_off(3);
        assert!(rest.starts_at_or_before("web-a\0") && !rest.starts_at_or_before("web-a"));
        assert!(chunk.ends_before("web-a\0") && !chunk.ends_before("web-a"));
    }
}
