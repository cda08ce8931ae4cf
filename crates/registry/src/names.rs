//! The names of kinds and resources (upstream: `runtime/schema`).

use std::fmt;

use pintle_value::Str;

/// A group and a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The group, empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
}

impl GroupVersion {
    /// A group and a version.
    #[must_use]
    pub fn new(group: impl Into<Str>, version: impl Into<Str>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`: `v1` or `apps/v1`. `None` if there is more than one slash.
    #[must_use]
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(Self::new("", api_version)),
            Some((_, version)) if version.contains('/') => None,
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }
}

/// Prints an `apiVersion`.
impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

/// A group, a version and a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group, empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The kind.
    pub kind: Str,
}

impl GroupVersionKind {
    /// A group, a version and a kind.
    #[must_use]
    pub fn new(group: impl Into<Str>, version: impl Into<Str>, kind: impl Into<Str>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The group and version.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }
}

/// Prints as upstream's error texts do: `apps/v1, Kind=Deployment`.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A group, a version and a plural resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The group, empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The plural name.
    pub resource: Str,
}

/// A group and a plural resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group, empty for the core group.
    pub group: Str,
    /// The plural name.
    pub resource: Str,
}

impl GroupResource {
    /// A group and a plural resource name.
    #[must_use]
    pub fn new(group: impl Into<Str>, resource: impl Into<Str>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

/// Prints as error messages do: `pods`, `deployments.apps`.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.resource) } else { write!(f, "{}.{}", self.resource, self.group) }
    }
}

/// A resource that serves the same objects as another resource. It has the kind of its objects, or of a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EquivalentResource {
    /// The resource.
    pub resource: GroupVersionResource,
    /// The kind of the bodies of the resource's requests.
    pub kind: GroupVersionKind,
}

impl EquivalentResource {
    pub(crate) fn new(version: &GroupVersion, plural: &Str, kind: GroupVersionKind) -> Self {
        let GroupVersion { group, version } = version.clone();
        Self { resource: GroupVersionResource { group, version, resource: plural.clone() }, kind }
    }
}
