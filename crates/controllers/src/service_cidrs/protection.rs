//! Gives each ServiceCIDR a finalizer and the condition `Ready`. A deleted ServiceCIDR stays as long as it alone
//! contains the address of a service.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{Event, KeyRange, WatchScope};
use pintle_registry::ApiError;
use pintle_value::ip::parse_sloppy;
use pintle_value::time::Duration as TimeDuration;
use pintle_value::{Str, Value, object};

use super::ranges::{all_service_cidrs, contains_address, contains_range, overlap, ranges_of};
use super::{SERVICE_CIDR_CONTROLLER, cidr_ref, ready_condition, service_cidrs, with_condition};
use crate::ClusterClient;
use crate::allocation_repair::{ip_addresses, is_managed_address};
use crate::controller_manager::{self, CONTROLLER_MANAGER};
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{find, tree, watch_cache_of};
use crate::work_queue::{ReconcileResult, WorkQueue};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// The name of the work queue in metrics.
const QUEUE: &str = "ipaddresses";
const FAILURE: &str = "Failed to update a ServiceCIDR, will retry";
/// How many ServiceCIDRs are processed at the same time.
const MAX_CONCURRENT: usize = 5;
/// How long a ServiceCIDR stays after its deletion, in seconds: by then all servers know of the deletion, and allocate
/// no more of its addresses.
const GRACE_PERIOD: i64 = 10;

/// The collections that the informer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Cidrs,
    Addresses,
}

/// The next write to a ServiceCIDR.
#[derive(Debug, PartialEq)]
enum Change {
    AddFinalizer,
    RemoveFinalizer,
    SetReady,
    SetTerminating,
}

/// Runs the controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
        let cidrs = InformerSource::new(Source::Cidrs, service_cidrs(), WatchScope::All);
        let addresses = InformerSource::new(Source::Addresses, ip_addresses(), WatchScope::All).without_list();
        let queue: WorkQueue<Str> = WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue(QUEUE));
        (Informer::new(&client, vec![cidrs, addresses]), queue)
    }) else {
        return;
    };
    // Only terminating ServiceCIDRs depend on addresses.
    let mut terminating: BTreeSet<Str> = BTreeSet::new();
    loop {
        queue.start_with(&client, FAILURE, |client, name| async move { reconcile(&client, &name).await });
        tokio::select! {
            event = informer.next() => match event {
                Some(InformerEvent::Added(Source::Cidrs, cidrs)) => {
                    for cidr in cidrs {
                        if tree(&cidr).is_some_and(|cidr| cidr.is_terminating()) {
                            terminating.insert(cidr.name().into());
                        }
                        queue.add(cidr.name().into());
                    }
                }
                Some(InformerEvent::Changed(events)) => {
                    for (source, event) in events {
                        match source {
                            Source::Cidrs => handle_cidr(&client, &event, &mut terminating, &mut queue),
                            Source::Addresses => terminating.iter().for_each(|name| queue.add(name.clone())),
                        }
                    }
                }
                Some(InformerEvent::Reset(Source::Addresses)) => {
                    terminating.iter().for_each(|name| queue.add(name.clone()));
                }
                Some(InformerEvent::Added(Source::Addresses, _) | InformerEvent::Reset(Source::Cidrs)) => {}
                None => return,
            },
            _ = queue.wait() => {}
        }
    }
}

/// Enqueues a changed ServiceCIDR. A new range may replace a deleted one, so ServiceCIDRs that overlap it are enqueued,
/// too.
fn handle_cidr(
    client: &Weak<dyn ClusterClient>,
    event: &Event,
    terminating: &mut BTreeSet<Str>,
    queue: &mut WorkQueue<Str>,
) {
    let name = Str::from(&*event.key);
    let cidr = event.object.as_ref().and_then(|object| tree(object));
    match &cidr {
        Some(cidr) if cidr.is_terminating() => drop(terminating.insert(name.clone())),
        _ => drop(terminating.remove(&name)),
    }
    if let (Some(cidr), None, Some(client)) = (&cidr, &event.previous, client.upgrade()) {
        let others = all_service_cidrs(&client);
        let others = others.iter().filter(|other| other.name() != name.as_str() && overlap(other, cidr));
        others.for_each(|other| queue.add(other.name().into()));
    }
    queue.add(name);
}

fn has_finalizer(cidr: &Value) -> bool {
    cidr.items_at(&["metadata", "finalizers"]).iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER))
}

/// The next write to a ServiceCIDR. `is_in_use` says whether a deleted ServiceCIDR is still needed.
fn next_change(cidr: &Value, is_in_use: bool) -> Option<Change> {
    let ready = ready_condition(cidr);
    let is = |status: &str, reason: &str| {
        ready.is_some_and(|ready| ready.str_at(&["status"]) == status && ready.str_at(&["reason"]) == reason)
    };
    match (cidr.is_terminating(), has_finalizer(cidr)) {
        (true, _) if is_in_use => (!is("False", "Terminating")).then_some(Change::SetTerminating),
        (true, true) => Some(Change::RemoveFinalizer),
        (true, false) => None,
        (false, false) => Some(Change::AddFinalizer),
        (false, true) => {
            let message = ready.map_or("", |ready| ready.str_at(&["message"]));
            (!is("True", "") || message != READY_MESSAGE).then_some(Change::SetReady)
        }
    }
}

