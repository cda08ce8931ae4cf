//! One collection's map of versions and log of events.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use pintle_value::Str;

use crate::corrupt::{CorruptObject, CorruptObjects};
use crate::counts::Counts;
use crate::watcher::{WatchScope, Watcher, WatcherSet};
use crate::{Event, Key, Object, ObjectIndex};

/// How many keys are counted under one hold of the lock.
const STRIDE: usize = 4096;
/// How many keys of a walk are looked at under one hold of it.
const PAGE: usize = 512;

/// A revision that the window no longer reaches was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// The oldest revision that can still be asked for.
    pub oldest: u64,
}

/// Which keys of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyRange {
    /// All of them.
    All,
    /// Those of a namespace.
    Namespace(Str),
    /// A single one.
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

    /// The first key there can be, if that is known.
    fn first(&self) -> Option<Str> {
        match self {
            KeyRange::All => None,
            KeyRange::Namespace(namespace) => Some(format!("{namespace}/").into()),
            KeyRange::Key(key) => Some(key.clone()),
        }
    }
}

/// A part of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects in the order of their keys.
    pub objects: Vec<Arc<Object>>,
    /// The last key looked at; go on behind it. `None` at the end of the range.
    pub last: Option<Key>,
}

/// A key's version: the revision and the object, or `None` for a tombstone.
type Version = (u64, Option<Arc<Object>>);

/// The versions of a key that the window reaches, newest apart because it is what nearly every read wants.
#[derive(Debug)]
struct Versions {
    newest: Version,
    /// Ascending by revision.
    older: Vec<Version>,
}

impl Versions {
    fn at(&self, revision: u64) -> Option<&Arc<Object>> {
        if self.newest.0 <= revision {
            return self.newest.1.as_ref();
        }
        let after = self.older.partition_point(|(r, _)| *r <= revision);
        self.older[..after].last().and_then(|(_, object)| object.as_ref())
    }
}

#[derive(Debug, Default)]
struct State {
    versions: BTreeMap<Key, Versions>,
    events: VecDeque<Arc<Event>>,
    /// Events after this revision are all in the log, and states at or after it can be read.
    valid_from: u64,
    live: usize,
    faults: CorruptObjects,
    /// The last revision at which something began or ceased to be unreadable.
    interrupted: u64,
}

/// What a change leaves behind.
#[derive(Debug)]
pub(crate) enum After {
    /// An object.
    Object(Object),
    /// Something that cannot be read, and why.
    CorruptObject(Str),
    /// Nothing.
    Gone,
}

/// A change on its way into a log.
#[derive(Debug)]
pub(crate) struct Written {
    /// `namespace/name`, or `name` in the cluster's scope.
    pub(crate) key: Key,
    /// The revision of the change.
    pub(crate) revision: u64,
    /// What is there after it.
    pub(crate) after: After,
}

impl State {
    /// Takes a change. What it breaks is nothing that can be told of; what comes after that is told as a change of what was
    /// there before.
    fn append(&mut self, Written { key, revision, after }: Written) -> Option<Arc<Event>> {
        let ended = self.faults.end(&key, revision);
        if ended.is_some() || matches!(after, After::CorruptObject(_)) {
            self.interrupted = revision;
        }
        let last = ended.flatten();
        let (object, fault) = match after {
            After::Object(object) => (Some(object), None),
            After::CorruptObject(why) => (None, Some(why)),
            After::Gone => (None, None),
        };
        let (key, object, previous) = self.put(key, revision, object);
        let previous = last.or(previous);
        if let Some(why) = fault {
            self.faults.begin(key, revision, why, previous);
            return None;
        }
        if object.is_none() && previous.is_none() {
            // Nobody has seen it, unless long ago.
            if self.versions.get(&*key).is_some_and(|v| v.older.iter().all(|(_, object)| object.is_none())) {
                self.versions.remove(&*key);
            }
            return None;
        }
        let event = Arc::new(Event::new(key, revision, object, previous));
        self.events.push_back(event.clone());
        Some(event)
    }

