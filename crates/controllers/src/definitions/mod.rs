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
use pintle_registry::{ApiError, BoxFuture, DefinitionSource, GroupResource, Resource};
use pintle_supervisor::BackgroundTask;
use pintle_value::{Str, Value};

use self::cleanup::{awaits_cleanup, clean_up};
pub use self::host::DefinitionHost;
pub use self::state::DEFINITIONS_PREFIX;
use self::state::Definitions;
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{find, watch_cache_of};
use crate::supervisor::supervise_reporting;
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef, UpdateFn, WorkQueues};

/// The name of the controller's background task.
pub const DEFINITIONS_TASK: &str = "crd-controller";
/// How many status updates and deletions run at the same time. Their writes share commits.
const MAX_CONCURRENT: usize = 1024;
/// The name of the work queue in metrics.
const QUEUE: &str = "customresourcedefinitions";

fn definitions_resource() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

fn definition_ref(name: &str) -> ObjectRef {
    ObjectRef { resource: definitions_resource(), namespace: String::new(), name: name.to_owned() }
}

fn find_definition(host: &Arc<dyn DefinitionHost>, name: &str) -> Option<Value> {
    let client: Arc<dyn ClusterClient> = host.clone();
    find(&client, &definition_ref(name))
}

/// All stored CRDs, as the watch cache has them now.
fn stored_definitions(host: &Arc<dyn DefinitionHost>) -> Vec<Arc<Object>> {
    let client: Arc<dyn ClusterClient> = host.clone();
    let watch_cache = watch_cache_of(&client, &definitions_resource());
    watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::All)).collect()
}

/// An informer of CRDs. The controller lists them itself, since it has to notice which CRDs are gone.
fn definition_informer(host: &Arc<dyn DefinitionHost>) -> Informer<()> {
    let client: Arc<dyn ClusterClient> = host.clone();
    Informer::new(&client, vec![InformerSource::new((), definitions_resource(), WatchScope::All).without_list()])
}

/// Work for a CRD of this name, beside the decision about names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DefinitionTask {
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
pub struct DefinitionController {
    definitions: Definitions,
    queue: WorkQueue<DefinitionTask, ()>,
}

impl DefinitionController {
    fn new(definitions: Definitions) -> Self {
        // The metrics of the cluster follow when the controller runs.
        Self { definitions, queue: WorkQueue::new(MAX_CONCURRENT, WorkQueues::default().queue(QUEUE)) }
    }

    /// A controller of the stored CRDs. They are read before the cache loads their objects.
    #[must_use]
    pub fn load(loaded: &LoadedCache) -> Self {
        Self::new(Definitions::load(loaded))
    }

    /// The prefixes of the objects of all CRDs, each with a resource that is stored there if any is served.
    pub fn collections(&self) -> impl Iterator<Item = (&Str, Option<&Arc<Resource>>)> {
        self.definitions.iter().map(|(_, definition)| (&definition.prefix, definition.records.first()))
    }

