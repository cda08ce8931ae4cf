//! The registry: an immutable snapshot of all served resources. A new snapshot shares all unchanged groups with the old
//! snapshot. So adding a custom resource does not copy the other groups.

use std::sync::Arc;

use hashbrown::HashMap;
use pintle_value::Str;

use crate::{Collection, EquivalentResource, GroupResource, GroupVersion, GroupVersionKind, Resource, Subresource};

/// An immutable snapshot of all served resources.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// The groups in the order of preference: groups with built-in kinds in the order given, then all other groups by
    /// name.
    groups: Vec<Arc<Group>>,
    by_name: HashMap<Str, Arc<Group>>,
    /// The built-in resources that several groups serve from the same collection, in order, by the collection's prefix.
    shared_between_groups: Arc<HashMap<Str, Vec<Arc<Resource>>>>,
    /// The hub versions of built-in resources that are served at other versions only.
    unserved_hubs: Arc<[Arc<Resource>]>,
}

/// The served versions and resources of one group.
#[derive(Debug)]
pub struct Group {
    name: Str,
    /// The versions in the order of preference.
    versions: Vec<VersionResources>,
    by_kind: HashMap<GroupVersionKind, Arc<Resource>>,
    /// The resources at their storage versions, by plural. A custom resource has the rules of every version, so its
    /// entry is the first served version.
    hubs: HashMap<Str, Arc<Resource>>,
    /// True if all resources are established.
    is_established: bool,
}

/// The resources of one version of a group.
#[derive(Debug)]
struct VersionResources {
    name: GroupVersion,
    /// The resources, in order.
    resources: Vec<Arc<Resource>>,
    by_plural: HashMap<Str, Arc<Resource>>,
}

impl Group {
    /// Creates a group of these resources, with versions in the order in which they first appear.
    fn new(name: Str, resources: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut group =
            Self { name, versions: Vec::new(), by_kind: HashMap::new(), hubs: HashMap::new(), is_established: true };
        for resource in resources {
            group.is_established &= resource.established;
            group.by_kind.entry(resource.gvk()).or_insert_with(|| resource.clone());
            let existing = group.versions.iter().position(|version| version.name.version == resource.version);
            let index = existing.unwrap_or_else(|| {
                let (resources, by_plural) = (Vec::new(), HashMap::new());
                group.versions.push(VersionResources { name: resource.group_version(), resources, by_plural });
                group.versions.len() - 1
            });
            let version = &mut group.versions[index];
            version.by_plural.insert(resource.plural.clone(), resource.clone());
            version.resources.push(resource);
        }
        for version in &group.versions {
            for hub in version.resources.iter().filter(|resource| resource.is_hub()) {
                group.hubs.entry(hub.plural.clone()).or_insert_with(|| hub.clone());
            }
        }
        group
    }

    /// The name, empty for the core group.
    #[must_use]
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The versions of the group in the order of preference.
    pub fn versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.versions.iter().map(|version| &version.name)
    }

    /// True if the group has built-in kinds.
    #[must_use]
    pub fn has_built_in(&self) -> bool {
        self.resources().any(|resource| resource.built_in)
    }

    /// All resources, in order.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.iter().flat_map(|version| &version.resources)
    }

    fn version(&self, name: &str) -> Option<&VersionResources> {
        self.versions.iter().find(|version| version.name.version == name)
    }
}

impl Registry {
    /// A registry of these resources. Groups and versions keep the order in which they first appear, which is the
    /// order of preference that discovery shows.
    #[must_use]
    pub fn new(resources: Vec<Arc<Resource>>) -> Self {
        let mut by_collection: HashMap<Str, Vec<Arc<Resource>>> = HashMap::new();
        for resource in &resources {
            if let Some(collection) = resource.collection() {
                by_collection.entry(collection.prefix.clone()).or_default().push(resource.clone());
            }
        }
        by_collection.retain(|_, resources| resources.iter().any(|other| other.group != resources[0].group));
        let mut order: Vec<Str> = Vec::new();
        let mut by_group: HashMap<Str, Vec<Arc<Resource>>> = HashMap::new();
        for resource in resources {
            let group = by_group.entry(resource.group.clone()).or_insert_with(|| {
                order.push(resource.group.clone());
                Vec::new()
            });
            group.push(resource);
        }
        let mut registry = Self { shared_between_groups: Arc::new(by_collection), ..Self::default() };
        for name in order {
            let resources = by_group.remove(&name).unwrap_or_default();
            registry.push(Group::new(name, resources));
        }
        registry
    }

