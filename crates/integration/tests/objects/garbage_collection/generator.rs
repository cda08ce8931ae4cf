//! The workload generator: chooses the next actions of the clients at random.

use std::collections::BTreeSet;

use super::model::{ModelState, OwnerEdit};
use super::object::{CUSTOM_FINALIZER, FOREGROUND, KINDS, KindLifetime, NAMESPACES, ORPHAN, OwnerRef, TestObject};
use super::random::SeededRandom;

/// The number of objects above which the generator only deletes.
const MAX_OBJECTS: usize = 40;
/// The number of names. Names are reused, so that an owner reference may name an object with another UID.
const NAMES: usize = 12;
const POLICIES: [Option<&str>; 4] = [None, Some("Background"), Some("Foreground"), Some("Orphan")];

/// An action for a client.
#[derive(Clone, Debug)]
pub(crate) enum PlannedAction {
    Create(TestObject),
    Delete {
        uid: String,
        policy: Option<&'static str>,
    },
    Update {
        uid: String,
        edit: OwnerEdit,
    },
    CreateCrd(usize),
    DeleteCrd(usize),
    /// Restarts the server after this number of further observed changes, with a kill or gracefully.
    Restart {
        kill: bool,
        after: usize,
    },
}

/// Generates a batch of actions, which clients perform without waiting for the garbage collector in between.
pub(crate) fn generate(state: &ModelState, random: &mut SeededRandom) -> Vec<PlannedAction> {
    let uids: Vec<&String> = state.sorted_by_name().into_iter().map(|(uid, _)| uid).collect();
    let mut generator = WorkloadGenerator { state, random, taken: BTreeSet::new() };
    let mut actions = match generator.random.below(100) {
        _ if uids.len() < 4 => generator.create_some(),
        _ if uids.len() > MAX_OBJECTS => vec![generator.delete_any(&uids)],
        0..35 => generator.create_some(),
        35..58 => vec![generator.delete_any(&uids)],
        58..66 => {
            // Creates dependents, and immediately deletes their owner with the orphan policy.
            let owner = (*generator.random.choose(&uids)).clone();
            let mut actions = generator.create_dependents(&owner);
            actions.push(PlannedAction::Delete { uid: owner, policy: Some("Orphan") });
            actions
        }
        66..75 => {
            // Deletes an owner, and adds another owner to its dependents.
            let (owner, adopter) = (generator.random.choose(&uids), (*generator.random.choose(&uids)).clone());
            let is_dependent =
                |uid: &&&String| **uid != &adopter && state.objects[**uid].owners.iter().any(|it| it.uid == **owner);
            let dependents: Vec<String> = uids.iter().filter(is_dependent).map(|uid| (*uid).clone()).collect();
            let mut actions = vec![generator.delete(owner)];
            actions.extend(dependents.into_iter().map(|uid| generator.add_owner(uid, &adopter)));
            actions
        }
        75..81 => {
            // Deletes an owner, and then creates dependents of it.
            let owner = (*generator.random.choose(&uids)).clone();
            let mut actions = vec![generator.delete(&owner)];
            actions.extend(generator.create_dependents(&owner));
            actions
        }
        81..89 => {
            let with_finalizer: Vec<&&String> =
                uids.iter().filter(|uid| state.objects[**uid].has_finalizer(CUSTOM_FINALIZER)).collect();
            match with_finalizer.is_empty() {
                true => generator.create_some(),
                false => vec![PlannedAction::Update {
                    uid: (**generator.random.choose(&with_finalizer)).clone(),
                    edit: OwnerEdit::RemoveFinalizer,
                }],
            }
        }
        89..94 => {
            let (uid, adopter) = ((*generator.random.choose(&uids)).clone(), (*generator.random.choose(&uids)).clone());
            // No object owns itself: the result would depend on when the collector observes it.
            if uid == adopter { generator.create_some() } else { vec![generator.add_owner(uid, &adopter)] }
        }
        _ => generator.remove_or_unblock_owner(&uids),
    };
    if random.one_in(7) {
        actions.push(PlannedAction::Restart { kill: random.one_in(2), after: random.below(6) });
    }
    actions
}

struct WorkloadGenerator<'a> {
    state: &'a ModelState,
    random: &'a mut SeededRandom,
    /// The names that this batch uses: kind, namespace and name.
    taken: BTreeSet<(usize, String, String)>,
}

