//! The index of the stored APIServices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_kinds::{RemoteApiService, is_available_api_service};
use pintle_locks::RwLock;
use pintle_registry::GroupVersion;
use pintle_value::{Str, Value};

use super::RemoteApi;
use crate::cluster::followed::ObjectIndex;

/// An APIService.
#[derive(Clone, Debug)]
pub(crate) struct ApiService {
    pub(crate) name: Str,
    pub(crate) version: GroupVersion,
    /// The priority of the group among the groups. The highest comes first.
    pub(crate) group_priority: i64,
    /// The priority of the version in its group. The highest comes first.
    pub(crate) version_priority: i64,
    /// True if the condition says so.
    pub(crate) is_available: bool,
    /// The API server that serves the version; `None` if it is this server.
    pub(crate) remote: Option<Arc<RemoteApi>>,
}

impl ApiService {
    /// Reads an APIService. The API server of `before` is used again, with its connections, unless it has changed.
    fn read(name: &str, service: &Value, before: Option<&Self>) -> Self {
        let text = |field: &str| service.str_at(&["spec", field]);
        let priority = |field: &str| service.int_at(&["spec", field]).unwrap_or_default();
        let remote = RemoteApiService::of(service).map(|config| {
            let same = before.and_then(|before| before.remote.as_ref()).filter(|remote| remote.config == config);
            same.cloned().unwrap_or_else(|| Arc::new(RemoteApi::new(name, config)))
        });
        Self {
            name: name.into(),
            version: GroupVersion::new(text("group"), text("version")),
            group_priority: priority("groupPriorityMinimum"),
            version_priority: priority("versionPriority"),
            is_available: is_available_api_service(service),
            remote,
        }
    }
}

/// The stored APIServices by name.
#[derive(Default)]
pub(crate) struct ApiServiceIndex {
    services: RwLock<BTreeMap<Str, Arc<ApiService>>>,
    /// How many versions other API servers serve.
    remote_count: AtomicUsize,
}

impl ApiServiceIndex {
    /// True if another API server serves a version.
    pub(crate) fn has_remote(&self) -> bool {
        self.remote_count.load(Ordering::Acquire) > 0
    }

    /// The APIService of a version.
    pub(crate) fn get(&self, group: &str, version: &str) -> Option<Arc<ApiService>> {
        self.get_by_name(&[version, ".", group].concat())
    }

    /// The APIService of this name.
    pub(crate) fn get_by_name(&self, name: &str) -> Option<Arc<ApiService>> {
        self.services.read().get(name).cloned()
    }

    /// All APIServices in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<ApiService>> {
        self.services.read().values().cloned().collect()
    }

    /// The APIServices of versions that other API servers serve, in the order of their names.
    pub(crate) fn remote(&self) -> Vec<Arc<ApiService>> {
        self.services.read().values().filter(|service| service.remote.is_some()).cloned().collect()
    }

    fn replace(&self, name: &str, make: impl FnOnce(Option<&ApiService>) -> Option<ApiService>) {
        let mut services = self.services.write();
        match make(services.get(name).map(|service| &**service)) {
            Some(service) => drop(services.insert(name.into(), Arc::new(service))),
            None => drop(services.remove(name)),
        }
        let remote_count = services.values().filter(|service| service.remote.is_some()).count();
        self.remote_count.store(remote_count, Ordering::Release);
    }
}

impl ObjectIndex for ApiServiceIndex {
    type Kind = ();

    const KINDS: &'static [((), &'static str, &'static str)] = &[((), "apiregistration.k8s.io", "apiservices")];

    fn fields((): ()) -> &'static [&'static str] {
        &["spec", "status.conditions"]
    }

    fn set(&self, (): (), _: &str, name: &str, object: &Value) -> Result<(), String> {
        self.replace(name, |before| Some(ApiService::read(name, object, before)));
        Ok(())
    }

    fn remove(&self, (): (), _: &str, name: &str) {
        self.replace(name, |_| None);
    }

    fn names(&self, (): ()) -> Vec<(Str, Str)> {
        self.services.read().keys().map(|name| (Str::default(), name.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    fn service(port: i64, status: &str) -> Value {
        let reference = object! { "namespace": "n", "name": "s", "port": port };
        object! {
            "spec": object! {
                "group": "a", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 20, "service": reference,
            },
            "status": object! { "conditions": vec![object! { "type": "Available", "status": status }] },
        }
    }

    #[test]
    fn connections_are_kept_until_the_service_changes() {
        let index = ApiServiceIndex::default();
        assert!(!index.has_remote());
        let set = |service: &Value| {
            index.set((), "", "v1.a", service).expect("readable");
            index.get("a", "v1").expect("an APIService")
        };
        let first = set(&service(443, "False"));
        assert!(index.has_remote() && !first.is_available);
        let second = set(&service(443, "True"));
        assert!(second.is_available && second.group_priority == 10 && second.version_priority == 20);
        let remote = |service: &ApiService| service.remote.clone().expect("an API server");
        assert!(Arc::ptr_eq(&remote(&first), &remote(&second)));
        assert!(!Arc::ptr_eq(&remote(&first), &remote(&set(&service(8443, "True")))));
        index.remove((), "", "v1.a");
        assert!(!index.has_remote() && index.get("a", "v1").is_none());
    }
}
