//! The stored APIServices of versions that this server serves itself: their order in discovery and their metrics
//! (upstream: kube-aggregator's `pkg/apiserver/handler_apis.go` and `pkg/controllers/status/metrics`), and whether all
//! built-in versions have one (upstream: the health check `autoregister-completion` in `pkg/controlplane/apiserver`).

use std::sync::atomic::{AtomicBool, Ordering};

use pintle_cache::KeyRange;
use pintle_codec::json::Projection;
use pintle_extensions::version_order;
use pintle_kinds::{api_services_resource, built_in_api_services, is_available_api_service, is_local_api_service};
use pintle_metrics::{Exposition, Kind, Stability};
use pintle_registry::GroupVersion;
use pintle_value::Value;

use super::{Cluster, tree};

/// What is read of a stored APIService.
const FIELDS: [&str; 3] = ["metadata.name", "spec", "status.conditions"];

/// The state of the APIServices that the server keeps.
#[derive(Debug, Default)]
pub(crate) struct ApiServiceRegistration {
    /// True if the server keeps them.
    is_enabled: AtomicBool,
    /// True if each built-in version was seen to be available once.
    is_complete: AtomicBool,
}

impl Cluster {
    /// From now on the versions that are served have APIServices, which decide about their order in discovery.
    pub(crate) fn enable_api_services(&self) {
        self.api_service_registration.is_enabled.store(true, Ordering::Relaxed);
    }

    /// The versions of `/apis` by group, in the order of their APIServices; `None` if the server keeps no APIServices.
    /// Those of other servers are left out, because nothing is proxied to them.
    pub(crate) fn api_service_versions(&self) -> Option<Vec<Vec<GroupVersion>>> {
        let mut services = self.local_api_services()?;
        let group_priority = |service: &Value| service.int_at(&["spec", "groupPriorityMinimum"]).unwrap_or_default();
        services.sort_by(|a, b| group_priority(b).cmp(&group_priority(a)).then_with(|| a.name().cmp(b.name())));
        let mut groups: Vec<Vec<Value>> = Vec::new();
        for service in services {
            let group_of = |service: &Value| service.str_at(&["spec", "group"]).to_owned();
            match groups.iter_mut().find(|group| group.first().map(group_of) == Some(group_of(&service))) {
                Some(group) => group.push(service),
                None => groups.push(vec![service]),
            }
        }
        let priority = |service: &Value| service.int_at(&["spec", "versionPriority"]).unwrap_or_default();
        let version = |service: &Value| service.str_at(&["spec", "version"]).to_owned();
        groups.iter_mut().for_each(|group| {
            group.sort_by(|a, b| priority(b).cmp(&priority(a)).then_with(|| version_order(&version(a), &version(b))));
        });
        let version = |service: Value| GroupVersion::new(service.str_at(&["spec", "group"]), version(&service));
        Some(groups.into_iter().map(|group| group.into_iter().map(version).collect()).collect())
    }

    /// The stored APIServices of versions that this server serves itself; `None` if the server keeps none.
    fn local_api_services(&self) -> Option<Vec<Value>> {
        if !self.api_service_registration.is_enabled.load(Ordering::Relaxed) {
            return None;
        }
        let registry = self.registry();
        let stored = self.watch_cache(registry.hub_of(&api_services_resource())?).ok()?;
        let fields = Projection::of(FIELDS);
        let services = stored.objects(KeyRange::All).filter_map(|object| fields.read(&object.json));
        Some(services.filter(is_local_api_service).collect())
    }

    /// Writes which APIServices are unavailable. Upstream counts those that become unavailable, too, but local ones never
    /// do.
    pub(crate) fn write_api_services(&self, out: &mut Exposition) {
        let mut services = self.local_api_services().unwrap_or_default();
        services.retain(is_available_api_service);
        services.sort_by(|a, b| a.name().cmp(b.name()));
        for service in services {
            let help = "Whether an APIService is unavailable, by name.";
            out.family("aggregator_unavailable_apiservice", Kind::Gauge, Stability::Alpha, help)
                .value(&[("name", service.name())], 0.0);
        }
    }

    /// The APIServices of the built-in versions that are served.
    pub(crate) fn built_in_api_services(&self) -> Vec<Value> {
        built_in_api_services(&self.catalog, &self.registry())
    }

    /// Fails until the APIServices of all built-in versions have been available.
    pub(crate) fn check_api_services(&self) -> Result<(), String> {
        let is_complete = &self.api_service_registration.is_complete;
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
