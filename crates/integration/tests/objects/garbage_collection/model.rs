//! The model of the garbage collector: a state machine of small steps, each of which may happen at any time. If the
//! order of the steps does not matter, there is one final state. Otherwise, the final state of any order is correct.

use std::collections::{BTreeMap, BTreeSet};

use super::object::{CUSTOM_FINALIZER, FOREGROUND, KINDS, KindLifetime, ORPHAN, OwnerRef, TestObject};
use super::random::SeededRandom;

/// Objects by UID.
pub(crate) type ObjectMap = BTreeMap<String, TestObject>;

/// An action of a client, with its result.
#[derive(Clone, Debug)]
pub(crate) enum CompletedAction {
    Create {
        uid: String,
        object: TestObject,
    },
    Delete {
        uid: String,
        policy: Option<&'static str>,
        found: bool,
    },
    Update {
        uid: String,
        edit: OwnerEdit,
        found: bool,
    },
    CreateCrd(usize),
    DeleteCrd(usize),
    /// The server was restarted.
    Restart,
}

/// How a client updates an object.
#[derive(Clone, Debug)]
pub(crate) enum OwnerEdit {
    AddOwner(OwnerRef),
    /// Removes the reference to the owner with this UID.
    RemoveOwner(String),
    /// Sets `blockOwnerDeletion` of the reference to the owner with this UID to false.
    UnblockOwner(String),
    /// Removes the custom finalizer.
    RemoveFinalizer,
}

impl OwnerEdit {
    /// Applies the edit to an object.
    pub(crate) fn apply(&self, object: &mut TestObject) {
        match self {
            Self::AddOwner(owner) => object.owners.push(owner.clone()),
            Self::RemoveOwner(uid) => object.owners.retain(|owner| owner.uid != *uid),
            Self::UnblockOwner(uid) => {
                object
                    .owners
                    .iter_mut()
                    .filter(|owner| owner.uid == *uid)
                    .for_each(|owner| owner.block_owner_deletion = false);
            }
            Self::RemoveFinalizer => {
                object.finalizers.remove(CUSTOM_FINALIZER);
            }
        }
    }
}

/// The state of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KindPhase {
    NotServed,
    Served,
    /// The kind's CRD is being deleted.
    Terminating,
}

/// The state of the model.
#[derive(Clone, Debug)]
pub(crate) struct ModelState {
    pub(crate) objects: ObjectMap,
    kinds: [KindPhase; KINDS.len()],
    /// Deleted objects that the collector observed. It knows that they are absent even if their kind is no longer
    /// served.
    observed_deletes: ObjectMap,
    /// The objects that the last batch deleted.
    deleted: ObjectMap,
    /// Objects that an earlier batch deleted near a restart: the collector may or may not have observed their deletion.
    maybe_observed_deletes: ObjectMap,
    /// Owners for which the collector has decided to remove the foreground finalizer.
    finishing_foreground: BTreeSet<String>,
    /// Owners for which the collector has decided which dependents to orphan.
    orphaning: BTreeMap<String, Vec<String>>,
    /// Objects for which the collector has decided which owner references to remove. It removes them even if the object
    /// is deleted in the meantime.
    removing_owners: BTreeMap<String, Vec<String>>,
    /// True while the collector does not observe deletions, for example during a start.
    is_starting: bool,
}

/// A step that the collector can take. For steps in two phases, the first occurrence records the decision and the
/// second occurrence executes it.
enum CollectorStep {
    Update(String, TestObject),
    Delete(String, Option<&'static str>),
    /// Removes references to owners, in two phases.
    RemoveOwners(String, Vec<String>),
    /// Removes the foreground finalizer, in two phases.
    FinishForegroundDeletion(String),
    /// Removes the owner from its dependents and then the orphan finalizer, in two phases.
    OrphanDependents(String),
    /// Stops serving a kind whose objects are all deleted.
    RemoveKind(usize),
}

/// The status of an owner.
///
/// upstream: `classifyReferences` in pkg/controller/garbagecollector/garbagecollector.go
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerStatus {
    Solid,
    WaitingForDependents,
    Dangling,
    /// The collector cannot determine the status, so it does nothing.
    Unknown,
}

/// Returns the status of an owner whose kind is served.
pub(crate) fn classify_owner(objects: &ObjectMap, object: &TestObject, owner: &OwnerRef) -> OwnerStatus {
    let kind = &KINDS[owner.kind];
    if kind.namespaced && object.namespace.is_empty() {
        return OwnerStatus::Unknown;
    }
    let namespace = if kind.namespaced { object.namespace.as_str() } else { "" };
    match objects.get(&owner.uid) {
        Some(owner_object)
            if (owner_object.kind, owner_object.namespace.as_str(), &owner_object.name)
                != (owner.kind, namespace, &owner.name) =>
        {
            OwnerStatus::Dangling
        }
        Some(owner_object) if owner_object.waits_for_dependents() => OwnerStatus::WaitingForDependents,
        Some(_) => OwnerStatus::Solid,
        None => OwnerStatus::Dangling,
    }
}

impl ModelState {
    /// The state before the first action.
    pub(crate) fn new() -> Self {
        let phase = |lifetime| match lifetime {
            KindLifetime::BuiltIn | KindLifetime::DefinedAtStart | KindLifetime::DeletedLater => KindPhase::Served,
            KindLifetime::DefinedLater | KindLifetime::NeverDefined => KindPhase::NotServed,
        };
        let kinds = std::array::from_fn(|kind| phase(KINDS[kind].lifetime));
        Self {
            objects: ObjectMap::new(),
            kinds,
            observed_deletes: ObjectMap::new(),
            deleted: ObjectMap::new(),
            maybe_observed_deletes: ObjectMap::new(),
            finishing_foreground: BTreeSet::new(),
            orphaning: BTreeMap::new(),
            removing_owners: BTreeMap::new(),
            is_starting: false,
        }
    }

