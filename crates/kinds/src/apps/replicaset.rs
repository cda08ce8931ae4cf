//! The strategy for ReplicaSet (upstream: `SetDefaults_ReplicaSet`, `ValidateReplicaSet`,
//! `pkg/registry/apps/replicaset`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_value::object;
use pintle_value::{Errors, FieldPath, Value};

use super::deployment::warnings_of_replicas;
use super::{selector_and_template, stored, template};
use crate::declarative::Rules;
use crate::gated::Part;
use crate::generic::{SPEC, StatusStrategy, reset_status, set_generation, validate_immutable_at};
use crate::validation::validate_replica_counts;

static SPEC_RULES: Rules = Rules::own("apps/v1", "ReplicaSetSpec");
static STATUS_RULES: Rules = Rules::own("apps/v1", "ReplicaSetStatus");

static STATUS: StatusStrategy = StatusStrategy::new(validate_status).gated(Part::Replicas);

/// The strategy for ReplicaSet.
pub(crate) struct ReplicaSetStrategy;

impl Strategy for ReplicaSetStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::REPLICA_SETS
    }

    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        spec.set_default("replicas", 1);
        template::defaults(spec);
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, object! { "replicas": 0 });
        template::drop_disabled(context, object, old, &["spec", "template"]);
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_spec(context, object, old);
        validate_immutable_at(&mut errors, object, old, &["spec", "selector"]);
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        warnings_of_replicas(object, old)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }
}

fn validate_spec(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &object["spec"];
    SPEC_RULES.validate_part(&mut errors, spec, &path);
    // Upstream's message names the wrong kind.
    selector_and_template::require_selector(&mut errors, spec, "deployment", &path);
    selector_and_template::validate_selector_and_template(
        context,
        &mut errors,
        spec,
        old.and_then(|old| old.get("spec")),
        &path,
    );
    errors
}

fn validate_status(_: &StrategyContext, object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    STATUS_RULES.validate_part(&mut errors, &object["status"], &FieldPath::new("status"));
    let counters = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    validate_replica_counts(&mut errors, object, &counters, "readyReplicas");
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::workload;
    use crate::testing::{context, messages, object};

    #[test]
    fn a_replica_set_defaults_to_one_replica_and_an_empty_status() {
        let mut set = workload(&ReplicaSetStrategy, "{}");
        assert_eq!(set.int_at(&["spec", "replicas"]), Some(1));
        ReplicaSetStrategy.prepare_for_create(&context(), &mut set);
        assert_eq!(set["status"], object(r#"{"replicas":0}"#));
        assert_eq!(messages(&ReplicaSetStrategy.validate(&context(), &set)), [""; 0]);
        let mut new = set.clone();
        new.set_at(&["metadata", "annotations", "a"], "b");
        ReplicaSetStrategy.prepare_for_update(&context(), &mut new, &set);
        assert_eq!(new.generation(), 1);
    }

    #[test]
    fn specs_and_statuses_are_validated() {
        let set = workload(&ReplicaSetStrategy, r#"{"selector":{"matchLabels":{"app":"y"}},"minReadySeconds":-1}"#);
        assert_eq!(
            messages(&ReplicaSetStrategy.validate(&context(), &set)),
            [
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
            ]
        );
        let status = object(r#"{"status":{"replicas":1,"fullyLabeledReplicas":2}}"#);
        assert_eq!(
            messages(&validate_status(&context(), &status, &status)),
            ["status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",]
        );
    }
}
