//! The watch cache of one collection: a map of object versions and a log of events.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use pintle_locks::{Mutex, RwLock};
use pintle_sorted::SortedEntries;
use pintle_value::Str;
use tokio::sync::Notify;

use crate::chunked_queue::ChunkedQueue;
use crate::corrupt::{CorruptObject, CorruptObjects, CorruptReason};
use crate::event_log::{FoundEvent, LogContent, LogEntry};
use crate::event_summary::ScopeSummary;
use crate::object_versions::{ObjectVersions, reindexed};
use crate::packed_version::{FoundVersion, PackedVersion};
use crate::remaining_counts::RemainingCounts;
use crate::watcher::{WatchScope, Watcher, WatcherOptions, WatcherSet};
use crate::{Event, Key, Object, ObjectIndex};

/// The number of keys that are counted under one lock.
const COUNT_BATCH: usize = 4096;
/// The number of keys that [`WatchCache::objects`] reads under one lock.
const PAGE_KEYS: usize = 512;

/// The number of events that are packed under one lock.
const MAX_PACKED_AT_ONCE: usize = 32;
/// The approximate memory of a packed event without the object before it. It has an entry in the log and an entry among
/// its key's versions. In the history of all watch caches it may share an entry with other events.
const PACKED_EVENT_BYTES: usize = 128;
/// How much of the packed history is read at once: the number of checked events, and the size of their objects.
const MAX_PACKED_READ: usize = 256;
const MAX_PACKED_READ_BYTES: usize = 1 << 20;

/// The requested revision is older than the retained history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// The oldest available revision.
    pub oldest: u64,
}

/// A range of keys of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyRange {
    /// All keys.
    All,
    /// The keys of a namespace.
    Namespace(Str),
    /// A single key.
    Key(Str),
}

impl KeyRange {
    /// True if the key is in the range.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        match self {
            KeyRange::All => true,
            KeyRange::Namespace(namespace) => {
                key.len() > namespace.len() && key.as_bytes()[namespace.len()] == b'/' && key.starts_with(&**namespace)
            }
            KeyRange::Key(only) => key == only,
        }
    }

    /// The smallest possible key, if it is known.
    fn first(&self) -> Option<Str> {
        match self {
            KeyRange::All => None,
            KeyRange::Namespace(namespace) => Some(format!("{namespace}/").into()),
            KeyRange::Key(key) => Some(key.clone()),
        }
    }
}

/// A page of a list.
#[derive(Debug, Default)]
pub struct ObjectPage {
    /// The objects in key order.
    pub objects: Vec<Arc<Object>>,
    /// The last key that was read; continue after it. `None` at the end of the range.
    pub last: Option<Key>,
}

/// The numbers of a watch cache, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCacheStats {
    /// The current number of objects.
    pub objects: usize,
    /// The sum of the sizes of the objects as JSON.
    pub object_bytes: u64,
    /// The number of events in the log.
    pub events: usize,
    /// The number of changes that were received since the start.
    pub received: u64,
    /// The number of events that were dispatched to watchers since the start.
    pub dispatched: u64,
    /// How often the watch cache was filled from the store.
    pub initializations: u64,
    /// See [`WatchCache::newest_revision`].
    pub newest_revision: u64,
}

#[derive(Debug, Default)]
struct WatchCacheState {
    versions: SortedEntries<ObjectVersions>,
    events: ChunkedQueue<LogEntry>,
    /// The log has all events after this revision.
    valid_from: u64,
    /// States at or after this revision can be read. It is older than `valid_from` if the collection was empty before
    /// its log began.
    readable_from: u64,
    live_objects: usize,
    /// The sum of the sizes of the live objects as JSON.
    live_bytes: u64,
    corrupt: CorruptObjects,
    /// The last revision at which an object became corrupt or ceased to be corrupt.
    last_corruption_change: u64,
    /// The number of changes so far.
    received: u64,
    /// The number of events so far. It is also the log index of the next event, because each event is appended to the
    /// log.
    dispatched: u64,
    /// How often the history began anew because changes were missing.
    expirations: u64,
}

/// The state of a key after a change.
#[derive(Debug)]
pub(crate) enum NewState {
    /// An object.
    Object(Object),
    /// A value that cannot be served, with the reason.
    Corrupt(CorruptReason),
    /// The key is deleted.
    Deleted,
}

