//! A logical cluster: registry, store, cache, clock, and who may do what. Nothing of it is global, so that many live in
//! one process and share only the catalog.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use pintle_admission::{NamespaceLifecycle, PluginChain, TerminatingDefinition};
use pintle_auth::{Authenticator, Authorizer};
use pintle_cache::{Cache, CacheError, EncodingCache, HistoryLimits, WatchCache};
use pintle_catalog::Catalog;
use pintle_gates::{Feature, Gates};
use pintle_registry::{ApiError, GroupResource, Registry, Resource, StrategyContext};
use pintle_store::{Clock, Sleep, Store};
use pintle_value::time::Time;
use pintle_value::{Str, Value};

use crate::components::Component;
use crate::controllers::{ControllerOptions, RunningControllers};
use crate::cors::Cors;
use crate::definitions::Definitions;
use crate::http::CpuPermits;
use crate::metrics::Metrics;
use crate::read::Lifetime;
use crate::stored::Indexers;
use crate::versions::{Converted, Webhooks};

/// The root of all keys (kube-apiserver's `--etcd-prefix`).
const ROOT: &str = "/registry";

/// What a cluster is made of.
pub struct Settings {
    /// Where objects are stored.
    pub store: Arc<dyn Store>,
    /// How much history is kept in memory.
    pub window: HistoryLimits,
    /// Up to how many bytes encodings of objects are kept that are asked for beside JSON.
    pub encoding_cache: usize,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// How long a watch lasts at least that has no time of its own; at most it is twice that (upstream:
    /// `--min-request-timeout`).
    pub min_request_timeout: Duration,
    /// Tells who sends a request.
    pub authenticator: Box<dyn Authenticator>,
    /// Decides what they may do.
    pub authorizer: Box<dyn Authorizer>,
    /// Whose health clients can ask for.
    pub components: Vec<Component>,
    /// Which features are on.
    pub gates: Gates,
    /// The origins whose scripts browsers may let in.
    pub cors: Cors,
    /// What it does by itself.
    pub controller_options: ControllerOptions,
    /// How long events are kept after they were last written; without end if that is no time.
    pub event_ttl: Duration,
}

/// A logical cluster.
pub struct Cluster {
    pub(crate) catalog: Arc<Catalog>,
    /// The records of the built-in kinds.
    built_in: Vec<Arc<Resource>>,
    registry: RwLock<Arc<Registry>>,
    /// Told each time that a kind appears or goes.
    pub(crate) kinds_change: tokio::sync::watch::Sender<()>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cache: Cache,
    /// Which fields of stored objects the cache keeps.
    pub(crate) indexers: Arc<Indexers>,
    clock: Arc<dyn Clock>,
    pub(crate) min_request_timeout: Duration,
    pub(crate) authenticator: Box<dyn Authenticator>,
    pub(crate) authorizer: Box<dyn Authorizer>,
    pub(crate) admission: PluginChain,
    pub(crate) metrics: Metrics,
    /// Which features are on.
    pub(crate) gates: Arc<Gates>,
    /// True if CBOR is one of the encodings: every request asks.
    pub(crate) cbor: bool,
    pub(crate) cors: Cors,
    pub(crate) event_ttl: Duration,
    pub(crate) components: Vec<Component>,
    /// Those who are asked to convert objects.
    pub(crate) webhooks: Webhooks,
    /// What they converted lately.
    pub(crate) converted: Converted,
    pub(crate) documents: crate::documents::Documents,
    /// Who makes the next piece of a large answer.
    pub(crate) cpu_permits: CpuPermits,
    /// Held for reading while something is created, from the last look at its namespace until it is stored.
    pub(crate) creates: tokio::sync::RwLock<()>,
    /// What it does by itself.
    pub(crate) running_controllers: RunningControllers,
    /// Turns true when the server goes down, so that watches end.
    pub(crate) closing: tokio::sync::watch::Sender<bool>,
}

/// A cluster cannot be started.
#[derive(Debug)]
pub enum ClusterError {
    /// The cache cannot be filled from the store.
    Cache(CacheError),
    /// The objects that every cluster has cannot be made.
    Bootstrap(ApiError),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterError::Cache(error) => write!(f, "the stored objects cannot be read: {error}"),
            ClusterError::Bootstrap(error) => write!(f, "the first objects cannot be made: {error}"),
        }
    }
}

