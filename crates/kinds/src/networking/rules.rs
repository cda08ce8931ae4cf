//! Checks that the rules of services, networking, discovery and RBAC kinds are made of: names, known values, labels and
//! label selectors, with upstream's wording.

use pintle_value::{Errors, FieldPath, Value, names};

/// The string that a pointer field holds; absence and the empty string differ.
pub(crate) fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field).and_then(Value::as_str)
}

/// The strings of an array at a path.
pub(crate) fn strings<'v>(object: &'v Value, path: &[&str]) -> Vec<&'v str> {
    object.items_at(path).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

/// One error of the kind `Invalid` per message.
pub(crate) fn invalid_each(
    errors: &mut Errors,
    path: &FieldPath<'_>,
    value: impl Into<Value>,
    messages: impl IntoIterator<Item = String>,
) {
    let value = value.into();
    for message in messages {
        errors.invalid(path, value.clone(), message);
    }
}

/// Requires a value, which must be one of those that are known.
pub(crate) fn required_one_of(errors: &mut Errors, path: &FieldPath<'_>, value: &str, known: &[&str]) {
    if value.is_empty() {
        errors.required(path, "");
    } else if !known.contains(&value) {
        errors.not_supported(path, value, known);
    }
}

/// Requires the name of something that is part of a URL.
pub(crate) fn required_path_segment(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        invalid_each(errors, path, value, names::path_segment_name(value, false));
    }
}

/// Checks labels (upstream: `ValidateLabels`).
pub(crate) fn labels(errors: &mut Errors, path: &FieldPath<'_>, labels: Option<&Value>) {
    let entries = labels.and_then(Value::as_object).into_iter().flat_map(pintle_value::Object::iter);
    for (key, value) in entries {
        let value = value.as_str().unwrap_or_default();
        invalid_each(errors, path, key, names::qualified_name(key));
        invalid_each(errors, path, value, names::label_value(value));
    }
}

/// Checks a label selector (upstream: `ValidateLabelSelector`). Values that are no label values are let through where an
/// object has such already.
pub(crate) fn label_selector(errors: &mut Errors, path: &FieldPath<'_>, selector: &Value, any_value: bool) {
    labels(errors, &path.child("matchLabels"), selector.get("matchLabels"));
    let expressions = path.child("matchExpressions");
    for (i, requirement) in selector.items_at(&["matchExpressions"]).iter().enumerate() {
        let path = expressions.index(i);
        let values = strings(requirement, &["values"]);
        let values_path = path.child("values");
        match requirement.str_at(&["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                errors.required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.forbidden(&values_path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
        let key = requirement.str_at(&["key"]);
        invalid_each(errors, &path.child("key"), key, names::qualified_name(key));
        if !any_value {
            for (i, value) in values.into_iter().enumerate() {
                invalid_each(errors, &values_path.index(i), value, names::label_value(value));
            }
        }
    }
}

/// True if a label selector is not valid.
pub(crate) fn bad_label_selector(selector: &Value) -> bool {
    let mut errors = Errors::new();
    label_selector(&mut errors, &FieldPath::root(), selector, false);
    !errors.is_empty()
}

/// Checks the addresses that a load balancer has (upstream: `ValidateIngressLoadBalancerStatus` and the like); `old`
/// holds those of the old object, which are accepted as they are.
pub(crate) fn balancer_hostname(errors: &mut Errors, path: &FieldPath<'_>, host: &str) {
    if host.is_empty() {
        return;
    }
    invalid_each(errors, path, host, names::dns1123_subdomain(host));
    if super::address::parse_ip(host).is_some() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[test]
    fn selectors() {
        let check = |selector: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            label_selector(&mut errors, &FieldPath::new("s"), &object(selector), false);
            assert_eq!(messages(&errors), expect);
        };
        check(r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"Exists"}]}"#, &[]);
        check(
            r#"{"matchExpressions":[{"key":"k","operator":"In"},{"key":"k","operator":"Exists","values":["x"]},{"key":"k","operator":"Like"}]}"#,
            &[
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "s.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator",
            ],
        );
    }
}
