//! Rules that newer kinds state as markers of their types, with upstream's messages (upstream:
//! `apimachinery/pkg/api/validate`). Upstream validates objects at the version of the request with them.

use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldError, FieldPath, Value, ValueKey, repeated, same};

use crate::validation::invalid_each;

/// How upstream prints the value of errors that have none.
const NO_VALUE: &str = "\"null\"";

/// A format of strings: returns the errors of a string.
pub(crate) type Format = fn(&str) -> Vec<String>;

/// Requires a string of a format (`+k8s:required`, `+k8s:format`).
pub(crate) fn require_format(errors: &mut Errors, object: &Value, field: &str, format: Format, path: &FieldPath<'_>) {
    match object.str_at(&[field]) {
        "" => errors.required(&path.child(field), ""),
        text => invalid_each(errors, &path.child(field), text, format(text)),
    }
}

/// Validates the format of a string if it is there (`+k8s:optional`, `+k8s:format`). Only fields without a pointer may
/// be empty.
pub(crate) fn validate_format(errors: &mut Errors, object: &Value, field: &str, format: Format, path: &FieldPath<'_>) {
    if let Some(text) = object.get(field).and_then(Value::as_str) {
        invalid_each(errors, &path.child(field), text, format(text));
    }
}

/// Rejects a number outside of a range if it is there (`+k8s:minimum`, `+k8s:maximum`).
pub(crate) fn validate_range(
    errors: &mut Errors,
    object: &Value,
    field: &str,
    (least, most): (i64, Option<i64>),
    path: &FieldPath<'_>,
) {
    let Some(number) = object.int_at(&[field]) else { return };
    if number < least {
        errors.invalid(&path.child(field), number, format!("must be greater than or equal to {least}"));
    }
    if let Some(most) = most.filter(|most| number > *most) {
        errors.invalid(&path.child(field), number, format!("must be less than or equal to {most}"));
    }
}

/// Requires exactly one of the members of a union (`+k8s:unionMember`), whose values do not matter.
pub(crate) fn validate_union(errors: &mut Errors, object: &Value, members: &[&str], path: &FieldPath<'_>) {
    let set: Vec<&str> = members.iter().copied().filter(|member| object.get(member).is_some()).collect();
    let all = members.iter().map(|member| format!("`{member}`")).collect::<Vec<_>>().join(", ");
    match set.len() {
        0 => errors.invalid(path, "", format!("must specify one of: {all}")),
        1 => {}
        _ => {
            let detail = format!("must specify exactly one of: {all}");
            errors.invalid(path, format!("{{{}}}", set.join(", ")), detail);
        }
    }
}

/// True if a list is short enough (`+k8s:maxItems`). The items of a longer list are not validated.
pub(crate) fn validate_max_items(errors: &mut Errors, items: &[Value], most: usize, path: &FieldPath<'_>) -> bool {
    if items.len() > most {
        errors.push(FieldError::too_many(path, items.len(), most));
    }
    items.len() <= most
}

/// Rejects items with the same key (`+k8s:listMapKey`), from the second on.
pub(crate) fn validate_unique(errors: &mut Errors, items: &[Value], key: &str, path: &FieldPath<'_>) {
    for i in repeated(items.iter().map(|item| ValueKey(&item[key]))) {
        errors.duplicate(&path.index(i), items[i].clone());
    }
}

/// Rejects a change of a field (`+k8s:immutable`). True if the field is unchanged; a changed field is not validated
/// further.
pub(crate) fn validate_unchanged(
    errors: &mut Errors,
    new: Option<&Value>,
    old: Option<&Value>,
    path: &FieldPath<'_>,
) -> bool {
    let unchanged = same(new, old);
    if !unchanged {
        errors.push(FieldError::invalid(path, Value::Null, IMMUTABLE_TEXT).showing(NO_VALUE));
    }
    unchanged
}

#[cfg(test)]
mod tests {
    use pintle_value::names;

    use super::*;
    use crate::testing::{messages, object};

    fn check(rule: impl FnOnce(&mut Errors, &Value, &FieldPath<'_>), sent: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        rule(&mut errors, &object(sent), &FieldPath::new("p"));
        assert_eq!(messages(&errors), expect, "{sent}");
    }

    #[test]
    fn markers_have_their_messages() {
        let required = |errors: &mut Errors, object: &Value, path: &FieldPath<'_>| {
            require_format(errors, object, "f", names::short_name, path);
        };
        check(required, r#"{"f":"a"}"#, &[]);
        check(required, "{}", &["p.f: Required value"]);
        let range = |errors: &mut Errors, object: &Value, path: &FieldPath<'_>| {
            validate_range(errors, object, "f", (1, Some(3)), path);
        };
        check(range, r#"{"f":3}"#, &[]);
        check(range, r#"{"f":0}"#, &["p.f: Invalid value: 0: must be greater than or equal to 1"]);
        check(range, r#"{"f":4}"#, &["p.f: Invalid value: 4: must be less than or equal to 3"]);
        let union = |errors: &mut Errors, object: &Value, path: &FieldPath<'_>| {
            validate_union(errors, object, &["a", "b"], path);
        };
        check(union, r#"{"a":{}}"#, &[]);
        check(union, "{}", &["p: Invalid value: \"\": must specify one of: `a`, `b`"]);
        let both = "p: Invalid value: \"{a, b}\": must specify exactly one of: `a`, `b`";
        check(union, r#"{"a":{},"b":{}}"#, &[both]);
        let unique = |errors: &mut Errors, object: &Value, path: &FieldPath<'_>| {
            validate_unique(errors, object.items_at(&["f"]), "k", path);
        };
        check(unique, r#"{"f":[{"k":"x"},{"k":"y"}]}"#, &[]);
        check(unique, r#"{"f":[{"k":"x"},{"k":"x"}]}"#, &[r#"p[1]: Duplicate value: {"k":"x"}"#]);
        let unchanged = |errors: &mut Errors, object: &Value, path: &FieldPath<'_>| {
            validate_unchanged(errors, object.get("new"), object.get("old"), path);
        };
        check(unchanged, r#"{"new":[],"old":null}"#, &[]);
        check(unchanged, r#"{"new":1,"old":2}"#, &["p: Invalid value: \"null\": field is immutable"]);
    }
}
