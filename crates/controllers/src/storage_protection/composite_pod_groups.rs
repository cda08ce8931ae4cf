//! Which groups of pod groups other groups belong to (upstream: `pkg/controller/scheduling/podgroupprotection`).

use std::collections::BTreeSet;
use std::sync::Arc;

use memchr::memmem;
use pintle_cache::{Event, KeyRange, Object};
use pintle_registry::ApiError;
use pintle_value::{Str, Value};

use super::{Protection, readable, resource_of};
use crate::ClusterClient;
use crate::objects::{is_served, tree};

const USERS: [(&str, &str); 2] = [("scheduling.k8s.io", "podgroups"), ("scheduling.k8s.io", "compositepodgroups")];

/// Groups of pod groups, to which groups of both kinds belong.
pub(crate) static COMPOSITE_POD_GROUPS: Protection = Protection {
    controller: "compositepodgroup-protection-controller",
    queue: "compositepodgroup_protection",
    resource: ("scheduling.k8s.io", "compositepodgroups"),
    finalizer: pintle_value::metadata::COMPOSITE_POD_GROUP_PROTECTION,
    adds_finalizer: false,
    users: &USERS,
    released,
    used,
};

/// The parent of a stored group. The group is decoded only if it may have one.
fn parent(group: &Object) -> Option<Str> {
    let may_have_one = memmem::find(&group.json, b"\"parentCompositePodGroupName\"").is_some();
    let group = may_have_one.then(|| tree(group)).flatten()?;
    let name = group.str_at(&["spec", "parentCompositePodGroupName"]);
    (!name.is_empty()).then(|| name.into())
}

/// The parent of a group before it changed.
fn released(event: &Event) -> Vec<(Str, Str)> {
    let previous = event.previous.as_ref().map(|group| (Str::from(group.namespace()), parent(group)));
    previous.and_then(|(namespace, parent)| Some((namespace, parent?))).into_iter().collect()
}

fn used(client: &Arc<dyn ClusterClient>, namespace: &str, _: &[Value]) -> Result<BTreeSet<Str>, ApiError> {
    let mut names = BTreeSet::new();
    for user in USERS.into_iter().filter(|user| is_served(client, &resource_of(*user))) {
        let (groups, range) = readable(client, user, KeyRange::Namespace(namespace.into()))?;
        names.extend(groups.objects(range).filter_map(|group| parent(&group)));
    }
    Ok(names)
}
