//! The retained events of all watch caches, in the order of their revisions, and which of them are packed.

use std::sync::Arc;
use std::time::Duration;

use pintle_store::Timestamp;

use super::{HistoryLimits, StreamedEvent};
use crate::Event;
use crate::chunked_queue::ChunkedQueue;
use crate::frame_budget::FrameBudget;
use crate::watch_cache::WatchCache;

/// How long events stay as they are, and how much they may retain, before they are packed. Watchers that follow have
/// received them by then.
const UNPACKED: HistoryLimits = HistoryLimits { duration: Duration::from_secs(10), bytes: 8 << 20 };
/// How many events are packed for each change: more than are added, so that those that are due become fewer while changes
/// come one after the other. Large batches of changes come only when there is more to do than time; then the history may be
/// dropped before it is packed.
pub(super) const PACKED_PER_CHANGE: usize = 2;
/// How many events are packed at once, and how much they retain at most.
pub(super) const PACK_BATCH: usize = 128;
const PACK_BATCH_BYTES: usize = 1 << 20;

/// The retained events of all watch caches, in the order of their revisions.
#[derive(Default)]
pub(super) struct EventHistory {
    pub(super) events: ChunkedQueue<HistoryEntry>,
    /// The number of events that have been dropped.
    pub(super) evicted: u64,
    /// The revision of the newest dropped event.
    pub(super) evicted_to: u64,
    pub(super) retained_bytes: usize,
    /// The number of events at the front that have been packed, or have to stay as they are.
    packed: usize,
    /// What the others retain.
    unpacked_bytes: usize,
    /// What the history may retain while memory is short, instead of the configured limits.
    pub(super) reduced_bytes: Option<usize>,
    pub(super) frame_budget: FrameBudget,
}

/// An event in the history.
pub(super) struct HistoryEntry {
    pub(super) added_at: Timestamp,
    pub(super) retained_bytes: usize,
    pub(super) watch_cache: Arc<WatchCache>,
    pub(super) revision: u64,
    /// `None` if it is packed; the log of the watch cache has it.
    pub(super) event: Option<Arc<Event>>,
}

impl EventHistory {
    pub(super) fn push(&mut self, added_at: Timestamp, watch_cache: Arc<WatchCache>, event: Arc<Event>) {
        let retained_bytes = event.retained_bytes();
        self.retained_bytes += retained_bytes;
        self.unpacked_bytes += retained_bytes;
        self.frame_budget.push(&event);
        let (revision, event) = (event.revision, Some(event));
        self.events.push_back(HistoryEntry { added_at, retained_bytes, watch_cache, revision, event });
    }

    /// Drops the oldest event.
    pub(super) fn pop(&mut self) {
        if let Some(HistoryEntry { retained_bytes, watch_cache, revision, .. }) = self.events.pop_front() {
            self.retained_bytes -= retained_bytes;
            match self.packed.checked_sub(1) {
                Some(packed) => self.packed = packed,
                None => self.unpacked_bytes -= retained_bytes,
            }
            self.evicted += 1;
            self.evicted_to = revision;
            watch_cache.drop_oldest();
        }
    }

    /// Up to `max` of the oldest events that are not packed and are to be, and the number of events before them.
    pub(super) fn next_to_pack(&self, now: Timestamp, max: usize) -> (u64, Vec<StreamedEvent>) {
        let mut unpacked_bytes = self.unpacked_bytes;
        let is_due = |entry: &&HistoryEntry| {
            let due = unpacked_bytes > UNPACKED.bytes || entry.added_at.after(UNPACKED.duration) <= now;
            unpacked_bytes = unpacked_bytes.saturating_sub(entry.retained_bytes);
            due
        };
        let mut bytes = 0;
        let is_within = |entry: &&HistoryEntry| {
            let is_within = bytes < PACK_BATCH_BYTES;
            bytes += entry.retained_bytes;
            is_within
        };
        let due = self.events.iter_from(self.packed).take(max).take_while(is_due).take_while(is_within);
        let due = due.filter_map(|entry| Some((entry.watch_cache.clone(), entry.event.clone()?)));
        (self.evicted + self.packed as u64, due.collect())
    }

    /// Notes that events are packed, those after `before`, and what each retains now; `None` for one that stays as it is.
    pub(super) fn set_packed(&mut self, before: u64, sizes: &[Option<usize>]) {
        for (number, size) in (before..).zip(sizes) {
            // Some may have been dropped meanwhile.
            if number != self.evicted + self.packed as u64 {
                continue;
            }
            let Some(entry) = self.events.get_mut(self.packed) else { return };
            self.packed += 1;
            self.unpacked_bytes -= entry.retained_bytes;
            if let Some(size) = *size {
                self.retained_bytes = self.retained_bytes - entry.retained_bytes + size;
                (entry.retained_bytes, entry.event) = (size, None);
            }
        }
    }

    /// Drops all events, and counts one more: there have been others that nobody knows.
    pub(super) fn expire(&mut self) {
        while !self.events.is_empty() {
            self.pop();
        }
        self.evicted += 1;
    }

    /// The number of events so far, including dropped ones.
    pub(super) fn end(&self) -> u64 {
        self.evicted + self.events.len() as u64
    }
}
