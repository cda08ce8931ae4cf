//! Validates numbers of pods that may be an integer or a percentage (upstream: `ValidatePositiveIntOrPercent` and
//! similar functions in `pkg/apis/apps/validation`).

use pintle_value::{Errors, FieldPath, Value, names};

use crate::validation::invalid_each;

/// Rejects a value that is neither a non-negative integer nor a percentage.
pub(crate) fn validate(errors: &mut Errors, value: Option<&Value>, path: &FieldPath<'_>) {
    match value {
        Some(Value::String(text)) => {
            invalid_each(errors, path, text, names::percent(text));
        }
        Some(Value::Int(number)) => crate::validation::reject_negative(errors, path, *number),
        _ => {}
    }
}

/// Rejects more than 100%.
pub(crate) fn validate_at_most_100_percent(errors: &mut Errors, value: Option<&Value>, path: &FieldPath<'_>) {
    if percentage(value).is_some_and(|percentage| percentage > 100) {
        errors.invalid(path, value.cloned(), "must not be greater than 100%");
    }
}

/// Returns the number or the percentage, or 0 for any other value.
pub(crate) fn int_or_percent_value(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        Some(Value::String(text)) => percentage(value).unwrap_or_else(|| text.parse().unwrap_or(0)),
        _ => 0,
    }
}

fn percentage(value: Option<&Value>) -> Option<i64> {
    let text = value?.as_str()?;
    if !names::percent(text).is_empty() {
        return None;
    }
    // A percentage that overflows the integer is greater than 100.
    text.strip_suffix('%').map(|digits| digits.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::messages;

    #[test]
    fn numbers_and_percentages() {
        let check = |value: Value, expect: &[&str], number: i64| {
            let mut errors = Errors::new();
            validate(&mut errors, Some(&value), &FieldPath::new("n"));
            validate_at_most_100_percent(&mut errors, Some(&value), &FieldPath::new("n"));
            assert_eq!(messages(&errors), expect);
            assert_eq!(int_or_percent_value(Some(&value)), number);
        };
        check(Value::from(3), &[], 3);
        check(Value::from(-1), &["n: Invalid value: -1: must be greater than or equal to 0"], -1);
        check(Value::from("25%"), &[], 25);
        check(Value::from("101%"), &["n: Invalid value: \"101%\": must not be greater than 100%"], 101);
        let long = "99999999999999999999%";
        check(Value::from(long), &[&format!("n: Invalid value: \"{long}\": must not be greater than 100%")], i64::MAX);
        let text = names::percent("7").join("");
        check(Value::from("7"), &[&format!("n: Invalid value: \"7\": {text}")], 7);
    }
}
