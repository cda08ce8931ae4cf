//! The table of pods, with the status column of `kubectl get pods` (upstream: `printPod`).

use pintle_registry::{Column, TableConvertor};
use pintle_value::time::{self, Time};
use pintle_value::{Value, object};

use super::cells;

/// The table convertor of pods.
pub(super) struct PodTable;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::string("Ready", "How many of the pod's containers are ready for traffic."),
    Column::string("Status", "What the pod's containers are doing, in one word."),
    Column::string("Restarts", "How often containers of the pod were restarted, and when the last one was."),
    Column::AGE,
    Column::string("IP", "=core/v1.PodStatus.podIP").wide(),
    Column::string("Node", "=core/v1.PodSpec.nodeName").wide(),
    Column::string("Nominated Node", "=core/v1.PodStatus.nominatedNodeName").wide(),
    Column::string("Readiness Gates", "=core/v1.PodSpec.readinessGates").wide(),
];

impl TableConvertor for PodTable {
    fn columns(&self) -> &[Column] {
        COLUMNS
    }

    fn cells(&self, pod: &Value, now: Time) -> Vec<Value> {
        let state = PodSummary::of(pod);
        let restarts = match state.last_restart {
            Some(last) if state.restarts != 0 => format!("{} ({} ago)", state.restarts, time::since(Some(last), now)),
            _ => state.restarts.to_string(),
        };
        let ip = pod.items_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
        vec![
            pod.name().into(),
            format!("{}/{}", state.ready, state.total).into(),
            state.reason.into(),
            restarts.into(),
            time::age(pod, now),
            cells::or_placeholder(ip, "<none>").into(),
            cells::or_placeholder(pod.str_at(&["spec", "nodeName"]), "<none>").into(),
            cells::or_placeholder(pod.str_at(&["status", "nominatedNodeName"]), "<none>").into(),
            readiness_gates(pod).into(),
        ]
    }

    fn sources(&self) -> Vec<&str> {
        vec![
            "metadata.name",
            "metadata.creationTimestamp",
            "metadata.deletionTimestamp",
            "spec.containers.name",
            "spec.initContainers.name",
            "spec.initContainers.restartPolicy",
            "spec.nodeName",
            "spec.readinessGates",
            "status.phase",
            "status.reason",
            "status.podIPs",
            "status.nominatedNodeName",
            "status.conditions.type",
            "status.conditions.status",
            "status.conditions.reason",
            "status.initContainerStatuses.name",
            "status.initContainerStatuses.ready",
            "status.initContainerStatuses.restartCount",
            "status.initContainerStatuses.started",
            "status.initContainerStatuses.state",
            "status.initContainerStatuses.lastState.terminated.finishedAt",
            "status.containerStatuses.ready",
            "status.containerStatuses.restartCount",
            "status.containerStatuses.state",
            "status.containerStatuses.lastState.terminated.finishedAt",
        ]
    }

    fn conditions(&self, pod: &Value) -> Vec<Value> {
        let (phase, message) = match pod.str_at(&["status", "phase"]) {
            phase @ "Succeeded" => (phase, "The pod has completed successfully."),
            phase @ "Failed" => (phase, "The pod failed."),
            _ => return Vec::new(),
        };
        vec![object! { "type": "Completed", "status": "True", "reason": phase, "message": message }]
    }
}

/// The summary of a pod's containers.
struct PodSummary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Time>,
}

impl PodSummary {
    fn of(pod: &Value) -> PodSummary {
        let conditions = pod.items_at(&["status", "conditions"]);
        let init = pod.items_at(&["spec", "initContainers"]);
        let phase = pod.str_at(&["status", "phase"]);
        let mut state = PodSummary {
            ready: 0,
            total: pod.items_at(&["spec", "containers"]).len() + init.iter().filter(|c| is_restartable(c)).count(),
            reason: cells::or_placeholder(pod.str_at(&["status", "reason"]), phase).to_owned(),
            restarts: 0,
            last_restart: None,
        };
        let gated = |c: &Value| c.str_at(&["type"]) == "PodScheduled" && c.str_at(&["reason"]) == "SchedulingGated";
        if conditions.iter().any(gated) {
            state.reason = "SchedulingGated".to_owned();
        }

        let initializing = state.add_init(pod, init);
        if !initializing || cells::is_condition_true(conditions, "Initialized") {
            state.add_containers(pod, init);
        }

        if pod.is_terminating() {
            if pod.str_at(&["status", "reason"]) == "NodeLost" {
                state.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Failed" | "Succeeded") {
                state.reason = "Terminating".to_owned();
            }
        }
        state
    }

