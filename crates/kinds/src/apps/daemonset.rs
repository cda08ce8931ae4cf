//! The strategy for DaemonSet (upstream: `SetDefaults_DaemonSet`, `ValidateDaemonSet`, `pkg/registry/apps/daemonset`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_value::object;
use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::{int_or_percent, selector_and_template, stored, template};
use crate::declarative::Rules;
use crate::generic::{
    SPEC, StatusStrategy, reset_status, same_at, set_generation, set_if_empty, validate_immutable_at,
};
use crate::go_json::{self, GoType};
use crate::labels::{self, has_invalid_value, is_empty_selector, validate_selector};
use crate::validation::reject_negative;

/// The annotation that replaces `spec.templateGeneration` of removed versions: the number of template changes.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const STRATEGY: GoType = GoType::Of("apps/v1.DaemonSetUpdateStrategy");

static STATUS_RULES: Rules = Rules::own("apps/v1", "DaemonSetStatus");
static STATUS: StatusStrategy = StatusStrategy::new(validate_status);

/// The strategy for DaemonSet.
pub(crate) struct DaemonSetStrategy;

impl Strategy for DaemonSetStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::DAEMON_SETS
    }

    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        spec.set_default("updateStrategy", Value::object());
        if let Some(strategy) = spec.get_mut("updateStrategy") {
            set_if_empty(strategy, "type", "RollingUpdate");
            if strategy.str_at(&["type"]) == "RollingUpdate" {
                strategy.set_default("rollingUpdate", Value::object());
                if let Some(update) = strategy.get_mut("rollingUpdate") {
                    update.set_default("maxUnavailable", 1);
                    update.set_default("maxSurge", 0);
                }
            }
        }
        spec.set_default("revisionHistoryLimit", 10);
        template::defaults(spec);
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        let status = object! {
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        };
        reset_status(object, old, status);
        template::drop_disabled(context, object, old, &["spec", "template"]);
        set_generation(object, old, SPEC);
        let generation = match old {
            None => template_generation(object).max(1),
            Some(old) if same_at(object, old, &["spec", "template"]) => template_generation(old),
            Some(old) => template_generation(old).saturating_add(1),
        };
        set_template_generation(object, generation);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        validate_immutable_at(&mut errors, object, old, &["spec", "selector"]);
        errors.append(validate_spec(context, object, old));
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(object) == template_generation(old)) {
            return Vec::new();
        }
        let spec = FieldPath::new("spec");
        template::warnings(&object["spec"], &spec.child("template"))
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }
}

