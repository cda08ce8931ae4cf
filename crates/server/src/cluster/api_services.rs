//! Whether all built-in versions have an APIService (upstream: the health check `autoregister-completion` in
//! `pkg/controlplane/apiserver`).

use std::sync::atomic::{AtomicBool, Ordering};

use pintle_kinds::{api_services_resource, built_in_api_services, is_available_api_service};
use pintle_value::Value;

use super::{Cluster, tree};

/// Whether each built-in version was seen to be available once.
#[derive(Debug, Default)]
pub(crate) struct ApiServiceRegistration(AtomicBool);

impl Cluster {
    /// The APIServices of the built-in versions that are served.
    pub(crate) fn built_in_api_services(&self) -> Vec<Value> {
        built_in_api_services(&self.catalog, &self.registry())
    }

    /// Fails until the APIServices of all built-in versions have been available.
    pub(crate) fn check_api_services(&self) -> Result<(), String> {
        let ApiServiceRegistration(is_complete) = &self.api_service_registration;
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
