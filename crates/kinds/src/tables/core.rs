//! Cells of the core group, except pods, services and endpoints.

use std::collections::BTreeSet;

use pintle_value::Value;
use pintle_value::time::Time;

use super::cells;

/// Whether a node is ready and takes pods.
pub(super) fn node_status(o: &Value) -> String {
    // If several conditions have the same type, the last one counts here.
    let ready = o.items_at(&["status", "conditions"]).iter().rfind(|c| c.str_at(&["type"]) == "Ready");
    let mut status = match ready.map(|c| c.str_at(&["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if o.bool_at(&["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

/// The roles of a node by its labels.
pub(super) fn node_roles(o: &Value) -> String {
    let roles: BTreeSet<&str> = o
        .entries_at(&["metadata", "labels"])
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => value.as_str(),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    cells::or_placeholder(&roles.into_iter().collect::<Vec<_>>().join(","), "<none>").to_owned()
}

/// The kernel of a node and its architecture.
pub(super) fn node_kernel(o: &Value) -> String {
    let system = |field: &str| o.str_at(&["status", "nodeInfo", field]);
    let mut kernel = cells::or_placeholder(system("kernelVersion"), "<unknown>").to_owned();
    if !system("architecture").is_empty() {
        kernel.push_str(&format!(" ({})", system("architecture")));
    }
    kernel
}

/// The address of a type.
pub(super) fn address<'a>(addresses: &'a [Value], kind: &str) -> &'a str {
    addresses.iter().find(|a| a.str_at(&["type"]) == kind).map_or("<none>", |a| a.str_at(&["address"]))
}

/// The phase of a volume or a claim.
pub(super) fn volume_phase(o: &Value) -> &str {
    if o.is_terminating() { "Terminating" } else { o.str_at(&["status", "phase"]) }
}

/// The capacity of a claim. Upstream shows it and the access modes only if the claim names a volume.
pub(super) fn claim_capacity(o: &Value) -> String {
    if is_bound(o) { cells::quantity(o, &["status", "capacity", "storage"]) } else { String::new() }
}

/// The access modes of a claim.
pub(super) fn claim_access_modes(o: &Value) -> String {
    if is_bound(o) { cells::access_modes(o, &["status", "accessModes"]) } else { String::new() }
}

fn is_bound(claim: &Value) -> bool {
    !claim.str_at(&["spec", "volumeName"]).is_empty()
}

/// Returns the storage class of a volume or a claim. The beta annotation takes precedence.
pub(super) fn storage_class(o: &Value) -> &str {
    o.annotation("volume.beta.kubernetes.io/storage-class").unwrap_or_else(|| o.str_at(&["spec", "storageClassName"]))
}

/// The used part of the quotas for limits, or of the others.
pub(super) fn quotas(o: &Value, of_limits: bool) -> String {
    let quotas = o.entries_at(&["status", "hard"]).filter(|(name, _)| name.starts_with("limits.") == of_limits);
    let used = |name: &str| cells::quantity(o, &["status", "used", name]);
    let texts = quotas.map(|(name, hard)| format!("{name}: {}/{}", used(name), cells::scalar(hard)));
    texts.collect::<Vec<_>>().join(", ")
}

/// The condition that tells whether a component is healthy.
pub(super) fn component_condition(o: &Value) -> Option<&Value> {
    cells::find_condition(o.items_at(&["conditions"]), "Healthy")
}

/// Whether a component is healthy.
pub(super) fn component_status(o: &Value) -> &'static str {
    match component_condition(o).map(|condition| condition.str_at(&["status"])) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    }
}

/// When an event was first seen.
pub(super) fn event_first_seen(o: &Value) -> Option<Time> {
    o.time_at(&["firstTimestamp"]).or_else(|| o.time_at(&["eventTime"]))
}

/// When an event was last seen.
pub(super) fn event_last_seen(o: &Value) -> Option<Time> {
    match o.at(&["series"]) {
        Some(series) => series.time_at(&["lastObservedTime"]),
        None => o.time_at(&["lastTimestamp"]).or_else(|| event_first_seen(o)),
    }
}

/// How often an event was seen. Single events of `events.k8s.io/v1` have no count.
pub(super) fn event_count(o: &Value) -> i64 {
    match (o.at(&["series"]), cells::int(o, &["count"])) {
        (Some(series), _) => cells::int(series, &["count"]),
        (None, 0) => 1,
        (None, count) => count,
    }
}

/// The object of an event.
pub(super) fn event_object(o: &Value) -> String {
    let mut object = o.str_at(&["involvedObject", "kind"]).to_lowercase();
    let name = o.str_at(&["involvedObject", "name"]);
    if !name.is_empty() {
        object = format!("{object}/{name}");
    }
    object
}

/// The reporter of an event.
pub(super) fn event_source(o: &Value) -> String {
    let mut source =
        cells::or_placeholder(o.str_at(&["source", "component"]), o.str_at(&["reportingComponent"])).to_owned();
    let instance = cells::or_placeholder(o.str_at(&["source", "host"]), o.str_at(&["reportingInstance"]));
    if !instance.is_empty() {
        source = format!("{source}, {instance}");
    }
    source
}
