//! The strategy for Deployment (upstream: `SetDefaults_Deployment`, `ValidateDeployment`,
//! `pkg/registry/apps/deployment`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::{int_or_percent, selector_and_template, stored, template};
use crate::declarative::Rules;
use crate::gated::Part;
use crate::generic::{
    StatusStrategy, pod_name_warning, reset_status, set_generation, set_if_empty, validate_immutable_at,
};
use crate::go_json::{self, GoType};
use crate::validation::{reject_negative, validate_replica_counts};

/// The annotation that replaces `spec.rollbackTo` of removed versions.
pub(super) const ROLLBACK: &str = "deprecated.deployment.rollback.to";

const STRATEGY: GoType = GoType::Of("apps/v1.DeploymentStrategy");

static SPEC_RULES: Rules = Rules::own("apps/v1", "DeploymentSpec");
static STATUS_RULES: Rules = Rules::own("apps/v1", "DeploymentStatus");

static STATUS: StatusStrategy =
    StatusStrategy::new(validate_status).preserving(&[&["spec"], &["metadata", "labels"]]).gated(Part::Replicas);

/// The strategy for Deployment.
pub(crate) struct DeploymentStrategy;

impl Strategy for DeploymentStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::DEPLOYMENTS
    }

    fn defaults(&self, object: &mut Value) {
        normalize_rollback_annotation(object);
        let Some(spec) = object.get_mut("spec") else { return };
        spec.set_default("replicas", 1);
        spec.set_default("strategy", Value::object());
        if let Some(strategy) = spec.get_mut("strategy") {
            set_if_empty(strategy, "type", "RollingUpdate");
            if strategy.str_at(&["type"]) == "RollingUpdate" {
                strategy.set_default("rollingUpdate", Value::object());
                if let Some(update) = strategy.get_mut("rollingUpdate") {
                    update.set_default("maxUnavailable", "25%");
                    update.set_default("maxSurge", "25%");
                }
            }
        }
        spec.set_default("revisionHistoryLimit", 10);
        spec.set_default("progressDeadlineSeconds", 600);
        template::defaults(spec);
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        template::drop_disabled(context, object, old, &["spec", "template"]);
        // Annotations are copied to the replica sets, so changes of them count as well.
        set_generation(object, old, &[&["spec"], &["metadata", "annotations"]]);
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

/// Returns the warnings about a Deployment or ReplicaSet.
pub(super) fn warnings_of_replicas(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warnings.extend(pod_name_warning(object));
    }
    warnings.extend(template::warnings_of_change(object, old));
    warnings
}

/// Normalizes the annotation for `spec.rollbackTo` like the conversion through the internal version.
fn normalize_rollback_annotation(object: &mut Value) {
    let Some(text) = object.annotation(ROLLBACK) else { return };
    if text.is_empty() {
        object.remove_at(&["metadata", "annotations", ROLLBACK]);
        if object.at(&["metadata", "annotations"]).is_some_and(Value::is_empty) {
            object.remove_at(&["metadata", "annotations"]);
        }
    } else if let Ok(revision) = text.parse::<i64>() {
        object.annotate(ROLLBACK, revision.to_string());
    }
}

fn validate_spec(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &object["spec"];
    reject_negative(&mut errors, &path.child("replicas"), spec.int_at(&["replicas"]));
    selector_and_template::require_selector(&mut errors, spec, "deployment", &path);
    selector_and_template::validate_selector_and_template(
        context,
        &mut errors,
        spec,
        old.and_then(|old| old.get("spec")),
        &path,
    );
    validate_strategy(&mut errors, &spec["strategy"], &path.child("strategy"));
    SPEC_RULES.validate_part(&mut errors, spec, &path);
    let revision = object.annotation(ROLLBACK).and_then(|text| text.parse().ok());
    reject_negative(&mut errors, &FieldPath::new("spec.rollback.version"), revision);
    if let Some(deadline) = spec.int_at(&["progressDeadlineSeconds"]) {
        let path = path.child("progressDeadlineSeconds");
        reject_negative(&mut errors, &path, deadline);
        if deadline <= spec.int_at(&["minReadySeconds"]).unwrap_or(0) {
            errors.invalid(&path, deadline, "must be greater than minReadySeconds");
        }
    }
    errors
}