/// A change that is to be appended.
#[derive(Debug)]
pub(crate) struct PendingChange {
    /// `namespace/name`, or `name` if the kind is cluster-scoped.
    pub(crate) key: Key,
    /// The revision of the change.
    pub(crate) revision: u64,
    /// The state of the key after the change.
    pub(crate) new_state: NewState,
}

impl WatchCacheState {
    /// Appends a change. A change to a corrupt value makes no event. The change after it makes an event whose previous
    /// object is the last decodable object.
    fn append(&mut self, PendingChange { key, revision, new_state }: PendingChange) -> Option<Arc<Event>> {
        self.received += 1;
        let resolved = self.corrupt.resolve(&key, revision);
        if resolved.is_some() || matches!(new_state, NewState::Corrupt(_)) {
            self.last_corruption_change = self.last_corruption_change.max(revision);
        }
        let last_object = resolved.flatten();
        let (object, reason) = match new_state {
            NewState::Object(object) => (Some(object), None),
            NewState::Corrupt(reason) => (None, Some(reason)),
            NewState::Deleted => (None, None),
        };
        let (key, object, previous) = self.put_version(key, revision, object);
        let previous = last_object.or(previous);
        if let Some(reason) = reason {
            self.corrupt.insert(key, revision, reason, previous);
            return None;
        }
        if object.is_none() && previous.is_none() {
            // No watcher knows the object. It is dropped unless an older version is still retained.
            if self.versions.get(&key).is_some_and(ObjectVersions::has_no_object) {
                self.versions.remove(&key);
            }
            return None;
        }
        let event = Arc::new(Event::new(key, revision, object, previous));
        self.events.push_back(LogEntry::new(event.clone()));
        self.dispatched += 1;
        Some(event)
    }

    /// Adds a version. Returns the key that all versions share, the version and the previous version.
    fn put_version(
        &mut self,
        key: Key,
        revision: u64,
        object: Option<Object>,
    ) -> (Key, Option<Arc<Object>>, Option<Arc<Object>>) {
        let Some(versions) = self.versions.get_mut(&key) else {
            let object = object.map(Arc::new);
            self.count(None, object.as_deref());
            self.versions.insert(ObjectVersions::new(key.clone(), (revision, object.clone())));
            return (key, object, None);
        };
        let previous = versions.newest_object().cloned();
        // All versions of an object share one key.
        let key = versions.shared_key().clone();
        let object = object.map(|object| Arc::new(Object { key: key.clone(), ..object }));
        versions.push((revision, object.clone()));
        self.count(previous.as_deref(), object.as_deref());
        (key, object, previous)
    }

    /// Counts an object that replaces another one.
    fn count(&mut self, previous: Option<&Object>, object: Option<&Object>) {
        let bytes = |object: Option<&Object>| object.map_or(0, |object| object.json.len() as u64);
        self.live_objects = self.live_objects + usize::from(object.is_some()) - usize::from(previous.is_some());
        self.live_bytes = self.live_bytes + bytes(object) - bytes(previous);
    }

    /// Runs the indexer again for the objects of the events in the log. The versions must already be indexed again.
    fn reindex_events(&mut self, index: impl Fn(&[u8]) -> Option<ObjectIndex>) {
        let versions = &self.versions;
        for entry in self.events.iter_mut() {
            let LogContent::Event(event) = &entry.content else {
                entry.summary = entry.summary.with_any_fields();
                continue;
            };
            let of_version = |at: u64, object: &Arc<Object>| match versions.get(&event.key)?.at(at) {
                Some(FoundVersion::Object(found)) => Some(found).filter(|found| found.revision == object.revision),
                _ => None,
            };
            let new = |at: u64, object: &Option<Arc<Object>>| {
                object.as_ref().map(|object| of_version(at, object).unwrap_or_else(|| reindexed(object, &index)))
            };
            let object = new(event.revision, &event.object);
            let previous = new(event.revision.saturating_sub(1), &event.previous);
            // The frame budget does not know these events, so they keep no frames.
            *entry =
                LogEntry::new(Arc::new(Event::without_frames(event.key.clone(), event.revision, object, previous)));
        }
    }

