//! Caches the remaining item counts of chunked lists. A client that lists a large collection in chunks then does not
//! make the server count the collection for every chunk.

use std::collections::VecDeque;

use crate::{Key, KeyRange};

/// The maximum number of cached counts.
const MAX_COUNTS: usize = 64;

/// The number of objects of a range after a key, at a revision.
#[derive(Debug)]
struct RemainingCount {
    range: KeyRange,
    at: u64,
    after: Key,
    remaining: usize,
}

/// The newest counts.
#[derive(Debug, Default)]
pub(crate) struct RemainingCounts(VecDeque<RemainingCount>);

impl RemainingCounts {
    /// The number of objects after a key, if the number is cached.
    pub(crate) fn find(&self, range: &KeyRange, at: u64, after: Option<&str>) -> Option<usize> {
        let after = after?;
        let found = self.0.iter().find(|count| count.at == at && &*count.after == after && count.range == *range);
        found.map(|count| count.remaining)
    }

    /// Caches a count. If there are too many counts, drops the oldest.
    pub(crate) fn insert(&mut self, range: &KeyRange, at: u64, after: &str, remaining: usize) {
        if self.0.len() >= MAX_COUNTS {
            self.0.pop_back();
        }
        self.0.push_front(RemainingCount { range: range.clone(), at, after: after.into(), remaining });
    }
}
