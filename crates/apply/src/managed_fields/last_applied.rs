//! The way from `kubectl apply` in the client to apply in the server: what a user applied last is in an annotation, and
//! as far as the object still is so, it is theirs, whoever wrote it.

use pintle_value::Value;

use crate::set::FieldSet;
use crate::typed::{Duplicates, Place};

/// The annotation that `kubectl apply` keeps what it applied in, as JSON.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of what was applied last that a live object still has so; `None` if the two cannot be compared.
pub(super) fn unchanged_since(place: Place<'_>, last: &Value, live: &Value, version: &str) -> Option<FieldSet> {
    if last.api_version() != version {
        return None;
    }
    place.validate(live, Duplicates::Forbidden).ok()?;
    place.validate(last, Duplicates::Forbidden).ok()?;
    let changed = place.compare(last, live).ok()?;
    let set = place.field_set(last);
    Some(set.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}
