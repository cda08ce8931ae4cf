//! Decides which events keep their encoded frames: the newest events, within a size limit. A frame is as long as its
//! object, so frames for the whole history would double the memory of the cache. A watcher that lags further behind
//! encodes its own frames.

use std::sync::{Arc, Weak};

use crate::Event;
use crate::chunked_queue::ChunkedQueue;

/// The maximum size of the objects whose events keep frames. There may be one frame per watched format.
const LIMIT: usize = 16 << 20;
/// The same limit while memory is short. Without any frames each watcher would encode its own.
const SMALL_LIMIT: usize = 1 << 20;

/// The events of all watch caches that keep their frames.
#[derive(Debug)]
pub(crate) struct FrameBudget {
    /// The events, oldest first, each with the size of a frame. The history may drop events earlier.
    events: ChunkedQueue<(usize, Weak<Event>)>,
    bytes: usize,
    limit: usize,
}

impl Default for FrameBudget {
    fn default() -> Self {
        Self { events: ChunkedQueue::default(), bytes: 0, limit: LIMIT }
    }
}

impl FrameBudget {
    /// Adds a new event. The oldest events beyond the limit drop their frames.
    pub(crate) fn push(&mut self, event: &Arc<Event>) {
        let length = event.frame_size();
        self.bytes += length;
        self.events.push_back((length, Arc::downgrade(event)));
        self.evict();
    }

    /// Keeps fewer frames while memory is short.
    pub(crate) fn set_small(&mut self, small: bool) {
        self.limit = if small { SMALL_LIMIT } else { LIMIT };
        self.evict();
    }

    fn evict(&mut self) {
        while self.bytes > self.limit
            && let Some((length, event)) = self.events.pop_front()
        {
            self.bytes -= length;
            if let Some(event) = event.upgrade() {
                event.drop_frames();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameKey, Object, ObjectIndex};
    use bytes::Bytes;

    fn event(revision: u64, length: usize) -> Arc<Event> {
        let json = Bytes::from(vec![b' '; length]);
        let object = Arc::new(Object::new("key".into(), revision, json, ObjectIndex::default()));
        Arc::new(Event::new("key".into(), revision, Some(object), None))
    }

    /// Renders a frame of each event twice and checks for which events the first frame was kept.
    fn check(lengths: &[usize], kept: &[bool]) {
        let mut frame_budget = FrameBudget { limit: 2000, ..FrameBudget::default() };
        let events: Vec<_> = lengths.iter().zip(1..).map(|(length, revision)| event(revision, *length)).collect();
        for event in &events {
            event.frame(FrameKey::default(), || Bytes::from_static(b"first"));
            frame_budget.push(event);
        }
        let second = || Bytes::from_static(b"second");
        let found: Vec<_> =
            events.iter().map(|event| event.frame(FrameKey::default(), second) == b"first"[..]).collect();
        assert_eq!(found, kept);
        // An event that has dropped its frames keeps no new frames, because they would not be counted.
        let third = || Bytes::from_static(b"third");
        for (event, kept) in events.iter().zip(kept) {
            assert_eq!(event.frame(FrameKey::default(), third), if *kept { &b"first"[..] } else { &b"third"[..] });
        }
        assert!(frame_budget.bytes <= frame_budget.limit);
    }

    #[test]
    fn only_the_newest_events_keep_their_frames() {
        check(&[], &[]);
        check(&[500, 500], &[true, true]);
        check(&[500, 500, 900], &[false, true, true]);
        check(&[10, 10, 1900], &[false, false, true]);
        check(&[10, 5000, 10], &[false, false, true]);
    }

    #[test]
    fn events_dropped_from_history_are_removed() {
        let mut frame_budget = FrameBudget { limit: 2000, ..FrameBudget::default() };
        for revision in 0..100 {
            frame_budget.push(&event(revision, 900));
        }
        assert!(frame_budget.events.len() <= 2 && frame_budget.bytes <= 2000);
    }
}
