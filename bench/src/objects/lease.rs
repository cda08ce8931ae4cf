//! Node leases, as kubelets renew them.

use bytes::Bytes;

/// The collection path of a namespace's Leases.
pub(crate) fn leases_path(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

/// The lease of a node at its n-th renewal. `replaces` is the resourceVersion that an update expects.
pub(crate) fn lease(name: &str, renewal: u64, replaces: Option<u64>) -> Bytes {
    let replaces = replaces.map(|revision| format!(r#","resourceVersion":"{revision}""#)).unwrap_or_default();
    let (minute, second, micro) = (renewal / 60_000_000 % 60, renewal / 1_000_000 % 60, renewal % 1_000_000);
    format!(
        r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"{name}"{replaces}}},"spec":{{"holderIdentity":"{name}","leaseDurationSeconds":40,"renewTime":"2030-01-01T00:{minute:02}:{second:02}.{micro:06}Z"}}}}"#
    )
    .into()
}
