//! How long a watch lasts and when it has bookmarks: about every minute, and shortly before its end, so that the client
//! goes on from close to where it was (upstream: `cacheWatcher.nextBookmarkTime`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_store::{Clock, Sleep};

/// Bookmarks come this often.
const PERIOD: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before the end.
const BEFORE_END: Duration = Duration::from_secs(2);

/// What it is time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A bookmark.
    Bookmark,
    /// The end.
    End,
}

/// The time of a watch, which runs from when this is made.
pub(crate) struct Lifetime {
    clock: Arc<dyn Clock>,
    lasts: Duration,
    end: Sleep,
    /// The next bookmark, and how long after the start it comes.
    bookmark: Option<(Duration, Sleep)>,
}

impl fmt::Debug for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifetime").field("lasts", &self.lasts).finish_non_exhaustive()
    }
}

impl Lifetime {
    /// Begins a watch that lasts this long.
    pub(crate) fn begin(clock: &Arc<dyn Clock>, lasts: Duration, bookmarks: bool) -> Self {
        let mut lifetime = Self { clock: clock.clone(), lasts, end: clock.sleep(lasts), bookmark: None };
        if bookmarks {
            lifetime.bookmark_after(Duration::ZERO);
        }
        lifetime
    }

    /// Plans the bookmark that follows a time of the watch.
    fn bookmark_after(&mut self, now: Duration) {
        let last = self.lasts.saturating_sub(BEFORE_END);
        self.bookmark = (now < last).then(|| {
            let at = (now + PERIOD).min(last);
            (at, self.clock.sleep(at - now))
        });
    }

    /// Waits for what comes next. Nothing is lost when the wait is given up.
    pub(crate) async fn next(&mut self) -> Due {
        let Some((at, sleep)) = &mut self.bookmark else {
            (&mut self.end).await;
            return Due::End;
        };
        tokio::select! {
            biased;
            () = &mut self.end => Due::End,
            () = sleep => {
                let at = *at;
                self.bookmark_after(at);
                Due::Bookmark
            }
        }
    }
}

/// How long a watch lasts that asks for so many seconds. Without a wish it lasts at least the server's time and at most
/// twice that, so that watches do not all end at once.
pub(crate) fn lasts(seconds: Option<i64>, least: Duration) -> Duration {
    // Upstream counts nanoseconds, which wrap around; with less than none a watch is over at once.
    match seconds.unwrap_or(0).wrapping_mul(1_000_000_000) {
        0 => least.mul_f64(1.0 + random()),
        nanos => Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)),
    }
}

/// A number from 0 to 1.
fn random() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use pintle_store::{ManualClock, Timestamp};

    use super::*;

    /// Moves a clock second by second through a watch, and says when what was due.
    fn check(lasts: u64, bookmarks: bool, expect: &[(u64, Due)]) {
        let manual = Arc::new(ManualClock::new(Timestamp(0)));
        let clock: Arc<dyn Clock> = manual.clone();
        let mut lifetime = Lifetime::begin(&clock, Duration::from_secs(lasts), bookmarks);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let found = runtime.block_on(async {
            let mut found = Vec::new();
            for second in 0..=lasts {
                tokio::select! {
                    biased;
                    due = lifetime.next() => found.push((second, due)),
                    () = std::future::ready(()) => {}
                }
                manual.advance(Duration::from_secs(1));
            }
            found
        });
        assert_eq!(found, expect, "{lasts} s");
    }

    #[test]
    fn bookmarks_come_every_minute_and_before_the_end() {
        use Due::{Bookmark, End};
        check(200, false, &[(200, End)]);
        check(200, true, &[(60, Bookmark), (120, Bookmark), (180, Bookmark), (198, Bookmark), (200, End)]);
        check(62, true, &[(60, Bookmark), (62, End)]);
        check(63, true, &[(60, Bookmark), (61, Bookmark), (63, End)]);
        check(10, true, &[(8, Bookmark), (10, End)]);
        check(3, true, &[(1, Bookmark), (3, End)]);
        check(2, true, &[(2, End)]);
        check(1, true, &[(1, End)]);
        check(0, true, &[(0, End)]);
    }

    #[test]
    fn clients_choose_or_the_server_does() {
        let least = Duration::from_secs(1800);
        for (seconds, low, high) in [
            (None, 1800, 3600),
            (Some(0), 1800, 3600),
            (Some(1), 1, 1),
            (Some(86_400), 86_400, 86_400),
            (Some(-1), 0, 0),
            (Some(i64::MAX), 0, 0),
            (Some(i64::MIN + 1), 1, 1),
        ] {
            let found = lasts(seconds, least);
            let range = Duration::from_secs(low)..=Duration::from_secs(high);
            assert!(range.contains(&found), "{seconds:?}: {found:?}");
        }
        assert_ne!(lasts(None, least), lasts(None, least));
        assert_eq!(lasts(None, Duration::ZERO), Duration::ZERO);
    }
}
