//! The strategy for PriorityClass: reserved names and immutable fields (upstream: `pkg/apis/scheduling/validation`,
//! `pkg/registry/scheduling/priorityclass`).

use pintle_registry::{GroupResource, Strategy, StrategyContext};
use pintle_value::{Errors, FieldPath, Value, object};

use crate::generic::{set_generation, validate_immutable};

const SYSTEM_PREFIX: &str = "system-";
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

/// The system priority classes with their values.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * HIGHEST_USER_PRIORITY + 1000),
    ("system-cluster-critical", 2 * HIGHEST_USER_PRIORITY),
];

/// The descriptions of the system priority classes.
const DESCRIPTIONS: [&str; 2] = [
    "Used for system critical pods that must not be moved from their current node.",
    "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
];

const PREEMPTION_POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];

/// Returns the system priority classes, which are to be created where they are missing.
#[must_use]
pub fn system_priority_classes() -> Vec<(GroupResource, Value)> {
    let class = |((name, value), description): ((&str, i64), &str)| {
        let class = object! {
            "kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": object! { "name": name },
            "value": value, "description": description,
        };
        (GroupResource::new("scheduling.k8s.io", "priorityclasses"), class)
    };
    SYSTEM_CLASSES.into_iter().zip(DESCRIPTIONS).map(class).collect()
}

/// The strategy for PriorityClass.
pub(crate) struct PriorityClassStrategy;

impl Strategy for PriorityClassStrategy {
    fn delete_forbidden(&self, name: &str) -> Option<&'static str> {
        let system = SYSTEM_CLASSES.iter().any(|(class, _)| *class == name);
        system.then_some("this is a system priority class and cannot be deleted")
    }

    fn defaults(&self, object: &mut Value) {
        object.set_default("preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        set_generation(object, old, &[]);
    }

    fn validate(&self, _: &StrategyContext, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let value = object.int_at(&["value"]).unwrap_or(0);
        if object.name().starts_with(SYSTEM_PREFIX) {
            if let Some(why) = system_class_mismatch(object.name(), value, object.bool_at(&["globalDefault"])) {
                let text = format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
                );
                errors.forbidden(&FieldPath::new("metadata").child("name"), text);
            }
        } else if value > HIGHEST_USER_PRIORITY {
            let text = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
            errors.forbidden(&FieldPath::new("value"), text);
        }
        if let Some(policy) = object.at(&["preemptionPolicy"]).and_then(Value::as_str) {
            let path = FieldPath::new("preemptionPolicy");
            if policy.is_empty() {
                errors.required(&path, "");
            } else if !PREEMPTION_POLICIES.contains(&policy) {
                errors.not_supported(&path, policy, &PREEMPTION_POLICIES);
            }
        }
        errors
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        if object.int_at(&["value"]).unwrap_or(0) != old.int_at(&["value"]).unwrap_or(0) {
            errors.forbidden(&FieldPath::new("value"), "may not be changed in an update.");
        }
        let field = ["preemptionPolicy"];
        validate_immutable(&mut errors, object.at(&field), old.at(&field), &FieldPath::new(field[0]));
        errors
    }
}

/// Returns why a class with a reserved name differs from the system priority class.
fn system_class_mismatch(name: &str, value: i64, global_default: bool) -> Option<String> {
    match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
        Some((_, known)) if *known != value => Some(format!("value of {name} PriorityClass must be {known}")),
        Some(_) if global_default => Some(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => None,
        None => Some(format!("{name} is not a known system priority class")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn system_names_are_reserved() {
        let check = |name: &str, rest: &str, expect: &[&str]| {
            let class = object(&format!(r#"{{"metadata":{{"name":"{name}"}},{rest}}}"#));
            assert_eq!(messages(&PriorityClassStrategy.validate(&context(), &class)), expect);
        };
        check("high", r#""value":1000000000,"preemptionPolicy":"Never""#, &[]);
        check(
            "high",
            r#""value":1000000001"#,
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        );
        check("system-node-critical", r#""value":2000001000"#, &[]);
        check(
            "system-node-critical",
            r#""value":2000000000"#,
            &[
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000",
            ],
        );
        check(
            "system-mine",
            r#""value":1"#,
            &[
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class",
            ],
        );
        check(
            "low",
            r#""value":1,"preemptionPolicy":"Sometimes""#,
            &[
                "preemptionPolicy: Unsupported value: \"Sometimes\": supported values: \"PreemptLowerPriority\", \"Never\"",
            ],
        );
    }

    #[test]
    fn system_priority_classes_exist() {
        for (_, class) in system_priority_classes() {
            assert_eq!(messages(&PriorityClassStrategy.validate(&context(), &class)), [""; 0]);
        }
    }

    #[test]
    fn value_and_preemption_policy_are_immutable() {
        let old = object(r#"{"value":1,"preemptionPolicy":"Never"}"#);
        let mut new = object(r#"{"value":2}"#);
        PriorityClassStrategy.defaults(&mut new);
        assert_eq!(
            messages(&PriorityClassStrategy.validate_update(&context(), &new, &old)),
            [
                "value: Forbidden: may not be changed in an update.",
                "preemptionPolicy: Invalid value: \"PreemptLowerPriority\": field is immutable",
            ]
        );
    }
}
