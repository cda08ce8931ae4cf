//! The versions of one key in a watch cache. A hot key has as many as the history has events, so nothing here may cost
//! more the more there are: the watch cache is locked meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Object;

/// The capacity below which the memory of the older versions of a key is not given back as they are trimmed.
const MIN_CAPACITY: usize = 64;

/// A version of a key: the revision and the object, or `None` for a tombstone.
pub(crate) type ObjectVersion = (u64, Option<Arc<Object>>);

/// The retained versions of a key. The newest one is separate because nearly every read wants it.
#[derive(Debug)]
pub(crate) struct ObjectVersions {
    pub(crate) newest: ObjectVersion,
    /// `None` if there are no older versions, as for most keys.
    older: Option<Box<OlderVersions>>,
}

/// The older versions of a key, ascending by revision. New versions are added at the end and the history is trimmed from
/// the front, so the cost of each does not depend on their number.
#[derive(Debug, Default)]
struct OlderVersions(VecDeque<ObjectVersion>);

impl ObjectVersions {
    /// The versions of a key that has only one.
    pub(crate) fn new(newest: ObjectVersion) -> Self {
        Self { newest, older: None }
    }

    /// The object at a revision.
    pub(crate) fn at(&self, revision: u64) -> Option<&Arc<Object>> {
        if self.newest.0 <= revision {
            return self.newest.1.as_ref();
        }
        let OlderVersions(older) = self.older.as_deref()?;
        let after = older.partition_point(|(r, _)| *r <= revision);
        older.get(after.checked_sub(1)?)?.1.as_ref()
    }

    /// Adds a version, which becomes the newest one.
    pub(crate) fn push(&mut self, version: ObjectVersion) {
        let before = std::mem::replace(&mut self.newest, version);
        let OlderVersions(older) = self.older.get_or_insert_default().as_mut();
        // Reads between two tombstones find nothing either, so only the first and the last of a run are kept.
        let is_repeated = before.1.is_none() && self.newest.1.is_none();
        if !is_repeated || older.back().is_none_or(|(_, object)| object.is_some()) {
            older.push_back(before);
        }
    }

    /// Drops the versions before that of a revision, at which the key has changed. Visits the versions that it drops and
    /// one more, and returns their number.
    pub(crate) fn trim_before(&mut self, revision: u64) -> usize {
        let Some(OlderVersions(older)) = self.older.as_deref_mut() else { return 0 };
        let mut visited = 1;
        // A tombstone at the front says the same as no version.
        while older.front().is_some_and(|(r, object)| *r < revision || object.is_none()) {
            older.pop_front();
            visited += 1;
        }
        if older.is_empty() {
            self.older = None;
        } else if older.capacity() > MIN_CAPACITY.max(4 * older.len()) {
            older.shrink_to(2 * older.len());
        }
        visited
    }

    /// True if there are versions besides the newest one.
    pub(crate) fn has_older(&self) -> bool {
        self.older.is_some()
    }

    /// True if no version has an object.
    pub(crate) fn has_no_object(&self) -> bool {
        // Of consecutive tombstones at most two are kept, so that this ends soon.
        self.newest.1.is_none() && self.older().all(|(_, object)| object.is_none())
    }

    /// The versions besides the newest one, ascending by revision.
    pub(crate) fn older(&self) -> impl Iterator<Item = &ObjectVersion> {
        self.older.iter().flat_map(|older| &older.0)
    }

    /// All versions, for modification.
    pub(crate) fn versions_mut(&mut self) -> impl Iterator<Item = &mut ObjectVersion> {
        self.older.iter_mut().flat_map(|older| &mut older.0).chain([&mut self.newest])
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ObjectIndex;

    fn version(revision: u64) -> ObjectVersion {
        (revision, Some(Arc::new(Object::new("k".into(), revision, Bytes::new(), ObjectIndex::default()))))
    }

    fn revision_at(versions: &ObjectVersions, revision: u64) -> Option<u64> {
        versions.at(revision).map(|object| object.revision)
    }

    /// A history of constant length: each change trims the oldest version. The work for a change must not depend on the
    /// number of versions.
    #[test]
    fn versions_of_a_hot_key_are_trimmed_in_constant_time() {
        for retained in [10, 1000, 20_000] {
            let changes = 3 * retained;
            let mut versions = ObjectVersions::new(version(1));
            let mut visited = 0;
            for revision in 2..=changes {
                versions.push(version(revision));
                if revision > retained {
                    visited += versions.trim_before(revision - retained);
                    assert_eq!(revision_at(&versions, revision - retained), Some(revision - retained));
                }
            }
            assert_eq!(versions.older().count() as u64, retained);
            assert!(visited as u64 <= 2 * changes, "{visited} visits for {changes} changes");
            assert_eq!(versions.trim_before(changes) as u64, retained + 1);
            assert!(!versions.has_older());
        }
    }

    #[test]
    fn a_revision_reads_the_version_before_it() {
        let mut versions = ObjectVersions::new(version(2));
        for next in [version(4), (6, None), version(8)] {
            versions.push(next);
        }
        let read = |versions: &ObjectVersions| (1..=9).map(|at| revision_at(versions, at)).collect::<Vec<_>>();
        let (two, four, eight) = (Some(2), Some(4), Some(8));
        assert_eq!(read(&versions), [None, two, two, four, four, None, None, eight, eight]);
        // From the revision on that is trimmed to, all reads stay as they are.
        versions.trim_before(4);
        assert_eq!(read(&versions)[2..], [None, four, four, None, None, eight, eight]);
        versions.trim_before(6);
        assert_eq!(read(&versions)[5..], [None, None, eight, eight]);
        assert!(!versions.has_older());
    }

    #[test]
    fn repeated_tombstones_take_no_memory() {
        let mut versions = ObjectVersions::new(version(2));
        for revision in 3..1000 {
            versions.push((revision, None));
        }
        assert_eq!((versions.older().count(), versions.newest.0), (2, 999));
        assert_eq!(revision_at(&versions, 2), Some(2));
        assert!((3..1001).all(|at| versions.at(at).is_none()));
        versions.push(version(1000));
        assert_eq!((revision_at(&versions, 999), revision_at(&versions, 1000)), (None, Some(1000)));
    }
}
