//! Owner references across namespaces. They are invalid and have no effect, and an event reports them.

use std::sync::Arc;

use pintle_cache::KeyRange;
use pintle_registry::{GroupResource, Resource, Scope};
use pintle_value::{Value, object};

use super::graph::ObjectIdentity;
use super::metadata::{ObjectMetadata, OwnerReference};
use crate::ClusterClient;
use crate::controller_manager::CONTROLLER_MANAGER;
use crate::objects::watch_cache_of;

/// The component that reports the events.
const COMPONENT: &str = "garbage-collector-controller";

/// True if an owner exists in another namespace than its dependent's.
pub(super) fn is_in_other_namespace(client: &Arc<dyn ClusterClient>, namespace: &str, owner: &OwnerReference) -> bool {
    let registry = client.registry();
    let resource = registry.kind(&owner.gvk()).filter(|resource| resource.scope == Scope::Namespaced);
    let namespaces = watch_cache_of(client, &GroupResource::new("", "namespaces"));
    let (Some(watch_cache), Some(namespaces)) =
        (resource.and_then(|resource| client.watch_cache(resource)), namespaces)
    else {
        return false;
    };
    namespaces.objects(KeyRange::All).any(|other| {
        let found = watch_cache.get(&format!("{}/{}", other.name(), owner.name), None).ok().flatten();
        other.name() != namespace && found.is_some_and(|found| ObjectMetadata::read(&found).uid == owner.uid)
    })
}

/// Creates an event about an object's reference to such an owner.
pub(super) async fn report(
    client: Arc<dyn ClusterClient>,
    resource: Arc<Resource>,
    object: ObjectIdentity,
    owner: OwnerReference,
) {
    let event = event(&client, &resource, &object, &owner);
    if let Err(error) = client.create_as(GroupResource::new("", "events"), CONTROLLER_MANAGER, event).await {
        let ObjectIdentity { prefix, key, .. } = &object;
        tracing::warn!(%error, %prefix, %key, "Failed to create the event about a cross-namespace owner reference");
    }
}

fn event(
    client: &Arc<dyn ClusterClient>,
    resource: &Resource,
    object: &ObjectIdentity,
    owner: &OwnerReference,
) -> Value {
    let now = client.now();
    let (namespace, name) = object.namespace_and_name();
    let OwnerReference { api_version, kind, name: owner_name, uid, .. } = owner;
    let mut involved = object! {
        "kind": resource.kind.as_str(),
        "name": name,
        "uid": object.uid.as_str(),
        "apiVersion": resource.group_version().to_string(),
    };
    if !namespace.is_empty() {
        involved.set("namespace", namespace);
    }
    object! {
        "metadata": object! {
            "name": format!("{name}.{:x}", i128::from(now.seconds) * 1_000_000_000 + i128::from(now.nanos)),
            "namespace": if namespace.is_empty() { "default" } else { namespace },
        },
        "involvedObject": involved,
        "reason": "OwnerRefInvalidNamespace",
        "message": format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {owner_name}, uid: {uid}] does not exist in namespace {namespace:?}"
        ),
        "type": "Warning",
        "count": 1,
        "firstTimestamp": now.rfc3339(),
        "lastTimestamp": now.rfc3339(),
        "source": object! { "component": COMPONENT },
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    }
}