    /// True if an event of the log may be in a scope. For a packed event this considers only facts that are known
    /// without making its objects.
    fn may_match(&self, entry: &LogEntry, scope: &WatchScope) -> bool {
        let at = entry.revision;
        match (&entry.content, scope) {
            (LogContent::Event(event), _) => scope.matches(event),
            (LogContent::Packed(key), WatchScope::Field(field, value)) => {
                self.versions.get(key).is_some_and(|versions| {
                    versions.has_field(at, *field, value) || versions.has_field(at.saturating_sub(1), *field, value)
                })
            }
            (LogContent::Packed(key), _) => scope.may_match_key(key),
        }
    }

    /// Returns an event of the log.
    fn find_event(&self, entry: &LogEntry) -> FoundEvent {
        match &entry.content {
            LogContent::Event(event) => FoundEvent::Event(event.clone()),
            LogContent::Packed(key) => {
                let revision = entry.revision;
                let at = |revision| self.versions.get(key).and_then(|versions| versions.at(revision));
                let (object, previous) = (at(revision), at(revision.saturating_sub(1)));
                FoundEvent::Packed { key: key.clone(), revision, object, previous }
            }
        }
    }

    /// Packs an event, and the object before it if that saves memory. Returns the memory that both retain from now on.
    /// Returns `None` if the event must stay unpacked.
    fn pack(&mut self, event: &Event, packed: Option<PackedVersion>) -> Option<usize> {
        let index = self.events.partition_point(|entry| entry.revision < event.revision);
        // A transaction of another client can have changed several keys.
        let next_revision = self.events.get(index + 1).map(|entry| entry.revision);
        let entry = self.events.get_mut(index).filter(|entry| *entry.key() == event.key)?;
        let versions = self.versions.get_mut(&event.key)?;
        // The change after a corrupt value is only in its event. If objects were indexed again since then, the log has
        // another event.
        let is_known = entry.is(event)
            && next_revision != Some(event.revision)
            && versions.has_change(event.revision, event.previous.as_deref(), event.object.as_deref());
        if !is_known {
            return None;
        }
        entry.content = LogContent::Packed(event.key.clone());
        let size = packed.as_ref().map_or(0, PackedVersion::size);
        let is_packed = packed.is_some_and(|packed| versions.pack_before(event.revision, packed));
        Some(PACKED_EVENT_BYTES + if is_packed { size } else { event.previous_bytes() })
    }

    /// The log index of the first event in the log: the number of events that have been dropped from the log.
    fn log_start(&self) -> u64 {
        self.dispatched - self.events.len() as u64
    }

    /// Drops the oldest event.
    fn drop_oldest(&mut self) {
        let Some(event) = self.events.pop_front() else { return };
        let revision = event.revision;
        self.valid_from = self.valid_from.max(revision);
        self.readable_from = self.valid_from;
        if let Some(versions) = self.versions.get_mut(event.key()) {
            // The version that the event created is now the oldest readable version.
            versions.trim_before(revision);
            let is_forgotten = !versions.has_older() && versions.newest_object().is_none();
            if is_forgotten && versions.newest_revision() <= revision {
                self.versions.remove(event.key());
            }
        }
    }

    /// The keys of a range in order, after the key `after`.
    fn keys(&self, range: &KeyRange, after: Option<&str>) -> impl Iterator<Item = &ObjectVersions> {
        let first = range.first();
        let start = match (after, &first) {
            (Some(key), _) => Bound::Excluded(key),
            (None, Some(key)) => Bound::Included(key.as_str()),
            (None, None) => Bound::Unbounded,
        };
        self.versions.range_from(start).take_while(|versions| range.contains(versions.shared_key()))
    }
}

/// The watch cache of one collection: all objects of a kind in a logical cluster, whatever groups and versions serve
/// the kind.
#[derive(Debug)]
pub struct WatchCache {
    prefix: Str,
    state: RwLock<WatchCacheState>,
    watchers: WatcherSet,
    remaining_counts: Mutex<RemainingCounts>,
}

impl WatchCache {
    pub(crate) fn new(prefix: Str, valid_from: u64) -> Self {
        let state = WatchCacheState { valid_from, readable_from: valid_from, ..WatchCacheState::default() };
        Self { prefix, state: RwLock::new(state), watchers: WatcherSet::default(), remaining_counts: Mutex::default() }
    }

    /// The collection's key prefix (`pods`, `services/specs`).
    #[must_use]
    pub fn prefix(&self) -> &Str {
        &self.prefix
    }

