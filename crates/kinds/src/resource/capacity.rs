//! The policies of capacity that several requests share (upstream: `validateRequestPolicy`). Quantities are compared
//! exactly; steps are checked in whole units, as in upstream.

use pintle_value::{Errors, FieldError, FieldPath, Quantity, Value};

use super::collections::validate_set;
use crate::core::pod::resources::quantity;

/// The maximum number of values of a policy.
const MAX_VALUES: usize = 10;

/// Validates the capacity of a device. Only devices with several allocations have policies.
pub(super) fn validate_capacity(errors: &mut Errors, capacity: &Value, is_shared: bool, path: &FieldPath<'_>) {
    let Some(policy) = capacity.get("requestPolicy") else { return };
    let path = path.child("requestPolicy");
    if !is_shared {
        errors.forbidden(&path, "allowMultipleAllocations must be true");
        return;
    }
    let available = quantity(&capacity["value"]);
    let values = policy.items_at(&["validValues"]);
    let default = policy.get("default").map(quantity);
    match (policy.get("validRange"), values) {
        (None, []) => {}
        (Some(_), [_, ..]) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.forbidden(&path, detail);
        }
        (None, values) => match default {
            None => errors.required(&path.child("default"), "required when validValues is defined"),
            Some(default) => validate_values(errors, values, &default, &available, &path.child("validValues")),
        },
        (Some(range), []) => match default {
            None => errors.required(&path.child("default"), "required when validRange is defined"),
            Some(default) => validate_range(errors, range, &default, &available, &path.child("validRange")),
        },
    }
}

fn invalid(errors: &mut Errors, path: &FieldPath<'_>, value: &Quantity, detail: impl Into<String>) {
    errors.push(FieldError::invalid(path, value.to_string(), detail));
}

fn validate_values(
    errors: &mut Errors,
    values: &[Value],
    default: &Quantity,
    available: &Quantity,
    path: &FieldPath<'_>,
) {
    for (i, pair) in values.windows(2).enumerate() {
        let (value, next) = (quantity(&pair[0]), quantity(&pair[1]));
        if value > next {
            invalid(errors, &path.index(i + 1), &next, "values must be sorted in ascending order");
        }
    }
    let mut found_default = false;
    validate_set(
        errors,
        values,
        MAX_VALUES,
        path,
        |errors, value, path| {
            let value = quantity(value);
            if value > *available {
                invalid(errors, path, &value, format!("option is larger than capacity value: {available}"));
            }
            found_default |= value == *default;
        },
        |value| format!("\"{}\"", quantity(value).value()),
    );
    if !found_default {
        invalid(errors, path, default, "default value is not valid according to the requestPolicy");
    }
}

