//! The devices of a slice, their pool and their nodes (upstream: `validateResourceSliceSpec`).

use std::collections::BTreeSet;

use pintle_gates::{Change, Gates};
use pintle_value::{Errors, FieldError, FieldPath, Value, metadata};

use super::capacity::validate_capacity;
use super::claim_spec::{TAINT_EFFECTS, quoted_name};
use super::collections::{validate_list, validate_map, validate_set};
use super::go_types::{ATTRIBUTE, NODE_SELECTOR_TERMS};
use super::identifiers::{MAX_QUALIFIED_NAME, validate_driver_name, validate_node_name, validate_qualified_name};
use super::node_operations::validate_skipped_operations;
use super::node_resources::validate_node_resources;
use super::partition_type::validate_partition_type;
use super::selectors::{MAX_ATTRIBUTE_LENGTH, MAX_ATTRIBUTE_VALUES, MAX_ATTRIBUTES_AND_CAPACITIES};
use super::slice::{ATTRIBUTE_LISTS, is_list};
use crate::core::pod::scheduling::validate_node_selector;
use crate::declarative::Rules;
use crate::generic::{same, validate_immutable};
use crate::go_json::internal;
use crate::semantic_version::SemanticVersion;
use crate::validation::{require_one_of, str_field, strings_at, validate_dns_label};

static POOL: Rules = Rules::own("resource/v1", "ResourcePool");
static TAINT: Rules = Rules::own("resource/v1", "DeviceTaint");

const MAX_DEVICES: usize = 128;
/// The maximum number of devices if one has taints, counters or lists.
const MAX_ADVANCED_DEVICES: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_BINDING_CONDITIONS: usize = 4;
const MAX_COUNTER_SETS: usize = 8;
const MAX_COUNTERS: usize = 32;
/// The maximum number of counter sets that a device uses.
const MAX_USED_COUNTER_SETS: usize = 2;
const MAX_LABEL: usize = 63;

