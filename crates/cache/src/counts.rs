//! Remembers how many objects were left behind a chunk of a list, so that a client that walks a large collection in
//! chunks does not have it counted again for each of them.

use std::collections::VecDeque;

use crate::{Key, KeyRange};

/// How many walks are remembered.
const WALKS: usize = 64;

/// How many objects a range had at a revision behind a key.
#[derive(Debug)]
struct Count {
    range: KeyRange,
    at: u64,
    after: Key,
    remaining: usize,
}

/// The newest counts.
#[derive(Debug, Default)]
pub(crate) struct Counts(VecDeque<Count>);

impl Counts {
    /// What is known of what follows a key.
    pub(crate) fn find(&self, range: &KeyRange, at: u64, after: Option<&str>) -> Option<usize> {
        let after = after?;
        let found = self.0.iter().find(|count| count.at == at && &*count.after == after && count.range == *range);
        found.map(|count| count.remaining)
    }

    /// Keeps what was found, as long as it is among the newest.
    pub(crate) fn keep(&mut self, range: &KeyRange, at: u64, after: &str, remaining: usize) {
        if self.0.len() >= WALKS {
            self.0.pop_back();
        }
        self.0.push_front(Count { range: range.clone(), at, after: after.into(), remaining });
    }
}
