//! Leases for keys that expire. Keys with similar expiry times share a lease (upstream:
//! `storage/etcd3/lease_manager.go`).

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::{CallError, EtcdClient};

/// The part of its time to live, in percent, by which a key may live longer, so that keys can share a lease.
const REUSE_PERCENT: u64 = 5;
/// The maximum number of keys of a lease.
const MAX_KEYS: usize = 1000;

/// The lease that new keys get.
#[derive(Debug)]
pub(super) struct Leases {
    client: EtcdClient,
    /// The maximum time by which a key may live longer than asked (`--lease-reuse-duration-seconds`).
    reuse: Duration,
    state: Mutex<LeaseState>,
}

#[derive(Debug, Default)]
struct LeaseState {
    current: Option<Lease>,
    /// The last call that failed: its time and its error.
    failure: Option<(Instant, CallError)>,
}

#[derive(Debug)]
struct Lease {
    id: i64,
    expires: Instant,
    keys: usize,
}

impl Leases {
    pub(super) fn new(client: EtcdClient, reuse: Duration) -> Self {
        Self { client, reuse, state: Mutex::default() }
    }

    /// A lease for a key that lives at least this long. Granting a lease may take long. Other callers wait meanwhile,
    /// and then share the lease or the failure.
    pub(super) async fn lease(&self, ttl: Duration) -> Result<i64, CallError> {
        let began = Instant::now();
        let mut state = self.state.lock().await;
        let LeaseState { current, failure } = &mut *state;
        if let Some((_, error)) = failure.as_ref().filter(|(failed, _)| *failed >= began) {
            return Err(error.clone());
        }
        let reuse = self.reuse.min(Duration::from_secs(ttl.as_secs() * REUSE_PERCENT / 100));
        let earliest = Instant::now() + ttl;
        if let Some(lease) = current
            && lease.expires >= earliest
            && lease.expires <= earliest + reuse
            && lease.keys < MAX_KEYS
        {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let granted = ttl + reuse;
        let seconds = granted.as_secs() + u64::from(granted.subsec_nanos() > 0);
        let granting = self.client.grant_lease(i64::try_from(seconds.max(1)).unwrap_or(i64::MAX)).await;
        let id = granting.inspect_err(|error| {
            // Other errors do not stop a request for another time to live.
            if matches!(error, CallError::Unknown(_) | CallError::NotExecuted(_)) {
                *failure = Some((Instant::now(), error.clone()));
            }
        })?;
        *current = Some(Lease { id, expires: earliest + reuse, keys: 1 });
        Ok(id)
    }

    /// Forgets a lease that etcd no longer has.
    pub(super) async fn forget(&self, id: i64) {
        let mut state = self.state.lock().await;
        state.current.take_if(|lease| lease.id == id);
    }
}
