//! Watchers: cursors in a log. A live watcher is handed the events of its scope; one that does not keep up loses its
//! queue, not events, since it then reads on from the log at its own pace.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pintle_value::Str;
use tokio::sync::Notify;

use crate::object::namespace_of;
use crate::watch_cache::{TooOld, WatchCache};
use crate::{Event, Object};

/// How many events wait in a live watcher's queue before it has to read from the log, and how many bytes: what waits is
/// kept even when the window no longer has it.
const QUEUE: usize = 1024;
const QUEUE_BYTES: usize = 256 << 10;
/// How many events of the log are looked at under one hold of its lock.
const STRIDE: usize = 4096;

/// Which events a watcher is woken for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchScope {
    /// All of the collection.
    All,
    /// Those of a namespace.
    Namespace(Str),
    /// Those of one object, by its key.
    Key(Str),
    /// Those of objects whose selectable field (by its place in the kind's order) has this value before or after.
    Field(usize, Str),
}

impl WatchScope {
    fn wants(&self, event: &Event) -> bool {
        match self {
            WatchScope::All => true,
            WatchScope::Namespace(namespace) => namespace_of(&event.key) == namespace,
            WatchScope::Key(key) => *event.key == **key,
            WatchScope::Field(place, value) => {
                let is = |o: &Option<Arc<Object>>| o.as_ref().is_some_and(|o| o.field(*place) == value);
                is(&event.object) || is(&event.previous)
            }
        }
    }
}

/// The part of a watcher that the log knows.
#[derive(Debug)]
struct WatchBuffer {
    id: u64,
    /// It is for someone who has to hear of everything.
    sees_corrupt: bool,
    queue: Mutex<Queue>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    /// True while events are handed over; false while the watcher reads from the log.
    live: bool,
    events: Vec<Arc<Event>>,
    bytes: usize,
}

impl Queue {
    fn is_full(&self) -> bool {
        self.events.len() >= QUEUE || self.bytes >= QUEUE_BYTES
    }

    fn take(&mut self) -> Vec<Arc<Event>> {
        self.bytes = 0;
        std::mem::take(&mut self.events)
    }

    fn put(&mut self, events: &[Arc<Event>]) {
        for event in events {
            if self.is_full() {
                *self = Self::default();
            }
            if !self.live {
                return;
            }
            self.bytes += event.size();
            self.events.push(event.clone());
        }
    }
}

/// Who wants to know what: an event meets only the watchers whose scope it is in.
#[derive(Debug, Default)]
pub(crate) struct WatcherSet {
    next: AtomicU64,
    watchers: Mutex<ByScope>,
}

#[derive(Debug, Default)]
struct ByScope {
    all: Vec<Arc<WatchBuffer>>,
    namespaces: HashMap<Str, Vec<Arc<WatchBuffer>>>,
    keys: HashMap<Str, Vec<Arc<WatchBuffer>>>,
    /// By the field's place, then by its value: places that nobody wants are not looked at.
    fields: HashMap<usize, HashMap<Str, Vec<Arc<WatchBuffer>>>>,
}

impl WatcherSet {
    fn join(&self, scope: &WatchScope, sees_corrupt: bool) -> Arc<WatchBuffer> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let buffer = Arc::new(WatchBuffer { id, sees_corrupt, queue: Mutex::default(), notify: Notify::new() });
        let mut by = self.watchers.lock();
        match scope {
            WatchScope::All => by.all.push(buffer.clone()),
            WatchScope::Namespace(namespace) => {
                by.namespaces.entry(namespace.clone()).or_default().push(buffer.clone());
            }
            WatchScope::Key(key) => by.keys.entry(key.clone()).or_default().push(buffer.clone()),
            WatchScope::Field(place, value) => {
                by.fields.entry(*place).or_default().entry(value.clone()).or_default().push(buffer.clone());
            }
        }
        buffer
    }

    fn leave(&self, scope: &WatchScope, id: u64) {
        fn take<K: std::hash::Hash + Eq>(map: &mut HashMap<K, Vec<Arc<WatchBuffer>>>, key: &K, id: u64) {
            if let Some(list) = map.get_mut(key) {
                list.retain(|m| m.id != id);
                if list.is_empty() {
                    map.remove(key);
                }
            }
        }
        let mut by = self.watchers.lock();
        match scope {
            WatchScope::All => by.all.retain(|m| m.id != id),
            WatchScope::Namespace(namespace) => take(&mut by.namespaces, namespace, id),
            WatchScope::Key(key) => take(&mut by.keys, key, id),
            WatchScope::Field(place, value) => {
                if let Some(values) = by.fields.get_mut(place) {
                    take(values, value, id);
                    if values.is_empty() {
                        by.fields.remove(place);
                    }
                }
            }
        }
    }

    /// Hands over events that came together, each to those whose scope it is in, without waking them.
    pub(crate) fn offer(&self, events: &[Arc<Event>]) {
        self.watchers.lock().each(events, |buffer, events| buffer.queue.lock().put(events));
    }

    /// Makes those look into the log who have to hear of everything.
    pub(crate) fn interrupt(&self) {
        self.watchers.lock().buffers().filter(|buffer| buffer.sees_corrupt).for_each(|buffer| {
            *buffer.queue.lock() = Queue::default();
            buffer.notify.notify_one();
        });
    }

    /// Wakes those who were handed these events.
    pub(crate) fn wake(&self, events: &[Arc<Event>]) {
        self.watchers.lock().each(events, |buffer, _| buffer.notify.notify_one());
    }
}

