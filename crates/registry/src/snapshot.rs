//! The registry: an immutable snapshot of every resource that is served. A snapshot shares all groups with the one before
//! but the one that has changed, so that the thousandth kind costs what the first one does.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_value::Str;

use crate::{Collection, GroupVersion, GroupVersionKind, Resource};

/// Every resource that is served.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// In the order of preference: groups with built-in kinds as they were given, then others by name.
    groups: Vec<Arc<Group>>,
    by_name: HashMap<Str, Arc<Group>>,
}

/// What is served of one group.
#[derive(Debug)]
pub struct Group {
    name: Str,
    /// In the order of preference.
    versions: Vec<Version>,
    by_kind: HashMap<GroupVersionKind, Arc<Resource>>,
}

#[derive(Debug)]
struct Version {
    name: GroupVersion,
    /// In order.
    resources: Vec<Arc<Resource>>,
    by_plural: HashMap<Str, Arc<Resource>>,
}

impl Group {
    /// A group of these resources, versions in the order in which they first appear.
    fn new(name: Str, resources: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut group = Self { name, versions: Vec::new(), by_kind: HashMap::new() };
        for resource in resources {
            group.by_kind.entry(resource.gvk()).or_insert_with(|| resource.clone());
            let known = group.versions.iter().position(|version| version.name.version == resource.version);
            let place = known.unwrap_or_else(|| {
                let (resources, by_plural) = (Vec::new(), HashMap::new());
                group.versions.push(Version { name: resource.group_version(), resources, by_plural });
                group.versions.len() - 1
            });
            let version = &mut group.versions[place];
            version.by_plural.insert(resource.plural.clone(), resource.clone());
            version.resources.push(resource);
        }
        group
    }

    /// The name, empty for the core group.
    #[must_use]
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// Its versions in the order of preference.
    pub fn versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.versions.iter().map(|version| &version.name)
    }

    /// True if there are built-in kinds in it.
    #[must_use]
    pub fn has_built_in(&self) -> bool {
        self.resources().any(|resource| resource.built_in)
    }

    /// Every resource, in order.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.iter().flat_map(|version| &version.resources)
    }

    fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name.version == name)
    }
}

impl Registry {
    /// A registry of these resources. Groups and versions keep the order in which they first appear, which is the
    /// order of preference that discovery shows.
    #[must_use]
    pub fn new(resources: Vec<Arc<Resource>>) -> Self {
        let mut order: Vec<Str> = Vec::new();
        let mut of_groups: HashMap<Str, Vec<Arc<Resource>>> = HashMap::new();
        for resource in resources {
            let of_group = of_groups.entry(resource.group.clone()).or_insert_with(|| {
                order.push(resource.group.clone());
                Vec::new()
            });
            of_group.push(resource);
        }
        let mut registry = Self::default();
        for name in order {
            let resources = of_groups.remove(&name).unwrap_or_default();
            registry.push(Group::new(name, resources));
        }
        registry
    }

    fn push(&mut self, group: Group) {
        let group = Arc::new(group);
        self.by_name.insert(group.name.clone(), group.clone());
        self.groups.push(group);
    }

    /// A registry in which groups have these custom kinds, in this order, in the place of those that they had. Built-in
    /// kinds come first and are never hidden.
    #[must_use]
    pub fn with_custom(&self, groups: impl IntoIterator<Item = (Str, Vec<Arc<Resource>>)>) -> Self {
        let mut registry = self.clone();
        for (group, custom) in groups {
            registry.set_custom(group, custom);
        }
        registry
    }

