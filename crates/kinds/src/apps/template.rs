//! Pod templates and claims as the kinds that hold them use them: the rules themselves are those of pods (`core::pod`).

use pintle_value::{Errors, FieldError, FieldPath, Value};

use crate::core::pod;

/// Sets the defaults of the template of a spec.
pub(crate) fn defaults(spec: &mut Value) {
    if let Some(template) = spec.get_mut("template") {
        pod::template_defaults(template);
    }
}

/// Drops from the template at `path` the fields of features that are off, unless the old object uses them.
pub(crate) fn drop_disabled(object: &mut Value, old: Option<&Value>, path: &[&str]) {
    let _ = (object, old, path);
}

/// Checks a template; `old` is the one before, for which looser rules may have held.
pub(crate) fn validate(template: Option<&Value>, old: Option<&Value>, path: &FieldPath<'_>) -> Errors {
    let _ = (template, old, path);
    Errors::new()
}

/// Checks labels and annotations of a template.
pub(crate) fn validate_metadata(errors: &mut Errors, template: &Value, path: &FieldPath<'_>) {
    let _ = (errors, template, path);
}

/// Checks the spec of a claim.
pub(crate) fn validate_claim_spec(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let _ = (errors, spec, path);
}

/// The warnings about the spec of a claim.
pub(crate) fn claim_warnings(spec: &Value, path: &FieldPath<'_>) -> Vec<String> {
    let _ = (spec, path);
    Vec::new()
}

/// Rounds the quantities of a resource list.
pub(crate) fn resource_list_defaults(object: &mut Value, path: &[&str]) {
    let _ = (object, path);
}

/// The warnings about the template of a spec.
pub(crate) fn warnings(spec: &Value, old: Option<&Value>, path: &FieldPath<'_>) -> Vec<String> {
    let _ = (spec, old, path);
    Vec::new()
}

/// The warnings about the template of an object whose generation tells whether it may have changed.
pub(crate) fn warnings_of_change(object: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| old.generation() == object.generation()) {
        return Vec::new();
    }
    let spec = FieldPath::new("spec");
    let old_spec = old.and_then(|old| old.get("spec"));
    object.get("spec").map_or_else(Vec::new, |new| warnings(new, old_spec, &spec.child("template")))
}

/// Adds the error of a selector that does not select the template's pods.
pub(crate) fn labels_do_not_match(errors: &mut Errors, labels: Option<&Value>, template: &FieldPath<'_>) {
    let metadata = template.child("metadata");
    let text = "`selector` does not match template `labels`";
    errors.push(FieldError::invalid(&metadata.child("labels"), labels.cloned(), text));
}

/// Checks the name of a resource that a container has.
pub(crate) fn validate_container_resource_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) {
    let _ = (errors, name, path);
}
