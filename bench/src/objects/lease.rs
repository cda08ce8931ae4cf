//! Node leases, as kubelets renew them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::StatusCode;

use crate::Result;
use crate::client::get;
use crate::target::Server;

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

/// The resourceVersion of each node's lease (`node-0` and so on). The next renewal sends it.
pub(crate) async fn lease_revisions(server: &Server, namespace: &str, nodes: u64) -> Result<Arc<[AtomicU64]>> {
    let list = server.connect().await?.fetch(get(leases_path(namespace)), StatusCode::OK).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revisions: Arc<[AtomicU64]> = (0..nodes).map(|_| AtomicU64::new(0)).collect();
    for lease in list["items"].as_array().into_iter().flatten() {
        let metadata = &lease["metadata"];
        let number = metadata["name"].as_str().and_then(|name| name.rsplit('-').next()?.parse::<usize>().ok());
        let revision = metadata["resourceVersion"].as_str().and_then(|revision| revision.parse().ok());
        if let (Some(stored), Some(revision)) = (number.and_then(|number| revisions.get(number)), revision) {
            stored.store(revision, Ordering::Relaxed);
        }
    }
    Ok(revisions)
}
