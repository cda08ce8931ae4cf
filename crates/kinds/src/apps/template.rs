//! Adapts the rules for pod templates and claims in `core::pod` to the kinds that contain them.

use pintle_registry::StrategyContext;
use pintle_value::metadata::{validate_annotations, validate_labels};
use pintle_value::{Errors, FieldError, FieldPath, Value};

use crate::core::persistentvolumeclaim::spec::{self as claim_spec, ClaimOptions};
use crate::core::pod::annotations::validate_pod_annotations;
use crate::core::pod::{self, PodOptions};

/// Sets the defaults of the template in a spec.
pub(crate) fn defaults(spec: &mut Value) {
    if let Some(template) = spec.get_mut("template") {
        pod::set_template_defaults(template);
    }
}

/// Drops the fields of disabled features from the template at `path`, unless the old object uses them.
pub(crate) fn drop_disabled(context: &StrategyContext, object: &mut Value, old: Option<&Value>, path: &[&str]) {
    if let Some(template) = object.at_mut(path) {
        pod::drop_disabled_template_fields(context, template, old.and_then(|old| old.at(path)));
    }
}

/// Validates a template. `old` is the previous template, to which looser rules may have applied.
pub(crate) fn validate(
    context: &StrategyContext,
    template: Option<&Value>,
    old: Option<&Value>,
    path: &FieldPath<'_>,
) -> Errors {
    pod::validate_pod_template_spec(template.unwrap_or(&Value::Null), path, &PodOptions::for_template(context, old))
}

/// Validates the labels and annotations of a template.
pub(crate) fn validate_metadata(
    context: &StrategyContext,
    errors: &mut Errors,
    template: &Value,
    old: Option<&Value>,
    path: &FieldPath<'_>,
) {
    let annotations_path = path.child("annotations");
    errors.append(validate_labels(&template["metadata"]["labels"], &path.child("labels")));
    errors.append(validate_annotations(&template["metadata"]["annotations"], &annotations_path));
    validate_pod_annotations(errors, template, &PodOptions::for_template(context, old), &annotations_path);
}

/// Validates the spec of a new claim.
pub(crate) fn validate_claim_spec(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    claim_spec::validate_claim_spec(errors, spec, ClaimOptions::default(), path);
}

/// Returns the warnings about the spec of a claim.
pub(crate) fn claim_warnings(spec: &Value, path: &FieldPath<'_>) -> Vec<String> {
    claim_spec::warnings_for_claim_spec(spec, path)
}

/// Returns the warnings about the template in a spec. The template is at `path`.
pub(crate) fn warnings(spec: &Value, path: &FieldPath<'_>) -> Vec<String> {
    spec.get("template").map_or_else(Vec::new, |template| pod::warnings_for_pod_template(template, path))
}

/// Returns the warnings about the template of an object, unless its generation shows that the template did not change.
pub(crate) fn warnings_of_change(object: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| old.generation() == object.generation()) {
        return Vec::new();
    }
    let spec = FieldPath::new("spec");
    object.get("spec").map_or_else(Vec::new, |new| warnings(new, &spec.child("template")))
}

/// Adds the error about a selector that does not match the template's labels.
pub(crate) fn add_selector_mismatch(errors: &mut Errors, labels: Option<&Value>, template: &FieldPath<'_>) {
    let metadata = template.child("metadata");
    let text = "`selector` does not match template `labels`";
    errors.push(FieldError::invalid(&metadata.child("labels"), labels.cloned(), text));
}
