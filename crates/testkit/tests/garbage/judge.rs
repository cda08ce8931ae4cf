//! The strongest rule, held against all that has happened: nothing that has a live owner goes or loses it, unless a client
//! asked for that.

use std::collections::BTreeSet;

use crate::mirror::Event;
use crate::model::{Fate, Things, fate};
use crate::thing::{ORPHAN, Reference, Thing};

/// What clients asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Kinds whose definition was deleted.
    pub(crate) kinds: BTreeSet<usize>,
    /// Things that were to be deleted.
    pub(crate) deleted: BTreeSet<String>,
    /// Things that were to lose an owner: who, and whom.
    pub(crate) disowned: BTreeSet<(String, String)>,
}

/// What goes against the rule in a history.
pub(crate) fn offences(history: &[Event], asked: &Asked) -> Vec<String> {
    let mut things = Things::new();
    // Whose dependents were to go before they did: nobody counts on them any more.
    let mut forsaken = BTreeSet::new();
    let mut offences = Vec::new();
    for Event { revision, uid, thing } in history {
        let lives = |before: &Thing, owner: &Reference| {
            fate(&things, before, owner) == Fate::Lives && !forsaken.contains(&owner.uid)
        };
        if let Some(before) = things.get(uid) {
            let goes = !before.terminating && thing.as_ref().is_none_or(|thing| thing.terminating);
            let was_asked = asked.deleted.contains(uid) || asked.kinds.contains(&before.kind);
            if goes && !was_asked && before.owners.iter().any(|owner| lives(before, owner)) {
                offences.push(format!("{revision}: {uid} goes: {before:?}"));
            }
            for owner in lost(before, thing.as_ref()) {
                let orphans = things.get(&owner.uid).is_some_and(|it| it.terminating && it.has(ORPHAN));
                let was_asked = asked.disowned.contains(&(uid.clone(), owner.uid.clone()));
                if !was_asked && !orphans && lives(before, owner) {
                    offences.push(format!("{revision}: {uid} loses {owner:?}: {before:?}"));
                }
            }
        }
        if thing.as_ref().is_some_and(Thing::waits) {
            forsaken.insert(uid.clone());
        }
        match thing.clone() {
            Some(thing) => drop(things.insert(uid.clone(), thing)),
            None => drop(things.remove(uid)),
        }
    }
    offences
}

/// The owners that a thing no longer has, if it is still there.
fn lost<'a>(before: &'a Thing, after: Option<&'a Thing>) -> impl Iterator<Item = &'a Reference> {
    let stays = move |after: &Thing, uid: &str| after.owners.iter().any(|owner| owner.uid == uid);
    let is_lost = move |uid: &str| after.is_some_and(|after| !stays(after, uid));
    before.owners.iter().filter(move |owner| is_lost(&owner.uid))
}

#[test]
fn who_takes_what_has_an_owner_is_found_out() {
    let owner = Thing {
        kind: 0,
        namespace: "one".into(),
        name: "owner".into(),
        owners: Vec::new(),
        finalizers: BTreeSet::new(),
        terminating: false,
    };
    let dependent = Thing { name: "dependent".into(), owners: vec![owner.reference("a", true)], ..owner.clone() };
    let free = Thing { owners: Vec::new(), ..dependent.clone() };
    let gone: Option<Thing> = None;
    let check = |steps: &[(&str, &Option<Thing>)], asked: &Asked, expect: usize| {
        let event = |(revision, (uid, thing)): (usize, &(&str, &Option<Thing>))| Event {
            revision: revision as u64,
            uid: (*uid).to_owned(),
            thing: (*thing).clone(),
        };
        let history: Vec<Event> = steps.iter().enumerate().map(event).collect();
        assert_eq!(offences(&history, asked).len(), expect, "{history:?}");
    };
    let nothing = Asked::default();
    let (owner, dependent, free) = (Some(owner), Some(dependent), Some(free));
    check(&[("a", &owner), ("b", &dependent), ("b", &gone)], &nothing, 1);
    check(&[("a", &owner), ("b", &dependent), ("b", &free)], &nothing, 1);
    check(&[("a", &owner), ("b", &dependent), ("a", &gone), ("b", &gone)], &nothing, 0);
    let deleted = Asked { deleted: ["b".to_owned()].into(), ..Asked::default() };
    check(&[("a", &owner), ("b", &dependent), ("b", &gone)], &deleted, 0);
    let disowned = Asked { disowned: [("b".to_owned(), "a".to_owned())].into(), ..Asked::default() };
    check(&[("a", &owner), ("b", &dependent), ("b", &free)], &disowned, 0);
}
