//! Finds the values that a configuration sets as a whole (upstream: `findAtomics` of `policy/mutating/patch`).

use pintle_value::Value;

use super::TypeRef;
use super::atom::{Atom, ElementRelationship};

/// Collects the paths of atomic lists and maps. As in upstream, the walk descends into declared fields, but not into
/// the values of maps.
pub(super) fn collect(ty: TypeRef<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match (ty.atom(Some(value)), value) {
        (Atom::Map(map), Value::Object(fields)) => {
            if map.atomic {
                found.push(path.to_owned());
            }
            for (name, value) in fields.iter() {
                if let Some((ty, true)) = map.entry_and_declared(name) {
                    collect(ty, value, &format!("{path}.{name}"), found);
                }
            }
        }
        (Atom::List(list), Value::Array(items)) => {
            if matches!(list.relationship, ElementRelationship::Atomic) {
                found.push(path.to_owned());
            }
            for (i, item) in items.iter().enumerate() {
                collect(list.item, item, &format!("{path}[{i}]"), found);
            }
        }
        _ => {}
    }
}
