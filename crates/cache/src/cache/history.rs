//! The retained events of all watch caches, in the order of their revisions, and which of them are packed.

use std::sync::Arc;
use std::time::Duration;

use pintle_store::Timestamp;

use super::{HistoryLimits, StreamedEvent};
use crate::Event;
use crate::chunked_queue::ChunkedQueue;
use crate::frame_budget::FrameBudget;
use crate::watch_cache::WatchCache;

/// The maximum age and size of events before they are packed. Watchers that follow the collection have received them by
/// then.
const UNPACKED: HistoryLimits = HistoryLimits { duration: Duration::from_secs(10), bytes: 8 << 20 };
/// How many events are packed for each change. It is more than one, so that the number of due events falls while
/// changes come one after the other. Large batches of changes come only when there is more work than time. Then the
/// history may be dropped before it is packed.
pub(super) const PACKED_PER_CHANGE: usize = 2;
/// The maximum number of events that are packed at once, and the maximum size that they retain.
pub(super) const PACK_BATCH: usize = 128;
const PACK_BATCH_BYTES: usize = 1 << 20;

/// The retained events of all watch caches, in the order of their revisions.
#[derive(Default)]
pub(super) struct EventHistory {
    /// The oldest events. Only the logs of their watch caches keep them, packed or, if packing is not possible,
    /// unchanged.
    logged: ChunkedQueue<LoggedEvent>,
    /// The newer events, which are not packed yet.
    unpacked: ChunkedQueue<UnpackedEvent>,
    /// The number of events that have been dropped.
    pub(super) evicted: u64,
    /// The revision of the newest dropped event.
    pub(super) evicted_to: u64,
    pub(super) retained_bytes: usize,
    /// The size that the events in `unpacked` retain.
    unpacked_bytes: usize,
    /// The limit of the retained size while memory is short. It replaces the configured limits.
    pub(super) reduced_bytes: Option<usize>,
    pub(super) frame_budget: FrameBudget,
}

/// An event in the log of its watch cache.
struct LoggedEvent {
    added_at: Timestamp,
    watch_cache: Arc<WatchCache>,
    /// The event's index in the log, see [`WatchCache::append`].
    log_index: u64,
    revision: u64,
    retained_bytes: usize,
}

/// An event that is not packed.
struct UnpackedEvent {
    added_at: Timestamp,
    watch_cache: Arc<WatchCache>,
    /// The event's index in the log.
    log_index: u64,
    event: Arc<Event>,
}

/// A part of the history that a reader has found.
pub(super) enum FoundEvents {
    Event(StreamedEvent),
    /// A number of events in the log of a watch cache, from an index on.
    InLog {
        watch_cache: Arc<WatchCache>,
        log_index: u64,
        count: usize,
    },
}

impl UnpackedEvent {
    fn retained_bytes(&self) -> usize {
        self.event.retained_bytes()
    }
}

impl EventHistory {
    /// Adds events of a watch cache. `log_index` is the index of the first event in its log.
    pub(super) fn push(
        &mut self,
        added_at: Timestamp,
        watch_cache: &Arc<WatchCache>,
        log_index: u64,
        events: &[Arc<Event>],
    ) {
        for (log_index, event) in (log_index..).zip(events) {
            let event = event.clone();
            let added = UnpackedEvent { added_at, watch_cache: watch_cache.clone(), log_index, event };
            self.retained_bytes += added.retained_bytes();
            self.unpacked_bytes += added.retained_bytes();
            self.frame_budget.push(&added.event);
            self.unpacked.push_back(added);
        }
    }

    /// Sorts the events that were read at the start by their revisions. None of the events is packed yet.
    pub(super) fn sort(&mut self) {
        debug_assert!(self.logged.front().is_none());
        self.unpacked.sort_by_key(|unpacked| unpacked.event.revision);
    }

    /// The number of events.
    pub(super) fn len(&self) -> usize {
        self.logged.len() + self.unpacked.len()
    }

    /// The revision of the event that is dropped next, and when it was added.
    pub(super) fn next_to_drop(&self) -> Option<(Timestamp, u64)> {
        let logged = self.logged.front().map(|logged| (logged.added_at, logged.revision));
        logged.or_else(|| self.unpacked.front().map(|unpacked| (unpacked.added_at, unpacked.event.revision)))
    }

