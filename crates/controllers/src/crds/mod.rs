//! The CRD controller: accepts the names of CustomResourceDefinitions, serves their objects, and updates their status
//! (upstream: the controllers of apiextensions-apiserver). When a CRD is terminating, the controller deletes its
//! objects.
//!
//! Every server serves the objects. The server that runs the controllers updates the status: a single task decides
//! which CRD gets a name. Status updates and deletions run concurrently in a work queue.

mod cleanup;
mod host;
mod source;
mod state;

use std::future::ready;
use std::sync::{Arc, Weak};

use pintle_cache::{KeyRange, LoadedCache, Object, WatchScope};
use pintle_extensions::next_status;
use pintle_registry::{ApiError, BoxFuture, CrdSource, GroupResource, Resource};
use pintle_supervisor::BackgroundTask;
use pintle_value::{Str, Value};
use pintle_versions::EffectiveVersion;

use self::cleanup::{awaits_cleanup, clean_up};
pub use self::host::CrdHost;
pub use self::state::CRDS_PREFIX;
use self::state::Crds;
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{find, watch_cache_of};
use crate::supervisor::supervise_reporting;
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef, UpdateFn, WorkQueues};

/// The name of the controller's background task.
pub const CRDS_TASK: &str = "crd-controller";
/// How many status updates and deletions run at the same time. Their writes share commits.
const MAX_CONCURRENT: usize = 1024;
/// The name of the work queue in metrics.
const QUEUE: &str = "customresourcedefinitions";

fn crds_resource() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

fn crd_ref(name: &str) -> ObjectRef {
    ObjectRef { resource: crds_resource(), namespace: String::new(), name: name.to_owned() }
}

fn find_crd(host: &Arc<dyn CrdHost>, name: &str) -> Option<Value> {
    let client: Arc<dyn ClusterClient> = host.clone();
    find(&client, &crd_ref(name))
}

/// All stored CRDs, as the watch cache has them now.
fn stored_crds(host: &Arc<dyn CrdHost>) -> Vec<Arc<Object>> {
    let client: Arc<dyn ClusterClient> = host.clone();
    let watch_cache = watch_cache_of(&client, &crds_resource());
    watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::All)).collect()
}

/// An informer of CRDs. The controller lists them itself, since it has to notice which CRDs are gone.
fn crd_informer(host: &Arc<dyn CrdHost>) -> Informer<()> {
    let client: Arc<dyn ClusterClient> = host.clone();
    Informer::new(&client, vec![InformerSource::new((), crds_resource(), WatchScope::All).without_list()])
}

/// Work for a CRD of this name, beside the decision about names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CrdTask {
    /// Serves its objects, after an attempt has failed. The queue hands it back to the controller.
    Serve(Str),
    /// Makes the next update of its status.
    UpdateStatus(Str),
    /// Deletes its objects.
    CleanUp(Str),
}

/// The result of a task. `Blocked` tasks are the controller's own.
type TaskResult = ReconcileResult<()>;

/// Serves the objects of CustomResourceDefinitions.
pub struct CrdController {
    crds: Crds,
    queue: WorkQueue<CrdTask, ()>,
}

impl CrdController {
    fn new(crds: Crds) -> Self {
        // The metrics of the cluster follow when the controller runs.
        Self { crds, queue: WorkQueue::new(MAX_CONCURRENT, WorkQueues::default().queue(QUEUE)) }
    }

    /// A controller of the stored CRDs. They are read before the cache loads their objects.
    #[must_use]
    pub fn load(loaded: &LoadedCache, served_by: EffectiveVersion) -> Self {
        Self::new(Crds::load(loaded, served_by))
    }

    /// The prefixes of the objects of all CRDs, each with a resource that is stored there if any is served.
    pub fn collections(&self) -> impl Iterator<Item = (&Str, Option<&Arc<Resource>>)> {
        self.crds.iter().map(|(_, crd)| (&crd.prefix, crd.records.first()))
    }

