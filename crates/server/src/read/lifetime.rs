//! The lifetime of a watch and the times of its bookmarks. Bookmarks are sent about every minute and shortly before the
//! end. So a client can resume from a recent revision (upstream: `cacheWatcher.nextBookmarkTime`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_store::{Clock, Sleep};

use crate::http::random_share;

/// Interval between bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Time between the last bookmark and the end.
const LAST_BOOKMARK_LEAD: Duration = Duration::from_secs(2);
/// Time until the first bookmark of a watch list after the bookmark that ends its initial events. Upstream sends it in
/// the next round of its bookmark timer, which fires about every second.
const WATCH_LIST_BOOKMARK_DELAY: Duration = Duration::from_secs(1);

/// The bookmarks of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BookmarkSchedule {
    /// The client wants no bookmarks.
    None,
    /// Bookmarks every minute and before the end.
    Periodic,
    /// A bookmark soon after the initial events, then as in `Periodic`.
    WatchList,
}

/// The next event in the lifetime of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifetimeEvent {
    /// A bookmark is due.
    Bookmark,
    /// The watch ends.
    End,
}

/// The timer of a watch. It starts when it is created.
pub(crate) struct WatchLifetime {
    clock: Arc<dyn Clock>,
    duration: Duration,
    end: Sleep,
    /// The next bookmark and its time since the start.
    bookmark: Option<(Duration, Sleep)>,
}

impl fmt::Debug for WatchLifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchLifetime").field("duration", &self.duration).finish_non_exhaustive()
    }
}

impl WatchLifetime {
    /// Starts the timer of a watch.
    pub(crate) fn start(clock: &Arc<dyn Clock>, duration: Duration, bookmarks: BookmarkSchedule) -> Self {
        let mut lifetime = Self { clock: clock.clone(), duration, end: clock.sleep(duration), bookmark: None };
        match bookmarks {
            BookmarkSchedule::None => {}
            BookmarkSchedule::Periodic => lifetime.schedule_bookmark(Duration::ZERO),
            BookmarkSchedule::WatchList => {
                let delay = WATCH_LIST_BOOKMARK_DELAY;
                lifetime.bookmark = (delay < duration).then(|| (delay, clock.sleep(delay)));
            }
        }
        lifetime
    }

    /// Schedules the bookmark after a time since the start.
    fn schedule_bookmark(&mut self, now: Duration) {
        let last = self.duration.saturating_sub(LAST_BOOKMARK_LEAD);
        self.bookmark = (now < last).then(|| {
            let at = (now + BOOKMARK_INTERVAL).min(last);
            (at, self.clock.sleep(at - now))
        });
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> LifetimeEvent {
        let Some((at, sleep)) = &mut self.bookmark else {
            (&mut self.end).await;
            return LifetimeEvent::End;
        };
        tokio::select! {
            biased;
            () = &mut self.end => LifetimeEvent::End,
            () = sleep => {
                let at = *at;
                self.schedule_bookmark(at);
                LifetimeEvent::Bookmark
            }
        }
    }
}

/// The duration of a watch with this `timeoutSeconds`. Without it, the duration is random, from `min` to twice `min`,
/// so that watches do not all end at the same time.
pub(crate) fn watch_duration(seconds: Option<i64>, min: Duration) -> Duration {
    // Upstream counts nanoseconds, which overflow. A negative timeout ends the watch at once.
    match seconds.unwrap_or(0).wrapping_mul(1_000_000_000) {
        0 => min.mul_f64(1.0 + random_share()),
        nanos => Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use pintle_store::{ManualClock, Timestamp};

    use super::*;

    /// Advances a clock by seconds during a watch, and compares the times of events.
    fn check(lasts: u64, bookmarks: BookmarkSchedule, expect: &[(u64, LifetimeEvent)]) {
        let manual = Arc::new(ManualClock::new(Timestamp(0)));
        let clock: Arc<dyn Clock> = manual.clone();
        let mut lifetime = WatchLifetime::start(&clock, Duration::from_secs(lasts), bookmarks);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let found = runtime.block_on(async {
            let mut found = Vec::new();
            for second in 0..=lasts {
                tokio::select! {
                    biased;
                    event = lifetime.next() => found.push((second, event)),
                    () = std::future::ready(()) => {}
                }
                manual.advance(Duration::from_secs(1));
            }
            found
        });
        assert_eq!(found, expect, "{lasts} s");
    }

    #[test]
    fn bookmarks_are_sent_every_minute_and_before_the_end() {
        use BookmarkSchedule::{None, Periodic, WatchList};
        use LifetimeEvent::{Bookmark, End};
        check(200, None, &[(200, End)]);
        check(200, Periodic, &[(60, Bookmark), (120, Bookmark), (180, Bookmark), (198, Bookmark), (200, End)]);
        check(62, Periodic, &[(60, Bookmark), (62, End)]);
        check(63, Periodic, &[(60, Bookmark), (61, Bookmark), (63, End)]);
        check(10, Periodic, &[(8, Bookmark), (10, End)]);
        check(3, Periodic, &[(1, Bookmark), (3, End)]);
        check(2, Periodic, &[(2, End)]);
        check(1, Periodic, &[(1, End)]);
        check(0, Periodic, &[(0, End)]);
        check(100, WatchList, &[(1, Bookmark), (61, Bookmark), (98, Bookmark), (100, End)]);
        check(4, WatchList, &[(1, Bookmark), (2, Bookmark), (4, End)]);
        check(3, WatchList, &[(1, Bookmark), (3, End)]);
        check(1, WatchList, &[(1, End)]);
    }

    #[test]
    fn the_duration_is_the_timeout_or_random() {
        let min = Duration::from_secs(1800);
        for (seconds, low, high) in [
            (None, 1800, 3600),
            (Some(0), 1800, 3600),
            (Some(1), 1, 1),
            (Some(86_400), 86_400, 86_400),
            (Some(-1), 0, 0),
            (Some(i64::MAX), 0, 0),
            (Some(i64::MIN + 1), 1, 1),
        ] {
            let found = watch_duration(seconds, min);
            let range = Duration::from_secs(low)..=Duration::from_secs(high);
            assert!(range.contains(&found), "{seconds:?}: {found:?}");
        }
        assert_ne!(watch_duration(None, min), watch_duration(None, min));
        assert_eq!(watch_duration(None, Duration::ZERO), Duration::ZERO);
    }
}
