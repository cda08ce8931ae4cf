//! Validates `metadata` and the structures that other parts of the API share with it: labels, label selectors and
//! conditions (upstream: apimachinery's `api/validation` and `apis/meta/v1/validation`).

use std::fmt::Write as _;

use crate::names::{self, format_text};
use crate::print::{self, is_print};
use crate::{Errors, FieldError, FieldPath, Value, same};

/// Maximum total size in bytes of an object's annotations, including their keys (`TotalAnnotationSizeLimitB`).
pub const ANNOTATIONS_MAX: usize = 256 * 1024;
/// Maximum length in bytes of a field manager's name.
pub const FIELD_MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;
/// The path of an object's managed fields.
pub const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The fields that the garbage collector changes, and the fields that change with them. A change of these fields alone
/// grants nothing.
const COLLECTOR_FIELDS: [[&str; 2]; 4] =
    [["metadata", "ownerReferences"], ["metadata", "finalizers"], ["metadata", "selfLink"], MANAGED_FIELDS];

/// True if an update changes only the fields that the garbage collector changes, so that its user needs no other
/// permission (upstream: `rbac.IsOnlyMutatingGCFields`).
#[must_use]
pub fn changes_only_collector_fields(object: &Value, old: &Value) -> bool {
    let [mut object, mut old] = [object.clone(), old.clone()];
    for path in COLLECTOR_FIELDS {
        object.remove_at(&path);
        old.remove_at(&path);
    }
    object == old
}
/// The finalizer of an object whose dependents must be orphaned first.
pub const ORPHAN: &str = "orphan";
/// The finalizer of an object whose dependents must be deleted first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of persistent volume claims that pods may use.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer of persistent volumes that may be bound.
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// The finalizer of volume attributes classes that claims and volumes may use.
pub const ATTRIBUTES_CLASS_PROTECTION: &str = "kubernetes.io/vac-protection";
/// The finalizer of pod groups to which pods belong.
pub const POD_GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
/// The finalizer of groups of pod groups to which other groups belong. The name is an assumption.
pub const COMPOSITE_POD_GROUP_PROTECTION: &str = "scheduling.k8s.io/compositepodgroup-protection";
/// The error detail for an immutable field.
pub const IMMUTABLE_TEXT: &str = "field is immutable";

/// The form of errors about missing fields of owner references, managed fields and conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFields {
    /// They are invalid, and errors about an owner reference have the path of the list (up to 1.36).
    Invalid,
    /// They are required values at the path of the item (since 1.37).
    Required,
}

/// Validates a name and returns the error messages (`ValidateNameFunc`). The flag is set if the name is the prefix of a
/// generated name.
pub type ValidateNameFn<'a> = &'a dyn Fn(&str, bool) -> Vec<String>;

/// Validates `metadata` of a new object (`ValidateObjectMeta`).
#[must_use]
pub fn validate_object_meta(
    object: &Value,
    namespaced: bool,
    validate_name: ValidateNameFn<'_>,
    missing: MissingFields,
) -> Errors {
    let path = FieldPath::new("metadata");
    validate_object_meta_at(&object["metadata"], namespaced, validate_name, missing, &path)
}

/// The same for metadata at another path, such as the metadata of a template.
#[must_use]
pub fn validate_object_meta_at(
    metadata: &Value,
    namespaced: bool,
    validate_name: ValidateNameFn<'_>,
    missing: MissingFields,
    path: &FieldPath<'_>,
) -> Errors {
    let mut errors = Errors::new();
    let prefix = metadata.str_at(&["generateName"]);
    if !prefix.is_empty() {
        for text in validate_name(prefix, true) {
            errors.invalid(&path.child("generateName"), prefix, text);
        }
    }
    let name = metadata.str_at(&["name"]);
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    } else {
        for text in validate_name(name, false) {
            errors.invalid(&path.child("name"), name, text);
        }
    }
    let namespace = metadata.str_at(&["namespace"]);
    let namespace_path = path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.required(&namespace_path, ""),
        (true, false) => {
            for text in names::namespace_name(namespace, false) {
                errors.invalid(&namespace_path, namespace, text);
            }
        }
        (false, true) => {}
        (false, false) => errors.forbidden(&namespace_path, "not allowed on this type"),
    }
    let generation = metadata.int_at(&["generation"]).unwrap_or(0);
    errors.append(validate_nonnegative(generation, &path.child("generation")));
    validate_common(&mut errors, metadata, missing, path, true);
    errors
}

