//! The storage versions of the built-in resources on this server, in the form of StorageVersion objects. Upstream has
//! them in `ResourceInfo` of apiserver's `pkg/storageversion`, and the versions of a kind in the scheme.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pintle_catalog::{Catalog, ResourceFacts, StorageFacts};
use pintle_registry::{GroupResource, GroupVersion, Registry};
use pintle_versions::EffectiveVersion;

/// How a server stores the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedStorageVersion {
    /// The name of the StorageVersion.
    pub name: String,
    /// The resource, and the resources of other groups that have the same objects.
    pub resources: Vec<GroupResource>,
    /// The version in which objects are stored.
    pub encoding: String,
    /// The versions in which stored objects are read.
    pub decodable: Vec<String>,
    /// The versions that are served.
    pub served: Vec<String>,
}

/// The group and resource of StorageVersions.
#[must_use]
pub fn storage_versions_resource() -> GroupResource {
    GroupResource::new("internal.apiserver.k8s.io", "storageversions")
}

/// How the built-in resources that a registry serves are stored, sorted by group and resource. Resources with the same
/// objects share the entry of the first resource.
#[must_use]
pub fn recorded_storage_versions(
    catalog: &Catalog,
    registry: &Registry,
    version: EffectiveVersion,
) -> Vec<RecordedStorageVersion> {
    let mut by_resource: BTreeMap<(&str, &str), Vec<(&ResourceFacts, &StorageFacts)>> = BTreeMap::new();
    for facts in catalog.resources() {
        let served = registry.resource(facts.group, facts.version, facts.plural);
        if let Some(storage) = facts.storage().filter(|_| served.is_some_and(|resource| resource.built_in)) {
            by_resource.entry((facts.group, facts.plural)).or_default().push((facts, storage));
        }
    }
    let mut recorded: Vec<(&str, RecordedStorageVersion)> = Vec::new();
    for ((group, plural), mut versions) in by_resource {
        versions.sort_by_key(|(facts, _)| Reverse(priority(catalog, group, facts.version)));
        let Some((first, storage)) = versions.first().copied() else { continue };
        let served: Vec<String> =
            versions.iter().map(|(facts, _)| GroupVersion::new(group, facts.version).to_string()).collect();
        let resource = GroupResource::new(group, plural);
        if let Some((_, other)) = recorded.iter_mut().find(|(prefix, _)| *prefix == storage.prefix) {
            // Objects of the other group can be read at its versions, too.
            other.resources.push(resource);
            other.decodable.extend(served);
            continue;
        }
        let encoding = catalog.storage_version(first, version).unwrap_or((storage.hub_group, storage.hub_version));
        let recorded_group = if group.is_empty() { "core" } else { group };
        let entry = RecordedStorageVersion {
            name: format!("{recorded_group}.{plural}"),
            resources: vec![resource],
            encoding: GroupVersion::new(encoding.0, encoding.1).to_string(),
            decodable: known_versions(catalog, first),
            served,
        };
        recorded.push((storage.prefix, entry));
    }
    recorded.into_iter().map(|(_, entry)| entry).collect()
}

/// All versions of a kind in its group, in the order of preference. They can be served, or are only read from the
/// store.
fn known_versions(catalog: &Catalog, of: &ResourceFacts) -> Vec<String> {
    let same_kind = catalog.resources().iter().filter(|facts| (facts.group, facts.kind) == (of.group, of.kind));
    let mut versions: Vec<&str> = Vec::new();
    for facts in same_kind {
        let stored = facts.storage().into_iter().flat_map(|storage| &storage.stored_versions);
        let stored = stored.filter(|(group, _)| *group == of.group).map(|(_, version)| *version);
        for version in std::iter::once(facts.version).chain(stored) {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
    }
    versions.sort_by_key(|version| (Reverse(priority(catalog, of.group, version)), Reverse(*version)));
    versions.into_iter().map(|version| GroupVersion::new(of.group, version).to_string()).collect()
}

/// The priority of a version in its group; 0 if it is never served.
fn priority(catalog: &Catalog, group: &str, version: &str) -> u32 {
    let groups = catalog.groups().iter().filter(|facts| facts.name == group);
    let mut versions = groups.flat_map(|group| &group.versions).filter(|facts| facts.name == version);
    versions.next().map_or(0, |version| version.priority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources;

    #[test]
    fn resources_are_recorded_with_their_versions() {
        let catalog = pintle_catalog::shared();
        let registry = Registry::new(resources(catalog));
        let recorded = recorded_storage_versions(catalog, &registry, EffectiveVersion::default());
        let check = |name: &str, encoding: &str, decodable: &[&str], served: &[&str]| {
            let found = recorded.iter().find(|entry| entry.name == name).expect("an entry");
            assert_eq!(
                (found.encoding.as_str(), found.decodable.clone(), found.served.clone()),
                (
                    encoding,
                    decodable.iter().map(|version| (*version).to_owned()).collect(),
                    served.iter().map(|version| (*version).to_owned()).collect()
                ),
                "{name}"
            );
        };
        check("core.pods", "v1", &["v1"], &["v1"]);
        check("apps.deployments", "apps/v1", &["apps/v1", "apps/v1beta2", "apps/v1beta1"], &["apps/v1"]);
        check("core.events", "v1", &["v1", "events.k8s.io/v1"], &["v1"]);
        check(
            "apiextensions.k8s.io.customresourcedefinitions",
            "apiextensions.k8s.io/v1beta1",
            &["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"],
            &["apiextensions.k8s.io/v1"],
        );
        check(
            "autoscaling.horizontalpodautoscalers",
            "autoscaling/v2",
            &["autoscaling/v2", "autoscaling/v1"],
            &["autoscaling/v2", "autoscaling/v1"],
        );
        let names: Vec<&str> = recorded.iter().map(|entry| entry.name.as_str()).collect();
        assert!(!names.contains(&"events.k8s.io.events") && !names.contains(&"core.componentstatuses"), "{names:?}");
        for entry in &recorded {
            assert!(entry.decodable.contains(&entry.encoding), "{entry:?}");
        }
    }
}
