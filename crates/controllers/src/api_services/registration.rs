//! Creates, restores and deletes APIServices: of built-in versions when the controller starts, of custom resources at
//! any time. An APIService without the controller's label is never changed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{KeyRange, Object, WatchScope};
use pintle_kinds::{ApiServiceManagement, api_service_name, api_services_resource, custom_api_service};
use pintle_locks::Mutex;
use pintle_registry::{ApiError, DeletionPropagation, GroupResource, GroupVersion};
use pintle_value::{Str, Value};

use super::versions::DefinedVersions;
use super::{MAX_CONCURRENT, service_ref, stored_names};
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{find, watch_cache_of};
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, DeleteRequest};

/// The name of the work queue in metrics.
const QUEUE: &str = "autoregister";
const FAILURE: &str = "Failed to synchronize an APIService, will retry";
/// How long to wait before the store is asked again for its revision.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The collections that the informer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Crds,
    Services,
}

/// The desired APIServices, and the work since the start of the controller.
struct Services {
    /// The desired APIServices by name.
    desired: HashMap<Str, Value>,
    /// The names of the APIServices that existed at the start.
    at_start: HashSet<Str>,
    /// The names of the APIServices that were synchronized since the start.
    synced: HashSet<Str>,
}

/// The next step for an APIService.
#[derive(Debug, PartialEq)]
enum Action {
    Nothing,
    Create(Value),
    Delete,
    SetSpec(Value),
}

impl Services {
    /// Returns the next step for an APIService:
    ///
    /// | stored \ desired | none | on start | continuous |
    /// |---|---|---|---|
    /// | none | | create once | create |
    /// | not managed | | | |
    /// | on start, not present at the start | | | |
    /// | on start, present at the start | delete once | update once | update once |
    /// | continuous | delete | update once | update |
    fn action(&self, name: &str, stored: Option<&Value>) -> Action {
        use ApiServiceManagement::OnStart;
        let (desired, is_synced) = (self.desired.get(name), self.synced.contains(name));
        if is_synced && desired.and_then(ApiServiceManagement::of) == Some(OnStart) {
            return Action::Nothing;
        }
        let Some(stored) = stored else {
            return desired.map_or(Action::Nothing, |desired| Action::Create(desired.clone()));
        };
        match (ApiServiceManagement::of(stored), desired) {
            (None, _) => Action::Nothing,
            (Some(OnStart), _) if is_synced || !self.at_start.contains(name) => Action::Nothing,
            (Some(_), None) => Action::Delete,
            (Some(_), Some(desired)) if stored["spec"] == desired["spec"] => Action::Nothing,
            (Some(_), Some(desired)) => Action::SetSpec(desired["spec"].clone()),
        }
    }
}

fn crds_resource() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// All stored CRDs, as the watch cache has them now.
fn stored_crds(client: &Arc<dyn ClusterClient>) -> Vec<Arc<Object>> {
    let watch_cache = watch_cache_of(client, &crds_resource());
    watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::All)).collect()
}

/// Waits until the watch caches have the writes of other servers. Returns false if the cluster is gone.
async fn catch_up(client: &Weak<dyn ClusterClient>) -> bool {
    loop {
        let Some(cluster) = client.upgrade() else { return false };
        match cluster.clone().catch_up().await {
            Ok(_) => return true,
            Err(error) => {
                tracing::warn!(%error, "Failed to read the revision of the store, will retry");
                let delay = cluster.sleep(RETRY_DELAY);
                drop(cluster);
                delay.await;
            }
        }
    }
}

/// Keeps the APIServices until the cluster is gone.
pub(super) async fn run(client: Weak<dyn ClusterClient>, built_in: Arc<[Value]>) {
    if !catch_up(&client).await {
        return;
    }
    let mut versions = DefinedVersions::default();
    let Some((mut informer, mut queue, services)) = client.upgrade().map(|client| {
        let crds = InformerSource::new(Source::Crds, crds_resource(), WatchScope::All);
        let services = InformerSource::new(Source::Services, api_services_resource(), WatchScope::All);
        let queue: WorkQueue<Str> = WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue(QUEUE));
        let informer = Informer::new(&client, vec![crds.without_list(), services.without_list()]);
        let services = Services {
            desired: built_in.iter().map(|service| (service.name().into(), service.clone())).collect(),
            at_start: stored_names(&client).into_iter().collect(),
            synced: HashSet::new(),
        };
        (informer, queue, Arc::new(Mutex::new(services)))
    }) else {
        return;
    };
    // The CRDs come first, so that the controller does not delete their APIServices as unneeded.
    if let Some(client) = client.upgrade() {
        let affected = versions.replace(stored_crds(&client).iter().map(|crd| &**crd));
        set_desired(&versions, &affected, &services, &mut queue);
    }
    let all: Vec<Str> = {
        let services = services.lock();
        services.desired.keys().chain(&services.at_start).cloned().collect()
    };
    all.into_iter().for_each(|name| queue.add(name));
    loop {
        queue.start_with(&client, FAILURE, |client, name| {
            let services = services.clone();
            async move { reconcile(&client, &services, &name).await }
        });
        tokio::select! {
            event = informer.next() => match event.zip(client.upgrade()) {
                Some((event, client)) => handle_event(&client, event, &mut versions, &services, &mut queue),
                None => return,
            },
            _ = queue.wait() => {}
        }
    }
}