pub(super) fn template_generation(object: &Value) -> i64 {
    object.annotation(TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(super) fn set_template_generation(object: &mut Value, generation: i64) {
    object.annotate(TEMPLATE_GENERATION, generation.to_string());
}

fn validate_spec(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let template_path = path.child("template");
    let spec = &object["spec"];
    let old = old.and_then(|old| old.get("spec"));
    let selector = spec.get("selector");
    let any_value = has_invalid_value(old.and_then(|old| old.get("selector")));
    errors.append(validate_selector(selector, any_value, &path.child("selector")));
    let labels = spec.at(&["template", "metadata", "labels"]);
    if labels::parse_selector(selector).is_some_and(|selector| !labels::matches_labels(&selector, labels)) {
        template::add_selector_mismatch(&mut errors, labels, &template_path);
    }
    if let Some(selector) = selector.filter(|selector| is_empty_selector(selector)) {
        let text = "empty selector is invalid for daemonset";
        errors.push(selector_and_template::invalid_selector(selector, text, &path.child("selector")));
    }
    let old_template = old.and_then(|old| old.get("template"));
    errors.append(template::validate(context, spec.get("template"), old_template, &template_path));
    selector_and_template::validate_restart_policy_always(&mut errors, spec, "DaemonSet", &template_path);
    reject_negative(&mut errors, &path.child("minReadySeconds"), spec.int_at(&["minReadySeconds"]));
    let generation = template_generation(object);
    reject_negative(&mut errors, &path.child("templateGeneration"), generation);
    validate_strategy(&mut errors, &spec["updateStrategy"], &path.child("updateStrategy"));
    let limit = "revisionHistoryLimit";
    reject_negative(&mut errors, &path.child(limit), spec.int_at(&[limit]));
    errors
}

fn validate_strategy(errors: &mut Errors, strategy: &Value, path: &FieldPath<'_>) {
    let path_of_update = path.child("rollingUpdate");
    match (strategy.str_at(&["type"]), strategy.get("rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.required(&path_of_update, ""),
        ("RollingUpdate", Some(update)) => {
            let fields = ["maxUnavailable", "maxSurge"];
            for field in fields {
                int_or_percent::validate(errors, update.get(field), &path_of_update.child(field));
            }
            for field in fields {
                int_or_percent::validate_at_most_100_percent(errors, update.get(field), &path_of_update.child(field));
            }
            match fields.map(|field| int_or_percent::int_or_percent_value(update.get(field)) != 0) {
                [true, true] => {
                    let text = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&path_of_update.child("maxSurge"), update["maxSurge"].clone(), text);
                }
                [false, false] => {
                    errors.required(&path_of_update.child("maxUnavailable"), "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        _ => {
            let error = FieldError::not_supported(path, Value::Null, ["RollingUpdate", "OnDelete"]);
            errors.push(error.showing(go_json::internal(Some(strategy), &STRATEGY)));
        }
    }
}

fn validate_status(_: &StrategyContext, object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    STATUS_RULES.validate_part(&mut errors, &object["status"], &FieldPath::new("status"));
    selector_and_template::validate_collision_count(&mut errors, object, old);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::workload;
    use crate::testing::{context, messages, object};

    #[test]
    fn defaults() {
        let check = |spec: &str, expect: &str| {
            let mut spec = workload(&DaemonSetStrategy, spec)["spec"].clone();
            spec.remove("template");
            spec.remove("selector");
            assert_eq!(spec, object(expect));
        };
        check(
            "{}",
            r#"{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"maxSurge":0}},"revisionHistoryLimit":10}"#,
        );
        check(
            r#"{"updateStrategy":{"type":"OnDelete"}}"#,
            r#"{"updateStrategy":{"type":"OnDelete"},"revisionHistoryLimit":10}"#,
        );
    }

    #[test]
    fn template_changes_increment_the_template_generation() {
        let mut old = workload(&DaemonSetStrategy, "{}");
        DaemonSetStrategy.prepare_for_create(&context(), &mut old);
        assert_eq!((old.generation(), template_generation(&old)), (1, 1));
        let check = |path: &[&str], expect: (i64, i64)| {
            let mut new = old.clone();
            new.set_at(path, 5);
            new.remove_at(&["metadata", "annotations"]);
            DaemonSetStrategy.prepare_for_update(&context(), &mut new, &old);
            assert_eq!((new.generation(), template_generation(&new)), expect, "{path:?}");
        };
        check(&["spec", "minReadySeconds"], (2, 1));
        check(&["spec", "template", "spec", "terminationGracePeriodSeconds"], (2, 2));
        check(&["status", "numberReady"], (1, 1));
    }

    #[test]
    fn specs_are_validated() {
        let check = |spec: &str, expect: &[&str]| {
            assert_eq!(messages(&DaemonSetStrategy.validate(&context(), &workload(&DaemonSetStrategy, spec))), expect);
        };
        check("{}", &[]);
        check(r#"{"selector":{}}"#, &["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"]);
        check(
            r#"{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"10%"}}}"#,
            &[
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"10%\": may not be set when maxUnavailable is non-zero",
            ],
        );
        check(
            r#"{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0}}}"#,
            &["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
        );
        check(
            r#"{"updateStrategy":{"type":"Never"}}"#,
            &[
                "spec.updateStrategy: Unsupported value: {\"Type\":\"Never\",\"RollingUpdate\":null}: supported values: \"RollingUpdate\", \"OnDelete\"",
            ],
        );
    }
}
