//! Watchers: cursors in the log of a watch cache. A live watcher has a buffer that receives the events of its scope. A
//! slow watcher loses its buffer but no events: it continues with reading the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pintle_locks::Mutex;
use pintle_value::Str;
use tokio::sync::Notify;

use crate::object::namespace_of;
use crate::watch_cache::{TooOld, WatchCache};
use crate::{Event, Object};

/// The limits of a watch buffer, in events and in bytes. A watcher that exceeds them reads from the log. Buffered
/// events stay in memory even after the history has dropped them.
const MAX_QUEUED_EVENTS: usize = 1024;
const MAX_QUEUED_BYTES: usize = 256 << 10;
/// The number of events of the log that are scanned under one lock.
const READ_BATCH: usize = 4096;

/// The events that a watcher receives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchScope {
    /// All events of the collection.
    All,
    /// The events of a namespace.
    Namespace(Str),
    /// The events of one object, by its key.
    Key(Str),
    /// The events of objects whose selectable field has this value before or after the change. The number is the
    /// field's index in the order of the kind.
    Field(usize, Str),
}

impl WatchScope {
    pub(crate) fn matches(&self, event: &Event) -> bool {
        match self {
            WatchScope::All => true,
            WatchScope::Namespace(namespace) => namespace_of(&event.key) == namespace,
            WatchScope::Key(key) => *event.key == **key,
            WatchScope::Field(index, value) => {
                let has_value = |o: &Option<Arc<Object>>| o.as_ref().is_some_and(|o| o.field(*index) == value);
                has_value(&event.object) || has_value(&event.previous)
            }
        }
    }

    /// False if no event of a key matches.
    pub(crate) fn may_match_key(&self, key: &str) -> bool {
        match self {
            WatchScope::All | WatchScope::Field(..) => true,
            WatchScope::Namespace(namespace) => namespace_of(key) == namespace,
            WatchScope::Key(only) => *key == **only,
        }
    }
}

/// The part of a watcher that the watch cache holds.
#[derive(Debug)]
struct WatchBuffer {
    id: u64,
    /// True if the watcher must not miss a change, so a corrupt object ends it.
    stops_at_corrupt: bool,
    queue: Mutex<EventQueue>,
    /// True if the history began anew since the watcher was created.
    is_expired: AtomicBool,
    notify: Notify,
    /// Notified too, for a task that follows several watchers.
    shared_notify: Option<Arc<Notify>>,
}

impl WatchBuffer {
    fn wake(&self) {
        self.notify.notify_one();
        self.shared_notify.iter().for_each(|shared| shared.notify_one());
    }

    /// Drops the events and lets the watcher read from the log.
    fn reset(&self) {
        *self.queue.lock() = EventQueue::default();
        self.wake();
    }
}

#[derive(Debug, Default)]
struct EventQueue {
    /// True while the watcher receives events; false while it reads from the log.
    live: bool,
    events: Vec<Arc<Event>>,
    bytes: usize,
}

impl EventQueue {
    fn is_full(&self) -> bool {
        self.events.len() >= MAX_QUEUED_EVENTS || self.bytes >= MAX_QUEUED_BYTES
    }

    fn take(&mut self) -> Vec<Arc<Event>> {
        self.bytes = 0;
        std::mem::take(&mut self.events)
    }

    fn push_all(&mut self, events: &[Arc<Event>]) {
        for event in events {
            if self.is_full() {
                *self = Self::default();
            }
            if !self.live {
                return;
            }
            self.bytes += event.queued_bytes();
            self.events.push(event.clone());
        }
    }
}

/// The watchers by scope, so that an event visits only the watchers whose scope matches.
#[derive(Debug, Default)]
pub(crate) struct WatcherSet {
    next_id: AtomicU64,
    watchers: Mutex<WatchersByScope>,
}

#[derive(Debug, Default)]
struct WatchersByScope {
    all: Vec<Arc<WatchBuffer>>,
    namespaces: HashMap<Str, Vec<Arc<WatchBuffer>>>,
    keys: HashMap<Str, Vec<Arc<WatchBuffer>>>,
    /// The buffers by the index of the field, then by its value. Fields that nobody watches cost nothing.
    fields: HashMap<usize, HashMap<Str, Vec<Arc<WatchBuffer>>>>,
}

