//! The strategy for PodDisruptionBudget (upstream: `pkg/apis/policy/validation`,
//! `pkg/registry/policy/poddisruptionbudget`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_value::metadata::validate_conditions;
use pintle_value::object;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use crate::apps::int_or_percent;
use crate::declarative::Rules;
use crate::generic::{StatusStrategy, reset_status, set_generation};
use crate::go_json::{self, GoType};
use crate::labels::{self, validate_selector};

/// The label that represents the empty selector of `policy/v1beta1`.
const EMPTY_SELECTOR_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

const EVICTION_POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];

const SPEC: GoType = GoType::Of("policy/v1.PodDisruptionBudgetSpec");

static STATUS_RULES: Rules = Rules::own("policy/v1", "PodDisruptionBudgetStatus");
static STATUS: StatusStrategy = StatusStrategy::new(validate_status);

/// The version in which an empty selector selects no pods.
const V1BETA1: UnservedVersion = UnservedVersion::read("policy/v1beta1", |budget| {
    let Some(selector) = budget.at_mut(&["spec", "selector"]) else { return };
    let has_labels = selector.entries_at(&["matchLabels"]).next().is_some();
    let requires = |expression: &Value| expression.str_at(&["key"]) == EMPTY_SELECTOR_LABEL;
    if !has_labels && selector.items_at(&["matchExpressions"]).is_empty() {
        *selector = object! {
            "matchExpressions": vec![object! { "key": EMPTY_SELECTOR_LABEL, "operator": "Exists" }],
        };
    } else if let Some(expressions) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
        // The label alone, with DoesNotExist, is the selector of all pods.
        expressions.retain(|expression| !requires(expression));
        if expressions.is_empty() {
            selector.remove("matchExpressions");
        }
    }
});

/// The strategy for PodDisruptionBudget.
pub(crate) struct PodDisruptionBudgetStrategy;

impl Strategy for PodDisruptionBudgetStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[V1BETA1]
    }

    fn defaults(&self, object: &mut Value) {
        strip_empty_selector_label(object);
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        let status = object! { "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 };
        reset_status(object, old, status);
        set_generation(object, old, crate::generic::SPEC);
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let was_invalid = old.and_then(|old| old.at(&["spec", "selector"])).is_some_and(labels::is_invalid_selector);
        validate_spec(&object["spec"], was_invalid)
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::path_segment_name(name, prefix)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }
}

/// Removes the label from selectors with other requirements. It has a meaning only alone.
fn strip_empty_selector_label(object: &mut Value) {
    let Some(selector) = object.at_mut(&["spec", "selector"]) else { return };
    let Some(expressions) = selector.get("matchExpressions").and_then(Value::as_array) else { return };
    let is_label = |expression: &Value| expression.str_at(&["key"]) == EMPTY_SELECTOR_LABEL;
    let cluster_ip_fields_are_validated =
        expressions.len() == 1 && selector.entries_at(&["matchLabels"]).next().is_none();
    let nobody = cluster_ip_fields_are_validated
        && expressions.iter().all(|e| is_label(e) && e.str_at(&["operator"]) == "Exists");
    if nobody || !expressions.iter().any(is_label) {
        return;
    }
    if let Some(expressions) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
        expressions.retain(|expression| !is_label(expression));
        if expressions.is_empty() {
            selector.remove("matchExpressions");
        }
    }
}

fn validate_spec(spec: &Value, any_selector_value: bool) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let fields = ["minAvailable", "maxUnavailable"];
    if fields.iter().all(|field| spec.get(field).is_some()) {
        let error = FieldError::invalid(&path, Value::Null, "minAvailable and maxUnavailable cannot be both set");
        errors.push(error.showing(go_json::internal(Some(spec), &SPEC)));
    }
    for field in fields {
        int_or_percent::validate(&mut errors, spec.get(field), &path.child(field));
        int_or_percent::validate_at_most_100_percent(&mut errors, spec.get(field), &path.child(field));
    }
    errors.append(validate_selector(spec.get("selector"), any_selector_value, &path.child("selector")));
    if let Some(policy) = spec.get("unhealthyPodEvictionPolicy").and_then(Value::as_str)
        && !EVICTION_POLICIES.contains(&policy)
    {
        errors.not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, &EVICTION_POLICIES);
    }
    errors
}

fn validate_status(context: &StrategyContext, object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    errors.append(validate_conditions(
        &object["status"]["conditions"],
        context.missing_fields(),
        &path.child("conditions"),
    ));
    STATUS_RULES.validate_part(&mut errors, &object["status"], &path);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn specs_are_validated() {
        let check = |spec: &str, expect: &[&str]| {
            let budget = object(&format!(r#"{{"spec":{spec}}}"#));
            assert_eq!(messages(&PodDisruptionBudgetStrategy.validate(&context(), &budget)), expect);
        };
        check(r#"{"minAvailable":"50%","selector":{"matchLabels":{"a":"b"}}}"#, &[]);
        check(
            r#"{"minAvailable":1,"maxUnavailable":"200%","selector":{}}"#,
            &[
                "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{},\"MaxUnavailable\":\"200%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
                "spec.maxUnavailable: Invalid value: \"200%\": must not be greater than 100%",
            ],
        );
        check(
            r#"{"maxUnavailable":-1,"unhealthyPodEvictionPolicy":"Never"}"#,
            &[
                "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
                "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
            ],
        );
    }

    #[test]
    fn the_empty_selector_label_is_removed_from_other_selectors() {
        let check = |selector: &str, expect: &str| {
            let selector = selector.replace("LABEL", EMPTY_SELECTOR_LABEL);
            let mut budget = object(&format!(r#"{{"spec":{{"selector":{selector}}}}}"#));
            PodDisruptionBudgetStrategy.defaults(&mut budget);
            assert_eq!(budget["spec"]["selector"], object(&expect.replace("LABEL", EMPTY_SELECTOR_LABEL)));
        };
        let none = r#"{"matchExpressions":[{"key":"LABEL","operator":"Exists"}]}"#;
        check(none, none);
        check(r#"{"matchExpressions":[{"key":"LABEL","operator":"DoesNotExist"}]}"#, "{}");
        check(
            r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"LABEL","operator":"Exists"}]}"#,
            r#"{"matchLabels":{"a":"b"}}"#,
        );
    }

    #[test]
    fn an_update_keeps_the_status() {
        let mut old = object(r#"{"metadata":{},"spec":{"minAvailable":1}}"#);
        PodDisruptionBudgetStrategy.prepare_for_create(&context(), &mut old);
        assert_eq!(
            old["status"],
            object(r#"{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#)
        );
        let mut new = object(r#"{"metadata":{"generation":1},"spec":{"minAvailable":2},"status":{}}"#);
        PodDisruptionBudgetStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!((new.generation(), &new["status"]), (2, &old["status"]));
    }
}
