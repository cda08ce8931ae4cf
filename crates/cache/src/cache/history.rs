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

/// Maximum number of events of a run. The history drops whole runs.
const MAX_EVENTS_PER_RUN: u64 = 32;
/// Maximum size that the events of a run retain, in bytes.
const MAX_RUN_BYTES: usize = 64 << 10;
/// Maximum time between two events of a run.
const MAX_RUN_PAUSE: Duration = Duration::from_millis(100);

/// The retained events of all watch caches, in the order of their revisions.
#[derive(Default)]
pub(super) struct EventHistory {
    /// The oldest events, in runs. Only the logs of their watch caches keep them, packed or, if packing is not
    /// possible, unchanged.
    logged: ChunkedQueue<EventRun>,
    /// The newer events, which are not packed yet.
    unpacked: ChunkedQueue<UnpackedEvent>,
    /// The number of events that have been dropped.
    pub(super) evicted: u64,
    /// The revision of the newest dropped event.
    pub(super) evicted_to: u64,
    /// The position of the first event in `unpacked`: the number of events before it, including dropped ones.
    logged_end: u64,
    pub(super) retained_bytes: usize,
    /// The size that the events in `unpacked` retain.
    unpacked_bytes: usize,
    /// The limit of the retained size while memory is short. It replaces the configured limits.
    pub(super) reduced_bytes: Option<usize>,
    pub(super) frame_budget: FrameBudget,
}

/// Events that follow each other here and in the log of their watch cache. A run saves memory: a million separate
/// events would take as much memory here as in the log.
struct EventRun {
    /// The position of the run's first event in the history.
    first: u64,
    /// The index of the run's first event in the log, see [`WatchCache::append`].
    log_index: u64,
    newest_revision: u64,
    /// When the newest event of the run was added.
    added_at: Timestamp,
    retained_bytes: usize,
    watch_cache: Arc<WatchCache>,
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

impl EventRun {
    /// True if an event belongs to the run when it comes after `length` events of the run.
    fn is_continued_by(&self, length: u64, event: &UnpackedEvent, retained_bytes: usize) -> bool {
        Arc::ptr_eq(&self.watch_cache, &event.watch_cache)
            && self.log_index + length == event.log_index
            && length < MAX_EVENTS_PER_RUN
            && self.retained_bytes + retained_bytes <= MAX_RUN_BYTES
            && event.added_at <= self.added_at.after(MAX_RUN_PAUSE)
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
        usize::try_from(self.logged_end - self.evicted).unwrap_or(usize::MAX) + self.unpacked.len()
    }

    /// The revision of the event that is dropped next, and when it was added. For a run, both belong to its newest
    /// event.
    pub(super) fn next_to_drop(&self) -> Option<(Timestamp, u64)> {
        let run = self.logged.front().map(|run| (run.added_at, run.newest_revision));
        run.or_else(|| self.unpacked.front().map(|unpacked| (unpacked.added_at, unpacked.event.revision)))
    }

    /// Drops the oldest event, together with the other events of its run. Returns false if there is no event.
    pub(super) fn pop(&mut self) -> bool {
        let (watch_cache, count) = if let Some(run) = self.logged.pop_front() {
            self.retained_bytes -= run.retained_bytes;
            self.evicted_to = run.newest_revision;
            let end = self.logged.front().map_or(self.logged_end, |next| next.first);
            (run.watch_cache, end - run.first)
        } else if let Some(unpacked) = self.unpacked.pop_front() {
            self.retained_bytes -= unpacked.retained_bytes();
            self.unpacked_bytes -= unpacked.retained_bytes();
            self.evicted_to = unpacked.event.revision;
            self.logged_end += 1;
            (unpacked.watch_cache, 1)
        } else {
            return false;
        };
        self.evicted += count;
        watch_cache.drop_oldest(count);
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
        (self.logged_end, due.collect())
    }

    /// Records that the events after `before` are packed, and the size that each event retains now. `None` is an event
    /// that stays unpacked.
    pub(super) fn set_packed(&mut self, before: u64, sizes: &[Option<usize>]) {
        for (number, size) in (before..).zip(sizes) {
            // Some of the events may have been dropped meanwhile.
            if number != self.logged_end {
                continue;
            }
            let Some(event) = self.unpacked.pop_front() else { return };
            let retained_bytes = size.unwrap_or_else(|| event.retained_bytes());
            self.unpacked_bytes -= event.retained_bytes();
            self.retained_bytes = self.retained_bytes - event.retained_bytes() + retained_bytes;
            self.push_logged(&event, retained_bytes);
        }
    }

    fn push_logged(&mut self, event: &UnpackedEvent, retained_bytes: usize) {
        let (first, newest_revision, added_at) = (self.logged_end, event.event.revision, event.added_at);
        self.logged_end += 1;
        let last = self.logged.back_mut();
        match last.filter(|run| run.is_continued_by(first - run.first, event, retained_bytes)) {
            Some(run) => {
                run.retained_bytes += retained_bytes;
                (run.newest_revision, run.added_at) = (newest_revision, added_at);
            }
            None => {
                let (watch_cache, log_index) = (event.watch_cache.clone(), event.log_index);
                let run = EventRun { first, log_index, newest_revision, added_at, retained_bytes, watch_cache };
                self.logged.push_back(run);
            }
        }
    }

    /// Up to `max` events from a position on. Dropped events are left out.
    pub(super) fn events_from(&self, position: u64, max: usize) -> Vec<FoundEvents> {
        let (mut next, end) = (position, self.end().min(position.saturating_add(max as u64)));
        let mut found = Vec::new();
        let mut index = self.logged.partition_point(|run| run.first <= position).saturating_sub(1);
        while next < end.min(self.logged_end)
            && let Some(run) = self.logged.get(index)
        {
            index += 1;
            let run_end = self.logged.get(index).map_or(self.logged_end, |next| next.first).min(end);
            let count = usize::try_from(run_end - next).unwrap_or(usize::MAX);
            found.push(FoundEvents::InLog {
                watch_cache: run.watch_cache.clone(),
                log_index: run.log_index + (next - run.first),
                count,
            });
            next = run_end;
        }
        let start = usize::try_from(next - self.logged_end.min(next)).unwrap_or(usize::MAX);
        let unpacked =
            self.unpacked.iter_from(start).take(usize::try_from(end.saturating_sub(next)).unwrap_or(usize::MAX));
        found.extend(unpacked.map(|event| FoundEvents::Event((event.watch_cache.clone(), event.event.clone()))));
        found
    }

    /// Drops all events, and counts one more event for the events that were lost.
    pub(super) fn expire(&mut self) {
        while self.pop() {}
        self.evicted += 1;
        self.logged_end += 1;
    }

    /// The number of events so far, including dropped ones.
    pub(super) fn end(&self) -> u64 {
        self.logged_end + self.unpacked.len() as u64
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
        let runs = test.history.logged.len();
        assert!(runs * 4 < test.history.len(), "{runs} runs of {} events", test.history.len());
        test.history.pop();
        test.check();
        while test.history.pop() {}
        test.check();
        assert_eq!((test.history.retained_bytes, test.history.unpacked_bytes), (0, 0));
    }
}