impl WatcherSet {
    fn add(&self, scope: &WatchScope, options: WatcherOptions) -> Arc<WatchBuffer> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let WatcherOptions { stops_at_corrupt, shared_notify } = options;
        let (queue, is_expired, notify) = (Mutex::default(), AtomicBool::new(false), Notify::new());
        let buffer = Arc::new(WatchBuffer { id, stops_at_corrupt, queue, is_expired, notify, shared_notify });
        let mut watchers = self.watchers.lock();
        match scope {
            WatchScope::All => watchers.all.push(buffer.clone()),
            WatchScope::Namespace(namespace) => {
                watchers.namespaces.entry(namespace.clone()).or_default().push(buffer.clone());
            }
            WatchScope::Key(key) => watchers.keys.entry(key.clone()).or_default().push(buffer.clone()),
            WatchScope::Field(index, value) => {
                watchers.fields.entry(*index).or_default().entry(value.clone()).or_default().push(buffer.clone());
            }
        }
        buffer
    }

    fn remove(&self, scope: &WatchScope, id: u64) {
        fn remove_buffer<K: std::hash::Hash + Eq>(map: &mut HashMap<K, Vec<Arc<WatchBuffer>>>, key: &K, id: u64) {
            if let Some(list) = map.get_mut(key) {
                list.retain(|buffer| buffer.id != id);
                if list.is_empty() {
                    map.remove(key);
                }
            }
        }
        let mut watchers = self.watchers.lock();
        match scope {
            WatchScope::All => watchers.all.retain(|buffer| buffer.id != id),
            WatchScope::Namespace(namespace) => remove_buffer(&mut watchers.namespaces, namespace, id),
            WatchScope::Key(key) => remove_buffer(&mut watchers.keys, key, id),
            WatchScope::Field(index, value) => {
                if let Some(values) = watchers.fields.get_mut(index) {
                    remove_buffer(values, value, id);
                    if values.is_empty() {
                        watchers.fields.remove(index);
                    }
                }
            }
        }
    }

    /// Puts events into the buffers of the watchers whose scope matches, without waking them.
    pub(crate) fn enqueue(&self, events: &[Arc<Event>]) {
        self.watchers.lock().for_each_interested(events, |buffer, events| buffer.queue.lock().push_all(events));
    }

    /// Makes the watchers that stop at corrupt objects check the log.
    pub(crate) fn interrupt(&self) {
        self.watchers.lock().buffers().filter(|buffer| buffer.stops_at_corrupt).for_each(|buffer| buffer.reset());
    }

    /// Makes all watchers fail, because the history begins anew.
    pub(crate) fn expire(&self) {
        for buffer in self.watchers.lock().buffers() {
            buffer.is_expired.store(true, Ordering::Release);
            buffer.reset();
        }
    }

    /// Wakes the watchers that have received these events.
    pub(crate) fn wake(&self, events: &[Arc<Event>]) {
        // The watchers are woken without the lock: waking takes longer than cloning.
        let mut interested = Vec::new();
        self.watchers.lock().for_each_interested(events, |buffer, _| interested.push(buffer.clone()));
        for buffer in interested {
            buffer.wake();
        }
    }
}

impl WatchersByScope {
    fn buffers(&self) -> impl Iterator<Item = &Arc<WatchBuffer>> {
        let by_field = self.fields.values().flat_map(HashMap::values);
        let scoped = self.namespaces.values().chain(self.keys.values()).chain(by_field);
        self.all.iter().chain(scoped.flatten())
    }

    /// Calls `visit` for every watcher whose scope matches, with a run of matching events.
    fn for_each_interested(&self, events: &[Arc<Event>], mut visit: impl FnMut(&Arc<WatchBuffer>, &[Arc<Event>])) {
        let mut visit_all = |buffers: Option<&Vec<Arc<WatchBuffer>>>, events: &[Arc<Event>]| {
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
            let single = std::slice::from_ref(event);
            visit_all(self.keys.get(&*event.key), single);
            for (index, values) in &self.fields {
                let after = event.object.as_ref().map(|o| o.field(*index));
                let before = event.previous.as_ref().map(|o| o.field(*index)).filter(|value| Some(*value) != after);
                for value in after.into_iter().chain(before) {
                    visit_all(values.get(value), single);
                }
            }
        }
    }
}

