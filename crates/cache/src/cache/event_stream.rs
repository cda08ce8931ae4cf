//! All that comes into the logs of a cluster, in one order.

use std::fmt;
use std::sync::Arc;

use super::{Cache, Shared};
use crate::{Event, TooOld, WatchCache};

/// How many events are taken under one hold of the history's lock.
const STRIDE: usize = 256;

/// An event, and the log that it came into.
pub type StreamedEvent = (Arc<WatchCache>, Arc<Event>);

/// A cursor in the history of all logs together: hands out their events in the order of their revisions, each once. It
/// costs those who write nothing, and keeps nothing beyond the window.
pub struct EventStream {
    shared: Arc<Shared>,
    /// How many events the history had seen before the next one.
    cursor: u64,
    /// Which change of the set of logs was told last.
    told: Option<u64>,
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl Cache {
    /// A tap that hands out what comes from now on.
    #[must_use]
    pub fn event_stream(&self) -> EventStream {
        EventStream { shared: self.shared.clone(), cursor: self.shared.history.lock().end(), told: None }
    }
}

impl EventStream {
    /// The logs there are, if they are not those of the last call. An event of a log comes only after the log can be
    /// seen here.
    pub fn watch_caches(&mut self) -> Option<Vec<Arc<WatchCache>>> {
        let watch_caches = self.shared.watch_caches.read();
        if self.told.replace(watch_caches.changes) == Some(watch_caches.changes) {
            return None;
        }
        Some(watch_caches.by_prefix.values().cloned().collect())
    }

    /// How many events there have been so far in all logs together.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.shared.history.lock().end()
    }

    /// How many of them were handed out here, or had passed before.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.cursor
    }

    /// The next events; waits for the first one. Nothing is lost if the wait is given up.
    ///
    /// # Errors
    /// The window has passed: events are lost. Those that come from now on are handed out next, as by a new tap.
    pub async fn next(&mut self) -> Result<Vec<StreamedEvent>, TooOld> {
        loop {
            // Looked at first: what comes after the look at the history is waited for.
            let applied = self.shared.progress.get();
            let events = self.pending()?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.shared.progress.reaches(applied + 1).await;
        }
    }

    fn pending(&mut self) -> Result<Vec<StreamedEvent>, TooOld> {
        let history = self.shared.history.lock();
        let Some(passed) = self.cursor.checked_sub(history.left) else {
            (self.cursor, self.told) = (history.end(), None);
            return Err(TooOld { oldest: history.events.front().map_or(0, |kept| kept.event.revision) });
        };
        let passed = usize::try_from(passed).unwrap_or(usize::MAX).min(history.events.len());
        let next = history.events.range(passed..).take(STRIDE);
        let events: Vec<StreamedEvent> = next.map(|kept| (kept.watch_cache.clone(), kept.event.clone())).collect();
        self.cursor += events.len() as u64;
        Ok(events)
    }
}