impl WorkloadGenerator<'_> {
    /// Creates one to three objects.
    fn create_some(&mut self) -> Vec<PlannedAction> {
        (0..=self.random.below(3)).filter_map(|_| self.create(None)).collect()
    }

    /// Creates one to three dependents of an object.
    fn create_dependents(&mut self, owner: &str) -> Vec<PlannedAction> {
        (0..=self.random.below(3)).filter_map(|_| self.create(Some(owner))).collect()
    }

    /// Creates an object with some owners; `None` if its name is in use.
    fn create(&mut self, owner: Option<&str>) -> Option<PlannedAction> {
        let kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| self.state.is_served(*kind)).collect();
        let kind = *self.random.choose(&kinds);
        let namespace = if KINDS[kind].namespaced { *self.random.choose(&NAMESPACES) } else { "" };
        let owner = owner.map(|uid| (uid, &self.state.objects[uid]));
        // A namespaced object is created in the namespace of its owner.
        let owner_namespace = owner.map(|(_, it)| it.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let namespace = if namespace.is_empty() { "" } else { owner_namespace.unwrap_or(namespace) };
        let name = format!("n{}", self.random.below(NAMES));
        let has_name = |it: &TestObject| it.kind == kind && it.namespace == namespace && it.name == name;
        if self.state.objects.values().any(has_name) || !self.taken.insert((kind, namespace.to_owned(), name.clone())) {
            return None;
        }
        let mut owners: Vec<OwnerRef> = Vec::new();
        let block_owner_deletion = self.random.one_in(2);
        owners.extend(owner.map(|(uid, it)| it.reference(uid, block_owner_deletion)));
        for _ in 0..self.random.below(4) {
            owners.extend(self.random_owner_reference(namespace));
        }
        let mut uids = BTreeSet::new();
        owners.retain(|owner| uids.insert(owner.uid.clone()));
        let finalizer = match self.random.below(30) {
            0..6 => Some(CUSTOM_FINALIZER),
            6 => Some(ORPHAN),
            7 => Some(FOREGROUND),
            _ => None,
        };
        Some(PlannedAction::Create(TestObject {
            kind,
            namespace: namespace.to_owned(),
            name,
            owners,
            finalizers: finalizer.map(str::to_owned).into_iter().collect(),
            terminating: false,
        }))
    }

    /// An owner reference for an object in a namespace, to an existing object or sometimes an invalid one.
    fn random_owner_reference(&mut self, namespace: &str) -> Option<OwnerRef> {
        let block_owner_deletion = self.random.one_in(2);
        let variant = self.random.below(40);
        if variant < 3 {
            // The owner never existed. Its kind may not exist either.
            let (kind, name) = (self.random.below(KINDS.len()), format!("n{}", self.random.below(NAMES)));
            let uid = format!("00000000-0000-0000-0000-{:012}", self.random.below(1_000_000));
            return Some(OwnerRef { kind, name, uid, block_owner_deletion });
        }
        let fits = |object: &TestObject| object.namespace.is_empty() || object.namespace == namespace || variant == 3;
        let mut candidates = self.state.sorted_by_name();
        candidates.retain(|(_, object)| fits(object));
        if candidates.is_empty() {
            return None;
        }
        let (uid, object) = *self.random.choose(&candidates);
        let mut owner = object.reference(uid, block_owner_deletion);
        match variant {
            4 => owner.name.push('x'),
            5 => owner.kind = self.random.below(KINDS.len()),
            6 => owner.uid = format!("{:08}-0000-0000-0000-000000000000", self.random.below(1_000_000)),
            _ => {}
        }
        Some(owner)
    }

    fn delete_any(&mut self, uids: &[&String]) -> PlannedAction {
        let uid = *self.random.choose(uids);
        self.delete(uid)
    }

    fn delete(&mut self, uid: &str) -> PlannedAction {
        PlannedAction::Delete { uid: uid.to_owned(), policy: *self.random.choose(&POLICIES) }
    }

    fn add_owner(&mut self, uid: String, adopter: &str) -> PlannedAction {
        let block_owner_deletion = self.random.one_in(2);
        PlannedAction::Update {
            uid,
            edit: OwnerEdit::AddOwner(self.state.objects[adopter].reference(adopter, block_owner_deletion)),
        }
    }

    /// Removes an owner reference, or sets its `blockOwnerDeletion` to false.
    fn remove_or_unblock_owner(&mut self, uids: &[&String]) -> Vec<PlannedAction> {
        let owned: Vec<&&String> = uids.iter().filter(|uid| !self.state.objects[**uid].owners.is_empty()).collect();
        if owned.is_empty() {
            return self.create_some();
        }
        let uid = (**self.random.choose(&owned)).clone();
        let owner = self.random.choose(&self.state.objects[&uid].owners).uid.clone();
        let edit = if self.random.one_in(2) { OwnerEdit::RemoveOwner(owner) } else { OwnerEdit::UnblockOwner(owner) };
        vec![PlannedAction::Update { uid, edit }]
    }
}

/// The kinds with a lifetime.
pub(crate) fn kinds_with(lifetime: KindLifetime) -> impl Iterator<Item = usize> {
    (0..KINDS.len()).filter(move |kind| KINDS[*kind].lifetime == lifetime)
}