    /// Serves the objects of all CRDs. Returns the future that runs the controller until the cluster is gone.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn start(mut self, host: &Arc<dyn DefinitionHost>) -> Result<BoxFuture<'static, ()>, ApiError> {
        host.clone().catch_up().await?;
        let informer = definition_informer(host);
        let stored = stored_definitions(host);
        for name in self.definitions.missing(&stored) {
            self.definitions.remove(&name);
        }
        for object in &stored {
            self.definitions.record(object);
        }
        let groups = self.definitions.groups().filter(|group| !host.is_built_in_group(group));
        host.publish(groups.map(|group| (group.clone(), self.definitions.records(group))).collect());
        let (host, task) = (Arc::downgrade(host), host.background_task(DEFINITIONS_TASK));
        Ok(Box::pin(async move {
            let client: Weak<dyn ClusterClient> = host.clone();
            let mut started = Some((self, informer));
            let start = || run(started.take(), host.clone(), task.clone());
            supervise_reporting(task.clone(), client, start).await;
        }))
    }

    /// Processes all stored CRDs, and the CRDs that are gone.
    async fn resync(&mut self, host: &Arc<dyn DefinitionHost>) {
        let stored = stored_definitions(host);
        for name in self.definitions.missing(&stored) {
            self.handle_deletion(host, &name).await;
        }
        for object in stored {
            self.handle_definition(host, &object).await;
        }
    }

    async fn handle_event(&mut self, host: &Arc<dyn DefinitionHost>, event: InformerEvent<()>) {
        match event {
            InformerEvent::Added((), objects) => {
                for object in objects {
                    self.handle_definition(host, &object).await;
                }
            }
            InformerEvent::Changed(events) => {
                for (_, event) in events {
                    match &event.object {
                        Some(object) => self.handle_definition(host, object).await,
                        None => self.handle_deletion(host, &event.key).await,
                    }
                }
            }
            InformerEvent::Reset(()) => self.resync(host).await,
        }
    }

    async fn handle_definition(&mut self, host: &Arc<dyn DefinitionHost>, object: &Object) {
        if self.definitions.record(object) {
            self.serve(host, object.name()).await;
        }
        if self.definitions.get(object.name()).is_some_and(|definition| !definition.is_settled) {
            self.settle(host, object.name()).await;
        }
    }

    async fn handle_deletion(&mut self, host: &Arc<dyn DefinitionHost>, name: &str) {
        let Some(deleted) = self.definitions.remove(name) else { return };
        if deleted.is_cleaning_up {
            // The clean-up may wait for its objects.
            self.queue.add(DefinitionTask::CleanUp(name.into()));
        }
        self.publish(host, deleted.group());
        if !host.is_built_in(&deleted.prefix) {
            host.close_watch_cache(&deleted.prefix);
        }
        self.settle_group(host, deleted.group()).await;
    }

    /// Publishes the records of a group.
    fn publish(&self, host: &Arc<dyn DefinitionHost>, group: &str) {
        if !host.is_built_in_group(group) {
            host.publish(vec![(group.into(), self.definitions.records(group))]);
        }
    }

    /// Serves the objects of a CRD. Returns false if that failed and is retried.
    async fn serve(&mut self, host: &Arc<dyn DefinitionHost>, name: &str) -> bool {
        let Some(definition) = self.definitions.get(name) else { return true };
        // Objects may be stored even if no version is served.
        if definition.is_accepted && !host.is_built_in(&definition.prefix) {
            let (prefix, record) = (definition.prefix.clone(), definition.records.first().cloned());
            if let Err(error) = host.clone().open_watch_cache(prefix, record).await {
                tracing::warn!(%error, %name, "Failed to read the objects of a CustomResourceDefinition, will retry");
                self.queue.retry(DefinitionTask::Serve(name.into()));
                return false;
            }
        }
        self.publish(host, definition.group());
        true
    }

    /// Makes the next update of a CRD's status: accepts its names unless another CRD has them, reports its API
    /// approval, and establishes it. If the CRD is terminating, begins to clean up after it.
    async fn settle(&mut self, host: &Arc<dyn DefinitionHost>, name: &str) {
        if !*host.leadership().borrow() {
            return;
        }
        let Some(definition) = find_definition(host, name) else { return };
        if definition.is_terminating() {
            return self.begin_cleanup(host, &definition);
        }
        let now = host.now();
        let others = self.definitions.names_of_others(definition.str_at(&["spec", "group"]), name);
        let Some(next) = next_status(&definition, &others, now) else { return };
        let Some(known) = self.definitions.get(name) else { return };
        let (old_names, source, revision) = (known.names.clone(), known.source.clone(), known.revision);
        // The objects are served before the status says so.
        if self.definitions.replace(&next, source, revision) && !self.serve(host, name).await {
            return;
        }
        // The names are taken from now on. Other CRDs do not wait until the status is stored.
        self.queue.add(DefinitionTask::UpdateStatus(name.into()));
        self.start_tasks(host);
        // The CRD may have given up names that others wait for. A new CRD had none.
        let has_changed = self.definitions.get(name).is_some_and(|definition| definition.names != old_names);
        if has_changed && has_accepted_names(&old_names) {
            Box::pin(self.settle_group(host, old_names.str_at(&["spec", "group"]))).await;
        }
    }

    /// Settles all CRDs if this server has begun to run the controllers.
    async fn take_over(&mut self, host: &Arc<dyn DefinitionHost>) {
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
    async fn settle_group(&mut self, host: &Arc<dyn DefinitionHost>, group: &str) {
        for name in self.definitions.unsettled(group) {
            Box::pin(self.settle(host, &name)).await;
        }
    }

    fn begin_cleanup(&mut self, host: &Arc<dyn DefinitionHost>, definition: &Value) {
        if let Some(known) = self.definitions.get_mut(definition.name())
            && awaits_cleanup(definition)
            && !known.is_cleaning_up
        {
            known.is_cleaning_up = true;
            self.queue.add(DefinitionTask::CleanUp(definition.name().into()));
            self.start_tasks(host);
        }
    }

    fn start_tasks(&mut self, host: &Arc<dyn DefinitionHost>) {
        let Self { definitions, queue } = self;
        queue.start(|task| -> Option<BoxFuture<'static, TaskResult>> {
            let weak = Arc::downgrade(host);
            match task {
                DefinitionTask::Serve(_) => Some(Box::pin(ready(ReconcileResult::Blocked(())))),
                DefinitionTask::UpdateStatus(name) => {
                    let update = status_update(definitions, host, name)?;
                    Some(Box::pin(update_status(weak, name.clone(), update)))
                }
                DefinitionTask::CleanUp(name) => {
                    let definition = definitions.get(name)?;
                    let source: Arc<dyn DefinitionSource> = definition.source.clone();
                    Some(Box::pin(clean_up(weak, (name.clone(), definition.uid.clone()), source)))
                }
            }
        });
    }

    /// Serves the objects of a CRD after a failed attempt, and settles the CRD.
    async fn retry_serving(&mut self, host: &Arc<dyn DefinitionHost>, name: &Str) {
        if self.serve(host, name).await {
            self.queue.forget(&DefinitionTask::Serve(name.clone()));
            self.settle(host, name).await;
        }
    }
}

