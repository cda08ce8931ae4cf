//! The stored APIServices of versions that this server serves itself, their order in discovery and their metrics.
//! Upstream: kube-aggregator's `pkg/apiserver/handler_apis.go` and `pkg/controllers/status/metrics`. This file also
//! checks that each built-in version has an APIService. Upstream: the health check `autoregister-completion` in
//! `pkg/controlplane/apiserver`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use pintle_cache::KeyRange;
use pintle_codec::json::Projection;
use pintle_extensions::version_order;
use pintle_kinds::{api_services_resource, built_in_api_services, is_available_api_service, is_local_api_service};
use pintle_metrics::{Exposition, Kind, Stability};
use pintle_registry::GroupVersion;
use pintle_value::Value;

use super::{Cluster, tree};

/// The fields of a stored APIService that the server reads.
const FIELDS: [&str; 3] = ["metadata.name", "spec", "status.conditions"];

/// The state of the APIServices that the server keeps.
#[derive(Debug, Default)]
pub(crate) struct ApiServiceRegistration {
    /// True if the server keeps APIServices.
    is_enabled: AtomicBool,
    /// True if the APIServices of all built-in versions have been available once.
    is_complete: AtomicBool,
}

/// The fields of an APIService that determine the position of its version in discovery.
struct ServicePriority {
    name: String,
    group: String,
    version: String,
    group_priority: i64,
    version_priority: i64,
}

impl ServicePriority {
    fn of(service: &Value) -> Self {
        let text = |field: &str| service.str_at(&["spec", field]).to_owned();
        let priority = |field: &str| service.int_at(&["spec", field]).unwrap_or_default();
        Self {
            name: service.name().to_owned(),
            group: text("group"),
            version: text("version"),
            group_priority: priority("groupPriorityMinimum"),
            version_priority: priority("versionPriority"),
        }
    }

    /// The versions of a group in their order.
    fn sorted_versions(mut services: Vec<Self>) -> Vec<GroupVersion> {
        services.sort_by(|a, b| {
            let by_priority = b.version_priority.cmp(&a.version_priority);
            by_priority.then_with(|| version_order(&a.version, &b.version))
        });
        services.into_iter().map(|service| GroupVersion::new(service.group, service.version)).collect()
    }
}

impl Cluster {
    /// Enables the APIServices: from now on they determine the order of served versions in discovery.
    pub(crate) fn enable_api_services(&self) {
        self.lifecycle.api_service_registration.is_enabled.store(true, Ordering::Relaxed);
    }

    /// The versions of `/apis` by group, in the order of their APIServices; `None` if the server keeps no APIServices.
    /// APIServices of other servers are left out, because this server proxies nothing to them.
    pub(crate) fn api_service_versions(&self) -> Option<Vec<Vec<GroupVersion>>> {
        let mut services: Vec<ServicePriority> =
            self.local_api_services(|_| true)?.iter().map(ServicePriority::of).collect();
        services.sort_by(|a, b| b.group_priority.cmp(&a.group_priority).then_with(|| a.name.cmp(&b.name)));
        let (mut groups, mut indexes) = (Vec::<Vec<ServicePriority>>::new(), HashMap::new());
        for service in services {
            let index = *indexes.entry(service.group.clone()).or_insert(groups.len());
            match groups.get_mut(index) {
                Some(group) => group.push(service),
                None => groups.push(vec![service]),
            }
        }
        Some(groups.into_iter().map(ServicePriority::sorted_versions).collect())
    }

    /// The versions of a group, in the order of their APIServices; `None` if it has none.
    pub(crate) fn api_service_versions_of(&self, group: &str) -> Option<Vec<GroupVersion>> {
        // APIServices are named `version.group`.
        let is_of_group = |name: &str| name.split_once('.').is_some_and(|(_, of)| of == group);
        let services: Vec<ServicePriority> =
            self.local_api_services(is_of_group)?.iter().map(ServicePriority::of).collect();
        let versions = ServicePriority::sorted_versions(services);
        (!versions.is_empty()).then_some(versions)
    }

    /// The stored APIServices of versions that this server serves itself; `None` if the server keeps none.
    fn local_api_services(&self, is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Value>> {
        let mut services = self.stored_api_services(is_wanted)?;
        services.retain(is_local_api_service);
        Some(services)
    }

    /// The stored APIServices; `None` if the server keeps none.
    fn stored_api_services(&self, is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Value>> {
        if !self.lifecycle.api_service_registration.is_enabled.load(Ordering::Relaxed) {
            return None;
        }
        let registry = self.registry();
        let stored = self.watch_cache(registry.hub_of(&api_services_resource())?).ok()?;
        let fields = Projection::of(FIELDS);
        let services = stored.objects(KeyRange::All).filter(|object| is_wanted(object.name()));
        Some(services.filter_map(|object| fields.read(&object.json)).collect())
    }

    /// Writes the metric that shows which APIServices are unavailable.
    pub(crate) fn write_api_services(&self, out: &mut Exposition) {
        let mut services = self.stored_api_services(|_| true).unwrap_or_default();
        services.sort_by(|a, b| a.name().cmp(b.name()));
        for service in services {
            let help = "Whether an APIService is unavailable, by name.";
            out.family("aggregator_unavailable_apiservice", Kind::Gauge, Stability::Alpha, help)
                .value(&[("name", service.name())], if is_available_api_service(&service) { 0.0 } else { 1.0 });
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
