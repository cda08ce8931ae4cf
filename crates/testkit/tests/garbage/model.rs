//! What is to become of things: a machine of small steps, each of which the garbage collector may take at any time. Where
//! the order does not matter, there is one end; where it does, whatever some order leads to may be seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::dice::Dice;
use crate::thing::{FOREGROUND, HOLD, KINDS, Life, ORPHAN, Reference, Thing};

/// Things by their uids.
pub(crate) type Things = BTreeMap<String, Thing>;

/// What a client did, and what came of it.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Create {
        uid: String,
        thing: Thing,
    },
    Delete {
        uid: String,
        policy: Option<&'static str>,
        found: bool,
    },
    Change {
        uid: String,
        edit: Edit,
        found: bool,
    },
    Define(usize),
    Undefine(usize),
    /// The server went and came back.
    Stop,
}

/// How a client changes a thing.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Adopt(Reference),
    Disown(String),
    Unblock(String),
    Release,
}

impl Edit {
    /// Makes of a thing what it is to be.
    pub(crate) fn apply(&self, thing: &mut Thing) {
        match self {
            Self::Adopt(owner) => thing.owners.push(owner.clone()),
            Self::Disown(uid) => thing.owners.retain(|owner| owner.uid != *uid),
            Self::Unblock(uid) => {
                thing.owners.iter_mut().filter(|owner| owner.uid == *uid).for_each(|owner| owner.blocks = false);
            }
            Self::Release => {
                thing.finalizers.remove(HOLD);
            }
        }
    }
}

/// How far a kind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unknown,
    Served,
    Leaving,
}

/// All there is.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) things: Things,
    kinds: [Phase; KINDS.len()],
    /// What the collector has seen go: it needs no kind to know that it is gone.
    seen_to_go: Things,
    /// Those of which it is decided that their dependents hold them no longer.
    let_go: BTreeSet<String>,
    /// Those of which it is decided whom they leave behind.
    left_behind: BTreeMap<String, Vec<String>>,
    /// Those of which it is decided which owners they lose, even if they begin to go before that is done.
    losing: BTreeMap<String, Vec<String>>,
    /// True while the collector does not see yet what goes, as after a start.
    is_blind: bool,
}

/// A step that can be taken.
enum Step {
    Become(String, Thing),
    Delete(String, Option<&'static str>),
    /// It is decided that it loses these owners, or it does.
    Lose(String, Vec<String>),
    /// It is decided that it goes before its dependents, or it does.
    LetGo(String),
    /// It is decided who loses an owner, or they lose it and it goes.
    LeaveBehind(String),
    Withdraw(usize),
}

/// What has become of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lives,
    Waits,
    Gone,
    /// Nothing can be said of it.
    Unclear,
}

/// What has become of an owner in a world where its kind is served.
pub(crate) fn fate(things: &Things, thing: &Thing, owner: &Reference) -> Fate {
    let kind = &KINDS[owner.kind];
    if kind.namespaced && thing.namespace.is_empty() {
        return Fate::Unclear;
    }
    let namespace = if kind.namespaced { thing.namespace.as_str() } else { "" };
    match things.get(&owner.uid) {
        Some(it) if (it.kind, it.namespace.as_str(), &it.name) != (owner.kind, namespace, &owner.name) => Fate::Gone,
        Some(it) if it.waits() => Fate::Waits,
        Some(_) => Fate::Lives,
        None => Fate::Gone,
    }
}