impl ByScope {
    fn buffers(&self) -> impl Iterator<Item = &Arc<WatchBuffer>> {
        let by_field = self.fields.values().flat_map(HashMap::values);
        let scoped = self.namespaces.values().chain(self.keys.values()).chain(by_field);
        self.all.iter().chain(scoped.flatten())
    }

    /// Goes through those who want to know of these events, each with a run of them that it wants.
    fn each(&self, events: &[Arc<Event>], visit: impl Fn(&WatchBuffer, &[Arc<Event>])) {
        let visit_all = |buffers: Option<&Vec<Arc<WatchBuffer>>>, events: &[Arc<Event>]| {
            buffers.into_iter().flatten().for_each(|buffer| visit(buffer, events));
        };
        visit_all(Some(&self.all), events);
        if !self.namespaces.is_empty() {
            for run in events.chunk_by(|one, next| namespace_of(&one.key) == namespace_of(&next.key)) {
                visit_all(self.namespaces.get(namespace_of(&run[0].key)), run);
            }
        }
        if self.keys.is_empty() && self.fields.is_empty() {
            return;
        }
        for event in events {
            let alone = std::slice::from_ref(event);
            visit_all(self.keys.get(&*event.key), alone);
            for (place, values) in &self.fields {
                let after = event.object.as_ref().map(|o| o.field(*place));
                let before = event.previous.as_ref().map(|o| o.field(*place)).filter(|value| Some(*value) != after);
                for value in after.into_iter().chain(before) {
                    visit_all(values.get(value), alone);
                }
            }
        }
    }
}

/// A cursor in a log: hands out the events of its scope, in order, each once.
#[derive(Debug)]
pub struct Watcher {
    watch_cache: Arc<WatchCache>,
    scope: WatchScope,
    buffer: Arc<WatchBuffer>,
    cursor: u64,
}

impl Watcher {
    pub(crate) fn new(watch_cache: Arc<WatchCache>, scope: WatchScope, after: u64, sees_corrupt: bool) -> Self {
        let buffer = watch_cache.watchers().join(&scope, sees_corrupt);
        // One that starts at the newest revision, as most do, is live from now on: however late it first looks, events
        // that have left the window by then are in its queue. If there is anything to read first, it reads.
        buffer.queue.lock().live = true;
        if !matches!(watch_cache.events_after(after, 1, sees_corrupt, |_| false), Ok((_, seen, true)) if seen == after)
        {
            *buffer.queue.lock() = Queue::default();
        }
        Self { watch_cache, scope, buffer, cursor: after }
    }

    /// The events that have come since the last call; waits for the first one.
    ///
    /// # Errors
    /// The watcher fell behind the window (or started there): events are lost to it, it must list again.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, TooOld> {
        loop {
            let events = self.pending()?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.buffer.notify.notified().await;
        }
    }

    /// The events that are there already; empty where the watcher has seen everything.
    ///
    /// # Errors
    /// As [`Watcher::next`].
    pub fn pending(&mut self) -> Result<Vec<Arc<Event>>, TooOld> {
        loop {
            {
                let mut queue = self.buffer.queue.lock();
                if queue.live {
                    let cursor = self.cursor;
                    let mut events = queue.take();
                    // Events between the last look at the log and going live may be in both.
                    if events.first().is_some_and(|e| e.revision <= cursor) {
                        events.retain(|e| e.revision > cursor);
                    }
                    if let Some(last) = events.last() {
                        self.cursor = last.revision;
                    }
                    return Ok(events);
                }
            }
            let (events, seen, end) =
                self.watch_cache
                    .events_after(self.cursor, STRIDE, self.buffer.sees_corrupt, |e| self.scope.wants(e))?;
            self.cursor = seen;
            if end {
                // From here on events are handed over. What came in between is read from the log once more.
                self.buffer.queue.lock().live = true;
                let (rest, seen, end) =
                    self.watch_cache
                        .events_after(self.cursor, STRIDE, self.buffer.sees_corrupt, |e| self.scope.wants(e))?;
                self.cursor = seen;
                if !end {
                    self.buffer.queue.lock().live = false;
                }
                let mut events = events;
                events.extend(rest);
                if !events.is_empty() {
                    return Ok(events);
                }
                continue;
            }
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.watch_cache.watchers().leave(&self.scope, self.buffer.id);
    }
}
