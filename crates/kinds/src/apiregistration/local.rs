//! The APIServices of the versions that this server serves itself, and the conditions of all APIServices. Upstream:
//! kube-aggregator's `pkg/controllers/autoregister` and `pkg/apis/apiregistration/v1/helper`, and the priorities of
//! `pkg/controlplane/apiserver`.

use std::collections::HashMap;

use pintle_catalog::Catalog;
use pintle_registry::{GroupResource, GroupVersion, Registry};
use pintle_schema::base64;
use pintle_value::time::Time;
use pintle_value::{Str, Value, object};

/// The label that says how an APIService is synchronized.
const MANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The group of APIService. The aggregator serves it itself, so it has no APIService.
const OWN_GROUP: &str = "apiregistration.k8s.io";
/// The priority of that group in discovery.
const OWN_GROUP_PRIORITY: i64 = 20_001;
/// The port of a service whose APIService names none.
pub(super) const DEFAULT_PORT: u16 = 443;
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

/// How the API server of an APIService is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteApiService {
    /// The namespace of the service.
    pub namespace: Str,
    /// The name of the service.
    pub service: Str,
    /// The port of the service.
    pub port: u16,
    /// The authorities of the API server's certificate, in PEM. Without any, the system's authorities count.
    pub authorities: Vec<u8>,
    /// True if the certificate is not verified.
    pub skips_verification: bool,
}

impl RemoteApiService {
    /// `None` for an APIService whose version this server serves itself.
    #[must_use]
    pub fn of(service: &Value) -> Option<Self> {
        let spec = service.get("spec")?;
        let reference = spec.get("service")?;
        Some(Self {
            namespace: reference.str_at(&["namespace"]).into(),
            service: reference.str_at(&["name"]).into(),
            port: reference.int_at(&["port"]).and_then(|port| u16::try_from(port).ok()).unwrap_or(DEFAULT_PORT),
            authorities: base64::decode(spec.str_at(&["caBundle"]).as_bytes()).unwrap_or_default(),
            skips_verification: spec.bool_at(&["insecureSkipTLSVerify"]),
        })
    }

    /// The name for which the API server's certificate has to be valid.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}

/// True if the condition of an APIService says that its version is available.
#[must_use]
pub fn is_available_api_service(service: &Value) -> bool {
    let condition = available(service).and_then(|index| service.items_at(&["status", "conditions"]).get(index));
    condition.is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// The position of the condition that says whether a version is available.
fn available(service: &Value) -> Option<usize> {
    let conditions = service.items_at(&["status", "conditions"]);
    conditions.iter().position(|condition| condition.str_at(&["type"]) == "Available")
}

/// The status, reason and message of the condition `Available` of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServiceAvailability {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason, a word in CamelCase.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl ApiServiceAvailability {
    /// The availability of a version that this server serves itself.
    #[must_use]
    pub fn local() -> Self {
        let message = "Local APIServices are always available".to_owned();
        Self { status: "True", reason: "Local", message }
    }
}

/// Gives an APIService its condition. The time of the last transition stays if the status does (upstream:
/// `SetAPIServiceCondition`).
pub fn set_availability(service: &mut Value, availability: &ApiServiceAvailability, now: Time) {
    let ApiServiceAvailability { status, reason, message } = availability;
    let index = available(service);
    let mut conditions = service.items_at(&["status", "conditions"]).to_vec();
    match index.and_then(|index| conditions.get_mut(index)) {
        Some(condition) => {
            if condition.str_at(&["status"]) != *status {
                condition.set("status", *status);
                condition.set("lastTransitionTime", now.rfc3339());
            }
            condition.set("reason", *reason);
            condition.set("message", message.as_str());
        }
        None => conditions.push(object! {
            "type": "Available",
            "lastTransitionTime": now.rfc3339(),
            "status": *status,
            "reason": *reason,
            "message": message.as_str(),
        }),
    }
    service.set_at(&["status", "conditions"], conditions);
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

    #[test]
    fn a_condition_is_restored_and_keeps_its_time() {
        let now = Time::from_seconds(0);
        let good = r#""reason":"Local","message":"Local APIServices are always available""#;
        let check = |before: &str, expect: &str| {
            let mut service = object(&format!(r#"{{"status":{{"conditions":[{before}]}}}}"#));
            set_availability(&mut service, &ApiServiceAvailability::local(), now);
            assert_eq!(service, object(&format!(r#"{{"status":{{"conditions":[{expect}]}}}}"#)), "{before}");
            assert!(is_available_api_service(&service), "{before}");
        };
        let at = |time: &str| format!(r#"{{"type":"Available","lastTransitionTime":"{time}","status":"True",{good}}}"#);
        let (epoch, before) = (at("1970-01-01T00:00:00Z"), at("1969-01-01T00:00:00Z"));
        check("", &epoch);
        check(&before, &before);
        check(&before.replace("Local\"", "Other\""), &before);
        check(&before.replace("True", "False"), &epoch);
        check(r#"{"type":"Other","status":"False"}"#, &format!(r#"{{"type":"Other","status":"False"}},{epoch}"#));
    }
}
