//! Validation helpers that many kinds share, with upstream's messages: names, enums, numbers, required fields, ports
//! (upstream: `apimachinery/pkg/api/validation` and the helpers of `pkg/apis/core/validation`).

use pintle_value::metadata::validate_nonnegative;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

/// Returns the string of a pointer field. Absence and the empty string differ.
pub(crate) fn str_field<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field).and_then(Value::as_str)
}

/// Returns the strings of an array at a path.
pub(crate) fn strings_at<'v>(object: &'v Value, path: &[&str]) -> Vec<&'v str> {
    object.items_at(path).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

/// Returns true if one of the strings of a list is `*`.
pub(crate) fn has_wildcard(items: &[Value]) -> bool {
    items.iter().any(|item| item.as_str() == Some("*"))
}

/// The maximum number of errors that show the same list, or repeat a message about one item. Upstream has one for each
/// item of the list, so that their text grows with the square of its length.
pub(crate) const MAX_REPEATED_ERRORS: usize = 100;

/// Adds one `Invalid` error per message.
pub(crate) fn invalid_each(
    errors: &mut Errors,
    path: &FieldPath<'_>,
    value: impl Into<Value>,
    messages: impl IntoIterator<Item = String>,
) {
    let mut messages = messages.into_iter().peekable();
    if messages.peek().is_none() {
        return;
    }
    let value = value.into();
    for message in messages {
        errors.invalid(path, value.clone(), message);
    }
}

/// Rejects a value that is not a DNS label.
pub(crate) fn validate_dns_label(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    invalid_each(errors, path, value, names::dns1123_label(value));
}

/// Rejects a value that is not a DNS subdomain.
pub(crate) fn validate_dns_subdomain(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    invalid_each(errors, path, value, names::dns1123_subdomain(value));
}

/// Rejects a value that is not a valid object name.
pub(crate) fn validate_object_name(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    invalid_each(errors, path, value, names::dns1123_subdomain_name(value, false));
}

/// Rejects a value that is not a qualified name.
pub(crate) fn validate_qualified_name(errors: &mut Errors, path: &FieldPath<'_>, value: &str) {
    invalid_each(errors, path, value, names::qualified_name(value));
}

/// Requires each of the fields to be non-empty.
pub(crate) fn require_fields(errors: &mut Errors, object: &Value, fields: &[&str], path: &FieldPath<'_>) {
    for field in fields {
        if object.get(field).is_none_or(Value::is_empty) {
            errors.required(&path.child(field), "");
        }
    }
}

/// Rejects a value that is present and not among the known ones.
pub(crate) fn validate_one_of(errors: &mut Errors, path: &FieldPath<'_>, value: Option<&str>, known: &[&str]) {
    if let Some(value) = value.filter(|v| !known.contains(v)) {
        errors.not_supported(path, value, known);
    }
}

/// Requires a value that is among the known ones.
pub(crate) fn require_one_of(errors: &mut Errors, path: &FieldPath<'_>, value: &str, known: &[&str]) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        validate_one_of(errors, path, Some(value), known);
    }
}

/// Rejects a negative number.
pub(crate) fn reject_negative(errors: &mut Errors, path: &FieldPath<'_>, value: impl Into<Option<i64>>) {
    if let Some(value) = value.into() {
        errors.append(validate_nonnegative(value, path));
    }
}

/// Rejects status counters greater than `replicas`, and more available replicas than ready ones. `ready` is the name of
/// the ready counter in the message.
pub(crate) fn validate_replica_counts(errors: &mut Errors, object: &Value, counters: &[&str], ready: &str) {
    let path = FieldPath::new("status");
    let count = |field: &str| object.int_at(&["status", field]).unwrap_or(0);
    let mut at_most = |field: &str, most: &str, name: &str| {
        if count(field) > count(most) {
            errors.invalid(&path.child(field), count(field), format!("cannot be greater than {name}"));
        }
    };
    for field in counters {
        at_most(field, "replicas", "status.replicas");
    }
    at_most("availableReplicas", "readyReplicas", ready);
}

/// Rejects a number that is not positive.
pub(crate) fn require_positive(errors: &mut Errors, path: &FieldPath<'_>, value: i64) {
    if value <= 0 {
        errors.invalid(path, value, "must be greater than zero");
    }
}