    /// The same registry with the hub versions of built-in resources that are served at other versions only. Only the
    /// lookups of hubs find them.
    #[must_use]
    pub fn with_unserved_hubs(self, hubs: Vec<Arc<Resource>>) -> Self {
        Self { unserved_hubs: hubs.into(), ..self }
    }

    fn push(&mut self, group: Group) {
        let group = Arc::new(group);
        self.by_name.insert(group.name.clone(), group.clone());
        self.groups.push(group);
    }

    /// A registry in which these custom resources, in this order, replace the custom resources of the groups. Built-in
    /// kinds come first and cannot be replaced.
    #[must_use]
    pub fn with_custom(&self, groups: impl IntoIterator<Item = (Str, Vec<Arc<Resource>>)>) -> Self {
        let mut registry = self.clone();
        for (group, custom) in groups {
            registry.set_custom(group, custom);
        }
        registry
    }

    /// The resources that discovery and OpenAPI show: built-in resources, and resources of established CRDs. `None` if
    /// these are all resources.
    #[must_use]
    pub fn established(&self) -> Option<Self> {
        let incomplete = self.groups.iter().filter(|group| !group.is_established);
        let established = incomplete.map(|group| {
            let custom = group.resources().filter(|resource| !resource.built_in && resource.established);
            (group.name.clone(), custom.cloned().collect())
        });
        let mut established = established.peekable();
        established.peek()?;
        Some(self.with_custom(established))
    }

    fn set_custom(&mut self, group: Str, custom: Vec<Arc<Resource>>) {
        let old = self.by_name.get(&group);
        let built_in = old.iter().flat_map(|group| group.resources()).filter(|resource| resource.built_in);
        let mut resources: Vec<Arc<Resource>> = built_in.cloned().collect();
        let is_built_in = |custom: &Arc<Resource>| {
            resources.iter().any(|other| other.version == custom.version && other.plural == custom.plural)
        };
        let custom: Vec<Arc<Resource>> = custom.into_iter().filter(|resource| !is_built_in(resource)).collect();
        resources.extend(custom);
        let index = old.is_some().then(|| self.groups.iter().position(|other| other.name == group)).flatten();
        if resources.is_empty() {
            self.by_name.remove(&group);
            if let Some(index) = index {
                self.groups.remove(index);
            }
            return;
        }
        let new = Arc::new(Group::new(group, resources));
        self.by_name.insert(new.name.clone(), new.clone());
        match index {
            Some(index) => self.groups[index] = new,
            None => {
                let comes_before = |other: &Arc<Group>| other.has_built_in() || other.name < new.name;
                self.groups.insert(self.groups.partition_point(comes_before), new);
            }
        }
    }

