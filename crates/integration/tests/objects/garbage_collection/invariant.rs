//! The main invariant, checked against the whole history. Unless a client requested it, an object with a live owner is
//! not deleted, and does not lose the owner reference.

use std::collections::BTreeSet;

use super::model::{ObjectMap, OwnerStatus, classify_owner};
use super::object::{ORPHAN, OwnerRef, TestObject};
use super::observer::ObservedChange;

/// The requests of clients.
#[derive(Debug, Default)]
pub(crate) struct ClientRequests {
    /// Kinds whose CRD a client deleted.
    pub(crate) kinds: BTreeSet<usize>,
    /// The UIDs of objects that a client deleted.
    pub(crate) deleted: BTreeSet<String>,
    /// Owner references that a client removed: the UIDs of the dependent and of the owner.
    pub(crate) removed_owners: BTreeSet<(String, String)>,
}

/// Returns a description of each violation of the invariant.
pub(crate) fn find_violations(history: &[ObservedChange], requests: &ClientRequests) -> Vec<String> {
    let mut objects = ObjectMap::new();
    // Owners that were deleted in the foreground. They no longer keep their dependents alive.
    let mut foreground_deleted = BTreeSet::new();
    let mut violations = Vec::new();
    for ObservedChange { revision, uid, object } in history {
        let is_solid = |before: &TestObject, owner: &OwnerRef| {
            classify_owner(&objects, before, owner) == OwnerStatus::Solid && !foreground_deleted.contains(&owner.uid)
        };
        if let Some(before) = objects.get(uid) {
            let is_deleted = !before.terminating && object.as_ref().is_none_or(|object| object.terminating);
            let was_requested = requests.deleted.contains(uid) || requests.kinds.contains(&before.kind);
            if is_deleted && !was_requested && before.owners.iter().any(|owner| is_solid(before, owner)) {
                violations.push(format!("{revision}: {uid} is deleted: {before:?}"));
            }
            for owner in lost_owners(before, object.as_ref()) {
                let owner_orphans =
                    objects.get(&owner.uid).is_some_and(|it| it.terminating && it.has_finalizer(ORPHAN));
                let was_requested = requests.removed_owners.contains(&(uid.clone(), owner.uid.clone()));
                if !was_requested && !owner_orphans && is_solid(before, owner) {
                    violations.push(format!("{revision}: {uid} loses {owner:?}: {before:?}"));
                }
            }
        }
        if object.as_ref().is_some_and(TestObject::waits_for_dependents) {
            foreground_deleted.insert(uid.clone());
        }
        match object.clone() {
            Some(object) => drop(objects.insert(uid.clone(), object)),
            None => drop(objects.remove(uid)),
        }
    }
    violations
}

/// The owner references that an update removed.
fn lost_owners<'a>(before: &'a TestObject, after: Option<&'a TestObject>) -> impl Iterator<Item = &'a OwnerRef> {
    let has_owner = move |after: &TestObject, uid: &str| after.owners.iter().any(|owner| owner.uid == uid);
    let is_lost = move |uid: &str| after.is_some_and(|after| !has_owner(after, uid));
    before.owners.iter().filter(move |owner| is_lost(&owner.uid))
}

#[test]
fn deletion_of_an_owned_object_is_a_violation() {
    let owner = TestObject {
        kind: 0,
        namespace: "one".into(),
        name: "owner".into(),
        owners: Vec::new(),
        finalizers: BTreeSet::new(),
        terminating: false,
    };
    let dependent = TestObject { name: "dependent".into(), owners: vec![owner.reference("a", true)], ..owner.clone() };
    let released = TestObject { owners: Vec::new(), ..dependent.clone() };
    let deleted: Option<TestObject> = None;
    let check = |changes: &[(&str, &Option<TestObject>)], requests: &ClientRequests, expected: usize| {
        let change = |(revision, (uid, object)): (usize, &(&str, &Option<TestObject>))| ObservedChange {
            revision: revision as u64,
            uid: (*uid).to_owned(),
            object: (*object).clone(),
        };
        let history: Vec<ObservedChange> = changes.iter().enumerate().map(change).collect();
        assert_eq!(find_violations(&history, requests).len(), expected, "{history:?}");
    };
    let no_requests = ClientRequests::default();
    let (owner, dependent, released) = (Some(owner), Some(dependent), Some(released));
    check(&[("a", &owner), ("b", &dependent), ("b", &deleted)], &no_requests, 1);
    check(&[("a", &owner), ("b", &dependent), ("b", &released)], &no_requests, 1);
    check(&[("a", &owner), ("b", &dependent), ("a", &deleted), ("b", &deleted)], &no_requests, 0);
    let delete = ClientRequests { deleted: ["b".to_owned()].into(), ..ClientRequests::default() };
    check(&[("a", &owner), ("b", &dependent), ("b", &deleted)], &delete, 0);
    let remove_owner =
        ClientRequests { removed_owners: [("b".to_owned(), "a".to_owned())].into(), ..ClientRequests::default() };
    check(&[("a", &owner), ("b", &dependent), ("b", &released)], &remove_owner, 0);
}