    /// All objects, in an order that does not depend on their UIDs.
    pub(crate) fn sorted_by_name(&self) -> Vec<(&String, &TestObject)> {
        let mut objects: Vec<(&String, &TestObject)> = self.objects.iter().collect();
        objects.sort_by_key(|(_, object)| (object.kind, &object.namespace, &object.name));
        objects
    }

    /// True if objects of a kind can be created.
    pub(crate) fn is_served(&self, kind: usize) -> bool {
        self.kinds[kind] == KindPhase::Served
    }

    /// After a batch with a restart, the collector may have observed any of the batch's deletions. Several orders lead
    /// to the same objects, and this state belongs to one of these orders.
    pub(crate) fn doubt_observed_deletes(&mut self) {
        self.observed_deletes.clear();
        self.maybe_observed_deletes.append(&mut self.deleted);
    }

    /// Clears the state that the collector loses in a restart.
    pub(crate) fn clear_collector_state(&mut self) {
        self.observed_deletes.clear();
        self.maybe_observed_deletes.clear();
        self.finishing_foreground.clear();
        self.orphaning.clear();
        self.removing_owners.clear();
    }

    /// True if a kind is not served and not terminating.
    pub(crate) fn is_not_served(&self, kind: usize) -> bool {
        self.kinds[kind] == KindPhase::NotServed
    }

    /// Applies an action of a client. `false` if the action would have had another result in this state.
    fn apply(&mut self, action: &CompletedAction) -> bool {
        match action {
            CompletedAction::Create { uid, object } => {
                self.objects.insert(uid.clone(), object.clone());
            }
            CompletedAction::Delete { uid, found, .. } | CompletedAction::Update { uid, found, .. }
                if self.objects.contains_key(uid) != *found =>
            {
                return false;
            }
            CompletedAction::Delete { uid, policy, .. } => self.delete(uid, *policy),
            CompletedAction::Update { uid, edit, found: true } => {
                let mut object = self.objects[uid].clone();
                edit.apply(&mut object);
                self.store(uid, object);
            }
            CompletedAction::Update { .. } => {}
            CompletedAction::CreateCrd(kind) => self.kinds[*kind] = KindPhase::Served,
            CompletedAction::DeleteCrd(kind) => self.kinds[*kind] = KindPhase::Terminating,
            CompletedAction::Restart => self.clear_collector_state(),
        }
        true
    }

    /// Deletes an object as the API does, if it exists.
    fn delete(&mut self, uid: &str, policy: Option<&'static str>) {
        let Some(mut object) = self.objects.get(uid).cloned() else { return };
        let finalizer = match policy {
            Some("Orphan") => Some(ORPHAN),
            Some("Foreground") => Some(FOREGROUND),
            Some(_) => None,
            None => [ORPHAN, FOREGROUND].into_iter().find(|finalizer| object.has_finalizer(finalizer)),
        };
        object.finalizers.retain(|found| found != ORPHAN && found != FOREGROUND);
        object.finalizers.extend(finalizer.map(str::to_owned));
        object.terminating = true;
        self.store(uid, object);
    }

    /// Stores an object, or removes it if it is terminating and has no finalizers.
    fn store(&mut self, uid: &str, object: TestObject) {
        if object.terminating && object.finalizers.is_empty() {
            self.objects.remove(uid);
            self.deleted.insert(uid.to_owned(), object.clone());
            if !self.is_starting {
                self.observed_deletes.insert(uid.to_owned(), object);
            }
        } else {
            self.objects.insert(uid.to_owned(), object);
        }
    }

