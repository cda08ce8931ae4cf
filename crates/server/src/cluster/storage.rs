//! The stores of collections: the cluster's main store, or other stores (`--etcd-servers-overrides`). Each store has
//! revisions and a cache of its own.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{Cache, CacheError, EncodingCache, HistoryLimits, Indexer};
use pintle_controllers::CaughtUp;
use pintle_registry::{ApiError, GroupResource, Registry, Resource};
use pintle_store::{Clock, Condition, Store, StoredValue};
use pintle_value::{Str, Value};

use super::{Cluster, store_error};

/// Maximum time for which the deletion of a namespace waits for another store. After that, the deletion is tried again.
const OVERRIDE_TIMEOUT: Duration = Duration::from_secs(3);

/// A store that contains only the objects of some resources.
#[derive(Clone, Debug)]
pub struct StorageOverride {
    /// The resources.
    pub resources: Vec<GroupResource>,
    /// The store.
    pub store: Arc<dyn Store>,
}

/// Encodes stored objects from their trees, so that the store's transformer need not parse their JSON.
pub trait TreeEncoder: fmt::Debug + Send + Sync {
    /// Returns the encoding that the store's transformer would make of the tree's JSON; `None` if only the transformer
    /// can make it.
    fn encode_tree(&self, key: &str, object: &Value) -> Option<StoredValue>;
}

/// A store of some collections, and the cache that follows it.
pub(crate) struct OverrideStorage {
    prefixes: HashSet<Str>,
    store: Arc<dyn Store>,
    cache: Cache,
    /// The names of the store's health check and of its readiness check.
    checks: [String; 2],
}

/// A store and the cache that follows it.
#[derive(Clone, Copy)]
pub(crate) struct Storage<'c> {
    pub(crate) store: &'c Arc<dyn Store>,
    pub(crate) cache: &'c Cache,
    /// True for the store of all collections that no other store has. Only its keys can have conditions.
    pub(crate) is_main: bool,
}

impl OverrideStorage {
    /// The collections of an override.
    ///
    /// # Errors
    /// A resource is not served or cannot have a store of its own. Only resources whose objects expire can. Controllers
    /// follow the objects of all other collections in one order.
    pub(crate) fn prefixes(registry: &Registry, resources: &[GroupResource]) -> Result<HashSet<Str>, String> {
        let prefix = |named: &GroupResource| {
            let hub = registry.hub_of(named).ok_or_else(|| format!("{named} is not served"))?;
            let collection = hub.collection().filter(|_| hub.built_in && hub.strategy.has_ttl());
            collection.map(|collection| collection.prefix.clone()).ok_or_else(|| {
                let served = registry.hubs().filter(|resource| resource.strategy.has_ttl());
                let served: Vec<String> = served.map(|resource| resource.group_resource().to_string()).collect();
                format!("{named} cannot be stored elsewhere, only {}", served.join(", "))
            })
        };
        resources.iter().map(prefix).collect()
    }

    /// Loads the collections of an override and follows its store. `index` is the override's position among all
    /// overrides.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn load(
        index: usize,
        store: Arc<dyn Store>,
        root: &str,
        prefixes: HashSet<Str>,
        indexer: Arc<dyn Indexer>,
        clock: Arc<dyn Clock>,
        history: HistoryLimits,
    ) -> Result<Self, CacheError> {
        let loaded = Cache::load(store.clone(), root, prefixes.clone(), indexer, clock, history).await?;
        // Encodings are cached for the cluster as a whole.
        let cache = loaded.follow([], EncodingCache::new(0));
        let checks = [format!("etcd-override-{index}"), format!("etcd-override-readiness-{index}")];
        Ok(Self { prefixes, store, cache, checks })
    }

    /// The name and the result of the check whether the store works.
    pub(crate) fn health(&self) -> (&str, Result<(), String>) {
        (&self.checks[0], self.store.health().map_err(|error| error.to_string()))
    }

    /// The name and the result of the check whether reads are answered without delay.
    pub(crate) fn readiness(&self) -> (&str, Result<(), String>) {
        let readiness = self.store.readiness().map_err(|error| error.to_string());
        let failure = self.cache.feed_task().failure();
        let followed = failure.map_or(Ok(()), |reason| Err(format!("its changes cannot be read: {reason}")));
        (&self.checks[1], readiness.and(followed))
    }

    fn storage(&self) -> Storage<'_> {
        Storage { store: &self.store, cache: &self.cache, is_main: false }
    }
}

impl Storage<'_> {
    /// Waits until the watch caches contain everything that was committed before the call. Returns the revision of the
    /// last of these commits.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn catch_up(self) -> Result<u64, ApiError> {
        let current = self.store.current_revision().await.map_err(store_error)?.get();
        self.cache.wait_until_fresh(current).await;
        Ok(current)
    }

    /// The conditions that a change in this storage can have. All keys of conditions are in the main store. As in
    /// upstream, a change in another store is only checked before the commit.
    pub(crate) fn conditions(self, conditions: Vec<Condition>) -> Vec<Condition> {
        if self.is_main { conditions } else { Vec::new() }
    }
}

impl Cluster {
    /// The storage of a collection.
    pub(crate) fn storage_of(&self, prefix: &str) -> Storage<'_> {
        let found = self.stores.overrides.iter().find(|storage| storage.prefixes.contains(prefix));
        found.map_or_else(|| self.main_storage(), OverrideStorage::storage)
    }

    /// The storage of the objects of a resource.
    pub(crate) fn storage_of_resource(&self, resource: &Resource) -> Storage<'_> {
        resource.collection().map_or_else(|| self.main_storage(), |collection| self.storage_of(&collection.prefix))
    }

    pub(crate) fn main_storage(&self) -> Storage<'_> {
        Storage { store: &self.stores.main, cache: &self.stores.cache, is_main: true }
    }

    /// All storages, the main storage first.
    pub(crate) fn storages(&self) -> impl Iterator<Item = Storage<'_>> {
        std::iter::once(self.main_storage()).chain(self.stores.overrides.iter().map(OverrideStorage::storage))
    }

    /// Waits until all watch caches contain everything that was committed before the call.
    ///
    /// # Errors
    /// The main store cannot be read.
    pub(crate) async fn catch_up_all(&self) -> Result<CaughtUp, ApiError> {
        let mut caught_up = CaughtUp::new(self.catch_up().await?);
        for storage in &self.stores.overrides {
            let revision = tokio::time::timeout(OVERRIDE_TIMEOUT, storage.storage().catch_up()).await;
            let revision =
                revision.unwrap_or_else(|_| Err(ApiError::Unavailable("its etcd does not answer".to_owned())));
            caught_up.add(storage.prefixes.iter().cloned(), &revision);
        }
        Ok(caught_up)
    }
}
