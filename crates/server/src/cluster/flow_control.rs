//! Flow control with the configuration from the cluster's objects.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pintle_flow_control::{FlowControlOptions, FlowController};
use pintle_locks::Mutex;
use pintle_value::{Str, Value};
use tokio_util::task::AbortOnDropHandle;

use super::Cluster;
use super::followed::{FollowedIndex, ObjectIndex};
use super::lazy::Lazy;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// The name of the background task that adjusts the limits of priority levels.
pub(crate) const FLOW_CONTROL_TASK: &str = "priority-and-fairness-limits";

/// The controller of flow control and the objects that configure it.
pub(crate) struct FlowControl {
    controller: Arc<FlowController>,
    objects: Lazy<FollowedIndex<ConfigurationObjects>>,
    /// The task that adjusts the limits. It ends with the cluster, which the last request keeps.
    task: OnceLock<AbortOnDropHandle<()>>,
}

impl FlowControl {
    pub(crate) fn new(options: FlowControlOptions) -> Self {
        Self { controller: Arc::new(FlowController::new(options)), objects: Lazy::default(), task: OnceLock::new() }
    }

    /// The controller with the present configuration. If that cannot be read, the last one stays in force.
    pub(crate) fn current(&self, cluster: &Cluster) -> &FlowController {
        if let Ok(objects) = cluster.current(&self.objects, ConfigurationObjects::default) {
            objects.configure(&self.controller);
        }
        &self.controller
    }

    /// The controller as it was last configured.
    pub(crate) fn last(&self) -> &FlowController {
        &self.controller
    }
}

/// Starts the task that adjusts the limits of priority levels, and gives the seats of requests that linger to requests
/// that wait. It continues while the server shuts down, because requests wait then, too.
pub(crate) fn start_flow_control(cluster: &Arc<Cluster>) {
    let Some(flow_control) = &cluster.flow_control else { return };
    let controller = flow_control.controller.clone();
    let task = cluster.lifecycle.background_tasks.task(FLOW_CONTROL_TASK);
    let reported = task.clone();
    let start = move || {
        let (controller, task) = (controller.clone(), reported.clone());
        async move {
            task.report_success();
            controller.run().await;
            Ok(())
        }
    };
    let weak = Arc::downgrade(cluster);
    let is_over = move || weak.strong_count() == 0;
    let running = tokio::spawn(async move { task.supervise(start, is_over).await });
    // This is called once, so the place is free.
    let _ = flow_control.task.set(AbortOnDropHandle::new(running));
}

/// The kinds that configure flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    FlowSchema,
    PriorityLevel,
}

type Objects = BTreeMap<Str, Value>;

/// The objects that configure flow control, by name.
#[derive(Default)]
struct ConfigurationObjects {
    flow_schemas: Mutex<Objects>,
    priority_levels: Mutex<Objects>,
    /// The number of changes of the objects.
    changes: AtomicU64,
    /// The number of changes that the controller has.
    configured: AtomicU64,
    /// Locked while the controller is configured.
    configuring: Mutex<()>,
}

impl ConfigurationObjects {
    fn objects(&self, kind: Kind) -> &Mutex<Objects> {
        match kind {
            Kind::FlowSchema => &self.flow_schemas,
            Kind::PriorityLevel => &self.priority_levels,
        }
    }

    /// Configures a controller with all changes of the objects so far.
    fn configure(&self, controller: &FlowController) {
        if self.configured.load(Ordering::Acquire) == self.changes.load(Ordering::Acquire) {
            return;
        }
        // A request whose configuration is being changed by another one waits for it.
        let _configuring = self.configuring.lock();
        let changes = self.changes.load(Ordering::Acquire);
        if self.configured.load(Ordering::Acquire) != changes {
            let (flow_schemas, priority_levels) = (self.flow_schemas.lock(), self.priority_levels.lock());
            // A controller of objects writes the conditions.
            let _conditions = controller.configure(flow_schemas.values(), priority_levels.values());
            self.configured.store(changes, Ordering::Release);
        }
    }
}

impl ObjectIndex for ConfigurationObjects {
    type Kind = Kind;

    const KINDS: &'static [(Kind, &'static str, &'static str)] =
        &[(Kind::FlowSchema, GROUP, "flowschemas"), (Kind::PriorityLevel, GROUP, "prioritylevelconfigurations")];

    fn fields(_: Kind) -> &'static [&'static str] {
        &["metadata.name", "metadata.uid", "spec"]
    }

    fn set(&self, kind: Kind, _namespace: &str, name: &str, object: &Value) -> Result<(), String> {
        let before = self.objects(kind).lock().insert(name.into(), object.clone());
        if before.as_ref() != Some(object) {
            self.changes.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    fn remove(&self, kind: Kind, _namespace: &str, name: &str) {
        if self.objects(kind).lock().remove(name).is_some() {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    fn names(&self, kind: Kind) -> Vec<(Str, Str)> {
        self.objects(kind).lock().keys().map(|name| (Str::default(), name.clone())).collect()
    }
}
