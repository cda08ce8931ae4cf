//! Elects the server that runs the controllers, among the servers that share a store (upstream:
//! `client-go/tools/leaderelection`). They use a Lease with the rules of client-go: a server takes the lease over when
//! the holder has not renewed it for its duration. Every server measures this time itself, so their clocks may differ.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_registry::{ApiError, GroupResource};
use pintle_value::time::Time;
use pintle_value::{Value, object};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::objects::find;
use crate::supervisor::supervise;
use crate::{ClusterClient, ObjectRef};

/// The name of the background task that takes part in the election.
pub const ELECTION_TASK: &str = "leader-election";
/// The name and the namespace of the lease.
pub const ELECTION_LEASE: (&str, &str) = ("kube-system", "pintle-controllers");

/// How long the holder may not renew the lease before another server takes it over.
const LEASE_DURATION: Duration = Duration::from_secs(8);
/// How long the holder tries to renew the lease before it gives up.
const RENEW_DEADLINE: Duration = Duration::from_secs(5);
/// How often the lease is renewed, and how often others look at it.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

fn leases() -> GroupResource {
    GroupResource::new("coordination.k8s.io", "leases")
}

fn lease_ref() -> ObjectRef {
    let (namespace, name) = ELECTION_LEASE;
    ObjectRef { resource: leases(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Who holds a lease; empty if nobody does.
fn holder(lease: &Value) -> &str {
    lease.str_at(&["spec", "holderIdentity"])
}

/// A server's part in the election.
#[derive(Debug)]
pub struct LeaderElection {
    /// The identity of the server; `None` if it is alone and always leads.
    identity: Option<String>,
    leads: watch::Sender<bool>,
}

impl LeaderElection {
    /// A server that shares its store with no other server, and leads.
    #[must_use]
    pub fn alone() -> Self {
        Self { identity: None, leads: watch::Sender::new(true) }
    }

    /// A server that shares its store. `identity` is unique to this start of the server.
    #[must_use]
    pub fn among_servers(identity: String) -> Self {
        Self { identity: Some(identity), leads: watch::Sender::new(false) }
    }

    /// True if other servers may take part.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.identity.is_some()
    }

    /// True while this server leads.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// True if this server holds the lease as it is stored. A server that is alone needs none.
    #[must_use]
    pub fn holds(&self, lease: &Value) -> bool {
        self.identity.as_deref().is_none_or(|identity| holder(lease) == identity)
    }

    /// Takes part in the election until the cluster is gone. A server that is alone does nothing.
    pub fn run(self: &Arc<Self>, client: &Arc<dyn ClusterClient>) -> impl Future<Output = ()> + Send + use<> {
        let candidate = self.identity.clone().map(|identity| (identity, self.clone()));
        let client = client.clone();
        async move {
            let Some((identity, election)) = candidate else { return };
            let start = move |client| {
                let (identity, election) = (identity.clone(), election.clone());
                async move { election.campaign(&identity, &client).await }
            };
            let supervised = supervise(&client, ELECTION_TASK, || false, start);
            drop(client);
            supervised.await;
        }
    }

    /// Gives up the lease, so that another server takes it over at once.
    pub async fn release(&self, client: &Arc<dyn ClusterClient>) {
        let Some(identity) = self.identity.clone() else { return };
        if !self.leads.send_replace(false) {
            return;
        }
        let now = client.now();
        let compute = move |lease: &Value| {
            let mut lease = lease.clone();
            if holder(&lease) == identity {
                let spec = [("holderIdentity", Value::from("")), ("leaseDurationSeconds", Value::from(1_i64))];
                spec.into_iter().for_each(|(field, value)| lease.set_at(&["spec", field], value));
                lease.set_at(&["spec", "renewTime"], now.rfc3339_micro());
            }
            lease
        };
        if let Err(error) = client.clone().update(lease_ref(), "", Arc::new(compute)).await {
            tracing::warn!(%error, "Failed to release the lease of the controllers");
        }
    }

    async fn campaign(&self, identity: &str, client: &Weak<dyn ClusterClient>) {
        // An earlier campaign may have ended while this server led.
        self.leads.send_replace(false);
        let mut observed = Observed::default();
        let mut renewed = Instant::now();
        loop {
            let Some(strong) = client.upgrade() else { return };
            let leads = *self.leads.borrow();
            // While the store does not answer, the leadership must end in time.
            let limit = if leads { RENEW_DEADLINE.saturating_sub(renewed.elapsed()) } else { RENEW_DEADLINE };
            let started = Instant::now();
            let result = tokio::time::timeout(limit, observed.acquire_or_renew(identity, &strong)).await;
            let holds = match &result {
                Ok(Ok(holds)) => *holds,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "Failed to acquire or renew the lease of the controllers, will retry");
                    leads && renewed.elapsed() < RENEW_DEADLINE
                }
                Err(_) => false,
            };
            if matches!(result, Ok(Ok(true))) {
                renewed = started;
            }
            if holds != leads {
                tracing::info!(
                    identity,
                    "{}",
                    if holds {
                        "This server runs the controllers now"
                    } else {
                        "Another server may run the controllers now"
                    }
                );
                self.leads.send_replace(holds);
            }
            drop(strong);
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }
}

/// The lease as this server has seen it last.
#[derive(Default)]
struct Observed {
    version: String,
    since: Option<Instant>,
}

impl Observed {
    /// Acquires the lease if it is free, or renews it. Returns true if this server then holds the lease.
    async fn acquire_or_renew(&mut self, identity: &str, client: &Arc<dyn ClusterClient>) -> Result<bool, ApiError> {
        let now = client.now();
        let Some(lease) = find(client, &lease_ref()) else {
            let (namespace, name) = ELECTION_LEASE;
            let lease = object! { "metadata": object! { "name": name, "namespace": namespace } };
            return match client.clone().create(leases(), acquired(&lease, identity, now)).await {
                Ok(()) => Ok(true),
                Err(ApiError::AlreadyExists { .. }) => Ok(false),
                Err(error) => Err(error),
            };
        };
        if self.version != lease.resource_version() {
            self.version = lease.resource_version().to_owned();
            self.since = Some(Instant::now());
        }
        let is_free = holder(&lease).is_empty() || self.since.is_some_and(|since| since.elapsed() >= LEASE_DURATION);
        if holder(&lease) != identity && !is_free {
            return Ok(false);
        }
        let (version, holder_before, own) = (self.version.clone(), holder(&lease).to_owned(), identity.to_owned());
        let compute = move |current: &Value| {
            // Another server may have acquired or renewed the lease meanwhile.
            let is_known = current.resource_version() == version || (holder(current) == own && holder_before == own);
            if is_known { acquired(current, &own, now) } else { current.clone() }
        };
        let stored = client.clone().update(lease_ref(), "", Arc::new(compute)).await?;
        Ok(holder(&stored) == identity)
    }
}

/// A lease that a server acquires or renews.
fn acquired(lease: &Value, identity: &str, now: Time) -> Value {
    let mut acquired = lease.clone();
    let is_new_holder = holder(lease) != identity;
    acquired.set_at(&["spec", "holderIdentity"], identity);
    acquired.set_at(&["spec", "leaseDurationSeconds"], LEASE_DURATION.as_secs() as i64);
    acquired.set_at(&["spec", "renewTime"], now.rfc3339_micro());
    if is_new_holder {
        acquired.set_at(&["spec", "acquireTime"], now.rfc3339_micro());
        let transitions = lease.int_at(&["spec", "leaseTransitions"]).map_or(0, |transitions| transitions + 1);
        acquired.set_at(&["spec", "leaseTransitions"], transitions);
    }
    acquired
}

/// Runs a future while this server leads, and starts another one each time that it leads again. The future is dropped
/// when the server does not lead any more. A future that completes ends the function.
pub async fn run_while_leading<F: Future<Output = ()>>(mut leadership: watch::Receiver<bool>, start: impl Fn() -> F) {
    while leadership.wait_for(|leads| *leads).await.is_ok() {
        tokio::select! {
            () = start() => return,
            ended = async { leadership.wait_for(|leads| !*leads).await.is_err() } => {
                if ended {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_count_changes_of_the_holder() {
        let now = Time::from_seconds(1_700_000_000);
        let first = acquired(&object! {}, "a", now);
        assert_eq!((holder(&first), first.int_at(&["spec", "leaseTransitions"])), ("a", Some(0)));
        let later = Time::from_seconds(1_700_000_002);
        let renewed = acquired(&first, "a", later);
        assert_eq!(renewed.int_at(&["spec", "leaseTransitions"]), Some(0));
        assert_eq!(renewed.time_at(&["spec", "acquireTime"]), Some(now));
        assert_eq!(renewed.time_at(&["spec", "renewTime"]), Some(later));
        let taken = acquired(&renewed, "b", later);
        assert_eq!((holder(&taken), taken.int_at(&["spec", "leaseTransitions"])), ("b", Some(1)));
        assert_eq!(taken.time_at(&["spec", "acquireTime"]), Some(later));
    }

    #[tokio::test]
    async fn what_runs_ends_with_the_leadership() {
        let leads = watch::Sender::new(false);
        let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
        let running = tokio::spawn(run_while_leading(leads.subscribe(), move || {
            let started = started.clone();
            async move {
                let _ = started.send(());
                std::future::pending::<()>().await;
            }
        }));
        for _ in 0..2 {
            leads.send_replace(true);
            starts.recv().await.expect("it starts");
            leads.send_replace(false);
            tokio::task::yield_now().await;
        }
        drop(leads);
        running.await.expect("it ends");
        assert!(starts.try_recv().is_err());
    }
}