    /// Serves the objects of all CRDs. Returns the future that runs the controller until the cluster is gone.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn start(mut self, host: &Arc<dyn CrdHost>) -> Result<BoxFuture<'static, ()>, ApiError> {
        host.clone().catch_up().await?;
        let informer = crd_informer(host);
        let stored = stored_crds(host);
        for name in self.crds.missing(&stored) {
            self.crds.remove(&name);
        }
        for object in &stored {
            self.crds.record(object);
        }
        let groups = self.crds.groups().filter(|group| !host.is_built_in_group(group));
        host.publish(groups.map(|group| (group.clone(), self.crds.records(group))).collect());
        let (host, task) = (Arc::downgrade(host), host.background_task(CRDS_TASK));
        Ok(Box::pin(async move {
            let client: Weak<dyn ClusterClient> = host.clone();
            let mut started = Some((self, informer));
            let start = || run(started.take(), host.clone(), task.clone());
            supervise_reporting(task.clone(), client, start).await;
        }))
    }

    /// Processes all stored CRDs, and the CRDs that are gone.
    async fn resync(&mut self, host: &Arc<dyn CrdHost>) {
        let stored = stored_crds(host);
        for name in self.crds.missing(&stored) {
            self.handle_deletion(host, &name).await;
        }
        for object in stored {
            self.handle_crd(host, &object).await;
        }
    }

    async fn handle_event(&mut self, host: &Arc<dyn CrdHost>, event: InformerEvent<()>) {
        match event {
            InformerEvent::Added((), objects) => {
                for object in objects {
                    self.handle_crd(host, &object).await;
                }
            }
            InformerEvent::Changed(events) => {
                for (_, event) in events {
                    match &event.object {
                        Some(object) => self.handle_crd(host, object).await,
                        None => self.handle_deletion(host, &event.key).await,
                    }
                }
            }
            InformerEvent::Reset(()) => self.resync(host).await,
        }
    }

    async fn handle_crd(&mut self, host: &Arc<dyn CrdHost>, object: &Object) {
        if self.crds.record(object) {
            self.serve(host, object.name()).await;
        }
        if self.crds.get(object.name()).is_some_and(|crd| !crd.is_settled) {
            self.settle(host, object.name()).await;
        }
    }

    async fn handle_deletion(&mut self, host: &Arc<dyn CrdHost>, name: &str) {
        let Some(deleted) = self.crds.remove(name) else { return };
        if deleted.is_cleaning_up {
            // The clean-up may wait for its objects.
            self.queue.add(CrdTask::CleanUp(name.into()));
        }
        self.publish(host, deleted.group());
        if !host.is_built_in(&deleted.prefix) {
            host.close_watch_cache(&deleted.prefix);
        }
        self.settle_group(host, deleted.group()).await;
    }

    /// Publishes the records of a group.
    fn publish(&self, host: &Arc<dyn CrdHost>, group: &str) {
        if !host.is_built_in_group(group) {
            host.publish(vec![(group.into(), self.crds.records(group))]);
        }
    }

    /// Serves the objects of a CRD. Returns false if that failed and is retried.
    async fn serve(&mut self, host: &Arc<dyn CrdHost>, name: &str) -> bool {
        let Some(crd) = self.crds.get(name) else { return true };
        // Objects may be stored even if no version is served.
        if crd.is_accepted && !host.is_built_in(&crd.prefix) {
            let (prefix, record) = (crd.prefix.clone(), crd.records.first().cloned());
            if let Err(error) = host.clone().open_watch_cache(prefix, record).await {
                tracing::warn!(%error, %name, "Failed to read the objects of a CustomResourceDefinition, will retry");
                self.queue.retry(CrdTask::Serve(name.into()));
                return false;
            }
        }
        self.publish(host, crd.group());
        true
    }

    /// Makes the next update of a CRD's status: accepts its names unless another CRD has them, reports its API
    /// approval, and establishes it. If the CRD is terminating, begins to clean up after it.
    async fn settle(&mut self, host: &Arc<dyn CrdHost>, name: &str) {
        if !*host.leadership().borrow() {
            return;
        }
        let Some(crd) = find_crd(host, name) else { return };
        if crd.is_terminating() {
            return self.begin_cleanup(host, &crd);
        }
        let now = host.now();
        let others = self.crds.names_of_others(crd.str_at(&["spec", "group"]), name);
        let Some(next) = next_status(&crd, &others, now) else { return };
        let Some(known) = self.crds.get(name) else { return };
        let (old_names, source, revision) = (known.names.clone(), known.source.clone(), known.revision);
        // The objects are served before the status says so.
        if self.crds.replace(&next, source, revision) && !self.serve(host, name).await {
            return;
        }
        // The names are taken from now on. Other CRDs do not wait until the status is stored.
        self.queue.add(CrdTask::UpdateStatus(name.into()));
        self.start_tasks(host);
        // The CRD may have given up names that others wait for. A new CRD had none.
        let has_changed = self.crds.get(name).is_some_and(|crd| crd.names != old_names);
        if has_changed && has_accepted_names(&old_names) {
            Box::pin(self.settle_group(host, old_names.str_at(&["spec", "group"]))).await;
        }
    }

    /// Settles all CRDs if this server has begun to run the controllers.
    async fn take_over(&mut self, host: &Arc<dyn CrdHost>) {
        if !*host.leadership().borrow() {
            return;
        }
        // The writes of the previous leader come first. It can store nothing more.
        if let Err(error) = host.clone().catch_up().await {
            tracing::warn!(%error, "Failed to read the CustomResourceDefinitions that another server has written");
        }
        self.resync(host).await;
    }

    /// Settles the CRDs of a group that may wait for names.
    async fn settle_group(&mut self, host: &Arc<dyn CrdHost>, group: &str) {
        for name in self.crds.unsettled(group) {
            Box::pin(self.settle(host, &name)).await;
        }
    }

    fn begin_cleanup(&mut self, host: &Arc<dyn CrdHost>, crd: &Value) {
        if let Some(known) = self.crds.get_mut(crd.name())
            && awaits_cleanup(crd)
            && !known.is_cleaning_up
        {
            known.is_cleaning_up = true;
            self.queue.add(CrdTask::CleanUp(crd.name().into()));
            self.start_tasks(host);
        }
    }

    fn start_tasks(&mut self, host: &Arc<dyn CrdHost>) {
        let Self { crds, queue } = self;
        queue.start(|task| -> Option<BoxFuture<'static, TaskResult>> {
            let weak = Arc::downgrade(host);
            match task {
                CrdTask::Serve(_) => Some(Box::pin(ready(ReconcileResult::Blocked(())))),
                CrdTask::UpdateStatus(name) => {
                    let update = status_update(crds, host, name)?;
                    Some(Box::pin(update_status(weak, name.clone(), update)))
                }
                CrdTask::CleanUp(name) => {
                    let crd = crds.get(name)?;
                    let source: Arc<dyn CrdSource> = crd.source.clone();
                    Some(Box::pin(clean_up(weak, (name.clone(), crd.uid.clone()), source)))
                }
            }
        });
    }

    /// Serves the objects of a CRD after a failed attempt, and settles the CRD.
    async fn retry_serving(&mut self, host: &Arc<dyn CrdHost>, name: &Str) {
        if self.serve(host, name).await {
            self.queue.forget(&CrdTask::Serve(name.clone()));
            self.settle(host, name).await;
        }
    }
}

