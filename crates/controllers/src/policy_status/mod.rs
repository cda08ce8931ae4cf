//! Keeps the status of validating admission policies: the warnings of type checks (upstream:
//! `pkg/controller/validatingadmissionpolicystatus`).

mod checker;
mod types;

use std::sync::{Arc, Weak};

use pintle_cache::WatchScope;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::{Str, Value, object};

use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::find;
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef, controller_manager};

/// The name of the controller and of the field manager that owns the status.
pub(crate) const POLICY_STATUS: &str = "validatingadmissionpolicy-status";
/// The name as health checks have it.
pub(crate) const POLICY_STATUS_TASK: &str = "validatingadmissionpolicy-status-controller";
/// How many policies are processed at the same time.
const MAX_CONCURRENT: usize = 5;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

fn policies() -> GroupResource {
    GroupResource::new("admissionregistration.k8s.io", "validatingadmissionpolicies")
}

/// Runs the controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
        let source = InformerSource::new((), policies(), WatchScope::All);
        let queue: WorkQueue<Str> = WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue(POLICY_STATUS));
        (Informer::new(&client, vec![source]), queue)
    }) else {
        return;
    };
    loop {
        queue.start(|name| {
            let (name, client) = (name.clone(), client.clone());
            Some(async move {
                match client.upgrade() {
                    Some(client) => reconcile(&client, &name).await,
                    None => ReconcileResult::Done,
                }
            })
        });
        tokio::select! {
            event = informer.next() => match event {
                Some(InformerEvent::Added((), policies)) => {
                    policies.iter().for_each(|policy| queue.add(policy.name().into()));
                }
                Some(InformerEvent::Changed(events)) => {
                    for ((), event) in events {
                        if let Some(policy) = &event.object {
                            queue.add(policy.name().into());
                        }
                    }
                }
                Some(InformerEvent::Reset(())) => {}
                None => return,
            },
            _ = queue.wait() => {}
        }
    }
}

async fn reconcile(client: &Arc<dyn ClusterClient>, name: &str) -> ReconcileResult {
    let target = ObjectRef { resource: policies(), namespace: String::new(), name: name.to_owned() };
    let Some(policy) = find(client, &target) else { return ReconcileResult::Done };
    let generation = policy.generation();
    if generation <= policy.int_at(&["status", "observedGeneration"]).unwrap_or_default() {
        return ReconcileResult::Done;
    }
    if controller_manager::is_active(client) {
        return ReconcileResult::Retry;
    }
    let warnings = checker::check(&client.registry(), &policy);
    let mut checking = Value::object();
    if !warnings.is_empty() {
        checking.set("expressionWarnings", Value::Array(warnings));
    }
    let configuration = object! {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": object! {"name": name},
        "status": object! {"observedGeneration": generation, "typeChecking": checking},
    };
    match client.clone().apply(target, "status", POLICY_STATUS, configuration).await {
        Ok(()) | Err(ApiError::NotFound { .. }) => ReconcileResult::Done,
        Err(error) => {
            tracing::warn!(%error, name, "Failed to update the status of a validating admission policy, will retry");
            ReconcileResult::Retry
        }
    }
}