fn validate_strategy(errors: &mut Errors, strategy: &Value, path: &FieldPath<'_>) {
    let update = strategy.get("rollingUpdate");
    let update_path = path.child("rollingUpdate");
    match (strategy.str_at(&["type"]), update) {
        ("Recreate", Some(_)) => {
            errors.forbidden(&update_path, "may not be specified when strategy `type` is 'Recreate'");
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => errors.required(&update_path, "this should be defaulted and never be nil"),
        ("RollingUpdate", Some(update)) => {
            let unavailable = update.get("maxUnavailable");
            let unavailable_path = update_path.child("maxUnavailable");
            int_or_percent::validate(errors, unavailable, &unavailable_path);
            int_or_percent::validate(errors, update.get("maxSurge"), &update_path.child("maxSurge"));
            if int_or_percent::int_or_percent_value(unavailable) == 0
                && int_or_percent::int_or_percent_value(update.get("maxSurge")) == 0
            {
                errors.invalid(&unavailable_path, unavailable.cloned(), "may not be 0 when `maxSurge` is 0");
            }
            int_or_percent::validate_at_most_100_percent(errors, unavailable, &unavailable_path);
        }
        _ => {
            let error = FieldError::not_supported(path, Value::Null, ["Recreate", "RollingUpdate"]);
            errors.push(error.showing(go_json::internal(Some(strategy), &STRATEGY)));
        }
    }
}

fn validate_status(_: &StrategyContext, object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    STATUS_RULES.validate_part(&mut errors, &object["status"], &FieldPath::new("status"));
    let counters = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    validate_replica_counts(&mut errors, object, &counters, "readyReplicas");
    selector_and_template::validate_collision_count(&mut errors, object, old);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::{TEMPLATE, workload};
    use crate::testing::{context, messages, object};

    fn deployment(spec: &str) -> Value {
        workload(&DeploymentStrategy, spec)
    }

    #[test]
    fn defaults() {
        let check = |spec: &str, expect: &str| {
            let mut spec = deployment(spec)["spec"].clone();
            spec.remove("template");
            spec.remove("selector");
            assert_eq!(spec, object(expect));
        };
        check(
            "{}",
            r#"{"replicas":1,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}},
                "revisionHistoryLimit":10,"progressDeadlineSeconds":600}"#,
        );
        check(
            r#"{"replicas":0,"strategy":{"type":"Recreate"},"revisionHistoryLimit":0,"progressDeadlineSeconds":5}"#,
            r#"{"replicas":0,"strategy":{"type":"Recreate"},"revisionHistoryLimit":0,"progressDeadlineSeconds":5}"#,
        );
        check(
            r#"{"strategy":{"rollingUpdate":{"maxSurge":1}}}"#,
            r#"{"replicas":1,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":1}},
                "revisionHistoryLimit":10,"progressDeadlineSeconds":600}"#,
        );
    }

    #[test]
    fn specs_are_validated() {
        let check = |spec: &str, expect: &[&str]| {
            assert_eq!(messages(&DeploymentStrategy.validate(&context(), &deployment(spec))), expect);
        };
        check("{}", &[]);
        check(
            r#"{"selector":{"matchLabels":{"app":"other"}}}"#,
            &[
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
            ],
        );
        check(
            r#"{"selector":{},"replicas":-1}"#,
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
            ],
        );
        check(
            r#"{"selector":null}"#,
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
            ],
        );
        check(
            r#"{"strategy":{"type":"Sometimes"}}"#,
            &[
                "spec.strategy: Unsupported value: {\"Type\":\"Sometimes\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
            ],
        );
        check(
            r#"{"strategy":{"type":"Recreate","rollingUpdate":{}}}"#,
            &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        );
        check(
            r#"{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":"0%"}},"minReadySeconds":600}"#,
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
                "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
            ],
        );
        let always = TEMPLATE
            .replace("\"containers\"", "\"restartPolicy\":\"Never\",\"activeDeadlineSeconds\":5,\"containers\"");
        check(
            &format!("{{\"template\":{always}}}"),
            &[
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
        );
    }

    #[test]
    fn the_generation_follows_spec_and_annotations() {
        let mut old = deployment("{}");
        DeploymentStrategy.prepare_for_create(&context(), &mut old);
        let check = |path: &[&str], generation: i64| {
            let mut new = old.clone();
            new.set_at(path, "1");
            DeploymentStrategy.prepare_for_update(&context(), &mut new, &old);
            assert_eq!(new.generation(), generation, "{path:?}");
            assert_eq!(new["status"], old["status"]);
        };
        check(&["metadata", "labels", "a"], 1);
        check(&["metadata", "annotations", "a"], 2);
        check(&["spec", "minReadySeconds"], 2);
        check(&["status", "replicas"], 1);
    }

    #[test]
    fn the_selector_is_immutable() {
        let mut new = deployment(r#"{"selector":{"matchLabels":{"app":"x","z":"1"}}}"#);
        new.set_at(&["spec", "template", "metadata", "labels", "z"], "1");
        let errors = DeploymentStrategy.validate_update(&context(), &new, &deployment("{}"));
        assert_eq!(
            messages(&errors),
            ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\",\"z\":\"1\"}}: field is immutable",]
        );
    }

    #[test]
    fn statuses_are_validated() {
        let check = |old: &str, new: &str, expect: &[&str]| {
            let object = |status: &str| object(&format!(r#"{{"status":{status}}}"#));
            assert_eq!(messages(&validate_status(&context(), &object(new), &object(old))), expect);
        };
        check(
            r#"{"collisionCount":2}"#,
            r#"{"replicas":1,"readyReplicas":2,"availableReplicas":-1}"#,
            &[
                "status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.collisionCount: Invalid value: 0: cannot be decremented",
            ],
        );
        check(
            "{}",
            r#"{"replicas":2,"readyReplicas":1,"availableReplicas":2}"#,
            &["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"],
        );
    }
}
