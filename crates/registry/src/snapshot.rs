//! The registry: an immutable snapshot of every resource that is served.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_value::Str;

use crate::{Collection, GroupVersion, GroupVersionKind, Resource};

/// Every resource that is served, swapped whole when one appears or goes.
#[derive(Debug, Default)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    by_path: HashMap<(Str, Str), HashMap<Str, Arc<Resource>>>,
    by_kind: HashMap<GroupVersionKind, Arc<Resource>>,
    versions: Vec<GroupVersion>,
}

impl Registry {
    /// A registry of these resources. Groups and versions keep the order in which they first appear, which is the
    /// order of preference that discovery shows.
    #[must_use]
    pub fn new(resources: Vec<Arc<Resource>>) -> Self {
        let mut registry = Self::default();
        for resource in resources {
            let version = resource.group_version();
            if !registry.versions.contains(&version) {
                registry.versions.push(version);
            }
            registry
                .by_path
                .entry((resource.group.clone(), resource.version.clone()))
                .or_default()
                .insert(resource.plural.clone(), resource.clone());
            registry.by_kind.entry(resource.gvk()).or_insert_with(|| resource.clone());
            registry.resources.push(resource);
        }
        registry
    }

    /// The resource at a path.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&(Str::from(group), Str::from(version)))?.get(plural)
    }

    /// The resource of a kind.
    #[must_use]
    pub fn kind(&self, kind: &GroupVersionKind) -> Option<&Arc<Resource>> {
        self.by_kind.get(kind)
    }

    /// True if anything is served at this group and version.
    #[must_use]
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.by_path.contains_key(&(Str::from(group), Str::from(version)))
    }

    /// True if there are built-in kinds at this group and version, whose paths are known whatever is asked for there.
    #[must_use]
    pub fn has_routes(&self, group: &str, version: &str) -> bool {
        let resources = self.by_path.get(&(Str::from(group), Str::from(version)));
        resources.is_some_and(|resources| resources.values().any(|resource| resource.typed))
    }

    /// The record of the version that the objects of a collection are stored at.
    #[must_use]
    pub fn hub(&self, collection: &Collection) -> Option<&Arc<Resource>> {
        self.resource(&collection.hub_group, &collection.hub_version, &collection.hub_plural)
    }

    /// Every resource, in order.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    /// The resources of one group and version, in order.
    pub fn resources_of<'a>(&'a self, version: &'a GroupVersion) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.resources.iter().filter(move |r| r.group == version.group && r.version == version.version)
    }

    /// Groups and versions in the order of preference.
    #[must_use]
    pub fn versions(&self) -> &[GroupVersion] {
        &self.versions
    }

    /// Groups in the order of preference, the core group (named by the empty string) first where it is served.
    #[must_use]
    pub fn groups(&self) -> Vec<Str> {
        let mut groups: Vec<Str> = Vec::new();
        for version in &self.versions {
            if !groups.contains(&version.group) {
                groups.push(version.group.clone());
            }
        }
        groups
    }
}
