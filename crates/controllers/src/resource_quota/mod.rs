//! Keeps the status of resource quotas (upstream: `pkg/controller/resourcequota`): copies the limits of the
//! specification to the enforced limits, and counts the usage. Admission adds the usage of new objects. This controller
//! counts again when an object was deleted or has ended, when a quota changes, and every few minutes.
//!
//! - `usage`: counts the usage of the objects of a namespace.

mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{Event, Object, WatchScope};
use pintle_kinds::ResourceList;
use pintle_locks::Mutex;
use pintle_quota::{QuotaFeatures, ResourceQuota, ScopeRequirement, counted_resources, evaluator_of, resource_list};
use pintle_registry::{ApiError, BoxFuture, GroupResource};
use pintle_value::{Str, Value};

use crate::controller_manager::{self, CONTROLLER_MANAGER};
use crate::informer::{Informer, InformerEvent, InformerSource, RemoteChange, RemoteInformer, RemoteInformerEvent};
use crate::objects::{find, tree};
use crate::remote::remote_prefix;
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef};

/// The name of the controller.
pub(crate) const RESOURCE_QUOTA: &str = "resourcequota-controller";
/// How many quotas are counted at the same time (upstream: `--concurrent-resource-quota-syncs`).
const MAX_CONCURRENT: usize = 5;
const FAILURE: &str = "Failed to update the status of a resource quota, will retry";
/// How often all quotas are counted (upstream: `--resource-quota-sync-period`).
const RESYNC_PERIOD: Duration = Duration::from_secs(5 * 60);
/// How often a quota is counted again at once if it was charged meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// The collections that the controller follows: quotas, and the kinds that some quota counts.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    Quotas,
    Counted(GroupResource),
}

/// The controller's knowledge of a quota.
#[derive(Debug, PartialEq)]
struct KnownQuota {
    hard: ResourceList,
    requirements: Vec<ScopeRequirement>,
    /// The kinds that the quota counts.
    kinds: BTreeSet<GroupResource>,
}

impl KnownQuota {
    fn of(quota: ResourceQuota, features: QuotaFeatures) -> Self {
        let kinds = quota.spec_hard.keys().flat_map(|name| counted_resources(name, features)).collect();
        Self { hard: quota.spec_hard, requirements: quota.requirements, kinds }
    }
}

/// The namespace and name of a quota.
type QuotaKey = (Str, Str);

/// Runs the controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    let Some((mut informer, mut remote, mut registry_changes, mut controller)) = client.upgrade().map(|client| {
        let counted: Arc<Mutex<BTreeSet<GroupResource>>> = Arc::default();
        let is_counted = counted.clone();
        let queue = WorkQueue::new(MAX_CONCURRENT, client.work_queues().queue("resourcequota_primary"));
        let controller = QuotaController {
            client: Arc::downgrade(&client),
            features: QuotaFeatures::of(client.gates()),
            quotas: BTreeMap::new(),
            open: BTreeSet::new(),
            counted_kinds: counted,
            queue,
        };
        let remote = RemoteInformer::new(&client, move |resource| {
            usage::is_counted_remote(resource) && is_counted.lock().contains(&resource.group_resource())
        });
        (Informer::new(&client, controller.sources()), remote, client.registry_changes(), controller)
    }) else {
        return;
    };
    let Some(mut resync) = controller.next_resync() else { return };
    loop {
        controller.queue.start_with(&client, FAILURE, |client, (namespace, name): QuotaKey| async move {
            reconcile(&client, &namespace, &name).await
        });
        tokio::select! {
            event = informer.next() => match event.zip(client.upgrade()) {
                Some((event, client)) => {
                    if controller.handle_event(&client, event) {
                        informer.set_sources(&client, controller.sources());
                        controller.update_open(&client);
                        remote.update_followed(&client);
                    }
                }
                None => return,
            },
            event = remote.next() => match client.upgrade() {
                Some(client) => controller.handle_remote_event(&client, event),
                None => return,
            },
            changed = registry_changes.changed() => match changed.ok().and_then(|()| client.upgrade()) {
                Some(client) => controller.update_open(&client),
                None => return,
            },
            () = &mut resync => {
                controller.enqueue(|_| true);
                match controller.next_resync() {
                    Some(next) => resync = next,
                    None => return,
                }
            }
            _ = controller.queue.wait() => {}
        }
    }
}

