//! The dependency graph: the dependents of each owner, as the informer has reported them.

use std::collections::{HashMap, HashSet};

use pintle_cache::Key;
use pintle_value::Str;

use super::metadata::OwnerReference;

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectIdentity {
    /// The prefix of its collection.
    pub(super) prefix: Str,
    /// Its key in the collection.
    pub(super) key: Key,
    pub(super) uid: Str,
}

impl ObjectIdentity {
    /// Its namespace, empty if it is cluster-scoped, and its name.
    pub(super) fn namespace_and_name(&self) -> (&str, &str) {
        self.key.split_once('/').unwrap_or(("", &self.key))
    }
}

/// The dependents of an owner.
#[derive(Debug, Default)]
struct Dependents {
    /// The dependents, each with its `blockOwnerDeletion`.
    blocking_by_object: HashMap<ObjectIdentity, bool>,
    blocking_count: usize,
    /// The key of the owner, once its deletion was reported. It is then known to be absent even if its kind is not
    /// served.
    deleted_owner: Option<Key>,
}

/// The dependents of every owner by the owner's uid, whether the owner exists or not.
#[derive(Debug, Default)]
pub(super) struct Graph(HashMap<Str, Dependents>);

impl Graph {
    /// Replaces the owners of an object. The records of the remaining owners stay.
    pub(super) fn update(&mut self, object: &ObjectIdentity, before: &[OwnerReference], after: &[OwnerReference]) {
        let kept: HashSet<&str> = after.iter().map(|owner| owner.uid.as_str()).collect();
        for owner in before.iter().filter(|owner| !kept.contains(owner.uid.as_str())) {
            self.remove(&owner.uid, object);
        }
        for owner in after {
            let dependents = self.0.entry(owner.uid.clone()).or_default();
            if dependents.blocking_by_object.insert(object.clone(), owner.blocks_deletion) != Some(true) {
                dependents.blocking_count += usize::from(owner.blocks_deletion);
            } else if !owner.blocks_deletion {
                dependents.blocking_count -= 1;
            }
        }
    }

    fn remove(&mut self, owner: &str, object: &ObjectIdentity) {
        let Some(dependents) = self.0.get_mut(owner) else { return };
        if dependents.blocking_by_object.remove(object) == Some(true) {
            dependents.blocking_count -= 1;
        }
        if dependents.blocking_by_object.is_empty() {
            self.0.remove(owner);
        }
    }

    /// Removes the dependents in a collection.
    pub(super) fn remove_collection(&mut self, prefix: &str) {
        self.0.retain(|_, dependents| {
            dependents.blocking_by_object.retain(|object, _| object.prefix != prefix);
            dependents.blocking_count = dependents.blocking_by_object.values().filter(|blocks| **blocks).count();
            !dependents.blocking_by_object.is_empty()
        });
    }

    /// Records the deletion of an owner for as long as it has dependents.
    pub(super) fn record_deletion(&mut self, owner: &str, key: &Key) {
        if let Some(dependents) = self.0.get_mut(owner) {
            dependents.deleted_owner = Some(key.clone());
        }
    }

    /// True if the deletion of the owner that an object in a namespace references was recorded.
    pub(super) fn is_deleted(&self, owner: &OwnerReference, namespace: &str) -> bool {
        let deleted = self.0.get(&owner.uid).and_then(|dependents| dependents.deleted_owner.as_ref());
        deleted.is_some_and(|key| match key.split_once('/') {
            Some(namespace_and_name) => namespace_and_name == (namespace, &*owner.name),
            None => **key == *owner.name,
        })
    }

    /// The dependents of an owner.
    pub(super) fn dependents(&self, owner: &str) -> impl Iterator<Item = &ObjectIdentity> {
        self.0.get(owner).into_iter().flat_map(|dependents| dependents.blocking_by_object.keys())
    }

    /// True if an owner has dependents that block its foreground deletion.
    pub(super) fn is_blocked(&self, owner: &str) -> bool {
        self.0.get(owner).is_some_and(|dependents| dependents.blocking_count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectIdentity {
        ObjectIdentity { prefix: "things".into(), key: name.into(), uid: format!("uid of {name}").into() }
    }

    fn owner(uid: &str, blocks_deletion: bool) -> OwnerReference {
        OwnerReference {
            api_version: "v1".into(),
            kind: "Thing".into(),
            name: uid.into(),
            uid: uid.into(),
            blocks_deletion,
        }
    }

    fn check(graph: &Graph, owner: &str, dependents: &str, blocked: bool) {
        let mut found: Vec<&str> = graph.dependents(owner).map(|dependent| &*dependent.key).collect();
        found.sort_unstable();
        assert_eq!((found.join(" "), graph.is_blocked(owner)), (dependents.to_owned(), blocked), "{owner}");
    }

    #[test]
    fn dependents_are_added_updated_and_removed() {
        let mut graph = Graph::default();
        let (a, b) = (object("a"), object("b"));
        graph.update(&a, &[], &[owner("x", true), owner("y", false)]);
        graph.update(&b, &[], &[owner("x", false)]);
        check(&graph, "x", "a b", true);
        check(&graph, "y", "a", false);
        graph.update(&a, &[owner("x", true), owner("y", false)], &[owner("x", false)]);
        check(&graph, "x", "a b", false);
        check(&graph, "y", "", false);
        graph.update(&b, &[owner("x", false)], &[owner("x", true), owner("x", true)]);
        check(&graph, "x", "a b", true);
        graph.update(&b, &[owner("x", true), owner("x", true)], &[]);
        graph.update(&a, &[owner("x", false)], &[]);
        check(&graph, "x", "", false);
        assert!(graph.0.is_empty());
    }

    #[test]
    fn deletions_of_owners_are_recorded_while_they_have_dependents() {
        let mut graph = Graph::default();
        let check = |graph: &Graph, namespace: &str, expect: bool| {
            assert_eq!(graph.is_deleted(&owner("x", true), namespace), expect, "{namespace:?}");
        };
        graph.record_deletion("x", &"x".into());
        check(&graph, "here", false);
        graph.update(&object("a"), &[], &[owner("x", true)]);
        check(&graph, "here", false);
        graph.record_deletion("x", &"x".into());
        check(&graph, "here", true);
        check(&graph, "", true);
        graph.record_deletion("x", &"here/x".into());
        check(&graph, "here", true);
        check(&graph, "there", false);
        check(&graph, "", false);
        graph.record_deletion("x", &"here/y".into());
        check(&graph, "here", false);
        graph.record_deletion("x", &"x".into());
        graph.update(&object("a"), &[owner("x", true)], &[owner("y", true), owner("x", false)]);
        check(&graph, "here", true);
        assert!(!graph.is_blocked("x") && graph.is_blocked("y"));
        graph.update(&object("a"), &[owner("y", true), owner("x", false)], &[]);
        assert!(graph.0.is_empty());
    }
}