fn validate_range(errors: &mut Errors, range: &Value, default: &Quantity, available: &Quantity, path: &FieldPath<'_>) {
    let of = |field: &str| range.get(field).map(quantity);
    let (min_path, max_path, step_path) = (path.child("min"), path.child("max"), path.child("step"));
    let Some(min) = of("min") else { return errors.required(&min_path, "required when validRange is defined") };
    if min > *available {
        invalid(errors, &min_path, &min, format!("min is larger than capacity value: {available}"));
    }
    if *default < min {
        invalid(errors, &min_path, default, format!("default is less than min: {min}"));
    }
    let max = of("max");
    if let Some(max) = &max {
        if min > *max {
            invalid(errors, &max_path, &min, format!("min is larger than max: {max}"));
        }
        if max > available {
            invalid(errors, &max_path, max, format!("max is larger than capacity value: {available}"));
        }
        if default > max {
            invalid(errors, &max_path, default, format!("default is more than max: {max}"));
        }
    }
    let Some(step) = of("step") else { return };
    // 1.36.0 fails at a step of zero. Upstream has corrected its errors about such steps later.
    if step.sign() <= 0 {
        return invalid(errors, &step_path, &step, "must be greater than zero");
    }
    let mut added = min.clone();
    added.add(&step);
    if added > *available {
        let detail = format!("one step {added} is larger than capacity value: {available}");
        invalid(errors, &step_path, &step, detail);
    }
    for value in [Some(default), max.as_ref()].into_iter().flatten() {
        // Quantities that do not fit 64 bits can be read as zero.
        let steps = value.value().wrapping_sub(min.value()).checked_rem(step.value());
        match steps {
            None => {
                let detail = format!("must not be larger than {}", i64::MAX);
                return invalid(errors, &step_path, &step, detail);
            }
            Some(0) => {}
            Some(_) => {
                let detail = format!("value is not a multiple of a given step ({step}) from ({min})");
                invalid(errors, &step_path, value, detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[track_caller]
    fn check(capacity: &str, is_shared: bool, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_capacity(&mut errors, &object(capacity), is_shared, &FieldPath::new("c"));
        assert_eq!(messages(&errors), expect);
    }

    /// Compares the errors of a capacity of 10Gi with a policy.
    #[track_caller]
    fn check_policy(policy: &str, expect: &[&str]) {
        check(&format!(r#"{{"value":"10Gi","requestPolicy":{policy}}}"#), true, expect);
    }

    #[test]
    fn policies_are_for_shared_devices() {
        check(r#"{"value":"1Gi"}"#, false, &[]);
        check(r#"{"value":"1Gi"}"#, true, &[]);
        check(
            r#"{"value":"1Gi","requestPolicy":{}}"#,
            false,
            &["c.requestPolicy: Forbidden: allowMultipleAllocations must be true"],
        );
        check_policy("{}", &[]);
        check_policy(r#"{"default":"1Gi"}"#, &[]);
        check_policy(
            r#"{"default":"1Gi","validValues":["1Gi"],"validRange":{"min":"1Gi"}}"#,
            &["c.requestPolicy: Forbidden: exactly one policy can be specified, cannot specify \"validValues\" and \
               \"validRange\" at the same time"],
        );
    }

    #[test]
    fn values() {
        check_policy(r#"{"default":"1Gi","validValues":["1Gi","10Gi"]}"#, &[]);
        check_policy(
            r#"{"validValues":["1Gi"]}"#,
            &["c.requestPolicy.default: Required value: required when validValues is defined"],
        );
        check_policy(
            r#"{"default":"1Gi","validValues":["2Gi","20Gi"]}"#,
            &[
                "c.requestPolicy.validValues[1]: Invalid value: \"20Gi\": option is larger than capacity value: 10Gi",
                "c.requestPolicy.validValues: Invalid value: \"1Gi\": default value is not valid according to the requestPolicy",
            ],
        );
        check_policy(
            r#"{"default":"1Gi","validValues":["2Gi","1Gi"]}"#,
            &["c.requestPolicy.validValues[1]: Invalid value: \"1Gi\": values must be sorted in ascending order"],
        );
        check_policy(
            r#"{"default":"1Ki","validValues":["1Ki","1024"]}"#,
            &["c.requestPolicy.validValues[1]: Duplicate value: \"1024\""],
        );
        // Upstream compares whole units, rounded up.
        check_policy(
            r#"{"default":"1","validValues":["500m","1"]}"#,
            &["c.requestPolicy.validValues[1]: Duplicate value: \"1\""],
        );
        let many: Vec<String> = (1..=11).map(|i| format!("\"{i}\"")).collect();
        check_policy(
            &format!(r#"{{"default":"1","validValues":[{}]}}"#, many.join(",")),
            &[
                "c.requestPolicy.validValues: Too many: 11: must have at most 10 items",
                "c.requestPolicy.validValues: Invalid value: \"1\": default value is not valid according to the requestPolicy",
            ],
        );
    }

    #[test]
    fn ranges() {
        let range = |default: &str, range: &str| format!(r#"{{"default":"{default}","validRange":{range}}}"#);
        check_policy(&range("1Gi", r#"{"min":"1Gi"}"#), &[]);
        check_policy(&range("1Gi", r#"{"min":"1Gi","max":"10Gi","step":"1Gi"}"#), &[]);
        check_policy(
            r#"{"validRange":{"min":"1Gi"}}"#,
            &["c.requestPolicy.default: Required value: required when validRange is defined"],
        );
        let path = "c.requestPolicy.validRange";
        check_policy(
            &range("1Gi", "{}"),
            &[&format!("{path}.min: Required value: required when validRange is defined")],
        );
        check_policy(
            &range("2Gi", r#"{"min":"20Gi","max":"1Gi"}"#),
            &[
                &format!("{path}.min: Invalid value: \"20Gi\": min is larger than capacity value: 10Gi"),
                &format!("{path}.min: Invalid value: \"2Gi\": default is less than min: 20Gi"),
                &format!("{path}.max: Invalid value: \"20Gi\": min is larger than max: 1Gi"),
                &format!("{path}.max: Invalid value: \"2Gi\": default is more than max: 1Gi"),
            ],
        );
        check_policy(
            &range("1Gi", r#"{"min":"1Gi","max":"20Gi"}"#),
            &[&format!("{path}.max: Invalid value: \"20Gi\": max is larger than capacity value: 10Gi")],
        );
        check_policy(
            &range("2Gi", r#"{"min":"1Gi","max":"10Gi","step":"2Gi"}"#),
            &[
                &format!(
                    "{path}.step: Invalid value: \"2Gi\": value is not a multiple of a given step (2Gi) from (1Gi)"
                ),
                &format!(
                    "{path}.step: Invalid value: \"10Gi\": value is not a multiple of a given step (2Gi) from (1Gi)"
                ),
            ],
        );
        check_policy(
            &range("1Gi", r#"{"min":"1Gi","step":"10Gi"}"#),
            &[&format!("{path}.step: Invalid value: \"10Gi\": one step 11Gi is larger than capacity value: 10Gi")],
        );
        for step in ["0", "-1"] {
            check_policy(
                &range("1Gi", &format!(r#"{{"min":"1Gi","step":"{step}"}}"#)),
                &[&format!("{path}.step: Invalid value: \"{step}\": must be greater than zero")],
            );
        }
        check(
            r#"{"value":"18446744073709551616","requestPolicy":{"default":"0","validRange":{"min":"0","step":"18446744073709551616"}}}"#,
            true,
            &[&format!(
                "{path}.step: Invalid value: \"18446744073709551616\": must not be larger than 9223372036854775807"
            )],
        );
    }
}