/// Runs a started controller, or a new one after a failure.
async fn run(
    started: Option<(DefinitionController, Informer<()>)>,
    host: Weak<dyn DefinitionHost>,
    task: BackgroundTask,
) {
    let Some(strong) = host.upgrade() else { return };
    let (mut controller, mut informer) =
        started.unwrap_or_else(|| (DefinitionController::new(Definitions::default()), definition_informer(&strong)));
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
        if let Some((DefinitionTask::Serve(name), ())) = blocked {
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
fn status_update(definitions: &Definitions, host: &Arc<dyn DefinitionHost>, name: &str) -> Option<(Str, UpdateFn)> {
    let now = host.now();
    let definition = definitions.get(name)?;
    let others = definitions.names_of_others(definition.group(), name);
    let uid = definition.uid.clone();
    let expected = uid.clone();
    let compute = move |definition: &Value| {
        // Another CRD of the name decides for itself.
        let next = (definition.uid() == expected).then(|| next_status(definition, &others, now)).flatten();
        next.unwrap_or_else(|| definition.clone())
    };
    Some((uid, Arc::new(compute)))
}

async fn update_status(host: Weak<dyn DefinitionHost>, name: Str, (uid, compute): (Str, UpdateFn)) -> TaskResult {
    let Some(host) = host.upgrade() else { return ReconcileResult::Done };
    match host.clone().update_status_as_leader(definition_ref(&name), compute).await {
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
async fn is_gone(host: &Arc<dyn DefinitionHost>, name: &str, uid: &str) -> bool {
    let is_current = host.clone().catch_up().await.is_ok();
    is_current && find_definition(host, name).is_none_or(|definition| definition.uid() != uid)
}
