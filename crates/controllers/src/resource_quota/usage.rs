//! Counts a namespace's usage of a quota (upstream: `quota.CalculateUsage`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use pintle_cache::{KeyRange, WatchCache};
use pintle_codec::json::Projection;
use pintle_kinds::ResourceList;
use pintle_quota::{
    Evaluator, QuotaContext, QuotaFeatures, ResourceQuota, counted_resources, evaluator_of, is_ignored, resource_list,
};
use pintle_registry::{ApiError, GroupResource, Scope, Verb};
use pintle_value::Value;
use pintle_value::time::Time;

use crate::objects::try_find;
use crate::{ClusterClient, ObjectRef, RemoteOperation, RemoteResource};

/// After how many objects other tasks of the thread run.
const OBJECTS_PER_TURN: usize = 64;

/// The cluster as evaluators see it.
struct CountContext<'a> {
    client: &'a Arc<dyn ClusterClient>,
    features: QuotaFeatures,
    now: Time,
    /// The first error. The count is incomplete then.
    failed: OnceLock<ApiError>,
}

impl QuotaContext for CountContext<'_> {
    fn features(&self) -> QuotaFeatures {
        self.features
    }

    fn now(&self) -> Time {
        self.now
    }

    fn extended_resource_of(&self, device_class: &str) -> Option<String> {
        let resource = GroupResource::new("resource.k8s.io", "deviceclasses");
        let class = ObjectRef { resource, namespace: String::new(), name: device_class.to_owned() };
        let class = match try_find(self.client, &class) {
            Ok(class) => class?,
            Err(error) => {
                let _ = self.failed.set(error);
                return None;
            }
        };
        class.at(&["spec", "extendedResourceName"]).and_then(Value::as_str).map(str::to_owned)
    }
}

/// The watch cache of a kind whose objects can be counted: a namespaced kind with the verbs create, list, watch and
/// delete.
pub(super) fn watch_cache(client: &Arc<dyn ClusterClient>, kind: &GroupResource) -> Option<Arc<WatchCache>> {
    const VERBS: [Verb; 4] = [Verb::Create, Verb::List, Verb::Watch, Verb::Delete];
    let registry = client.registry();
    let resource = registry.hub_of(kind)?;
    let is_counted = resource.scope == Scope::Namespaced
        && !is_ignored(&kind.group, &kind.resource)
        && VERBS.iter().all(|verb| resource.verbs.iter().any(|served| served == *verb));
    client.watch_cache(resource).filter(|_| is_counted)
}

/// The resource of another API server whose objects can be counted.
pub(super) fn remote_resource(client: &Arc<dyn ClusterClient>, kind: &GroupResource) -> Option<Arc<RemoteResource>> {
    let found = client.remote_resources();
    let is_it = |it: &&Arc<RemoteResource>| is_counted_remote(it) && it.group_resource() == *kind;
    found.preferred.iter().find(is_it).cloned()
}

/// True for a namespaced kind with the verbs create, list, watch and delete.
pub(super) fn is_counted_remote(resource: &RemoteResource) -> bool {
    resource.is_namespaced && ["create", "list", "watch", "delete"].iter().all(|verb| resource.has_verb(verb))
}

/// The number of objects that another API server has in a namespace; `None` if it cannot be asked.
async fn remote_count(client: &Arc<dyn ClusterClient>, resource: &RemoteResource, namespace: &str) -> Option<i64> {
    let name = resource.name();
    match client.clone().request_remote(resource.clone(), namespace.into(), RemoteOperation::List).await {
        Ok(objects) => i64::try_from(objects.len()).ok(),
        Err(error) => {
            tracing::debug!(%error, name, namespace, "Failed to count the objects of an API server");
            None
        }
    }
}

/// The usage of a quota's limits. A limit that cannot be counted keeps its value, if it has one.
///
/// # Errors
/// An object, or a device class that an object names, cannot be read.
pub(super) async fn count(
    client: &Arc<dyn ClusterClient>,
    namespace: &str,
    quota: &ResourceQuota,
) -> Result<ResourceList, ApiError> {
    let features = QuotaFeatures::of(client.gates());
    let context = CountContext { client, features, now: client.now(), failed: OnceLock::new() };
    let mut kinds: BTreeMap<GroupResource, BTreeSet<&str>> = BTreeMap::new();
    for name in quota.spec_hard.keys() {
        for kind in counted_resources(name, features) {
            kinds.entry(kind).or_default().insert(name);
        }
    }
    let mut counted = ResourceList::new();
    for (kind, names) in kinds {
        let Some(watch_cache) = watch_cache(client, &kind) else {
            let Some(resource) = remote_resource(client, &kind) else { continue };
            // Such kinds are in no scope.
            let number = match quota.requirements.is_empty() {
                true => remote_count(client, &resource, namespace).await,
                false => Some(0),
            };
            let number = number.map(resource_list::count);
            counted.extend(names.iter().filter_map(|name| Some(((*name).to_owned(), number.clone()?))));
            continue;
        };
        let range = KeyRange::Namespace(namespace.into());
        if !watch_cache.corrupt(&range, None).is_empty() {
            return Err(ApiError::Internal(format!("a stored object of {kind} is corrupt")));
        }
        for name in &names {
            counted.entry((*name).to_owned()).or_insert_with(|| resource_list::count(0));
        }
        let usage = kind_usage(&*evaluator_of(&kind.group, &kind.resource), &watch_cache, range, quota, &context).await;
        resource_list::add(&mut counted, &resource_list::mask(&usage, |name| names.contains(name)));
    }
    if let Some(error) = context.failed.into_inner() {
        return Err(error);
    }
    let mut used = resource_list::mask(&quota.used, |name| quota.spec_hard.contains_key(name));
    used.extend(counted);
    Ok(used)
}

/// The usage of the objects of one kind.
async fn kind_usage(
    evaluator: &dyn Evaluator,
    watch_cache: &Arc<WatchCache>,
    range: KeyRange,
    quota: &ResourceQuota,
    context: &CountContext<'_>,
) -> ResourceList {
    let objects = watch_cache.objects(range);
    if let Some(each) = evaluator.constant_usage() {
        // Such kinds are in no scope.
        let number = if quota.requirements.is_empty() { objects.count() } else { 0 };
        let number = resource_list::count(i64::try_from(number).unwrap_or(i64::MAX));
        return each.into_keys().map(|name| (name, number.clone())).collect();
    }
    let fields = Projection::of(evaluator.fields().iter().copied());
    let mut total = ResourceList::new();
    for (index, object) in objects.enumerate() {
        if index % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
        let Some(object) = fields.read(&object.json) else { continue };
        // As upstream, an invalid selector ends the count.
        match evaluator.scopes(&object).match_all(&quota.requirements) {
            Ok(true) => resource_list::add(&mut total, &evaluator.usage(&object, context)),
            Ok(false) => {}
            Err(_) => break,
        }
    }
    total
}
