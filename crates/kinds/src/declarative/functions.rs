//! The rules of values that are code: `data/rules.txt` names them (`check=NAME`).

use pintle_value::{Errors, FieldPath, Quantity, Value};

use crate::admissionregistration::match_rules;
use crate::flowcontrol::flow_schema;
use crate::validation::validate_port_number_or_name;

/// Adds the errors of a value.
pub(super) type Function = fn(&mut Errors, &Value, &FieldPath<'_>);

/// The function with a name.
pub(super) fn of(name: &str) -> Option<Function> {
    Some(match name {
        "admission-resources" => match_rules::validate_resources,
        "flow-distinguisher" => flow_schema::validate_distinguisher,
        "flow-namespaces" => flow_schema::validate_namespaces,
        "flow-rules" => flow_schema::validate_rules,
        "flow-subject" => flow_schema::validate_subject,
        "flow-urls" => flow_schema::validate_urls,
        "flow-verbs" => flow_schema::validate_verbs,
        "nonnegative-quantity" => |errors, value, path| {
            check_sign(errors, value, path, |sign| sign >= 0, "must be greater than or equal to 0");
        },
        "port-or-name" => |errors, value, path| validate_port_number_or_name(errors, path, Some(value)),
        "positive-quantity" => {
            |errors, value, path| check_sign(errors, value, path, |sign| sign > 0, "must be positive")
        }
        _ => return None,
    })
}

/// The function for `customValidation` of a field of a type. The values are set, because the fields are required.
pub(super) fn custom(package: &str, owner: &str, field: &str) -> Option<Function> {
    Some(match (package, owner, field) {
        ("core/v1", "EvictionResponder", "name") | ("lifecycle/v1alpha1", "EvictionRequestSpec", "requester") => {
            |errors, value, path| {
                let name = value.as_str().unwrap_or_default();
                if is_reserved_for_kubernetes(name) {
                    errors.invalid(path, name, "domain names *.k8s.io, *.kubernetes.io are reserved");
                }
            }
        }
        ("core/v1", "EvictionResponder", "priority") => |errors, value, path| {
            if let Some(priority) = value.as_int().filter(|priority| (0..1000).contains(priority)) {
                errors.invalid(path, priority, "priorities 0-999 are reserved for responders with *.k8s.io suffix");
            }
        },
        ("meta/v1", "Condition", "lastTransitionTime") => |errors, value, path| {
            if value.is_null() {
                errors.required(path, "");
            }
        },
        _ => return None,
    })
}

/// Whether the domain of a label key belongs to Kubernetes.
fn is_reserved_for_kubernetes(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain).trim().trim_end_matches('.').to_lowercase();
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|reserved| domain.strip_suffix(reserved).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.')))
}

fn check_sign(errors: &mut Errors, value: &Value, path: &FieldPath<'_>, is_valid: fn(i32) -> bool, detail: &str) {
    if let Ok(quantity) = Quantity::from_value(value)
        && !is_valid(quantity.sign())
    {
        errors.invalid(path, quantity.canonical(), detail);
    }
}
