//! The strategy for PersistentVolumeClaim: data sources, updates and status (upstream:
//! `pkg/registry/core/persistentvolumeclaim`, `ValidatePersistentVolumeClaimUpdate`). The rules for the spec are in
//! `spec`, because pods contain claim templates.

use pintle_gates::Gates;
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::quantity::Quantity;
use pintle_value::{Errors, FieldPath, Value, names, object};

use super::spec::{ClaimOptions, validate_claim_spec, warnings_for_claim_spec};
use crate::core::persistentvolume::{STORAGE_CLASS_ANNOTATION, STORAGE_CLASS_DEPRECATION};
use crate::core::pod::defaults::round_resource_list;
use crate::core::pod::resources::{is_native, quantity, validate_quantity};
use crate::gated::{Part, drop_disabled};
use crate::generic::{StatusStrategy, keep_old, reset_status, same, same_at, validate_immutable};
use crate::go_diff::{self, GoStruct};
use crate::labels;
use crate::validation::invalid_each;

const RESIZE_STATUSES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
];

const STORAGE_REQUEST: [&str; 4] = ["spec", "resources", "requests", "storage"];
const ATTRIBUTES_CLASS: [&str; 2] = ["spec", "volumeAttributesClassName"];

/// The strategy for PersistentVolumeClaim.
pub(crate) struct PersistentVolumeClaimStrategy;

impl Strategy for PersistentVolumeClaimStrategy {
    fn defaults(&self, object: &mut Value) {
        if object.str_at(&["status", "phase"]).is_empty() {
            object.set_at(&["status", "phase"], "Pending");
        }
        if let Some(spec) = object.at_mut(&["spec"]) {
            spec.set_default("volumeMode", "Filesystem");
        }
        for list in [
            &["spec", "resources", "limits"][..],
            &["spec", "resources", "requests"],
            &["status", "capacity"],
            &["status", "allocatedResources"],
        ] {
            round_resource_list(object, list);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, object! { "phase": "Pending" });
        prepare_data_sources(&context.gates, object, old);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let Some(mut old) = old.cloned() else { return validate(object, ClaimOptions::default()) };
        // A claim that was stored before `dataSourceRef` existed counts as having both fields.
        normalize_data_sources(&mut old);
        let spec = &old["spec"];
        let options = ClaimOptions {
            any_selector_value: spec.get("selector").is_some_and(labels::is_invalid_selector),
            any_data_source_group: ["dataSource", "dataSourceRef"]
                .iter()
                .any(|field| spec.at(&[field, "apiGroup"]).is_some()),
        };
        let mut errors = validate(object, options);
        validate_unchanged(context, &mut errors, object, &old);
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.annotation(STORAGE_CLASS_ANNOTATION).is_some() {
            warnings.push(format!("metadata.annotations[{STORAGE_CLASS_ANNOTATION}]: {STORAGE_CLASS_DEPRECATION}"));
        }
        warnings.extend(warnings_for_claim_spec(&object["spec"], &FieldPath::new("spec")));
        warnings
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

fn validate(object: &Value, options: ClaimOptions) -> Errors {
    let mut errors = Errors::new();
    validate_claim_spec(&mut errors, &object["spec"], options, &FieldPath::new("spec"));
    errors
}

/// Synchronizes `dataSource` and `dataSourceRef`. If only `dataSource` is set, it still accepts only claims and
/// snapshots, and other kinds are dropped silently (KEP-1495).
fn prepare_data_sources(gates: &Gates, object: &mut Value, old: Option<&Value>) {
    let in_use = |field: &str| old.is_some_and(|old| old.at(&["spec", field]).is_some());
    if let Some(spec) = object.get_mut("spec") {
        drop_disabled(gates, Part::ClaimSpec, spec, old.and_then(|old| old.get("spec")));
    }
    let was_there = in_use("dataSource") || in_use("dataSourceRef");
    if !was_there && object.at(&["spec", "dataSourceRef"]).is_none() {
        let source = object.at(&["spec", "dataSource"]);
        let known = source.is_some_and(|source| {
            matches!(
                (source.str_at(&["kind"]), source.str_at(&["apiGroup"])),
                ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
            )
        });
        if source.is_some() && !known {
            object.remove_at(&["spec", "dataSource"]);
        }
    }
    normalize_data_sources(object);
}

/// Copies `dataSource` to `dataSourceRef` or vice versa if only one of them is set.
fn normalize_data_sources(object: &mut Value) {
    let Some(spec) = object.at_mut(&["spec"]) else { return };
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => spec.set("dataSourceRef", source),
        (None, Some(mut reference)) if reference.str_at(&["namespace"]).is_empty() => {
            reference.remove("namespace");
            spec.set("dataSource", reference);
        }
        _ => {}
    }
}

/// Validates the immutable parts of the spec. Only a bound claim may change its storage request and its attributes
/// class. Fields that are set once may be added.
fn validate_unchanged(context: &StrategyContext, errors: &mut Errors, object: &Value, old: &Value) {
    let (mut new_spec, mut old_spec) = (object["spec"].clone(), old["spec"].clone());
    if old_spec.str_at(&["volumeName"]).is_empty() {
        keep_old(&mut old_spec, &new_spec, &["volumeName"]);
    }
    validate_storage_class_change(errors, object, old, &mut new_spec);

    let bound = object.str_at(&["status", "phase"]) == "Bound";
    if bound {
        if let Some(requests) = new_spec.at_mut(&["resources", "requests"]) {
            let size = old.at(&STORAGE_REQUEST).cloned().unwrap_or_else(|| "0".into());
            requests.set("storage", size);
        }
        keep_old(&mut new_spec, &old_spec, &["volumeAttributesClassName"]);
    }
    if !same(Some(&new_spec), Some(&old_spec)) {
        let difference =
            go_diff::structs(&old_spec, &new_spec, GoStruct("core/v1.PersistentVolumeClaimSpec", context.minor()));
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
             claims\n{difference}"
        );
        errors.forbidden(&FieldPath::new("spec"), detail);
    }

