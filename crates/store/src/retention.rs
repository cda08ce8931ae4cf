//! History retention by age and by size; the limit that is reached first applies. A list of coarse samples tells which
//! revisions have left the retention, without asking the engine.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Revision, Timestamp};

/// The number of samples in a full retention period, for time and for size each. Compaction is as coarse as the
/// samples.
const MAX_SAMPLES: u64 = 256;

/// The limits on the history that a store retains (etcd's auto-compaction retention).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRetention {
    /// Changes older than this are compacted.
    pub duration: Duration,
    /// When the keys and values of the retained changes exceed this size, the oldest changes are compacted.
    pub bytes: u64,
}

impl Default for HistoryRetention {
    /// Five minutes (kube-apiserver's compaction interval) or 256 MiB.
    fn default() -> HistoryRetention {
        HistoryRetention { duration: Duration::from_secs(300), bytes: 256 << 20 }
    }
}

/// A sample: everything up to `revision` was committed by `time`. `total` is the size of all changes since the tracker
/// started.
#[derive(Clone, Copy, Debug)]
struct RevisionSample {
    revision: Revision,
    time: Timestamp,
    total: u64,
}

/// Records when, and after how many bytes, revisions were committed.
#[derive(Debug)]
pub(crate) struct RetentionTracker {
    retention: HistoryRetention,
    samples: VecDeque<RevisionSample>,
    last: Option<RevisionSample>,
}

impl RetentionTracker {
    pub(crate) fn new(retention: HistoryRetention) -> RetentionTracker {
        RetentionTracker { retention, samples: VecDeque::new(), last: None }
    }

    /// Records one change. The recorded time never goes backwards, even if the clock does.
    pub(crate) fn record_change(&mut self, revision: Revision, time: Timestamp, bytes: usize) {
        let (time, total) = match &self.last {
            Some(last) => (time.max(last.time), last.total + bytes as u64),
            None => (time, bytes as u64),
        };
        let sample = RevisionSample { revision, time, total };
        let step = u64::try_from(self.retention.duration.as_millis()).unwrap_or(u64::MAX) / MAX_SAMPLES;
        let is_due = self.samples.back().is_none_or(|previous| {
            time.0 - previous.time.0 >= step || total - previous.total >= self.retention.bytes / MAX_SAMPLES
        });
        if is_due {
            self.samples.push_back(sample);
        }
        self.last = Some(sample);
    }

    /// The timestamp for a change that is committed now.
    pub(crate) fn monotonic_time(&self, now: Timestamp) -> Timestamp {
        self.last.map_or(now, |last| now.max(last.time))
    }

    /// The newest revision that has left the retention, if any. Drops the samples up to it.
    pub(crate) fn compactable_revision(&mut self, now: Timestamp) -> Option<Revision> {
        let last = self.last?;
        let mut newest = None;
        while let Some(sample) = self.samples.front().filter(|sample| self.is_outside(sample, &last, now)) {
            newest = Some(sample.revision);
            self.samples.pop_front();
        }
        if self.is_outside(&last, &last, now) {
            newest = Some(last.revision);
            self.last = None;
            self.samples.clear();
        }
        newest
    }

    fn is_outside(&self, sample: &RevisionSample, last: &RevisionSample, now: Timestamp) -> bool {
        sample.time.after(self.retention.duration) <= now || last.total - sample.total >= self.retention.bytes.max(1)
    }

    /// Returns true if the oldest changes exceed the size limit, independent of the time.
    pub(crate) fn exceeds_size(&self) -> bool {
        match (self.samples.front(), &self.last) {
            (Some(sample), Some(last)) => last.total - sample.total >= self.retention.bytes.max(1),
            _ => false,
        }
    }

    /// The time at which the next revision leaves the retention if nothing is written until then.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.samples.front().or(self.last.as_ref()).map(|sample| sample.time.after(self.retention.duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records changes given as `(revision, ms, bytes)` and compares the compactable revision at `now`.
    fn check(retention: (u64, u64), changes: &[(u64, u64, usize)], now: u64, expect: Option<u64>) {
        let mut tracker = RetentionTracker::new(HistoryRetention {
            duration: Duration::from_millis(retention.0),
            bytes: retention.1,
        });
        for (revision, time, bytes) in changes {
            tracker.record_change(Revision(*revision), Timestamp(*time), *bytes);
        }
        assert_eq!(
            tracker.compactable_revision(Timestamp(now)),
            expect.map(Revision),
            "{retention:?} {changes:?} at {now}"
        );
    }

    #[test]
    fn changes_older_than_the_retention_are_compactable() {
        check((100, 1000), &[], 500, None);
        check((100, 1000), &[(2, 0, 1), (3, 50, 1)], 99, None);
        check((100, 1000), &[(2, 0, 1), (3, 50, 1)], 100, Some(2));
        check((100, 1000), &[(2, 0, 1), (3, 50, 1)], 150, Some(3));
        // The clock stepped back: revision 3 is as old as revision 2.
        check((100, 1000), &[(2, 80, 1), (3, 10, 1)], 150, None);
    }

    #[test]
    fn changes_beyond_the_size_limit_are_compactable() {
        check((100, 10), &[(2, 0, 4), (3, 0, 4), (4, 0, 4)], 0, None);
        check((100, 10), &[(2, 0, 4), (3, 0, 4), (4, 0, 4), (5, 0, 4)], 0, Some(2));
        check((100, 10), &[(2, 0, 4), (3, 0, 40)], 0, Some(2));
        check((100, 0), &[(2, 0, 4), (3, 0, 40)], 0, Some(2));
    }

    #[test]
    fn deadline_follows_the_oldest_sample_and_ends_with_it() {
        let mut tracker = RetentionTracker::new(HistoryRetention { duration: Duration::from_millis(100), bytes: 10 });
        assert_eq!(tracker.next_deadline(), None);
        tracker.record_change(Revision(2), Timestamp(7), 1);
        assert_eq!(tracker.next_deadline(), Some(Timestamp(107)));
        assert_eq!(tracker.compactable_revision(Timestamp(107)), Some(Revision(2)));
        assert_eq!(tracker.next_deadline(), None, "an idle store does not wake");
    }
}
