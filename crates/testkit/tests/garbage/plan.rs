//! What clients do next, by the dice.

use std::collections::BTreeSet;

use crate::dice::Dice;
use crate::model::{Edit, State};
use crate::thing::{FOREGROUND, HOLD, KINDS, Life, NAMESPACES, ORPHAN, Reference, Thing};

/// How many things there may be before some have to go.
const MANY: usize = 40;
/// How many names there are: they come again.
const NAMES: usize = 12;
const POLICIES: [Option<&str>; 4] = [None, Some("Background"), Some("Foreground"), Some("Orphan")];

/// What a client is to do.
#[derive(Clone, Debug)]
pub(crate) enum Intent {
    Create(Thing),
    Delete {
        uid: String,
        policy: Option<&'static str>,
    },
    Change {
        uid: String,
        edit: Edit,
    },
    Define(usize),
    Undefine(usize),
    /// The server goes, with a kill or not, once so many things have happened, and comes back.
    Stop {
        kill: bool,
        after: usize,
    },
}

/// Rolls what happens at once, without waiting for the garbage collector in between. Nothing is empty.
pub(crate) fn roll(state: &State, dice: &mut Dice) -> Vec<Intent> {
    let uids: Vec<&String> = state.by_name().into_iter().map(|(uid, _)| uid).collect();
    let mut plan = Plan { state, dice, taken: BTreeSet::new() };
    let mut intents = match plan.dice.roll(100) {
        _ if uids.len() < 4 => plan.some(),
        _ if uids.len() > MANY => vec![plan.deletion(&uids)],
        0..35 => plan.some(),
        35..58 => vec![plan.deletion(&uids)],
        58..66 => {
            // Dependents that an orphaning deletion of their owner follows on the heels.
            let owner = (*plan.dice.pick(&uids)).clone();
            let mut intents = plan.under(&owner);
            intents.push(Intent::Delete { uid: owner, policy: Some("Orphan") });
            intents
        }
        66..75 => {
            // Someone adopts a thing whose owner goes.
            let (owner, adopter) = (plan.dice.pick(&uids), (*plan.dice.pick(&uids)).clone());
            let is_dependent =
                |uid: &&&String| **uid != &adopter && state.things[**uid].owners.iter().any(|it| it.uid == **owner);
            let dependents: Vec<String> = uids.iter().filter(is_dependent).map(|uid| (*uid).clone()).collect();
            let mut intents = vec![plan.delete(owner)];
            intents.extend(dependents.into_iter().map(|uid| plan.adoption(uid, &adopter)));
            intents
        }
        75..81 => {
            // Dependents come to an owner that goes.
            let owner = (*plan.dice.pick(&uids)).clone();
            let mut intents = vec![plan.delete(&owner)];
            intents.extend(plan.under(&owner));
            intents
        }
        81..89 => {
            let held: Vec<&&String> = uids.iter().filter(|uid| state.things[**uid].has(HOLD)).collect();
            match held.is_empty() {
                true => plan.some(),
                false => vec![Intent::Change { uid: (**plan.dice.pick(&held)).clone(), edit: Edit::Release }],
            }
        }
        89..94 => {
            let (uid, adopter) = ((*plan.dice.pick(&uids)).clone(), (*plan.dice.pick(&uids)).clone());
            // Nothing owns itself: when that would hold it depends on when it is seen.
            if uid == adopter { plan.some() } else { vec![plan.adoption(uid, &adopter)] }
        }
        _ => plan.parting(&uids),
    };
    if dice.one_in(7) {
        intents.push(Intent::Stop { kill: dice.one_in(2), after: dice.roll(6) });
    }
    intents
}

struct Plan<'a> {
    state: &'a State,
    dice: &'a mut Dice,
    /// Names that are given away.
    taken: BTreeSet<(usize, String, String)>,
}

