//! Taking away what a manager applied before and applies no more, unless someone else wants it or never gave it up.

use std::collections::BTreeMap;

use super::objects::{ConvertError, Object};
use super::updater::failed;
use super::{Managers, Owned, UpdateError};
use crate::set::FieldSet;

/// Prunes a merged object: a field or item goes if the manager applied it last time, does not apply it this time, and
/// nobody else owns it.
pub(super) fn prune<'v, M: Ord>(
    merged: Object<'v>,
    managers: &Managers<M>,
    manager: &M,
    last: Option<Owned>,
) -> Result<Object<'v>, UpdateError<M>> {
    let Some(last) = last.filter(|last| !last.set.is_empty()) else { return Ok(merged) };
    // Who applies all that they did before gives up nothing. This is what most applies are.
    let applied_again =
        managers.get(manager).is_some_and(|now| now.version == last.version && last.set.is_subset(&now.set));
    if applied_again {
        return Ok(merged);
    }
    let Some(at_last) = at(&merged, &last.version, "failed to convert merged object to last applied version")? else {
        return Ok(merged);
    };
    let pruned = at_last.remove(&at_last.named(&last.set));
    let pruned = add_back_owned(&at_last, pruned, managers)?;
    let pruned = add_back_dangling(&at_last, pruned, &last)?;
    pruned.convert(&merged.version).map_err(failed("failed to convert pruned object"))
}

/// Adds back what was removed but is owned by someone, be it the manager with its new configuration.
fn add_back_owned<'v, M: Ord>(
    merged: &Object<'v>,
    pruned: Object<'v>,
    managers: &Managers<M>,
) -> Result<Object<'v>, UpdateError<M>> {
    let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for manager in managers.values() {
        let set = owned.entry(&manager.version).or_default();
        *set = set.union(&manager.set);
    }
    // The version of the objects comes first, lest the conversion to others fails for want of a field.
    let here = merged.version.as_ref();
    let mut sets: Vec<(&str, FieldSet)> = owned.remove_entry(here).into_iter().collect();
    sets.extend(owned);
    let (mut merged, mut pruned) = (merged.clone(), pruned);
    for (version, set) in sets {
        let Some(converted) = at(&merged, version, "failed to convert merged object")? else { continue };
        merged = converted;
        let Some(converted) = at(&pruned, version, "failed to convert pruned object")? else { continue };
        let wanted = converted.named_field_set().union(&merged.named(&set));
        pruned = merged.remove(&merged.named_field_set().difference(&wanted));
    }
    Ok(pruned)
}

/// Adds back what was removed but was never the manager's: what nobody owns, or owned when the item around it went.
fn add_back_dangling<'v, M>(
    merged: &Object<'v>,
    pruned: Object<'v>,
    last: &Owned,
) -> Result<Object<'v>, UpdateError<M>> {
    let Some(pruned) = at(&pruned, &last.version, "failed to convert pruned object to last applied version")? else {
        return Ok(merged.clone());
    };
    let gone = merged.named_field_set().difference(&pruned.named_field_set());
    Ok(merged.remove(&gone.intersection(&merged.named(&last.set))))
}

/// An object at another version; `None` if there is no such version.
pub(super) fn at<'v, M>(
    object: &Object<'v>,
    version: &str,
    step: &'static str,
) -> Result<Option<Object<'v>>, UpdateError<M>> {
    match object.convert(version) {
        Ok(converted) => Ok(Some(converted)),
        Err(ConvertError::MissingVersion) => Ok(None),
        Err(error) => Err(failed(step)(error)),
    }
}
