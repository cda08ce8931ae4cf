//! Keeps the condition `Dangling` of flow schemas, which says whether their priority level exists (upstream: the
//! configuration controller in `k8s.io/apiserver/pkg/util/flowcontrol`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::WatchScope;
use pintle_kinds::{flow_control_priority_levels_resource, flow_control_schemas_resource};
use pintle_locks::Mutex;
use pintle_registry::ApiError;
use pintle_value::time::Time;
use pintle_value::{Str, Value, object};

use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::find;
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef};

/// The name of the background task that writes the status of flow schemas.
pub const FLOW_CONTROL_STATUS_TASK: &str = "priority-and-fairness-config-consumer";
/// The field manager that owns the condition.
const FIELD_MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
/// How many flow schemas are processed at the same time.
const MAX_CONCURRENT: usize = 16;
/// The maximum number of writes of a flow schema's condition in a minute. It limits two servers that disagree about the
/// condition.
const MAX_WRITES_IN_A_MINUTE: usize = 6;
/// How long to wait after these writes.
const PAUSE: Duration = Duration::from_secs(30);

const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
const DANGLING: &str = "Dangling";
const FAILURE: &str = "Failed to set a condition of a flow schema, will retry";

/// The collections that the informer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    FlowSchemas,
    PriorityLevels,
}

/// The times of the writes of the last minute, by the name of the flow schema, in seconds.
type RecentWrites = Arc<Mutex<BTreeMap<Str, Vec<i64>>>>;

/// Runs the controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let writes = RecentWrites::default();
    let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
        let schemas = InformerSource::new(Source::FlowSchemas, flow_control_schemas_resource(), WatchScope::All);
        let levels =
            InformerSource::new(Source::PriorityLevels, flow_control_priority_levels_resource(), WatchScope::All);
        let queue: WorkQueue<Str> =
            WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue("priority_and_fairness_config_queue"));
        (Informer::new(&client, vec![levels.without_list(), schemas]), queue)
    }) else {
        return;
    };
    let mut schemas = BTreeSet::new();
    loop {
        queue.start_with(&client, FAILURE, |client, name| {
            let writes = writes.clone();
            async move { reconcile(&client, &writes, &name).await }
        });
        tokio::select! {
            event = informer.next() => match event {
                Some(event) => handle_event(&event, &mut schemas, &mut queue, &writes),
                None => return,
            },
            _ = queue.wait() => {}
        }
    }
}

fn handle_event(
    event: &InformerEvent<Source>,
    schemas: &mut BTreeSet<Str>,
    queue: &mut WorkQueue<Str>,
    writes: &RecentWrites,
) {
    let mut levels_have_changed = false;
    match event {
        InformerEvent::Added(Source::FlowSchemas, added) => {
            for name in added.iter().map(|schema| Str::from(schema.name())) {
                schemas.insert(name.clone());
                queue.add(name);
            }
        }
        InformerEvent::Changed(events) => {
            for (source, event) in events {
                match (source, &event.object) {
                    (Source::FlowSchemas, Some(schema)) => {
                        schemas.insert(schema.name().into());
                        queue.add(schema.name().into());
                    }
                    (Source::FlowSchemas, None) => {
                        schemas.remove(&*event.key);
                        writes.lock().remove(&*event.key);
                    }
                    (Source::PriorityLevels, object) => {
                        levels_have_changed |= object.is_some() != event.previous.is_some();
                    }
                }
            }
        }
        InformerEvent::Reset(Source::FlowSchemas) => schemas.clear(),
        InformerEvent::Added(Source::PriorityLevels, _) | InformerEvent::Reset(Source::PriorityLevels) => {
            levels_have_changed = true;
        }
    }
    if levels_have_changed {
        schemas.iter().for_each(|name| queue.add(name.clone()));
    }
}

/// The condition that a flow schema has to have. `exists` says whether its priority level does.
fn dangling_condition(level: &str, exists: bool) -> Value {
    let (status, reason, what) = match exists {
        true => ("False", "Found", "and it exists"),
        false => ("True", "NotFound", "but there is no such object"),
    };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" {what}");
    object! { "type": DANGLING, "status": status, "reason": reason, "message": message }
}

/// True if a flow schema has a condition, whatever its transition time is.
fn has_condition(schema: &Value, condition: &Value) -> bool {
    let conditions = schema.items_at(&["status", "conditions"]);
    let found = conditions.iter().find(|found| found.str_at(&["type"]) == DANGLING);
    found.is_some_and(|found| {
        ["status", "reason", "message"].iter().all(|field| found.str_at(&[field]) == condition.str_at(&[field]))
    })
}

async fn reconcile(
    client: &Arc<dyn ClusterClient>,
    writes: &RecentWrites,
    name: &str,
) -> Result<ReconcileResult, ApiError> {
    let object_ref = |resource, name: &str| ObjectRef { resource, namespace: String::new(), name: name.to_owned() };
    let target = object_ref(flow_control_schemas_resource(), name);
    let Some(schema) = find(client, &target) else { return Ok(ReconcileResult::Done) };
    let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
    // A corrupt priority level counts as missing. So does a broken priority level in upstream.
    let exists = find(client, &object_ref(flow_control_priority_levels_resource(), level)).is_some();
    let mut condition = dangling_condition(level, exists);
    if has_condition(&schema, &condition) {
        return Ok(ReconcileResult::Done);
    }
    let now = client.now();
    if !may_write(writes, name, now) {
        return Ok(ReconcileResult::WaitFor(client.sleep(PAUSE)));
    }
    condition.set("lastTransitionTime", now.rfc3339());
    let configuration = object! {
        "apiVersion": API_VERSION,
        "kind": "FlowSchema",
        "metadata": object! { "name": name },
        "status": object! { "conditions": vec![condition] },
    };
    client.clone().apply(target, "status", FIELD_MANAGER, configuration).await?;
    Ok(ReconcileResult::Done)
}

/// True if a flow schema was not written too often in the last minute. Records the write.
fn may_write(writes: &RecentWrites, name: &str, now: Time) -> bool {
    let mut writes = writes.lock();
    let times = writes.entry(name.into()).or_default();
    times.retain(|time| now.seconds - time < 60);
    let may = times.len() < MAX_WRITES_IN_A_MINUTE;
    if may {
        times.push(now.seconds);
    }
    may
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_schema_is_written_six_times_in_a_minute() {
        let writes = RecentWrites::default();
        let allowed = (0..20).filter(|second| may_write(&writes, "a", Time::from_seconds(*second))).count();
        assert_eq!(allowed, MAX_WRITES_IN_A_MINUTE);
        assert!(may_write(&writes, "b", Time::from_seconds(20)));
        assert!(may_write(&writes, "a", Time::from_seconds(60)));
    }
}
