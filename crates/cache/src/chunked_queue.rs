//! A queue in chunks of a fixed size. It grows without moving more than a chunk, so that it can grow while a lock is
//! held. Only its first and its last chunk have unused room. A `VecDeque` copies all of its entries when it grows, and
//! then has room for twice as many.

use std::collections::VecDeque;
use std::iter::repeat_with;

/// The number of entries of a chunk.
const CHUNK: usize = 1024;

/// A queue whose entries have an index.
#[derive(Debug)]
pub(crate) struct ChunkedQueue<T> {
    /// All chunks except the first and the last are full. No chunk is empty.
    chunks: VecDeque<VecDeque<T>>,
}

impl<T> Default for ChunkedQueue<T> {
    fn default() -> Self {
        Self { chunks: VecDeque::new() }
    }
}

impl<T> ChunkedQueue<T> {
    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        match (self.chunks.front(), self.chunks.back()) {
            (Some(first), Some(last)) if self.chunks.len() > 1 => {
                first.len() + (self.chunks.len() - 2) * CHUNK + last.len()
            }
            (first, _) => first.map_or(0, VecDeque::len),
        }
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.chunks.front()?.front()
    }

    pub(crate) fn back(&self) -> Option<&T> {
        self.chunks.back()?.back()
    }

    pub(crate) fn push_back(&mut self, entry: T) {
        match self.chunks.back_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push_back(entry),
            // The first chunk of a queue starts without capacity, because many queues stay short.
            None => {
                let capacity = if self.chunks.is_empty() { 0 } else { CHUNK };
                let mut chunk = VecDeque::with_capacity(capacity);
                chunk.push_back(entry);
                self.chunks.push_back(chunk);
            }
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let first = self.chunks.front_mut()?;
        let entry = first.pop_front();
        if first.is_empty() {
            self.chunks.pop_front();
        }
        entry
    }

    /// The chunk of an index, and the index within the chunk.
    fn position(&self, index: usize) -> (usize, usize) {
        let first = self.chunks.front().map_or(0, VecDeque::len);
        match index.checked_sub(first) {
            None => (0, index),
            Some(rest) => (1 + rest / CHUNK, rest % CHUNK),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let (chunk, index) = self.position(index);
        self.chunks.get(chunk)?.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let (chunk, index) = self.position(index);
        self.chunks.get_mut(chunk)?.get_mut(index)
    }

    /// The entries from an index on.
    pub(crate) fn iter_from(&self, index: usize) -> impl Iterator<Item = &T> {
        let (chunk, index) = self.position(index);
        let chunks = self.chunks.range(chunk.min(self.chunks.len())..);
        // The iteration begins in the middle of the first chunk, and at the start of the others.
        let starts = std::iter::once(index).chain(repeat_with(|| 0));
        chunks.zip(starts).flat_map(|(chunk, start)| chunk.range(start.min(chunk.len())..))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }

    /// The index of the first entry that does not satisfy the condition. All entries before it must satisfy it, and no
    /// entries after it.
    pub(crate) fn partition_point(&self, mut condition: impl FnMut(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.get(middle).is_some_and(&mut condition) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Sorts the entries by a key. Entries with the same key keep their order.
    pub(crate) fn sort_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) {
        let mut entries: Vec<T> = std::mem::take(&mut self.chunks).into_iter().flatten().collect();
        entries.sort_by_key(key);
        entries.into_iter().for_each(|entry| self.push_back(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a queue with a `VecDeque`.
    fn check(queue: &ChunkedQueue<usize>, expected: &VecDeque<usize>) {
        assert_eq!(queue.len(), expected.len());
        assert_eq!((queue.front(), queue.back()), (expected.front(), expected.back()));
        let length = expected.len();
        for index in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, length / 2, length.saturating_sub(1), length, length + CHUNK] {
            assert_eq!(queue.get(index), expected.get(index), "{index} of {length}");
            let rest: Vec<_> = queue.iter_from(index).collect();
            assert_eq!(rest, expected.iter().skip(index).collect::<Vec<_>>(), "{index} of {length}");
            let value = expected.get(index).copied().unwrap_or(usize::MAX);
            assert_eq!(queue.partition_point(|entry| *entry < value), index.min(length), "{index} of {length}");
        }
    }

    #[test]
    fn a_queue_has_its_entries_in_order_however_it_grows_and_shrinks() {
        let (mut queue, mut expected) = (ChunkedQueue::default(), VecDeque::new());
        let mut next = 0;
        for (pushes, pops) in [
            (0, 1),
            (1, 0),
            (0, 1),
            (CHUNK, 0),
            (1, 1),
            (0, CHUNK),
            (10, 9),
            (CHUNK * 3, 500),
            (CHUNK - 1, CHUNK),
            (0, 3 * CHUNK),
            (5, 0),
        ] {
            for _ in 0..pushes {
                queue.push_back(next);
                expected.push_back(next);
                next += 1;
            }
            check(&queue, &expected);
            for _ in 0..pops {
                assert_eq!(queue.pop_front(), expected.pop_front());
            }
            check(&queue, &expected);
        }
    }

    #[test]
    fn entries_are_changed_and_sorted() {
        let mut queue = ChunkedQueue::default();
        (0..3000).for_each(|number| queue.push_back((number % 1500, number)));
        if let Some(entry) = queue.get_mut(2000) {
            entry.0 = 7000;
        }
        queue.iter_mut().for_each(|entry| entry.0 += 1);
        queue.sort_by_key(|entry| entry.0);
        // Sorted by the number, too, although it is not part of the key.
        let mut expected: Vec<_> =
            (0..3000).map(|number| (if number == 2000 { 7001 } else { number % 1500 + 1 }, number)).collect();
        expected.sort_unstable();
        assert!(queue.iter_from(0).eq(&expected));
        assert_eq!(queue.len(), 3000);
    }
}
