//! The stream of the events of all watch caches, in one order.

use std::fmt;
use std::sync::Arc;

use super::history::FoundEvents;
use super::{Cache, CacheState};
use crate::{Event, TooOld, WatchCache};

/// The number of events that are read under one lock of the history.
const READ_BATCH: usize = 256;
/// The maximum size of the objects that are made from packed events at once, in bytes.
const MAX_PACKED_BYTES: usize = 1 << 20;

/// An event and its watch cache.
pub type StreamedEvent = (Arc<WatchCache>, Arc<Event>);

/// A cursor in the history of all watch caches. It returns their events in the order of their revisions, each once. It
/// costs writers nothing and retains nothing beyond the history.
pub struct EventStream {
    shared: Arc<CacheState>,
    /// The number of events before the next event.
    cursor: u64,
    /// The generation of the watch caches when they were last returned.
    listed_at: Option<u64>,
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl Cache {
    /// Creates a stream of the events from now on.
    #[must_use]
    pub fn event_stream(&self) -> EventStream {
        EventStream { shared: self.shared.clone(), cursor: self.shared.history.lock().end(), listed_at: None }
    }
}

impl EventStream {
    /// The watch caches, if one was added or removed since the last call. A watch cache is returned here before its
    /// first event.
    pub fn watch_caches(&mut self) -> Option<Vec<Arc<WatchCache>>> {
        let watch_caches = self.shared.watch_caches.read();
        if self.listed_at.replace(watch_caches.generation) == Some(watch_caches.generation) {
            return None;
        }
        Some(watch_caches.by_prefix.values().cloned().collect())
    }

    /// The number of events so far in all watch caches.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.shared.history.lock().end()
    }

    /// The number of events that this stream has returned or skipped.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.cursor
    }

    /// Returns the next events, and waits for the first. Dropping the future loses nothing.
    ///
    /// # Errors
    /// Returns an error if the stream has fallen behind the history and missed events. The next call continues with
    /// later events, like a new stream.
    pub async fn next(&mut self) -> Result<Vec<StreamedEvent>, TooOld> {
        loop {
            // The progress is read before the history: an event that is added afterwards advances the progress further.
            let applied_revision = self.shared.progress.get();
            let events = self.pending()?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.shared.progress.wait_until_fresh(applied_revision + 1).await;
        }
    }

    fn pending(&mut self) -> Result<Vec<StreamedEvent>, TooOld> {
        let history = self.shared.history.lock();
        let found = (self.cursor >= history.evicted).then(|| history.events_from(self.cursor, READ_BATCH));
        drop(history);
        let (mut events, mut packed_bytes) = (Vec::new(), 0);
        for found in found.ok_or_else(|| self.skip_missed())? {
            match found {
                FoundEvents::Event(event) => events.push(event),
                FoundEvents::InLog { .. } if packed_bytes >= MAX_PACKED_BYTES => break,
                FoundEvents::InLog { watch_cache, log_index, count } => {
                    let found = watch_cache.events_at(log_index, count, MAX_PACKED_BYTES - packed_bytes);
                    // The events may have been dropped meanwhile.
                    let (run, bytes) = found.ok_or_else(|| self.skip_missed())?;
                    packed_bytes += bytes;
                    let is_cut = run.len() < count;
                    events.extend(run.into_iter().map(|event| (watch_cache.clone(), event)));
                    if is_cut {
                        break;
                    }
                }
            }
        }
        self.cursor += events.len() as u64;
        Ok(events)
    }

    /// Moves the cursor to the end of the history, and returns the error for the missed events.
    fn skip_missed(&mut self) -> TooOld {
        let history = self.shared.history.lock();
        (self.cursor, self.listed_at) = (history.end(), None);
        TooOld { oldest: history.evicted_to }
    }
}
