//! The stored APIServices: which versions other API servers serve, the order of versions in discovery, and metrics
//! (upstream: kube-aggregator's `pkg/apiserver` and `pkg/controllers/status/metrics`). This module also checks that each
//! built-in version has an APIService (upstream: the health check `autoregister-completion` in
//! `pkg/controlplane/apiserver`).

mod index;
mod remote_api;
mod remote_discovery;
mod remote_openapi;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pintle_cache::{WatchCache, WatchScope, Watcher};
use pintle_extensions::version_order;
use pintle_kinds::{api_services_resource, built_in_api_services, is_available_api_service};
use pintle_metrics::{Exposition, Kind, Stability};
use pintle_registry::GroupVersion;
use pintle_value::Value;
use tokio::sync::watch;

pub(crate) use self::index::ApiService;
pub(super) use self::index::ApiServiceIndex;
pub(crate) use self::remote_api::RemoteApi;
pub(crate) use self::remote_discovery::{RemoteDiscovery, RemoteVersion};
pub(crate) use self::remote_openapi::{RemoteOpenApi, RemoteV2, RemoteV3};
use super::{Cluster, tree};

/// The state of the APIServices that the server keeps.
#[derive(Debug, Default)]
pub(crate) struct ApiServiceRegistration {
    /// True if the server keeps APIServices.
    is_enabled: AtomicBool,
    /// True if the APIServices of all built-in versions have been available once.
    is_complete: AtomicBool,
}

/// The versions of a group in their order.
fn sorted_versions(mut services: Vec<Arc<ApiService>>) -> Vec<GroupVersion> {
    services.sort_by(|a, b| {
        let by_priority = b.version_priority.cmp(&a.version_priority);
        by_priority.then_with(|| version_order(&a.version.version, &b.version.version))
    });
    services.into_iter().map(|service| service.version.clone()).collect()
}

/// Waits for changes of APIServices.
pub(crate) struct ApiServiceChanges {
    watch_cache: Arc<WatchCache>,
    watcher: Watcher,
}

impl ApiServiceChanges {
    /// Returns when an APIService has changed since the last call. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        if self.watcher.next().await.is_err() {
            let now = self.watch_cache.newest_revision();
            self.watcher = self.watch_cache.watch_until_corrupt(WatchScope::All, now);
        }
    }
}

impl Cluster {
    /// Enables the APIServices: from now on they determine which server handles a request, and the order of versions in
    /// discovery.
    pub(crate) fn enable_api_services(&self) {
        self.lifecycle.api_service_registration.is_enabled.store(true, Ordering::Relaxed);
    }

    /// The APIServices that exist now; `None` if the server keeps none.
    pub(crate) fn api_services(&self) -> Option<&ApiServiceIndex> {
        if !self.lifecycle.api_service_registration.is_enabled.load(Ordering::Relaxed) {
            return None;
        }
        self.current(&self.api_services, ApiServiceIndex::default).ok()
    }

    /// The APIService of the path of a request that another API server serves.
    pub(crate) fn remote_api_service(&self, path: &str) -> Option<Arc<ApiService>> {
        let index = self.api_services().filter(|index| index.has_remote())?;
        let mut parts = path.trim_start_matches('/').split('/');
        let (group, version) = match parts.next()? {
            "apis" => (parts.next()?, parts.next()?),
            // As in upstream, the only APIService of the core group covers all of its versions.
            "api" => ("", "v1"),
            _ => return None,
        };
        index.get(group, version).filter(|service| service.remote.is_some())
    }

    /// Waits for changes of APIServices; `None` if the server keeps none.
    pub(crate) fn api_service_changes(&self) -> Option<ApiServiceChanges> {
        self.api_services()?;
        let watch_cache = self.watch_cache(self.registry().hub_of(&api_services_resource())?).ok()?;
        let now = watch_cache.newest_revision().max(self.stores.cache.applied_revision());
        let watcher = watch_cache.watch_until_corrupt(WatchScope::All, now);
        Some(ApiServiceChanges { watch_cache, watcher })
    }

    /// The versions that other API servers serve.
    pub(crate) fn remote_discovery(&self) -> Arc<RemoteDiscovery> {
        self.remote_discovery.read().clone()
    }

