//! What the engine holds in memory: for every key where its newest row is, what is due when, and how far the history
//! reaches. It is rebuilt by one pass over the log when the file is opened, so that a commit writes nothing but log rows.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Bound;

use super::file::Fault;
use super::rows::{Links, LogReader, missing};
use crate::window::Timeline;
use crate::{Error, Key, Revision, Span, Timestamp, Window};

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The row of the key's last change.
    pub(super) revision: Revision,
    /// The change that began the life that this row continues or ends.
    pub(super) created: Revision,
    /// The change to the key before this one, if it was kept when this one was made.
    pub(super) previous: Option<NonZeroU64>,
    /// The row is a deletion.
    pub(super) deleted: bool,
}

impl Entry {
    pub(super) fn new(revision: Revision, created: Revision, previous: Option<Revision>, deleted: bool) -> Entry {
        Entry { revision, created, previous: previous.and_then(|previous| NonZeroU64::new(previous.0)), deleted }
    }
}

/// The engine's memory; always what is durably committed, never ahead of it.
#[derive(Debug)]
pub(super) struct Index {
    /// The newest revision.
    pub(super) revision: Revision,
    /// The oldest revision that can be read.
    pub(super) compacted: Revision,
    /// Up to here, what compaction makes superfluous is already gone from the file.
    pub(super) swept: Revision,
    pub(super) keys: BTreeMap<Key, Entry>,
    pub(super) expiries: BTreeMap<(Timestamp, Revision), Key>,
    pub(super) timeline: Timeline,
    /// The revisions at which reads are under way, with how many.
    pins: BTreeMap<Revision, usize>,
}

impl Index {
    /// Reads the log.
    pub(super) fn load(
        log: &mut LogReader<'_>,
        window: Window,
        compacted: Revision,
        swept: Revision,
    ) -> Result<Index, Fault> {
        let mut index = Index {
            revision: swept,
            compacted,
            swept,
            keys: BTreeMap::new(),
            expiries: BTreeMap::new(),
            timeline: Timeline::new(window),
            pins: BTreeMap::new(),
        };
        // A key's last row decides whether it expires.
        let mut expiring: BTreeMap<Key, (Timestamp, Revision)> = BTreeMap::new();
        log.scan(Revision(0), Revision(u64::MAX), usize::MAX, |row| {
            if row.revision > swept {
                if row.revision != index.revision.next() {
                    return Err(missing(index.revision.next()));
                }
                index.revision = row.revision;
            }
            let (time, bytes) = (row.time, row.key.len() + row.size.unwrap_or(0));
            if row.revision > compacted {
                index.timeline.note(row.revision, time, bytes);
            }
            match row.expires {
                Some(due) => drop(expiring.insert(row.key.clone(), (due, row.revision))),
                None if expiring.is_empty() => {}
                None => drop(expiring.remove(&row.key)),
            }
            index.take_in(row);
            Ok(())
        })?;
        // Sweeping always leaves the newest row, so rows must follow unless nothing was ever swept.
        if compacted > index.revision || (index.revision == swept && swept > Revision::EMPTY) {
            return Err(missing(compacted.max(swept.next())));
        }
        index.expiries = expiring.into_iter().map(|(key, due)| (due, key)).collect();
        Ok(index)
    }

    fn take_in(&mut self, row: Links) {
        let Links { revision, created, previous, .. } = row;
        self.keys.insert(row.key, Entry::new(revision, created, previous, row.size.is_none()));
    }

    /// The revision at which to read, if it can be read.
    pub(super) fn readable(&self, at: Option<Revision>) -> Result<Revision, Error> {
        match at {
            None => Ok(self.revision),
            Some(at) if at < self.compacted => Err(Error::Compacted { oldest: self.compacted }),
            Some(at) if at > self.revision => Err(Error::Future { current: self.revision }),
            Some(at) => Ok(at),
        }
    }

    /// Keeps what a read at `revision` needs in the file until [`Index::unpin`].
    pub(super) fn pin(&mut self, revision: Revision) {
        *self.pins.entry(revision).or_default() += 1;
    }

    /// Tells whether sweeping may have waited for this.
    pub(super) fn unpin(&mut self, revision: Revision) -> bool {
        if let Some(count) = self.pins.get_mut(&revision) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&revision);
            }
        }
        revision < self.compacted
    }

    /// Up to where the file can be swept: not beyond a read under way, and never the newest row, which tells the
    /// store's revision.
    pub(super) fn sweepable(&self) -> Revision {
        let newest = Revision(self.revision.0.saturating_sub(1));
        let pinned = self.pins.keys().next().copied().unwrap_or(newest);
        self.compacted.min(newest).min(pinned).max(self.swept)
    }

    /// The next keys of an interval, beginning after `after` when given.
    pub(super) fn keys_in(&self, span: &Span, after: Option<&Key>, count: usize) -> Vec<(Key, Entry)> {
        if span.is_empty() {
            return Vec::new();
        }
        let start = after.map_or(Bound::Included(&span.start), Bound::Excluded);
        let end = span.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        self.keys.range::<Key, _>((start, end)).take(count).map(|(key, entry)| (key.clone(), *entry)).collect()
    }

    /// When something happens by itself next.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let expiry = self.expiries.keys().next().map(|(due, _)| *due);
        match (expiry, self.timeline.next_due()) {
            (Some(expiry), Some(window)) => Some(expiry.min(window)),
            (expiry, window) => expiry.or(window),
        }
    }
}
