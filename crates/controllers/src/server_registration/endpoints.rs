//! The endpoints of the service `kubernetes`: an Endpoints object and an EndpointSlice (upstream:
//! `pkg/controlplane/reconcilers/{lease,endpointsadapter}.go`). Upstream keeps the addresses of several servers in
//! leases beside the API. Servers that share a store do the same here. A server without others publishes its own
//! endpoint only.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_kinds::SERVICE_NAME_LABEL;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::{Value, object};

use crate::object_reconciler::{DesiredObject, Diff, NamespaceScope, UpdatePolicy};
use crate::objects::is_served;
use crate::{ClusterClient, ObjectRef, UpdateFn};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// The label that keeps the endpoint slice mirroring controller away.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

fn endpoints_resource() -> GroupResource {
    GroupResource::new("", "endpoints")
}

fn slices_resource() -> GroupResource {
    GroupResource::new("discovery.k8s.io", "endpointslices")
}

/// How often a server that shares its store renews its address and looks for the addresses of other servers (upstream:
/// `EndpointReconcilerConfig`).
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// How long an address counts after the server has last renewed it (upstream: `DefaultEndpointReconcilerTTL`).
const ADDRESS_TTL: Duration = Duration::from_secs(15);

/// Publishes the endpoints of all servers that share the store, until the cluster is gone.
pub(super) async fn reconcile_shared(client: &Weak<dyn ClusterClient>, endpoint: SocketAddr) {
    while let Some(strong) = client.upgrade() {
        let found = strong.clone().record_server_address(endpoint.ip(), ADDRESS_TTL).await;
        publish(&strong, endpoint, found).await;
        let pause = strong.sleep(RENEW_INTERVAL);
        drop(strong);
        pause.await;
    }
}

/// Removes the endpoint of a server that stops. The last endpoint of the service is never removed.
pub(super) async fn withdraw_shared(client: &Arc<dyn ClusterClient>, endpoint: SocketAddr) {
    let found = client.clone().remove_server_address(endpoint.ip()).await;
    if !matches!(&found, Ok(others) if others.is_empty()) {
        publish(client, endpoint, found).await;
    }
}

async fn publish(client: &Arc<dyn ClusterClient>, endpoint: SocketAddr, found: Result<Vec<IpAddr>, ApiError>) {
    match found {
        Ok(addresses) if !addresses.is_empty() => {
            for object in endpoint_objects(&addresses, endpoint.port()) {
                object.restore(client, NAMESPACE).await;
            }
        }
        Ok(_) => tracing::warn!("No server is recorded, will not remove all endpoints of the service kubernetes"),
        Err(error) => tracing::warn!(%error, "Failed to record the address of this server, will retry"),
    }
}

/// The objects that publish the endpoints of servers, at one port.
pub(super) fn endpoint_objects(servers: &[IpAddr], port: u16) -> [DesiredObject; 2] {
    let is_ipv6 = servers.first().is_some_and(IpAddr::is_ipv6);
    let ports = || vec![object! { "name": "https", "port": port, "protocol": "TCP" }];
    let labelled = |label: &str, value: &str| {
        let mut object = object! { "metadata": object! { "name": NAME } };
        object.set_at(&["metadata", "labels", label], value);
        object
    };
    let desired = |resource, object, compare| DesiredObject {
        resource,
        namespace_scope: NamespaceScope::Namespace(NAMESPACE),
        object,
        compare,
        update_policy: UpdatePolicy::Always,
        yields_to_controller_manager: false,
    };
    let mut endpoints = labelled(SKIP_MIRROR, "true");
    let addresses: Vec<Value> = servers.iter().map(|ip| object! { "ip": ip.to_string() }).collect();
    endpoints.set("subsets", vec![object! { "addresses": addresses, "ports": ports() }]);
    let mut slice = labelled(SERVICE_NAME_LABEL, NAME);
    slice.set("addressType", if is_ipv6 { "IPv6" } else { "IPv4" });
    let ready = |ip: &IpAddr| object! { "addresses": vec![ip.to_string()], "conditions": object! { "ready": true } };
    let of_family = servers.iter().filter(|ip| ip.is_ipv6() == is_ipv6);
    slice.set("endpoints", of_family.map(ready).collect::<Vec<_>>());
    slice.set("ports", ports());
    [desired(endpoints_resource(), endpoints, compare_endpoints), desired(slices_resource(), slice, compare_slice)]
}

