//! The identity lease of a server, and the garbage collection of the leases of servers that are gone (upstream:
//! `component-helpers/apimachinery/lease`, `pkg/controlplane/controller/apiserverleasegc`; gate `APIServerIdentity`).

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::KeyRange;
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_value::time::{Duration as LeaseDuration, Time};
use pintle_value::{Value, object};
use sha2::{Digest, Sha256};

use crate::objects::{find, versioned_tree, watch_cache_of};
use crate::{ClusterClient, DeleteRequest, ObjectRef};

/// The namespace of the leases.
pub(crate) const LEASE_NAMESPACE: &str = "kube-system";
/// The value of the identity label of server leases.
const SERVER: &str = "kube-apiserver";
const IDENTITY: &str = "apiserver.kubernetes.io/identity";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ADDRESS: &str = "kubernetes.io/peer-advertise-address";
/// How long a lease is valid after its last renewal, in seconds.
const LEASE_DURATION: i64 = 3600;
/// How often a server renews its lease.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// How often expired leases are deleted.
const GC_INTERVAL: Duration = Duration::from_secs(3600);
/// The alphabet of base 32.
const BASE32_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

pub(crate) fn leases() -> GroupResource {
    GroupResource::new("coordination.k8s.io", "leases")
}

/// The lease of the server with this name.
pub(crate) fn lease_ref(name: &str) -> ObjectRef {
    ObjectRef { resource: leases(), namespace: LEASE_NAMESPACE.to_owned(), name: name.to_owned() }
}

/// Identifies a server by the name of its lease.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    name: String,
    holder: String,
    hostname: String,
    address: Option<SocketAddr>,
}

impl ServerIdentity {
    /// The identity of a host's server. `run` is unique to this start of the server. `address` is where other servers
    /// reach it, if the lease publishes an address.
    #[must_use]
    pub fn new(hostname: &str, run: &str, address: Option<SocketAddr>) -> Self {
        let name = server_name(hostname);
        let holder = format!("{name}_{run}");
        Self { name, holder, hostname: hostname.to_owned(), address }
    }

    /// The name of the server and of its lease.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A lease that is renewed now.
    fn renewed(&self, lease: &Value, now: Time) -> Value {
        let mut lease = lease.clone();
        lease.set_at(&["spec", "leaseDurationSeconds"], LEASE_DURATION);
        lease.set_at(&["spec", "renewTime"], now.rfc3339_micro());
        lease.set_at(&["metadata", "labels", IDENTITY], SERVER);
        lease.set_at(&["metadata", "labels", HOSTNAME], &self.hostname);
        if let Some(address) = self.address {
            lease.set_at(&["metadata", "annotations", ADDRESS], address.to_string());
        }
        lease
    }

    /// Creates the lease anew. An earlier run may have left a lease.
    async fn acquire_lease(&self, client: &Arc<dyn ClusterClient>) {
        self.release_lease(client).await;
        let lease = object! {
            "metadata": object! { "name": &self.name, "namespace": LEASE_NAMESPACE },
            "spec": object! { "holderIdentity": &self.holder },
        };
        let lease = self.renewed(&lease, client.now());
        if let Err(error) = client.clone().create(leases(), lease).await {
            tracing::warn!(%error, "Failed to create the identity lease, will retry");
        }
    }

    /// Creates the lease and renews it until the cluster is gone.
    pub(super) async fn renew_lease(&self, client: &Weak<dyn ClusterClient>) {
        if let Some(strong) = client.upgrade() {
            self.acquire_lease(&strong).await;
        }
        while let Some(strong) = client.upgrade() {
            let pause = strong.sleep(RENEW_INTERVAL);
            drop(strong);
            pause.await;
            let Some(strong) = client.upgrade() else { return };
            let (identity, now) = (self.clone(), strong.now());
            let renewed = move |lease: &Value| identity.renewed(lease, now);
            match strong.clone().update(lease_ref(&self.name), "", Arc::new(renewed)).await {
                Ok(_) => {}
                Err(ApiError::NotFound { .. }) => self.acquire_lease(&strong).await,
                Err(error) => tracing::warn!(%error, "Failed to renew the identity lease, will retry"),
            }
        }
    }