impl std::error::Error for ClusterError {}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Fills the cache from the store and makes the objects that every cluster has.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn start(settings: Settings) -> Result<Arc<Self>, ClusterError> {
        let catalog = pintle_catalog::shared().clone();
        let mut built_in = pintle_kinds::resources(&catalog);
        pintle_extensions::install_definition_validation(&mut built_in);
        let registry = Arc::new(Registry::new(built_in.clone()));
        let prefixes: HashSet<Str> =
            registry.resources().filter_map(|r| r.collection()).map(|c| c.prefix.clone()).collect();
        let indexers = Arc::new(Indexers::default());
        for hub in registry.resources().filter(|resource| resource.is_hub()) {
            indexers.set(hub);
        }
        let (store, clock) = (settings.store.clone(), settings.clock.clone());
        let filled = Cache::load(store, ROOT, prefixes.clone(), indexers.clone(), clock, settings.window)
            .await
            .map_err(ClusterError::Cache)?;
        let definitions = Definitions::stored(&filled);
        for record in definitions.served().filter(|(prefix, _)| !prefixes.contains(*prefix)).filter_map(|(_, r)| r) {
            indexers.set(record);
        }
        let encodings = EncodingCache::new(settings.encoding_cache);
        let cache = filled.follow(definitions.served().map(|(prefix, _)| prefix.clone()), encodings);
        let cluster = Arc::new(Self {
            documents: crate::documents::Documents::default(),
            catalog,
            built_in,
            registry: RwLock::new(registry),
            kinds_change: tokio::sync::watch::Sender::new(()),
            store: settings.store,
            cache,
            indexers,
            clock: settings.clock,
            min_request_timeout: settings.min_request_timeout,
            authenticator: settings.authenticator,
            authorizer: settings.authorizer,
            admission: PluginChain(vec![Box::new(TerminatingDefinition), Box::new(NamespaceLifecycle)]),
            metrics: Metrics::new(&settings.gates),
            running_controllers: RunningControllers::new(&settings.controller_options, &settings.gates),
            cbor: settings.gates.is_enabled(Feature::CBOR),
            gates: Arc::new(settings.gates),
            cors: settings.cors,
            event_ttl: settings.event_ttl,
            components: settings.components,
            webhooks: Webhooks::default(),
            converted: Converted::default(),
            cpu_permits: CpuPermits::default(),
            creates: tokio::sync::RwLock::default(),
            closing: tokio::sync::watch::Sender::new(false),
        });
        cluster.bootstrap().await.map_err(ClusterError::Bootstrap)?;
        definitions.follow(&cluster).await.map_err(ClusterError::Bootstrap)?;
        cluster.running_controllers.start(&cluster, &settings.controller_options).await;
        Ok(cluster)
    }

    /// Which features are on.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.gates
    }

    /// The kinds that are served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    /// Serves these custom kinds of groups in the place of those that they had.
    pub(crate) fn publish(&self, groups: impl IntoIterator<Item = (Str, Vec<Arc<Resource>>)>) {
        let mut registry = self.registry.write();
        *registry = Arc::new(registry.with_custom(groups));
        drop(registry);
        self.kinds_change.send_replace(());
    }

    /// True if a built-in kind keeps its objects under a prefix. A definition may name the same; they are not its objects.
    pub(crate) fn is_built_in(&self, prefix: &str) -> bool {
        self.built_in.iter().filter_map(|resource| resource.collection()).any(|c| c.prefix == prefix)
    }

    /// True if there are built-in kinds in a group.
    pub(crate) fn is_built_in_group(&self, group: &str) -> bool {
        self.built_in.iter().any(|resource| resource.group == group)
    }

    /// The time now.
    pub(crate) fn now(&self) -> Time {
        let millis = self.clock.now().0;
        Time { seconds: (millis / 1000) as i64, nanos: (millis % 1000) as u32 * 1_000_000 }
    }

    /// Ends when this much time has passed.
    pub(crate) fn sleep(&self, duration: Duration) -> Sleep {
        self.clock.sleep(duration)
    }

    /// The time of a watch, from now on.
    pub(crate) fn lifetime(&self, lasts: Duration, bookmarks: bool) -> Lifetime {
        Lifetime::begin(&self.clock, lasts, bookmarks)
    }

    /// The context of something that the server does by itself.
    pub(crate) fn own_context(&self) -> StrategyContext {
        StrategyContext {
            now: self.now(),
            user: "system:apiserver".into(),
            uid: Str::default(),
            groups: vec!["system:masters".into()],
            extra: Vec::new(),
            dry_run: false,
            gates: self.gates.clone(),
        }
    }

    /// The log of a resource's collection.
    pub(crate) fn watch_cache(&self, resource: &Resource) -> Result<Arc<WatchCache>, ApiError> {
        let prefix = resource.collection().map(|c| c.prefix.as_str()).ok_or(ApiError::MethodNotAllowed)?;
        self.cache.watch_cache(prefix).ok_or_else(|| ApiError::Internal(format!("no log of {}", resource.plural)))
    }

    /// The record of the version at which a resource's objects are stored.
    pub(crate) fn hub(&self, resource: &Arc<Resource>) -> Arc<Resource> {
        if resource.is_hub() {
            return resource.clone();
        }
        resource.collection().and_then(|c| self.registry().hub(c).cloned()).unwrap_or_else(|| resource.clone())
    }

    /// The hub record of a group and resource, in whatever version.
    pub(crate) fn stored(&self, resource: &GroupResource) -> Result<Arc<Resource>, ApiError> {
        self.registry()
            .resources()
            .find(|r| r.group == resource.group && r.plural == resource.resource && r.is_hub())
            .cloned()
            .ok_or(ApiError::NoSuchPath)
    }

    /// Waits until reads see everything that was committed before now.
    pub(crate) async fn catch_up(&self) -> Result<u64, ApiError> {
        let current = self.store.current_revision().await.map_err(store_error)?.get();
        self.cache.wait_until_fresh(current).await;
        Ok(current)
    }
}

/// A fault of the store, for the client.
pub(crate) fn store_error(error: pintle_store::Error) -> ApiError {
    tracing::error!(%error, "the store failed");
    match error {
        pintle_store::Error::Closed => ApiError::Unavailable("the server is shutting down".to_owned()),
        _ => ApiError::Internal("the store cannot be used".to_owned()),
    }
}

/// The key of an object in its collection.
pub(crate) fn object_key(namespace: &str, name: &str) -> Str {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

fn decoded(json: &[u8]) -> Result<Value, String> {
    let decoded = pintle_codec::json::decode(json, pintle_codec::json::DecodeOptions::default());
    Ok(decoded.map_err(|error| error.to_string())?.value)
}

/// The tree of a stored object, with its resourceVersion.
pub(crate) fn tree(object: &pintle_cache::Object) -> Result<Value, ApiError> {
    let mut value = decoded(&object.json)
        .map_err(|error| ApiError::Internal(format!("the stored object cannot be read: {error}")))?;
    value.set_at(&["metadata", "resourceVersion"], object.revision.to_string());
    Ok(value)
}
