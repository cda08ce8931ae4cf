//! The strategy for DeviceTaintRule, which taints the devices that it selects (upstream:
//! `pkg/apis/resource/validation`, `pkg/registry/resource/devicetaintrule`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldError, FieldPath, Value, metadata};

use super::slice_validation::{validate_new_effect, validate_taint_key};
use crate::declarative::Rules;
use crate::generic::{SPEC, SPEC_AND_METADATA, StatusStrategy, reset_status, same_at, set_generation};

static SELECTOR: Rules = Rules::own("resource/v1", "DeviceTaintSelector");

const MAX_CONDITIONS: usize = 8;
const TAINT: [&str; 2] = ["spec", "taint"];
const EFFECT: [&str; 3] = ["spec", "taint", "effect"];
const TIME: [&str; 3] = ["spec", "taint", "timeAdded"];

/// The strategy for DeviceTaintRule.
pub(crate) struct DeviceTaintRuleStrategy;

static STATUS: StatusStrategy = StatusStrategy::new(|context, object, _| {
    let path = FieldPath::new("status.conditions");
    let conditions = &object["status"]["conditions"];
    let mut errors = metadata::validate_conditions(conditions, context.missing_fields(), &path);
    let count = conditions.items_at(&[]).len();
    if count > MAX_CONDITIONS {
        errors.push(FieldError::too_many(&path, count, MAX_CONDITIONS));
    }
    errors
})
.preserving(SPEC_AND_METADATA);

impl Strategy for DeviceTaintRuleStrategy {
    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        set_default_time(context, object);
        reset_status(object, old, Value::object());
        // The time says when the effect was set, unless the client has set another time.
        if old.is_some_and(|old| !same_at(object, old, &EFFECT) && same_at(object, old, &TIME)) {
            object.set_at(&TIME, context.now);
        }
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let path = FieldPath::new("spec");
        SELECTOR.validate_part(&mut errors, &object["spec"]["deviceSelector"], &path.child("deviceSelector"));
        let path = path.child("taint");
        let taint = &object["spec"]["taint"];
        validate_taint_key(&mut errors, taint, &path);
        if old.is_none_or(|old| !same_at(object, old, &EFFECT)) {
            validate_new_effect(&mut errors, taint, &path);
        }
        errors
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

/// Sets the time of a taint without one. Upstream does so where it sets defaults.
fn set_default_time(context: &StrategyContext, object: &mut Value) {
    if let Some(taint) = object.at_mut(&TAINT) {
        taint.set_default("timeAdded", context.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation, context, messages, object};

    fn rule(spec: &str) -> String {
        format!(r#"{{"metadata":{{"generation":1}},"spec":{spec}}}"#)
    }

    #[test]
    fn selectors_and_taints_are_validated() {
        let check = |spec: &str, old: Option<&str>, expect: &[&str]| {
            let old = old.map(rule);
            check_validation(&DeviceTaintRuleStrategy, &rule(spec), old.as_deref(), expect);
        };
        check(r#"{"taint":{"key":"example.com/bad","effect":"NoExecute"}}"#, None, &[]);
        check(
            r#"{"deviceSelector":{"driver":"d.example.com","pool":"a/b","device":"gpu-0"},"taint":{"key":"k","value":"v","effect":"None"}}"#,
            None,
            &[],
        );
        check(
            r#"{"deviceSelector":{"driver":"","pool":"a//b","device":"A"},"taint":{"key":"","value":"-","effect":"x"}}"#,
            None,
            &[
                "spec.deviceSelector.driver: Required value",
                "spec.deviceSelector.pool: Invalid value: \"\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.deviceSelector.device: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.taint.key: Invalid value: \"\": name part must be non-empty",
                "spec.taint.key: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "spec.taint.value: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                "spec.taint.effect: Unsupported value: \"x\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
            ],
        );
        check(r#"{"taint":{"key":"k"}}"#, None, &["spec.taint.effect: Required value"]);
        // An effect that is stored stays.
        let later = r#"{"taint":{"key":"k","effect":"Later"}}"#;
        check(later, Some(later), &[]);
    }

    #[test]
    fn the_time_is_that_of_the_effect() {
        let time = |object: &Value| object.str_at(&TIME).to_owned();
        let mut new = object(&rule(r#"{"taint":{"key":"k","effect":"NoSchedule"}}"#));
        DeviceTaintRuleStrategy.prepare_for_create(&context(), &mut new);
        assert_eq!((time(&new), new.generation()), ("2023-11-14T22:13:20Z".to_owned(), 1));
        let old = object(&rule(r#"{"taint":{"key":"k","effect":"None","timeAdded":"2020-01-01T00:00:00Z"}}"#));
        for (effect, sent, expect, generation) in [
            ("None", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", 1),
            ("NoExecute", "2020-01-01T00:00:00Z", "2023-11-14T22:13:20Z", 2),
            ("NoExecute", "2021-01-01T00:00:00Z", "2021-01-01T00:00:00Z", 2),
        ] {
            let mut new = old.clone();
            new.set_at(&EFFECT, effect);
            new.set_at(&TIME, sent);
            DeviceTaintRuleStrategy.prepare_for_update(&context(), &mut new, &old);
            assert_eq!((time(&new).as_str(), new.generation()), (expect, generation), "{effect} {sent}");
        }
    }

    #[test]
    fn a_status_has_few_conditions() {
        let conditions: Vec<String> = (0..9)
            .map(|i| format!(r#"{{"type":"T{i}","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":""}}"#))
            .collect();
        let rule = object(&format!(r#"{{"status":{{"conditions":[{}]}}}}"#, conditions.join(",")));
        assert_eq!(
            messages(&STATUS.validate_update(&context(), &rule, &rule)),
            ["status.conditions: Too many: 9: must have at most 8 items"]
        );
    }
}
