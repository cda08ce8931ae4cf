//! Creates and updates the priority levels and flow schemas of the bootstrap configuration, and deletes obsolete ones
//! (upstream: `pkg/registry/flowcontrol/ensurer` and its post-start hook). Upstream is ready only when they exist. This
//! server creates them in the background after its start, because it does not need them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use pintle_cache::KeyRange;
use pintle_kinds::{
    FLOW_CONTROL_AUTO_UPDATE, FlowControlObject, flow_control_auto_update, flow_control_priority_levels,
    flow_control_priority_levels_resource, flow_control_schemas, flow_control_schemas_resource,
};
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_supervisor::BackgroundTask;
use pintle_value::{Value, same};

use crate::objects::{is_served, try_find, versioned_tree, watch_cache_of};
use crate::supervisor::supervise_reporting;
use crate::{ClusterClient, DeleteRequest, ObjectRef};

/// The name of the background task that reconciles the objects.
pub const FLOW_CONTROL_OBJECTS_TASK: &str = "priority-and-fairness-config-producer";
/// The field manager that owns the fields of the objects.
const FIELD_MANAGER: &str = "api-priority-and-fairness-config-producer-v1";
/// How often the objects are compared with the bootstrap configuration.
const SYNC_INTERVAL: Duration = Duration::from_secs(60);
/// How long to wait after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the controller until the cluster is gone.
pub(crate) fn run(client: &Arc<dyn ClusterClient>) -> impl Future<Output = ()> + Send + use<> {
    let (task, client) = (client.background_task(FLOW_CONTROL_OBJECTS_TASK), Arc::downgrade(client));
    async move {
        let start = || run_once(task.clone(), client.clone());
        supervise_reporting(task.clone(), client.clone(), start).await;
    }
}

async fn run_once(task: BackgroundTask, client: Weak<dyn ClusterClient>) {
    let mut has_succeeded = false;
    while let Some(strong) = client.upgrade() {
        let interval = match reconcile_all(&strong).await {
            Ok(()) => {
                has_succeeded = true;
                task.report_success();
                SYNC_INTERVAL
            }
            Err(error) => {
                tracing::warn!(%error, "Failed to reconcile the bootstrap configuration of flow control, will retry");
                // As in upstream, a server that has been ready once stays ready.
                if has_succeeded {
                    SYNC_INTERVAL
                } else {
                    task.report_failure(&error.to_string());
                    RETRY_INTERVAL
                }
            }
        };
        let pause = strong.sleep(interval);
        drop(strong);
        pause.await;
    }
}

/// Reconciles the priority levels and then the flow schemas, which refer to them.
async fn reconcile_all(client: &Arc<dyn ClusterClient>) -> Result<(), ApiError> {
    for (resource, objects) in [
        (flow_control_priority_levels_resource(), flow_control_priority_levels()),
        (flow_control_schemas_resource(), flow_control_schemas()),
    ] {
        if is_served(client, &resource) {
            // Concurrent writes share a commit.
            let results = join_all(objects.iter().map(|bootstrap| reconcile(client, &resource, bootstrap))).await;
            results.into_iter().collect::<Result<(), ApiError>>()?;
            delete_removed(client, &resource, &objects).await?;
        }
    }
    Ok(())
}

fn object_ref(resource: &GroupResource, name: &str) -> ObjectRef {
    ObjectRef { resource: resource.clone(), namespace: String::new(), name: name.to_owned() }
}

async fn reconcile(
    client: &Arc<dyn ClusterClient>,
    resource: &GroupResource,
    bootstrap: &FlowControlObject,
) -> Result<(), ApiError> {
    let name = bootstrap.object.name();
    let target = object_ref(resource, name);
    let current = match try_find(client, &target) {
        Ok(current) => current,
        // An administrator has to repair or delete the object, and needs a running server for that.
        Err(error) => {
            tracing::warn!(%error, %resource, name, "Skipped a corrupt object of the bootstrap configuration of flow control");
            return Ok(());
        }
    };
    let result = match current {
        None => client.clone().create_as(resource.clone(), FIELD_MANAGER, bootstrap.object.clone()).await,
        Some(current) if revised(&current, bootstrap).is_none() => return Ok(()),
        Some(_) => {
            tracing::info!(%resource, name, "Update an object of the bootstrap configuration of flow control");
            let bootstrap = bootstrap.clone();
            let compute = move |current: &Value| revised(current, &bootstrap).unwrap_or_else(|| current.clone());
            client.clone().update_as(target, "", FIELD_MANAGER, Arc::new(compute)).await
        }
    };
    match result {
        // Others write the object at the same time. The next round compares it again.
        Err(ApiError::AlreadyExists { .. } | ApiError::NotFound { .. } | ApiError::Conflict { .. }) => Ok(()),
        result => result,
    }
}