/// Checks that create and update share.
fn validate_common(
    errors: &mut Errors,
    metadata: &Value,
    missing: MissingFields,
    path: &FieldPath<'_>,
    finalizers: bool,
) {
    errors.append(validate_labels(&metadata["labels"], &path.child("labels")));
    errors.append(validate_annotations(&metadata["annotations"], &path.child("annotations")));
    errors.append(validate_owner_references(&metadata["ownerReferences"], missing, &path.child("ownerReferences")));
    if finalizers {
        errors.append(validate_finalizers(&metadata["finalizers"], &path.child("finalizers")));
    }
    errors.append(validate_managed_fields(&metadata["managedFields"], missing, &path.child("managedFields")));
}

/// Validates an update of `metadata` (`ValidateObjectMetaUpdate`). The caller has already copied from the old object
/// the fields that an update may leave out: uid, creation and deletion timestamps, generation.
#[must_use]
pub fn validate_object_meta_update(new: &Value, old: &Value, missing: MissingFields) -> Errors {
    let path = FieldPath::new("metadata");
    let (new, old) = (&new["metadata"], &old["metadata"]);
    let mut errors = Errors::new();
    if old.at(&["deletionTimestamp"]).is_some() {
        errors.append(validate_no_new_finalizers(&new["finalizers"], &old["finalizers"], &path.child("finalizers")));
    }
    let revision = new.str_at(&["resourceVersion"]);
    if revision.is_empty() {
        errors.invalid(&path.child("resourceVersion"), revision, "must be specified for an update");
    }
    let generation = |m: &Value| m.int_at(&["generation"]).unwrap_or(0);
    if missing == MissingFields::Required {
        errors.append(validate_nonnegative(generation(new), &path.child("generation")));
    }
    if generation(new) < generation(old) {
        errors.invalid(&path.child("generation"), generation(new), "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        let (new, old) = (new.str_at(&[field]), old.str_at(&[field]));
        if new != old {
            errors.invalid(&path.child(field), new, IMMUTABLE_TEXT);
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        // Times are compared as instants, independently of their text.
        let same = match (new.time_at(&[field]), old.time_at(&[field])) {
            (Some(a), Some(b)) => a == b,
            _ => new[field] == old[field],
        };
        if !same {
            let printed = new.time_at(&[field]).map_or_else(|| new[field].clone(), Value::from);
            errors.invalid(&path.child(field), printed, IMMUTABLE_TEXT);
        }
    }
    let grace = "deletionGracePeriodSeconds";
    errors.append(validate_immutable_field(&new[grace], &old[grace], &path.child(grace)));
    validate_common(&mut errors, new, missing, &path, false);
    errors
}

/// Rejects a change of a field. An absent field, null and an empty list are equal here.
#[must_use]
pub fn validate_immutable_field(new: &Value, old: &Value, path: &FieldPath<'_>) -> Errors {
    if same(Some(new), Some(old)) {
        return Errors::new();
    }
    FieldError::invalid(path, new.clone(), IMMUTABLE_TEXT).into()
}

/// Rejects a negative number.
#[must_use]
pub fn validate_nonnegative(value: i64, path: &FieldPath<'_>) -> Errors {
    if value >= 0 {
        return Errors::new();
    }
    FieldError::invalid(path, value, "must be greater than or equal to 0").into()
}

/// Validates labels. All errors have the path of the map, as upstream's do.
#[must_use]
pub fn validate_labels(labels: &Value, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    for (key, value) in labels.entries_at(&[]) {
        errors.append(validate_label_name(key, path));
        let value = value.as_str().unwrap_or_default();
        for text in names::label_value(value) {
            errors.invalid(path, value, text);
        }
    }
    errors
}

/// Validates a label key.
#[must_use]
pub fn validate_label_name(name: &str, path: &FieldPath<'_>) -> Errors {
    names::label_key(name).into_iter().map(|text| FieldError::invalid(path, name, text)).collect()
}

/// Validates annotations: their keys, ignoring case, and their total size.
#[must_use]
pub fn validate_annotations(annotations: &Value, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    let mut size = 0;
    for (key, value) in annotations.entries_at(&[]) {
        size += key.len() + value.as_str().map_or(0, str::len);
        for text in names::qualified_name(&key.to_lowercase()) {
            errors.invalid(path, key, text);
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
    errors
}

/// The fields of an owner reference in the order of the Go struct, which is their order in messages.
const OWNER_FIELDS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

fn print_owner_reference(reference: &Value) -> String {
    let mut out = String::new();
    for (i, field) in OWNER_FIELDS.into_iter().enumerate() {
        match reference.get(field) {
            Some(value) => {
                let _ = write!(out, ",\"{field}\":{}", print::json(value));
            }
            None if i < 4 => {
                let _ = write!(out, ",\"{field}\":\"\"");
            }
            None => {}
        }
    }
    format!("{{{}}}", out.trim_start_matches(','))
}

/// Validates owner references: all required fields are set, events are not owners, and at most one is the controller.
#[must_use]
pub fn validate_owner_references(references: &Value, missing: MissingFields, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    let mut first_controller: Option<String> = None;
    let list = references.items_at(&[]);
    for (i, reference) in list.iter().enumerate() {
        let indexed = path.index(i);
        let item_path = if missing == MissingFields::Required { &indexed } else { path };
        let text = |field| reference.str_at(&[field]);
        let api_version = text("apiVersion");
        // An apiVersion with more than one slash is not a group and version, so its version is empty.
        let version = match api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => "",
            Some((_, version)) => version,
            None => api_version,
        };
        let version_path = item_path.child("apiVersion");
        match missing {
            MissingFields::Invalid if version.is_empty() => {
                errors.invalid(&version_path, api_version, "version must not be empty");
            }
            MissingFields::Required if api_version.is_empty() => errors.required(&version_path, "must not be empty"),
            MissingFields::Required if version.is_empty() => {
                errors.invalid(&version_path, api_version, "must be <group>/<version> or <version>");
            }
            _ => {}
        }
        for field in ["kind", "name", "uid"].into_iter().filter(|field| text(field).is_empty()) {
            match missing {
                MissingFields::Invalid => errors.invalid(&item_path.child(field), "", "must not be empty"),
                MissingFields::Required => errors.required(&item_path.child(field), "must not be empty"),
            }
        }
        if text("kind") == "Event" && (api_version == "v1" || api_version == "/v1") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            let error = FieldError::invalid(item_path, reference.clone(), detail);
            errors.push(error.showing(print_owner_reference(reference)));
        }
        if reference.bool_at(&["controller"]) {
            let controller = format!("{}/{}", text("kind"), text("name"));
            match &first_controller {
                None => first_controller = Some(controller),
                Some(first) => errors.push_with(|| {
                    // Each such error prints the whole list.
                    let printed: Vec<String> = list.iter().map(print_owner_reference).collect();
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                         {controller}"
                    );
                    FieldError::invalid(path, Value::Null, detail).showing(format!("[{}]", printed.join(",")))
                }),
            }
        }
    }
    errors
}

/// Validates finalizers: each is a qualified name, and `orphan` excludes `foregroundDeletion`.
#[must_use]
pub fn validate_finalizers(finalizers: &Value, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    let mut both = [false; 2];
    for finalizer in finalizers.items_at(&[]).iter().filter_map(Value::as_str) {
        for text in names::qualified_name(finalizer) {
            errors.invalid(path, finalizer, text);
        }
        both[0] |= finalizer == ORPHAN;
        both[1] |= finalizer == FOREGROUND;
    }
    if both == [true; 2] {
        let text = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(path, finalizers.clone(), text);
    }
    errors
}

/// Returns whether a finalizer is qualified with a domain or is a standard finalizer (upstream:
/// `IsStandardFinalizerName`).
#[must_use]
pub fn is_standard_or_qualified_finalizer(finalizer: &str) -> bool {
    finalizer.contains('/') || matches!(finalizer, "kubernetes" | ORPHAN | FOREGROUND)
}

/// Rejects finalizers that are added to a terminating object.
#[must_use]
pub fn validate_no_new_finalizers(new: &Value, old: &Value, path: &FieldPath<'_>) -> Errors {
    let old: std::collections::BTreeSet<&str> = old.items_at(&[]).iter().filter_map(Value::as_str).collect();
    let extra: std::collections::BTreeSet<&str> =
        new.items_at(&[]).iter().filter_map(Value::as_str).filter(|f| !old.contains(f)).collect();
    if extra.is_empty() {
        return Errors::new();
    }
    let extra: Vec<String> = extra.into_iter().map(print::quote).collect();
    let text = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        extra.join(", ")
    );
    FieldError::forbidden(path, text).into()
}

