//! The part of an object's metadata that the garbage collector needs: its owners, and how it is deleted.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use pintle_cache::Object;
use pintle_codec::json::Projection;
use pintle_registry::{GroupVersion, GroupVersionKind};
use pintle_value::metadata::{FOREGROUND, ORPHAN};
use pintle_value::{Str, Value};

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
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
static FIELDS: LazyLock<Projection> = LazyLock::new(|| {
    let fields = ["uid", "ownerReferences", "deletionTimestamp", "finalizers"];
    Projection::of(fields.map(|field| format!("metadata.{field}")).iter().map(String::as_str))
});

impl ObjectMetadata {
    /// The metadata of an object; `None` if it has no owners and is not terminating.
    pub(super) fn of(object: &Object) -> Option<Self> {
        FIELD_NAMES.iter().any(|name| name.find(&object.json).is_some()).then(|| Self::read(object))
    }

    /// The metadata of any object.
    pub(super) fn read(object: &Object) -> Self {
        FIELDS.read(&object.json).map_or_else(Self::default, |tree| Self::of_tree(&tree))
    }

    fn of_tree(tree: &Value) -> Self {
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