    fn set_custom(&mut self, group: Str, custom: Vec<Arc<Resource>>) {
        let before = self.by_name.get(&group);
        let built_in = before.iter().flat_map(|group| group.resources()).filter(|resource| resource.built_in);
        let mut resources: Vec<Arc<Resource>> = built_in.cloned().collect();
        let is_built_in = |custom: &Arc<Resource>| {
            resources.iter().any(|known| known.version == custom.version && known.plural == custom.plural)
        };
        let shown: Vec<Arc<Resource>> = custom.into_iter().filter(|resource| !is_built_in(resource)).collect();
        resources.extend(shown);
        let place = before.is_some().then(|| self.groups.iter().position(|known| known.name == group)).flatten();
        if resources.is_empty() {
            self.by_name.remove(&group);
            if let Some(place) = place {
                self.groups.remove(place);
            }
            return;
        }
        let made = Arc::new(Group::new(group, resources));
        self.by_name.insert(made.name.clone(), made.clone());
        match place {
            Some(place) => self.groups[place] = made,
            None => {
                let before = |known: &Arc<Group>| known.has_built_in() || known.name < made.name;
                self.groups.insert(self.groups.partition_point(before), made);
            }
        }
    }

    /// The resource at a path.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_name.get(group)?.version(version)?.by_plural.get(plural)
    }

    /// The resource of a kind.
    #[must_use]
    pub fn kind(&self, kind: &GroupVersionKind) -> Option<&Arc<Resource>> {
        self.by_name.get(&kind.group)?.by_kind.get(kind)
    }

    /// True if anything is served at this group and version.
    #[must_use]
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.by_name.get(group).is_some_and(|group| group.version(version).is_some())
    }

    /// True if there are built-in kinds at this group and version, whose paths are known whatever is asked for there.
    #[must_use]
    pub fn has_routes(&self, group: &str, version: &str) -> bool {
        let version = self.by_name.get(group).and_then(|group| group.version(version));
        version.is_some_and(|version| version.resources.iter().any(|resource| resource.built_in))
    }

    /// The record of the version that the objects of a collection are stored at.
    #[must_use]
    pub fn hub(&self, collection: &Collection) -> Option<&Arc<Resource>> {
        self.resource(&collection.hub_group, &collection.hub_version, &collection.hub_plural)
    }

    /// Every resource, in order.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|group| group.resources())
    }

    /// The resources of one group and version, in order.
    pub fn resources_of(&self, version: &GroupVersion) -> impl Iterator<Item = &Arc<Resource>> {
        let found = self.by_name.get(&version.group).and_then(|group| group.version(&version.version));
        found.into_iter().flat_map(|version| &version.resources)
    }

    /// Groups and versions in the order of preference.
    pub fn versions(&self) -> impl Iterator<Item = &GroupVersion> {
        self.groups.iter().flat_map(|group| group.versions())
    }

    /// Groups in the order of preference, the core group (named by the empty string) first where it is served. As long as
    /// a group is the same there, everything in it is.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<Group>> {
        self.groups.iter()
    }

    /// The group of this name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.by_name.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Backing, DefaultStrategy, DefaultTable, Scope, Verbs};

    /// A resource of this path: `group/version/plural`. Custom ones have a dot in their plural, to be told apart here.
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
            schema: pintle_schema::LazySchema::from_fn(|| unreachable!("nobody asks for it")),
            selectable: Vec::new(),
            definition: None,
            terminating: false,
            built_in: !plural.contains('.'),
            subresources: Vec::new(),
            reset_field_filters: Vec::new(),
            backing: Backing::Action(Action::Bind),
            storage_version_hash: Str::default(),
            deprecation: None,
            strategy: Arc::new(DefaultStrategy),
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
            let found = registry.resource(&resource.group, &resource.version, &resource.plural);
            assert!(found.is_some_and(|found| Arc::ptr_eq(found, resource)), "{resource:?}");
            assert!(registry.kind(&resource.gvk()).is_some(), "{resource:?}");
        }
    }

    #[test]
    fn groups_of_custom_kinds_come_and_go() {
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
        // Custom kinds of a group that has built-in ones.
        let mixed = set(&three, "b", "b/v1/d. b/v3/e.");
        check(&mixed, "z/v1/pods z/v2/pods b/v1/jobs b/v1/d. b/v3/e. x/v1/c. y/v1/b.");
        assert!(mixed.has_routes("b", "v1") && !mixed.has_routes("b", "v3") && mixed.serves("b", "v3"));
        check(&set(&mixed, "b", ""), "z/v1/pods z/v2/pods b/v1/jobs x/v1/c. y/v1/b.");
    }
}
