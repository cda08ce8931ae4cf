//! What happened to the objects of one kind, as its first watcher was told: every change in order, and from that the
//! state at any revision. What writers were answered and what lists show is held against it, so that it is not believed
//! blindly either.

use std::collections::BTreeMap;

use crate::object::{Item, Key};

/// A state is kept for each so many changes; others are reached from it.
const STRIDE: usize = 256;

/// What a watch says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Added,
    Modified,
    Deleted,
}

/// A change: the version that it made, if it was no deletion, and where the version before it was made.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) after: Option<Item>,
    before: Option<u32>,
}

/// The objects that are there, as the places of the changes that made them.
type State = BTreeMap<Key, u32>;

/// All changes of a kind.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    changes: Vec<Change>,
    now: State,
    /// The states before the changes number 0, [`STRIDE`], …
    states: Vec<State>,
}

impl Journal {
    /// Writes down what the first watcher was told.
    ///
    /// # Panics
    /// It cannot follow what was there.
    pub(crate) fn push(&mut self, turn: Turn, item: Item) {
        let key = item.shape.key;
        assert!(item.revision > self.head(), "{turn:?} {item:?} after revision {}", self.head());
        let before = self.now.get(&key).copied();
        assert_eq!(before.is_none(), turn == Turn::Added, "{turn:?} {item:?} after {before:?}");
        if self.changes.len().is_multiple_of(STRIDE) {
            self.states.push(self.now.clone());
        }
        let at = u32::try_from(self.changes.len()).expect("fewer changes");
        let after = match turn {
            Turn::Deleted => {
                let last = before.and_then(|at| self.changes[at as usize].after).expect("what is deleted was there");
                let gone = Item { revision: item.revision, ..last };
                assert_eq!(item, gone, "a deletion shows the last version");
                self.now.remove(&key);
                None
            }
            Turn::Added | Turn::Modified => {
                self.now.insert(key, at);
                Some(item)
            }
        };
        self.changes.push(Change { revision: item.revision, key, after, before });
    }

    /// The revision of the last change; 0 before the first.
    pub(crate) fn head(&self) -> u64 {
        self.changes.last().map_or(0, |change| change.revision)
    }

    /// All changes after a place.
    pub(crate) fn from(&self, place: usize) -> &[Change] {
        &self.changes[place.min(self.changes.len())..]
    }

    /// How many changes there are.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The place of the first change after a revision.
    pub(crate) fn after(&self, revision: u64) -> usize {
        self.changes.partition_point(|change| change.revision <= revision)
    }

    /// The version that a change replaced.
    pub(crate) fn before(&self, change: &Change) -> Option<&Item> {
        change.before.and_then(|at| self.changes[at as usize].after.as_ref())
    }

    /// What there was at a revision, in the order of keys.
    pub(crate) fn state(&self, revision: u64) -> Vec<Item> {
        let until = self.after(revision);
        let base = (until / STRIDE).min(self.states.len().saturating_sub(1));
        let mut state = self.states.get(base).cloned().unwrap_or_default();
        for (at, change) in self.changes[..until].iter().enumerate().skip(base * STRIDE) {
            match &change.after {
                Some(_) => drop(state.insert(change.key, at as u32)),
                None => drop(state.remove(&change.key)),
            }
        }
        state.values().filter_map(|at| self.changes[*at as usize].after).collect()
    }
}
