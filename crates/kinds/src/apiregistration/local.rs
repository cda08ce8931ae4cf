//! The APIServices of the versions that this server serves itself (upstream: kube-aggregator's
//! `pkg/controllers/autoregister`, and the priorities of `pkg/controlplane/apiserver`).

use std::collections::HashMap;

use pintle_catalog::Catalog;
use pintle_registry::{GroupResource, GroupVersion, Registry};
use pintle_value::{Value, object};

/// The label that says how an APIService is synchronized.
const MANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The group of APIService. The aggregator serves it itself, so it has no APIService.
const OWN_GROUP: &str = "apiregistration.k8s.io";
/// The priority of that group in discovery.
const OWN_GROUP_PRIORITY: i64 = 20_001;
/// Custom resources have a low priority; their versions are sorted by name.
const CUSTOM_GROUP_PRIORITY: i64 = 1000;
const CUSTOM_VERSION_PRIORITY: i64 = 100;

/// How the APIService of a version is synchronized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiServiceManagement {
    /// Synchronized once, when the controller starts.
    OnStart,
    /// Synchronized continuously.
    Continuous,
}

impl ApiServiceManagement {
    fn label(self) -> &'static str {
        match self {
            ApiServiceManagement::OnStart => "onstart",
            ApiServiceManagement::Continuous => "true",
        }
    }

    /// How an APIService is synchronized by its label; `None` if it is not managed.
    #[must_use]
    pub fn of(service: &Value) -> Option<Self> {
        let label = service.str_at(&["metadata", "labels", MANAGED_LABEL]);
        [ApiServiceManagement::OnStart, ApiServiceManagement::Continuous].into_iter().find(|way| way.label() == label)
    }
}

/// The group and resource of APIServices.
#[must_use]
pub fn api_services_resource() -> GroupResource {
    GroupResource::new(OWN_GROUP, "apiservices")
}

/// The name of the APIService of a version.
#[must_use]
pub fn api_service_name(version: &GroupVersion) -> String {
    format!("{}.{}", version.version, version.group)
}

/// The priorities of versions that this server serves itself, as their APIServices have them at first.
pub struct ApiServicePriorities<'c>(HashMap<(&'c str, &'c str), (i64, i64)>);

impl<'c> ApiServicePriorities<'c> {
    /// The priorities of the built-in versions.
    #[must_use]
    pub fn new(catalog: &'c Catalog) -> Self {
        let versions = catalog.groups().iter().flat_map(|group| group.versions.iter().map(move |it| (group, it)));
        let priorities = versions.map(|(group, version)| {
            // The group of APIService comes before all others.
            let of_group = if group.name == OWN_GROUP { OWN_GROUP_PRIORITY } else { i64::from(group.priority) };
            ((group.name, version.name), (of_group, i64::from(version.priority)))
        });
        Self(priorities.collect())
    }

    /// The priorities of the group and of the version.
    #[must_use]
    pub fn of(&self, version: &GroupVersion) -> (i64, i64) {
        let custom = (CUSTOM_GROUP_PRIORITY, CUSTOM_VERSION_PRIORITY);
        self.0.get(&(&*version.group, &*version.version)).copied().unwrap_or(custom)
    }
}

/// The APIServices of the built-in versions that a registry serves. They have the priorities of discovery.
#[must_use]
pub fn built_in_api_services(catalog: &Catalog, registry: &Registry) -> Vec<Value> {
    let groups = catalog.groups().iter().filter(|group| group.name != OWN_GROUP);
    let versions = groups.flat_map(|group| group.versions.iter().map(move |version| (group, version)));
    let services = versions.filter_map(|(group, version)| {
        let name = GroupVersion::new(group.name, version.name);
        let priorities = (i64::from(group.priority), i64::from(version.priority));
        let is_served = registry.resources_of(&name).any(|resource| resource.built_in);
        is_served.then(|| api_service(&name, priorities, ApiServiceManagement::OnStart))
    });
    services.collect()
}

/// The APIService of a version of custom resources.
#[must_use]
pub fn custom_api_service(version: &GroupVersion) -> Value {
    api_service(version, (CUSTOM_GROUP_PRIORITY, CUSTOM_VERSION_PRIORITY), ApiServiceManagement::Continuous)
}

fn api_service(version: &GroupVersion, priorities: (i64, i64), management: ApiServiceManagement) -> Value {
    let mut spec = Value::object();
    if !version.group.is_empty() {
        spec.set("group", version.group.clone());
    }
    spec.set("version", version.version.clone());
    spec.set("groupPriorityMinimum", priorities.0);
    spec.set("versionPriority", priorities.1);
    let mut service = object! { "metadata": object! { "name": api_service_name(version) }, "spec": spec };
    service.set_at(&["metadata", "labels", MANAGED_LABEL], management.label());
    service
}

/// True if this server serves the version of an APIService itself.
#[must_use]
pub fn is_local_api_service(service: &Value) -> bool {
    service.at(&["spec", "service"]).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn every_built_in_version_has_a_service_but_that_of_services() {
        let catalog = pintle_catalog::shared();
        let registry = Registry::new(crate::resources(catalog));
        let services = built_in_api_services(catalog, &registry);
        assert_eq!(services.len() + 1, registry.versions().count());
        let find = |name: &str| services.iter().find(|service| service.name() == name);
        assert_eq!(find("v1.apiregistration.k8s.io"), None);
        let label = r#""labels":{"kube-aggregator.kubernetes.io/automanaged":"onstart"}"#;
        let core = format!(
            r#"{{"metadata":{{"name":"v1.",{label}}},"spec":{{"version":"v1","groupPriorityMinimum":18000,"versionPriority":1}}}}"#
        );
        assert_eq!(find("v1."), Some(&object(&core)));
        let autoscaling = format!(
            r#"{{"metadata":{{"name":"v2.autoscaling",{label}}},"spec":{{"group":"autoscaling","version":"v2","groupPriorityMinimum":17500,"versionPriority":30}}}}"#
        );
        assert_eq!(find("v2.autoscaling"), Some(&object(&autoscaling)));
        let way = |label: &str| {
            let labels = format!(r#"{{"metadata":{{"labels":{{"{MANAGED_LABEL}":"{label}"}}}}}}"#);
            ApiServiceManagement::of(&object(&labels))
        };
        assert_eq!(way("onstart"), Some(ApiServiceManagement::OnStart));
        assert_eq!(way("true"), Some(ApiServiceManagement::Continuous));
        assert_eq!((way("false"), ApiServiceManagement::of(&object("{}"))), (None, None));
    }
}
