//! The class that objects without a class get. It is the newest class that is marked as the default.

use std::cmp::Reverse;

use pintle_registry::{ApiError, GroupResource};
use pintle_value::{Str, Value};

use crate::AdmissionAttributes;

/// The annotation of a claim that names its storage class, older than the field.
pub(crate) const CLAIM_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The name of the newest class of a resource that has one of these annotations with the value `true`. If several such
/// classes were created at the same time, the first by name counts.
pub(crate) fn default_class(
    attributes: &AdmissionAttributes<'_>,
    object: &Value,
    classes: &GroupResource,
    annotations: &[&str],
) -> Result<Option<Str>, ApiError> {
    let classes = attributes.client.list(classes, "");
    let classes = classes.map_err(|error| attributes.forbidden(object, error.to_string()))?;
    let is_default = |class: &&Value| annotations.iter().any(|annotation| class.annotation(annotation) == Some("true"));
    let newest = classes.iter().filter(is_default).min_by_key(|class| {
        let created = class.time_at(&["metadata", "creationTimestamp"]);
        (Reverse(created), class.name())
    });
    Ok(newest.map(|class| class.name().into()))
}