impl State {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        let phase = |life| match life {
            Life::Always | Life::Defined | Life::Early => Phase::Served,
            Life::Late | Life::Never => Phase::Unknown,
        };
        let kinds = std::array::from_fn(|kind| phase(KINDS[kind].life));
        Self {
            things: Things::new(),
            kinds,
            seen_to_go: Things::new(),
            let_go: BTreeSet::new(),
            left_behind: BTreeMap::new(),
            losing: BTreeMap::new(),
            is_blind: false,
        }
    }

    /// All things, in an order that does not depend on their uids.
    pub(crate) fn by_name(&self) -> Vec<(&String, &Thing)> {
        let mut things: Vec<(&String, &Thing)> = self.things.iter().collect();
        things.sort_by_key(|(_, thing)| (thing.kind, &thing.namespace, &thing.name));
        things
    }

    /// True if things of a kind can be made.
    pub(crate) fn serves(&self, kind: usize) -> bool {
        self.kinds[kind] == Phase::Served
    }

    /// Forgets what only a server that runs on knows.
    pub(crate) fn forget(&mut self) {
        self.seen_to_go.clear();
        self.let_go.clear();
        self.left_behind.clear();
        self.losing.clear();
    }

    /// True if there is no such kind.
    pub(crate) fn lacks(&self, kind: usize) -> bool {
        self.kinds[kind] == Phase::Unknown
    }

    /// Does what a client did; `false` if it would not have met what it met.
    fn apply(&mut self, act: &Act) -> bool {
        match act {
            Act::Create { uid, thing } => {
                self.things.insert(uid.clone(), thing.clone());
            }
            Act::Delete { uid, found, .. } | Act::Change { uid, found, .. }
                if self.things.contains_key(uid) != *found =>
            {
                return false;
            }
            Act::Delete { uid, policy, .. } => self.delete(uid, *policy),
            Act::Change { uid, edit, found: true } => {
                let mut thing = self.things[uid].clone();
                edit.apply(&mut thing);
                self.put(uid, thing);
            }
            Act::Change { .. } => {}
            Act::Define(kind) => self.kinds[*kind] = Phase::Served,
            Act::Undefine(kind) => self.kinds[*kind] = Phase::Leaving,
            Act::Stop => self.forget(),
        }
        true
    }

    /// Deletes a thing, if it is there, as the API does.
    fn delete(&mut self, uid: &str, policy: Option<&'static str>) {
        let Some(mut thing) = self.things.get(uid).cloned() else { return };
        let finalizer = match policy {
            Some("Orphan") => Some(ORPHAN),
            Some("Foreground") => Some(FOREGROUND),
            Some(_) => None,
            None => [ORPHAN, FOREGROUND].into_iter().find(|finalizer| thing.has(finalizer)),
        };
        thing.finalizers.retain(|found| found != ORPHAN && found != FOREGROUND);
        thing.finalizers.extend(finalizer.map(str::to_owned));
        thing.terminating = true;
        self.put(uid, thing);
    }

    /// Stores a thing, which goes if nothing holds it any more.
    fn put(&mut self, uid: &str, thing: Thing) {
        if thing.terminating && thing.finalizers.is_empty() {
            self.things.remove(uid);
            if !self.is_blind {
                self.seen_to_go.insert(uid.to_owned(), thing);
            }
        } else {
            self.things.insert(uid.to_owned(), thing);
        }
    }

    fn fate(&self, thing: &Thing, owner: &Reference) -> Fate {
        if self.kinds[owner.kind] != Phase::Unknown {
            return fate(&self.things, thing, owner);
        }
        let is_it = |it: &Thing| it.name == owner.name && (it.namespace.is_empty() || it.namespace == thing.namespace);
        if self.seen_to_go.get(&owner.uid).is_some_and(is_it) { Fate::Gone } else { Fate::Unclear }
    }

    fn dependents<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = (&'a Thing, &'a Reference)> {
        let refers = move |thing: &'a Thing| {
            thing.owners.iter().filter(move |owner| owner.uid == uid).map(move |owner| (thing, owner))
        };
        self.things.values().flat_map(refers)
    }

    /// What can be done about a thing.
    fn look(&self, uid: &str, thing: &Thing) -> Option<Step> {
        if thing.terminating {
            if thing.has(ORPHAN) {
                return Some(Step::LeaveBehind(uid.to_owned()));
            }
            // What is decided is done, whoever comes meanwhile.
            let is_decided = self.let_go.contains(uid);
            let is_held = || self.dependents(uid).any(|(_, owner)| owner.blocks);
            return (thing.waits() && (is_decided || !is_held())).then(|| Step::LetGo(uid.to_owned()));
        }
        if self.kinds[thing.kind] == Phase::Leaving {
            return Some(Step::Delete(uid.to_owned(), None));
        }
        if self.losing.contains_key(uid) {
            return None;
        }
        let fates: Vec<Fate> = thing.owners.iter().map(|owner| self.fate(thing, owner)).collect();
        let any = |fate: Fate| fates.contains(&fate);
        if any(Fate::Unclear) || !(any(Fate::Gone) || any(Fate::Waits)) {
            return None;
        }
        if any(Fate::Lives) {
            let lost = thing.owners.iter().zip(&fates).filter(|(_, fate)| **fate != Fate::Lives);
            return Some(Step::Lose(uid.to_owned(), lost.map(|(owner, _)| owner.uid.clone()).collect()));
        }
        if any(Fate::Waits) && self.dependents(uid).next().is_some() {
            let in_circle = self.dependents(uid).any(|(dependent, _)| dependent.waits());
            if in_circle && thing.owners.iter().any(|owner| owner.blocks) {
                let mut thing = thing.clone();
                thing.owners.iter_mut().for_each(|owner| owner.blocks = false);
                return Some(Step::Become(uid.to_owned(), thing));
            }
            return Some(Step::Delete(uid.to_owned(), Some("Foreground")));
        }
        let policy = if thing.has(ORPHAN) || thing.has(FOREGROUND) { None } else { Some("Background") };
        Some(Step::Delete(uid.to_owned(), policy))
    }

    /// All steps that can be taken.
    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.things.iter().filter_map(|(uid, thing)| self.look(uid, thing)).collect();
        steps.extend(self.losing.iter().map(|(uid, owners)| Step::Lose(uid.clone(), owners.clone())));
        let is_empty = |kind: usize| !self.things.values().any(|thing| thing.kind == kind);
        let leaves = |kind: &usize| self.kinds[*kind] == Phase::Leaving && is_empty(*kind);
        steps.extend((0..KINDS.len()).filter(leaves).map(Step::Withdraw));
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Become(uid, thing) => self.put(&uid, thing),
            Step::Delete(uid, policy) => self.delete(&uid, policy),
            Step::Lose(uid, owners) => {
                if self.losing.remove(&uid).is_none() {
                    self.losing.insert(uid, owners);
                } else if let Some(thing) = self.things.get_mut(&uid) {
                    thing.owners.retain(|owner| !owners.contains(&owner.uid));
                }
            }
            Step::LetGo(uid) => {
                if !self.let_go.remove(&uid) {
                    self.let_go.insert(uid);
                } else if let Some(thing) = self.things.get(&uid).cloned() {
                    self.put(&uid, without(&thing, FOREGROUND));
                }
            }
            Step::LeaveBehind(uid) => {
                let Some(dependents) = self.left_behind.remove(&uid) else {
                    let refers = |thing: &Thing| thing.owners.iter().any(|owner| owner.uid == uid);
                    let dependents = self.things.iter().filter(|(_, thing)| refers(thing));
                    let dependents = dependents.map(|(dependent, _)| dependent.clone()).collect();
                    self.left_behind.insert(uid, dependents);
                    return;
                };
                for dependent in dependents {
                    if let Some(thing) = self.things.get_mut(&dependent) {
                        thing.owners.retain(|owner| owner.uid != uid);
                    }
                }
                if let Some(thing) = self.things.get(&uid).cloned() {
                    self.put(&uid, without(&thing, ORPHAN));
                }
            }
            Step::Withdraw(kind) => self.kinds[kind] = Phase::Unknown,
        }
    }

    /// Takes a step of those that can be taken; `false` if there is none.
    fn step(&mut self, dice: &mut Dice) -> bool {
        let mut steps = self.steps();
        if steps.is_empty() {
            return false;
        }
        let step = steps.swap_remove(dice.roll(steps.len()));
        self.take(step);
        true
    }

    /// An end to which some order of things leads after these acts; `None` if the acts do not fit that order. The first
    /// two orders are that the collector comes after all acts, and that it is done after each.
    pub(crate) fn end(&self, acts: &[Act], order: usize, dice: &mut Dice) -> Option<Self> {
        let haste = [0, 100, 50, 80][order % 4];
        let mut state = self.clone();
        for act in acts {
            if !state.apply(act) {
                return None;
            }
            state.is_blind |= matches!(act, Act::Stop) && order % 5 == 4;
            while dice.roll(100) < haste && state.step(dice) {}
        }
        while state.step(dice) {}
        state.is_blind = false;
        state.let_go.clear();
        state.left_behind.clear();
        state.losing.clear();
        Some(state)
    }
}

fn without(thing: &Thing, finalizer: &str) -> Thing {
    let mut thing = thing.clone();
    thing.finalizers.remove(finalizer);
    thing
}