/// Validates the name of a field manager.
#[must_use]
pub fn validate_field_manager(manager: &str, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    if manager.len() > FIELD_MANAGER_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX));
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let text = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        errors.invalid(path, manager, text);
    }
    errors
}

/// Validates the entries of `managedFields`. Their field sets are not checked.
#[must_use]
pub fn validate_managed_fields(entries: &Value, missing: MissingFields, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    for (i, entry) in entries.items_at(&[]).iter().enumerate() {
        let path = path.index(i);
        let operation = entry.str_at(&["operation"]);
        let operation_path = path.child("operation");
        match (operation, missing) {
            ("Apply" | "Update", _) => {}
            (_, MissingFields::Invalid) => {
                errors.invalid(&operation_path, operation, "must be `Apply` or `Update`");
            }
            ("", MissingFields::Required) => errors.required(&operation_path, "must not be empty"),
            (_, MissingFields::Required) => errors.not_supported(&operation_path, operation, &["Apply", "Update"]),
        }
        let fields_type = entry.str_at(&["fieldsType"]);
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        errors.append(validate_field_manager(entry.str_at(&["manager"]), &path.child("manager")));
        if entry.str_at(&["subresource"]).len() > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_MAX));
        }
    }
    errors
}

/// The label selectors that are allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabelSelectorOptions {
    /// Allow values that are not valid label values, because the stored object has them.
    pub allow_invalid_values: bool,
    /// Allow unknown operators.
    pub allow_unknown_operators: bool,
}

