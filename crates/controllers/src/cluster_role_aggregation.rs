//! Fills the rules of aggregated cluster roles from the cluster roles that they select (upstream:
//! `pkg/controller/clusterroleaggregation`).

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use memchr::memmem;
use pintle_auth::rbac::{GROUP, aggregated_role, aggregation_selectors, combined_rules};
use pintle_cache::{KeyRange, Object, WatchCache, WatchScope};
use pintle_registry::{ApiError, GroupResource};
use pintle_selector::LabelSelector;
use pintle_value::{Str, Value};

use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{tree, watch_cache_of};
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef, controller_manager};

/// The name of the controller and of the field manager that owns the rules.
pub(crate) const CLUSTER_ROLE_AGGREGATION: &str = "clusterrole-aggregation-controller";
/// How many roles are processed at the same time.
const MAX_CONCURRENT: usize = 5;
const FAILURE: &str = "Failed to aggregate a cluster role, will retry";

fn cluster_roles() -> GroupResource {
    GroupResource::new(GROUP, "clusterroles")
}

/// Runs the controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let Some((mut informer, mut controller)) = client.upgrade().map(|client| {
        let source = InformerSource::new((), cluster_roles(), WatchScope::All);
        let queue = WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue("ClusterRoleAggregator"));
        (Informer::new(&client, vec![source]), AggregationController { aggregated: BTreeSet::new(), queue })
    }) else {
        return;
    };
    loop {
        controller.queue.start_with(&client, FAILURE, |client, name| async move { reconcile(&client, &name).await });
        tokio::select! {
            event = informer.next() => match event {
                Some(event) => controller.handle_event(&event),
                None => return,
            },
            _ = controller.queue.wait() => {}
        }
    }
}

struct AggregationController {
    /// The names of the cluster roles that may be aggregated.
    aggregated: BTreeSet<Str>,
    queue: WorkQueue<Str>,
}

impl AggregationController {
    fn handle_event(&mut self, event: &InformerEvent<()>) {
        match event {
            InformerEvent::Added((), roles) => roles.iter().for_each(|role| self.set(role)),
            InformerEvent::Changed(events) => {
                for ((), event) in events {
                    match &event.object {
                        Some(role) => self.set(role),
                        None => drop(self.aggregated.remove(&*event.key)),
                    }
                }
            }
            InformerEvent::Reset(()) => return self.aggregated.clear(),
        }
        // Any change may concern any aggregated role, because its selectors are not known here.
        self.aggregated.iter().for_each(|name| self.queue.add(name.clone()));
    }

    fn set(&mut self, role: &Object) {
        match memmem::find(&role.json, b"\"aggregationRule\"") {
            Some(_) => self.aggregated.insert(role.name().into()),
            None => self.aggregated.remove(role.name()),
        };
    }
}

/// Gives an aggregated cluster role the rules of the cluster roles that it selects.
async fn reconcile(client: &Arc<dyn ClusterClient>, name: &str) -> Result<ReconcileResult, ApiError> {
    let Some(watch_cache) = watch_cache_of(client, &cluster_roles()) else { return Ok(ReconcileResult::Done) };
    let role = watch_cache.get(name, None).ok().flatten().and_then(|role| tree(&role));
    let Some(role) = role else { return Ok(ReconcileResult::Done) };
    let selectors = match aggregation_selectors(&role) {
        Ok(Some(selectors)) => selectors,
        Ok(None) => return Ok(ReconcileResult::Done),
        // A change of the role enqueues it again.
        Err(error) => {
            tracing::warn!(%error, name, "An aggregated cluster role has an invalid selector");
            return Ok(ReconcileResult::Done);
        }
    };
    // A corrupt role may be selected. Without it, the aggregated role would lose permissions.
    if controller_manager::is_active(client) || !watch_cache.corrupt(&KeyRange::All, None).is_empty() {
        return Ok(ReconcileResult::Retry);
    }
    let selected = selectors.iter().flat_map(|selector| select(&watch_cache, selector, name));
    if let Some(configuration) = aggregated_role(&role, &combined_rules(selected)) {
        let target = ObjectRef { resource: cluster_roles(), namespace: String::new(), name: name.to_owned() };
        client.clone().apply(target, "", CLUSTER_ROLE_AGGREGATION, configuration).await?;
    }
    Ok(ReconcileResult::Done)
}

/// The cluster roles that a selector matches, by name, without the aggregated role itself.
fn select<'s>(
    watch_cache: &Arc<WatchCache>,
    selector: &'s LabelSelector,
    aggregated: &'s str,
) -> impl Iterator<Item = Value> + use<'s> {
    let roles = watch_cache.objects(KeyRange::All);
    let selected = roles.filter(move |role| role.name() != aggregated && selector.matches(|key| role.label(key)));
    selected.filter_map(|role| tree(&role))
}