    /// Deletes the lease.
    pub(super) async fn release_lease(&self, client: &Arc<dyn ClusterClient>) {
        if let Some(lease) = find(client, &lease_ref(&self.name)) {
            delete(client, &lease).await;
        }
    }
}

/// The name of the lease of a host's server, which is the server's identity: a digest of both names.
#[must_use]
pub fn server_name(hostname: &str) -> String {
    let mut digest = Sha256::new();
    for part in [hostname, SERVER] {
        digest.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        digest.update(part);
    }
    format!("apiserver-{}", base32(&digest.finalize()[..16]))
}

fn base32(bytes: &[u8]) -> String {
    let bit = |index: usize| bytes.get(index / 8).map_or(0, |byte| usize::from(byte >> (7 - index % 8) & 1));
    let digit =
        |start: usize| char::from(BASE32_ALPHABET[(start..start + 5).fold(0, |digit, index| digit << 1 | bit(index))]);
    (0..bytes.len() * 8).step_by(5).map(digit).collect()
}

async fn delete(client: &Arc<dyn ClusterClient>, lease: &Value) {
    let revision = lease.resource_version().parse().unwrap_or_default();
    let request = DeleteRequest { uid: lease.uid().into(), revision, propagation: DeletionPropagation::Background };
    match client.clone().delete(lease_ref(lease.name()), request).await {
        // The lease was renewed or deleted meanwhile.
        Ok(()) | Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => {}
        Err(error) => tracing::warn!(%error, lease = lease.name(), "Failed to delete an identity lease"),
    }
}

/// True if a server of this name has an identity lease.
pub(crate) fn has_identity_lease(client: &Arc<dyn ClusterClient>, server: &str) -> bool {
    let lease = find(client, &lease_ref(server));
    lease.is_some_and(|lease| lease.str_at(&["metadata", "labels", IDENTITY]) == SERVER)
}

/// Periodically deletes the leases of servers that are gone, until the cluster is gone.
pub(super) async fn delete_expired_leases(client: &Weak<dyn ClusterClient>) {
    while let Some(strong) = client.upgrade() {
        for lease in expired_leases(&strong) {
            delete(&strong, &lease).await;
        }
        let pause = strong.sleep(GC_INTERVAL);
        drop(strong);
        pause.await;
    }
}

/// The leases of servers that did not renew them in time.
fn expired_leases(client: &Arc<dyn ClusterClient>) -> Vec<Value> {
    let watch_cache = watch_cache_of(client, &leases());
    let leases =
        watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::Namespace(LEASE_NAMESPACE.into())));
    let of_servers = leases.filter(|lease| lease.label(IDENTITY) == Some(SERVER));
    let of_servers = of_servers.filter_map(|lease| versioned_tree(&lease));
    of_servers.filter(|lease| is_expired(lease, client.now())).collect()
}

fn is_expired(lease: &Value, now: Time) -> bool {
    let duration = lease.int_at(&["spec", "leaseDurationSeconds"]).map(LeaseDuration::from_seconds);
    let expiry = lease.time_at(&["spec", "renewTime"]).zip(duration).map(|(renewed, duration)| renewed.plus(duration));
    expiry.is_none_or(|expiry| expiry < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_encodes_five_bits_per_digit() {
        for (bytes, expect) in [("", ""), ("f", "my"), ("fo", "mzxq"), ("foo", "mzxw6"), ("fooba", "mzxw6ytb")] {
            assert_eq!(base32(bytes.as_bytes()), expect);
        }
        assert_eq!(server_name("a").len(), "apiserver-".len() + 26);
        assert_ne!(server_name("a"), server_name("b"));
    }

    #[test]
    fn leases_expire_unless_renewed() {
        let check = |spec: Value, expect: bool| {
            assert_eq!(is_expired(&object! { "spec": spec }, Time { seconds: 100, nanos: 0 }), expect);
        };
        let at = |seconds| Time { seconds, nanos: 0 }.rfc3339_micro();
        check(object! { "renewTime": at(90), "leaseDurationSeconds": 10 }, false);
        check(object! { "renewTime": at(89), "leaseDurationSeconds": 10 }, true);
        check(object! { "renewTime": at(90) }, true);
        check(object! { "leaseDurationSeconds": 10 }, true);
    }
}
