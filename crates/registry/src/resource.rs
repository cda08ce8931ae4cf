//! The description of one served version of a resource.

use std::fmt;
use std::sync::Arc;

use pintle_fieldpath::set::Filter;
use pintle_schema::LazySchema;
use pintle_value::Str;

use crate::{
    Action, Backing, Collection, Connector, CrdSource, DeclarativeValidation, GroupResource, GroupVersion,
    GroupVersionKind, GroupVersionResource, MultiVersion, ScalePaths, Strategy, TableConvertor,
};

/// The scope of the objects of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects are in namespaces.
    Namespaced,
    /// Objects are cluster-scoped.
    Cluster,
}

/// An operation on a resource. Discovery and RBAC use the same names.
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
    /// All verbs, sorted by name, as in discovery.
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

    /// The verbs, sorted by name.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |v| self.has(*v))
    }
}

impl FromIterator<Verb> for Verbs {
    fn from_iter<T: IntoIterator<Item = Verb>>(iter: T) -> Self {
        Self(iter.into_iter().fold(0, |set, v| set | v as u16))
    }
}

/// One served version of a resource.
#[derive(Clone)]
pub struct Resource {
    /// The group, empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The plural name, as in URLs.
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
    /// Whether the objects are namespaced.
    pub scope: Scope,
    /// The supported verbs.
    pub verbs: Verbs,
    /// The types of an object.
    pub schema: LazySchema,
    /// The selectable fields, without `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<SelectableField>,
    /// The source of the schemas of a custom resource; `None` for built-in kinds, which the catalog describes.
    pub crd: Option<Arc<dyn CrdSource>>,
    /// True while the CRD of a custom resource is terminating. Existing objects can be updated and deleted, but no new
    /// objects can be created.
    pub terminating: bool,
    /// True if no request for a custom resource can be served, because the CA bundle of its conversion webhook is
    /// unreadable.
    pub unresolvable: bool,
    /// False if the CRD of a custom resource is not established. Then the resource is served, but discovery and OpenAPI
    /// do not publish it.
    pub established: bool,
    /// True for built-in kinds. Like Go structs, their objects are decoded into declared fields and encoded in the
    /// order of these fields. Items of lists have no kind and apiVersion.
    pub built_in: bool,
    /// True if PUT creates an object that does not exist (upstream: `AllowCreateOnUpdate`).
    pub creates_on_update: bool,
    /// True if an update without a resourceVersion overwrites any revision (upstream: `AllowUnconditionalUpdate`).
    pub updates_unconditionally: bool,
    /// The served subresources.
    pub subresources: Vec<Subresource>,
    /// The filters that exclude reset fields from managed fields, by the name of the written subresource. An empty name
    /// is the object itself. Without a filter, all fields count (upstream: `ResetFieldsFilterStrategy`).
    pub reset_field_filters: Vec<(Str, Filter)>,
    /// The source of the objects.
    pub backing: Backing,
    /// The hash of the storage version in discovery; opaque to clients.
    pub storage_version_hash: Str,
    /// The warning for every request, if the version is deprecated.
    pub deprecation: Option<Str>,
    /// The release from which on a deprecated version is no longer served (`1.38`); empty if that is not known.
    pub removed_release: Str,
    /// The rules of the kind.
    pub strategy: Arc<dyn Strategy>,
    /// The declarative validation of the kind, if it runs for every write.
    pub declarative: Option<Arc<dyn DeclarativeValidation>>,
    /// The versions of a custom resource, each of which is its own hub; `None` for built-in kinds.
    pub versions: Option<Arc<dyn MultiVersion>>,
    /// Converts objects to table rows.
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

    /// True if this is a version of the resource with this group and plural name.
    #[must_use]
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.plural == plural && self.group == group
    }

    /// True for the resource `namespaces`.
    #[must_use]
    pub fn is_namespaces(&self) -> bool {
        self.is("", "namespaces")
    }

    /// The subresource with this name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The filter that excludes the reset fields of a subresource from managed fields; `None` if the subresource has no
    /// reset fields. The empty name is the object itself.
    #[must_use]
    pub fn reset_field_filter(&self, subresource: &str) -> Option<&Filter> {
        self.reset_field_filters.iter().find(|(name, _)| name == subresource).map(|(_, filter)| filter)
    }

    /// The collection of the stored objects. All versions (and groups) that serve the same objects share it. `None` for
    /// resources that store nothing.
    #[must_use]
    pub fn collection(&self) -> Option<&Arc<Collection>> {
        match &self.backing {
            Backing::Stored(collection) => Some(collection),
            Backing::Computed(_) | Backing::Action(_) => None,
        }
    }

    /// True if objects are validated at this version: the storage version or, for custom resources, any version.
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

/// A field that field selectors support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The name in field selectors.
    pub name: Str,
    /// The index of the value in [`Strategy::selectable_field_values`] of a stored object. Versions that serve the same
    /// objects may have another name for an index, or no name.
    pub index: usize,
}

impl SelectableField {
    /// The fields with these names, in the order of their indexes.
    pub fn from_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<Self> {
        names.into_iter().enumerate().map(|(index, name)| Self { name: name.into(), index }).collect()
    }
}

/// A subresource of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Subresource {
    /// The last part of the path.
    pub name: Str,
    /// The kind of the bodies of requests and responses (`Scale`, `Binding`, or the resource's own kind).
    pub kind: GroupVersionKind,
    /// Another version in which bodies are accepted. The kind has the same fields there.
    pub accepts: Option<GroupVersion>,
    /// The supported verbs.
    pub verbs: Verbs,
    /// The relation of the subresource to the object.
    pub role: SubresourceRole,
}

/// The relation of a subresource to its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubresourceRole {
    /// The subresource reads the object and writes a part of it (`status`).
    Object,
    /// The subresource reads and sets the number of replicas.
    Scale(ScalePaths),
    /// A create runs an action.
    Action(Action),
    /// The subresource connects clients with a node, pod or service.
    Connect(Connector),
}
