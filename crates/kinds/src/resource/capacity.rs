//! The policies of capacity that several requests share (upstream: `validateRequestPolicy`). Quantities are compared
//! exactly. Steps are checked in whole units, or in thousandths with the feature `DRAFractionalCapacityRange`, as in
//! upstream.

use pintle_gates::{Change, Feature, Gates};
use pintle_value::{Errors, FieldError, FieldPath, Quantity, Value};

use super::collections::validate_set;
use crate::core::pod::resources::quantity;

/// The maximum number of values of a policy.
const MAX_VALUES: usize = 10;

/// Validates the capacity of a device. Only devices with several allocations have policies.
pub(super) fn validate_capacity(
    errors: &mut Errors,
    gates: &Gates,
    capacity: &Value,
    is_shared: bool,
    path: &FieldPath<'_>,
) {
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
            Some(default) => {
                validate_values(errors, gates, values, (&default, &available), &path.child("validValues"));
            }
        },
        (Some(range), []) => match default {
            None => errors.required(&path.child("default"), "required when validRange is defined"),
            Some(default) => {
                let policy = RangePolicy { range, default: &default, available: &available };
                policy.validate(errors, gates, &path.child("validRange"));
            }
        },
    }
}

fn invalid(errors: &mut Errors, path: &FieldPath<'_>, value: &Quantity, detail: impl Into<String>) {
    errors.push(FieldError::invalid(path, value.to_string(), detail));
}

/// Validates the values that requests may have, of which one is the default.
fn validate_values(
    errors: &mut Errors,
    gates: &Gates,
    values: &[Value],
    (default, available): (&Quantity, &Quantity),
    path: &FieldPath<'_>,
) {
    let has_fractions = gates.is_enabled(Feature::DRA_FRACTIONAL_CAPACITY_RANGE);
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
        |value| match quantity(value) {
            exact if has_fractions && is_fraction(&exact) => format!("\"{}\"", exact.canonical()),
            whole => format!("\"{}\"", whole.value()),
        },
    );
    if !found_default {
        invalid(errors, path, default, "default value is not valid according to the requestPolicy");
    }
}

/// Whether a quantity is no whole number.
fn is_fraction(quantity: &Quantity) -> bool {
    // The copy is exact if no digit is cut off.
    !quantity.clone().round_up(0)
}

/// A range of values that requests may have.
#[derive(Clone, Copy)]
struct RangePolicy<'p> {
    range: &'p Value,
    default: &'p Quantity,
    available: &'p Quantity,
}

/// The quantities of a range that are set, each with its field.
type Bounds<'b> = [(&'static str, Option<&'b Quantity>); 4];

impl RangePolicy<'_> {
    fn validate(self, errors: &mut Errors, gates: &Gates, path: &FieldPath<'_>) {
        let Self { range, default, available } = self;
        let of = |field: &str| range.get(field).map(quantity);
        let (min_path, max_path, step_path) = (path.child("min"), path.child("max"), path.child("step"));
        let Some(min) = of("min") else { return errors.required(&min_path, "required when validRange is defined") };
        let has_limits = gates.has(Change::CAPACITY_RANGES_HAVE_LIMITS);
        let default_path = path.child("default");
        let [below_path, above_path] = if has_limits { [&default_path, &default_path] } else { [&min_path, &max_path] };
        if min > *available {
            invalid(errors, &min_path, &min, format!("min is larger than capacity value: {available}"));
        }
        if *default < min {
            invalid(errors, below_path, default, format!("default is less than min: {min}"));
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
                invalid(errors, above_path, default, format!("default is more than max: {max}"));
            }
        }
        let step = of("step");
        if let Some(step) = &step {
            // 1.36.0 fails at a step of zero. Upstream has corrected its errors about such steps later.
            if step.sign() <= 0 {
                return invalid(errors, &step_path, step, "must be greater than zero");
            }
            let mut added = min.clone();
            added.add(step);
            if added > *available {
                let detail = format!("one step {added} is larger than capacity value: {available}");
                invalid(errors, &step_path, step, detail);
            }
        }
        let bounds = [("default", Some(default)), ("min", Some(&min)), ("max", max.as_ref()), ("step", step.as_ref())];
        let has_fractions = gates.is_enabled(Feature::DRA_FRACTIONAL_CAPACITY_RANGE)
            && bounds.iter().any(|(_, value)| value.is_some_and(is_fraction));
        if has_fractions {
            if !has_thousandths(errors, &bounds, path) {
                return;
            }
        } else if has_limits && step.is_some() && !fits(errors, &bounds, path) {
            return;
        }
        if let Some(step) = &step {
            let unit = if has_fractions { Quantity::milli_value } else { Quantity::value };
            validate_steps(errors, unit, (&min, step), [Some(default), max.as_ref()], &step_path);
        }
    }
}

