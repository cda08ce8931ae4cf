//! Validates the spec of a PersistentVolumeClaim and claim templates. Pods contain templates for ephemeral volumes, and
//! stateful sets for their replicas (upstream: `ValidatePersistentVolumeClaimSpec`,
//! `ValidatePersistentVolumeClaimTemplate`).

use pintle_value::{Errors, FieldPath, Value, names};

use crate::core::pod::resources::{is_fractional, quantity, validate_quantity};
use crate::core::pod::scheduling::validate_labels;
use crate::generic::same;
use crate::labels::validate_selector;
use crate::validation::{
    invalid_each, require_fields, str_field, strings_at, validate_dns_subdomain, validate_object_name, validate_one_of,
};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The fields of metadata that are allowed in a template.
const TEMPLATE_METADATA: [&str; 2] = ["annotations", "labels"];

/// Validates a claim template. Only labels and annotations may be set in its metadata.
pub(crate) fn validate_claim_template(errors: &mut Errors, template: &Value, path: &FieldPath<'_>) {
    let metadata_path = path.child("metadata");
    let metadata = &template["metadata"];
    let annotations_path = metadata_path.child("annotations");
    errors.append(pintle_value::metadata::validate_annotations(&metadata["annotations"], &annotations_path));
    validate_labels(errors, metadata.get("labels"), &metadata_path.child("labels"));
    for (field, value) in metadata.entries_at(&[]) {
        if !TEMPLATE_METADATA.contains(&field) && !value.is_empty() {
            errors.forbidden(&metadata_path.child(field), "cannot be set");
        }
    }
    validate_claim_spec(errors, &template["spec"], ClaimOptions::default(), &path.child("spec"));
}

/// Faults of the old claim that the new one may keep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClaimOptions {
    /// Tolerates malformed label values in the selector.
    pub(crate) any_selector_value: bool,
    /// Tolerates malformed API groups of data sources.
    pub(crate) any_data_source_group: bool,
}

/// Validates the spec of a claim.
pub(crate) fn validate_claim_spec(errors: &mut Errors, spec: &Value, options: ClaimOptions, path: &FieldPath<'_>) {
    let modes = strings_at(spec, &["accessModes"]);
    let modes_path = path.child("accessModes");
    if modes.is_empty() {
        errors.required(&modes_path, "at least 1 access mode is required");
    }
    errors.append(validate_selector(spec.get("selector"), options.any_selector_value, &path.child("selector")));
    for mode in &modes {
        validate_one_of(errors, &modes_path, Some(mode), ACCESS_MODES);
    }
    let cluster_ip_fields_are_validated = |mode: &&&str| **mode == "ReadWriteOncePod";
    if modes.iter().any(|m| cluster_ip_fields_are_validated(&m))
        && modes.iter().any(|m| !cluster_ip_fields_are_validated(&m) && ACCESS_MODES.contains(m))
    {
        errors.forbidden(&modes_path, "may not use ReadWriteOncePod with other access modes");
    }

    let storage_path = path.child("resources");
    let storage_path = storage_path.key("storage");
    match spec.at(&["resources", "requests", "storage"]).map(quantity) {
        None => errors.required(&storage_path, ""),
        Some(amount) if amount.sign() <= 0 => {
            errors.invalid(&storage_path, amount.to_string(), "must be greater than zero");
        }
        Some(amount) => validate_quantity(errors, "storage", &amount, &storage_path),
    }
    if let Some(class) = str_field(spec, "storageClassName").filter(|class| !class.is_empty()) {
        validate_object_name(errors, &path.child("storageClassName"), class);
    }
    validate_one_of(errors, &path.child("volumeMode"), str_field(spec, "volumeMode"), &["Block", "Filesystem"]);

    let source = spec.get("dataSource");
    let reference = spec.get("dataSourceRef");
    for (field, source) in [("dataSource", source), ("dataSourceRef", reference)] {
        if let Some(source) = source {
            validate_data_source(errors, source, options, &path.child(field));
        }
    }
    // Upstream shows the field path, as an empty struct, in place of the value.
    if let (Some(source), Some(reference)) = (source, reference) {
        if !reference.str_at(&["namespace"]).is_empty() {
            errors.invalid(path, Value::object(), "may not be specified when dataSourceRef.namespace is specified");
        } else if !["apiGroup", "kind", "name"].iter().all(|field| same(source.get(field), reference.get(field))) {
            errors.invalid(path, Value::object(), "must match dataSourceRef");
        }
    }
    if let Some(class) = str_field(spec, "volumeAttributesClassName").filter(|class| !class.is_empty()) {
        validate_object_name(errors, &path.child("volumeAttributesClassName"), class);
    }
}

fn validate_data_source(errors: &mut Errors, source: &Value, options: ClaimOptions, path: &FieldPath<'_>) {
    require_fields(errors, source, &["name", "kind"], path);
    let kind = source.str_at(&["kind"]);
    let group = source.str_at(&["apiGroup"]);
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    if !group.is_empty() && !options.any_data_source_group {
        validate_dns_subdomain(errors, &path.child("apiGroup"), group);
    }
    let namespace = source.str_at(&["namespace"]);
    if !namespace.is_empty() {
        invalid_each(errors, &path.child("namespace"), namespace, names::namespace_name(namespace, false));
    }
}

/// Returns the warnings about storage quantities with fractions of bytes.
pub(crate) fn warnings_for_claim_spec(spec: &Value, path: &FieldPath<'_>) -> Vec<String> {
    let path = path.child("resources");
    ["requests", "limits"]
        .into_iter()
        .filter_map(|kind| {
            let amount = spec.at(&["resources", kind, "storage"]).filter(|amount| is_fractional(amount))?;
            let path = path.child(kind);
            let path = path.key("storage");
            Some(format!("{path}: fractional byte value \"{}\" is invalid, must be an integer", quantity(amount)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(spec: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_claim_spec(&mut errors, &object(spec), ClaimOptions::default(), &FieldPath::new("spec"));
        assert_eq!(messages(&errors), expect, "{spec}");
    }

    #[test]
    fn claims() {
        check(r#"{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}"#, &[]);
        check(
            r#"{"resources":{}}"#,
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        );
        check(
            r#"{"accessModes":["ReadWriteOncePod","ReadWriteOnce","X"],"resources":{"requests":{"storage":"0"}},
                "volumeMode":"Tape","dataSource":{"kind":"VolumeSnapshot"}}"#,
            &[
                "spec.accessModes: Unsupported value: \"X\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \
                 \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
                "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"VolumeSnapshot\": must be 'PersistentVolumeClaim' when referencing the \
                 default apiGroup",
            ],
        );
    }

    #[test]
    fn templates_have_labels_and_annotations_only() {
        let mut errors = Errors::new();
        let template = object(
            r#"{"metadata":{"name":"x","labels":{"a":"b"},"creationTimestamp":null},
                "spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}"#,
        );
        validate_claim_template(&mut errors, &template, &FieldPath::new("t"));
        assert_eq!(messages(&errors), ["t.metadata.name: Forbidden: cannot be set"]);
    }
}
