//! Where the service `kubernetes` leads: an Endpoints and its EndpointSlice (upstream:
//! `pkg/controlplane/reconcilers/{lease,endpointsadapter}.go`). There is one server to a store, so that the addresses are its
//! own; upstream keeps those of many in leases beside the API.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pintle_registry::{ApiError, GroupResource};
use pintle_value::{Value, object};

use crate::reconciler::{DesiredObject, Diff, NamespaceScope, When};
use crate::{ClusterClient, ObjectRef, UpdateFn};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// Tells the controller that makes slices of Endpoints to leave these alone.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Says which service a slice belongs to.
const SERVICE: &str = "kubernetes.io/service-name";

fn endpoints() -> GroupResource {
    GroupResource::new("", "endpoints")
}

fn slices() -> GroupResource {
    GroupResource::new("discovery.k8s.io", "endpointslices")
}

/// The objects that lead to an address.
pub(super) fn leading_to(endpoint: SocketAddr) -> [DesiredObject; 2] {
    let (ip, port) = (endpoint.ip().to_string(), endpoint.port());
    let ports = || vec![object! { "name": "https", "port": port, "protocol": "TCP" }];
    let named = |label: &str, value: &str| {
        let mut object = object! { "metadata": object! { "name": NAME } };
        object.set_at(&["metadata", "labels", label], value);
        object
    };
    let kept = |resource, object, judge| DesiredObject {
        resource,
        namespace_scope: NamespaceScope::Namespace(NAMESPACE),
        object,
        judge,
        when: When::Always,
        gives_way: false,
    };
    let mut old = named(SKIP_MIRROR, "true");
    let addresses = vec![object! { "ip": ip.as_str() }];
    old.set("subsets", vec![object! { "addresses": addresses, "ports": ports() }]);
    let mut slice = named(SERVICE, NAME);
    slice.set("addressType", if matches!(endpoint.ip(), IpAddr::V4(_)) { "IPv4" } else { "IPv6" });
    slice.set("endpoints", vec![object! { "addresses": vec![ip], "conditions": object! { "ready": true } }]);
    slice.set("ports", ports());
    [kept(endpoints(), old, judge_endpoints), kept(slices(), slice, judge_slice)]
}

fn judge_endpoints(found: &Value, wanted: &Value) -> Diff {
    if found.label(SKIP_MIRROR) == Some("true") && found.at(&["subsets"]) == wanted.at(&["subsets"]) {
        return Diff::Right;
    }
    let mut mended = found.clone();
    mended.set_at(&["metadata", "labels", SKIP_MIRROR], "true");
    mended.set("subsets", wanted["subsets"].clone());
    Diff::Update(mended)
}

fn judge_slice(found: &Value, wanted: &Value) -> Diff {
    if found.at(&["addressType"]) != wanted.at(&["addressType"]) {
        return Diff::Replace;
    }
    let parts = [&["metadata", "labels"][..], &["endpoints"], &["ports"]];
    if parts.iter().all(|path| found.at(path) == wanted.at(path)) {
        return Diff::Right;
    }
    let mut mended = found.clone();
    for path in parts {
        mended.set_at(path, wanted.at(path).cloned());
    }
    Diff::Update(mended)
}

/// Has the service lead nowhere.
pub(super) async fn withdraw(client: &Arc<dyn ClusterClient>) {
    let without = |parts: &'static [&'static str]| -> UpdateFn {
        Arc::new(move |found: &Value| {
            let mut empty = found.clone();
            parts.iter().for_each(|part| drop(empty.remove(part)));
            empty
        })
    };
    let empty = |resource, parts| {
        let place = ObjectRef { resource, namespace: NAMESPACE.to_owned(), name: NAME.to_owned() };
        client.clone().change(place, "", without(parts))
    };
    let (old, slice) = tokio::join!(empty(endpoints(), &["subsets"]), empty(slices(), &["endpoints", "ports"]));
    for emptied in [old, slice] {
        if let Err(error) = emptied
            && !matches!(error, ApiError::NotFound { .. })
        {
            tracing::warn!(%error, "the service kubernetes still leads to this server");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kept: &DesiredObject, change: impl Fn(&mut Value)) -> Diff {
        let mut found = kept.object.clone();
        change(&mut found);
        (kept.judge)(&found, &kept.object)
    }

    #[test]
    fn what_leads_elsewhere_is_put_right() {
        let [old, slice] = leading_to(SocketAddr::from(([192, 0, 2, 1], 6443)));
        for kept in [&old, &slice] {
            assert_eq!(judged(kept, |_| {}), Diff::Right);
            assert_eq!(judged(kept, |found| drop(found.remove_at(&["metadata", "labels"]))), mended(kept));
        }
        assert_eq!(judged(&old, |found| drop(found.remove("subsets"))), mended(&old));
        assert_eq!(judged(&slice, |found| drop(found.remove("endpoints"))), mended(&slice));
        assert_eq!(judged(&slice, |found| found.set("ports", Value::Null)), mended(&slice));
        assert_eq!(judged(&slice, |found| found.set("addressType", "IPv6")), Diff::Replace);
        // Labels of others are theirs on the one, and not to be on the other.
        let labelled = |found: &mut Value| found.set_at(&["metadata", "labels", "mine"], "kept");
        assert_eq!(judged(&old, labelled), Diff::Right);
        assert_eq!(judged(&slice, labelled), mended(&slice));
    }

    fn mended(kept: &DesiredObject) -> Diff {
        Diff::Update(kept.object.clone())
    }

    #[test]
    fn addresses_of_both_families() {
        let [_, slice] = leading_to("[2001:db8::1]:443".parse().expect("an address"));
        assert_eq!(slice.object.str_at(&["addressType"]), "IPv6");
        assert_eq!(slice.object["endpoints"][0]["addresses"][0].as_str(), Some("2001:db8::1"));
    }
}
