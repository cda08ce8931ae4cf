//! Many small entries in the order of their keys, with little memory beside them: an entry contains or points to its own key, and
//! entries are kept in chunks that are nearly full. A `BTreeMap` has the keys once more, and its nodes are half empty if keys
//! come in ascending order.

mod chunk;

use std::ops::Bound;

use self::chunk::Chunk;

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
        self.chunks.iter().flat_map(Chunk::entries)
    }
}

impl<T: SortedEntry> SortedEntries<T> {
    /// The entry of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        let Position { chunk, index } = self.find(key);
        Some(&self.chunks.get(chunk)?.entries()[index.ok()?])
    }

    /// The entry of a key, to be changed. Its key has to stay as it is.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        let Position { chunk, index } = self.find(key);
        Some(&mut self.chunks.get_mut(chunk)?.entries_mut()[index.ok()?])
    }

    /// Inserts an entry. Returns the one that had its key before.
    pub fn insert(&mut self, entry: T) -> Option<T> {
        let Position { chunk, index } = self.find(entry.key());
        match index {
            Ok(index) => Some(std::mem::replace(&mut self.chunks[chunk].entries_mut()[index], entry)),
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
            Bound::Included(key) | Bound::Excluded(key) => {
                let Position { chunk, index } = self.find(key);
                let is_excluded = matches!(start, Bound::Excluded(_));
                (chunk, index.map_or_else(|index| index, |index| index + usize::from(is_excluded)))
            }
        };
        let first = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.entries()[index..]);
        first.iter().chain(self.chunks.iter().skip(chunk + 1).flat_map(Chunk::entries))
    }

    /// Where a key is. The chunk exists unless there are none.
    fn find(&self, key: &str) -> Position {
        // Keys that come in ascending order belong to the end, which is found at once.
        if let Some(last) = self.chunks.last()
            && last.ends_before(key)
        {
            return Position { chunk: self.chunks.len() - 1, index: Err(last.entries().len()) };
        }
        let after = self.chunks.partition_point(|chunk| chunk.starts_at_or_before(key));
        let chunk = after.saturating_sub(1);
        Position { chunk, index: self.chunks.get(chunk).map_or(Err(0), |chunk| chunk.find(key)) }
    }

    fn insert_at(&mut self, chunk: usize, index: usize, entry: T) {
        self.len += 1;
        let Some(found) = self.chunks.get_mut(chunk) else { return self.chunks.push(Chunk::new(entry)) };
        let length = found.entries().len();
        if length < Self::CAPACITY {
            return found.insert(index, entry, Self::CAPACITY);
        }
        // A chunk is split where ascending keys continue, so that it stays full, or else in the middle.
        let at = if index == found.next_index() { index } else { length / 2 };
        let rest = if at == length {
            found.set_prefix();
            Chunk::new(entry)
        } else {
            let mut rest = found.split_off(at);
            match index.checked_sub(at) {
                Some(index) if index > 0 => rest.insert(index, entry, Self::CAPACITY),
                _ => found.insert(index, entry, Self::CAPACITY),
            }
            rest
        };
        self.chunks.insert(chunk + 1, rest);
    }

    /// Moves the entries of a chunk and a neighbour together, if they fit with room for more.
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
    /// The last entry of a key counts.
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut sorted = Self::default();
        for entry in entries {
            sorted.insert(entry);
        }
        sorted
    }
}
