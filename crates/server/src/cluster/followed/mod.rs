//! Indexes that are made from the objects of watch caches, for decisions that must not wait. Instead of a task that
//! follows the events, whoever reads such an index first lets it catch up: so a change is in force before the write that
//! made it is answered.

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

/// An index of objects. It is changed by one thread at a time and read by many.
pub(crate) trait ObjectIndex: Send + Sync {
    /// A kind of objects in the index.
    type Kind: Copy + Send + Sync + 'static;

    /// The kinds, each with its group and resource. They are built-in.
    const KINDS: &'static [(Self::Kind, &'static str, &'static str)];

    /// The paths of the fields of a kind that the index reads, see [`Projection`].
    fn fields(kind: Self::Kind) -> &'static [&'static str];

    /// Adds or replaces an object, of which only these fields are known.
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
    /// What is decoded of an object. Most of a pod does not matter here.
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
        let complete_to = cluster.cache.applied_revision();
        let mut sources = Vec::with_capacity(I::KINDS.len());
        for (kind, group, resource) in I::KINDS {
            let Some(hub) = cluster.readable_hub(&GroupResource::new(*group, *resource))? else { continue };
            sources.push(Source::new(*kind, &cluster.cache, cluster.watch_cache(&hub)?, &index));
        }
        Ok(Self { index, complete_to: AtomicU64::new(complete_to), sources: Mutex::new(sources) })
    }

    /// The index as it was when it was read last.
    pub(super) fn last(&self) -> &I {
        &self.index
    }

    /// The index with everything that the watch caches contain now.
    pub(crate) fn current(&self, cache: &Cache) -> &I {
        // Read first: the events up to this revision are in the buffers of the watchers by then.
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

    /// Adds the present objects. They may be newer than where the watcher begins, never older.
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
            tracing::warn!(%resource, namespace, name, %error, "An object that access control follows cannot be read");
        }
    }

    /// Brings an object to its newest state, so that the index never goes back to an older one.
    fn update(&self, index: &impl ObjectIndex<Kind = K>, key: &str) {
        match self.watch_cache.read(key) {
            Ok(Some(object)) => self.set(index, &object),
            Ok(None) | Err(_) => {
                let (namespace, name) = key.split_once('/').unwrap_or(("", key));
                index.remove(self.kind, namespace, name);
            }
        }
    }

    /// Updates the objects that were changed since the last call. If the history has lost some changes, or if an object
    /// has become unreadable, updates all.
    fn catch_up(&mut self, cache: &Cache, index: &impl ObjectIndex<Kind = K>) {
        loop {
            match self.watcher.pending() {
                Ok(events) if events.is_empty() => return,
                // After many changes these are only the first of them.
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
