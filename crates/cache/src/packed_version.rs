//! Packed older versions of objects. Each is stored as its difference from the next version.

use std::collections::HashMap;
use std::sync::Arc;

use crate::difference::{apply_difference, push_difference, push_number, take_bytes, take_number};
use crate::selectable_values::SelectableValues;
use crate::{Object, ObjectIndex};

/// The flags in the first byte of a packed version. `STALE`: the stored form was stale. `SAME_FIELDS`: the selectable
/// fields have the same values as in the next version.
const STALE: u8 = 1;
const SAME_FIELDS: u8 = 2;

/// A version of an object as its difference from the next version.
///
/// The flags are followed by the offsets of the index, the length of the JSON and its difference. The selectable fields
/// with their length come after the offsets if they differ.
#[derive(Clone, Debug)]
pub(crate) struct PackedVersion(Arc<[u8]>);

impl PackedVersion {
    /// Packs a version. Returns `None` if packing saves little.
    pub(crate) fn new(object: &Object, next: &Object) -> Option<Self> {
        let ObjectIndex { resource_version_offset, item_offset, labels, fields } = &object.index;
        let has_same_fields = *fields == next.index.fields;
        let flags = u8::from(object.is_stale()) * STALE + u8::from(has_same_fields) * SAME_FIELDS;
        let mut packed = vec![flags];
        for offset in [*resource_version_offset, *item_offset, labels.0, labels.1] {
            push_number(&mut packed, offset as usize);
        }
        if !has_same_fields {
            push_number(&mut packed, fields.packed().len());
            packed.extend_from_slice(fields.packed());
        }
        push_number(&mut packed, object.json.len());
        let max = (object.json.len() / 2).checked_sub(packed.len())?;
        push_difference(&mut packed, &object.json, &next.json, max).then(|| Self(packed.into()))
    }

    /// Makes the version again. `next` must be the object that the version was packed with, or an equal object.
    pub(crate) fn unpack(&self, revision: u64, next: &Object) -> Object {
        let (flags, mut rest) = self.0.split_first().map_or((0, &[][..]), |(flags, rest)| (*flags, rest));
        let [resource_version_offset, item_offset, labels_start, labels_end] =
            [(); 4].map(|()| take_number(&mut rest) as u32);
        let fields = match flags & SAME_FIELDS {
            0 => {
                let length = take_number(&mut rest);
                SelectableValues::from_packed(take_bytes(&mut rest, length))
            }
            _ => next.index.fields.clone(),
        };
        let mut json = Vec::with_capacity(take_number(&mut rest));
        apply_difference(rest, &next.json, &mut json);
        let index = ObjectIndex { resource_version_offset, item_offset, labels: (labels_start, labels_end), fields };
        Object::new(next.key.clone(), revision, json.into(), index).with_stale(flags & STALE != 0)
    }

    /// The selectable fields, if they differ from the next version's.
    pub(crate) fn own_fields(&self) -> Option<&[u8]> {
        let (flags, mut rest) = self.0.split_first()?;
        if flags & SAME_FIELDS != 0 {
            return None;
        }
        for _ in 0..4 {
            take_number(&mut rest);
        }
        let length = take_number(&mut rest);
        Some(take_bytes(&mut rest, length))
    }

    /// The memory that the packed version takes.
    pub(crate) fn size(&self) -> usize {
        2 * size_of::<usize>() + self.0.len()
    }
}

/// A version that was found: an object, or the packed versions from which it is made. The object is made without a
/// lock.
#[derive(Clone, Debug)]
pub(crate) enum FoundVersion {
    /// The object.
    Object(Arc<Object>),
    /// The nearest later version that is not packed, and the packed versions from it back to the found version.
    Packed(Arc<Object>, Vec<(u64, PackedVersion)>),
}

impl FoundVersion {
    /// The object.
    pub(crate) fn into_object(self) -> Arc<Object> {
        self.into_object_with(&mut UnpackedObjects::default())
    }

    /// The object. Objects that are made on the way are taken from `unpacked` and added to it.
    pub(crate) fn into_object_with(self, unpacked: &mut UnpackedObjects) -> Arc<Object> {
        let (base, versions) = match self {
            Self::Object(object) => return object,
            Self::Packed(base, versions) => (base, versions),
        };
        let key = base.key.as_str().as_ptr();
        let known = |(index, (revision, _)): (usize, &(u64, PackedVersion))| {
            Some((index + 1, unpacked.0.get(&(key, *revision))?.clone()))
        };
        let (done, mut object) = versions.iter().enumerate().rev().find_map(known).unwrap_or((0, base));
        for (revision, packed) in &versions[done..] {
            object = Arc::new(packed.unpack(*revision, &object));
            unpacked.0.insert((key, *revision), object.clone());
        }
        object
    }

    /// The approximate length of the object's JSON.
    pub(crate) fn json_length(&self) -> usize {
        match self {
            Self::Object(object) | Self::Packed(object, _) => object.json.len(),
        }
    }

    /// The revision of an object that is not packed.
    pub(crate) fn unpacked_revision(&self) -> Option<u64> {
        match self {
            Self::Object(object) => Some(object.revision),
            Self::Packed(..) => None,
        }
    }
}

/// Objects that were made from packed versions, by the address of their key and their revision. Consecutive events of a
/// key share them.
#[derive(Debug, Default)]
pub(crate) struct UnpackedObjects(HashMap<(*const u8, u64), Arc<Object>>);

#[cfg(test)]
mod tests {
    use super::*;

    fn object(revision: u64, json: &str, fields: &[&str]) -> Object {
        let index = ObjectIndex {
            resource_version_offset: revision as u32,
            item_offset: 300,
            labels: (2, 70_000),
            fields: fields.iter().collect(),
        };
        Object::new("ns/name".into(), revision, json.to_owned().into(), index)
    }

    #[test]
    fn a_version_is_unpacked_as_it_was() {
        let json =
            |value: &str| format!(r#"{{"metadata":{{"labels":{{"a":"{}"}}}},"data":"{value}"}}"#, "x".repeat(100));
        let next = object(9, &json("later"), &["Running", "node"]);
        for (json, fields) in
            [(json(""), vec!["Running", "node"]), (json("first"), vec!["Pending", ""]), (json("later"), vec![])]
        {
            for stale in [false, true] {
                let before = object(7, &json, &fields).with_stale(stale);
                let packed = PackedVersion::new(&before, &next).expect("a small difference");
                assert!(packed.size() < json.len() / 2 + 16);
                let unpacked = packed.unpack(7, &next);
                assert_eq!((&unpacked.key, unpacked.revision, &unpacked.json), (&before.key, 7, &before.json));
                assert_eq!((&unpacked.index, unpacked.is_stale()), (&before.index, stale));
            }
        }
    }

    #[test]
    fn what_differs_too_much_is_not_packed() {
        let (one, other) = ("a".repeat(100), "b".repeat(100));
        assert!(PackedVersion::new(&object(1, &one, &[]), &object(2, &other, &[])).is_none());
    }
}
