//! The lease by which servers are known, and the end of those of servers that are gone (upstream:
//! `component-helpers/apimachinery/lease`, `pkg/controlplane/controller/apiserverleasegc`; gate `APIServerIdentity`).

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::KeyRange;
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_value::time::{Duration as Lasting, Time};
use pintle_value::{Value, object};
use sha2::{Digest, Sha256};

use crate::objects::{find, tree, watch_cache_of};
use crate::{ClusterClient, DeleteRequest, ObjectRef};

const NAMESPACE: &str = "kube-system";
/// What the lease is of, as its label says.
const SERVER: &str = "kube-apiserver";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ADDRESS: &str = "kubernetes.io/peer-advertise-address";
/// How long a server is taken to be there that does not say so again, in seconds.
const LASTS: i64 = 3600;
/// How often it says so.
const RENEWAL: Duration = Duration::from_secs(10);
/// How often leases are looked for that are over.
const COLLECTION: Duration = Duration::from_secs(3600);
/// The digits of base 32.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

fn leases() -> GroupResource {
    GroupResource::new("coordination.k8s.io", "leases")
}

fn place(name: &str) -> ObjectRef {
    ObjectRef { resource: leases(), namespace: NAMESPACE.to_owned(), name: name.to_owned() }
}

/// Who a server is.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    name: String,
    holder: String,
    hostname: String,
    address: Option<SocketAddr>,
}

impl ServerIdentity {
    /// The server of a host. `run` tells this start of it from all others; `address` is where other servers reach it, if
    /// they are to know.
    #[must_use]
    pub fn new(hostname: &str, run: &str, address: Option<SocketAddr>) -> Self {
        let name = server_name(hostname);
        let holder = format!("{name}_{run}");
        Self { name, holder, hostname: hostname.to_owned(), address }
    }

    /// The lease, renewed now.
    fn renewed(&self, lease: &Value, now: Time) -> Value {
        let mut lease = lease.clone();
        lease.set_at(&["spec", "leaseDurationSeconds"], LASTS);
        lease.set_at(&["spec", "renewTime"], now.rfc3339_micro());
        lease.set_at(&["metadata", "labels", LABEL], SERVER);
        lease.set_at(&["metadata", "labels", HOSTNAME], &self.hostname);
        if let Some(address) = self.address {
            lease.set_at(&["metadata", "annotations", ADDRESS], address.to_string());
        }
        lease
    }

    /// Takes the lease: one that an earlier run has left goes.
    async fn claim(&self, client: &Arc<dyn ClusterClient>) {
        self.release(client).await;
        let lease = object! {
            "metadata": object! { "name": &self.name, "namespace": NAMESPACE },
            "spec": object! { "holderIdentity": &self.holder },
        };
        let lease = self.renewed(&lease, client.now());
        if let Err(error) = client.clone().create(leases(), lease).await {
            tracing::warn!(%error, "the lease of this server is not there yet");
        }
    }

    /// Takes the lease, and renews it for as long as the world is there.
    pub(super) async fn hold(&self, client: &Weak<dyn ClusterClient>) {
        if let Some(strong) = client.upgrade() {
            self.claim(&strong).await;
        }
        while let Some(strong) = client.upgrade() {
            let pause = strong.sleep(RENEWAL);
            drop(strong);
            pause.await;
            let Some(strong) = client.upgrade() else { return };
            let (identity, now) = (self.clone(), strong.now());
            let renewed = move |lease: &Value| identity.renewed(lease, now);
            match strong.clone().change(place(&self.name), "", Arc::new(renewed)).await {
                Ok(_) => {}
                Err(ApiError::NotFound { .. }) => self.claim(&strong).await,
                Err(error) => tracing::warn!(%error, "the lease of this server is not renewed"),
            }
        }
    }

    /// Gives the lease back.
    pub(super) async fn release(&self, client: &Arc<dyn ClusterClient>) {
        if let Some(lease) = find(client, &place(&self.name)) {
            delete(client, &lease).await;
        }
    }
}

/// The name of the server of a host, a digest of both.
fn server_name(hostname: &str) -> String {
    let mut digest = Sha256::new();
    for part in [hostname, SERVER] {
        digest.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        digest.update(part);
    }
    format!("apiserver-{}", base32(&digest.finalize()[..16]))
}

fn base32(bytes: &[u8]) -> String {
    let digit = |at: usize| {
        let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
        char::from(DIGITS[(at..at + 5).fold(0, |digit, at| digit << 1 | bit(at))])
    };
    (0..bytes.len() * 8).step_by(5).map(digit).collect()
}

async fn delete(client: &Arc<dyn ClusterClient>, lease: &Value) {
    let revision = lease.resource_version().parse().unwrap_or_default();
    let deletion = DeleteRequest { uid: lease.uid().into(), revision, propagation: DeletionPropagation::Background };
    match client.clone().delete(place(lease.name()), deletion).await {
        // It was renewed or deleted meanwhile.
        Ok(()) | Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => {}
        Err(error) => tracing::warn!(%error, lease = lease.name(), "a lease of a server that is gone stays"),
    }
}

/// Deletes the leases of servers that are gone, now and then, for as long as the world is there.
pub(super) async fn collect(client: &Weak<dyn ClusterClient>) {
    while let Some(strong) = client.upgrade() {
        for lease in over(&strong) {
            delete(&strong, &lease).await;
        }
        let pause = strong.sleep(COLLECTION);
        drop(strong);
        pause.await;
    }
}

/// The leases of servers that did not renew them in time.
fn over(client: &Arc<dyn ClusterClient>) -> Vec<Value> {
    let watch_cache = watch_cache_of(client, &leases());
    let of_servers =
        watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::Namespace(NAMESPACE.into())));
    let of_servers = of_servers.filter(|lease| lease.label(LABEL) == Some(SERVER));
    let found = of_servers.filter_map(|lease| {
        let mut found = tree(&lease)?;
        found.set_at(&["metadata", "resourceVersion"], lease.revision.to_string());
        Some(found)
    });
    found.filter(|lease| is_over(lease, client.now())).collect()
}

fn is_over(lease: &Value, now: Time) -> bool {
    let lasts = lease.int_at(&["spec", "leaseDurationSeconds"]).map(Lasting::from_seconds);
    let until = lease.time_at(&["spec", "renewTime"]).zip(lasts).map(|(renewed, lasts)| renewed.plus(lasts));
    until.is_none_or(|until| until < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_32_has_a_digit_for_five_bits() {
        for (bytes, expect) in [("", ""), ("f", "my"), ("fo", "mzxq"), ("foo", "mzxw6"), ("fooba", "mzxw6ytb")] {
            assert_eq!(base32(bytes.as_bytes()), expect);
        }
        assert_eq!(server_name("a").len(), "apiserver-".len() + 26);
        assert_ne!(server_name("a"), server_name("b"));
    }

    #[test]
    fn leases_end_where_nobody_renews_them() {
        let check = |spec: Value, expect: bool| {
            assert_eq!(is_over(&object! { "spec": spec }, Time { seconds: 100, nanos: 0 }), expect);
        };
        let at = |seconds| Time { seconds, nanos: 0 }.rfc3339_micro();
        check(object! { "renewTime": at(90), "leaseDurationSeconds": 10 }, false);
        check(object! { "renewTime": at(89), "leaseDurationSeconds": 10 }, true);
        check(object! { "renewTime": at(90) }, true);
        check(object! { "leaseDurationSeconds": 10 }, true);
    }
}
