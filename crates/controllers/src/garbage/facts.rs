//! What the collector needs to know of an object: whom it depends on, and how it goes.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use pintle_cache::Object;
use pintle_codec::json::Projection;
use pintle_registry::{GroupVersion, GroupVersionKind};
use pintle_value::metadata::{FOREGROUND, ORPHAN};
use pintle_value::{Str, Value};

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: Str,
    pub(super) kind: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
    /// True if a foreground deletion of the owner waits for the dependent.
    pub(super) blocks: bool,
}

impl Owner {
    /// The kind of the owner. What cannot be parsed is a kind that there is not.
    pub(super) fn gvk(&self) -> GroupVersionKind {
        let unknown = || GroupVersion::new(self.api_version.clone(), "");
        let GroupVersion { group, version } = GroupVersion::parse(&self.api_version).unwrap_or_else(unknown);
        GroupVersionKind::new(group, version, self.kind.clone())
    }
}

/// What an object says of its owners and of its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnerReferences {
    pub(super) uid: Str,
    pub(super) owners: Vec<Owner>,
    pub(super) is_terminating: bool,
    /// Its dependents are to lose it as an owner before it goes.
    pub(super) orphans: bool,
    /// Its dependents are to go before it does.
    pub(super) is_foreground: bool,
    /// Whether it has the finalizers `orphan` and `foregroundDeletion`.
    pub(super) finalizers: [bool; 2],
}

/// Most objects have no owners and do not go: their text tells.
static MARKS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| ["\"ownerReferences\"", "\"deletionTimestamp\""].map(Finder::new));
static FIELDS: LazyLock<Projection> = LazyLock::new(|| {
    let fields = ["uid", "ownerReferences", "deletionTimestamp", "finalizers"];
    Projection::of(fields.map(|field| format!("metadata.{field}")).iter().map(String::as_str))
});

impl OwnerReferences {
    /// The facts of an object; `None` if there is nothing to know but its uid.
    pub(super) fn of(object: &Object) -> Option<Self> {
        MARKS.iter().any(|mark| mark.find(&object.json).is_some()).then(|| Self::read(object))
    }

    /// The facts of any object.
    pub(super) fn read(object: &Object) -> Self {
        FIELDS.read(&object.json).map_or_else(Self::default, |tree| Self::of_tree(&tree))
    }

    fn of_tree(tree: &Value) -> Self {
        let owner = |owner: &Value| Owner {
            api_version: owner.str_at(&["apiVersion"]).into(),
            kind: owner.str_at(&["kind"]).into(),
            name: owner.str_at(&["name"]).into(),
            uid: owner.str_at(&["uid"]).into(),
            blocks: owner.bool_at(&["blockOwnerDeletion"]),
        };
        let finalizers = tree.items_at(&["metadata", "finalizers"]);
        let has = |finalizer: &str| finalizers.iter().any(|found| found.as_str() == Some(finalizer));
        let is_terminating = tree.is_terminating();
        let [orphan, foreground] = [has(ORPHAN), has(FOREGROUND)];
        Self {
            uid: tree.uid().into(),
            owners: tree.items_at(&["metadata", "ownerReferences"]).iter().map(owner).collect(),
            is_terminating,
            orphans: is_terminating && orphan,
            is_foreground: is_terminating && foreground,
            finalizers: [orphan, foreground],
        }
    }
}
