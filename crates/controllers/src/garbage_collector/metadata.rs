//! The part of an object's metadata that the garbage collector needs: its owners, and how it is deleted.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use pintle_cache::Object;
use pintle_codec::json::Projection;
use pintle_registry::{GroupVersion, GroupVersionKind};
use pintle_value::metadata::{FOREGROUND, ORPHAN};
use pintle_value::{Str, Value};

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnerReference {
    pub(super) api_version: Str,
    pub(super) kind: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
    /// `blockOwnerDeletion`: a foreground deletion of the owner waits for the dependent.
    pub(super) blocks_deletion: bool,
}

impl OwnerReference {
    /// The kind of the owner. A reference that cannot be parsed has a kind that does not exist.
    pub(super) fn gvk(&self) -> GroupVersionKind {
        let unknown = || GroupVersion::new(self.api_version.clone(), "");
        let GroupVersion { group, version } = GroupVersion::parse(&self.api_version).unwrap_or_else(unknown);
        GroupVersionKind::new(group, version, self.kind.clone())
    }
}

/// The owners of an object and the state of its deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectMetadata {
    pub(super) uid: Str,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) is_terminating: bool,
    /// It is terminating, and its dependents have to be orphaned before it is deleted.
    pub(super) orphans_dependents: bool,
    /// It is terminating, and its blocking dependents have to be deleted before it is.
    pub(super) deletes_dependents: bool,
    /// It has the finalizer `orphan`.
    pub(super) has_orphan_finalizer: bool,
    /// It has the finalizer `foregroundDeletion`.
    pub(super) has_foreground_finalizer: bool,
}

/// Most objects have no owners and are not terminating. Their JSON does not contain these field names.
static FIELD_NAMES: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| ["\"ownerReferences\"", "\"deletionTimestamp\""].map(Finder::new));
/// Where the managed fields begin. A label or annotation of this name is no list.
static MANAGED_FIELDS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"managedFields\":["));
static FIELDS: LazyLock<Projection> = LazyLock::new(|| {
    let fields = ["uid", "ownerReferences", "deletionTimestamp", "finalizers"];
    Projection::of(fields.map(|field| format!("metadata.{field}")).iter().map(String::as_str))
});

/// The JSON of an object up to its managed fields, or else all of it. The managed fields must follow all other
/// metadata, as in the declaration order of built-in kinds. They and the fields after the metadata are most of an
/// object.
fn before_managed_fields(json: &[u8]) -> &[u8] {
    // Sorted metadata that begins with the name has no managed fields, which would precede it.
    let is_in_declaration_order = || {
        let after_string = |text: &'_ [u8], prefix: &[u8]| -> Option<usize> {
            let value = text.strip_prefix(prefix)?;
            Some(prefix.len() + memchr::memchr(b'"', value)?)
        };
        let rest = &json[after_string(json, b"{\"kind\":\"")?..];
        let rest = &rest[after_string(rest, b"\",\"apiVersion\":\"")?..];
        let metadata = rest.strip_prefix(b"\",\"metadata\":{\"")?;
        Some(metadata.starts_with(b"name\""))
    };
    match is_in_declaration_order() {
        Some(true) => MANAGED_FIELDS.find(json).map_or(json, |end| &json[..end]),
        _ => json,
    }
}

impl ObjectMetadata {
    /// The metadata of an object; `None` if it has no owners and is not terminating.
    pub(super) fn of(object: &Object) -> Option<Self> {
        let searched = before_managed_fields(&object.json);
        FIELD_NAMES.iter().any(|name| name.find(searched).is_some()).then(|| Self::read(object))
    }

    /// The metadata of any object.
    pub(super) fn read(object: &Object) -> Self {
        FIELDS.read(&object.json).map_or_else(Self::default, |tree| Self::of_tree(&tree))
    }

    /// The metadata in the tree of an object.
    pub(super) fn of_tree(tree: &Value) -> Self {
        let owner = |owner: &Value| OwnerReference {
            api_version: owner.str_at(&["apiVersion"]).into(),
            kind: owner.str_at(&["kind"]).into(),
            name: owner.str_at(&["name"]).into(),
            uid: owner.str_at(&["uid"]).into(),
            blocks_deletion: owner.bool_at(&["blockOwnerDeletion"]),
        };
        let finalizers = tree.items_at(&["metadata", "finalizers"]);
        let has = |finalizer: &str| finalizers.iter().any(|found| found.as_str() == Some(finalizer));
        let is_terminating = tree.is_terminating();
        let (has_orphan_finalizer, has_foreground_finalizer) = (has(ORPHAN), has(FOREGROUND));
        Self {
            uid: tree.uid().into(),
            owners: tree.items_at(&["metadata", "ownerReferences"]).iter().map(owner).collect(),
            is_terminating,
            orphans_dependents: is_terminating && has_orphan_finalizer,
            deletes_dependents: is_terminating && has_foreground_finalizer,
            has_orphan_finalizer,
            has_foreground_finalizer,
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_cache::ObjectIndex;

    use super::*;

    fn check(json: &str, searched: usize, owners: usize) {
        assert_eq!(before_managed_fields(json.as_bytes()).len(), searched, "{json}");
        let object = Object::new("ns/a".into(), 1, json.to_owned().into(), ObjectIndex::default());
        let found = ObjectMetadata::of(&object).map_or(0, |metadata| metadata.owners.len());
        assert_eq!(found, owners, "{json}");
    }

    #[test]
    fn owners_are_found_in_declaration_and_sorted_order() {
        const OWNER: &str = r#""ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]"#;
        for (metadata, owners) in [
            (r#""name":"a","uid":"u""#.to_owned(), 0),
            (format!(r#""name":"a","labels":{{"managedFields":"x"}},{OWNER}"#), 1),
            (format!(r#""name":"a","generateName":"a-",{OWNER},"finalizers":["x"]"#), 1),
        ] {
            let head = format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{{metadata}"#);
            check(&format!(r#"{head},"managedFields":[{{"f":{{}}}}]}},"spec":{{}}}}"#), head.len() + 1, owners);
            let without = format!(r#"{head}}},"spec":{{}}}}"#);
            check(&without, without.len(), owners);
        }
        let terminating =
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","deletionTimestamp":"t","managedFields":[]}}"#;
        let object = Object::new("ns/a".into(), 1, terminating.to_owned().into(), ObjectIndex::default());
        assert!(ObjectMetadata::of(&object).is_some_and(|metadata| metadata.is_terminating));
        // In sorted order the managed fields precede the owners, wherever the kind is.
        for head in [
            r#"{"kind":"A","apiVersion":"a/v1","metadata":{"creationTimestamp":"t","#,
            r#"{"kind":"A","apiVersion":"a/v1","metadata":{"generateName":"a-","#,
            r#"{"kind":"A","apiVersion":"a/v1","data":{"metadata":{"name":"b"}},"metadata":{"annotations":{},"#,
            r#"{"apiVersion":"a/v1","kind":"A","metadata":{"#,
        ] {
            let json = format!(r#"{head}"managedFields":[{{}}],"name":"a",{OWNER},"uid":"u"}}}}"#);
            check(&json, json.len(), 1);
        }
    }
}