    fn classify_owner(&self, object: &TestObject, owner: &OwnerRef) -> OwnerStatus {
        if self.kinds[owner.kind] != KindPhase::NotServed {
            return classify_owner(&self.objects, object, owner);
        }
        let is_owner = |owner_object: &TestObject| {
            owner_object.name == owner.name
                && (owner_object.namespace.is_empty() || owner_object.namespace == object.namespace)
        };
        if self.observed_deletes.get(&owner.uid).is_some_and(is_owner) {
            OwnerStatus::Dangling
        } else {
            OwnerStatus::Unknown
        }
    }

    fn dependents<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = (&'a TestObject, &'a OwnerRef)> {
        let owner_refs = move |object: &'a TestObject| {
            object.owners.iter().filter(move |owner| owner.uid == uid).map(move |owner| (object, owner))
        };
        self.objects.values().flat_map(owner_refs)
    }

    /// The step that the collector can take for an object.
    fn next_step(&self, uid: &str, object: &TestObject) -> Option<CollectorStep> {
        if object.terminating {
            if object.has_finalizer(ORPHAN) {
                return Some(CollectorStep::OrphanDependents(uid.to_owned()));
            }
            // A decision is executed even if new dependents were created in the meantime.
            let is_decided = self.finishing_foreground.contains(uid);
            let is_blocked = || self.dependents(uid).any(|(_, owner)| owner.block_owner_deletion);
            return (object.waits_for_dependents() && (is_decided || !is_blocked()))
                .then(|| CollectorStep::FinishForegroundDeletion(uid.to_owned()));
        }
        if self.kinds[object.kind] == KindPhase::Terminating {
            return Some(CollectorStep::Delete(uid.to_owned(), None));
        }
        if self.removing_owners.contains_key(uid) {
            return None;
        }
        let statuses: Vec<OwnerStatus> = object.owners.iter().map(|owner| self.classify_owner(object, owner)).collect();
        let any = |status: OwnerStatus| statuses.contains(&status);
        if any(OwnerStatus::Unknown) || !(any(OwnerStatus::Dangling) || any(OwnerStatus::WaitingForDependents)) {
            return None;
        }
        if any(OwnerStatus::Solid) {
            let lost_owners = object.owners.iter().zip(&statuses).filter(|(_, status)| **status != OwnerStatus::Solid);
            return Some(CollectorStep::RemoveOwners(
                uid.to_owned(),
                lost_owners.map(|(owner, _)| owner.uid.clone()).collect(),
            ));
        }
        if any(OwnerStatus::WaitingForDependents) && self.dependents(uid).next().is_some() {
            let is_in_cycle = self.dependents(uid).any(|(dependent, _)| dependent.waits_for_dependents());
            if is_in_cycle && object.owners.iter().any(|owner| owner.block_owner_deletion) {
                let mut object = object.clone();
                object.owners.iter_mut().for_each(|owner| owner.block_owner_deletion = false);
                return Some(CollectorStep::Update(uid.to_owned(), object));
            }
            return Some(CollectorStep::Delete(uid.to_owned(), Some("Foreground")));
        }
        let policy =
            if object.has_finalizer(ORPHAN) || object.has_finalizer(FOREGROUND) { None } else { Some("Background") };
        Some(CollectorStep::Delete(uid.to_owned(), policy))
    }

    /// All steps that can be taken next.
    fn possible_steps(&self) -> Vec<CollectorStep> {
        let mut steps: Vec<CollectorStep> =
            self.objects.iter().filter_map(|(uid, object)| self.next_step(uid, object)).collect();
        steps.extend(
            self.removing_owners.iter().map(|(uid, owners)| CollectorStep::RemoveOwners(uid.clone(), owners.clone())),
        );
        let is_empty = |kind: usize| !self.objects.values().any(|object| object.kind == kind);
        let can_be_removed = |kind: &usize| self.kinds[*kind] == KindPhase::Terminating && is_empty(*kind);
        steps.extend((0..KINDS.len()).filter(can_be_removed).map(CollectorStep::RemoveKind));
        steps
    }

