//! The in-memory index: the newest row of every key, the lease expiries and the extent of the history. It is rebuilt by
//! one pass over the log when the file is opened, so that a commit writes only log rows.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Bound;

use pintle_sorted::{SortedEntries, SortedEntry};
use rusqlite::Connection;

use super::encryption::RowTally;
use super::file::FileError;
use super::log::{self, LogReader, RowHeader, missing_row};
use super::meta::{Meta, RevisionSet};
use super::row_format::RowFormat;
use crate::retention::RetentionTracker;
use crate::{Error, HistoryRetention, Key, KeyInterval, Revision, Timestamp};

/// The minimum number of rows that two threads read.
const MIN_PARALLEL_ROWS: u64 = 10_000;

/// The newest row of a key. There is one entry for every key, so the entry is packed into three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// The mod revision, and the flags in the lowest bits.
    revision: u64,
    create_revision: Revision,
    previous: Option<NonZeroU64>,
}

/// The flags of an index entry: the row is a tombstone, and the row has a time at which the key expires.
const DELETED: u64 = 1;
const EXPIRES: u64 = 2;
const FLAG_BITS: u32 = 2;

impl IndexEntry {
    /// The mod revision: the row of the key's last change.
    pub(super) fn revision(self) -> Revision {
        Revision(self.revision >> FLAG_BITS)
    }

    /// The create revision of the key that this row changes or deletes.
    pub(super) fn create_revision(self) -> Revision {
        self.create_revision
    }

    /// The previous change of the key, if it was still retained when this row was written.
    pub(super) fn previous(self) -> Option<Revision> {
        self.previous.map(|previous| Revision(previous.get()))
    }

    /// True if the row is a tombstone.
    pub(super) fn is_deleted(self) -> bool {
        self.revision & DELETED != 0
    }

    /// True if the row has a time at which the key expires.
    pub(super) fn expires(self) -> bool {
        self.revision & EXPIRES != 0
    }
}

impl From<&RowHeader> for IndexEntry {
    fn from(row: &RowHeader) -> IndexEntry {
        let flags = u64::from(row.size.is_none()) * DELETED + u64::from(row.expires.is_some()) * EXPIRES;
        IndexEntry {
            // SQLite's integers are signed, and their maximum is far larger than any revision.
            revision: row.revision.0 << FLAG_BITS | flags,
            create_revision: row.create_revision,
            previous: row.previous.and_then(|previous| NonZeroU64::new(previous.0)),
        }
    }
}

/// A key and its newest row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedKey {
    pub(super) key: Key,
    pub(super) entry: IndexEntry,
}

impl SortedEntry for IndexedKey {
    fn key(&self) -> &str {
        &self.key
    }
}

/// The state of the engine. It reflects exactly the durably committed changes.
#[derive(Debug)]
pub(super) struct KeyIndex {
    /// The current revision.
    pub(super) revision: Revision,
    /// The compact revision: the oldest revision that can be read.
    pub(super) compact_revision: Revision,
    /// Rows that are obsolete at this revision have been removed from the file (etcd calls this a finished compaction).
    pub(super) purged_revision: Revision,
    /// The set of rows up to the purged revision that are in the file.
    pub(super) retained: RevisionSet,
    /// The rows of the file, if it is encrypted.
    pub(super) rows: RowTally,
    /// The index accepts a log without any row after this revision.
    base: Revision,
    keys: SortedEntries<IndexedKey>,
    pub(super) expiries: BTreeMap<(Timestamp, Revision), Key>,
    pub(super) retention_tracker: RetentionTracker,
    /// The time of the newest change.
    pub(super) newest_time: Option<Timestamp>,
    /// The number of running reads by revision.
    active_reads: BTreeMap<Revision, usize>,
}