    /// The object of a key, now or at a revision.
    ///
    /// # Errors
    /// Returns an error if the revision is older than the history.
    pub fn get(&self, key: &str, at: Option<u64>) -> Result<Option<Arc<Object>>, TooOld> {
        let state = self.state.read();
        if let Some(revision) = at
            && revision < state.readable_from
        {
            return Err(TooOld { oldest: state.readable_from });
        }
        let found = state.versions.get(key).and_then(|v| v.at(at.unwrap_or(u64::MAX)));
        drop(state);
        Ok(found.map(FoundVersion::into_object))
    }

    /// The current object of a key.
    ///
    /// # Errors
    /// Returns an error if the stored object is corrupt.
    pub fn read(&self, key: &str) -> Result<Option<Arc<Object>>, CorruptObject> {
        let state = self.state.read();
        let object = state.versions.get(key).and_then(|versions| versions.newest_object().cloned());
        if object.is_none() && state.corrupt.corrupt_count() > 0 {
            let corrupt = state.corrupt.at(&KeyRange::Key(key.into()), u64::MAX - 1).into_iter().next();
            return corrupt.map_or(Ok(None), Err);
        }
        Ok(object)
    }

    /// The corrupt objects of a range, at a retained revision or now.
    #[must_use]
    pub fn corrupt(&self, range: &KeyRange, at: Option<u64>) -> Vec<CorruptObject> {
        self.state.read().corrupt.at(range, at.unwrap_or(u64::MAX - 1))
    }

    /// The objects of up to `max` keys at a revision, after the key `after`. This locks the watch cache for one page
    /// only. A long list reads page after page at the same revision and gets a consistent state.
    ///
    /// # Errors
    /// Returns an error if the revision is older than the history.
    pub fn page(&self, range: &KeyRange, after: Option<&str>, at: u64, max: usize) -> Result<ObjectPage, TooOld> {
        let state = self.state.read();
        if at < state.readable_from {
            return Err(TooOld { oldest: state.readable_from });
        }
        let mut found = Vec::with_capacity(max.min(state.live_objects).min(1024));
        let mut last: Option<&Key> = None;
        let mut end = None;
        for (scanned, versions) in state.keys(range, after).enumerate() {
            if scanned == max {
                end = last.cloned();
                break;
            }
            last = Some(versions.shared_key());
            found.extend(versions.at(at));
        }
        drop(state);
        Ok(ObjectPage { objects: found.into_iter().map(FoundVersion::into_object).collect(), last: end })
    }

    /// The current objects of a range, read page by page. The newest state is always readable.
    pub fn objects(self: &Arc<Self>, range: KeyRange) -> impl Iterator<Item = Arc<Object>> + use<> {
        let watch_cache = self.clone();
        let mut next = Some(None);
        let pages = std::iter::from_fn(move || {
            let after: Option<Key> = next.take()?;
            let page = watch_cache.page(&range, after.as_deref(), u64::MAX, PAGE_KEYS).ok()?;
            next = page.last.map(Some);
            Some(page.objects)
        });
        pages.flatten()
    }

    /// The number of objects of a range at a revision after the key `last`. `last` ends a chunk of `chunk` objects that
    /// began after `after`. For a client that lists chunk after chunk, the objects are counted only once.
    ///
    /// # Errors
    /// Returns an error if the revision is older than the history.
    pub fn remaining(
        &self,
        range: &KeyRange,
        at: u64,
        after: Option<&str>,
        chunk: usize,
        last: &str,
    ) -> Result<usize, TooOld> {
        let known = self.remaining_counts.lock().find(range, at, after);
        let remaining = match known {
            Some(remaining) => remaining.saturating_sub(chunk),
            None => self.count(range, Some(last), at)?,
        };
        self.remaining_counts.lock().insert(range, at, last, remaining);
        Ok(remaining)
    }

    /// The number of objects of a range at a revision after a key.
    ///
    /// # Errors
    /// Returns an error if the revision is older than the history.
    pub fn count(&self, range: &KeyRange, after: Option<&str>, at: u64) -> Result<usize, TooOld> {
        let mut from: Option<Key> = after.map(Key::from);
        let mut total = 0;
        loop {
            let state = self.state.read();
            if at < state.readable_from {
                return Err(TooOld { oldest: state.readable_from });
            }
            let mut last = None;
            for versions in state.keys(range, from.as_deref()).take(COUNT_BATCH) {
                last = Some(versions.shared_key());
                total += usize::from(versions.exists_at(at));
            }
            match last {
                Some(last) => from = Some(last.clone()),
                None => return Ok(total),
            }
        }
    }