    /// Drops the oldest event. Returns false if there is no event.
    pub(super) fn pop(&mut self) -> bool {
        let watch_cache = if let Some(logged) = self.logged.pop_front() {
            self.retained_bytes -= logged.retained_bytes;
            self.evicted_to = logged.revision;
            logged.watch_cache
        } else if let Some(unpacked) = self.unpacked.pop_front() {
            self.retained_bytes -= unpacked.retained_bytes();
            self.unpacked_bytes -= unpacked.retained_bytes();
            self.evicted_to = unpacked.event.revision;
            unpacked.watch_cache
        } else {
            return false;
        };
        self.evicted += 1;
        watch_cache.drop_oldest();
        true
    }

    /// Up to `max` of the oldest events that are due to be packed, and the number of events before them.
    pub(super) fn next_to_pack(&self, now: Timestamp, max: usize) -> (u64, Vec<StreamedEvent>) {
        let mut unpacked_bytes = self.unpacked_bytes;
        let is_due = |unpacked: &&UnpackedEvent| {
            let due = unpacked_bytes > UNPACKED.bytes || unpacked.added_at.after(UNPACKED.duration) <= now;
            unpacked_bytes = unpacked_bytes.saturating_sub(unpacked.retained_bytes());
            due
        };
        let mut bytes = 0;
        let is_within = |unpacked: &&UnpackedEvent| {
            let is_within = bytes < PACK_BATCH_BYTES;
            bytes += unpacked.retained_bytes();
            is_within
        };
        let due = self.unpacked.iter_from(0).take(max).take_while(is_due).take_while(is_within);
        let due = due.map(|unpacked| (unpacked.watch_cache.clone(), unpacked.event.clone()));
        (self.logged_end(), due.collect())
    }

    /// Records that the events after `before` are packed, and the size that each event retains now. `None` is an event
    /// that stays unpacked.
    pub(super) fn set_packed(&mut self, before: u64, sizes: &[Option<usize>]) {
        for (number, size) in (before..).zip(sizes) {
            // Some of the events may have been dropped meanwhile.
            if number != self.logged_end() {
                continue;
            }
            let Some(event) = self.unpacked.pop_front() else { return };
            let retained_bytes = size.unwrap_or_else(|| event.retained_bytes());
            self.unpacked_bytes -= event.retained_bytes();
            self.retained_bytes = self.retained_bytes - event.retained_bytes() + retained_bytes;
            let UnpackedEvent { added_at, watch_cache, log_index, event } = event;
            let revision = event.revision;
            self.logged.push_back(LoggedEvent { added_at, watch_cache, log_index, revision, retained_bytes });
        }
    }

    /// Up to `max` events from a position on, which is not before the first event of the history.
    pub(super) fn events_from(&self, position: u64, max: usize) -> Vec<FoundEvents> {
        let start = usize::try_from(position.saturating_sub(self.evicted)).unwrap_or(usize::MAX);
        let logged_count = self.logged.len().saturating_sub(start).min(max);
        let mut found: Vec<FoundEvents> = Vec::new();
        for logged in self.logged.iter_from(start).take(logged_count) {
            match found.last_mut() {
                Some(FoundEvents::InLog { watch_cache, log_index, count })
                    if Arc::ptr_eq(watch_cache, &logged.watch_cache)
                        && *log_index + *count as u64 == logged.log_index =>
                {
                    *count += 1;
                }
                _ => found.push(FoundEvents::InLog {
                    watch_cache: logged.watch_cache.clone(),
                    log_index: logged.log_index,
                    count: 1,
                }),
            }
        }
        let unpacked = self.unpacked.iter_from(start.saturating_sub(self.logged.len())).take(max - logged_count);
        found.extend(unpacked.map(|event| FoundEvents::Event((event.watch_cache.clone(), event.event.clone()))));
        found
    }

    /// Drops all events, and counts one more event for the events that were lost.
    pub(super) fn expire(&mut self) {
        while self.pop() {}
        self.evicted += 1;
    }

    /// The position of the first event in `unpacked`: the number of events before it, including dropped ones.
    fn logged_end(&self) -> u64 {
        self.evicted + self.logged.len() as u64
    }

