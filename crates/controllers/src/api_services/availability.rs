//! Keeps the condition of APIServices. Local APIServices are always available. The others are unavailable without an
//! aggregation layer. But a kube-apiserver over the same etcd may reach their services, so a condition that it writes
//! while this server runs stays.

use std::sync::{Arc, Weak};

use pintle_cache::WatchScope;
use pintle_kinds::{api_services_resource, has_own_availability, is_local_api_service, set_availability};
use pintle_registry::ApiError;
use pintle_value::{Str, Value};

use super::{MAX_CONCURRENT, service_ref};
use crate::ClusterClient;
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::find;
use crate::work_queue::{ReconcileResult, WorkQueue};

/// The name of the work queue in metrics.
const QUEUE: &str = "LocalAvailabilityController";
const FAILURE: &str = "Failed to update the status of an APIService, will retry";

/// An APIService whose condition may have to be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Candidate {
    name: Str,
    /// True for an APIService that existed when this server started: the author of its condition may be gone.
    is_from_start: bool,
}

/// Runs the controller until the cluster is gone.
pub(super) async fn run(client: Weak<dyn ClusterClient>) {
    let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
        let source = InformerSource::new((), api_services_resource(), WatchScope::All);
        let queue: WorkQueue<Candidate> = WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue(QUEUE));
        (Informer::new(&client, vec![source]), queue)
    }) else {
        return;
    };
    loop {
        queue.start_with(&client, FAILURE, |client, candidate| async move { reconcile(&client, &candidate).await });
        tokio::select! {
            event = informer.next() => match event {
                Some(InformerEvent::Added((), services)) => {
                    services.iter().for_each(|service| queue.add(candidate(service.name(), true)));
                }
                Some(InformerEvent::Changed(events)) => {
                    let changed = events.iter().filter_map(|(_, event)| event.object.as_ref());
                    changed.for_each(|service| queue.add(candidate(service.name(), false)));
                }
                Some(InformerEvent::Reset(())) => {}
                None => return,
            },
            _ = queue.wait() => {}
        }
    }
}

fn candidate(name: &str, is_from_start: bool) -> Candidate {
    Candidate { name: name.into(), is_from_start }
}

async fn reconcile(client: &Arc<dyn ClusterClient>, candidate: &Candidate) -> Result<ReconcileResult, ApiError> {
    let Candidate { name, is_from_start } = candidate;
    let Some(service) = find(client, &service_ref(name)) else { return Ok(ReconcileResult::Done) };
    let (now, is_from_start) = (client.now(), *is_from_start);
    let restore = move |current: &Value| {
        let mut restored = current.clone();
        if is_from_start || is_local_api_service(current) || has_own_availability(current) {
            set_availability(&mut restored, now);
        }
        restored
    };
    if restore(&service)["status"] == service["status"] {
        return Ok(ReconcileResult::Done);
    }
    client.clone().update(service_ref(name), "status", Arc::new(restore)).await?;
    Ok(ReconcileResult::Done)
}
