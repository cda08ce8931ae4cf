//! The history of one kind as its reference reflector observed it: every change in order, and the objects at any
//! revision. The acknowledged writes and all lists are checked against it, so an error of the reference reflector is
//! found as well.

use std::collections::BTreeMap;

use crate::object::{ObjectKey, ObjectVersion};

/// The number of changes between two snapshots. States between them are computed.
const SNAPSHOT_INTERVAL: usize = 256;

/// The type of a watch event about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// One change of an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: ObjectKey,
    /// The new version; `None` for a deletion.
    pub(crate) after: Option<ObjectVersion>,
    /// The index of the change that made the previous version.
    before: Option<u32>,
}

/// The objects that exist, each with the index of the change that made its version.
type Snapshot = BTreeMap<ObjectKey, u32>;

/// All changes of a kind.
#[derive(Debug, Default)]
pub(crate) struct History {
    changes: Vec<Change>,
    current: Snapshot,
    /// The states before the changes with the indexes 0, [`SNAPSHOT_INTERVAL`], 2 * [`SNAPSHOT_INTERVAL`], and so on.
    snapshots: Vec<Snapshot>,
}

impl History {
    /// Appends an event of the reference reflector.
    ///
    /// # Panics
    /// Panics if the event cannot follow the current state.
    pub(crate) fn push(&mut self, event_type: EventType, object: ObjectVersion) {
        let key = object.attributes.key;
        let last_revision = self.last_revision();
        assert!(object.revision > last_revision, "{event_type:?} {object:?} after revision {last_revision}");
        let before = self.current.get(&key).copied();
        assert_eq!(before.is_none(), event_type == EventType::Added, "{event_type:?} {object:?} after {before:?}");
        if self.changes.len().is_multiple_of(SNAPSHOT_INTERVAL) {
            self.snapshots.push(self.current.clone());
        }
        let index = u32::try_from(self.changes.len()).expect("fewer than 2^32 changes");
        let after = match event_type {
            EventType::Deleted => {
                let last =
                    before.and_then(|index| self.changes[index as usize].after).expect("a deleted object existed");
                let deleted = ObjectVersion { revision: object.revision, ..last };
                assert_eq!(object, deleted, "a DELETED event shows the last version");
                self.current.remove(&key);
                None
            }
            EventType::Added | EventType::Modified => {
                self.current.insert(key, index);
                Some(object)
            }
        };
        self.changes.push(Change { revision: object.revision, key, after, before });
    }

    /// The revision of the last change; 0 before the first.
    pub(crate) fn last_revision(&self) -> u64 {
        self.changes.last().map_or(0, |change| change.revision)
    }

    /// The changes from an index on.
    pub(crate) fn changes_from(&self, index: usize) -> &[Change] {
        &self.changes[index.min(self.changes.len())..]
    }

    /// The number of changes.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The index of the first change after a revision.
    pub(crate) fn index_after(&self, revision: u64) -> usize {
        self.changes.partition_point(|change| change.revision <= revision)
    }

    /// The version that a change replaced.
    pub(crate) fn version_before(&self, change: &Change) -> Option<&ObjectVersion> {
        change.before.and_then(|index| self.changes[index as usize].after.as_ref())
    }

    /// The objects that existed at a revision, in the order of their keys.
    pub(crate) fn objects_at(&self, revision: u64) -> Vec<ObjectVersion> {
        let end = self.index_after(revision);
        let base = (end / SNAPSHOT_INTERVAL).min(self.snapshots.len().saturating_sub(1));
        let mut state = self.snapshots.get(base).cloned().unwrap_or_default();
        for (index, change) in self.changes[..end].iter().enumerate().skip(base * SNAPSHOT_INTERVAL) {
            match &change.after {
                Some(_) => drop(state.insert(change.key, index as u32)),
                None => drop(state.remove(&change.key)),
            }
        }
        state.values().filter_map(|index| self.changes[*index as usize].after).collect()
    }
}