/// Requires that the quantities are whole thousandths. Returns false after the first that is not.
fn has_thousandths(errors: &mut Errors, bounds: &Bounds<'_>, path: &FieldPath<'_>) -> bool {
    for (field, value) in bounds {
        let Some(value) = value else { continue };
        let mut rounded = (*value).clone();
        let is_exact = rounded.round_up(-3) && Quantity::scaled(value.milli_value(), -3, value.format()) == **value;
        if !is_exact {
            invalid(errors, &path.child(field), value, "value cannot be represented as a milli value");
            return false;
        }
    }
    true
}

/// Requires that the quantities are no negative numbers and fit 64 bits. Returns whether they do.
fn fits(errors: &mut Errors, bounds: &Bounds<'_>, path: &FieldPath<'_>) -> bool {
    let before = errors.count();
    for (field, value) in bounds {
        let Some(value) = value else { continue };
        if value.sign() < 0 {
            invalid(errors, &path.child(field), value, "must be greater than or equal to 0");
        } else if value.cmp_int(i64::MAX).is_gt() {
            invalid(errors, &path.child(field), value, format!("must not be larger than {}", i64::MAX));
        }
    }
    errors.count() == before
}

/// Requires that values are some steps away from the minimum. Steps are counted in a unit.
fn validate_steps(
    errors: &mut Errors,
    unit: fn(&Quantity) -> i64,
    (min, step): (&Quantity, &Quantity),
    values: [Option<&Quantity>; 2],
    path: &FieldPath<'_>,
) {
    for value in values.into_iter().flatten() {
        // Quantities that do not fit 64 bits can be read as zero.
        match unit(value).wrapping_sub(unit(min)).checked_rem(unit(step)) {
            None => {
                let detail = format!("must not be larger than {}", i64::MAX);
                return invalid(errors, path, step, detail);
            }
            Some(0) => {}
            Some(_) => {
                let detail = format!("value is not a multiple of a given step ({step}) from ({min})");
                invalid(errors, path, value, detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_versions::{EffectiveVersion, Minor};

    use super::*;
    use crate::testing::{messages, object};

    #[track_caller]
    fn check(capacity: &str, is_shared: bool, expect: &[&str]) {
        check_in(&Gates::default(), capacity, is_shared, expect);
    }

    #[track_caller]
    fn check_in(gates: &Gates, capacity: &str, is_shared: bool, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_capacity(&mut errors, gates, &object(capacity), is_shared, &FieldPath::new("c"));
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

    /// Compares the errors of 1.37 about a capacity of 10 with a policy.
    #[track_caller]
    fn check_newer(has_fractions: bool, policy: &str, expect: &[&str]) {
        let compatibility = if has_fractions { Minor::new(37) } else { Minor::new(36) };
        let version = EffectiveVersion::of(Minor::new(37)).compatible_with(compatibility).expect("versions that fit");
        let gates = Gates::of(version);
        assert_eq!(gates.is_enabled(Feature::DRA_FRACTIONAL_CAPACITY_RANGE), has_fractions);
        let expect: Vec<String> = expect.iter().map(|text| text.replace('$', "c.requestPolicy")).collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        check_in(&gates, &format!(r#"{{"value":"10","requestPolicy":{policy}}}"#), true, &expect);
    }

    #[test]
    fn fractions_are_exact_with_their_feature() {
        let values = r#"{"default":"1","validValues":["500m","0.50","1"]}"#;
        check_newer(true, values, &["$.validValues[1]: Duplicate value: \"500m\""]);
        check_newer(
            false,
            values,
            &["$.validValues[1]: Duplicate value: \"1\"", "$.validValues[2]: Duplicate value: \"1\""],
        );
        let range = |step: &str| format!(r#"{{"default":"1500m","validRange":{{"min":"500m","step":"{step}"}}}}"#);
        check_newer(true, &range("250m"), &[]);
        check_newer(
            true,
            &range("300m"),
            &[
                "$.validRange.step: Invalid value: \"1500m\": value is not a multiple of a given step (300m) from (500m)",
            ],
        );
        check_newer(
            true,
            &range("1u"),
            &["$.validRange.step: Invalid value: \"1u\": value cannot be represented as a milli value"],
        );
        // In whole units, all values are rounded up.
        check_newer(false, &range("250m"), &[]);
    }

    #[test]
    fn ranges_of_newer_versions_have_limits() {
        check_newer(
            true,
            r#"{"default":"1","validRange":{"min":"2","max":"0"}}"#,
            &[
                "$.validRange.default: Invalid value: \"1\": default is less than min: 2",
                "$.validRange.max: Invalid value: \"2\": min is larger than max: 0",
                "$.validRange.default: Invalid value: \"1\": default is more than max: 0",
            ],
        );
        check_newer(
            true,
            r#"{"default":"-1","validRange":{"min":"-1","max":"9223372036854775808","step":"1"}}"#,
            &[
                "$.validRange.max: Invalid value: \"9223372036854775808\": max is larger than capacity value: 10",
                "$.validRange.default: Invalid value: \"-1\": must be greater than or equal to 0",
                "$.validRange.min: Invalid value: \"-1\": must be greater than or equal to 0",
                "$.validRange.max: Invalid value: \"9223372036854775808\": must not be larger than 9223372036854775807",
            ],
        );
    }
}