/// The options of a watcher.
#[derive(Debug, Default)]
pub(crate) struct WatcherOptions {
    /// See [`WatchCache::watch_until_corrupt`].
    pub(crate) stops_at_corrupt: bool,
    /// See [`WatchCache::watch_and_notify`].
    pub(crate) shared_notify: Option<Arc<Notify>>,
}

/// A cursor in the log. It returns the events of its scope, in order, each once.
#[derive(Debug)]
pub struct Watcher {
    watch_cache: Arc<WatchCache>,
    scope: WatchScope,
    buffer: Arc<WatchBuffer>,
    cursor: u64,
}

impl Watcher {
    pub(crate) fn new(watch_cache: Arc<WatchCache>, scope: WatchScope, after: u64, options: WatcherOptions) -> Self {
        let stops_at_corrupt = options.stops_at_corrupt;
        let buffer = watch_cache.watchers().add(&scope, options);
        // Most watchers start at the newest revision. Such a watcher is live at once: its buffer has the events that
        // leave the history before its first read. Any other watcher reads from the log first.
        buffer.queue.lock().live = true;
        let is_newest = matches!(
            watch_cache.events_after(after, 1, stops_at_corrupt, &scope),
            Ok((_, last_revision, true)) if last_revision == after
        );
        if !is_newest {
            *buffer.queue.lock() = EventQueue::default();
        }
        Self { watch_cache, scope, buffer, cursor: after }
    }

    /// Returns the events since the last call, and waits for the first.
    ///
    /// # Errors
    /// Returns an error if the watcher has fallen behind the history or starts before it. Then it has missed events,
    /// and the client must list again.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, TooOld> {
        loop {
            match self.read()? {
                Some(events) if !events.is_empty() => return Ok(events),
                Some(_) => self.buffer.notify.notified().await,
                // There may be many events to read of which none matches.
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Returns the available events without waiting; empty if the watcher is up to date.
    ///
    /// # Errors
    /// Returns the same errors as [`Watcher::next`].
    pub fn pending(&mut self) -> Result<Vec<Arc<Event>>, TooOld> {
        loop {
            if let Some(events) = self.read()? {
                return Ok(events);
            }
        }
    }

    /// Reads from the buffer, or once from the log. Returns `None` if the caller must read again.
    fn read(&mut self) -> Result<Option<Vec<Arc<Event>>>, TooOld> {
        if self.buffer.is_expired.load(Ordering::Acquire) {
            return Err(TooOld { oldest: self.watch_cache.valid_from() });
        }
        {
            let mut queue = self.buffer.queue.lock();
            if queue.live {
                let cursor = self.cursor;
                let mut events = queue.take();
                // Events between the last read of the log and going live may be in both.
                if events.first().is_some_and(|e| e.revision <= cursor) {
                    events.retain(|e| e.revision > cursor);
                }
                if let Some(last) = events.last() {
                    self.cursor = last.revision;
                }
                return Ok(Some(events));
            }
        }
        let (mut events, last_revision, end) = self.read_log()?;
        self.cursor = last_revision;
        if end {
            // The buffer receives events from here on. Events that arrived before are read from the log once more.
            self.buffer.queue.lock().live = true;
            let (rest, last_revision, end) = self.read_log()?;
            self.cursor = last_revision;
            if !end {
                self.buffer.queue.lock().live = false;
            }
            events.extend(rest);
        }
        Ok((!events.is_empty()).then_some(events))
    }
}

impl Watcher {
    /// Reads the events after the cursor from the log.
    fn read_log(&self) -> Result<(Vec<Arc<Event>>, u64, bool), TooOld> {
        self.watch_cache.events_after(self.cursor, READ_BATCH, self.buffer.stops_at_corrupt, &self.scope)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.watch_cache.watchers().remove(&self.scope, self.buffer.id);
    }
}