const READY_MESSAGE: &str = "Kubernetes Service CIDR is ready";
const TERMINATING_MESSAGE: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// True if a ServiceCIDR has a range that no other ServiceCIDR contains, and services have addresses that no other
/// ServiceCIDR contains.
fn is_in_use(client: &Arc<dyn ClusterClient>, cidr: &Value) -> bool {
    let others: Vec<Value> =
        all_service_cidrs(client).into_iter().filter(|other| other.name() != cidr.name()).collect();
    if ranges_of(cidr).all(|range| others.iter().any(|other| contains_range(other, range))) {
        return false;
    }
    let addresses = watch_cache_of(client, &ip_addresses());
    let mut addresses = addresses.iter().flat_map(|addresses| addresses.objects(KeyRange::All));
    addresses.any(|address| {
        let Some(ip) = parse_sloppy(address.name()).filter(|_| is_managed_address(&address)) else { return false };
        contains_address(cidr, ip) && !others.iter().any(|other| contains_address(other, ip))
    })
}

/// How long a deleted ServiceCIDR still stays.
fn remaining_grace_period(client: &Arc<dyn ClusterClient>, cidr: &Value) -> Option<Duration> {
    let deleted = cidr.time_at(&["metadata", "deletionTimestamp"])?;
    let remaining = deleted.plus(TimeDuration::from_seconds(GRACE_PERIOD)).since(client.now());
    u64::try_from(remaining.0).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos)
}

async fn reconcile(client: &Arc<dyn ClusterClient>, name: &str) -> Result<ReconcileResult, ApiError> {
    client.clone().catch_up().await?;
    let Some(cidr) = find(client, &cidr_ref(name)) else { return Ok(ReconcileResult::Done) };
    let is_in_use = cidr.is_terminating() && is_in_use(client, &cidr);
    let Some(change) = next_change(&cidr, is_in_use) else { return Ok(ReconcileResult::Done) };
    if controller_manager::is_active(client) {
        return Ok(ReconcileResult::Retry);
    }
    match change {
        Change::AddFinalizer => set_finalizer(client, &cidr, true).await?,
        Change::RemoveFinalizer => match remaining_grace_period(client, &cidr) {
            Some(remaining) => return Ok(ReconcileResult::WaitFor(client.sleep(remaining))),
            None => set_finalizer(client, &cidr, false).await?,
        },
        Change::SetReady => {
            set_condition(client, name, object! { "status": "True", "message": READY_MESSAGE }).await?;
        }
        Change::SetTerminating => {
            let condition = object! { "status": "False", "reason": "Terminating", "message": TERMINATING_MESSAGE };
            set_condition(client, name, condition).await?;
        }
    }
    // The change enqueues the ServiceCIDR again for the remaining work.
    Ok(ReconcileResult::Done)
}

async fn set_condition(client: &Arc<dyn ClusterClient>, name: &str, mut condition: Value) -> Result<(), ApiError> {
    condition.set("lastTransitionTime", client.now().rfc3339());
    let configuration = with_condition(name, condition);
    client.clone().apply(cidr_ref(name), "status", SERVICE_CIDR_CONTROLLER, configuration).await
}

async fn set_finalizer(client: &Arc<dyn ClusterClient>, cidr: &Value, is_present: bool) -> Result<(), ApiError> {
    let uid = Str::from(cidr.uid());
    let compute = move |current: &Value| {
        let mut updated = current.clone();
        // The ServiceCIDR was deleted or created again meanwhile.
        if current.uid() != uid || current.is_terminating() == is_present {
            return updated;
        }
        let others = current.items_at(&["metadata", "finalizers"]).iter();
        let mut finalizers: Vec<Value> = others.filter(|other| other.as_str() != Some(FINALIZER)).cloned().collect();
        if is_present {
            finalizers.push(FINALIZER.into());
        }
        match finalizers.is_empty() {
            true => drop(updated.remove_at(&["metadata", "finalizers"])),
            false => updated.set_at(&["metadata", "finalizers"], finalizers),
        }
        updated
    };
    client.clone().update_as(cidr_ref(cidr.name()), "", CONTROLLER_MANAGER, Arc::new(compute)).await
}

#[cfg(test)]
mod tests {
    use super::super::READY;
    use super::*;

    #[test]
    fn a_service_cidr_is_protected_before_it_is_ready() {
        let cidr = |finalizer: bool, deleted: bool, condition: Value| {
            let mut cidr = object! { "metadata": object! { "name": "a" } };
            if finalizer {
                cidr.set_at(&["metadata", "finalizers"], vec![Value::from(FINALIZER)]);
            }
            if deleted {
                cidr.set_at(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
            }
            cidr.set_at(&["status", "conditions"], vec![condition]);
            cidr
        };
        let ready = |message: &str| object! { "type": READY, "status": "True", "reason": "", "message": message };
        let terminating = object! { "type": READY, "status": "False", "reason": "Terminating" };
        let check = |cidr: &Value, is_in_use: bool, expect: Option<Change>| {
            assert_eq!(next_change(cidr, is_in_use), expect, "{cidr:?} {is_in_use}");
        };
        check(&cidr(false, false, Value::object()), false, Some(Change::AddFinalizer));
        check(&cidr(true, false, Value::object()), false, Some(Change::SetReady));
        check(&cidr(true, false, ready("Kubernetes default Service CIDR is ready")), false, Some(Change::SetReady));
        check(&cidr(true, false, ready(READY_MESSAGE)), false, None);
        check(&cidr(true, true, ready(READY_MESSAGE)), true, Some(Change::SetTerminating));
        check(&cidr(true, true, terminating.clone()), true, None);
        check(&cidr(true, true, terminating.clone()), false, Some(Change::RemoveFinalizer));
        check(&cidr(false, true, terminating), false, None);
    }
}
