//! Forgetting who updated long ago, but not what: of more than ten updaters the oldest become one per version.

use std::collections::BTreeMap;

use pintle_value::Str;

use super::{MAX_UPDATERS, Managed, Manager, Operation};

const OLD_UPDATES: &str = "ancient-changes";

/// Merges the oldest updaters of each version until there are no more than [`MAX_UPDATERS`].
pub(super) fn cap_updaters(managed: &mut Managed) {
    let mut updaters: Vec<(i64, Manager)> = Vec::new();
    for (manager, _) in managed.managers.iter().filter(|(_, owned)| !owned.applied) {
        updaters.push((managed.times.get(manager).map_or(0, |time| time.seconds), manager.clone()));
    }
    updaters.sort();
    let mut count = updaters.len();
    let mut first_of: BTreeMap<Str, Manager> = BTreeMap::new();
    for (_, manager) in updaters {
        if count <= MAX_UPDATERS {
            return;
        }
        let Some(owned) = managed.managers.get(&manager) else { continue };
        let version = owned.version.clone();
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, manager);
            continue;
        };
        let bucket = Manager::new(OLD_UPDATES, Operation::Update, &version, "");
        // The first of a version becomes the bucket, unless there is one from before.
        if !managed.managers.contains_key(&bucket)
            && let Some(first) = managed.managers.remove(first)
        {
            managed.managers.insert(bucket.clone(), first);
        }
        let Some(mut owned) = managed.managers.remove(&manager) else { continue };
        if let Some(bucket) = managed.managers.get(&bucket) {
            owned.set = owned.set.union(&bucket.set);
        }
        count -= 1;
        // The time is that of the youngest change in it.
        match managed.times.get(&manager).copied() {
            Some(time) => managed.times.insert(bucket.clone(), time),
            None => managed.times.remove(&bucket),
        };
        managed.managers.insert(bucket, owned);
    }
}
