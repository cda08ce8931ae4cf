//! The record that describes one served version of one resource.

use std::fmt;
use std::sync::Arc;

use pintle_apply::set::Filter;
use pintle_schema::LazySchema;
use pintle_value::Str;

use crate::{
    Action, Backing, Collection, DefinitionSource, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource,
    MultiVersion, ScalePaths, Strategy, TableConvertor,
};

/// Where the objects of a resource live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// What can be asked of a resource. The names are those of discovery and of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Verb {
    Create = 1,
    Delete = 2,
    DeleteCollection = 4,
    Get = 8,
    List = 16,
    Patch = 32,
    Update = 64,
    Watch = 128,
}

impl Verb {
    /// All verbs, in the order of their names, which is discovery's.
    pub const ALL: [Verb; 8] = [
        Verb::Create,
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ];

    /// The name in discovery.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u16);

impl Verbs {
    /// True if the verb is in the set.
    #[must_use]
    pub const fn has(self, verb: Verb) -> bool {
        self.0 & verb as u16 != 0
    }

    /// The verbs in the order of their names.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |v| self.has(*v))
    }
}

impl FromIterator<Verb> for Verbs {
    fn from_iter<T: IntoIterator<Item = Verb>>(iter: T) -> Self {
        Self(iter.into_iter().fold(0, |set, v| set | v as u16))
    }
}

/// One served version of one resource: a kind as data.
#[derive(Clone)]
pub struct Resource {
    /// The group, empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The plural name, as in paths.
    pub plural: Str,
    /// The singular name.
    pub singular: Str,
    /// The kind.
    pub kind: Str,
    /// The kind of a list.
    pub list_kind: Str,
    /// Short names for kubectl.
    pub short_names: Vec<Str>,
    /// Categories for kubectl (`all`).
    pub categories: Vec<Str>,
    /// Where the objects live.
    pub scope: Scope,
    /// What can be asked of it.
    pub verbs: Verbs,
    /// The types of an object.
    pub schema: LazySchema,
    /// The fields that objects can be selected by, beside `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<SelectableField>,
    /// Where what its author wrote of it can be read; `None` for built-in kinds, which the catalog describes.
    pub definition: Option<Arc<dyn DefinitionSource>>,
    /// True while a custom kind goes: what there is of it can be changed and deleted, and nothing new comes.
    pub terminating: bool,
    /// True for built-in kinds, which behave as if they were Go structs: decoded into declared fields, encoded in their
    /// order, items of lists without kind and apiVersion.
    pub built_in: bool,
    /// The subresources that are served.
    pub subresources: Vec<Subresource>,
    /// What of a write counts for who owns what, by the subresource that it goes through; an empty name is the object
    /// itself. All counts where nothing is said.
    pub reset_field_filters: Vec<(Str, Filter)>,
    /// What stands behind it.
    pub backing: Backing,
    /// Tells the encodings of stored objects apart in discovery; opaque to clients.
    pub storage_version_hash: Str,
    /// The warning that every request for a deprecated kind is answered with.
    pub deprecation: Option<Str>,
    /// The rules that the kind has of its own.
    pub strategy: Arc<dyn Strategy>,
    /// The versions of a kind whose rules hold at each of them; `None` for kinds whose rules hold at the hub.
    pub versions: Option<Arc<dyn MultiVersion>>,
    /// How it shows in a table.
    pub table: Arc<dyn TableConvertor>,
}

impl Resource {
    /// Group and version.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), self.version.clone(), self.kind.clone())
    }

    /// Group, version and plural name.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: self.plural.clone() }
    }

    /// Group and plural name.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// The subresource of this name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// What of a write through a subresource counts for who owns what; `None` if all does. The empty name is the object
    /// itself.
    #[must_use]
    pub fn reset_field_filter(&self, subresource: &str) -> Option<&Filter> {
        self.reset_field_filters.iter().find(|(name, _)| name == subresource).map(|(_, filter)| filter)
    }

    /// Where the objects are stored; the same for all versions (and groups) that show the same objects. `None` for
    /// resources that store nothing.
    #[must_use]
    pub fn collection(&self) -> Option<&Arc<Collection>> {
        match &self.backing {
            Backing::Stored(collection) => Some(collection),
            Backing::Computed(_) | Backing::Action(_) => None,
        }
    }

    /// True if this is a version that objects are validated at: that which they are stored at or, among equals, any.
    #[must_use]
    pub fn is_hub(&self) -> bool {
        self.versions.is_some()
            || self.collection().is_some_and(|c| self.group == c.hub_group && self.version == c.hub_version)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resource").field(&self.gvr()).finish()
    }
}

/// A field that objects can be selected by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// What selectors call it.
    pub name: Str,
    /// Its place in what [`Strategy::selected_values`] gives of a stored object. Versions that show the same objects may
    /// have other names for a place, or none.
    pub index: usize,
}

impl SelectableField {
    /// The fields of these names, in the order of their places.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<Self> {
        names.into_iter().enumerate().map(|(index, name)| Self { name: name.into(), index }).collect()
    }
}

/// A subresource of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Subresource {
    /// The last part of the path.
    pub name: Str,
    /// What a request's body and answer are (`Scale`, `Binding`, or the resource's own kind).
    pub kind: GroupVersionKind,
    /// What can be asked of it.
    pub verbs: Verbs,
    /// What it is to its object.
    pub role: SubresourceRole,
}

/// What a subresource is to the object that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubresourceRole {
    /// It shows the object and writes a part of it (`status`).
    Object,
    /// It shows and sets how many replicas the object has.
    Scale(ScalePaths),
    /// A create there does something.
    Action(Action),
}