    /// Notifies each time that the versions of other API servers change.
    pub(crate) fn remote_changes(&self) -> watch::Receiver<()> {
        self.remote_changed.subscribe()
    }

    /// Replaces the versions that other API servers serve.
    pub(crate) fn set_remote_discovery(&self, discovery: RemoteDiscovery) {
        // The resources derive from the versions.
        if self.remote_discovery().versions != discovery.versions {
            *self.remote_discovery.write() = Arc::new(discovery);
            self.remote_changed.send_replace(());
        }
    }

    /// The OpenAPI documents of other API servers.
    pub(crate) fn remote_openapi(&self) -> Arc<RemoteOpenApi> {
        self.remote_openapi.read().clone()
    }

    /// Replaces the OpenAPI documents of other API servers.
    pub(crate) fn set_remote_openapi(&self, openapi: RemoteOpenApi) {
        if !self.remote_openapi().is_same(&openapi) {
            *self.remote_openapi.write() = Arc::new(openapi);
        }
    }

    /// The versions of `/apis` by group, in the order of their APIServices; `None` if the server keeps no APIServices.
    pub(crate) fn api_service_versions(&self) -> Option<Vec<Vec<GroupVersion>>> {
        let mut services = self.api_services()?.all();
        services.sort_by(|a, b| b.group_priority.cmp(&a.group_priority).then_with(|| a.name.cmp(&b.name)));
        let (mut groups, mut indexes) = (Vec::<Vec<Arc<ApiService>>>::new(), HashMap::new());
        for service in services {
            let index = *indexes.entry(service.version.group.clone()).or_insert(groups.len());
            match groups.get_mut(index) {
                Some(group) => group.push(service),
                None => groups.push(vec![service]),
            }
        }
        Some(groups.into_iter().map(sorted_versions).collect())
    }

    /// The versions of a group, in the order of their APIServices; `None` if it has none.
    pub(crate) fn api_service_versions_of(&self, group: &str) -> Option<Vec<GroupVersion>> {
        let mut services = self.api_services()?.all();
        services.retain(|service| service.version.group == group);
        (!services.is_empty()).then(|| sorted_versions(services))
    }

    /// Writes the metrics of unavailable APIServices.
    pub(crate) fn write_api_services(&self, out: &mut Exposition) {
        for service in self.api_services().map(ApiServiceIndex::all).unwrap_or_default() {
            let help = "Whether an APIService is unavailable, by name.";
            out.family("aggregator_unavailable_apiservice", Kind::Gauge, Stability::Alpha, help)
                .value(&[("name", &service.name)], if service.is_available { 0.0 } else { 1.0 });
        }
        for ((name, reason), count) in self.metrics.api_service_outages.all() {
            let help = "The number of times that an APIService became unavailable, by name and reason.";
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            out.family("aggregator_unavailable_apiservice_total", Kind::Counter, Stability::Alpha, help)
                .value(&[("name", &name), ("reason", reason)], count as f64);
        }
    }

    /// The APIServices of the built-in versions that are served.
    pub(crate) fn built_in_api_services(&self) -> Vec<Value> {
        built_in_api_services(&self.served.catalog, &self.registry())
    }

    /// Fails until the APIServices of all built-in versions have been available.
    pub(crate) fn check_api_services(&self) -> Result<(), String> {
        let is_complete = &self.lifecycle.api_service_registration.is_complete;
        if is_complete.load(Ordering::Relaxed) {
            return Ok(());
        }
        let registry = self.registry();
        let Some(hub) = registry.hub_of(&api_services_resource()) else { return Ok(()) };
        let stored = self.watch_cache(hub).map_err(|error| error.to_string())?;
        let is_available = |name: &str| {
            let object = stored.read(name).ok().flatten();
            object.and_then(|object| tree(&object).ok()).is_some_and(|service| is_available_api_service(&service))
        };
        let services = self.built_in_api_services();
        let names = services.iter().map(Value::name).filter(|name| !is_available(name));
        let missing: Vec<&str> = names.collect();
        if missing.is_empty() {
            is_complete.store(true, Ordering::Relaxed);
            return Ok(());
        }
        Err(format!("missing APIService: [{}]", missing.join(" ")))
    }
}