    /// Puts a version in. Gives the key that all versions share, the version and the one before it.
    fn put(
        &mut self,
        key: Key,
        revision: u64,
        object: Option<Object>,
    ) -> (Key, Option<Arc<Object>>, Option<Arc<Object>>) {
        let Some(versions) = self.versions.get_mut(&*key) else {
            let object = object.map(Arc::new);
            self.live += usize::from(object.is_some());
            let versions = Versions { newest: (revision, object.clone()), older: Vec::new() };
            self.versions.insert(key.clone(), versions);
            return (key, object, None);
        };
        let previous = versions.newest.1.clone();
        // All versions of an object share one key.
        let key = previous.as_ref().map_or(key, |previous| previous.key.clone());
        let object = object.map(|object| Arc::new(Object { key: key.clone(), ..object }));
        match (previous.is_some(), object.is_some()) {
            (true, false) => self.live -= 1,
            (false, true) => self.live += 1,
            _ => {}
        }
        let before = std::mem::replace(&mut versions.newest, (revision, object.clone()));
        versions.older.push(before);
        (key, object, previous)
    }

    /// Every object that can be seen, some of them more than once.
    fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        let of_versions = self.versions.values().flat_map(|v| v.older.iter().chain([&v.newest]));
        let of_events = self.events.iter().flat_map(|event| event.object.iter().chain(&event.previous));
        of_versions.filter_map(|(_, object)| object.as_ref()).chain(of_events)
    }

    /// Puts other objects in the place of those that `by` has one for.
    fn replace(&mut self, by: impl Fn(&Arc<Object>) -> Option<Arc<Object>>) {
        let other = |object: &Option<Arc<Object>>| object.as_ref().map(|o| by(o).unwrap_or_else(|| o.clone()));
        for versions in self.versions.values_mut() {
            for (_, object) in versions.older.iter_mut().chain([&mut versions.newest]) {
                *object = other(object);
            }
        }
        for event in &mut self.events {
            let (object, previous) = (other(&event.object), other(&event.previous));
            *event = Arc::new(Event::new(event.key.clone(), event.revision, object, previous));
        }
    }

    /// The keys of a range in order, from behind `after` on.
    fn keys(&self, range: &KeyRange, after: Option<&str>) -> impl Iterator<Item = (&Key, &Versions)> {
        let first = range.first();
        let start = match (after, &first) {
            (Some(key), _) => Bound::Excluded(key),
            (None, Some(key)) => Bound::Included(key.as_str()),
            (None, None) => Bound::Unbounded,
        };
        self.versions.range::<str, _>((start, Bound::Unbounded)).take_while(|(key, _)| range.contains(key))
    }
}

/// One collection: every object of a kind in a logical cluster, whatever versions and groups show it.
#[derive(Debug)]
pub struct WatchCache {
    prefix: Str,
    state: RwLock<State>,
    watchers: WatcherSet,
    counts: Mutex<Counts>,
}

impl WatchCache {
    pub(crate) fn new(prefix: Str, valid_from: u64) -> Self {
        Self {
            prefix,
            state: RwLock::new(State { valid_from, ..State::default() }),
            watchers: WatcherSet::default(),
            counts: Mutex::default(),
        }
    }

    /// The collection's key prefix (`pods`, `services/specs`).
    #[must_use]
    pub fn prefix(&self) -> &Str {
        &self.prefix
    }

    /// The object of a key, now or at a revision.
    ///
    /// # Errors
    /// The revision is older than the window.
    pub fn get(&self, key: &str, at: Option<u64>) -> Result<Option<Arc<Object>>, TooOld> {
        let state = self.state.read();
        if let Some(revision) = at
            && revision < state.valid_from
        {
            return Err(TooOld { oldest: state.valid_from });
        }
        Ok(state.versions.get(key).and_then(|v| v.at(at.unwrap_or(u64::MAX))).cloned())
    }

    /// The object of a key now.
    ///
    /// # Errors
    /// Something is stored there that cannot be read.
    pub fn read(&self, key: &str) -> Result<Option<Arc<Object>>, CorruptObject> {
        let state = self.state.read();
        let object = state.versions.get(key).and_then(|versions| versions.newest.1.clone());
        if object.is_none() && state.faults.now() > 0 {
            let corrupt = state.faults.at(&KeyRange::Key(key.into()), u64::MAX - 1).into_iter().next();
            return corrupt.map_or(Ok(None), Err);
        }
        Ok(object)
    }

