//! Maps the ownership of the replicas between an object and its scale subresource: the same managers at another path
//! and version (upstream: `managedfields.ScaleHandler`).

use pintle_value::{Str, Value};

use super::{DecodeError, Managed, decode, encode};
use crate::merge::VersionedSet;
use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::FieldSet;

/// The version of the scale subresource.
const SCALE: &str = "autoscaling/v1";

fn path_in_scale() -> [PathElement; 2] {
    [PathElement::field("spec"), PathElement::field("replicas")]
}

/// Returns the path of the replicas at a version of the object. The path is empty if that version has no scale. `None`
/// if the version does not exist.
pub type ReplicasPaths<'a> = &'a dyn Fn(&str) -> Option<Vec<PathElement>>;

/// Derives the entries of a scale from the entries of its object (upstream: `ToSubresource`).
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
            scale
                .managers
                .insert(manager, VersionedSet { set, version: Str::const_new(SCALE), applied: owned.applied });
        }
    }
    Ok(encode(&scale))
}

/// Returns the entries of an object after its scale was written: a manager that lost the replicas in the scale loses
/// them in the object. `version` is the version of the object in the request (upstream: `ToParent`).
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
        // The time comes from the object's entry. A manager that acquires the replicas through the scale has no time,
        // as in upstream.
        if let Some(time) = parent.times.get(&manager) {
            merged.times.insert(manager.clone(), *time);
        }
        merged.managers.insert(manager, VersionedSet { set, version: Str::from(version), applied: owned.applied });
    }
    Ok(encode(&merged))
}
