//! Pruning of fields and items that a manager no longer applies and that nobody else owns (upstream: `Updater.prune`).

use std::collections::BTreeMap;

use super::updater::step_error;
use super::versioned_object::{ConvertError, VersionedObject};
use super::{ManagedFields, UpdateError, VersionedSet};
use pintle_fieldpath::set::FieldSet;

/// Prunes a merged object. Removes a field or item if the manager applied it last time, does not apply it this time,
/// and no other manager owns it.
pub(super) fn prune<'v, M: Ord>(
    merged: VersionedObject<'v>,
    managers: &ManagedFields<M>,
    manager: &M,
    last: Option<VersionedSet>,
) -> Result<VersionedObject<'v>, UpdateError<M>> {
    let Some(last) = last.filter(|last| !last.set.is_empty()) else { return Ok(merged) };
    // A manager that applies a superset of its last fields gives up nothing. This is the common case.
    let applied_again =
        managers.get(manager).is_some_and(|now| now.version == last.version && last.set.is_subset(&now.set));
    if applied_again {
        return Ok(merged);
    }
    let Some(at_last_version) =
        convert_if_served(&merged, &last.version, "failed to convert merged object to last applied version")?
    else {
        return Ok(merged);
    };
    let pruned = at_last_version.remove(&at_last_version.ensure_named_fields_are_members(&last.set));
    let pruned = add_back_owned(&at_last_version, pruned, managers)?;
    let pruned = add_back_dangling(&at_last_version, pruned, &last)?;
    pruned.convert(&merged.version).map_err(step_error("failed to convert pruned object"))
}

/// Adds back removed fields and items that any manager owns. The current manager counts with its new configuration.
fn add_back_owned<'v, M: Ord>(
    merged: &VersionedObject<'v>,
    pruned: VersionedObject<'v>,
    managers: &ManagedFields<M>,
) -> Result<VersionedObject<'v>, UpdateError<M>> {
    let mut owned: BTreeMap<&str, Vec<FieldSet>> = BTreeMap::new();
    for manager in managers.values() {
        owned.entry(&manager.version).or_default().push(manager.set.clone());
    }
    // The objects' own version comes first, because the conversion to other versions may fail if a field is missing.
    let here = merged.version.as_ref();
    let mut sets: Vec<(&str, Vec<FieldSet>)> = owned.remove_entry(here).into_iter().collect();
    sets.extend(owned);
    let (mut merged, mut pruned) = (merged.clone(), pruned);
    for (version, sets) in sets {
        let set = FieldSet::union_all(sets);
        let Some(converted) = convert_if_served(&merged, version, "failed to convert merged object")? else { continue };
        merged = converted;
        let Some(converted) = convert_if_served(&pruned, version, "failed to convert pruned object")? else { continue };
        let wanted = converted.field_set_with_named_fields().union(&merged.ensure_named_fields_are_members(&set));
        pruned = merged.remove(&merged.field_set_with_named_fields().difference(&wanted));
    }
    Ok(pruned)
}

/// Adds back removed fields and items that never belonged to the manager. They have no owner, or others own them and
/// they were removed together with the item around them.
fn add_back_dangling<'v, M>(
    merged: &VersionedObject<'v>,
    pruned: VersionedObject<'v>,
    last: &VersionedSet,
) -> Result<VersionedObject<'v>, UpdateError<M>> {
    let Some(pruned) =
        convert_if_served(&pruned, &last.version, "failed to convert pruned object to last applied version")?
    else {
        return Ok(merged.clone());
    };
    let gone = merged.field_set_with_named_fields().difference(&pruned.field_set_with_named_fields());
    Ok(merged.remove(&gone.intersection(&merged.ensure_named_fields_are_members(&last.set))))
}

/// Converts an object to another version. Returns `None` if there is no such version.
pub(super) fn convert_if_served<'v, M>(
    object: &VersionedObject<'v>,
    version: &str,
    step: &'static str,
) -> Result<Option<VersionedObject<'v>>, UpdateError<M>> {
    match object.convert(version) {
        Ok(converted) => Ok(Some(converted)),
        Err(ConvertError::MissingVersion) => Ok(None),
        Err(error) => Err(step_error(step)(error)),
    }
}