/// The object that the bootstrap configuration asks for; `None` if the current object can stay as it is. The spec of a
/// suggested object stays if the annotation says so. Without the annotation, the spec stays if it was changed.
fn revised(current: &Value, bootstrap: &FlowControlObject) -> Option<Value> {
    let annotation = flow_control_auto_update(current);
    let updates = bootstrap.is_mandatory || annotation.unwrap_or_else(|| current.generation() == 1);
    let replaces_spec = updates && !has_bootstrap_spec(current, &bootstrap.object);
    if annotation == Some(updates) && !replaces_spec {
        return None;
    }
    let mut revised = current.clone();
    if annotation != Some(updates) {
        revised.set_at(&["metadata", "annotations", FLOW_CONTROL_AUTO_UPDATE], if updates { "true" } else { "false" });
    }
    if replaces_spec {
        revised.set("spec", bootstrap.object["spec"].clone());
    }
    Some(revised)
}

/// True if an object has the spec of the bootstrap configuration. Users choose the shares of an exempt priority level.
fn has_bootstrap_spec(current: &Value, bootstrap: &Value) -> bool {
    let mut expected = bootstrap["spec"].clone();
    if expected.get("exempt").is_some()
        && let Some(exempt) = current.at(&["spec", "exempt"])
    {
        expected.set("exempt", exempt.clone());
    }
    same(current.get("spec"), Some(&expected))
}

/// Deletes objects that the server updates by itself and that the bootstrap configuration no longer has.
async fn delete_removed(
    client: &Arc<dyn ClusterClient>,
    resource: &GroupResource,
    objects: &[FlowControlObject],
) -> Result<(), ApiError> {
    let Some(watch_cache) = watch_cache_of(client, resource) else { return Ok(()) };
    let others = watch_cache
        .objects(KeyRange::All)
        .filter(|object| objects.iter().all(|bootstrap| bootstrap.object.name() != object.name()))
        .filter_map(|object| versioned_tree(&object));
    for object in others.filter(|object| flow_control_auto_update(object) == Some(true)) {
        tracing::info!(%resource, name = object.name(), "Delete an object that flow control's bootstrap configuration has no more");
        let request = DeleteRequest {
            uid: object.uid().into(),
            revision: object.resource_version().parse().unwrap_or_default(),
            propagation: DeletionPropagation::Background,
        };
        match client.clone().delete(object_ref(resource, object.name()), request).await {
            Ok(()) | Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn objects_are_revised_as_their_annotation_says() {
        let spec = |level: &str| object! { "priorityLevelConfiguration": object! { "name": level } };
        let current = |annotation: Option<&str>, generation: i64, level: &str| {
            let mut object = object! { "metadata": object! { "generation": generation }, "spec": spec(level) };
            if let Some(value) = annotation {
                object.set_at(&["metadata", "annotations", FLOW_CONTROL_AUTO_UPDATE], value);
            }
            object
        };
        // The annotation, the generation and the level of the current object. Then the annotation and the level of the
        // revised object, if it is mandatory and if it is suggested.
        type Row = (
            Option<&'static str>,
            i64,
            &'static str,
            Option<(&'static str, &'static str)>,
            Option<(&'static str, &'static str)>,
        );
        let rows: [Row; 8] = [
            (Some("true"), 1, "fixed", None, None),
            (Some("true"), 2, "other", Some(("true", "fixed")), Some(("true", "fixed"))),
            (Some("T"), 2, "fixed", None, None),
            (Some("false"), 2, "other", Some(("true", "fixed")), None),
            (Some("no"), 1, "other", Some(("true", "fixed")), Some(("true", "fixed"))),
            (None, 1, "fixed", Some(("true", "fixed")), Some(("true", "fixed"))),
            (None, 2, "fixed", Some(("true", "fixed")), Some(("false", "fixed"))),
            (None, 2, "other", Some(("true", "fixed")), Some(("false", "other"))),
        ];
        for (annotation, generation, level, mandatory, suggested) in rows {
            for (is_mandatory, expect) in [(true, mandatory), (false, suggested)] {
                let bootstrap = FlowControlObject { object: object! { "spec": spec("fixed") }, is_mandatory };
                let expect = expect.map(|(annotation, level)| current(Some(annotation), generation, level));
                let revised = revised(&current(annotation, generation, level), &bootstrap);
                assert_eq!(revised, expect, "{annotation:?} {generation} {level} {is_mandatory}");
            }
        }
    }

    #[test]
    fn users_choose_the_shares_of_the_exempt_priority_level() {
        let levels = flow_control_priority_levels();
        let bootstrap = levels.iter().find(|level| level.object.name() == "exempt").expect("the level");
        let mut level = bootstrap.object.clone();
        level.set_at(&["spec", "exempt", "nominalConcurrencyShares"], 7);
        assert_eq!(revised(&level, bootstrap), None);
        level.remove_at(&["spec", "exempt"]);
        assert_eq!(revised(&level, bootstrap).as_ref(), Some(&bootstrap.object));
    }
}
