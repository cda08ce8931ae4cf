//! The strategy for ReplicaSet (upstream: `SetDefaults_ReplicaSet`, `ValidateReplicaSet`,
//! `pkg/registry/apps/replicaset`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::object;
use pintle_value::{Errors, FieldPath, Value};

use super::deployment::replicated_warnings;
use super::{selector_and_template, template};
use crate::generic::{StatusStrategy, as_is, first_generation, generation_follows_spec, keep};
use crate::validation::{all_nonnegative, replica_counts};

static STATUS: StatusStrategy = StatusStrategy { keeps: &[&["spec"]], prepare: as_is, validate: validate_status };

/// The strategy for ReplicaSet.
pub(super) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        spec.set_default("replicas", 1);
        template::defaults(spec);
    }

    fn prepare_for_create(&self, context: &StrategyContext, object: &mut Value) {
        object.set("status", object! { "replicas": 0 });
        first_generation(object);
        template::drop_disabled(context, object, None, &["spec", "template"]);
    }

    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        keep(object, old, &["status"]);
        template::drop_disabled(context, object, Some(old), &["spec", "template"]);
        generation_follows_spec(object, old);
    }

    fn validate(&self, _: &StrategyContext, object: &Value) -> Errors {
        validate_spec(object, None)
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = validate_spec(object, Some(old));
        selector_and_template::validate_same_selector(&mut errors, object, old);
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        replicated_warnings(object, old)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }
}

fn validate_spec(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let empty = Value::object();
    let spec = object.get("spec").unwrap_or(&empty);
    all_nonnegative(&mut errors, &path, Some(spec), &["replicas", "minReadySeconds"]);
    // Upstream's message names the wrong kind.
    selector_and_template::validate_own_selector(&mut errors, spec, "deployment", &path);
    selector_and_template::validate_replicated(&mut errors, spec, old.and_then(|old| old.get("spec")), &path);
    errors
}

fn validate_status(object: &Value, _: &Value) -> Errors {
    const COUNTERS: [&str; 6] = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    let mut errors = Errors::new();
    all_nonnegative(&mut errors, &FieldPath::new("status"), object.get("status"), &COUNTERS);
    let counters = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    replica_counts(&mut errors, object, &counters, "readyReplicas");
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::workload;
    use crate::testing::{context, messages, object};

    #[test]
    fn a_replica_set_has_one_pod_and_an_empty_status() {
        let mut set = workload(&ReplicaSet, "{}");
        assert_eq!(set.int_at(&["spec", "replicas"]), Some(1));
        ReplicaSet.prepare_for_create(&context(), &mut set);
        assert_eq!(set["status"], object(r#"{"replicas":0}"#));
        assert_eq!(messages(&ReplicaSet.validate(&context(), &set)), [""; 0]);
        let mut new = set.clone();
        new.set_at(&["metadata", "annotations", "a"], "b");
        ReplicaSet.prepare_for_update(&context(), &mut new, &set);
        assert_eq!(new.generation(), 1);
    }

    #[test]
    fn specs_and_statuses_are_checked() {
        let set = workload(&ReplicaSet, r#"{"selector":{"matchLabels":{"app":"y"}},"minReadySeconds":-1}"#);
        assert_eq!(
            messages(&ReplicaSet.validate(&context(), &set)),
            [
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
            ]
        );
        let status = object(r#"{"status":{"replicas":1,"fullyLabeledReplicas":2}}"#);
        assert_eq!(
            messages(&validate_status(&status, &status)),
            ["status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",]
        );
    }
}
