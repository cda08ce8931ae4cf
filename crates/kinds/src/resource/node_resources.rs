//! The allocatable resources of a node for which a device stands (KEP-5517; upstream:
//! `validateNodeAllocatableResources`).

use pintle_value::{Errors, FieldError, FieldPath, Value};

use crate::core::pod::resources::{is_native, quantity};
use crate::go_json::{invalid_pointer, print};
use crate::validation::str_field;

/// Validates the resources of a device.
pub(super) fn validate_node_resources(errors: &mut Errors, device: &Value, path: &FieldPath<'_>) {
    validate_mappings(errors, device, &path.child("nodeAllocatableResourceMappings"));
    let path = path.child("nodeAllocatableResources");
    for (name, resource) in device.entries_at(&["nodeAllocatableResources"]) {
        let path = path.key(name);
        validate_name(errors, name, &path);
        let (mapping, overhead) = (resource.get("mapping"), resource.get("overhead"));
        if mapping.is_none() && overhead.is_none() {
            errors.required(&path, "at least one of mapping or overhead must be set");
        }
        if let Some(mapping) = mapping {
            validate_mapping(errors, device, mapping, &path.child("mapping"));
        }
        if let Some(overhead) = overhead {
            validate_overhead(errors, overhead, &path.child("overhead"));
        }
    }
}

fn validate_name(errors: &mut Errors, resource: &str, path: &FieldPath<'_>) {
    if !is_native(resource) {
        errors.push(invalid_pointer(path, resource, "must be a node allocatable resource name"));
    }
}

/// Validates how an amount of the resource follows from the capacity of a device, or from the number of devices.
fn validate_mapping(errors: &mut Errors, device: &Value, mapping: &Value, path: &FieldPath<'_>) {
    let multiplier = mapping.get("capacityMultiplier");
    let multiplier_path = path.child("capacityMultiplier");
    let key = str_field(mapping, "capacityKey");
    validate_capacity_key(errors, device, key, &path.child("capacityKey"));
    match (key, multiplier) {
        (Some(_), None) => errors.required(&multiplier_path, "capacityMultiplier is required when capacityKey is set"),
        (Some(_), Some(multiplier)) => require_positive(errors, multiplier, &multiplier_path),
        (None, _) => {}
    }
    if let Some(multiplier) = mapping.get("deviceMultiplier") {
        require_positive(errors, multiplier, &path.child("deviceMultiplier"));
    }
    if key.is_none() && multiplier.is_some() {
        errors.required(&path.child("capacityKey"), "capacityKey is required when capacityMultiplier is set");
    }
}

/// Requires that a device has the capacity with this key, if there is one.
fn validate_capacity_key(errors: &mut Errors, device: &Value, key: Option<&str>, path: &FieldPath<'_>) {
    match key {
        None => {}
        Some("") => errors.invalid(path, "", "capacityKey must not be an empty string"),
        Some(key) if device["capacity"].get(key).is_none() => {
            let value = Value::from(key);
            let shown = print(&value);
            errors.push(FieldError::not_found(path, value).showing(shown));
        }
        Some(_) => {}
    }
}

fn require_positive(errors: &mut Errors, value: &Value, path: &FieldPath<'_>) {
    let value = quantity(value);
    if value.sign() <= 0 {
        errors.invalid(path, value.to_string(), "must be positive");
    }
}

/// Validates what pods and containers with the device need in addition.
fn validate_overhead(errors: &mut Errors, overhead: &Value, path: &FieldPath<'_>) {
    const FIELDS: [&str; 2] = ["perPod", "perContainer"];
    if FIELDS.iter().all(|field| overhead.get(field).is_none()) {
        errors.invalid(path, "", "at least one of perPod or perContainer must be set");
    }
    for field in FIELDS {
        if let Some(value) = overhead.get(field).map(quantity).filter(|value| value.sign() < 0) {
            errors.invalid(&path.child(field), value.to_string(), "must be non-negative");
        }
    }
}

/// Validates the resources of a device in the form of 1.36.
fn validate_mappings(errors: &mut Errors, device: &Value, path: &FieldPath<'_>) {
    for (resource, mapping) in device.entries_at(&["nodeAllocatableResourceMappings"]) {
        let path = path.key(resource);
        validate_name(errors, resource, &path);
        let (multiplier, key) = (mapping.get("allocationMultiplier"), str_field(mapping, "capacityKey"));
        if multiplier.is_none() && key.is_none() {
            errors.invalid(&path, "", "at least one of allocationMultiplier or capacityKey must be set");
            continue;
        }
        if let Some(multiplier) = multiplier {
            require_positive(errors, multiplier, &path.child("allocationMultiplier"));
        }
        validate_capacity_key(errors, device, key, &path.child("capacityKey"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[track_caller]
    fn check(resources: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        let device =
            object(&format!(r#"{{"capacity":{{"m":{{"value":"1"}}}},"nodeAllocatableResources":{{{resources}}}}}"#));
        validate_node_resources(&mut errors, &device, &FieldPath::new("d"));
        let expect: Vec<String> = expect.iter().map(|text| format!("d.nodeAllocatableResources{text}")).collect();
        assert_eq!(messages(&errors), expect);
    }

    #[test]
    fn mappings_and_overheads_are_valid() {
        check(
            r#""cpu":{"mapping":{"capacityKey":"m","capacityMultiplier":"2"}},
               "memory":{"mapping":{"deviceMultiplier":"1Gi"},"overhead":{"perPod":"0"}}"#,
            &[],
        );
        check(
            r#""example.com/x":{},"memory":{"overhead":{}}"#,
            &[
                r#"[example.com/x]: Invalid value: "example.com/x": must be a node allocatable resource name"#,
                "[example.com/x]: Required value: at least one of mapping or overhead must be set",
                r#"[memory].overhead: Invalid value: "": at least one of perPod or perContainer must be set"#,
            ],
        );
        check(
            r#""cpu":{"overhead":{"perPod":"-1","perContainer":"-2"}}"#,
            &[
                r#"[cpu].overhead.perPod: Invalid value: "-1": must be non-negative"#,
                r#"[cpu].overhead.perContainer: Invalid value: "-2": must be non-negative"#,
            ],
        );
    }

    #[test]
    fn keys_and_multipliers_go_together() {
        check(
            r#""cpu":{"mapping":{"capacityKey":"","deviceMultiplier":"0"}}"#,
            &[
                r#"[cpu].mapping.capacityKey: Invalid value: "": capacityKey must not be an empty string"#,
                "[cpu].mapping.capacityMultiplier: Required value: capacityMultiplier is required when capacityKey is set",
                r#"[cpu].mapping.deviceMultiplier: Invalid value: "0": must be positive"#,
            ],
        );
        check(
            r#""cpu":{"mapping":{"capacityKey":"n","capacityMultiplier":"-1"}}"#,
            &[
                r#"[cpu].mapping.capacityKey: Not found: "n""#,
                r#"[cpu].mapping.capacityMultiplier: Invalid value: "-1": must be positive"#,
            ],
        );
        check(
            r#""cpu":{"mapping":{"capacityMultiplier":"1"}}"#,
            &["[cpu].mapping.capacityKey: Required value: capacityKey is required when capacityMultiplier is set"],
        );
    }
}