struct QuotaController {
    client: Weak<dyn ClusterClient>,
    features: QuotaFeatures,
    /// The quotas by namespace and name.
    quotas: BTreeMap<Str, BTreeMap<Str, KnownQuota>>,
    /// The counted kinds that are served.
    open: BTreeSet<GroupResource>,
    /// The kinds that some quota counts, as the informer of other API servers knows them.
    counted_kinds: Arc<Mutex<BTreeSet<GroupResource>>>,
    queue: WorkQueue<QuotaKey>,
}

impl QuotaController {
    fn next_resync(&self) -> Option<BoxFuture<'static, ()>> {
        self.client.upgrade().map(|client| client.sleep(RESYNC_PERIOD))
    }

    /// The kinds that some quota counts.
    fn counted(&self) -> BTreeSet<&GroupResource> {
        self.quotas.values().flat_map(BTreeMap::values).flat_map(|quota| &quota.kinds).collect()
    }

    fn sources(&self) -> Vec<InformerSource<Source>> {
        let quotas = InformerSource::new(Source::Quotas, quotas(), WatchScope::All);
        let counted = self.counted().into_iter().map(|kind| {
            InformerSource::new(Source::Counted(kind.clone()), kind.clone(), WatchScope::All).without_list()
        });
        std::iter::once(quotas).chain(counted).collect()
    }

    /// Enqueues the quotas that a predicate accepts.
    fn enqueue(&mut self, is_wanted: impl Fn(&KnownQuota) -> bool) {
        for (namespace, quotas) in &self.quotas {
            for (name, _) in quotas.iter().filter(|(_, quota)| is_wanted(quota)) {
                self.queue.add((namespace.clone(), name.clone()));
            }
        }
    }

    /// Counts the objects of kinds that have begun or ceased to be served.
    fn update_open(&mut self, client: &Arc<dyn ClusterClient>) {
        let is_open = |kind: &&GroupResource| {
            usage::watch_cache(client, kind).is_some() || usage::remote_resource(client, kind).is_some()
        };
        *self.counted_kinds.lock() = self.counted().into_iter().cloned().collect();
        let open: BTreeSet<GroupResource> = self.counted().into_iter().filter(is_open).cloned().collect();
        let changed: BTreeSet<GroupResource> = self.open.symmetric_difference(&open).cloned().collect();
        self.open = open;
        if !changed.is_empty() {
            self.enqueue(|quota| !quota.kinds.is_disjoint(&changed));
        }
    }

    /// Returns true if the set of counted kinds may have changed.
    fn handle_event(&mut self, client: &Arc<dyn ClusterClient>, event: InformerEvent<Source>) -> bool {
        match event {
            InformerEvent::Added(Source::Quotas, quotas) => {
                let mut changed = false;
                quotas.iter().for_each(|quota| changed |= self.set(quota));
                changed
            }
            InformerEvent::Changed(events) => {
                let mut changed = false;
                for (source, event) in &events {
                    match (source, &event.object) {
                        (Source::Quotas, Some(quota)) => changed |= self.set(quota),
                        (Source::Quotas, None) => changed |= self.remove(&event.key),
                        (Source::Counted(kind), _) => self.handle_change(client, kind, event),
                    }
                }
                changed
            }
            InformerEvent::Reset(Source::Quotas) => {
                self.quotas.clear();
                true
            }
            // Anything may have been deleted.
            InformerEvent::Reset(Source::Counted(kind)) => {
                self.enqueue(|quota| quota.kinds.contains(&kind));
                false
            }
            InformerEvent::Added(Source::Counted(_), _) => false,
        }
    }

    /// Enqueues the quotas that count objects of other API servers which are gone, or kinds that have begun to be served.
    fn handle_remote_event(&mut self, client: &Arc<dyn ClusterClient>, event: RemoteInformerEvent) {
        let RemoteInformerEvent::Changed(changes) = event else { return self.update_open(client) };
        for RemoteChange { prefix, before, after } in changes {
            let Some(object) = before.filter(|_| after.is_none()) else { continue };
            let Some(quotas) = self.quotas.get(object.namespace()) else { continue };
            let counts = |quota: &KnownQuota| quota.kinds.iter().any(|kind| remote_prefix(kind) == prefix);
            let counting: Vec<Str> =
                quotas.iter().filter(|(_, quota)| counts(quota)).map(|(name, _)| name.clone()).collect();
            counting.into_iter().for_each(|name| self.queue.add((object.namespace().into(), name)));
        }
    }

    /// Enqueues a quota whose specification has changed. Only this controller and admission change its status.
    fn set(&mut self, object: &Object) -> bool {
        let Some(quota) = tree(object).map(|quota| KnownQuota::of(ResourceQuota::of(&quota), self.features)) else {
            return false;
        };
        let quotas = self.quotas.entry(object.namespace().into()).or_default();
        if quotas.get(object.name()) == Some(&quota) {
            return false;
        }
        quotas.insert(object.name().into(), quota);
        self.queue.add((object.namespace().into(), object.name().into()));
        true
    }

    fn remove(&mut self, key: &str) -> bool {
        let Some((namespace, name)) = key.split_once('/') else { return false };
        let Some(quotas) = self.quotas.get_mut(namespace) else { return false };
        let was_known = quotas.remove(name).is_some();
        if quotas.is_empty() {
            self.quotas.remove(namespace);
        }
        was_known
    }

    /// Enqueues the quotas that count an object which uses less than before.
    fn handle_change(&mut self, client: &Arc<dyn ClusterClient>, kind: &GroupResource, event: &Event) {
        let Some((namespace, _)) = event.key.split_once('/') else { return };
        let Some(quotas) = self.quotas.get(namespace) else { return };
        let counting: Vec<&Str> =
            quotas.iter().filter(|(_, quota)| quota.kinds.contains(kind)).map(|(name, _)| name).collect();
        if counting.is_empty() || !replenishes(client, kind, event) {
            return;
        }
        for name in counting {
            self.queue.add((namespace.into(), name.clone()));
        }
    }
}