    /// What is stored in a range but cannot be read, at a revision that the window reaches, or now.
    #[must_use]
    pub fn corrupt(&self, range: &KeyRange, at: Option<u64>) -> Vec<CorruptObject> {
        self.state.read().faults.at(range, at.unwrap_or(u64::MAX - 1))
    }

    /// Up to `max` keys' objects at a revision, from behind `after` on. Holds the lock for this page only: a long list
    /// asks for page after page at the same revision and sees one state.
    ///
    /// # Errors
    /// The revision is older than the window.
    pub fn page(&self, range: &KeyRange, after: Option<&str>, at: u64, max: usize) -> Result<Page, TooOld> {
        let state = self.state.read();
        if at < state.valid_from {
            return Err(TooOld { oldest: state.valid_from });
        }
        let mut page = Page { objects: Vec::with_capacity(max.min(state.live).min(1024)), last: None };
        let mut last: Option<&Key> = None;
        for (looked_at, (key, versions)) in state.keys(range, after).enumerate() {
            if looked_at == max {
                page.last = last.cloned();
                return Ok(page);
            }
            last = Some(key);
            if let Some(object) = versions.at(at) {
                page.objects.push(object.clone());
            }
        }
        Ok(page)
    }

    /// The objects in a range now, page after page. The newest state can always be read.
    pub fn objects(self: &Arc<Self>, range: KeyRange) -> impl Iterator<Item = Arc<Object>> + use<> {
        let watch_cache = self.clone();
        let mut next = Some(None);
        let pages = std::iter::from_fn(move || {
            let after: Option<Key> = next.take()?;
            let page = watch_cache.page(&range, after.as_deref(), u64::MAX, PAGE).ok()?;
            next = page.last.map(Some);
            Some(page.objects)
        });
        pages.flatten()
    }

    /// How many objects a range has at a revision behind the key `last`, which ends a chunk of `chunk` objects that began
    /// behind `after`. Whoever asks chunk after chunk has the objects counted once.
    ///
    /// # Errors
    /// The revision is older than the window.
    pub fn remaining(
        &self,
        range: &KeyRange,
        at: u64,
        after: Option<&str>,
        chunk: usize,
        last: &str,
    ) -> Result<usize, TooOld> {
        let known = self.counts.lock().find(range, at, after);
        let remaining = match known {
            Some(remaining) => remaining.saturating_sub(chunk),
            None => self.count(range, Some(last), at)?,
        };
        self.counts.lock().keep(range, at, last, remaining);
        Ok(remaining)
    }

    fn count(&self, range: &KeyRange, after: Option<&str>, at: u64) -> Result<usize, TooOld> {
        let mut from: Option<Key> = after.map(Key::from);
        let mut total = 0;
        loop {
            let state = self.state.read();
            if at < state.valid_from {
                return Err(TooOld { oldest: state.valid_from });
            }
            let mut last = None;
            for (key, versions) in state.keys(range, from.as_deref()).take(STRIDE) {
                last = Some(key);
                total += usize::from(versions.at(at).is_some());
            }
            match last {
                Some(last) => from = Some(last.clone()),
                None => return Ok(total),
            }
        }
    }

