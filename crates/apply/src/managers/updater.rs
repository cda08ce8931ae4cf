//! Updates and applies.

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::{Str, Value};

use super::objects::{ConvertError, Object, Versions};
use super::prune::{at, prune};
use super::{Conflict, Managers, Owned, UpdateError};
use crate::set::FieldSet;
use crate::typed::Comparison;

/// What updates and applies need to know of a kind of objects.
#[derive(Clone, Copy)]
pub struct Updater<'v> {
    /// Its versions.
    pub versions: &'v dyn Versions,
}

impl Updater<'_> {
    /// Says who owns what after an update made one object of another, both at `version`. The live object of a creation is
    /// the empty object as its type writes it: the structs that are always there are nobody's.
    pub fn update<M: Ord + Clone>(
        &self,
        live: &Value,
        new: &Value,
        version: &str,
        managers: Managers<M>,
        manager: &M,
    ) -> Result<Managers<M>, UpdateError<M>> {
        let (live, new) = (self.object(live, version)?, self.object(new, version)?);
        let mut managers = self.reconciled(&live, managers)?;
        let compared = self.settle(&live, &new, &mut managers, manager, true)?;
        let before = managers.remove(manager).map(|owned| owned.set).unwrap_or_default();
        let set = before.difference(&compared.removed).union(&compared.modified).union(&compared.added);
        let set = self.filtered(version, set);
        if !set.is_empty() {
            managers.insert(manager.clone(), Owned { set, version: Str::from(version), applied: false });
        }
        Ok(managers)
    }

    /// Applies a configuration to a live object, both at `version`. Returns the object, or `None` if it did not change,
    /// and who owns what now. The configuration must fit its type, without duplicates.
    pub fn apply<M: Ord + Clone>(
        &self,
        live: &Value,
        config: &Value,
        version: &str,
        managers: Managers<M>,
        manager: &M,
        force: bool,
    ) -> Result<(Option<Value>, Managers<M>), UpdateError<M>> {
        let (live, config) = (self.object(live, version)?, self.object(config, version)?);
        let mut managers = self.reconciled(&live, managers)?;
        let merged = live.merge(&config)?;
        let set = self.filtered(version, config.field_set());
        let applied = Owned { set, version: Str::from(version), applied: true };
        let last = managers.insert(manager.clone(), applied);
        let new = prune(merged, &managers, manager, last)?;
        let compared = self.settle(&live, &new, &mut managers, manager, force)?;
        // The order of items is part of the object, but nothing that compares.
        let is_changed = !compared.is_same() || !live.is_same(&new);
        let changed = is_changed.then(|| new.value.into_owned());
        Ok((changed, managers))
    }

    fn object<'o, M>(&'o self, value: &'o Value, version: &str) -> Result<Object<'o>, UpdateError<M>> {
        Object::new(self.versions, version, value).map_err(failed("failed to find the type of the object"))
    }

    fn filtered(&self, version: &str, set: FieldSet) -> FieldSet {
        match self.versions.filter(version) {
            Some(filter) => filter.apply(set),
            None => set,
        }
    }

    /// The managers as the types of today have it. Those of versions that are gone own nothing any more. It is an error if
    /// the live object does not convert to the version of each.
    fn reconciled<M: Ord>(&self, live: &Object<'_>, managers: Managers<M>) -> Result<Managers<M>, UpdateError<M>> {
        let versions: BTreeSet<Str> = managers.values().map(|owned| owned.version.clone()).collect();
        for version in versions {
            if let Err(ConvertError::Failed(reason)) = live.convert(&version) {
                return Err(UpdateError::Failed(reason));
            }
        }
        let reconcile = |(manager, mut owned): (M, Owned)| {
            let place = self.versions.place(&owned.version)?;
            if let Some(set) = place.reconcile(&owned.set) {
                owned.set = set;
            }
            Some((manager, owned))
        };
        Ok(managers.into_iter().filter_map(reconcile).collect())
    }

    /// Takes what changed, or went away, from everyone but the one who did it. Without `force` it is a conflict if someone
    /// owned what changed. Returns what changed at the version of the objects.
    fn settle<M: Ord + Clone>(
        &self,
        old: &Object<'_>,
        new: &Object<'_>,
        managers: &mut Managers<M>,
        by: &M,
        force: bool,
    ) -> Result<Comparison, UpdateError<M>> {
        let filter = |version: &str| self.versions.filter(version);
        let mut comparisons: BTreeMap<Str, Option<Comparison>> = BTreeMap::new();
        let here = old.compare(new)?.filtered(filter(&old.version));
        comparisons.insert(Str::from(old.version.as_ref()), Some(here.clone()));
        let (mut conflicts, mut left) = (Vec::new(), Managers::new());
        for (manager, owned) in std::mem::take(managers) {
            if manager == *by {
                left.insert(manager, owned);
                continue;
            }
            if !comparisons.contains_key(&owned.version) {
                let compared = compare_at(old, new, &owned.version)?;
                comparisons.insert(owned.version.clone(), compared.map(|c| c.filtered(filter(&owned.version))));
            }
            // What was owned at a version that is gone is owned by nobody.
            let Some(Some(compared)) = comparisons.get(&owned.version) else { continue };
            if compared.is_same() {
                left.insert(manager, owned);
                continue;
            }
            let taken = owned.set.intersection(&compared.modified.union(&compared.added));
            conflicts.extend(taken.paths().into_iter().map(|path| Conflict { manager: manager.clone(), path }));
            let set = owned.set.difference(&taken).difference(&compared.removed);
            left.insert(manager, Owned { set, ..owned });
        }
        if !force && !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(conflicts));
        }
        left.retain(|_, owned| !owned.set.is_empty());
        *managers = left;
        Ok(here)
    }
}

/// What changed, at another version; `None` if there is no such version.
fn compare_at<M>(old: &Object<'_>, new: &Object<'_>, version: &str) -> Result<Option<Comparison>, UpdateError<M>> {
    let Some(old) = at(old, version, "failed to convert old object")? else { return Ok(None) };
    let Some(new) = at(new, version, "failed to convert new object")? else { return Ok(None) };
    old.compare(&new).map(Some)
}

/// Turns what went wrong in a conversion into an error of a step.
pub(super) fn failed<M>(step: &'static str) -> impl Fn(ConvertError) -> UpdateError<M> {
    move |error| UpdateError::Failed(format!("{step}: {error}"))
}
