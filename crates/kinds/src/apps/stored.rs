//! The versions of workloads that are stored, but not served any more (upstream: `pkg/apis/apps/v1beta1`,
//! `pkg/apis/apps/v1beta2`, `pkg/apis/extensions/v1beta1`). They have other defaults, and fields that are annotations
//! in later versions.

use pintle_registry::UnservedVersion;
use pintle_value::{Value, object};

use super::daemonset::{set_template_generation, template_generation};
use super::deployment::ROLLBACK;
use crate::generic::set_if_empty;

const APPS: &str = "apps/v1beta1";
const EXTENSIONS: &str = "extensions/v1beta1";

pub(super) const DAEMON_SETS: [UnservedVersion; 2] = [
    UnservedVersion::read("apps/v1beta2", |daemon_set| {
        // A generation that is no number becomes 0. Upstream cannot read such an object, and has never written one.
        let generation = template_generation(daemon_set);
        set_template_generation(daemon_set, generation);
    }),
    UnservedVersion::read(EXTENSIONS, |daemon_set| {
        set_labels_and_selector(daemon_set);
        let Some(spec) = daemon_set.get_mut("spec") else { return };
        set_update_strategy(spec);
        let generation = spec.remove("templateGeneration").and_then(|generation| generation.as_int()).unwrap_or(0);
        set_template_generation(daemon_set, generation);
    }),
];

pub(super) const DEPLOYMENTS: [UnservedVersion; 2] = [
    UnservedVersion::read(APPS, |deployment| {
        convert_deployment(deployment);
        if let Some(spec) = deployment.get_mut("spec") {
            spec.set_default("revisionHistoryLimit", 2);
        }
    }),
    UnservedVersion::read(EXTENSIONS, |deployment| {
        convert_deployment(deployment);
        let Some(spec) = deployment.get_mut("spec") else { return };
        spec.set_default("revisionHistoryLimit", i32::MAX);
        spec.set_default("progressDeadlineSeconds", i32::MAX);
        spec.set_default("strategy", Value::object());
        let Some(strategy) = spec.get_mut("strategy") else { return };
        set_if_empty(strategy, "type", "RollingUpdate");
        if strategy.str_at(&["type"]) == "RollingUpdate" {
            strategy.set_default("rollingUpdate", Value::object());
        }
        if let Some(update) = strategy.get_mut("rollingUpdate") {
            update.set_default("maxUnavailable", 1);
            update.set_default("maxSurge", 1);
        }
    }),
];

pub(super) const REPLICA_SETS: [UnservedVersion; 1] = [UnservedVersion::read(EXTENSIONS, set_labels_and_selector)];

pub(super) const STATEFUL_SETS: [UnservedVersion; 1] = [UnservedVersion::read(APPS, |stateful_set| {
    set_labels_and_selector(stateful_set);
    if let Some(spec) = stateful_set.get_mut("spec") {
        set_update_strategy(spec);
    }
})];

/// Sets the labels and the selector of a workload without them to the labels of its template.
fn set_labels_and_selector(workload: &mut Value) {
    let labels = workload.at(&["spec", "template", "metadata", "labels"]).filter(|labels| !labels.is_empty());
    let Some(labels) = labels.cloned() else { return };
    if let Some(spec) = workload.get_mut("spec") {
        spec.set_default("selector", object! { "matchLabels": labels.clone() });
    }
    if workload.at(&["metadata", "labels"]).is_none_or(Value::is_empty) {
        workload.set_at(&["metadata", "labels"], labels);
    }
}

/// Sets the update strategy to the default of these versions, which preceded `RollingUpdate`.
fn set_update_strategy(spec: &mut Value) {
    spec.set_default("updateStrategy", Value::object());
    if let Some(strategy) = spec.get_mut("updateStrategy") {
        set_if_empty(strategy, "type", "OnDelete");
    }
}

fn convert_deployment(deployment: &mut Value) {
    set_labels_and_selector(deployment);
    deployment.remove_at(&["metadata", "annotations", ROLLBACK]);
    if let Some(rollback) = deployment.remove_at(&["spec", "rollbackTo"])
        && !rollback.is_null()
    {
        deployment.annotate(ROLLBACK, rollback.int_at(&["revision"]).unwrap_or(0).to_string());
    }
}
