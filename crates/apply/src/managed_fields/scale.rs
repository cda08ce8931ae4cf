//! Who owns the number of replicas, as seen from an object and from its scale: the same managers, at another path and
//! version (upstream: `managedfields.ScaleHandler`).

use pintle_value::{Str, Value};

use super::{DecodeError, Managed, decode, encode};
use crate::managers::Owned;
use crate::path::PathElement;
use crate::set::FieldSet;

/// The version of a scale.
const SCALE: &str = "autoscaling/v1";

fn path_in_scale() -> [PathElement; 2] {
    [PathElement::field("spec"), PathElement::field("replicas")]
}

/// The path of the replicas at a version of the object; empty where that version has no scale, and `None` where there is
/// no such version.
pub type ReplicasPaths<'a> = &'a dyn Fn(&str) -> Option<Vec<PathElement>>;

/// The entries of a scale, made of those of its object.
pub fn to_scale(entries: &[Value], paths: ReplicasPaths<'_>) -> Result<Vec<Value>, DecodeError> {
    let parent = decode(entries)?;
    let mut scale = Managed::default();
    for (manager, owned) in parent.managers {
        let Some(path) = paths(&owned.version).filter(|path| !path.is_empty()) else { continue };
        if owned.set.has(&path) {
            let set = [path_in_scale()].into_iter().collect();
            if let Some(time) = parent.times.get(&manager) {
                scale.times.insert(manager.clone(), *time);
            }
            scale.managers.insert(manager, Owned { set, version: Str::const_new(SCALE), applied: owned.applied });
        }
    }
    Ok(encode(&scale))
}

/// The entries of an object after its scale was written: who lost the replicas there loses them here. `version` is that
/// of the object in the request.
pub fn from_scale(
    entries: &[Value],
    of_scale: &[Value],
    version: &str,
    paths: ReplicasPaths<'_>,
) -> Result<Vec<Value>, DecodeError> {
    let parent = decode(entries)?;
    let mut scale = decode(of_scale)?;
    let mut merged = Managed::default();
    for (manager, mut owned) in parent.managers {
        let Some(path) = paths(&owned.version) else { continue };
        if !path.is_empty() && owned.set.has(&path) && scale.managers.remove(&manager).is_none() {
            owned.set = owned.set.difference(&[path].into_iter().collect::<FieldSet>());
            if owned.set.is_empty() {
                continue;
            }
        }
        if let Some(time) = parent.times.get(&manager) {
            merged.times.insert(manager.clone(), *time);
        }
        merged.managers.insert(manager, owned);
    }
    for (manager, owned) in scale.managers {
        if !owned.set.has(&path_in_scale()) {
            continue;
        }
        let set = paths(version).into_iter().collect();
        // The time is that of the object's entry: who comes to own the replicas through a scale has none, as upstream.
        if let Some(time) = parent.times.get(&manager) {
            merged.times.insert(manager.clone(), *time);
        }
        merged.managers.insert(manager, Owned { set, version: Str::from(version), applied: owned.applied });
    }
    Ok(encode(&merged))
}
