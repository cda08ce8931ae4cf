//! Caps the number of update managers: beyond ten, the oldest are merged into one entry per version (upstream:
//! `capManagersManager`).

use std::collections::BTreeMap;

use pintle_value::Str;

use super::{MAX_UPDATE_MANAGERS, Managed, Manager, Operation};
use pintle_fieldpath::set::FieldSet;

const ANCIENT_CHANGES: &str = "ancient-changes";

/// Merges the oldest update managers of each version until at most [`MAX_UPDATE_MANAGERS`] are left.
pub(super) fn cap_update_managers(managed: &mut Managed) {
    let mut updaters: Vec<(i64, Manager)> = Vec::new();
    for (manager, _) in managed.managers.iter().filter(|(_, owned)| !owned.applied) {
        updaters.push((managed.times.get(manager).map_or(0, |time| time.seconds), manager.clone()));
    }
    updaters.sort();
    let mut count = updaters.len();
    let mut first_of: BTreeMap<Str, Manager> = BTreeMap::new();
    // The sets of each bucket. The bucket's own set stays empty until all of them are united.
    let mut merged: BTreeMap<Manager, Vec<FieldSet>> = BTreeMap::new();
    for (_, manager) in updaters {
        if count <= MAX_UPDATE_MANAGERS {
            break;
        }
        let Some(owned) = managed.managers.get(&manager) else { continue };
        let version = owned.version.clone();
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, manager);
            continue;
        };
        let bucket = Manager::new(ANCIENT_CHANGES, Operation::Update, &version, "");
        // The first manager of a version becomes the bucket, unless a bucket exists already.
        if !managed.managers.contains_key(&bucket)
            && let Some(first) = managed.managers.remove(first)
        {
            managed.managers.insert(bucket.clone(), first);
        }
        let Some(mut owned) = managed.managers.remove(&manager) else { continue };
        let sets = merged.entry(bucket.clone()).or_default();
        sets.push(std::mem::take(&mut owned.set));
        if let Some(bucket) = managed.managers.get_mut(&bucket) {
            sets.push(std::mem::take(&mut bucket.set));
        }
        count -= 1;
        // The bucket takes the time of the most recent change merged into it.
        match managed.times.get(&manager).copied() {
            Some(time) => managed.times.insert(bucket.clone(), time),
            None => managed.times.remove(&bucket),
        };
        managed.managers.insert(bucket, owned);
    }
    for (bucket, sets) in merged {
        if let Some(bucket) = managed.managers.get_mut(&bucket) {
            bucket.set = FieldSet::union_all(sets);
        }
    }
}