    /// How many objects there are now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().live
    }

    /// True if there is no object now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The revision of the newest change, or where the log starts. The collection's state at it is complete, even while
    /// other collections are not yet told of as much.
    #[must_use]
    pub fn newest_revision(&self) -> u64 {
        let state = self.state.read();
        state.events.back().map_or(state.valid_from, |event| event.revision)
    }

    /// The revision from which on the log is complete.
    #[must_use]
    pub fn valid_from(&self) -> u64 {
        self.state.read().valid_from
    }

    /// A watcher of all changes in a scope after a revision. Whether the revision is still in the window shows at the
    /// first [`Watcher::next`].
    #[must_use]
    pub fn watch(self: &Arc<Self>, scope: WatchScope, after: u64) -> Watcher {
        Watcher::new(self.clone(), scope, after, false)
    }

    /// The same for someone who has to hear of everything: where something comes that cannot be read, whatever scope it is
    /// in, or something did after the revision, it is as if the window did not reach that far.
    #[must_use]
    pub fn watch_until_corrupt(self: &Arc<Self>, scope: WatchScope, after: u64) -> Watcher {
        Watcher::new(self.clone(), scope, after, true)
    }

    pub(crate) fn watchers(&self) -> &WatcherSet {
        &self.watchers
    }

    /// Up to `max` events after a revision that `wanted` says yes to, and the revision of the last event looked at. With
    /// `sees_corrupt` nothing may have come after it that could not be read.
    pub(crate) fn events_after(
        &self,
        revision: u64,
        max: usize,
        sees_corrupt: bool,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<(Vec<Arc<Event>>, u64, bool), TooOld> {
        let state = self.state.read();
        let oldest = if sees_corrupt { state.valid_from.max(state.interrupted) } else { state.valid_from };
        if revision < oldest {
            return Err(TooOld { oldest });
        }
        let start = state.events.partition_point(|e| e.revision <= revision);
        let mut events = Vec::new();
        let mut seen = revision;
        for (looked_at, event) in state.events.range(start..).enumerate() {
            if looked_at >= max {
                return Ok((events, seen, false));
            }
            seen = event.revision;
            if wanted(event) {
                events.push(event.clone());
            }
        }
        Ok((events, seen, true))
    }

    /// Puts an object that existed before the log starts.
    pub(crate) fn seed(&self, Written { key, revision, after }: Written) {
        let mut state = self.state.write();
        let object = match after {
            After::Object(object) => object,
            After::CorruptObject(why) => return state.faults.begin(key, revision, why, None),
            After::Gone => return,
        };
        let versions = Versions { newest: (revision, Some(Arc::new(object))), older: Vec::new() };
        if state.versions.insert(key, versions).is_none() {
            state.live += 1;
        }
    }

    /// Describes every object anew. Those whose description fails keep the one that they have.
    pub(crate) fn reindex(&self, index: impl Fn(&[u8]) -> Option<ObjectIndex>) {
        let known: Vec<Arc<Object>> = self.state.read().objects().cloned().collect();
        let mut made: HashMap<*const Object, Arc<Object>> = HashMap::new();
        for object in &known {
            if let Entry::Vacant(place) = made.entry(Arc::as_ptr(object))
                && let Some(index) = index(&object.json)
            {
                let (key, revision, json) = (object.key.clone(), object.revision, object.json.clone());
                place.insert(Arc::new(Object::new(key, revision, json, index)));
            }
        }
        // What was appended meanwhile is described already.
        self.state.write().replace(|object| made.get(&Arc::as_ptr(object)).cloned());
    }

    /// Appends changes, in order, and hands them to those who watch. They are woken by [`WatchCache::wake`].
    pub(crate) fn append(&self, changes: Vec<Written>) -> Vec<Arc<Event>> {
        let mut state = self.state.write();
        let corrupt = state.faults.now();
        let events: Vec<_> = changes.into_iter().filter_map(|change| state.append(change)).collect();
        let breaks = state.faults.now() > corrupt;
        drop(state);
        self.watchers.offer(&events);
        if breaks {
            self.watchers.interrupt();
        }
        events
    }

    /// Wakes those who were handed these events.
    pub(crate) fn wake(&self, events: &[Arc<Event>]) {
        self.watchers.wake(events);
    }

    /// Drops the oldest event. States before it can no longer be read.
    pub(crate) fn drop_oldest(&self) -> Option<Arc<Event>> {
        let mut state = self.state.write();
        let state = &mut *state;
        let event = state.events.pop_front()?;
        state.valid_from = state.valid_from.max(event.revision);
        state.faults.forget(state.valid_from);
        if let Some(versions) = state.versions.get_mut(&*event.key) {
            // What the event made is now the oldest version that can be asked for.
            let before = versions.older.partition_point(|(r, _)| *r < event.revision);
            versions.older.drain(..before);
            if versions.older.first().is_some_and(|(_, object)| object.is_none()) {
                versions.older.remove(0);
            }
            if versions.older.is_empty() {
                versions.older = Vec::new();
                if versions.newest.1.is_none() && versions.newest.0 <= event.revision {
                    state.versions.remove(&*event.key);
                }
            }
        }
        Some(event)
    }
}
