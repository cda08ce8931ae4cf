//! One collection's map of versions and log of events.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::RwLock;
use pintle_value::Str;

use crate::watcher::{Interests, Scope, Watcher};
use crate::{Event, Object};

/// A revision that the window no longer reaches was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    /// The oldest revision that can still be asked for.
    pub oldest: u64,
}

/// Which keys of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    fn first(&self) -> Bound<Str> {
        match self {
            KeyRange::All => Bound::Unbounded,
            KeyRange::Namespace(namespace) => Bound::Included(Str::from(format!("{namespace}/"))),
            KeyRange::Key(key) => Bound::Included(key.clone()),
        }
    }
}

/// A part of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects in the order of their keys.
    pub objects: Vec<Arc<Object>>,
    /// The last key looked at; go on behind it. `None` at the end of the range.
    pub last: Option<Str>,
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
    versions: BTreeMap<Str, Versions>,
    events: VecDeque<Arc<Event>>,
    /// Events after this revision are all in the log, and states at or after it can be read.
    valid_from: u64,
    live: usize,
}

/// One collection: every object of a kind in a logical cluster, whatever versions and groups show it.
#[derive(Debug)]
pub struct Log {
    state: RwLock<State>,
    interests: Interests,
}

impl Log {
    pub(crate) fn new(valid_from: u64) -> Self {
        Self { state: RwLock::new(State { valid_from, ..State::default() }), interests: Interests::default() }
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
        let first = match after {
            Some(key) => Bound::Excluded(Str::from(key)),
            None => range.first(),
        };
        let mut page = Page { objects: Vec::with_capacity(max.min(state.live).min(1024)), last: None };
        for (looked_at, (key, versions)) in state.versions.range((first, Bound::Unbounded)).enumerate() {
            if !range.contains(key) {
                return Ok(Page { last: None, ..page });
            }
            if looked_at == max {
                return Ok(page);
            }
            page.last = Some(key.clone());
            if let Some(object) = versions.at(at) {
                page.objects.push(object.clone());
            }
        }
        page.last = None;
        Ok(page)
    }

    /// How many objects there are at a revision behind a key.
    ///
    /// # Errors
    /// The revision is older than the window.
    pub fn count(&self, range: &KeyRange, after: Option<&str>, at: u64) -> Result<usize, TooOld> {
        let mut from = after.map(Str::from);
        let mut total = 0;
        loop {
            let page = self.page(range, from.as_deref(), at, 4096)?;
            total += page.objects.len();
            match page.last {
                Some(last) => from = Some(last),
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

    /// The revision from which on the log is complete.
    #[must_use]
    pub fn valid_from(&self) -> u64 {
        self.state.read().valid_from
    }

    /// A watcher of all changes in a scope after a revision. Whether the revision is still in the window shows at the
    /// first [`Watcher::next`].
    #[must_use]
    pub fn watch(self: &Arc<Self>, scope: Scope, after: u64) -> Watcher {
        Watcher::new(self.clone(), scope, after)
    }

    pub(crate) fn interests(&self) -> &Interests {
        &self.interests
    }

    /// Up to `max` events after a revision that `wanted` says yes to, and the revision of the last event looked at.
    pub(crate) fn events_after(
        &self,
        revision: u64,
        max: usize,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<(Vec<Arc<Event>>, u64, bool), TooOld> {
        let state = self.state.read();
        if revision < state.valid_from {
            return Err(TooOld { oldest: state.valid_from });
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
    pub(crate) fn seed(&self, object: Arc<Object>) {
        let mut state = self.state.write();
        let version = (object.revision, Some(object.clone()));
        if state.versions.insert(object.key.clone(), Versions { newest: version, older: Vec::new() }).is_none() {
            state.live += 1;
        }
    }

    /// The newest object of a key, for the change that follows it.
    pub(crate) fn newest(&self, key: &str) -> Option<Arc<Object>> {
        self.state.read().versions.get(key).and_then(|v| v.newest.1.clone())
    }

    /// Appends changes, in order.
    pub(crate) fn append(&self, events: &[Arc<Event>]) {
        {
            let mut state = self.state.write();
            let state = &mut *state;
            for event in events {
                let version = (event.revision, event.object.clone());
                match state.versions.get_mut(&event.key) {
                    Some(versions) => {
                        let before = std::mem::replace(&mut versions.newest, version);
                        match (before.1.is_some(), event.object.is_some()) {
                            (true, false) => state.live -= 1,
                            (false, true) => state.live += 1,
                            _ => {}
                        }
                        versions.older.push(before);
                    }
                    None => {
                        state.live += usize::from(event.object.is_some());
                        state.versions.insert(event.key.clone(), Versions { newest: version, older: Vec::new() });
                    }
                }
                state.events.push_back(event.clone());
            }
        }
        self.interests.offer(events);
    }

    /// Drops the oldest event. States before it can no longer be read.
    pub(crate) fn drop_oldest(&self) -> Option<Arc<Event>> {
        let mut state = self.state.write();
        let state = &mut *state;
        let event = state.events.pop_front()?;
        state.valid_from = state.valid_from.max(event.revision);
        if let Some(versions) = state.versions.get_mut(&event.key) {
            // What the event made is now the oldest version that can be asked for.
            let before = versions.older.partition_point(|(r, _)| *r < event.revision);
            versions.older.drain(..before);
            if versions.older.first().is_some_and(|(_, object)| object.is_none()) {
                versions.older.remove(0);
            }
            if versions.older.is_empty() {
                versions.older = Vec::new();
                if versions.newest.1.is_none() && versions.newest.0 <= event.revision {
                    state.versions.remove(&event.key);
                }
            }
        }
        Some(event)
    }
}
