//! The strategy for ReplicationController (upstream: `pkg/registry/core/replicationcontroller/strategy.go`,
//! `ValidateReplicationControllerSpec`).

use pintle_registry::{GarbageCollectionPolicy, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{ErrorKind, Errors, FieldError, FieldPath, Str, Value, names, object};

use super::pod::{
    PodOptions, drop_disabled_template_fields, set_generation, set_template_defaults, validate_pod_template_spec,
    warnings_for_pod_template,
};
use crate::declarative::Rules;
use crate::generic::{StatusStrategy, reset_status, same_at};
use crate::validation::reject_negative;
use crate::validation::validate_replica_counts;

/// The annotation that marks fields that cannot be converted to this version.
const NON_CONVERTIBLE: &str = "non-convertible.kubernetes.io";

/// The strategy for ReplicationController.
pub(crate) struct ReplicationControllerStrategy;

static STATUS_RULES: Rules = Rules::own("core/v1", "ReplicationControllerStatus");
static STATUS: StatusStrategy = StatusStrategy::new(validate_status);

impl Strategy for ReplicationControllerStrategy {
    fn defaults(&self, object: &mut Value) {
        if let Some(labels) = object.at(&["spec", "template", "metadata", "labels"]).cloned() {
            for path in [&["spec", "selector"], &["metadata", "labels"]] {
                if object.at(path).is_none_or(Value::is_empty) {
                    object.set_at(path, labels.clone());
                }
            }
        }
        if let Some(template) = object.at_mut(&["spec", "template"]) {
            set_template_defaults(template);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, object! { "replicas": 0 });
        let path = ["spec", "template"];
        if let Some(template) = object.at_mut(&path) {
            drop_disabled_template_fields(context, template, old.and_then(|old| old.at(&path)));
        }
        set_generation(object, old);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_spec(context, object, old);
        let Some(old) = old else { return errors };
        for (key, value) in old.entries_at(&["metadata", "annotations"]) {
            let Some((_, field)) = key.split_once('/').filter(|_| key.starts_with(NON_CONVERTIBLE)) else { continue };
            if field.contains('/') {
                continue;
            }
            if !field.contains("selector") {
                let path = FieldPath::new(field);
                let detail = "unknown non-convertible field";
                errors.push(FieldError::new(ErrorKind::NotFound, &path, value.clone(), detail));
            } else if !same_at(object, old, &["spec", "selector"]) {
                let selector = object["spec"]["selector"].clone();
                let path = FieldPath::new("spec.selector");
                errors.invalid(&path, selector, "cannot update non-convertible selector");
            }
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let path = FieldPath::new("spec.template");
        // On updates, upstream validates with the options of the old template.
        match old {
            Some(old) if old.generation() == object.generation() => Vec::new(),
            Some(old) => warnings_for_pod_template(&old["spec"]["template"], &path),
            None => {
                let mut warnings = Vec::new();
                let problems = names::dns1123_label(object.name());
                if !problems.is_empty() {
                    warnings.push(format!(
                        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
                         a DNS label is recommended: [{}]",
                        problems.join(" ")
                    ));
                }
                warnings.extend(warnings_for_pod_template(&object["spec"]["template"], &path));
                warnings
            }
        }
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        // Upstream's declarative validation ignores `generateName`.
        if prefix { Vec::new() } else { names::long_name(name) }
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, Str)> {
        let replicas = object.int_at(&["status", "replicas"]).unwrap_or(0);
        vec![("status.replicas", Str::from(replicas.to_string()))]
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &["status.replicas"]
    }

    fn default_garbage_collection_policy(&self) -> GarbageCollectionPolicy {
        GarbageCollectionPolicy::OrphanDependents
    }
}

fn validate_spec(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &object["spec"];
    reject_negative(&mut errors, &path.child("minReadySeconds"), spec.int_at(&["minReadySeconds"]).unwrap_or(0));
    let selects_nothing = spec.get("selector").is_none_or(Value::is_empty);
    if selects_nothing {
        errors.required(&path.child("selector"), "");
    }
    match spec.int_at(&["replicas"]) {
        Some(replicas) => reject_negative(&mut errors, &path.child("replicas"), replicas),
        None => errors.required(&path.child("replicas"), ""),
    }
    let path = path.child("template");
    let Some(template) = spec.get("template") else {
        errors.required(&path, "");
        return errors;
    };
    let labels = &template["metadata"]["labels"];
    let matches = |(key, value): (&str, &Value)| labels.get(key) == Some(value);
    if !selects_nothing && !spec.entries_at(&["selector"]).all(matches) {
        let path = path.child("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.invalid(&path.child("labels"), labels.clone(), detail);
    }
    let options = PodOptions::for_template(context, old.and_then(|old| old.at(&["spec", "template"])));
    errors.append(validate_pod_template_spec(template, &path, &options));
    let path = path.child("spec");
    let policy = template.str_at(&["spec", "restartPolicy"]);
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if template.at(&["spec", "activeDeadlineSeconds"]).is_some() {
        let detail = "activeDeadlineSeconds in ReplicationController is not Supported";
        errors.forbidden(&path.child("activeDeadlineSeconds"), detail);
    }
    errors
}

fn validate_status(_: &StrategyContext, object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    STATUS_RULES.validate_part(&mut errors, &object["status"], &path);
    let counters = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    validate_replica_counts(&mut errors, object, &counters, "readyReplicas");
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    const STRATEGY: ReplicationControllerStrategy = ReplicationControllerStrategy;

    fn controller(spec: &str) -> Value {
        let mut object = object(&format!(r#"{{"metadata":{{"name":"rc"}},"spec":{spec}}}"#));
        STRATEGY.defaults(&mut object);
        STRATEGY.prepare_for_create(&context(), &mut object);
        object
    }

    const TEMPLATE: &str = r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;

    #[test]
    fn selector_and_labels_come_from_the_template() {
        let object = controller(&format!(r#"{{"replicas":1,"template":{TEMPLATE}}}"#));
        assert_eq!(object["spec"]["selector"], crate::testing::object(r#"{"app":"a"}"#));
        assert_eq!(object.label("app"), Some("a"));
        assert_eq!(object.generation(), 1);
        assert_eq!(object["status"], crate::testing::object(r#"{"replicas":0}"#));
        assert_eq!(messages(&STRATEGY.validate(&context(), &object)), [""; 0]);
    }

    #[test]
    fn specs_are_validated() {
        let check = |spec: &str, expect: &[&str]| {
            assert_eq!(messages(&STRATEGY.validate(&context(), &controller(spec))), expect, "{spec}");
        };
        check(
            r#"{}"#,
            &["spec.selector: Required value", "spec.replicas: Required value", "spec.template: Required value"],
        );
        check(
            &format!(r#"{{"replicas":-1,"selector":{{"app":"b"}},"template":{TEMPLATE}}}"#),
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
            ],
        );
        let never = TEMPLATE.replace(r#""spec":{"#, r#""spec":{"restartPolicy":"Never","activeDeadlineSeconds":1,"#);
        check(
            &format!(r#"{{"replicas":1,"template":{never}}}"#),
            &[
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not \
                 Supported",
            ],
        );
    }

    #[test]
    fn status_is_validated() {
        let rules = STRATEGY.subresource("status").unwrap();
        let new = object(r#"{"spec":{"replicas":9},"status":{"replicas":1,"readyReplicas":2,"availableReplicas":3}}"#);
        let old = object(r#"{"spec":{"replicas":1},"status":{"replicas":0}}"#);
        let mut prepared = new.clone();
        rules.prepare_for_update(&context(), &mut prepared, &old);
        assert_eq!(prepared["spec"]["replicas"], Value::Int(1));
        assert_eq!(
            messages(&rules.validate_update(&context(), &prepared, &old)),
            [
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            ]
        );
    }
}
