//! Many small entries in the order of their keys, with little memory beside them: an entry contains or points to its own key, and
//! entries are kept in chunks that are nearly full. A `BTreeMap` has the keys once more, and its nodes are half empty if keys
//! come in ascending order.

use std::ops::Bound;

/// The size of the entries of a full chunk, in bytes: an insertion moves half of them on average.
const CHUNK_BYTES: usize = 8192;

/// An entry of [`SortedEntries`].
pub trait SortedEntry {
    /// The key, which stays the same while the entry is among others.
    fn key(&self) -> &str;
}

/// Entries in the ascending order of their keys, one for each key.
#[derive(Clone, Debug)]
pub struct SortedEntries<T> {
    /// None of them is empty.
    chunks: Vec<Chunk<T>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Chunk<T> {
    entries: Vec<T>,
    /// Where the next entry comes if keys are inserted in ascending order.
    next_index: usize,
}

/// Where a key is: the chunk, and the index of its entry or the one before which it would come.
struct Position {
    chunk: usize,
    index: Result<usize, usize>,
}

impl<T> Default for SortedEntries<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
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
        self.chunks.iter().flat_map(|chunk| &chunk.entries)
    }
}

impl<T: SortedEntry> SortedEntries<T> {
    /// The entry of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        let Position { chunk, index } = self.find(key);
        Some(&self.chunks.get(chunk)?.entries[index.ok()?])
    }

    /// The entry of a key, to be changed. Its key has to stay as it is.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        let Position { chunk, index } = self.find(key);
        Some(&mut self.chunks.get_mut(chunk)?.entries[index.ok()?])
    }

    /// Inserts an entry. Returns the one that had its key before.
    pub fn insert(&mut self, entry: T) -> Option<T> {
        let Position { chunk, index } = self.find(entry.key());
        match index {
            Ok(index) => Some(std::mem::replace(&mut self.chunks[chunk].entries[index], entry)),
            Err(index) => {
                self.insert_at(chunk, index, entry);
                None
            }
        }
    }

    /// Removes the entry of a key.
    pub fn remove(&mut self, key: &str) -> Option<T> {
        let Position { chunk, index } = self.find(key);
        let index = index.ok()?;
        let Chunk { entries, .. } = &mut self.chunks[chunk];
        let removed = entries.remove(index);
        self.len -= 1;
        if entries.is_empty() {
            self.chunks.remove(chunk);
        } else if entries.len() < Self::CAPACITY / 4 {
            self.merge(chunk);
        }
        Some(removed)
    }

    /// The entries from a key on, in order.
    pub fn range_from<'s>(&'s self, start: Bound<&str>) -> impl Iterator<Item = &'s T> + use<'s, T> {
        let (chunk, index) = match start {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) | Bound::Excluded(key) => {
                let Position { chunk, index } = self.find(key);
                let is_excluded = matches!(start, Bound::Excluded(_));
                (chunk, index.map_or_else(|index| index, |index| index + usize::from(is_excluded)))
            }
        };
        let first = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.entries[index..]);
        first.iter().chain(self.chunks.iter().skip(chunk + 1).flat_map(|chunk| &chunk.entries))
    }

    /// Where a key is. The chunk exists unless there are none.
    fn find(&self, key: &str) -> Position {
        // Keys that come in ascending order belong to the end, which is found at once.
        if let Some(last) = self.chunks.last()
            && last.entries.last().is_some_and(|entry| entry.key() < key)
        {
            return Position { chunk: self.chunks.len() - 1, index: Err(last.entries.len()) };
        }
        let after = self.chunks.partition_point(|chunk| chunk.entries.first().is_some_and(|first| first.key() <= key));
        let chunk = after.saturating_sub(1);
        let entries = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.entries);
        Position { chunk, index: entries.binary_search_by(|entry| entry.key().cmp(key)) }
    }

    fn insert_at(&mut self, chunk: usize, index: usize, entry: T) {
        self.len += 1;
        let Some(found) = self.chunks.get_mut(chunk) else {
            return self.chunks.push(Chunk { entries: vec![entry], next_index: 1 });
        };
        if found.entries.len() < Self::CAPACITY {
            return found.insert(index, entry, Self::CAPACITY);
        }
        // A chunk is split where ascending keys continue, so that it stays full, or else in the middle.
        let at = if index == found.next_index { index } else { Self::CAPACITY / 2 };
        let mut rest = Chunk { entries: found.entries.split_off(at), next_index: 0 };
        match index.checked_sub(at) {
            Some(index) if index > 0 || rest.entries.is_empty() => rest.insert(index, entry, Self::CAPACITY),
            _ => found.insert(index, entry, Self::CAPACITY),
        }
        self.chunks.insert(chunk + 1, rest);
    }

    /// Moves the entries of a chunk and a neighbour together, if they fit with room for more.
    fn merge(&mut self, chunk: usize) {
        let fits = |left: usize| {
            let [left, right] = [left, left + 1].map(|chunk| self.chunks.get(chunk).map_or(usize::MAX, Chunk::len));
            left.saturating_add(right) <= Self::CAPACITY / 4 * 3
        };
        let Some(left) = [Some(chunk), chunk.checked_sub(1)].into_iter().flatten().find(|left| fits(*left)) else {
            return;
        };
        let right = self.chunks.remove(left + 1).entries;
        let Chunk { entries, .. } = &mut self.chunks[left];
        entries.reserve_exact(right.len());
        entries.extend(right);
    }
}

impl<T> Chunk<T> {
    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Inserts an entry, with memory for no more than a full chunk.
    fn insert(&mut self, index: usize, entry: T, capacity: usize) {
        let length = self.entries.len();
        if length == self.entries.capacity() {
            self.entries.reserve_exact(length.clamp(1, capacity.saturating_sub(length).max(1)));
        }
        self.entries.insert(index, entry);
        self.next_index = index + 1;
    }
}

impl<T: SortedEntry> FromIterator<T> for SortedEntries<T> {
    /// The last entry of a key counts.
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut sorted = Self::default();
        for entry in entries {
            sorted.insert(entry);
        }
        sorted
    }
}
