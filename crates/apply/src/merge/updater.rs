//! The updater (upstream: structured-merge-diff's `merge.Updater`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::{Str, Value};

use super::prune::{convert_if_served, prune};
use super::versioned_object::{ConvertError, VersionConverter, VersionedObject};
use super::{Conflict, ManagedFields, UpdateError, VersionedSet};
use crate::typed::Comparison;
use pintle_fieldpath::set::FieldSet;

/// Computes updates and applies of objects of one kind.
#[derive(Clone, Copy)]
pub struct Updater<'v> {
    /// The types and conversions of the kind.
    pub converter: &'v dyn VersionConverter,
}

impl Updater<'_> {
    /// Returns the managed fields after an update from `live` to `new`, both at `version`. For a creation, `live` is
    /// the empty object as its type encodes it, so that structs that are always present have no owner.
    pub fn update<M: Ord + Clone>(
        &self,
        live: &Value,
        new: &Value,
        version: &str,
        managers: ManagedFields<M>,
        manager: &M,
    ) -> Result<ManagedFields<M>, UpdateError<M>> {
        let (live, new) = (self.object(live, version)?, self.object(new, version)?);
        let mut managers = self.reconcile_managers(&live, managers)?;
        let compared = self.update_other_managers(&live, &new, &mut managers, manager, true)?;
        let mut set = managers.remove(manager).map(|owned| owned.set).unwrap_or_default();
        set.subtract(&compared.removed);
        set.merge(compared.modified);
        set.merge(compared.added);
        let set = self.filter_set(version, set);
        if !set.is_empty() {
            managers.insert(manager.clone(), VersionedSet { set, version: Str::from(version), applied: false });
        }
        Ok(managers)
    }

    /// Applies a configuration to a live object, both at `version`. Returns the managed fields and the new object, or
    /// `None` if the object did not change. The configuration must be valid for its type, without duplicates.
    pub fn apply<M: Ord + Clone>(
        &self,
        live: &Value,
        config: &Value,
        version: &str,
        managers: ManagedFields<M>,
        manager: &M,
        force: bool,
    ) -> Result<(Option<Value>, ManagedFields<M>), UpdateError<M>> {
        let (live, config) = (self.object(live, version)?, self.object(config, version)?);
        let mut managers = self.reconcile_managers(&live, managers)?;
        let merged = live.merge(&config)?;
        let set = self.filter_set(version, config.field_set());
        let applied = VersionedSet { set, version: Str::from(version), applied: true };
        let last = managers.insert(manager.clone(), applied);
        let new = prune(merged, &managers, manager, last)?;
        let compared = self.update_other_managers(&live, &new, &mut managers, manager, force)?;
        // A changed order of items changes the object, but does not show in the comparison.
        let is_changed = !compared.is_same() || !live.is_same(&new);
        let changed = is_changed.then(|| new.value.into_owned());
        Ok((changed, managers))
    }

    fn object<'o, M>(&'o self, value: &'o Value, version: &str) -> Result<VersionedObject<'o>, UpdateError<M>> {
        VersionedObject::new(self.converter, version, value)
            .map_err(step_error("failed to find the type of the object"))
    }

    fn filter_set(&self, version: &str, set: FieldSet) -> FieldSet {
        match self.converter.ignore_filter(version) {
            Some(filter) => filter.apply(set),
            None => set,
        }
    }

    /// Adapts the field sets to the current schema, and drops managers whose version no longer exists. Returns an error
    /// if the live object cannot be converted to a manager's version.
    fn reconcile_managers<M: Ord>(
        &self,
        live: &VersionedObject<'_>,
        managers: ManagedFields<M>,
    ) -> Result<ManagedFields<M>, UpdateError<M>> {
        let converter: BTreeSet<Str> = managers.values().map(|owned| owned.version.clone()).collect();
        for version in converter {
            if let Err(ConvertError::Failed(reason)) = live.convert(&version) {
                return Err(UpdateError::Failed(reason));
            }
        }
        let reconcile = |(manager, mut owned): (M, VersionedSet)| {
            let type_ref = self.converter.type_ref(&owned.version)?;
            if let Some(set) = type_ref.reconcile(&owned.set) {
                owned.set = set;
            }
            Some((manager, owned))
        };
        Ok(managers.into_iter().filter_map(reconcile).collect())
    }

    /// Removes changed and removed fields from all managers except the writing manager. Without `force`, returns the
    /// conflicts if another manager owns a changed field. Returns the comparison at the version of the objects.
    fn update_other_managers<M: Ord + Clone>(
        &self,
        old: &VersionedObject<'_>,
        new: &VersionedObject<'_>,
        managers: &mut ManagedFields<M>,
        by: &M,
        force: bool,
    ) -> Result<Comparison, UpdateError<M>> {
        let filter = |version: &str| self.converter.ignore_filter(version);
        let at_own_version = Changes::of(old.compare(new)?.filtered(filter(&old.version)));
        let mut at_other_versions: BTreeMap<Str, Option<Changes>> = BTreeMap::new();
        let (mut conflicts, mut left) = (Vec::new(), ManagedFields::new());
        for (manager, owned) in std::mem::take(managers) {
            if manager == *by {
                left.insert(manager, owned);
                continue;
            }
            let changes = if owned.version == old.version {
                &at_own_version
            } else {
                if !at_other_versions.contains_key(&owned.version) {
                    let compared = compare_at(old, new, &owned.version)?;
                    let changes = compared.map(|c| Changes::of(c.filtered(filter(&owned.version))));
                    at_other_versions.insert(owned.version.clone(), changes);
                }
                // A set at a version that no longer exists is dropped.
                let Some(Some(changes)) = at_other_versions.get(&owned.version) else { continue };
                changes
            };
            let taken = owned.set.intersection(&changes.written);
            if !force {
                conflicts.extend(taken.paths().into_iter().map(|path| Conflict { manager: manager.clone(), path }));
            }
            let set = owned.set.difference(&taken).difference(&changes.compared.removed);
            left.insert(manager, VersionedSet { set, ..owned });
        }
        if !force && !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(conflicts));
        }
        left.retain(|_, owned| !owned.set.is_empty());
        *managers = left;
        Ok(at_own_version.compared)
    }
}

/// The changes of a write at a version.
struct Changes {
    compared: Comparison,
    /// The added and modified fields, which other managers lose to the write.
    written: FieldSet,
}

impl Changes {
    fn of(compared: Comparison) -> Self {
        Self { written: compared.modified.union(&compared.added), compared }
    }
}

/// Compares two objects at another version. Returns `None` if there is no such version.
fn compare_at<M>(
    old: &VersionedObject<'_>,
    new: &VersionedObject<'_>,
    version: &str,
) -> Result<Option<Comparison>, UpdateError<M>> {
    let Some(old) = convert_if_served(old, version, "failed to convert old object")? else { return Ok(None) };
    let Some(new) = convert_if_served(new, version, "failed to convert new object")? else { return Ok(None) };
    old.compare(&new).map(Some)
}

/// Wraps a conversion error into an error that names the step.
pub(super) fn step_error<M>(step: &'static str) -> impl Fn(ConvertError) -> UpdateError<M> {
    move |error| UpdateError::Failed(format!("{step}: {error}"))
}
