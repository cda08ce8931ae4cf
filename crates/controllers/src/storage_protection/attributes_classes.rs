//! Which volume attributes classes claims and volumes use.

use std::collections::BTreeSet;
use std::sync::Arc;

use memchr::memmem;
use pintle_cache::{Event, KeyRange, Object};
use pintle_registry::ApiError;
use pintle_value::{Str, Value};

use super::{Protection, readable};
use crate::ClusterClient;
use crate::objects::tree;

const USERS: &[(&str, &str)] = &[("", "persistentvolumes"), ("", "persistentvolumeclaims")];
/// The fields in which a claim or volume names a class.
const REFERENCES: [&[&str]; 3] = [
    &["spec", "volumeAttributesClassName"],
    &["status", "currentVolumeAttributesClassName"],
    &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
];

/// Volume attributes classes, which claims and volumes use.
pub(crate) static VOLUME_ATTRIBUTES_CLASSES: Protection = Protection {
    controller: "volumeattributesclass-protection-controller",
    queue: "vacprotection",
    resource: ("storage.k8s.io", "volumeattributesclasses"),
    finalizer: pintle_value::metadata::ATTRIBUTES_CLASS_PROTECTION,
    adds_finalizer: true,
    users: USERS,
    released,
    used,
};

/// The classes that a stored claim or volume names. The object is decoded only if it may name a class.
fn classes(object: &Object) -> Vec<Str> {
    let may_have_some = memmem::find(&object.json, b"olumeAttributesClassName\"").is_some();
    let Some(object) = may_have_some.then(|| tree(object)).flatten() else { return Vec::new() };
    let names = REFERENCES.iter().map(|path| object.str_at(path)).filter(|name| !name.is_empty());
    names.map(Str::from).collect()
}

/// The classes that a claim or volume named before it changed.
fn released(event: &Event) -> Vec<(Str, Str)> {
    let classes = event.previous.iter().flat_map(|object| classes(object));
    classes.map(|class| (Str::default(), class)).collect()
}

fn used(client: &Arc<dyn ClusterClient>, _: &str, _: &[Value]) -> Result<BTreeSet<Str>, ApiError> {
    let mut used = BTreeSet::new();
    for resource in USERS {
        let (users, range) = readable(client, *resource, KeyRange::All)?;
        users.objects(range).for_each(|user| used.extend(classes(&user)));
    }
    Ok(used)
}
