//! How much history is kept: by age and by size, whichever is less. A timeline of coarse marks tells, without asking
//! the engine, which revision has fallen out of the window.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Revision, Timestamp};

/// How many marks a full window has in each of its two dimensions; history is cut at marks.
const MARKS: u64 = 256;

/// The history that a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Changes older than this may go.
    pub duration: Duration,
    /// When the changes' keys and values come to more than this, the oldest may go.
    pub bytes: u64,
}

impl Default for Window {
    /// Five minutes (kube-apiserver's compaction interval) or 256 MiB.
    fn default() -> Window {
        Window { duration: Duration::from_secs(300), bytes: 256 << 20 }
    }
}

/// Everything up to `revision` was committed by `time` and comes to `total` bytes since the timeline began.
#[derive(Clone, Copy, Debug)]
struct Mark {
    revision: Revision,
    time: Timestamp,
    total: u64,
}

/// When, and after how many bytes, revisions were committed.
#[derive(Debug)]
pub(crate) struct Timeline {
    window: Window,
    marks: VecDeque<Mark>,
    last: Option<Mark>,
}

impl Timeline {
    pub(crate) fn new(window: Window) -> Timeline {
        Timeline { window, marks: VecDeque::new(), last: None }
    }

    /// Takes note of one change. Time never runs backwards here, even if the clock did.
    pub(crate) fn note(&mut self, revision: Revision, time: Timestamp, bytes: usize) {
        let (time, total) = match &self.last {
            Some(last) => (time.max(last.time), last.total + bytes as u64),
            None => (time, bytes as u64),
        };
        let mark = Mark { revision, time, total };
        let step = u64::try_from(self.window.duration.as_millis()).unwrap_or(u64::MAX) / MARKS;
        let due = self.marks.back().is_none_or(|previous| {
            time.0 - previous.time.0 >= step || total - previous.total >= self.window.bytes / MARKS
        });
        if due {
            self.marks.push_back(mark);
        }
        self.last = Some(mark);
    }

    /// The time to give to a change committed now.
    pub(crate) fn stamp(&self, now: Timestamp) -> Timestamp {
        self.last.map_or(now, |last| now.max(last.time))
    }

    /// The newest revision that has left the window, if any; what it passes is forgotten.
    pub(crate) fn horizon(&mut self, now: Timestamp) -> Option<Revision> {
        let last = self.last?;
        let mut left = None;
        while let Some(mark) = self.marks.front().filter(|mark| self.has_left(mark, &last, now)) {
            left = Some(mark.revision);
            self.marks.pop_front();
        }
        if self.has_left(&last, &last, now) {
            left = Some(last.revision);
            self.last = None;
            self.marks.clear();
        }
        left
    }

    fn has_left(&self, mark: &Mark, last: &Mark, now: Timestamp) -> bool {
        mark.time.after(self.window.duration) <= now || last.total - mark.total >= self.window.bytes.max(1)
    }

    /// Whether the window has moved on because of its size, whatever the time.
    pub(crate) fn is_full(&self) -> bool {
        match (self.marks.front(), &self.last) {
            (Some(mark), Some(last)) => last.total - mark.total >= self.window.bytes.max(1),
            _ => false,
        }
    }

    /// When the window will move next if nothing is written until then.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.marks.front().or(self.last.as_ref()).map(|mark| mark.time.after(self.window.duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes `(revision, ms, bytes)` and compares what the window has lost by `now`.
    fn check(window: (u64, u64), notes: &[(u64, u64, usize)], now: u64, expect: Option<u64>) {
        let mut timeline = Timeline::new(Window { duration: Duration::from_millis(window.0), bytes: window.1 });
        for (revision, time, bytes) in notes {
            timeline.note(Revision(*revision), Timestamp(*time), *bytes);
        }
        assert_eq!(timeline.horizon(Timestamp(now)), expect.map(Revision), "{window:?} {notes:?} at {now}");
    }

    #[test]
    fn age() {
        check((100, 1000), &[], 500, None);
        check((100, 1000), &[(2, 0, 1), (3, 50, 1)], 99, None);
        check((100, 1000), &[(2, 0, 1), (3, 50, 1)], 100, Some(2));
        check((100, 1000), &[(2, 0, 1), (3, 50, 1)], 150, Some(3));
        // The clock stepped back: revision 3 counts as no older than revision 2.
        check((100, 1000), &[(2, 80, 1), (3, 10, 1)], 150, None);
    }

    #[test]
    fn size() {
        check((100, 10), &[(2, 0, 4), (3, 0, 4), (4, 0, 4)], 0, None);
        check((100, 10), &[(2, 0, 4), (3, 0, 4), (4, 0, 4), (5, 0, 4)], 0, Some(2));
        check((100, 10), &[(2, 0, 4), (3, 0, 40)], 0, Some(2));
        check((100, 0), &[(2, 0, 4), (3, 0, 40)], 0, Some(2));
    }

    #[test]
    fn due() {
        let mut timeline = Timeline::new(Window { duration: Duration::from_millis(100), bytes: 10 });
        assert_eq!(timeline.next_due(), None);
        timeline.note(Revision(2), Timestamp(7), 1);
        assert_eq!(timeline.next_due(), Some(Timestamp(107)));
        assert_eq!(timeline.horizon(Timestamp(107)), Some(Revision(2)));
        assert_eq!(timeline.next_due(), None, "an idle store does not wake");
    }
}