    /// Processes the init containers up to the first that has not completed. Returns true if there is one.
    fn add_init(&mut self, pod: &Value, init: &[Value]) -> bool {
        for (i, status) in pod.items_at(&["status", "initContainerStatuses"]).iter().enumerate() {
            self.add_restarts(status);
            let terminated = status.at(&["state", "terminated"]);
            let waiting = status.str_at(&["state", "waiting", "reason"]);
            if terminated.is_some_and(|t| cells::int(t, &["exitCode"]) == 0) {
                continue;
            }
            if is_sidecar(init, status) && status.bool_at(&["started"]) {
                self.ready += usize::from(status.bool_at(&["ready"]));
                continue;
            }
            self.reason = if let Some(terminated) = terminated {
                format!("Init:{}", termination_reason(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{i}/{}", init.len())
            };
            return true;
        }
        false
    }

    /// Processes the containers of an initialized pod. The restarts of init containers no longer count, but the
    /// restarts of sidecars do.
    fn add_containers(&mut self, pod: &Value, init: &[Value]) {
        (self.restarts, self.last_restart) = (0, None);
        // Upstream stops at the first init container that has not completed, so the restarts of later sidecars do not
        // count.
        for status in pod.items_at(&["status", "initContainerStatuses"]) {
            let sidecar = is_sidecar(init, status);
            if sidecar {
                self.add_restarts(status);
            }
            let terminated = status.at(&["state", "terminated"]);
            let done = terminated.is_some_and(|t| cells::int(t, &["exitCode"]) == 0);
            let runs = sidecar && status.bool_at(&["started"]);
            if !done && !runs {
                break;
            }
        }

        let (mut running, mut failure) = (false, String::new());
        for status in pod.items_at(&["status", "containerStatuses"]).iter().rev() {
            self.add_restarts(status);
            let waiting = status.str_at(&["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(terminated) = status.at(&["state", "terminated"]) {
                self.reason = termination_reason(terminated);
                if cells::int(terminated, &["exitCode"]) != 0 {
                    failure.clone_from(&self.reason);
                }
            } else if status.bool_at(&["ready"]) && status.at(&["state", "running"]).is_some() {
                running = true;
                self.ready += 1;
            }
        }

        // If a container is still running, the pod is not completed.
        if self.reason == "Completed" {
            let conditions = pod.items_at(&["status", "conditions"]);
            let ready = conditions.iter().any(|c| c.str_at(&["type"]) == "Ready" && c.str_at(&["status"]) == "True");
            if running && ready {
                self.reason = "Running".to_owned();
            } else if !failure.is_empty() {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }

    fn add_restarts(&mut self, status: &Value) {
        self.restarts += cells::int(status, &["restartCount"]);
        let finished = status.time_at(&["lastState", "terminated", "finishedAt"]);
        self.last_restart = self.last_restart.max(finished);
    }
}

fn is_restartable(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}

/// Returns true if the status belongs to a sidecar.
fn is_sidecar(init: &[Value], status: &Value) -> bool {
    let name = status.str_at(&["name"]);
    // If several containers have the same name, the last one counts, as in upstream's map.
    init.iter().rev().find(|c| c.str_at(&["name"]) == name).is_some_and(is_restartable)
}

/// Returns why a container terminated: its reason, signal or exit code.
fn termination_reason(terminated: &Value) -> String {
    let reason = terminated.str_at(&["reason"]);
    let signal = cells::int(terminated, &["signal"]);
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", cells::int(terminated, &["exitCode"]))
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.items_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let conditions = pod.items_at(&["status", "conditions"]);
    let ready = gates.iter().filter(|g| cells::is_condition_true(conditions, g.str_at(&["conditionType"]))).count();
    format!("{ready}/{}", gates.len())
}