    /// The number of events so far, including dropped ones.
    pub(super) fn end(&self) -> u64 {
        self.logged_end() + self.unpacked.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch_cache::{NewState, PendingChange};
    use crate::{Object, ObjectIndex};

    /// The events of two watch caches, and the prefixes and revisions that the history should have for them.
    struct TwoCaches {
        watch_caches: [Arc<WatchCache>; 2],
        history: EventHistory,
        expected: Vec<(String, u64)>,
        now: Timestamp,
    }

    impl TwoCaches {
        fn append(&mut self, index: usize, count: usize) {
            let first = self.expected.last().map_or(1, |(_, revision)| revision + 1);
            let change = |revision: u64| {
                let key = format!("{}", revision % 40).as_str().into();
                let object = Object::new(key, revision, "x".repeat(500).into(), ObjectIndex::default());
                let new_state = if revision.is_multiple_of(7) { NewState::Deleted } else { NewState::Object(object) };
                PendingChange { key: format!("{}", revision % 40).as_str().into(), revision, new_state }
            };
            let watch_cache = &self.watch_caches[index];
            let mut changes: Vec<_> = (first..).take(count).map(change).collect();
            // A transaction of another client changes two keys at one revision.
            if let Some(revision) = changes.last().map(|last| last.revision)
                && revision.is_multiple_of(3)
            {
                let json = "y".repeat(300).into();
                let object = Object::new("other".into(), revision, json, ObjectIndex::default());
                changes.push(PendingChange { key: "other".into(), revision, new_state: NewState::Object(object) });
            }
            let (log_index, events) = watch_cache.append(changes);
            self.history.push(self.now, watch_cache, log_index, &events);
            self.expected.extend(events.iter().map(|event| (watch_cache.prefix().to_string(), event.revision)));
        }

        fn pack(&mut self, max: usize) {
            let (before, events) = self.history.next_to_pack(self.now.after(UNPACKED.duration), max);
            let mut sizes = Vec::new();
            for run in events.chunk_by(|(one, _), (next, _)| Arc::ptr_eq(one, next)) {
                let events: Vec<_> = run.iter().map(|(_, event)| event.clone()).collect();
                sizes.extend(run[0].0.pack(&events));
            }
            // Events that are dropped meanwhile are not recorded as packed.
            for _ in 0..max % 3 {
                self.history.pop();
            }
            self.history.set_packed(before, &sizes);
        }

        /// The events that a stream reads if it begins after `passed` events.
        fn read(&self, passed: u64, max: usize) -> Vec<(String, u64)> {
            let mut read = Vec::new();
            let mut add = |watch_cache: &WatchCache, event: &Event| {
                read.push((watch_cache.prefix().to_string(), event.revision));
            };
            for found in self.history.events_from(passed, max) {
                match found {
                    FoundEvents::Event((watch_cache, event)) => add(&watch_cache, &event),
                    FoundEvents::InLog { watch_cache, log_index, count } => {
                        let (events, _) = watch_cache.events_at(log_index, count, usize::MAX).expect("a history");
                        assert_eq!(events.len(), count);
                        events.iter().for_each(|event| add(&watch_cache, event));
                    }
                }
            }
            read
        }

        fn check(&self) {
            let history = &self.history;
            let evicted = usize::try_from(history.evicted).expect("a number");
            assert_eq!((history.len(), history.end()), (self.expected.len() - evicted, self.expected.len() as u64));
            assert_eq!(history.next_to_drop().is_some(), history.len() > 0);
            for start in (evicted..=self.expected.len()).step_by(11) {
                for max in [1, 40, usize::MAX] {
                    let expected = &self.expected[start..self.expected.len().min(start.saturating_add(max))];
                    assert_eq!(self.read(start as u64, max), expected, "{max} after {start}");
                }
            }
        }
    }

    #[test]
    fn events_are_found_by_their_number_however_they_are_packed() {
        let watch_caches = ["one", "two"].map(|prefix| Arc::new(WatchCache::new(prefix.into(), 0)));
        let (history, expected) = (EventHistory::default(), Vec::new());
        let mut test = TwoCaches { watch_caches, history, expected, now: Timestamp(1) };
        for round in 0..40 {
            test.append(round % 2, 1 + round * 7 % 50);
            test.append(usize::from(round % 3 == 0), 1);
            test.now = test.now.after(Duration::from_millis(90 + round as u64));
            test.pack(round * 11 % 60);
            if round % 4 == 3 {
                assert!(test.history.pop());
            }
            if let Some(last) = usize::try_from(test.history.evicted).expect("a number").checked_sub(1) {
                assert_eq!(test.history.evicted_to, test.expected[last].1);
            }
            test.check();
        }
        test.pack(usize::MAX);
        test.check();
        test.history.pop();
        test.check();
        while test.history.pop() {}
        test.check();
        assert_eq!((test.history.retained_bytes, test.history.unpacked_bytes), (0, 0));
    }
}