impl Plan<'_> {
    /// One to three new things.
    fn some(&mut self) -> Vec<Intent> {
        (0..=self.dice.roll(3)).filter_map(|_| self.create(None)).collect()
    }

    /// One to three new dependents of a thing.
    fn under(&mut self, owner: &str) -> Vec<Intent> {
        (0..=self.dice.roll(3)).filter_map(|_| self.create(Some(owner))).collect()
    }

    /// A new thing, with some owners; none if its name is taken.
    fn create(&mut self, owner: Option<&str>) -> Option<Intent> {
        let kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| self.state.serves(*kind)).collect();
        let kind = *self.dice.pick(&kinds);
        let namespace = if KINDS[kind].namespaced { *self.dice.pick(&NAMESPACES) } else { "" };
        let owner = owner.map(|uid| (uid, &self.state.things[uid]));
        // Beside an owner that is in a namespace, mostly.
        let beside = owner.map(|(_, it)| it.namespace.as_str()).filter(|place| !place.is_empty());
        let namespace = if namespace.is_empty() { "" } else { beside.unwrap_or(namespace) };
        let name = format!("n{}", self.dice.roll(NAMES));
        let is_this = |it: &Thing| it.kind == kind && it.namespace == namespace && it.name == name;
        if self.state.things.values().any(is_this) || !self.taken.insert((kind, namespace.to_owned(), name.clone())) {
            return None;
        }
        let mut owners: Vec<Reference> = Vec::new();
        let blocks = self.dice.one_in(2);
        owners.extend(owner.map(|(uid, it)| it.reference(uid, blocks)));
        for _ in 0..self.dice.roll(4) {
            owners.extend(self.owner(namespace));
        }
        let mut uids = BTreeSet::new();
        owners.retain(|owner| uids.insert(owner.uid.clone()));
        let finalizer = match self.dice.roll(30) {
            0..6 => Some(HOLD),
            6 => Some(ORPHAN),
            7 => Some(FOREGROUND),
            _ => None,
        };
        Some(Intent::Create(Thing {
            kind,
            namespace: namespace.to_owned(),
            name,
            owners,
            finalizers: finalizer.map(str::to_owned).into_iter().collect(),
            terminating: false,
        }))
    }

    /// A reference from a namespace to some thing, or to none.
    fn owner(&mut self, namespace: &str) -> Option<Reference> {
        let blocks = self.dice.one_in(2);
        let strange = self.dice.roll(40);
        if strange < 3 {
            // To something that never was, of any kind, even one that is not there.
            let (kind, name) = (self.dice.roll(KINDS.len()), format!("n{}", self.dice.roll(NAMES)));
            let uid = format!("00000000-0000-0000-0000-{:012}", self.dice.roll(1_000_000));
            return Some(Reference { kind, name, uid, blocks });
        }
        let fits = |thing: &Thing| thing.namespace.is_empty() || thing.namespace == namespace || strange == 3;
        let mut there = self.state.by_name();
        there.retain(|(_, thing)| fits(thing));
        if there.is_empty() {
            return None;
        }
        let (uid, thing) = *self.dice.pick(&there);
        let mut owner = thing.reference(uid, blocks);
        match strange {
            4 => owner.name.push('x'),
            5 => owner.kind = self.dice.roll(KINDS.len()),
            6 => owner.uid = format!("{:08}-0000-0000-0000-000000000000", self.dice.roll(1_000_000)),
            _ => {}
        }
        Some(owner)
    }

    fn deletion(&mut self, uids: &[&String]) -> Intent {
        let uid = *self.dice.pick(uids);
        self.delete(uid)
    }

    fn delete(&mut self, uid: &str) -> Intent {
        Intent::Delete { uid: uid.to_owned(), policy: *self.dice.pick(&POLICIES) }
    }

    fn adoption(&mut self, uid: String, adopter: &str) -> Intent {
        let blocks = self.dice.one_in(2);
        Intent::Change { uid, edit: Edit::Adopt(self.state.things[adopter].reference(adopter, blocks)) }
    }

    /// Someone gives up an owner, or no longer blocks it.
    fn parting(&mut self, uids: &[&String]) -> Vec<Intent> {
        let owned: Vec<&&String> = uids.iter().filter(|uid| !self.state.things[**uid].owners.is_empty()).collect();
        if owned.is_empty() {
            return self.some();
        }
        let uid = (**self.dice.pick(&owned)).clone();
        let owner = self.dice.pick(&self.state.things[&uid].owners).uid.clone();
        let edit = if self.dice.one_in(2) { Edit::Disown(owner) } else { Edit::Unblock(owner) };
        vec![Intent::Change { uid, edit }]
    }
}

/// The kinds that come and go in the middle.
pub(crate) fn kinds(life: Life) -> impl Iterator<Item = usize> {
    (0..KINDS.len()).filter(move |kind| KINDS[*kind].life == life)
}