/// Runs a started controller, or a new one after a failure.
async fn run(started: Option<(CrdController, Informer<()>)>, host: Weak<dyn CrdHost>, task: BackgroundTask) {
    let Some(strong) = host.upgrade() else { return };
    let (mut controller, mut informer) =
        started.unwrap_or_else(|| (CrdController::new(Crds::new(strong.gates().version())), crd_informer(&strong)));
    controller.queue.report_to(strong.work_queues().queue(QUEUE));
    controller.resync(&strong).await;
    let mut leadership = strong.leadership();
    drop(strong);
    task.report_success();
    loop {
        let mut blocked = None;
        tokio::select! {
            event = informer.next() => match event.zip(host.upgrade()) {
                Some((event, host)) => controller.handle_event(&host, event).await,
                None => return,
            },
            task = controller.queue.wait() => blocked = task,
            changed = leadership.changed() => match changed.ok().zip(host.upgrade()) {
                Some(((), host)) => controller.take_over(&host).await,
                None => return,
            },
        }
        let Some(host) = host.upgrade() else { return };
        if let Some((CrdTask::Serve(name), ())) = blocked {
            controller.retry_serving(&host, &name).await;
        }
        controller.start_tasks(&host);
    }
}

/// True if a CRD has an accepted name of any kind.
fn has_accepted_names(names: &Value) -> bool {
    let accepted = names.at(&["status", "acceptedNames"]).and_then(Value::as_object);
    accepted.is_some_and(|accepted| accepted.values().any(|name| !name.is_empty()))
}

/// The next update of the status of a CRD, and the uid of the CRD; `None` if the CRD is gone. The event of the update
/// leads to the update after it.
fn status_update(crds: &Crds, host: &Arc<dyn CrdHost>, name: &str) -> Option<(Str, UpdateFn)> {
    let now = host.now();
    let crd = crds.get(name)?;
    let others = crds.names_of_others(crd.group(), name);
    let uid = crd.uid.clone();
    let expected = uid.clone();
    let compute = move |crd: &Value| {
        // Another CRD of the name decides for itself.
        let next = (crd.uid() == expected).then(|| next_status(crd, &others, now)).flatten();
        next.unwrap_or_else(|| crd.clone())
    };
    Some((uid, Arc::new(compute)))
}

async fn update_status(host: Weak<dyn CrdHost>, name: Str, (uid, compute): (Str, UpdateFn)) -> TaskResult {
    let Some(host) = host.upgrade() else { return ReconcileResult::Done };
    match host.clone().update_status_as_leader(crd_ref(&name), compute).await {
        Ok(_) => ReconcileResult::Done,
        // The new leader updates the status.
        Err(_) if !*host.leadership().borrow() => ReconcileResult::Done,
        Err(_) if is_gone(&host, &name, &uid).await => ReconcileResult::Done,
        Err(error) => {
            tracing::warn!(%error, %name, "Failed to update the status of a CustomResourceDefinition, will retry");
            ReconcileResult::Retry
        }
    }
}

/// True if a CRD was deleted: nothing has its name, or another CRD has it. While the cluster cannot be read, the CRD is
/// assumed to exist.
async fn is_gone(host: &Arc<dyn CrdHost>, name: &str, uid: &str) -> bool {
    let is_current = host.clone().catch_up().await.is_ok();
    is_current && find_crd(host, name).is_none_or(|crd| crd.uid() != uid)
}
