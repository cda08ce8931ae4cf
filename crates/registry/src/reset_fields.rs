//! Reset fields: the fields that a write through an object or subresource does not change (upstream: `GetResetFields`).
//! The field manager of the write does not own them.

use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::{FieldSet, Filter};

/// The filter that excludes the fields at these dotted paths, and all fields below them, from managed fields. `None` if
/// there are no paths.
#[must_use]
pub fn reset_field_filter(paths: &[&str]) -> Option<Filter> {
    let path = |text: &&str| text.split('.').map(PathElement::field).collect::<Vec<_>>();
    (!paths.is_empty()).then(|| Filter::Exclude(paths.iter().map(path).collect::<FieldSet>()))
}