    /// The resource with this group, version and plural name.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_name.get(group)?.version(version)?.by_plural.get(plural)
    }

    /// The resource of a kind.
    #[must_use]
    pub fn kind(&self, kind: &GroupVersionKind) -> Option<&Arc<Resource>> {
        self.by_name.get(&kind.group)?.by_kind.get(kind)
    }

    /// True if this group and version is served.
    #[must_use]
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.by_name.get(group).is_some_and(|group| group.version(version).is_some())
    }

    /// True if this group and version has built-in kinds. Upstream registers routes for such versions. So unknown paths
    /// below them get another 404 than unknown paths of custom resources.
    #[must_use]
    pub fn has_routes(&self, group: &str, version: &str) -> bool {
        let version = self.by_name.get(group).and_then(|group| group.version(version));
        version.is_some_and(|version| version.resources.iter().any(|resource| resource.built_in))
    }

    /// The resource at the storage version of a collection.
    #[must_use]
    pub fn hub(&self, collection: &Collection) -> Option<&Arc<Resource>> {
        let is_it = |hub: &&Arc<Resource>| hub.collection().is_some_and(|of_hub| of_hub.prefix == collection.prefix);
        let served = self.resource(&collection.hub_group, &collection.hub_version, &collection.hub_plural);
        served.or_else(|| self.unserved_hubs.iter().find(is_it))
    }

    /// The storage versions of all served resources, whether these versions are served or not. For custom resources,
    /// each version is a storage version.
    pub fn hubs(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources().filter(|resource| resource.is_hub()).chain(self.unserved_hubs.iter())
    }

    /// The resource with this group and plural name, at its storage version.
    #[must_use]
    pub fn hub_of(&self, resource: &GroupResource) -> Option<&Arc<Resource>> {
        let is_it = |hub: &&Arc<Resource>| hub.is(&resource.group, &resource.resource);
        let served = self.by_name.get(&resource.group)?.hubs.get(&resource.resource);
        served.or_else(|| self.unserved_hubs.iter().find(is_it))
    }

    /// The other resources that serve the same objects, or the same subresource of them, in order (upstream:
    /// `EquivalentResourceMapper`). For a custom resource, these are all versions of its CRD, served or not.
    #[must_use]
    pub fn equivalent_resources(&self, resource: &Resource, subresource: &str) -> Vec<EquivalentResource> {
        let kind_of = |found: &Resource| match subresource {
            "" => Some(found.gvk()),
            name => found.subresource(name).map(|subresource| subresource.kind.clone()),
        };
        if let Some(versions) = &resource.versions {
            let others = versions.versions_with(subresource).into_iter().filter_map(GroupVersion::parse);
            let others = others.filter(|version| version.version != resource.version);
            let own_kind = |version: &GroupVersion| {
                let GroupVersion { group, version } = version.clone();
                GroupVersionKind::new(group, version, resource.kind.clone())
            };
            // A scale has the same kind at all versions.
            let kind = |version: &GroupVersion| match resource.subresource(subresource) {
                Some(Subresource { kind, .. }) if kind.group != resource.group => kind.clone(),
                _ => own_kind(version),
            };
            return others.map(|version| EquivalentResource::new(&version, &resource.plural, kind(&version))).collect();
        }
        let shared = resource.collection().and_then(|collection| self.shared_between_groups.get(&collection.prefix));
        let in_group = || {
            let versions = self.by_name.get(&resource.group).into_iter().flat_map(|group| &group.versions);
            versions.filter_map(|version| version.by_plural.get(&resource.plural))
        };
        let is_other = |other: &&Arc<Resource>| other.version != resource.version || other.group != resource.group;
        let equivalent = |other: &Arc<Resource>| {
            Some(EquivalentResource::new(&other.group_version(), &other.plural, kind_of(other)?))
        };
        match shared {
            Some(shared) => shared.iter().filter(is_other).filter_map(equivalent).collect(),
            None => in_group().filter(is_other).filter_map(equivalent).collect(),
        }
    }

    /// All resources, in order.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|group| group.resources())
    }

    /// The resources of one group and version, in order.
    pub fn resources_of(&self, version: &GroupVersion) -> impl Iterator<Item = &Arc<Resource>> {
        let served = self.by_name.get(&version.group).and_then(|group| group.version(&version.version));
        served.into_iter().flat_map(|version| &version.resources)
    }

    /// All groups and versions, in the order of preference.
    pub fn versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.groups.iter().flat_map(|group| group.versions())
    }

    /// All groups in the order of preference. The core group, whose name is empty, comes first if it is served. Two
    /// snapshots share a group (by pointer) if the group has not changed.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<Group>> {
        self.groups.iter()
    }

    /// The group with this name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.by_name.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Backing, DefaultStrategy, DefaultTable, Scope, Verbs};

    /// A resource from `group/version/plural`. In these tests, the plural of a custom resource has a dot.
    fn resource(path: &str) -> Arc<Resource> {
        let [group, version, plural] = path.split('/').collect::<Vec<_>>()[..] else { panic!("{path}") };
        Arc::new(Resource {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            singular: Str::default(),
            kind: plural.into(),
            list_kind: Str::default(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: Scope::Cluster,
            verbs: Verbs::default(),
            schema: pintle_schema::LazySchema::from_fn(|| unreachable!("the schema is not used")),
            selectable: Vec::new(),
            crd: None,
            terminating: false,
            unresolvable: false,
            established: true,
            built_in: !plural.contains('.'),
            subresources: Vec::new(),
            creates_on_update: false,
            updates_unconditionally: true,
            reset_field_filters: Vec::new(),
            backing: Backing::Action(Action::Bind),
            storage_version_hash: Str::default(),
            deprecation: None,
            removed_release: Str::default(),
            strategy: Arc::new(DefaultStrategy),
            declarative: None,
            versions: None,
            table: Arc::new(DefaultTable),
        })
    }

    fn resources(paths: &str) -> Vec<Arc<Resource>> {
        paths.split_whitespace().map(resource).collect()
    }

    fn check(registry: &Registry, expect: &str) {
        let paths = registry.resources().map(|r| format!("{}/{}/{}", r.group, r.version, r.plural));
        assert_eq!(paths.collect::<Vec<_>>().join(" "), expect);
        for resource in registry.resources() {
            let by_path = registry.resource(&resource.group, &resource.version, &resource.plural);
            assert!(by_path.is_some_and(|by_path| Arc::ptr_eq(by_path, resource)), "{resource:?}");
            assert!(registry.kind(&resource.gvk()).is_some(), "{resource:?}");
        }
    }

    #[test]
    fn with_custom_adds_replaces_and_removes_custom_resources() {
        let built_in = Registry::new(resources("z/v1/pods z/v2/pods b/v1/jobs"));
        check(&built_in, "z/v1/pods z/v2/pods b/v1/jobs");
        let set =
            |registry: &Registry, group: &str, paths: &str| registry.with_custom([(group.into(), resources(paths))]);
        let one = set(&built_in, "y", "y/v2/a. y/v1/a. y/v1/b.");
        check(&one, "z/v1/pods z/v2/pods b/v1/jobs y/v2/a. y/v1/a. y/v1/b.");
        let two = set(&one, "x", "x/v1/c.");
        check(&two, "z/v1/pods z/v2/pods b/v1/jobs x/v1/c. y/v2/a. y/v1/a. y/v1/b.");
        let same = |a: &Registry, b: &Registry, group: &str| match (a.group(group), b.group(group)) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        assert!(same(&one, &two, "y") && same(&built_in, &two, "z"));
        let three = set(&two, "y", "y/v1/b.");
        check(&three, "z/v1/pods z/v2/pods b/v1/jobs x/v1/c. y/v1/b.");
        assert!(same(&two, &three, "x") && !same(&two, &three, "y"));
        check(&set(&three, "y", ""), "z/v1/pods z/v2/pods b/v1/jobs x/v1/c.");
        check(&set(&three, "none", ""), "z/v1/pods z/v2/pods b/v1/jobs x/v1/c. y/v1/b.");
        // This group has custom resources and built-in kinds.
        let mixed = set(&three, "b", "b/v1/d. b/v3/e.");
        check(&mixed, "z/v1/pods z/v2/pods b/v1/jobs b/v1/d. b/v3/e. x/v1/c. y/v1/b.");
        assert!(mixed.has_routes("b", "v1") && !mixed.has_routes("b", "v3") && mixed.serves("b", "v3"));
        check(&set(&mixed, "b", ""), "z/v1/pods z/v2/pods b/v1/jobs x/v1/c. y/v1/b.");
    }

    #[test]
    fn established_leaves_out_what_is_not() {
        let registry = Registry::new(resources("z/v1/pods")).with_custom([("y".into(), resources("y/v1/a. y/v2/a."))]);
        assert!(registry.established().is_none());
        let pending = |path: &str| Arc::new(Resource { established: false, ..(*resource(path)).clone() });
        let some = vec![resource("y/v1/a."), pending("y/v2/b.")];
        let registry = registry.with_custom([("y".into(), some), ("x".into(), vec![pending("x/v1/c.")])]);
        check(&registry, "z/v1/pods x/v1/c. y/v1/a. y/v2/b.");
        let established = registry.established().expect("another registry");
        check(&established, "z/v1/pods y/v1/a.");
        assert!(established.group("x").is_none() && !established.serves("y", "v2"));
        assert!(established.established().is_none());
    }
}
