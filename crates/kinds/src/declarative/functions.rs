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

fn check_sign(errors: &mut Errors, value: &Value, path: &FieldPath<'_>, is_valid: fn(i32) -> bool, detail: &str) {
    if let Ok(quantity) = Quantity::from_value(value)
        && !is_valid(quantity.sign())
    {
        errors.invalid(path, quantity.canonical(), detail);
    }
}