fn handle_event(
    client: &Arc<dyn ClusterClient>,
    event: InformerEvent<Source>,
    versions: &mut DefinedVersions,
    services: &Mutex<Services>,
    queue: &mut WorkQueue<Str>,
) {
    match event {
        InformerEvent::Changed(events) => {
            for (source, event) in events {
                match source {
                    Source::Services => queue.add((&*event.key).into()),
                    Source::Crds => {
                        let affected = versions.set(&event.key, event.object.as_deref());
                        set_desired(versions, &affected, services, queue);
                    }
                }
            }
        }
        InformerEvent::Reset(Source::Crds) => {
            let affected = versions.replace(stored_crds(client).iter().map(|crd| &**crd));
            set_desired(versions, &affected, services, queue);
        }
        InformerEvent::Reset(Source::Services) => {
            let desired: Vec<Str> = services.lock().desired.keys().cloned().collect();
            stored_names(client).into_iter().chain(desired).for_each(|name| queue.add(name));
        }
        // Nothing is listed.
        InformerEvent::Added(..) => {}
    }
}

/// Decides again whether these versions of custom resources need an APIService.
fn set_desired(
    versions: &DefinedVersions,
    affected: &BTreeSet<GroupVersion>,
    services: &Mutex<Services>,
    queue: &mut WorkQueue<Str>,
) {
    let mut services = services.lock();
    for version in affected {
        let name = Str::from(api_service_name(version));
        match versions.is_served(version) {
            true => services.desired.insert(name.clone(), custom_api_service(version)),
            false => services.desired.remove(&name),
        };
        queue.add(name);
    }
}

async fn reconcile(
    client: &Arc<dyn ClusterClient>,
    services: &Mutex<Services>,
    name: &Str,
) -> Result<ReconcileResult, ApiError> {
    let stored = find(client, &service_ref(name));
    let action = services.lock().action(name, stored.as_ref());
    match act(client, name, stored.as_ref(), action).await {
        // The APIService was created, changed or deleted meanwhile. The event of that change enqueues it again.
        Ok(()) | Err(ApiError::AlreadyExists { .. } | ApiError::NotFound { .. } | ApiError::Conflict { .. }) => {
            services.lock().synced.insert(name.clone());
            Ok(ReconcileResult::Done)
        }
        Err(error) => Err(error),
    }
}

async fn act(
    client: &Arc<dyn ClusterClient>,
    name: &str,
    stored: Option<&Value>,
    action: Action,
) -> Result<(), ApiError> {
    let version = stored.map_or("", |stored| stored.resource_version()).to_owned();
    match action {
        Action::Nothing => Ok(()),
        Action::Create(service) => client.clone().create(api_services_resource(), service).await,
        Action::Delete => {
            let request = DeleteRequest {
                uid: stored.map_or("", |stored| stored.uid()).into(),
                revision: version.parse().unwrap_or_default(),
                propagation: DeletionPropagation::Background,
            };
            client.clone().delete(service_ref(name), request).await
        }
        Action::SetSpec(spec) => {
            let compute = move |current: &Value| {
                let mut updated = current.clone();
                if current.resource_version() == version {
                    updated.set("spec", spec.clone());
                }
                updated
            };
            client.clone().update(service_ref(name), "", Arc::new(compute)).await.map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    /// Upstream's table of cases, before and after the first synchronization.
    #[test]
    fn services_are_kept_as_their_labels_say() {
        let service = |label: &str, priority: i64| {
            let mut service =
                object! { "metadata": object! { "name": "v1.a" }, "spec": object! { "versionPriority": priority } };
            service.set_at(&["metadata", "labels", "kube-aggregator.kubernetes.io/automanaged"], label);
            service
        };
        let check = |stored: &str, desired: &str, at_start: bool, expect: [char; 2]| {
            let desired = (!desired.is_empty()).then(|| service(desired, 1));
            let stored = (!stored.is_empty()).then(|| service(stored, 2));
            let name = Str::from("v1.a");
            let mut services = Services {
                desired: desired.iter().map(|desired| (name.clone(), desired.clone())).collect(),
                at_start: at_start.then(|| name.clone()).into_iter().collect(),
                synced: HashSet::new(),
            };
            for expect in expect {
                let action = match expect {
                    'c' => Action::Create(desired.clone().expect("a desired service")),
                    'd' => Action::Delete,
                    'u' => Action::SetSpec(service("", 1)["spec"].clone()),
                    _ => Action::Nothing,
                };
                assert_eq!(services.action("v1.a", stored.as_ref()), action, "{stored:?} {desired:?} {at_start}");
                services.synced.insert(name.clone());
            }
        };
        for at_start in [false, true] {
            check("", "", at_start, ['-', '-']);
            check("", "onstart", at_start, ['c', '-']);
            check("", "true", at_start, ['c', 'c']);
            for desired in ["", "onstart", "true"] {
                check("false", desired, at_start, ['-', '-']);
            }
            check("true", "", at_start, ['d', 'd']);
            check("true", "onstart", at_start, ['u', '-']);
            check("true", "true", at_start, ['u', 'u']);
        }
        for desired in ["", "onstart", "true"] {
            check("onstart", desired, false, ['-', '-']);
        }
        check("onstart", "", true, ['d', '-']);
        check("onstart", "onstart", true, ['u', '-']);
        check("onstart", "true", true, ['u', '-']);
    }
}