/// Returns whether an expression of the selector has a value that is not a valid label value.
#[must_use]
pub fn has_invalid_label_value(selector: &Value) -> bool {
    let expressions = selector.items_at(&["matchExpressions"]).iter();
    let mut values = expressions.flat_map(|e| e.items_at(&["values"])).filter_map(Value::as_str);
    values.any(|value| !names::label_value(value).is_empty())
}

/// Validates a `metav1.LabelSelector`.
#[must_use]
pub fn validate_label_selector(selector: &Value, options: LabelSelectorOptions, path: &FieldPath<'_>) -> Errors {
    let mut errors = validate_labels(&selector["matchLabels"], &path.child("matchLabels"));
    let expressions = path.child("matchExpressions");
    for (i, requirement) in selector.items_at(&["matchExpressions"]).iter().enumerate() {
        errors.append(validate_label_requirement(requirement, options, &expressions.index(i)));
    }
    errors
}

/// Validates a `metav1.LabelSelectorRequirement`.
#[must_use]
pub fn validate_label_requirement(requirement: &Value, options: LabelSelectorOptions, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    let values_path = path.child("values");
    let values = requirement.items_at(&["values"]);
    match requirement.str_at(&["operator"]) {
        "In" | "NotIn" => {
            if values.is_empty() {
                errors.required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&values_path, text);
            }
        }
        _ if options.allow_unknown_operators => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    errors.append(validate_label_name(requirement.str_at(&["key"]), &path.child("key")));
    if !options.allow_invalid_values {
        for (j, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for text in names::label_value(value) {
                errors.invalid(&values_path.index(j), value, text);
            }
        }
    }
    errors
}

/// Validates a list of `metav1.Condition`.
#[must_use]
pub fn validate_conditions(conditions: &Value, missing: MissingFields, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    let mut types = std::collections::HashSet::new();
    for (i, condition) in conditions.items_at(&[]).iter().enumerate() {
        let path = path.index(i);
        let name = condition.str_at(&["type"]);
        if !types.insert(name) {
            match missing {
                MissingFields::Invalid => errors.duplicate(&path.child("type"), name),
                MissingFields::Required => errors.duplicate(&path, name),
            }
        }
        errors.append(validate_condition(condition, missing, &path));
    }
    errors
}

/// Validates a `metav1.Condition`.
#[must_use]
pub fn validate_condition(condition: &Value, missing: MissingFields, path: &FieldPath<'_>) -> Errors {
    const REASON_MAX: usize = 1024;
    const MESSAGE_MAX: usize = 32 * 1024;
    let mut errors = Errors::new();
    match (condition.str_at(&["type"]), missing) {
        ("", MissingFields::Required) => errors.required(&path.child("type"), "is required"),
        (name, _) => errors.append(validate_label_name(name, &path.child("type"))),
    }
    let statuses = ["False", "True", "Unknown"];
    match (condition.str_at(&["status"]), missing) {
        ("", MissingFields::Required) => errors.required(&path.child("status"), ""),
        (status, _) if statuses.contains(&status) => {}
        (status, _) => errors.not_supported(&path.child("status"), status, &statuses),
    }
    let generation = condition.int_at(&["observedGeneration"]).unwrap_or(0);
    if generation < 0 {
        errors.invalid(&path.child("observedGeneration"), generation, "must be greater than or equal to zero");
    }
    if condition.at(&["lastTransitionTime"]).is_none() {
        errors.required(&path.child("lastTransitionTime"), "");
    }
    let reason = condition.str_at(&["reason"]);
    let reason_path = path.child("reason");
    if reason.is_empty() {
        errors.required(&reason_path, "");
    } else {
        if !is_condition_reason(reason) {
            let text = format_text(
                "a condition reason must start with alphabetic character, optionally followed by a string of \
                 alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
                "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
                &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
            );
            errors.invalid(&reason_path, reason, text);
        }
        if reason.len() > REASON_MAX {
            errors.push(FieldError::too_long(&reason_path, REASON_MAX));
        }
    }
    if condition.str_at(&["message"]).len() > MESSAGE_MAX {
        errors.push(FieldError::too_long(&path.child("message"), MESSAGE_MAX));
    }
    errors
}

fn is_condition_reason(reason: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = reason.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|b| word(*b))
        && bytes.iter().all(|b| word(*b) || matches!(b, b',' | b':'))
}

#[cfg(test)]
mod tests;
