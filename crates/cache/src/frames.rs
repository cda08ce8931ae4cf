//! Which events keep their finished frames: the newest ones, by bytes. A frame is as long as its object, so that one per
//! event of the window would double what the cache takes; a watcher that lags further behind makes its own.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::Event;

/// How many bytes of objects the events come to that keep their frames. There may be a frame per form that is watched.
const LIMIT: usize = 16 << 20;

/// The events that keep their frames, over all logs.
#[derive(Debug)]
pub(crate) struct Framed {
    /// Oldest first, each with the length of a frame. The window may let go of them earlier.
    events: VecDeque<(usize, Weak<Event>)>,
    bytes: usize,
    limit: usize,
}

impl Default for Framed {
    fn default() -> Self {
        Self { events: VecDeque::new(), bytes: 0, limit: LIMIT }
    }
}

impl Framed {
    /// Adds a new event; the oldest ones beyond the limit give up their frames.
    pub(crate) fn push(&mut self, event: &Arc<Event>) {
        let length = event.frame_length();
        self.bytes += length;
        self.events.push_back((length, Arc::downgrade(event)));
        while self.bytes > self.limit
            && let Some((length, event)) = self.events.pop_front()
        {
            self.bytes -= length;
            if let Some(event) = event.upgrade() {
                event.forget_frames();
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

    /// Renders a frame of each event twice, and says for which the first one was kept.
    fn check(lengths: &[usize], kept: &[bool]) {
        let mut framed = Framed { limit: 2000, ..Framed::default() };
        let events: Vec<_> = lengths.iter().zip(1..).map(|(length, revision)| event(revision, *length)).collect();
        for event in &events {
            event.frame(FrameKey::default(), || Bytes::from_static(b"first"));
            framed.push(event);
        }
        let second = || Bytes::from_static(b"second");
        let found: Vec<_> =
            events.iter().map(|event| event.frame(FrameKey::default(), second) == b"first"[..]).collect();
        assert_eq!(found, kept);
        // What was given up stays so: nobody keeps a frame that nobody counts.
        let third = || Bytes::from_static(b"third");
        for (event, kept) in events.iter().zip(kept) {
            assert_eq!(event.frame(FrameKey::default(), third), if *kept { &b"first"[..] } else { &b"third"[..] });
        }
        assert!(framed.bytes <= framed.limit);
    }

    #[test]
    fn the_newest_events_keep_their_frames() {
        check(&[], &[]);
        check(&[500, 500], &[true, true]);
        check(&[500, 500, 900], &[false, true, true]);
        check(&[10, 10, 1900], &[false, false, true]);
        check(&[10, 5000, 10], &[false, false, true]);
    }

    #[test]
    fn events_that_left_the_window_do_not_matter() {
        let mut framed = Framed { limit: 2000, ..Framed::default() };
        for revision in 0..100 {
            framed.push(&event(revision, 900));
        }
        assert!(framed.events.len() <= 2 && framed.bytes <= 2000);
    }
}