/// Rejects a port that is neither a number in range nor a well-formed name (upstream: `ValidatePortNumOrName`).
pub(crate) fn validate_port_number_or_name(errors: &mut Errors, path: &FieldPath<'_>, port: Option<&Value>) {
    match port {
        Some(Value::String(name)) => invalid_each(errors, path, name, names::port_name(name)),
        // An absent port counts as the number 0.
        other => {
            let number = other.and_then(Value::as_int).unwrap_or(0);
            invalid_each(errors, path, number, names::port_number(number));
        }
    }
}

/// Validates the name of a signer, which consists of a domain and a path (upstream: `ValidateSignerName`).
pub(crate) fn validate_signer_name(errors: &mut Errors, signer: &str, path: &FieldPath<'_>) {
    const MAX_SUBDOMAIN: usize = 253;
    const MAX_LABEL: usize = 63;
    if signer.is_empty() {
        errors.required(path, "");
        return;
    }
    let segments: Vec<&str> = signer.split('/').collect();
    let [domain, tail] = segments[..] else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.invalid(path, signer, detail);
        return;
    };
    if domain.len() > MAX_SUBDOMAIN {
        errors.push(FieldError::too_long(path, MAX_SUBDOMAIN));
    }
    validate_labels_until_error(errors, domain, names::dns1123_label, path);
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    validate_labels_until_error(errors, tail, names::dns1123_subdomain, path);
    let longest = MAX_SUBDOMAIN + (MAX_SUBDOMAIN + MAX_LABEL + 1) + 1;
    if signer.len() > longest {
        errors.push(FieldError::too_long(path, longest));
    }
}

/// Whether the name of a signer is reserved for the Kubernetes project.
pub(crate) fn is_kubernetes_signer(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

/// Validates the hints of a pod's author to a signer: annotations whose keys have a domain (upstream:
/// `ValidateUserAnnotations`). The case of keys does not matter.
pub(crate) fn validate_user_annotations(errors: &mut Errors, annotations: &Value, path: &FieldPath<'_>) {
    const MAX_SIZE: usize = 256 * 1024;
    for (key, _) in annotations.entries_at(&[]) {
        errors.append(names::domain_prefixed_key(path, &key.to_lowercase()));
    }
    let size: usize = annotations.entries_at(&[]).map(|(key, value)| key.len() + value.str_at(&[]).len()).sum();
    if size > MAX_SIZE {
        errors.push(FieldError::too_long(path, MAX_SIZE));
    }
}

/// Validates the labels of a part of a signer name up to the first error.
fn validate_labels_until_error(errors: &mut Errors, part: &str, check: fn(&str) -> Vec<String>, path: &FieldPath<'_>) {
    let checked = part.split('.').map(|label| (label, check(label)));
    if let Some((label, faults)) = checked.into_iter().find(|(_, faults)| !faults.is_empty()) {
        for fault in faults {
            errors.invalid(path, part, format!("validating label {label:?}: {fault}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(rule: impl FnOnce(&mut Errors, &FieldPath<'_>), expect: &[&str]) {
        let mut errors = Errors::new();
        rule(&mut errors, &FieldPath::new("p"));
        assert_eq!(messages(&errors), expect);
    }

    #[test]
    fn unknown_values_are_rejected() {
        let known = ["A", "B"];
        let complaint = "p: Unsupported value: \"C\": supported values: \"A\", \"B\"";
        check(|errors, path| require_one_of(errors, path, "A", &known), &[]);
        check(|errors, path| require_one_of(errors, path, "", &known), &["p: Required value"]);
        check(|errors, path| require_one_of(errors, path, "C", &known), &[complaint]);
        check(|errors, path| validate_one_of(errors, path, None, &known), &[]);
        check(|errors, path| validate_one_of(errors, path, Some("C"), &known), &[complaint]);
    }

    #[test]
    fn numbers_and_ports() {
        let negative = "p: Invalid value: -1: must be greater than or equal to 0";
        check(|errors, path| reject_negative(errors, path, None), &[]);
        check(|errors, path| reject_negative(errors, path, 0), &[]);
        check(|errors, path| reject_negative(errors, path, -1), &[negative]);
        check(|errors, path| require_positive(errors, path, 0), &["p: Invalid value: 0: must be greater than zero"]);
        let of_range = "p: Invalid value: 0: must be between 1 and 65535, inclusive";
        check(|errors, path| validate_port_number_or_name(errors, path, None), &[of_range]);
        check(|errors, path| validate_port_number_or_name(errors, path, Some(&Value::from("http"))), &[]);
        check(|errors, path| require_fields(errors, &object(r#"{"a":""}"#), &["a"], path), &["p.a: Required value"]);
    }
}
