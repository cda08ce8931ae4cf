//! A run of entries in the order of their keys. Beside them are what all keys begin with, and of each key the bytes after it and
//! a hash, so that a search touches few entries and keys, which are elsewhere in memory.

use std::cmp::Ordering;

use compact_str::CompactString;

use crate::SortedEntry;

#[derive(Clone, Debug)]
pub(crate) struct Chunk<T> {
    /// At least one, except in a chunk from which the last has just been removed.
    entries: Vec<T>,
    /// What all keys begin with. They may have more in common.
    prefix: CompactString,
    /// Of each key, the first four bytes after the prefix. They ascend; keys with the same ones have to be compared.
    marks: Vec<u32>,
    /// The lowest bits of the hashes of the keys.
    hashes: Vec<u16>,
    /// Where the next entry comes if keys are inserted in ascending order.
    next_index: usize,
}

/// Where a key belongs.
enum Place {
    /// Before all keys with the prefix.
    Before,
    /// Among the keys with the prefix, by this mark.
    Among(u32),
    /// After all keys with the prefix.
    After,
}

/// The first four bytes, filled up with zeros.
fn mark(rest: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    let length = rest.len().min(4);
    bytes[..length].copy_from_slice(&rest[..length]);
    u32::from_be_bytes(bytes)
}

/// What two keys begin with.
fn common<'k>(one: &'k str, other: &str) -> &'k str {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    &one[..one.floor_char_boundary(same)]
}

/// How many hashes are compared before the first equal one is looked for.
const HASHES_AT_ONCE: usize = 64;

impl<T> Chunk<T> {
    /// The entries, in order.
    pub(crate) fn entries(&self) -> &[T] {
        &self.entries
    }

    /// The entries, in order. Their keys have to stay as they are.
    pub(crate) fn entries_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }

    /// Where the next entry comes if keys are inserted in ascending order.
    pub(crate) fn next_index(&self) -> usize {
        self.next_index
    }

    fn place(&self, key: &str) -> Place {
        let (key, prefix) = (key.as_bytes(), self.prefix.as_bytes());
        match key.split_at_checked(prefix.len()) {
            Some((start, rest)) => match start.cmp(prefix) {
                Ordering::Less => Place::Before,
                Ordering::Equal => Place::Among(mark(rest)),
                Ordering::Greater => Place::After,
            },
            None if key < prefix => Place::Before,
            None => Place::After,
        }
    }
}

impl<T: SortedEntry> Chunk<T> {
    pub(crate) fn new(entry: T, hash: u16) -> Self {
        let prefix = CompactString::from(entry.key());
        Self { entries: vec![entry], prefix, marks: vec![0], hashes: vec![hash], next_index: 1 }
    }

    /// True if a key is not before the first one.
    pub(crate) fn starts_at_or_before(&self, key: &str) -> bool {
        let (Some(first), Some(first_mark)) = (self.entries.first(), self.marks.first()) else { return false };
        match self.place(key) {
            Place::Before => false,
            Place::Among(mark) if mark == *first_mark => first.key() <= key,
            Place::Among(mark) => *first_mark < mark,
            Place::After => true,
        }
    }

    /// True if a key is after the last one.
    pub(crate) fn ends_before(&self, key: &str) -> bool {
        let (Some(last), Some(last_mark)) = (self.entries.last(), self.marks.last()) else { return true };
        match self.place(key) {
            Place::Before => false,
            Place::Among(mark) if mark == *last_mark => last.key() < key,
            Place::Among(mark) => *last_mark < mark,
            Place::After => true,
        }
    }

    /// The index of the entry of a key, which has this hash.
    pub(crate) fn index_of(&self, key: &str, hash: u16) -> Option<usize> {
        let parts = self.hashes.chunks(HASHES_AT_ONCE).zip(self.entries.chunks(HASHES_AT_ONCE));
        for (part, (hashes, entries)) in parts.enumerate() {
            // Without an early end, so that several are compared by one instruction.
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

    /// The index of the entry of a key, or of the one before which it would come.
    pub(crate) fn find(&self, key: &str) -> Result<usize, usize> {
        let mark = match self.place(key) {
            Place::Before => return Err(0),
            Place::Among(mark) => mark,
            Place::After => return Err(self.entries.len()),
        };
        let start = self.marks.partition_point(|other| *other < mark);
        let same = self.marks[start..].partition_point(|other| *other == mark);
        let found = self.entries[start..start + same].binary_search_by(|entry| entry.key().cmp(key));
        found.map(|index| start + index).map_err(|index| start + index)
    }

    /// Inserts an entry where its key belongs, with memory for no more than a full chunk.
    pub(crate) fn insert(&mut self, index: usize, entry: T, hash: u16, capacity: usize) {
        let length = self.entries.len();
        if length == self.entries.capacity() {
            let more = length.clamp(1, capacity.saturating_sub(length).max(1));
            self.entries.reserve_exact(more);
            self.marks.reserve_exact(more);
            self.hashes.reserve_exact(more);
        }
        let common = common(&self.prefix, entry.key()).len();
        if common < self.prefix.len() {
            self.prefix.truncate(common);
            self.set_marks();
        }
        self.marks.insert(index, mark(&entry.key().as_bytes()[common..]));
        self.hashes.insert(index, hash);
        self.entries.insert(index, entry);
        self.next_index = index + 1;
    }

    pub(crate) fn remove(&mut self, index: usize) -> T {
        self.marks.remove(index);
        self.hashes.remove(index);
        self.entries.remove(index)
    }

    /// Moves the entries from an index on to a chunk of their own. Neither is empty.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let (entries, marks, hashes) =
            (self.entries.split_off(at), self.marks.split_off(at), self.hashes.split_off(at));
        let mut rest = Self { entries, prefix: self.prefix.clone(), marks, hashes, next_index: 0 };
        rest.set_prefix();
        self.set_prefix();
        rest
    }

    /// Adds the entries of the next chunk.
    pub(crate) fn append(&mut self, next: Self) {
        self.entries.reserve_exact(next.entries.len());
        self.entries.extend(next.entries);
        self.marks.reserve_exact(next.marks.len());
        self.marks.extend(next.marks);
        self.hashes.reserve_exact(next.hashes.len());
        self.hashes.extend(next.hashes);
        self.prefix.clear();
        self.set_prefix();
        self.set_marks();
    }

    /// Sets the prefix to all that the keys have in common.
    pub(crate) fn set_prefix(&mut self) {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else { return };
        let common = common(first.key(), last.key());
        if common.len() != self.prefix.len() {
            self.prefix = common.into();
            self.set_marks();
        }
    }

    fn set_marks(&mut self) {
        let length = self.prefix.len();
        for (entry, found) in self.entries.iter().zip(&mut self.marks) {
            *found = mark(&entry.key().as_bytes()[length..]);
        }
    }
}
