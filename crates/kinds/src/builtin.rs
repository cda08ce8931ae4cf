//! Builds the registry's resources from the facts of the catalog and the strategies of this crate.

use std::sync::Arc;

use pintle_catalog::{BackingFacts, Catalog, ResourceFacts, ScaleFacts, SubresourceFacts};
use pintle_fieldpath::set::Filter;
use pintle_gates::Gates;
use pintle_registry::{
    Action, Backing, Collection, Computed, Connector, GroupVersion, GroupVersionKind, Resource, ScalePaths,
    ScaleSelector, Scope, SelectableField, Subresource, SubresourceRole, Verb, Verbs, field_path, reset_field_filter,
};
use pintle_schema::Schema;
use pintle_value::Str;
use sha2::{Digest, Sha256};

use crate::{RuntimeConfig, ServiceNetwork, tables};

/// Returns the served resources of a cluster with the default configuration.
#[must_use]
pub fn resources(catalog: &Catalog) -> Vec<Arc<Resource>> {
    resources_in(catalog, &RuntimeConfig::default(), &Gates::default(), &ServiceNetwork::default())
}

/// Returns all resources, including resources that are off by default or whose features are. Their types are in
/// [`pintle_catalog::complete`].
#[must_use]
pub fn all_resources(catalog: &Catalog) -> Vec<Arc<Resource>> {
    all_resources_with(catalog, &Gates::default())
}

/// Like [`all_resources`], of a cluster with these feature gates.
#[must_use]
pub fn all_resources_with(catalog: &Catalog, gates: &Gates) -> Vec<Arc<Resource>> {
    build_resources(catalog, gates, &ServiceNetwork::default(), |facts| facts.served)
}

/// Returns the served resources in the order of discovery, of a cluster whose services have these addresses and ports.
/// Strategies may be stateful (allocators), so every cluster builds its own resources; types are shared.
#[must_use]
pub fn resources_in(
    catalog: &Catalog,
    runtime_config: &RuntimeConfig,
    gates: &Gates,
    network: &ServiceNetwork,
) -> Vec<Arc<Resource>> {
    let has_feature = |facts: &ResourceFacts| facts.gate.is_none_or(|gate| gates.is_enabled_by_name(gate));
    build_resources(catalog, gates, network, |facts| {
        facts.served && has_feature(facts) && runtime_config.is_served(catalog, facts, gates.version().emulation())
    })
}

/// Returns the hub versions that are not among these resources, although other versions of them are.
#[must_use]
pub fn unserved_hubs(
    catalog: &Catalog,
    served: &[Arc<Resource>],
    gates: &Gates,
    network: &ServiceNetwork,
) -> Vec<Arc<Resource>> {
    let is_needed = |facts: &ResourceFacts| {
        let prefix = facts.storage().map_or("", |storage| storage.prefix);
        let mut versions = served.iter().filter(|other| other.collection().is_some_and(|of| of.prefix == prefix));
        facts.is_hub() && versions.clone().next().is_some() && !versions.any(|version| version.is_hub())
    };
    build_resources(catalog, gates, network, is_needed)
}

fn build_resources(
    catalog: &Catalog,
    gates: &Gates,
    network: &ServiceNetwork,
    is_served: impl Fn(&ResourceFacts) -> bool,
) -> Vec<Arc<Resource>> {
    let mut resources = Vec::new();
    for group in catalog.groups() {
        for version in &group.versions {
            let of_version = |r: &&ResourceFacts| r.group == group.name && r.version == version.name && is_served(r);
            for facts in catalog.resources().iter().filter(of_version) {
                let schema = catalog.kind_schema(facts.group, facts.version, facts.kind);
                let resource = schema.and_then(|schema| build_resource(catalog, facts, schema, gates, network));
                resources.extend(resource.map(Arc::new));
            }
        }
    }
    resources
}

