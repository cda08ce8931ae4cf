//! The attribute of a slice that tells the types of its partitions apart (upstream:
//! `validatePartitionTypeAttribute`).

use pintle_value::{Errors, FieldPath, Value};

use super::go_types::ATTRIBUTE;
use crate::go_json;

const FIELD: &str = "partitionTypeAttribute";

/// Requires that the devices that consume counters have the attribute, and that it is a string.
pub(super) fn validate_partition_type(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let Some(name) = spec.get(FIELD).and_then(Value::as_str) else { return };
    let consumes = |device: &Value| !device.items_at(&["consumesCounters"]).is_empty();
    let devices = spec.items_at(&["devices"]);
    if !devices.iter().any(consumes) {
        let detail = "may only be set on a slice which declares devices that consume counters";
        errors.invalid(&path.child(FIELD), name, detail);
    }
    // Another rule reports a malformed name.
    let Some((domain, id)) = name.split_once('/').filter(|(domain, id)| !domain.is_empty() && !id.is_empty()) else {
        return;
    };
    let devices_path = path.child("devices");
    for (i, device) in devices.iter().enumerate().filter(|(_, device)| consumes(device)) {
        let attributes = &device["attributes"];
        // The domain of a name without one is the driver.
        let short = (domain == spec.str_at(&["driver"])).then(|| attributes.get(id)).flatten();
        let path = devices_path.index(i);
        let path = path.child("attributes");
        let path = path.key(name);
        match attributes.get(name).or(short) {
            None => errors.required(
                &path,
                "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set",
            ),
            Some(attribute) if attribute.get("string").is_none() => {
                let detail = "must be a string value because `partitionTypeAttribute` names this attribute";
                errors.push(go_json::invalid(&path, attribute, &ATTRIBUTE, detail));
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[track_caller]
    fn check(name: &str, devices: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        let spec = format!(r#"{{"driver":"d.example.com","partitionTypeAttribute":"{name}","devices":[{devices}]}}"#);
        validate_partition_type(&mut errors, &object(&spec), &FieldPath::new("spec"));
        assert_eq!(messages(&errors), expect);
    }

    #[test]
    fn devices_that_consume_counters_have_the_attribute() {
        let device = |attributes: &str| format!(r#"{{"consumesCounters":[{{}}],"attributes":{{{attributes}}}}}"#);
        let name = "d.example.com/type";
        check(name, &device(r#""type":{"string":"a"}"#), &[]);
        check(name, &device(r#""d.example.com/type":{"string":"a"},"type":{"int":1}"#), &[]);
        check("malformed", &device(""), &[]);
        let missing = "spec.devices[1].attributes[e.example.com/type]: Required value: device consumes counters and \
                       `partitionTypeAttribute` names this attribute, so it must be set";
        let devices = format!("{{}},{}", device(r#""type":{"string":"a"}"#));
        check("e.example.com/type", &devices, &[missing]);
        let found = {
            let mut errors = Errors::new();
            let spec = object(&format!(
                r#"{{"driver":"d.example.com","partitionTypeAttribute":"{name}","devices":[{}]}}"#,
                device(r#""type":{"int":1}"#)
            ));
            validate_partition_type(&mut errors, &spec, &FieldPath::new("spec"));
            messages(&errors)
        };
        let (start, end) = (
            "spec.devices[0].attributes[d.example.com/type]: Invalid value: {",
            "}: must be a string value because `partitionTypeAttribute` names this attribute",
        );
        assert!(found.len() == 1 && found[0].starts_with(start) && found[0].ends_with(end), "{found:?}");
    }

    #[test]
    fn some_device_consumes_counters() {
        check(
            "d.example.com/type",
            "{}",
            &[
                "spec.partitionTypeAttribute: Invalid value: \"d.example.com/type\": may only be set on a slice which declares devices that consume counters",
            ],
        );
    }
}