/// True if an object is gone or uses less than before.
fn replenishes(client: &Arc<dyn ClusterClient>, kind: &GroupResource, event: &Event) -> bool {
    let Some(new) = &event.object else { return true };
    let Some(old) = &event.previous else { return false };
    let evaluator = evaluator_of(&kind.group, &kind.resource);
    evaluator.may_replenish(&new.json)
        && tree(old).zip(tree(new)).is_some_and(|(old, new)| evaluator.replenishes(&old, &new, client.now()))
}

fn quotas() -> GroupResource {
    GroupResource::new("", "resourcequotas")
}

/// Counts the usage of a quota, and updates its status.
async fn reconcile(client: &Arc<dyn ClusterClient>, namespace: &str, name: &str) -> Result<ReconcileResult, ApiError> {
    if controller_manager::is_active(client) {
        return Ok(ReconcileResult::Retry);
    }
    for _ in 0..MAX_ATTEMPTS {
        if try_reconcile(client, namespace, name).await? {
            return Ok(ReconcileResult::Done);
        }
    }
    Ok(ReconcileResult::Retry)
}

/// Makes one attempt. Returns false if the quota has changed meanwhile.
async fn try_reconcile(client: &Arc<dyn ClusterClient>, namespace: &str, name: &str) -> Result<bool, ApiError> {
    let target = ObjectRef { resource: quotas(), namespace: namespace.to_owned(), name: name.to_owned() };
    let Some(object) = find(client, &target) else { return Ok(true) };
    // After the wait, each charge of the quota so far is given back or belongs to a stored object. A later charge
    // changes the quota, and so does a charge that is given back.
    client.clone().wait_for_reserved_writes().await;
    let quota = ResourceQuota::of(&object);
    let used = usage::count(client, namespace, &quota).await?;
    // A counted object may have been charged after the quota was read. So even an equal number proves nothing if the
    // quota has changed.
    if find(client, &target).is_none_or(|current| current.resource_version() != object.resource_version()) {
        return Ok(false);
    }
    if resource_list::equal(&quota.hard, &quota.spec_hard) && resource_list::equal(&quota.used, &used) {
        return Ok(true);
    }
    let status =
        [("hard", &quota.spec_hard), ("used", &used)].map(|(field, list)| (field, resource_list::to_value(list)));
    let (has_changed, revision) = (Arc::new(AtomicBool::new(false)), Str::from(object.resource_version()));
    let flag = has_changed.clone();
    let update = move |current: &Value| {
        let mut quota = current.clone();
        let is_current = current.resource_version() == revision;
        flag.store(!is_current, Ordering::Relaxed);
        if is_current {
            for (field, list) in &status {
                quota.set_at(&["status", field], list.clone());
            }
        }
        quota
    };
    client.clone().update_as(target, "status", CONTROLLER_MANAGER, Arc::new(update)).await?;
    Ok(!has_changed.load(Ordering::Relaxed))
}
