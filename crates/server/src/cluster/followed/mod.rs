//! Indexes that are built from the objects of watch caches, for decisions that must not wait. No task follows the
//! events. Instead, each reader first updates the index to the newest events. So a change is in force before the write
//! that made it is answered.

mod node;
mod rbac;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pintle_cache::{Cache, Key, KeyRange, Object, TooOld, WatchCache, WatchScope, Watcher};
use pintle_codec::json::Projection;
use pintle_locks::Mutex;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::{Str, Value};

pub(super) use self::node::empty_node_authorizer;
use super::Cluster;
use super::objects::object_key;

/// An index of objects. One thread at a time changes it, and many threads read it.
pub(crate) trait ObjectIndex: Send + Sync {
    /// A kind of objects in the index.
    type Kind: Copy + Send + Sync + 'static;

    /// The kinds, each with its group and resource. All of them are built-in.
    const KINDS: &'static [(Self::Kind, &'static str, &'static str)];

    /// The paths of the fields of a kind that the index reads, see [`Projection`].
    fn fields(kind: Self::Kind) -> &'static [&'static str];

    /// Adds or replaces an object. `object` contains only the fields of [`ObjectIndex::fields`].
    ///
    /// # Errors
    /// The object cannot be read. The index treats it as its own rules require; the reason is logged.
    fn set(&self, kind: Self::Kind, namespace: &str, name: &str, object: &Value) -> Result<(), String>;

    /// Removes an object.
    fn remove(&self, kind: Self::Kind, namespace: &str, name: &str);

    /// The namespaces and names of the objects of a kind.
    fn names(&self, kind: Self::Kind) -> Vec<(Str, Str)>;
}

/// An index that follows the watch caches of its kinds.
pub(crate) struct FollowedIndex<I: ObjectIndex> {
    index: I,
    /// The revision of the watch caches up to which the index is complete.
    complete_to: AtomicU64,
    sources: Mutex<Vec<Source<I::Kind>>>,
}

/// A watch cache that an index follows.
struct Source<K> {
    kind: K,
    /// The fields that are decoded from an object. The index needs few fields of a pod.
    fields: Projection,
    watch_cache: Arc<WatchCache>,
    watcher: Watcher,
}

impl<I: ObjectIndex> FollowedIndex<I> {
    /// Fills an empty index with the objects of a cluster.
    ///
    /// # Errors
    /// A resource of the index is unknown.
    pub(super) fn new(cluster: &Cluster, index: I) -> Result<Self, ApiError> {
        let complete_to = cluster.stores.cache.applied_revision();
        let mut sources = Vec::with_capacity(I::KINDS.len());
        for (kind, group, resource) in I::KINDS {
            let Some(hub) = cluster.readable_hub(&GroupResource::new(*group, *resource))? else { continue };
            sources.push(Source::new(*kind, &cluster.stores.cache, cluster.watch_cache(&hub)?, &index));
        }
        Ok(Self { index, complete_to: AtomicU64::new(complete_to), sources: Mutex::new(sources) })
    }

    /// The index at its last update, which may be older than the watch caches.
    pub(super) fn last(&self) -> &I {
        &self.index
    }

    /// The index with everything that the watch caches contain now.
    pub(crate) fn current(&self, cache: &Cache) -> &I {
        // The revision is read first: at that time, the buffers of the watchers contain all events up to it.
        let applied = cache.applied_revision();
        if self.complete_to.load(Ordering::Acquire) < applied {
            let mut sources = self.sources.lock();
            if self.complete_to.load(Ordering::Relaxed) < applied {
                sources.iter_mut().for_each(|source| source.catch_up(cache, &self.index));
                self.complete_to.store(applied, Ordering::Release);
            }
        }
        &self.index
    }
}

impl<K: Copy> Source<K> {
    fn new<I: ObjectIndex<Kind = K>>(kind: K, cache: &Cache, watch_cache: Arc<WatchCache>, index: &I) -> Self {
        let watcher = watch_from_now(cache, &watch_cache);
        let fields = Projection::of(I::fields(kind).iter().copied());
        let source = Self { kind, fields, watch_cache, watcher };
        source.list(index);
        source
    }

    /// Adds the objects that exist now. An object may be newer than the start of the watcher, but never older.
    fn list(&self, index: &impl ObjectIndex<Kind = K>) {
        self.watch_cache.objects(KeyRange::All).for_each(|object| self.set(index, &object));
    }

    fn set(&self, index: &impl ObjectIndex<Kind = K>, object: &Object) {
        let (namespace, name) = (object.namespace(), object.name());
        let result = match self.fields.read(&object.json) {
            Some(value) => index.set(self.kind, namespace, name, &value),
            None => {
                index.remove(self.kind, namespace, name);
                Err("the stored object is not JSON".to_owned())
            }
        };
        if let Err(error) = result {
            let resource = self.watch_cache.prefix();
            tracing::warn!(%resource, namespace, name, %error, "An object that an index follows cannot be read");
        }
    }

    /// Updates the index with the newest state of an object, so that the index never returns to an older state.
    fn update(&self, index: &impl ObjectIndex<Kind = K>, key: &str) {
        match self.watch_cache.read(key) {
            Ok(Some(object)) => self.set(index, &object),
            Ok(None) | Err(_) => {
                let (namespace, name) = key.split_once('/').unwrap_or(("", key));
                index.remove(self.kind, namespace, name);
            }
        }
    }

    /// Updates the objects that have changed since the last call. If the history has lost changes, or if an object has
    /// become unreadable, this updates all objects.
    fn catch_up(&mut self, cache: &Cache, index: &impl ObjectIndex<Kind = K>) {
        loop {
            match self.watcher.pending() {
                Ok(events) if events.is_empty() => return,
                // After many changes, these are only the oldest events.
                Ok(events) => {
                    let changed: HashSet<&Key> = events.iter().map(|event| &event.key).collect();
                    changed.into_iter().for_each(|key| self.update(index, key));
                }
                Err(TooOld { .. }) => {
                    self.watcher = watch_from_now(cache, &self.watch_cache);
                    self.list(index);
                    let names = index.names(self.kind);
                    names.into_iter().for_each(|(namespace, name)| self.update(index, &object_key(&namespace, &name)));
                    return;
                }
            }
        }
    }
}

fn watch_from_now(cache: &Cache, watch_cache: &Arc<WatchCache>) -> Watcher {
    let now = watch_cache.newest_revision().max(cache.applied_revision());
    watch_cache.watch_until_corrupt(WatchScope::All, now)
}
