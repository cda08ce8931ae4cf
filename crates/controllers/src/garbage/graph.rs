//! Who depends on whom, as far as the logs have told.

use std::collections::HashMap;

use pintle_cache::Key;
use pintle_value::Str;

use super::facts::Owner;

/// An object, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    /// The collection.
    pub(super) prefix: Str,
    /// Where it is in its collection.
    pub(super) key: Key,
    pub(super) uid: Str,
}

impl Item {
    /// Its namespace, empty in the cluster's scope, and its name.
    pub(super) fn place(&self) -> (&str, &str) {
        self.key.split_once('/').unwrap_or(("", &self.key))
    }
}

/// The dependents of an owner, each with whether the owner waits for it.
#[derive(Debug, Default)]
struct Dependents {
    items: HashMap<Item, bool>,
    blocking: usize,
    /// Where the owner was, once it was seen to go: no kind is needed any more to know that it is gone.
    gone: Option<Key>,
}

/// The dependents of every owner, whether the owner is there or not.
#[derive(Debug, Default)]
pub(super) struct Graph(HashMap<Str, Dependents>);

impl Graph {
    /// Notes whom an object depends on now and no longer.
    pub(super) fn change(&mut self, item: &Item, before: &[Owner], after: &[Owner]) {
        for owner in before {
            self.remove(&owner.uid, item);
        }
        for owner in after {
            let of_owner = self.0.entry(owner.uid.clone()).or_default();
            if of_owner.items.insert(item.clone(), owner.blocks) != Some(true) {
                of_owner.blocking += usize::from(owner.blocks);
            } else if !owner.blocks {
                of_owner.blocking -= 1;
            }
        }
    }

    fn remove(&mut self, owner: &str, item: &Item) {
        let Some(of_owner) = self.0.get_mut(owner) else { return };
        if of_owner.items.remove(item) == Some(true) {
            of_owner.blocking -= 1;
        }
        if of_owner.items.is_empty() {
            self.0.remove(owner);
        }
    }

    /// Forgets the objects of a collection.
    pub(super) fn forget(&mut self, prefix: &str) {
        self.0.retain(|_, of_owner| {
            of_owner.items.retain(|item, _| item.prefix != prefix);
            of_owner.blocking = of_owner.items.values().filter(|blocks| **blocks).count();
            !of_owner.items.is_empty()
        });
    }

    /// Notes that an owner has gone, for as long as something names it.
    pub(super) fn note_gone(&mut self, owner: &str, key: &Key) {
        if let Some(of_owner) = self.0.get_mut(owner) {
            of_owner.gone = Some(key.clone());
        }
    }

    /// True if the owner that something in a namespace names was seen to go.
    pub(super) fn is_gone(&self, owner: &Owner, namespace: &str) -> bool {
        let gone = self.0.get(&owner.uid).and_then(|of_owner| of_owner.gone.as_ref());
        gone.is_some_and(|key| match key.split_once('/') {
            Some((place, name)) => (place, name) == (namespace, &*owner.name),
            None => **key == *owner.name,
        })
    }

    /// The dependents of an owner.
    pub(super) fn dependents(&self, owner: &str) -> impl Iterator<Item = &Item> {
        self.0.get(owner).into_iter().flat_map(|of_owner| of_owner.items.keys())
    }

    /// True if a foreground deletion of an owner has to wait.
    pub(super) fn is_blocked(&self, owner: &str) -> bool {
        self.0.get(owner).is_some_and(|of_owner| of_owner.blocking > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        Item { prefix: "things".into(), key: name.into(), uid: format!("uid of {name}").into() }
    }

    fn owner(uid: &str, blocks: bool) -> Owner {
        Owner { api_version: "v1".into(), kind: "Thing".into(), name: uid.into(), uid: uid.into(), blocks }
    }

    fn check(graph: &Graph, owner: &str, dependents: &str, blocked: bool) {
        let mut found: Vec<&str> = graph.dependents(owner).map(|item| &*item.key).collect();
        found.sort_unstable();
        assert_eq!((found.join(" "), graph.is_blocked(owner)), (dependents.to_owned(), blocked), "{owner}");
    }

    #[test]
    fn dependents_come_change_and_go() {
        let mut graph = Graph::default();
        let (a, b) = (item("a"), item("b"));
        graph.change(&a, &[], &[owner("x", true), owner("y", false)]);
        graph.change(&b, &[], &[owner("x", false)]);
        check(&graph, "x", "a b", true);
        check(&graph, "y", "a", false);
        graph.change(&a, &[owner("x", true), owner("y", false)], &[owner("x", false)]);
        check(&graph, "x", "a b", false);
        check(&graph, "y", "", false);
        graph.change(&b, &[owner("x", false)], &[owner("x", true), owner("x", true)]);
        check(&graph, "x", "a b", true);
        graph.change(&b, &[owner("x", true), owner("x", true)], &[]);
        graph.change(&a, &[owner("x", false)], &[]);
        check(&graph, "x", "", false);
        assert!(graph.0.is_empty());
    }

    #[test]
    fn owners_that_went_are_known_while_they_are_named() {
        let mut graph = Graph::default();
        let check = |graph: &Graph, namespace: &str, expect: bool| {
            assert_eq!(graph.is_gone(&owner("x", true), namespace), expect, "{namespace:?}");
        };
        graph.note_gone("x", &"x".into());
        check(&graph, "here", false);
        graph.change(&item("a"), &[], &[owner("x", true)]);
        check(&graph, "here", false);
        graph.note_gone("x", &"x".into());
        check(&graph, "here", true);
        check(&graph, "", true);
        graph.note_gone("x", &"here/x".into());
        check(&graph, "here", true);
        check(&graph, "there", false);
        check(&graph, "", false);
        graph.note_gone("x", &"here/y".into());
        check(&graph, "here", false);
        graph.change(&item("a"), &[owner("x", true)], &[]);
        assert!(graph.0.is_empty());
    }
}