fn compare_endpoints(current: &Value, desired: &Value) -> Diff {
    if current.label(SKIP_MIRROR) == Some("true") && current.at(&["subsets"]) == desired.at(&["subsets"]) {
        return Diff::UpToDate;
    }
    let mut updated = current.clone();
    updated.set_at(&["metadata", "labels", SKIP_MIRROR], "true");
    updated.set("subsets", desired["subsets"].clone());
    Diff::Update(updated)
}

fn compare_slice(current: &Value, desired: &Value) -> Diff {
    // The address type is immutable.
    if current.at(&["addressType"]) != desired.at(&["addressType"]) {
        return Diff::Recreate;
    }
    let fields = [&["metadata", "labels"][..], &["endpoints"], &["ports"]];
    if fields.iter().all(|path| current.at(path) == desired.at(path)) {
        return Diff::UpToDate;
    }
    let mut updated = current.clone();
    for path in fields {
        updated.set_at(path, desired.at(path).cloned());
    }
    Diff::Update(updated)
}

/// Removes all endpoints of the service.
pub(super) async fn withdraw(client: &Arc<dyn ClusterClient>) {
    let without = |fields: &'static [&'static str]| -> UpdateFn {
        Arc::new(move |current: &Value| {
            let mut updated = current.clone();
            fields.iter().for_each(|field| drop(updated.remove(field)));
            updated
        })
    };
    let clear = async |resource, fields| {
        if !is_served(client, &resource) {
            return Ok(());
        }
        let target = ObjectRef { resource, namespace: NAMESPACE.to_owned(), name: NAME.to_owned() };
        client.clone().update(target, "", without(fields)).await.map(drop)
    };
    let results =
        tokio::join!(clear(endpoints_resource(), &["subsets"]), clear(slices_resource(), &["endpoints", "ports"]));
    for result in [results.0, results.1] {
        if let Err(error) = result
            && !matches!(error, ApiError::NotFound { .. })
        {
            tracing::warn!(%error, "Failed to remove the endpoints of the service kubernetes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(desired: &DesiredObject, change: impl Fn(&mut Value)) -> Diff {
        let mut current = desired.object.clone();
        change(&mut current);
        (desired.compare)(&current, &desired.object)
    }

    #[test]
    fn changed_endpoints_are_restored() {
        let [endpoints, slice] = endpoint_objects(&[[192, 0, 2, 1].into()], 6443);
        for desired in [&endpoints, &slice] {
            assert_eq!(diff(desired, |_| {}), Diff::UpToDate);
            assert_eq!(diff(desired, |found| drop(found.remove_at(&["metadata", "labels"]))), restored(desired));
        }
        assert_eq!(diff(&endpoints, |found| drop(found.remove("subsets"))), restored(&endpoints));
        assert_eq!(diff(&slice, |found| drop(found.remove("endpoints"))), restored(&slice));
        assert_eq!(diff(&slice, |found| found.set("ports", Value::Null)), restored(&slice));
        assert_eq!(diff(&slice, |found| found.set("addressType", "IPv6")), Diff::Recreate);
        // Additional labels stay on the Endpoints object and are removed from the slice.
        let labelled = |found: &mut Value| found.set_at(&["metadata", "labels", "mine"], "kept");
        assert_eq!(diff(&endpoints, labelled), Diff::UpToDate);
        assert_eq!(diff(&slice, labelled), restored(&slice));
    }

    fn restored(desired: &DesiredObject) -> Diff {
        Diff::Update(desired.object.clone())
    }

    #[test]
    fn endpoints_have_ipv4_or_ipv6_addresses() {
        let servers = ["2001:db8::1", "192.0.2.1", "2001:db8::2"].map(|ip| ip.parse().expect("an address"));
        let [endpoints, slice] = endpoint_objects(&servers, 443);
        assert_eq!(endpoints.object["subsets"][0]["addresses"].items_at(&[]).len(), 3);
        assert_eq!(slice.object.str_at(&["addressType"]), "IPv6");
        assert_eq!(slice.object["endpoints"][0]["addresses"][0].as_str(), Some("2001:db8::1"));
        assert_eq!(slice.object["endpoints"][1]["addresses"][0].as_str(), Some("2001:db8::2"));
    }
}
