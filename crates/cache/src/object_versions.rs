//! The versions of one key in a watch cache. A hot key has as many versions as the history has events. The watch cache
//! is locked during these operations, so their cost must not grow with the number of versions.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use pintle_sorted::SortedEntry;

use crate::packed_version::{FoundVersion, PackedVersion};
use crate::selectable_values::value_at;
use crate::{Key, Object, ObjectIndex};

/// The capacity below which trimming keeps the memory of a key's older versions.
const MIN_CAPACITY: usize = 64;

/// A version of a key: the revision and the object, or `None` for a tombstone.
pub(crate) type ObjectVersion = (u64, Option<Arc<Object>>);

/// The maximum number of consecutive packed versions. It bounds the time to read one of them.
const MAX_PACKED_RUN: u8 = 15;

/// The retained versions of a key. Most keys have one version, which is an object that contains the key.
#[derive(Debug)]
pub(crate) struct ObjectVersions(Versions);

#[derive(Debug)]
enum Versions {
    Only(Arc<Object>),
    Several(Box<SeveralVersions>),
}

/// Several versions of a key, or a tombstone. The newest version is separate because nearly every read wants it.
#[derive(Debug)]
struct SeveralVersions {
    key: Key,
    newest: ObjectVersion,
    older: OlderVersions,
}

/// The older versions of a key, ascending by revision. New versions are added at the end, and the history is trimmed
/// from the front. So the cost of each operation does not depend on the number of versions.
#[derive(Debug, Default)]
struct OlderVersions {
    versions: VecDeque<OlderVersion>,
    /// The number of consecutive versions that were packed last.
    packed_run: u8,
}

#[derive(Debug)]
struct OlderVersion {
    revision: u64,
    state: VersionState,
}

/// The state of a key at an older version.
#[derive(Debug)]
enum VersionState {
    /// An object, or `None` for a tombstone.
    Object(Option<Arc<Object>>),
    /// An object, stored as its difference from the next version.
    Packed(PackedVersion),
}

impl OlderVersion {
    fn is_tombstone(&self) -> bool {
        matches!(self.state, VersionState::Object(None))
    }
}

impl OlderVersions {
    /// The index of the version at a revision.
    fn index_at(&self, revision: u64) -> Option<usize> {
        self.versions.partition_point(|version| version.revision <= revision).checked_sub(1)
    }
}

impl ObjectVersions {
    /// The versions of a key that has only one version. An object contains its revision and the key.
    pub(crate) fn new(key: Key, newest: ObjectVersion) -> Self {
        Self(match newest {
            (_, Some(object)) => Versions::Only(object),
            newest => Versions::Several(Box::new(SeveralVersions { key, newest, older: OlderVersions::default() })),
        })
    }

    /// The key, which all versions share.
    pub(crate) fn shared_key(&self) -> &Key {
        match &self.0 {
            Versions::Only(object) => &object.key,
            Versions::Several(versions) => &versions.key,
        }
    }

    /// The revision of the newest version.
    pub(crate) fn newest_revision(&self) -> u64 {
        match &self.0 {
            Versions::Only(object) => object.revision,
            Versions::Several(versions) => versions.newest.0,
        }
    }

    /// The current object.
    pub(crate) fn newest_object(&self) -> Option<&Arc<Object>> {
        match &self.0 {
            Versions::Only(object) => Some(object),
            Versions::Several(versions) => versions.newest.1.as_ref(),
        }
    }

    fn older(&self) -> Option<&OlderVersions> {
        match &self.0 {
            Versions::Only(_) => None,
            Versions::Several(versions) => Some(&versions.older),
        }
    }

    /// The object at a revision.
    pub(crate) fn at(&self, revision: u64) -> Option<FoundVersion> {
        if self.newest_revision() <= revision {
            return self.newest_object().cloned().map(FoundVersion::Object);
        }
        let older = self.older()?;
        let index = older.index_at(revision)?;
        let mut packed = Vec::new();
        let mut base = self.newest_object();
        for version in older.versions.range(index..) {
            match &version.state {
                VersionState::Object(object) => {
                    base = object.as_ref();
                    break;
                }
                VersionState::Packed(version_packed) => packed.push((version.revision, version_packed.clone())),
            }
        }
        packed.reverse();
        let base = base?.clone();
        Some(if packed.is_empty() { FoundVersion::Object(base) } else { FoundVersion::Packed(base, packed) })
    }

    /// True if there is an object at a revision.
    pub(crate) fn exists_at(&self, revision: u64) -> bool {
        if self.newest_revision() <= revision {
            return self.newest_object().is_some();
        }
        let older = self.older();
        older.is_some_and(|older| older.index_at(revision).is_some_and(|index| !older.versions[index].is_tombstone()))
    }

