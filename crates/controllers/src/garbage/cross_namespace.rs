//! References to owners that are in another namespace. They own nothing, and whoever made them is told so by an event.

use std::sync::Arc;

use pintle_cache::KeyRange;
use pintle_registry::{GroupResource, Resource, Scope};
use pintle_value::{Value, object};

use super::facts::{Owner, OwnerReferences};
use super::graph::Item;
use crate::ClusterClient;
use crate::objects::watch_cache_of;

/// Who sends the events, as upstream calls it.
const SENDER: &str = "garbage-collector-controller";

/// True if an owner is there, but not where an object in this namespace may have it.
pub(super) fn is_elsewhere(client: &Arc<dyn ClusterClient>, namespace: &str, owner: &Owner) -> bool {
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
        other.name() != namespace && found.is_some_and(|found| OwnerReferences::read(&found).uid == owner.uid)
    })
}

/// Tells of a reference from an object to such an owner.
pub(super) async fn warn(client: Arc<dyn ClusterClient>, resource: Arc<Resource>, item: Item, owner: Owner) {
    let event = event(&client, &resource, &item, &owner);
    if let Err(error) = client.create(GroupResource::new("", "events"), event).await {
        tracing::info!(%error, prefix = %item.prefix, key = %item.key, "an owner in another namespace is not told of");
    }
}

fn event(client: &Arc<dyn ClusterClient>, resource: &Resource, item: &Item, owner: &Owner) -> Value {
    let now = client.now();
    let (namespace, name) = item.place();
    let Owner { api_version, kind, name: owner_name, uid, .. } = owner;
    let mut involved = object! {
        "kind": resource.kind.as_str(),
        "name": name,
        "uid": item.uid.as_str(),
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
        "source": object! { "component": SENDER },
        "reportingComponent": SENDER,
        "reportingInstance": "",
    }
}
