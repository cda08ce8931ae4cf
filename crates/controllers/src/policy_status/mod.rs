//! Keeps the status of validating admission policies: the warnings of type checks (upstream:
//! `pkg/controller/validatingadmissionpolicystatus`). Upstream checks each generation of a policy once. This controller
//! checks a policy again when a CRD that the policy depends on changes. So the policy keeps no warning about a kind
//! that was not served at the first check.

mod checker;
mod types;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use pintle_cache::WatchScope;
use pintle_locks::Mutex;
use pintle_registry::{ApiError, GroupResource, Resource};
use pintle_value::{Str, Value, object};

use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::find;
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef, controller_manager};

/// The name of the controller and of the field manager that owns the status.
pub(crate) const POLICY_STATUS: &str = "validatingadmissionpolicy-status";
/// The controller's name in health checks.
pub(crate) const POLICY_STATUS_TASK: &str = "validatingadmissionpolicy-status-controller";
/// How many policies are processed at the same time.
const MAX_CONCURRENT: usize = 5;
const FAILURE: &str = "Failed to update the status of a validating admission policy, will retry";

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// The inputs of a policy's check.
struct Check {
    generation: i64,
    /// The resources of the kinds that the policy names.
    resources: Vec<Arc<Resource>>,
}

impl Check {
    /// True if a check would have the same result.
    fn is(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Arc<Resource>, &Arc<Resource>)| Arc::ptr_eq(one, other);
        self.generation == other.generation
            && self.resources.len() == other.resources.len()
            && self.resources.iter().zip(&other.resources).all(is_same)
    }
}

/// The last check of each policy, by its name.
type Checks = Arc<Mutex<BTreeMap<Str, Check>>>;

fn policies() -> GroupResource {
    GroupResource::new("admissionregistration.k8s.io", "validatingadmissionpolicies")
}

/// Runs the controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let checks = Checks::default();
    let Some((mut informer, mut registry_changes, mut queue)) = client.upgrade().map(|client| {
        let source = InformerSource::new((), policies(), WatchScope::All);
        let queue: WorkQueue<Str> = WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue(POLICY_STATUS));
        (Informer::new(&client, vec![source]), client.registry_changes(), queue)
    }) else {
        return;
    };
    loop {
        queue.start_with(&client, FAILURE, |client, name| {
            let checks = checks.clone();
            async move { reconcile(&client, &checks, &name).await }
        });
        tokio::select! {
            event = informer.next() => match event {
                Some(InformerEvent::Added((), policies)) => {
                    policies.iter().for_each(|policy| queue.add(policy.name().into()));
                }
                Some(InformerEvent::Changed(events)) => {
                    for ((), event) in events {
                        match &event.object {
                            Some(policy) => queue.add(policy.name().into()),
                            None => drop(checks.lock().remove(&*event.key)),
                        }
                    }
                }
                Some(InformerEvent::Reset(())) => {}
                None => return,
            },
            changed = registry_changes.changed() => match changed {
                // A policy whose kinds have not changed is done without a check.
                Ok(()) => checks.lock().keys().for_each(|name| queue.add(name.clone())),
                Err(_) => return,
            },
            _ = queue.wait() => {}
        }
    }
}

async fn reconcile(client: &Arc<dyn ClusterClient>, checks: &Checks, name: &str) -> Result<ReconcileResult, ApiError> {
    let target = ObjectRef { resource: policies(), namespace: String::new(), name: name.to_owned() };
    let Some(policy) = find(client, &target) else { return Ok(ReconcileResult::Done) };
    let (registry, generation) = (client.registry(), policy.generation());
    let check = Check { generation, resources: checker::resources(&registry, &policy) };
    let is_observed = generation <= policy.int_at(&["status", "observedGeneration"]).unwrap_or_default();
    if is_observed && checks.lock().get(name).is_some_and(|last| last.is(&check)) {
        return Ok(ReconcileResult::Done);
    }
    if controller_manager::is_active(client) {
        return Ok(ReconcileResult::Retry);
    }
    let warnings = checker::check(&registry, &policy);
    if is_observed && warnings == policy.items_at(&["status", "typeChecking", "expressionWarnings"]) {
        checks.lock().insert(name.into(), check);
        return Ok(ReconcileResult::Done);
    }
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
    client.clone().apply(target, "status", POLICY_STATUS, configuration).await?;
    checks.lock().insert(name.into(), check);
    Ok(ReconcileResult::Done)
}
