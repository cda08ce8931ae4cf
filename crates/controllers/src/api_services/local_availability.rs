//! Keeps the condition of local APIServices, which are always available (upstream: kube-aggregator's
//! `pkg/controllers/status/local`).

use std::sync::{Arc, Weak};

use pintle_cache::WatchScope;
use pintle_kinds::{ApiServiceAvailability, api_services_resource, is_local_api_service, set_availability};
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

/// Runs the controller until the cluster is gone.
pub(super) async fn run(client: Weak<dyn ClusterClient>) {
    let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
        let source = InformerSource::new((), api_services_resource(), WatchScope::All);
        let queue: WorkQueue<Str> = WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue(QUEUE));
        (Informer::new(&client, vec![source]), queue)
    }) else {
        return;
    };
    loop {
        queue.start_with(&client, FAILURE, |client, name| async move { reconcile(&client, &name).await });
        tokio::select! {
            event = informer.next() => match event {
                Some(InformerEvent::Added((), services)) => {
                    services.iter().for_each(|service| queue.add(service.name().into()));
                }
                Some(InformerEvent::Changed(events)) => {
                    events.iter().for_each(|(_, event)| queue.add((&*event.key).into()));
                }
                Some(InformerEvent::Reset(())) => {}
                None => return,
            },
            _ = queue.wait() => {}
        }
    }
}

async fn reconcile(client: &Arc<dyn ClusterClient>, name: &str) -> Result<ReconcileResult, ApiError> {
    let Some(service) = find(client, &service_ref(name)) else { return Ok(ReconcileResult::Done) };
    let now = client.now();
    let restore = move |current: &Value| {
        let mut restored = current.clone();
        if is_local_api_service(current) {
            set_availability(&mut restored, &ApiServiceAvailability::local(), now);
        }
        restored
    };
    if restore(&service)["status"] != service["status"] {
        client.clone().update(service_ref(name), "status", Arc::new(restore)).await?;
    }
    Ok(ReconcileResult::Done)
}