    let size = |claim: &Value, path: &[&str]| claim.at(path).map(quantity).unwrap_or_default();
    let new_size = size(object, &STORAGE_REQUEST);
    // After a failed expansion, a claim may reduce its request, but not below its capacity.
    if new_size < size(old, &STORAGE_REQUEST) && new_size <= size(old, &["status", "capacity", "storage"]) {
        let path = FieldPath::new("spec.resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
    let mode = ["spec", "volumeMode"];
    validate_immutable(errors, object.at(&mode), old.at(&mode), &FieldPath::new("volumeMode"));
    validate_attributes_class(errors, object, old);
}

/// Moves the storage class from the annotation to the field, or accepts a class for a claim that had none. An existing
/// class is immutable.
fn validate_storage_class_change(errors: &mut Errors, object: &Value, old: &Value, new_spec: &mut Value) {
    let old_annotation = old.annotation(STORAGE_CLASS_ANNOTATION);
    let new_annotation = object.annotation(STORAGE_CLASS_ANNOTATION);
    let class = object.at(&["spec", "storageClassName"]).and_then(Value::as_str);
    let was_unset = old.at(&["spec", "storageClassName"]).is_none();
    let moved = old_annotation.is_some()
        && was_unset
        && class == old_annotation
        && (new_annotation.is_none() || new_annotation == old_annotation);
    if moved {
        new_spec.remove("storageClassName");
        return;
    }
    let (new_text, old_text) = (new_annotation.unwrap_or_default(), old_annotation.unwrap_or_default());
    if new_text != old_text {
        let path = FieldPath::new("metadata.annotations");
        errors.invalid(&path.child(STORAGE_CLASS_ANNOTATION), new_text, IMMUTABLE_TEXT);
    }
    if class.is_some() && was_unset && (old_annotation.is_none() || class == old_annotation) {
        new_spec.remove("storageClassName");
    }
}

fn validate_attributes_class(errors: &mut Errors, object: &Value, old: &Value) {
    let applied = old.at(&["status", "currentVolumeAttributesClassName"]).is_some();
    if !applied || same_at(object, old, &ATTRIBUTES_CLASS) {
        return;
    }
    let to = match object.at(&ATTRIBUTES_CLASS).and_then(Value::as_str) {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail = format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.forbidden(&FieldPath::new("spec.volumeAttributesClassName"), detail);
}

/// The strategy for the `status` subresource.
static STATUS: StatusStrategy = StatusStrategy::new(validate_status).gated(Part::Claim);

fn validate_status(_: &StrategyContext, object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    if object.items_at(&["spec", "accessModes"]).is_empty() {
        errors.required(&FieldPath::new("Spec.accessModes"), "");
    }
    let status = FieldPath::new("status");
    let path = status.child("capacity");
    for (name, amount) in object.entries_at(&["status", "capacity"]) {
        reject_negative_amount(&mut errors, &quantity(amount), &path.key(name));
    }
    let path = status.child("allocatedResourceStatuses");
    for (name, resize) in object.entries_at(&["status", "allocatedResourceStatuses"]) {
        validate_resource_key(&mut errors, name, &path);
        if !RESIZE_STATUSES.contains(&resize.as_str().unwrap_or_default()) {
            let mut known = RESIZE_STATUSES;
            known.sort_unstable();
            errors.not_supported(&path, name, &known);
        }
    }
    let path = status.child("allocatedResources");
    for (name, amount) in object.entries_at(&["status", "allocatedResources"]) {
        let amount = quantity(amount);
        if validate_resource_key(&mut errors, name, &path)
            && reject_negative_amount(&mut errors, &amount, &path.key(name))
        {
            validate_quantity(&mut errors, "storage", &amount, &path.key(name));
        }
    }
    errors
}

fn reject_negative_amount(errors: &mut Errors, amount: &Quantity, path: &FieldPath<'_>) -> bool {
    if amount.value() < 0 {
        errors.invalid(path, amount.value(), "must be a valid resource quantity");
    }
    amount.value() >= 0
}

fn validate_resource_key(errors: &mut Errors, name: &str, path: &FieldPath<'_>) -> bool {
    let problems = names::qualified_name(name);
    let mut valid = problems.is_empty();
    invalid_each(errors, path, name, problems);
    if valid && is_native(name) && name != "storage" {
        errors.not_supported(path, name, &["storage"]);
        valid = false;
    }
    valid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    const BOUND: &str = r#"{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}},"volumeName":"v",
        "storageClassName":"fast","volumeMode":"Filesystem"},"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}"#;

    fn check_update(old: &str, change: impl Fn(&mut Value), expect: &[&str]) {
        let old = object(old);
        let mut new = old.clone();
        change(&mut new);
        let errors = messages(&PersistentVolumeClaimStrategy.validate_update(&context(), &new, &old));
        let first_lines: Vec<&str> = errors.iter().map(|e| e.split('\n').next().unwrap_or_default()).collect();
        assert_eq!(first_lines, expect);
    }

    #[test]
    fn data_source_fields_are_synchronized() {
        let check = |spec: &str, expect: &str| {
            let mut claim = object(&format!(r#"{{"spec":{{{spec}}}}}"#));
            PersistentVolumeClaimStrategy.prepare_for_create(&context(), &mut claim);
            assert_eq!(claim["spec"], object(&format!("{{{expect}}}")));
        };
        check(
            r#""dataSource":{"kind":"PersistentVolumeClaim","name":"a"}"#,
            r#""dataSource":{"kind":"PersistentVolumeClaim","name":"a"},"dataSourceRef":{"kind":"PersistentVolumeClaim","name":"a"}"#,
        );
        check(r#""dataSource":{"kind":"Other","apiGroup":"x.io","name":"a"}"#, "");
        check(
            r#""dataSourceRef":{"kind":"Other","apiGroup":"x.io","name":"a"}"#,
            r#""dataSourceRef":{"kind":"Other","apiGroup":"x.io","name":"a"},"dataSource":{"kind":"Other","apiGroup":"x.io","name":"a"}"#,
        );
        check(r#""dataSourceRef":{"kind":"PersistentVolumeClaim","name":"a","namespace":"b"}"#, "");
    }

    #[test]
    fn a_new_claim_is_pending() {
        let mut claim = object(r#"{"spec":{"resources":{"requests":{"storage":"1Gi"}}},"status":{"phase":"Bound"}}"#);
        PersistentVolumeClaimStrategy.defaults(&mut claim);
        PersistentVolumeClaimStrategy.prepare_for_create(&context(), &mut claim);
        assert_eq!(
            claim,
            object(
                r#"{"spec":{"resources":{"requests":{"storage":"1Gi"}},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#
            )
        );
    }

    #[test]
    fn only_bound_claims_can_request_more_storage() {
        const IMMUTABLE: &str = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        check_update(BOUND, |_| {}, &[]);
        check_update(BOUND, |c| c.set_at(&STORAGE_REQUEST, "3Gi"), &[]);
        check_update(BOUND, |c| c.set_at(&STORAGE_REQUEST, "1500Mi"), &[]);
        check_update(
            BOUND,
            |c| c.set_at(&STORAGE_REQUEST, "1Gi"),
            &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
        );
        check_update(BOUND, |c| c.set_at(&["spec", "storageClassName"], "slow"), &[IMMUTABLE]);
        check_update(
            BOUND,
            |c| c.set_at(&["spec", "volumeMode"], "Block"),
            &[IMMUTABLE, "volumeMode: Invalid value: \"Block\": field is immutable"],
        );
        let pending = BOUND.replace("Bound", "Pending").replace(r#""volumeName":"v","#, "");
        check_update(&pending, |c| c.set_at(&["spec", "volumeName"], "w"), &[]);
        check_update(&pending, |c| c.set_at(&STORAGE_REQUEST, "3Gi"), &[IMMUTABLE]);
        let classless = pending.replace(r#""storageClassName":"fast","#, "");
        check_update(&classless, |c| c.set_at(&["spec", "storageClassName"], "fast"), &[]);
    }

    #[test]
    fn attributes_are_immutable_once_applied() {
        let old = BOUND
            .replace(r#""volumeMode""#, r#""volumeAttributesClassName":"gold","volumeMode""#)
            .replace(r#""phase""#, r#""currentVolumeAttributesClassName":"gold","phase""#);
        check_update(&old, |c| c.set_at(&ATTRIBUTES_CLASS, "silver"), &[]);
        check_update(
            &old,
            |c| {
                c.remove_at(&ATTRIBUTES_CLASS);
            },
            &[
                "spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
            ],
        );
    }

    #[test]
    fn status() {
        let status = PersistentVolumeClaimStrategy.subresource("status").expect("status");
        let new = object(
            r#"{"spec":{"accessModes":["ReadWriteOnce"]},"status":{"capacity":{"storage":"-1"},
                "allocatedResources":{"cpu":"1"},"allocatedResourceStatuses":{"storage":"x"}}}"#,
        );
        assert_eq!(
            messages(&status.validate_update(&context(), &new, &new)),
            [
                "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
                "status.allocatedResourceStatuses: Unsupported value: \"storage\": supported values: \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"",
                "status.allocatedResources: Unsupported value: \"cpu\": supported values: \"storage\"",
            ]
        );
    }
}