    fn apply_step(&mut self, step: CollectorStep) {
        match step {
            CollectorStep::Update(uid, object) => self.store(&uid, object),
            CollectorStep::Delete(uid, policy) => self.delete(&uid, policy),
            CollectorStep::RemoveOwners(uid, owners) => {
                if self.removing_owners.remove(&uid).is_none() {
                    self.removing_owners.insert(uid, owners);
                } else if let Some(object) = self.objects.get_mut(&uid) {
                    object.owners.retain(|owner| !owners.contains(&owner.uid));
                }
            }
            CollectorStep::FinishForegroundDeletion(uid) => {
                if !self.finishing_foreground.remove(&uid) {
                    self.finishing_foreground.insert(uid);
                } else if let Some(object) = self.objects.get(&uid).cloned() {
                    self.store(&uid, without_finalizer(&object, FOREGROUND));
                }
            }
            CollectorStep::OrphanDependents(uid) => {
                let Some(dependents) = self.orphaning.remove(&uid) else {
                    let is_dependent = |object: &TestObject| object.owners.iter().any(|owner| owner.uid == uid);
                    let dependents = self.objects.iter().filter(|(_, object)| is_dependent(object));
                    let dependents = dependents.map(|(dependent, _)| dependent.clone()).collect();
                    self.orphaning.insert(uid, dependents);
                    return;
                };
                for dependent in dependents {
                    if let Some(object) = self.objects.get_mut(&dependent) {
                        object.owners.retain(|owner| owner.uid != uid);
                    }
                }
                if let Some(object) = self.objects.get(&uid).cloned() {
                    self.store(&uid, without_finalizer(&object, ORPHAN));
                }
            }
            CollectorStep::RemoveKind(kind) => self.kinds[kind] = KindPhase::NotServed,
        }
    }

    /// Takes a random step; `false` if there is none.
    fn take_random_step(&mut self, random: &mut SeededRandom) -> bool {
        let mut steps = self.possible_steps();
        if steps.is_empty() {
            return false;
        }
        let step = steps.swap_remove(random.below(steps.len()));
        self.apply_step(step);
        true
    }

    /// The final state after these actions in one order of actions and steps; `None` if the actions' results are not
    /// possible in this order. In order 0, the collector starts after all actions. In order 1, it finishes after each
    /// action.
    pub(crate) fn final_state(
        &self,
        completed: &[CompletedAction],
        order: usize,
        random: &mut SeededRandom,
    ) -> Option<Self> {
        let step_probability = [0, 100, 50, 80][order % 4];
        let mut state = self.clone();
        state.deleted.clear();
        let maybe_observed = self.maybe_observed_deletes.iter().filter(|_| random.one_in(2));
        state.observed_deletes.extend(maybe_observed.map(|(uid, object)| (uid.clone(), object.clone())));
        for action in completed {
            if !state.apply(action) {
                return None;
            }
            // In some orders, the restarted collector does not observe deletions for the rest of the actions.
            state.is_starting |= matches!(action, CompletedAction::Restart) && order % 5 == 4;
            while random.below(100) < step_probability && state.take_random_step(random) {}
        }
        while state.take_random_step(random) {}
        state.is_starting = false;
        state.observed_deletes.retain(|uid, _| !self.maybe_observed_deletes.contains_key(uid));
        state.finishing_foreground.clear();
        state.orphaning.clear();
        state.removing_owners.clear();
        Some(state)
    }
}

fn without_finalizer(object: &TestObject, finalizer: &str) -> TestObject {
    let mut object = object.clone();
    object.finalizers.remove(finalizer);
    object
}

#[test]
fn a_deletion_that_may_have_been_observed_leaves_both_outcomes_possible() {
    let object = |kind: usize, name: &str, owners: &[OwnerRef]| TestObject {
        kind,
        namespace: "one".into(),
        name: name.into(),
        owners: owners.to_vec(),
        finalizers: BTreeSet::new(),
        terminating: false,
    };
    let (trinket, ghost) = (7, 9);
    let (lost, kept) = (object(trinket, "lost", &[]), object(0, "kept", &[]));
    let unknown = OwnerRef { kind: ghost, ..kept.reference("u", false) };
    let owners = [lost.reference("l", false), kept.reference("k", false), unknown];
    let mut state = ModelState::new();
    for (uid, object) in [("l", lost), ("k", kept), ("d", object(0, "dependent", &owners))] {
        state.objects.insert(uid.to_owned(), object);
    }
    // The dependent keeps all owners, because the kind of one owner does not exist.
    let mut random = SeededRandom::new(1);
    let actions = [CompletedAction::Restart, CompletedAction::DeleteCrd(trinket)];
    let mut state = state.final_state(&actions, 4, &mut random).expect("a final state");
    assert!(!state.objects.contains_key("l") && state.objects["d"].owners.len() == 3);
    state.doubt_observed_deletes();
    let actions = [CompletedAction::Update { uid: "d".into(), edit: OwnerEdit::RemoveOwner("u".into()), found: true }];
    let outcomes = (0..32).filter_map(|order| state.final_state(&actions, order, &mut random));
    let outcomes: BTreeSet<usize> = outcomes.map(|state| state.objects["d"].owners.len()).collect();
    assert_eq!(outcomes, [1, 2].into(), "the reference is kept if its kind is unknown and no deletion was observed");
    state.clear_collector_state();
    let state = state.final_state(&actions, 0, &mut random).expect("a final state");
    assert_eq!(state.objects["d"].owners.len(), 2);
}