impl KeyIndex {
    /// Builds the index from the log, which two connections read. It checks that no row is missing. The rows up to the
    /// purged revision must be the retained ones, and the later rows must have consecutive revisions.
    pub(super) fn load(
        connections: [&mut Connection; 2],
        format: &RowFormat,
        retention: HistoryRetention,
        meta: &Meta,
    ) -> Result<KeyIndex, FileError> {
        let Meta { compact_revision, purged_revision, base, .. } = *meta;
        let mut index = KeyIndex {
            revision: purged_revision,
            compact_revision,
            purged_revision,
            retained: RevisionSet::default(),
            rows: RowTally::default(),
            base,
            keys: SortedEntries::default(),
            expiries: BTreeMap::new(),
            retention_tracker: RetentionTracker::new(retention),
            newest_time: None,
            active_reads: BTreeMap::new(),
        };
        let mut rows: Vec<IndexedKey> = Vec::new();
        // The last row of a key decides whether it expires.
        let mut expiring: BTreeMap<Key, (Timestamp, Revision)> = BTreeMap::new();
        let loaded = read_log(connections, format)?;
        loaded.iter().for_each(|loaded| index.rows.merge(&loaded.tally));
        for row in loaded.into_iter().flat_map(|loaded| loaded.rows) {
            if row.revision > purged_revision {
                if row.revision != index.revision.next() {
                    return Err(missing_row(index.revision.next()));
                }
                index.revision = row.revision;
            } else {
                index.retained.add(row.revision);
            }
            let (time, bytes) = (row.time, row.key.len() + row.size.unwrap_or(0));
            index.newest_time = index.newest_time.max(Some(time));
            if row.revision > compact_revision {
                index.retention_tracker.record_change(row.revision, time, bytes);
            }
            match row.expires {
                Some(due) => drop(expiring.insert(row.key.clone(), (due, row.revision))),
                None if expiring.is_empty() => {}
                None => drop(expiring.remove(&row.key)),
            }
            let entry = IndexEntry::from(&row);
            rows.push(IndexedKey { key: row.key, entry });
        }
        // The sort is stable, so that the newest row of a key remains. Sorting once costs less than inserting in any
        // order.
        rows.sort_by(|one, other| one.key.cmp(&other.key));
        index.keys = rows.into_iter().collect();
        if meta.retained.is_some_and(|retained| retained != index.retained) {
            return Err(FileError::Corrupted(format!(
                "records up to revision {purged_revision} are missing, or are there twice"
            )));
        }
        if meta.rows.is_some_and(|rows| rows != index.rows.sum()) {
            return Err(FileError::Corrupted(
                "records are missing, or are there twice, or are older than its meta record".to_owned(),
            ));
        }
        if let Some(newest) = meta.newest.filter(|newest| *newest != index.revision) {
            return Err(missing_row(newest));
        }
        // Compaction never removes the newest row, so rows must follow unless nothing was ever removed.
        if compact_revision > index.revision || (index.revision == purged_revision && purged_revision > base) {
            return Err(missing_row(compact_revision.max(purged_revision.next())));
        }
        index.expiries = expiring.into_iter().map(|(key, due)| (due, key)).collect();
        Ok(index)
    }

    /// The row of `meta` for this state. `is_open` is false when the store closes.
    pub(super) fn meta(&self, is_open: bool) -> Meta {
        Meta {
            compact_revision: self.compact_revision,
            purged_revision: self.purged_revision,
            retained: Some(self.retained),
            base: self.base,
            is_open,
            newest: Some(self.revision),
            rows: Some(self.rows.sum()),
        }
    }

    /// The revisions of the newest rows of all existing keys.
    pub(super) fn live_rows(&self) -> impl Iterator<Item = Revision> {
        self.keys.iter().filter(|indexed| !indexed.entry.is_deleted()).map(|indexed| indexed.entry.revision())
    }

    /// Compares with an index that was just read from the file. Returns how they differ.
    pub(super) fn difference(&self, read: &KeyIndex) -> Option<String> {
        if read.revision != self.revision {
            return Some(format!("its newest revision is {}, although {} is committed", read.revision, self.revision));
        }
        if read.purged_revision != self.purged_revision || read.compact_revision > self.compact_revision {
            return Some("its compact revision is not the committed one".to_owned());
        }
        if self.keys.iter().eq(read.keys.iter()) {
            return None;
        }
        let differs = |indexed: &&IndexedKey| read.keys.get(&indexed.key) != Some(*indexed);
        let key = self.keys.iter().find(differs).map_or("another key", |indexed| &indexed.key);
        Some(format!("the record of {key} is not the committed one"))
    }

