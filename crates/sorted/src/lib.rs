//! Many small entries in the order of their keys, with little memory beside them. An entry contains or points to its
//! own key. Entries are kept in chunks that are nearly full. A `BTreeMap` stores each key once more, and its nodes are
//! half empty if keys come in ascending order.
//!
//! ```
//! use std::ops::Bound;
//!
//! use pintle_sorted::{SortedEntries, SortedEntry};
//!
//! struct Pod(&'static str);
//!
//! impl SortedEntry for Pod {
//!     fn key(&self) -> &str {
//!         self.0
//!     }
//! }
//!
//! let mut pods = SortedEntries::default();
//! for name in ["c", "a", "b"] {
//!     assert!(pods.insert(Pod(name)).is_none());
//! }
//! assert!(pods.get("a").is_some());
//! let after_a: Vec<&str> = pods.range_from(Bound::Excluded("a")).map(|pod| pod.0).collect();
//! assert_eq!(after_a, ["b", "c"]);
//! ```

mod chunk;

use std::hash::BuildHasher;
use std::ops::Bound;

use hashbrown::DefaultHashBuilder;

use self::chunk::Chunk;

/// The size of the entries of a full chunk, in bytes. An insertion moves half of them on average.
const CHUNK_BYTES: usize = 8192;

/// An entry of [`SortedEntries`].
pub trait SortedEntry {
    /// The key. It must stay the same while the entry is in the collection.
    fn key(&self) -> &str;
}

/// Entries in the ascending order of their keys, with one entry for each key.
#[derive(Clone, Debug)]
pub struct SortedEntries<T> {
    /// The chunks, none of which is empty.
    chunks: Vec<Chunk<T>>,
    len: usize,
    hasher: DefaultHashBuilder,
}

impl<T> Default for SortedEntries<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0, hasher: DefaultHashBuilder::default() }
    }
}

impl<T> SortedEntries<T> {
    /// The number of entries of a full chunk.
    const CAPACITY: usize = {
        let capacity = CHUNK_BYTES / if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
        if capacity < 8 { 8 } else { capacity }
    };

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(Chunk::entries)
    }
}

impl<T: SortedEntry> SortedEntries<T> {
    /// The entry of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        let (chunk, index) = self.locate(key)?;
        Some(&self.chunks[chunk].entries()[index])
    }

    /// The entry of a key, for changes. The caller must not change its key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        let (chunk, index) = self.locate(key)?;
        Some(&mut self.chunks[chunk].entries_mut()[index])
    }

    /// Inserts an entry. Returns the previous entry of its key.
    pub fn insert(&mut self, entry: T) -> Option<T> {
        let (key, hash) = (entry.key(), self.hash(entry.key()));
        let Some(chunk) = self.chunk_of(key) else {
            let end = self.chunks.len().saturating_sub(1);
            let index = self.chunks.get(end).map_or(0, |last| last.entries().len());
            self.insert_at(end, index, entry, hash);
            return None;
        };
        if let Some(index) = self.chunks[chunk].index_of(key, hash) {
            return Some(std::mem::replace(&mut self.chunks[chunk].entries_mut()[index], entry));
        }
        let (Ok(index) | Err(index)) = self.chunks[chunk].find(key);
        self.insert_at(chunk, index, entry, hash);
        None
    }

    /// Removes the entry of a key.
    pub fn remove(&mut self, key: &str) -> Option<T> {
        let (chunk, index) = self.locate(key)?;
        let removed = self.chunks[chunk].remove(index);
        self.len -= 1;
        match self.chunks[chunk].entries().len() {
            0 => drop(self.chunks.remove(chunk)),
            left if left < Self::CAPACITY / 4 => self.merge(chunk),
            _ => {}
        }
        Some(removed)
    }

    /// The entries from a key on, in order.
    pub fn range_from<'s>(&'s self, start: Bound<&str>) -> impl Iterator<Item = &'s T> + use<'s, T> {
        let (chunk, index) = match start {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) | Bound::Excluded(key) => match self.chunk_of(key) {
                Some(chunk) => {
                    let is_excluded = matches!(start, Bound::Excluded(_));
                    let found = self.chunks[chunk].find(key);
                    (chunk, found.map_or_else(|index| index, |index| index + usize::from(is_excluded)))
                }
                None => (self.chunks.len(), 0),
            },
        };
        let first = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.entries()[index..]);
        first.iter().chain(self.chunks.iter().skip(chunk + 1).flat_map(Chunk::entries))
    }

    fn hash(&self, key: &str) -> u16 {
        self.hasher.hash_one(key) as u16
    }

    /// The chunk to which a key belongs. `None` if the key is after all keys, where ascending keys are inserted.
    fn chunk_of(&self, key: &str) -> Option<usize> {
        if self.chunks.last()?.ends_before(key) {
            return None;
        }
        Some(self.chunks.partition_point(|chunk| chunk.starts_at_or_before(key)).saturating_sub(1))
    }

    /// The chunk and the index of the entry of a key.
    fn locate(&self, key: &str) -> Option<(usize, usize)> {
        let chunk = self.chunk_of(key)?;
        Some((chunk, self.chunks[chunk].index_of(key, self.hash(key))?))
    }

    fn insert_at(&mut self, chunk: usize, index: usize, entry: T, hash: u16) {
        self.len += 1;
        let Some(found) = self.chunks.get_mut(chunk) else { return self.chunks.push(Chunk::new(entry, hash)) };
        let length = found.entries().len();
        if length < Self::CAPACITY {
            return found.insert(index, entry, hash, Self::CAPACITY);
        }
        // A full chunk is split where ascending keys continue, so that it stays full. Otherwise it is split in the
        // middle.
        let at = if index == found.next_index() { index } else { length / 2 };
        let rest = if at == length {
            Chunk::new(entry, hash)
        } else {
            let mut rest = found.split_off(at);
            match index.checked_sub(at) {
                Some(index) if index > 0 => rest.insert(index, entry, hash, Self::CAPACITY),
                _ => found.insert(index, entry, hash, Self::CAPACITY),
            }
            rest
        };
        self.chunks.insert(chunk + 1, rest);
    }

    /// Joins a chunk with a neighbour, if they fit into one chunk with room for more.
    fn merge(&mut self, chunk: usize) {
        let fits = |left: usize| {
            let [left, right] =
                [left, left + 1].map(|chunk| self.chunks.get(chunk).map_or(usize::MAX, |chunk| chunk.entries().len()));
            left.saturating_add(right) <= Self::CAPACITY / 4 * 3
        };
        let Some(left) = [Some(chunk), chunk.checked_sub(1)].into_iter().flatten().find(|left| fits(*left)) else {
            return;
        };
        let right = self.chunks.remove(left + 1);
        self.chunks[left].append(right);
    }
}

impl<T: SortedEntry> FromIterator<T> for SortedEntries<T> {
    /// If a key has several entries, the last of them remains.
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut sorted = Self::default();
        for entry in entries {
            sorted.insert(entry);
        }
        sorted
    }
}