/// Validates the spec of a slice.
pub(super) fn validate_slice_spec(gates: &Gates, spec: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    validate_driver_name(&mut errors, spec.str_at(&["driver"]), &path.child("driver"));
    POOL.validate_part(&mut errors, &spec["pool"], &path.child("pool"));
    if let Some(old) = old {
        for (field, shown) in
            [(&["pool", "name"][..], "spec.pool.name"), (&["driver"], "spec.driver"), (&["nodeName"], "spec.nodeName")]
        {
            validate_immutable(&mut errors, spec.at(field), old.at(field), &FieldPath::new(shown));
        }
    }
    validate_nodes(&mut errors, spec, &path);
    let devices = spec.items_at(&["devices"]);
    if spec.get("sharedCounters").is_some() && spec.get("devices").is_some() {
        errors.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let is_advanced = devices.iter().any(|device| {
        !device.items_at(&["taints"]).is_empty()
            || !device.items_at(&["consumesCounters"]).is_empty()
            || device.entries_at(&["attributes"]).any(|(_, attribute)| is_list(attribute))
    });
    let of_device = spec.bool_at(&["perDeviceNodeSelection"]);
    let old_devices = old.map_or(&[][..], |old| old.items_at(&["devices"]));
    validate_set(
        &mut errors,
        devices,
        if is_advanced { MAX_ADVANCED_DEVICES } else { MAX_DEVICES },
        &path.child("devices"),
        |errors, device, path| {
            let name = device.str_at(&["name"]);
            let old = old_devices.iter().find(|old| old.str_at(&["name"]) == name);
            validate_device(errors, gates, (device, old), of_device, path);
        },
        quoted_name,
    );
    validate_set(
        &mut errors,
        spec.items_at(&["sharedCounters"]),
        MAX_COUNTER_SETS,
        &path.child("sharedCounters"),
        |errors, set, path| validate_counters(errors, set, "name", path),
        quoted_name,
    );
    validate_partition_type(&mut errors, spec, &path);
    validate_skipped_operations(&mut errors, spec, &path);
    errors
}

/// Validates which nodes have access to the devices of a slice.
fn validate_nodes(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut found = Vec::new();
    match str_field(spec, "nodeName") {
        None => {}
        Some("") => {
            errors.invalid(&path.child("nodeName"), "", "must be either unset or set to a non-empty string");
        }
        Some(name) => {
            found.push("`nodeName`");
            validate_node_name(errors, name, &path.child("nodeName"));
        }
    }
    if let Some(selector) = spec.get("nodeSelector") {
        found.push("`nodeSelector`");
        let path = path.child("nodeSelector");
        validate_node_selector(errors, selector, false, &path);
        // Schedulers merge the selectors of several slices.
        let terms = selector.get("nodeSelectorTerms");
        if selector.items_at(&["nodeSelectorTerms"]).len() != 1 {
            let error = FieldError::invalid(
                &path.child("nodeSelectorTerms"),
                terms.cloned().unwrap_or_default(),
                "must have exactly one node selector term",
            );
            errors.push(error.showing(internal(terms, &NODE_SELECTOR_TERMS)));
        }
    }
    for (field, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        validate_true(errors, spec, (field, shown), &mut found, path);
    }
    match found.len() {
        0 => errors.required(path, ONE),
        1 => {}
        _ => {
            let detail = format!("{ONE}, but multiple fields are set");
            errors.invalid(path, format!("{{{}}}", found.join(", ")), detail);
        }
    }
}

/// Validates a field that is true or absent. Adds the name of a true field to the names of the set fields.
fn validate_true(
    errors: &mut Errors,
    object: &Value,
    (field, shown): (&str, &'static str),
    found: &mut Vec<&'static str>,
    path: &FieldPath<'_>,
) {
    match object.get(field).and_then(Value::as_bool) {
        None => {}
        Some(true) => found.push(shown),
        Some(false) => errors.invalid(&path.child(field), false, "must be either unset or set to true"),
    }
}

/// Validates a device, which replaces an old one of the same name.
fn validate_device(
    errors: &mut Errors,
    gates: &Gates,
    (device, old): (&Value, Option<&Value>),
    selects_nodes: bool,
    path: &FieldPath<'_>,
) {
    validate_dns_label(errors, &path.child("name"), device.str_at(&["name"]));
    validate_sizes(errors, device, path);
    validate_map(
        errors,
        &device["attributes"],
        usize::MAX,
        MAX_QUALIFIED_NAME,
        &path.child("attributes"),
        validate_qualified_name,
        validate_attribute,
    );
    let is_shared = device.bool_at(&["allowMultipleAllocations"]);
    let is_unchanged = |field: &str| old.is_some_and(|old| same(old.get(field), device.get(field)));
    if !(gates.has(Change::UNCHANGED_CAPACITY_IS_VALID) && is_unchanged("capacity")) {
        validate_map(
            errors,
            &device["capacity"],
            usize::MAX,
            MAX_QUALIFIED_NAME,
            &path.child("capacity"),
            validate_qualified_name,
            |errors, capacity, path| validate_capacity(errors, gates, capacity, is_shared, path),
        );
    }
    // Stored taints are not validated again.
    if !is_unchanged("taints") {
        let taints = device.items_at(&["taints"]);
        validate_list(errors, taints, MAX_TAINTS, &path.child("taints"), validate_taint);
    }
    validate_set(
        errors,
        device.items_at(&["consumesCounters"]),
        MAX_USED_COUNTER_SETS,
        &path.child("consumesCounters"),
        |errors, set, path| validate_counters(errors, set, "counterSet", path),
        |set| pintle_value::print::quote(set.str_at(&["counterSet"])),
    );
    validate_device_nodes(errors, device, selects_nodes, path);
    validate_binding_conditions(errors, device, path);
    validate_node_resources(errors, device, path);
}

fn entries(object: &Value, field: &str) -> usize {
    object.entries_at(&[field]).count()
}

fn validate_sizes(errors: &mut Errors, device: &Value, path: &FieldPath<'_>) {
    let count = entries(device, "attributes") + entries(device, "capacity");
    if count > MAX_ATTRIBUTES_AND_CAPACITIES {
        let detail =
            format!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}");
        errors.invalid(path, count as i64, detail);
    }
    let values = |attribute: &Value| -> usize {
        let items: usize = ATTRIBUTE_LISTS.iter().map(|list| attribute.items_at(&[list]).len()).sum();
        items.max(1)
    };
    let count: usize = device.entries_at(&["attributes"]).map(|(_, attribute)| values(attribute)).sum();
    if count > MAX_ATTRIBUTE_VALUES {
        let detail = format!("the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}");
        errors.invalid(path, count as i64, detail);
    }
}

fn validate_attribute(errors: &mut Errors, attribute: &Value, path: &FieldPath<'_>) {
    let mut found = ["bool", "int"].iter().filter(|field| attribute.get(field).is_some()).count();
    for (field, list, validate) in [
        ("string", "strings", validate_text as fn(&mut Errors, &str, &FieldPath<'_>)),
        ("version", "versions", validate_version),
    ] {
        if let Some(text) = str_field(attribute, field) {
            found += 1;
            validate(errors, text, &path.child(field));
        }
        let path = path.child(list);
        for (i, item) in attribute.items_at(&[list]).iter().enumerate() {
            validate(errors, item.as_str().unwrap_or_default(), &path.index(i));
        }
    }
    for list in ATTRIBUTE_LISTS {
        let Some(items) = attribute.get(list) else { continue };
        found += 1;
        if items.is_empty() {
            errors.invalid(&path.child(list), items.clone(), "must not be empty if specified");
        }
    }
    const ONE: &str = "exactly one value must be specified";
    match found {
        0 => errors.invalid(path, "", ONE),
        1 => {}
        _ => errors.push(crate::go_json::invalid(path, attribute, &ATTRIBUTE, ONE)),
    }
}

fn validate_text(errors: &mut Errors, text: &str, path: &FieldPath<'_>) {
    if text.len() > MAX_ATTRIBUTE_LENGTH {
        errors.push(FieldError::too_long(path, MAX_ATTRIBUTE_LENGTH));
    }
}

fn validate_version(errors: &mut Errors, version: &str, path: &FieldPath<'_>) {
    if SemanticVersion::parse(version).is_none() {
        errors.invalid(path, version, "must be a string compatible with semver.org spec 2.0.0");
    }
    validate_text(errors, version, path);
}

fn validate_taint(errors: &mut Errors, taint: &Value, path: &FieldPath<'_>) {
    validate_taint_key(errors, taint, path);
    validate_new_effect(errors, taint, path);
}

/// Validates key and value of a taint.
pub(super) fn validate_taint_key(errors: &mut Errors, taint: &Value, path: &FieldPath<'_>) {
    TAINT.validate_part(errors, taint, path);
}

/// Requires a known effect of a taint.
pub(super) fn validate_new_effect(errors: &mut Errors, taint: &Value, path: &FieldPath<'_>) {
    require_one_of(errors, &path.child("effect"), taint.str_at(&["effect"]), &TAINT_EFFECTS);
}

/// Validates a set of counters, or the counters of a set that a device uses. `name` is the field with the name of the
/// set.
fn validate_counters(errors: &mut Errors, set: &Value, name: &str, path: &FieldPath<'_>) {
    match set.str_at(&[name]) {
        "" => errors.required(&path.child(name), ""),
        text => validate_dns_label(errors, &path.child(name), text),
    }
    let counters = path.child("counters");
    if entries(set, "counters") == 0 {
        errors.required(&counters, "");
        return;
    }
    // Every quantity is valid.
    let validate_key = |errors: &mut Errors, key: &str, path: &FieldPath<'_>| validate_dns_label(errors, path, key);
    validate_map(errors, &set["counters"], MAX_COUNTERS, MAX_LABEL, &counters, validate_key, |_, _, _| {});
}

/// Validates which nodes have access to a device.
fn validate_device_nodes(errors: &mut Errors, device: &Value, selects_nodes: bool, path: &FieldPath<'_>) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is \
                       set to true in the ResourceSlice spec";
    if !selects_nodes {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| device.get(field).is_some()) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true \
                          in the ResourceSlice spec";
            errors.invalid(path, Value::Null, detail);
        }
        return;
    }
    let mut found = Vec::new();
    match str_field(device, "nodeName") {
        None => {}
        Some("") => errors.invalid(&path.child("nodeName"), "", "must not be empty"),
        Some(name) => {
            found.push("`nodeName`");
            validate_node_name(errors, name, &path.child("nodeName"));
        }
    }
    if let Some(selector) = device.get("nodeSelector") {
        found.push("`nodeSelector`");
        validate_node_selector(errors, selector, false, &path.child("nodeSelector"));
    }
    validate_true(errors, device, ("allNodes", "`allNodes`"), &mut found, path);
    match found.len() {
        0 => errors.required(path, ONE),
        1 => {}
        _ => errors.invalid(path, format!("{{{}}}", found.join(", ")), ONE),
    }
}

/// Validates the conditions that pods wait for, of a device or of the result of an allocation.
pub(super) fn validate_binding_conditions(errors: &mut Errors, device: &Value, path: &FieldPath<'_>) {
    const FIELDS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];
    let [ready_path, failed_path] = FIELDS.map(|field| path.child(field));
    for (field, path) in FIELDS.iter().zip([&ready_path, &failed_path]) {
        validate_list(errors, device.items_at(&[field]), MAX_BINDING_CONDITIONS, path, |errors, condition, path| {
            errors.append(metadata::validate_label_name(condition.as_str().unwrap_or_default(), path));
        });
    }
    let [ready, failed] = FIELDS.map(|field| strings_at(device, &[field]));
    let mut all_ready = BTreeSet::new();
    for (i, condition) in ready.iter().enumerate() {
        if !all_ready.insert(condition) {
            errors.duplicate(&ready_path.index(i), *condition);
        }
    }
    let mut seen = BTreeSet::new();
    for (i, condition) in failed.iter().enumerate() {
        if !seen.insert(condition) {
            errors.duplicate(&failed_path.index(i), *condition);
        }
        if all_ready.contains(condition) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            errors.invalid(&failed_path.index(i), *condition, detail);
        }
    }
    let shown = |field: &str| device.get(field).cloned().unwrap_or_default();
    match (ready.is_empty(), failed.is_empty()) {
        (true, false) => {
            let detail = "bindingConditions are required to use bindingFailureConditions";
            errors.invalid(&ready_path, shown("bindingConditions"), detail);
        }
        (false, true) => {
            let detail = "bindingFailureConditions are required to use bindingConditions";
            errors.invalid(&failed_path, shown("bindingFailureConditions"), detail);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