    /// The newest row of a key.
    pub(super) fn entry(&self, key: &str) -> Option<IndexEntry> {
        self.keys.get(key).map(|indexed| indexed.entry)
    }

    /// Sets the newest row of a key. A known key keeps its text, which other structures share.
    pub(super) fn set_entry(&mut self, key: Key, entry: IndexEntry) {
        match self.keys.get_mut(&key) {
            Some(indexed) => indexed.entry = entry,
            None => drop(self.keys.insert(IndexedKey { key, entry })),
        }
    }

    /// Removes a key if its newest row has this revision.
    pub(super) fn remove_row(&mut self, key: &str, revision: Revision) {
        if self.entry(key).is_some_and(|entry| entry.revision() == revision) {
            self.keys.remove(key);
        }
    }

    /// The revision to read at, or an error if the revision cannot be read.
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

    /// The revision up to which rows can be removed. Rows that a running read needs stay. The newest row always stays,
    /// since it holds the store's current revision.
    pub(super) fn purgeable_revision(&self) -> Revision {
        let newest = Revision(self.revision.0.saturating_sub(1));
        let pinned = self.active_reads.keys().next().copied().unwrap_or(newest);
        self.compact_revision.min(newest).min(pinned).max(self.purged_revision)
    }

    /// The keys of an interval.
    pub(super) fn entries_in<'i>(&'i self, interval: &'i KeyInterval) -> impl Iterator<Item = &'i IndexedKey> {
        self.keys_after(interval, None)
    }

    /// The keys of an interval, after the key `after` if it is given.
    pub(super) fn keys_after<'i>(
        &'i self,
        interval: &'i KeyInterval,
        after: Option<&'i Key>,
    ) -> impl Iterator<Item = &'i IndexedKey> {
        let start = after.map_or(Bound::Included(&*interval.start), |after| Bound::Excluded(after));
        let end = interval.end.as_deref();
        self.keys.range_from(start).take_while(move |indexed| end.is_none_or(|end| *indexed.key < *end))
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

/// Rows in order, and their tally if the store is encrypted.
#[derive(Default)]
struct LoadedRows {
    rows: Vec<RowHeader>,
    tally: RowTally,
}

/// Reads the headers of all rows in order. Each connection reads half of them, at the same time.
fn read_log([first, second]: [&mut Connection; 2], format: &RowFormat) -> Result<[LoadedRows; 2], FileError> {
    let middle = match log::extent(first)? {
        Some((oldest, newest)) if newest.0 - oldest.0 >= MIN_PARALLEL_ROWS => {
            Revision(u64::midpoint(oldest.0, newest.0))
        }
        _ => return Ok([read_headers(first, format, Revision(0), Revision(u64::MAX))?, LoadedRows::default()]),
    };
    std::thread::scope(|scope| {
        let rest = move || read_headers(second, format, middle, Revision(u64::MAX));
        let thread = std::thread::Builder::new().name("store-load".to_owned()).spawn_scoped(scope, rest);
        let before = read_headers(first, format, Revision(0), middle);
        let after = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => return Ok([before?, read_headers(first, format, middle, Revision(u64::MAX))?]),
        };
        Ok([before?, after?])
    })
}

fn read_headers(
    connection: &Connection,
    format: &RowFormat,
    after: Revision,
    until: Revision,
) -> Result<LoadedRows, FileError> {
    let mut loaded = LoadedRows::default();
    LogReader::new(connection, format)?.scan(after, until, usize::MAX, |row, code| {
        loaded.rows.push(row);
        code.iter().for_each(|code| loaded.tally.add(code));
        Ok(())
    })?;
    Ok(loaded)
}