/// Builds one resource. Returns `None` if its facts name an unknown computed resource or action, which a test rules
/// out.
fn build_resource(
    catalog: &Catalog,
    facts: &ResourceFacts,
    schema: Schema,
    gates: &Gates,
    network: &ServiceNetwork,
) -> Option<Resource> {
    let subresource = |s: &SubresourceFacts| Subresource {
        name: s.name.into(),
        kind: GroupVersionKind::new(s.group, s.version, s.kind),
        accepts: s.accepts.map(|(group, version)| GroupVersion::new(group, version)),
        verbs: verbs(&s.verbs),
        role: role(s),
    };
    let subresources: Vec<Subresource> = facts.subresources.iter().filter(|s| s.served).map(subresource).collect();
    let strategy = crate::strategies::strategy_in(facts.group, facts.version, facts.plural, gates, network);
    let declarative = crate::declarative::of_kind(schema.root(), gates);
    let is_deprecated = facts.deprecated_since.is_some_and(|since| since <= gates.version().emulation());
    let hub_group = facts.storage().map_or(facts.group, |s| s.hub_group);
    Some(Resource {
        group: facts.group.into(),
        version: facts.version.into(),
        plural: facts.plural.into(),
        singular: facts.singular.as_str().into(),
        kind: facts.kind.into(),
        list_kind: facts.list_kind.as_str().into(),
        short_names: facts.short_names.iter().map(|n| Str::from(*n)).collect(),
        categories: facts.categories.iter().map(|c| Str::from(*c)).collect(),
        scope: if facts.namespaced { Scope::Namespaced } else { Scope::Cluster },
        verbs: verbs(&facts.verbs),
        schema: schema.into(),
        selectable: SelectableField::from_names(strategy.selectable_field_names().iter().copied()),
        crd: None,
        terminating: false,
        unresolvable: false,
        established: true,
        built_in: true,
        creates_on_update: facts.creates_on_update,
        updates_unconditionally: facts.updates_unconditionally,
        reset_field_filters: reset_field_filters(facts),
        subresources,
        backing: backing(facts)?,
        storage_version_hash: catalog
            .storage_version(facts, gates.version())
            .map(|(group, version)| storage_version_hash(group, version, facts.kind))
            .unwrap_or_default(),
        deprecation: facts.deprecation.as_deref().filter(|_| is_deprecated).map(Str::from),
        removed_release: if is_deprecated { facts.removed_release.into() } else { Str::default() },
        strategy,
        declarative,
        versions: None,
        table: tables::table_in(hub_group, facts.plural, gates.version().binary()),
    })
}

/// Returns the reset field filters: which fields of a write do not count for managed fields.
fn reset_field_filters(facts: &ResourceFacts) -> Vec<(Str, Filter)> {
    let written = facts.subresources.iter().filter(|s| s.served && role(s) == SubresourceRole::Object);
    let resets: Vec<_> = written.map(|s| (s.name, &s.resets)).chain([("", &facts.resets)]).collect();
    if !resets.iter().any(|(name, _)| *name == "status") {
        return Vec::new();
    }
    resets.into_iter().filter_map(|(name, paths)| Some((name.into(), reset_field_filter(paths)?))).collect()
}

fn backing(facts: &ResourceFacts) -> Option<Backing> {
    match &facts.backing {
        BackingFacts::Stored(storage) => Some(Backing::Stored(Arc::new(Collection {
            prefix: storage.prefix.into(),
            hub_group: storage.hub_group.into(),
            hub_version: storage.hub_version.into(),
            hub_plural: facts.plural.into(),
            returns_deleted: storage.returns_deleted,
        }))),
        BackingFacts::Computed(name) => Computed::from_name(name).map(Backing::Computed),
        BackingFacts::Action(name) => Action::from_name(name).map(Backing::Action),
    }
}

fn role(facts: &SubresourceFacts) -> SubresourceRole {
    if let Some(connector) = facts.connector.and_then(Connector::from_name) {
        return SubresourceRole::Connect(connector);
    }
    match (facts.action.and_then(Action::from_name), &facts.scale) {
        (Some(action), _) => SubresourceRole::Action(action),
        (None, Some(scale)) => SubresourceRole::Scale(scale_paths(scale)),
        (None, None) => SubresourceRole::Object,
    }
}

fn scale_paths(facts: &ScaleFacts) -> ScalePaths {
    let selector = field_path(facts.selector);
    ScalePaths {
        replicas: field_path(facts.replicas),
        status_replicas: field_path(facts.current),
        selector: if facts.labels { ScaleSelector::Labels(selector) } else { ScaleSelector::LabelSelector(selector) },
        built_in: true,
    }
}

fn verbs(names: &[&str]) -> Verbs {
    Verb::ALL.into_iter().filter(|verb| names.contains(&verb.name())).collect()
}

/// Returns the first eight bytes of the SHA-256 of `group/version/kind`, in base64 (upstream:
/// `discovery.StorageVersionHash`).
#[must_use]
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> Str {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    pintle_schema::base64::encode(&digest[..8]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_served_resource_can_be_built() {
        let catalog = pintle_catalog::complete();
        let served = catalog.resources().iter().filter(|facts| facts.served).count();
        let resources = all_resources(catalog);
        assert_eq!(resources.len(), served);
        for resource in resources {
            for subresource in &resource.subresources {
                let own = subresource.kind == resource.gvk();
                let has_own_kind =
                    matches!(subresource.role, SubresourceRole::Object | SubresourceRole::Connect(Connector::Logs));
                assert_eq!(has_own_kind, own, "{resource:?}/{}", subresource.name);
            }
        }
    }
}
