//! The in-memory index: the newest row of every key, the lease expiries and the extent of the history. It is rebuilt by
//! one pass over the log when the file is opened, so that a commit writes only log rows.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Bound;

use super::file::FileError;
use super::log::{LogReader, RowHeader, missing_row};
use crate::retention::RetentionTracker;
use crate::{Error, HistoryRetention, Key, KeyInterval, Revision, Timestamp};

/// The newest row of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// The mod revision: the row of the key's last change.
    pub(super) revision: Revision,
    /// The create revision of the key that this row changes or deletes.
    pub(super) create_revision: Revision,
    /// The previous change of the key, if it was still retained when this row was written.
    pub(super) previous: Option<NonZeroU64>,
    /// The row is a tombstone.
    pub(super) deleted: bool,
    /// The row has a time at which the key expires.
    pub(super) expires: bool,
}

impl From<&RowHeader> for IndexEntry {
    fn from(row: &RowHeader) -> IndexEntry {
        IndexEntry {
            revision: row.revision,
            create_revision: row.create_revision,
            previous: row.previous.and_then(|previous| NonZeroU64::new(previous.0)),
            deleted: row.size.is_none(),
            expires: row.expires.is_some(),
        }
    }
}

/// The state of the engine. It reflects exactly what is durably committed.
#[derive(Debug)]
pub(super) struct KeyIndex {
    /// The current revision.
    pub(super) revision: Revision,
    /// The compact revision: the oldest revision that can be read.
    pub(super) compact_revision: Revision,
    /// Rows that are obsolete at this revision have been removed from the file (etcd's finished compaction).
    pub(super) purged_revision: Revision,
    pub(super) keys: BTreeMap<Key, IndexEntry>,
    pub(super) expiries: BTreeMap<(Timestamp, Revision), Key>,
    pub(super) retention_tracker: RetentionTracker,
    /// The number of running reads by revision.
    active_reads: BTreeMap<Revision, usize>,
}

impl KeyIndex {
    /// Builds the index from the log.
    pub(super) fn load(
        log: &mut LogReader<'_>,
        retention: HistoryRetention,
        compact_revision: Revision,
        purged_revision: Revision,
    ) -> Result<KeyIndex, FileError> {
        let mut index = KeyIndex {
            revision: purged_revision,
            compact_revision,
            purged_revision,
            keys: BTreeMap::new(),
            expiries: BTreeMap::new(),
            retention_tracker: RetentionTracker::new(retention),
            active_reads: BTreeMap::new(),
        };
        // The last row of a key decides whether it expires.
        let mut expiring: BTreeMap<Key, (Timestamp, Revision)> = BTreeMap::new();
        log.scan(Revision(0), Revision(u64::MAX), usize::MAX, |row| {
            if row.revision > purged_revision {
                if row.revision != index.revision.next() {
                    return Err(missing_row(index.revision.next()));
                }
                index.revision = row.revision;
            }
            let (time, bytes) = (row.time, row.key.len() + row.size.unwrap_or(0));
            if row.revision > compact_revision {
                index.retention_tracker.record_change(row.revision, time, bytes);
            }
            match row.expires {
                Some(due) => drop(expiring.insert(row.key.clone(), (due, row.revision))),
                None if expiring.is_empty() => {}
                None => drop(expiring.remove(&row.key)),
            }
            index.insert(row);
            Ok(())
        })?;
        // Compaction never removes the newest row, so rows must follow unless nothing was ever removed.
        if compact_revision > index.revision || (index.revision == purged_revision && purged_revision > Revision::EMPTY)
        {
            return Err(missing_row(compact_revision.max(purged_revision.next())));
        }
        index.expiries = expiring.into_iter().map(|(key, due)| (due, key)).collect();
        Ok(index)
    }

    /// Compares with an index that was just read from the file. Returns how they differ.
    pub(super) fn difference(&self, read: &KeyIndex) -> Option<String> {
        if read.revision != self.revision {
            return Some(format!("its newest revision is {}, although {} is committed", read.revision, self.revision));
        }
        if read.purged_revision != self.purged_revision || read.compact_revision > self.compact_revision {
            return Some("its compact revision is not the committed one".to_owned());
        }
        if read.keys == self.keys {
            return None;
        }
        let differs = |(key, entry): &(&Key, &IndexEntry)| read.keys.get(*key) != Some(*entry);
        let key = self.keys.iter().find(differs).map_or("another key", |(key, _)| key);
        Some(format!("the record of {key} is not the committed one"))
    }

    fn insert(&mut self, row: RowHeader) {
        let entry = IndexEntry::from(&row);
        self.keys.insert(row.key, entry);
    }

    /// The revision to read at, or an error if it cannot be read.
    pub(super) fn resolve_revision(&self, at: Option<Revision>) -> Result<Revision, Error> {
        match at {
            None => Ok(self.revision),
            Some(at) if at < self.compact_revision => Err(Error::Compacted { oldest: self.compact_revision }),
            Some(at) if at > self.revision => Err(Error::FutureRevision { current: self.revision }),
            Some(at) => Ok(at),
        }
    }

    /// Keeps the rows that a read at `revision` needs until [`KeyIndex::release_read`].
    pub(super) fn register_read(&mut self, revision: Revision) {
        *self.active_reads.entry(revision).or_default() += 1;
    }

    /// Returns true if compaction may have waited for this read.
    pub(super) fn release_read(&mut self, revision: Revision) -> bool {
        if let Some(count) = self.active_reads.get_mut(&revision) {
            *count -= 1;
            if *count == 0 {
                self.active_reads.remove(&revision);
            }
        }
        revision < self.compact_revision
    }

    /// The revision up to which rows can be removed: not beyond a running read, and never the newest row, which holds
    /// the store's current revision.
    pub(super) fn purgeable_revision(&self) -> Revision {
        let newest = Revision(self.revision.0.saturating_sub(1));
        let pinned = self.active_reads.keys().next().copied().unwrap_or(newest);
        self.compact_revision.min(newest).min(pinned).max(self.purged_revision)
    }

    /// The keys of an interval.
    pub(super) fn entries_in(&self, interval: &KeyInterval) -> impl Iterator<Item = (&Key, &IndexEntry)> {
        let range = (!interval.is_empty()).then(|| self.keys.range::<Key, _>(interval.bounds()));
        range.into_iter().flatten()
    }

    /// Up to `count` keys of an interval, after the key `after` if it is given.
    pub(super) fn keys_in(&self, interval: &KeyInterval, after: Option<&Key>, count: usize) -> Vec<(Key, IndexEntry)> {
        if interval.is_empty() {
            return Vec::new();
        }
        let (start, end) = interval.bounds();
        let start = after.map_or(start, Bound::Excluded);
        self.keys.range::<Key, _>((start, end)).take(count).map(|(key, entry)| (key.clone(), *entry)).collect()
    }

    /// The time of the next expiry or compaction.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let expiry = self.expiries.keys().next().map(|(due, _)| *due);
        match (expiry, self.retention_tracker.next_deadline()) {
            (Some(expiry), Some(retention)) => Some(expiry.min(retention)),
            (expiry, retention) => expiry.or(retention),
        }
    }
}