    /// The current number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().live_objects
    }

    /// True if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of this watch cache.
    #[must_use]
    pub fn stats(&self) -> WatchCacheStats {
        let newest_revision = self.newest_revision();
        let state = self.state.read();
        WatchCacheStats {
            objects: state.live_objects,
            object_bytes: state.live_bytes,
            events: state.events.len(),
            received: state.received,
            dispatched: state.dispatched,
            initializations: 1 + state.expirations,
            newest_revision,
        }
    }

    /// The revision of the newest event, or the revision at which the log starts. The state of this collection is
    /// complete at this revision even if other collections are still behind.
    #[must_use]
    pub fn newest_revision(&self) -> u64 {
        let state = self.state.read();
        state.events.back().map_or(state.valid_from, |entry| entry.revision)
    }

    /// The revision of the last change of the collection. A change that makes an object corrupt counts too. If two
    /// revisions are equal, their states are equal.
    #[must_use]
    pub fn last_change(&self) -> u64 {
        let state = self.state.read();
        let newest = state.events.back().map_or(state.valid_from, |entry| entry.revision);
        newest.max(state.last_corruption_change)
    }

    /// The revision after which the log is complete.
    #[must_use]
    pub fn valid_from(&self) -> u64 {
        self.state.read().valid_from
    }

    /// Creates a watcher of all events of a scope after a revision. The first [`Watcher::next`] checks whether the
    /// revision is retained.
    #[must_use]
    pub fn watch(self: &Arc<Self>, scope: WatchScope, after: u64) -> Watcher {
        Watcher::new(self.clone(), scope, after, WatcherOptions::default())
    }

    /// Like [`WatchCache::watch`]. Whenever the watcher may have events, `notify` is notified too. So one task can wait
    /// for several watchers and then ask each with [`Watcher::pending`]. Ask first, then wait.
    #[must_use]
    pub fn watch_and_notify(self: &Arc<Self>, scope: WatchScope, after: u64, notify: Arc<Notify>) -> Watcher {
        let options = WatcherOptions { shared_notify: Some(notify), ..WatcherOptions::default() };
        Watcher::new(self.clone(), scope, after, options)
    }

    /// Like [`WatchCache::watch`], for a client that must not miss a change. If any object of the collection becomes
    /// corrupt after the revision, the watcher fails as if the revision were not retained.
    #[must_use]
    pub fn watch_until_corrupt(self: &Arc<Self>, scope: WatchScope, after: u64) -> Watcher {
        let options = WatcherOptions { stops_at_corrupt: true, ..WatcherOptions::default() };
        Watcher::new(self.clone(), scope, after, options)
    }

    pub(crate) fn watchers(&self) -> &WatcherSet {
        &self.watchers
    }

    /// Scans up to `max` entries of the log after a revision. Returns the events of a scope among them, the revision of
    /// the last scanned event, and whether this event is the newest. With `stops_at_corrupt`, fails if an object became
    /// corrupt after the revision.
    pub(crate) fn events_after(
        &self,
        revision: u64,
        max: usize,
        stops_at_corrupt: bool,
        scope: &WatchScope,
    ) -> Result<(Vec<Arc<Event>>, u64, bool), TooOld> {
        let state = self.state.read();
        let oldest =
            if stops_at_corrupt { state.valid_from.max(state.last_corruption_change) } else { state.valid_from };
        if revision < oldest {
            return Err(TooOld { oldest });
        }
        let start = state.events.partition_point(|entry| entry.revision <= revision);
        let summary = ScopeSummary::of(scope);
        let (mut found, mut packed, mut packed_bytes) = (Vec::new(), 0, 0);
        let (mut last_revision, mut is_end) = (revision, true);
        for (scanned, entry) in state.events.iter_from(start).enumerate() {
            let is_enough = scanned >= max || packed >= MAX_PACKED_READ || packed_bytes >= MAX_PACKED_READ_BYTES;
            // The changes of one revision are read together.
            if is_enough && entry.revision != last_revision {
                is_end = false;
                break;
            }
            last_revision = entry.revision;
            if !summary.may_match(&entry.summary) {
                continue;
            }
            // Checking a field of a packed event takes as long as finding its objects.
            let is_packed = entry.is_packed();
            packed += usize::from(is_packed && matches!(scope, WatchScope::Field(..)));
            if state.may_match(entry, scope) {
                let event = state.find_event(entry);
                packed += usize::from(is_packed);
                packed_bytes += event.packed_bytes();
                found.push(event);
            }
        }
        drop(state);
        Ok((FoundEvent::into_events(found), last_revision, is_end))
    }

    /// Reads up to `count` events from a log index on ([`WatchCache::append`] returns the index). Stops when the packed
    /// objects that it read are `max_bytes` long, but reads at least one event. Returns the events and the length of
    /// the packed objects in bytes. Returns `None` if the first event has been dropped.
    pub(crate) fn events_at(&self, log_index: u64, count: usize, max_bytes: usize) -> Option<(Vec<Arc<Event>>, usize)> {
        let state = self.state.read();
        let start = usize::try_from(log_index.checked_sub(state.log_start())?).ok()?;
        let (mut found, mut packed_bytes) = (Vec::with_capacity(count), 0);
        for entry in state.events.iter_from(start).take(count) {
            let event = state.find_event(entry);
            packed_bytes += event.packed_bytes();
            found.push(event);
            if packed_bytes >= max_bytes {
                break;
            }
        }
        drop(state);
        (!found.is_empty()).then(|| (FoundEvent::into_events(found), packed_bytes))
    }

    /// Packs the oldest unpacked events and the objects before them. Returns the memory that each event retains from
    /// now on. `None` is an event that must stay unpacked.
    pub(crate) fn pack(&self, events: &[Arc<Event>]) -> Vec<Option<usize>> {
        let mut sizes = Vec::with_capacity(events.len());
        for events in events.chunks(MAX_PACKED_AT_ONCE) {
            let pack = |event: &Arc<Event>| PackedVersion::new(event.previous.as_deref()?, event.object.as_deref()?);
            let packed: Vec<_> = events.iter().map(pack).collect();
            let mut state = self.state.write();
            sizes.extend(events.iter().zip(packed).map(|(event, packed)| state.pack(event, packed)));
        }
        sizes
    }

    /// Inserts objects that existed before the start of the log.
    pub(crate) fn insert_initial(&self, changes: impl IntoIterator<Item = PendingChange>) {
        let mut state = self.state.write();
        for PendingChange { key, revision, new_state } in changes {
            let object = match new_state {
                NewState::Object(object) => Arc::new(object),
                NewState::Corrupt(reason) => {
                    state.corrupt.insert(key, revision, reason, None);
                    continue;
                }
                NewState::Deleted => continue,
            };
            state.count(None, Some(&object));
            let replaced = state.versions.insert(ObjectVersions::new(key, (revision, Some(object))));
            if let Some(replaced) = replaced {
                state.count(replaced.newest_object().map(|object| &**object), None);
            }
        }
    }

    /// Declares that the empty collection has been empty since a revision before the start of the log.
    pub(crate) fn set_empty_since(&self, revision: u64) {
        let mut state = self.state.write();
        state.readable_from = state.readable_from.min(revision);
    }

    /// Runs the indexer on every object again. Objects for which it fails keep their index. Changes that are appended
    /// meanwhile are already indexed.
    pub(crate) fn reindex(&self, index: impl Fn(&[u8]) -> Option<ObjectIndex>) {
        let keys: Vec<Key> = self.state.read().versions.iter().map(|versions| versions.shared_key().clone()).collect();
        for key in keys {
            if let Some(versions) = self.state.write().versions.get_mut(&key) {
                versions.reindex(&index);
            }
        }
        self.state.write().reindex_events(&index);
    }

    /// Appends changes in order and puts their events into the watch buffers. [`WatchCache::wake`] wakes the watchers.
    /// Returns the events and the log index of the first event: the number of events that were appended before it.
    pub(crate) fn append(&self, changes: Vec<PendingChange>) -> (u64, Vec<Arc<Event>>) {
        let mut state = self.state.write();
        let log_index = state.dispatched;
        let last_corruption_change = state.last_corruption_change;
        let events: Vec<_> = changes.into_iter().filter_map(|change| state.append(change)).collect();
        // The number of corrupt objects stays the same if one object is replaced and another becomes corrupt.
        let has_corruption_change = state.last_corruption_change != last_corruption_change;
        drop(state);
        self.watchers.enqueue(&events);
        if has_corruption_change {
            self.watchers.interrupt();
        }
        (log_index, events)
    }

    /// The revision of the last change of a key; 0 if no change is known.
    pub(crate) fn last_change_of(&self, key: &str) -> u64 {
        self.state.read().versions.get(key).map_or(0, ObjectVersions::newest_revision)
    }

    /// The keys of the current objects, decodable or not, that are not in `stored`.
    pub(crate) fn keys_missing_in(&self, stored: &HashSet<Key>) -> Vec<Key> {
        let state = self.state.read();
        let corrupt = state.corrupt.at(&KeyRange::All, u64::MAX - 1).into_iter().map(|corrupt| corrupt.key);
        let present = state.versions.iter().filter(|versions| versions.newest_object().is_some());
        present
            .map(|versions| versions.shared_key().clone())
            .chain(corrupt)
            .filter(|key| !stored.contains(key))
            .collect()
    }

    /// The objects that cannot be decrypted now: their keys, and the revisions that wrote them.
    pub(crate) fn encrypted(&self) -> Vec<(Key, u64)> {
        let state = self.state.read();
        if state.corrupt.corrupt_count() == 0 {
            return Vec::new();
        }
        state.corrupt.encrypted().map(|(key, revision)| (key.clone(), revision)).collect()
    }

    /// Applies changes up to a revision, although other changes between them are missing, and begins the history anew
    /// at this revision. No watcher receives the events, because they are incomplete: each watcher must start again.
    pub(crate) fn rebuild(&self, changes: Vec<PendingChange>, at: u64) {
        let mut state = self.state.write();
        for change in changes {
            state.append(change);
        }
        while state.events.front().is_some() {
            state.drop_oldest();
        }
        state.valid_from = state.valid_from.max(at);
        state.readable_from = state.valid_from;
        state.expirations += 1;
        state.corrupt.trim(at);
        drop(state);
        self.watchers.expire();
    }

    /// Wakes the watchers that have received these events.
    pub(crate) fn wake(&self, events: &[Arc<Event>]) {
        self.watchers.wake(events);
    }

    /// Drops the oldest event. States before it can no longer be read.
    pub(crate) fn drop_oldest(&self) {
        let mut state = self.state.write();
        state.drop_oldest();
        let valid_from = state.valid_from;
        state.corrupt.trim(valid_from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_stops_if_one_object_is_mended_while_another_becomes_corrupt() {
        let change = |key: &str, revision, is_corrupt| {
            let object = || Object::new(key.into(), revision, "{}".into(), ObjectIndex::default());
            let new_state =
                if is_corrupt { NewState::Corrupt("broken".to_owned().into()) } else { NewState::Object(object()) };
            PendingChange { key: key.into(), revision, new_state }
        };
        let watch_cache = Arc::new(WatchCache::new("things".into(), 1));
        watch_cache.append(vec![change("a", 2, true), change("b", 3, false)]);
        let mut watcher = watch_cache.watch_until_corrupt(WatchScope::All, 3);
        assert!(watcher.pending().is_ok_and(|events| events.is_empty()));
        watch_cache.append(vec![change("a", 4, false), change("b", 5, true)]);
        assert_eq!(watcher.pending().expect_err("the watcher stops"), TooOld { oldest: 5 });
    }

    #[test]
    fn the_live_objects_and_their_sizes_are_summed() {
        let change = |key: &str, revision, size: Option<usize>| {
            let object = |size| Object::new(key.into(), revision, "x".repeat(size).into(), ObjectIndex::default());
            let new_state = size.map_or(NewState::Deleted, |size| NewState::Object(object(size)));
            PendingChange { key: key.into(), revision, new_state }
        };
        let watch_cache = Arc::new(WatchCache::new("things".into(), 1));
        let sums = || (watch_cache.stats().objects, watch_cache.stats().object_bytes);
        watch_cache.insert_initial([change("a", 1, Some(1000)), change("b", 1, Some(100))]);
        assert_eq!(sums(), (2, 1100));
        watch_cache.append(vec![change("a", 2, Some(10)), change("c", 3, Some(1))]);
        assert_eq!(sums(), (3, 111));
        watch_cache.append(vec![change("a", 4, None), change("c", 5, None), change("c", 6, Some(7))]);
        assert_eq!(sums(), (2, 107));
    }
}
