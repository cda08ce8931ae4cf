//! Migration from client-side to server-side apply. An annotation holds the last applied configuration. Fields of the
//! live object that still have its values belong to the user, even if others wrote them (upstream:
//! `lastAppliedManager`).

use pintle_value::Value;

use crate::typed::{Duplicates, TypeRef};
use pintle_fieldpath::set::FieldSet;

/// The annotation in which `kubectl apply` stores the applied configuration as JSON.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the fields of the last applied configuration whose values the live object still has. `None` if the two
/// cannot be compared.
pub(super) fn fields_unchanged_since(
    type_ref: TypeRef<'_>,
    last_applied: &Value,
    live: &Value,
    version: &str,
) -> Option<FieldSet> {
    if last_applied.api_version() != version {
        return None;
    }
    type_ref.validate(live, Duplicates::Forbidden).ok()?;
    type_ref.validate(last_applied, Duplicates::Forbidden).ok()?;
    let changed = type_ref.compare(last_applied, live).ok()?;
    let set = type_ref.field_set(last_applied);
    Some(set.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}