    /// Adds a version, which becomes the newest version.
    pub(crate) fn push(&mut self, version: ObjectVersion) {
        let versions = match &mut self.0 {
            Versions::Only(object) => {
                let mut older = OlderVersions::default();
                let (revision, state) = (object.revision, VersionState::Object(Some(object.clone())));
                older.versions.push_back(OlderVersion { revision, state });
                let versions = SeveralVersions { key: object.key.clone(), newest: version, older };
                self.0 = Versions::Several(Box::new(versions));
                return;
            }
            Versions::Several(versions) => versions,
        };
        let before = std::mem::replace(&mut versions.newest, version);
        let OlderVersions { versions: older, .. } = &mut versions.older;
        // Reads between two tombstones find nothing either. So only the first and the last tombstone of a run are kept.
        let is_repeated = before.1.is_none() && versions.newest.1.is_none();
        if !is_repeated || older.back().is_none_or(|last| !last.is_tombstone()) {
            older.push_back(OlderVersion { revision: before.0, state: VersionState::Object(before.1) });
        }
    }

    /// True if the change at a revision replaced `previous` by `object`, and neither of them is packed.
    pub(crate) fn has_change(&self, revision: u64, previous: Option<&Object>, object: Option<&Object>) -> bool {
        let is_same = |found: Option<FoundVersion>, expected: Option<&Object>| match (found, expected) {
            (Some(found), Some(expected)) => found.unpacked_revision() == Some(expected.revision),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        is_same(self.at(revision), object) && is_same(self.at(revision.saturating_sub(1)), previous)
    }

    /// True if there is an object at a revision, and its selectable field has this value.
    pub(crate) fn has_field(&self, revision: u64, field: usize, value: &str) -> bool {
        let of_object = |object: Option<&Arc<Object>>| object.is_some_and(|object| object.field(field) == value);
        if self.newest_revision() <= revision {
            return of_object(self.newest_object());
        }
        let Some(older) = self.older() else { return false };
        let Some(index) = older.index_at(revision) else { return false };
        for version in older.versions.range(index..) {
            match &version.state {
                VersionState::Object(object) => return of_object(object.as_ref()),
                VersionState::Packed(packed) => {
                    if let Some(fields) = packed.own_fields() {
                        return value_at(fields, field) == value;
                    }
                }
            }
        }
        of_object(self.newest_object())
    }

    /// Packs the version before the version at a revision. If too many consecutive versions are packed already, the
    /// version stays unpacked. The version at the revision must be an object. Returns whether the version was packed.
    pub(crate) fn pack_before(&mut self, revision: u64, packed: PackedVersion) -> bool {
        let Versions::Several(versions) = &mut self.0 else { return false };
        let older = &mut versions.older;
        let Some(index) = older.index_at(revision.saturating_sub(1)) else { return false };
        if older.packed_run == MAX_PACKED_RUN {
            older.packed_run = 0;
            return false;
        }
        older.packed_run += 1;
        older.versions[index].state = VersionState::Packed(packed);
        true
    }

    /// Runs the indexer again for all versions. Objects for which it fails keep their index.
    pub(crate) fn reindex(&mut self, index: impl Fn(&[u8]) -> Option<ObjectIndex>) {
        let reindexed = |object: &Arc<Object>| reindexed(object, &index);
        let versions = match &mut self.0 {
            Versions::Only(object) => {
                *object = reindexed(object);
                return;
            }
            Versions::Several(versions) => versions,
        };
        let mut next = versions.newest.1.clone();
        versions.newest.1 = next.as_ref().map(reindexed);
        let mut new_next = versions.newest.1.clone();
        for OlderVersion { revision, state } in versions.older.versions.iter_mut().rev() {
            let object = match (&*state, &next) {
                (VersionState::Object(object), _) => object.clone(),
                (VersionState::Packed(packed), Some(next)) => Some(Arc::new(packed.unpack(*revision, next))),
                // A packed version always has a next version.
                (VersionState::Packed(_), None) => None,
            };
            let new_object = object.as_ref().map(reindexed);
            let packed = match (&*state, new_object.as_deref(), new_next.as_deref()) {
                (VersionState::Packed(_), Some(object), Some(next)) => PackedVersion::new(object, next),
                _ => None,
            };
            *state = packed.map_or_else(|| VersionState::Object(new_object.clone()), VersionState::Packed);
            (next, new_next) = (object, new_object);
        }
    }

    /// Drops the versions before the version of a revision, at which the key has changed. Visits the dropped versions
    /// and one more, and returns the number of visited versions.
    pub(crate) fn trim_before(&mut self, revision: u64) -> usize {
        let Versions::Several(several) = &mut self.0 else { return 0 };
        let OlderVersions { versions, .. } = &mut several.older;
        let mut visited = 1;
        // A tombstone at the front means the same as no version.
        while versions.front().is_some_and(|version| version.revision < revision || version.is_tombstone()) {
            versions.pop_front();
            visited += 1;
        }
        if versions.is_empty() {
            if let Some(object) = several.newest.1.take() {
                self.0 = Versions::Only(object);
            }
        } else if versions.capacity() > MIN_CAPACITY.max(4 * versions.len()) {
            versions.shrink_to(2 * versions.len());
        }
        visited
    }

    /// True if there are versions besides the newest.
    pub(crate) fn has_older(&self) -> bool {
        self.older().is_some_and(|older| !older.versions.is_empty())
    }

    /// True if no version has an object.
    pub(crate) fn has_no_object(&self) -> bool {
        // At most two consecutive tombstones are kept, so this loop is short.
        let mut older = self.older().into_iter().flat_map(|older| &older.versions);
        self.newest_object().is_none() && older.all(OlderVersion::is_tombstone)
    }
}

impl SortedEntry for ObjectVersions {
    fn key(&self) -> &str {
        self.shared_key()
    }
}

/// An object with a new index, if the indexer succeeds.
pub(crate) fn reindexed(object: &Arc<Object>, index: impl Fn(&[u8]) -> Option<ObjectIndex>) -> Arc<Object> {
    let Some(index) = index(&object.json) else { return object.clone() };
    let (key, revision, json) = (object.key.clone(), object.revision, Bytes::copy_from_slice(&object.json));
    Arc::new(Object::new(key, revision, json, index).with_stale(object.is_stale()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(revision: u64) -> ObjectVersion {
        (revision, Some(Arc::new(Object::new("k".into(), revision, Bytes::new(), ObjectIndex::default()))))
    }

    fn count_older(versions: &ObjectVersions) -> usize {
        versions.older().map_or(0, |older| older.versions.len())
    }

    fn revision_at(versions: &ObjectVersions, revision: u64) -> Option<u64> {
        versions.at(revision).map(|found| found.into_object().revision)
    }

    /// A history of constant length: each change trims the oldest version. The work for a change must not depend on the
    /// number of versions.
    #[test]
    fn versions_of_a_hot_key_are_trimmed_in_constant_time() {
        for retained in [10, 1000, 20_000] {
            let changes = 3 * retained;
            let mut versions = ObjectVersions::new("k".into(), version(1));
            let mut visited = 0;
            for revision in 2..=changes {
                versions.push(version(revision));
                if revision > retained {
                    visited += versions.trim_before(revision - retained);
                    assert_eq!(revision_at(&versions, revision - retained), Some(revision - retained));
                }
            }
            assert_eq!(count_older(&versions) as u64, retained);
            assert!(visited as u64 <= 2 * changes, "{visited} visits for {changes} changes");
            assert_eq!(versions.trim_before(changes) as u64, retained + 1);
            assert!(!versions.has_older());
        }
    }

    #[test]
    fn a_revision_reads_the_version_before_it() {
        let mut versions = ObjectVersions::new("k".into(), version(2));
        for next in [version(4), (6, None), version(8)] {
            versions.push(next);
        }
        let read = |versions: &ObjectVersions| (1..=9).map(|at| revision_at(versions, at)).collect::<Vec<_>>();
        let (two, four, eight) = (Some(2), Some(4), Some(8));
        assert_eq!(read(&versions), [None, two, two, four, four, None, None, eight, eight]);
        // After trimming to a revision, all reads from this revision on return the same as before.
        versions.trim_before(4);
        assert_eq!(read(&versions)[2..], [None, four, four, None, None, eight, eight]);
        versions.trim_before(6);
        assert_eq!(read(&versions)[5..], [None, None, eight, eight]);
        assert!(!versions.has_older());
    }

    #[test]
    fn repeated_tombstones_take_no_memory() {
        let mut versions = ObjectVersions::new("k".into(), version(2));
        for revision in 3..1000 {
            versions.push((revision, None));
        }
        assert_eq!((count_older(&versions), versions.newest_revision()), (2, 999));
        assert_eq!(revision_at(&versions, 2), Some(2));
        assert!((3..1001).all(|at| !versions.exists_at(at)));
        versions.push(version(1000));
        assert_eq!((revision_at(&versions, 999), revision_at(&versions, 1000)), (None, Some(1000)));
    }
}
