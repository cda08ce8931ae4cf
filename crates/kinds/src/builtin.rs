//! Makes resource records of the catalog's facts and the behaviours here.

use std::sync::Arc;

use pintle_catalog::{Catalog, ResourceFacts};
use pintle_registry::{Collection, GroupVersionKind, Resource, Scope, Subresource, Verb, Verbs};
use pintle_schema::Schema;
use pintle_value::Str;
use sha2::{Digest, Sha256};

/// The resources that are served, in discovery's order. Behaviours may keep state (allocators), so every cluster makes
/// its own records; types are shared.
#[must_use]
pub fn resources(catalog: &Catalog) -> Vec<Arc<Resource>> {
    let mut resources = Vec::new();
    for group in catalog.groups() {
        for version in &group.versions {
            let of_version = |r: &&ResourceFacts| r.group == group.name && r.version == version.name && r.served;
            for facts in catalog.resources().iter().filter(of_version) {
                if let Some(schema) = catalog.kind_schema(facts.group, facts.version, facts.kind) {
                    resources.push(Arc::new(record(facts, schema)));
                }
            }
        }
    }
    resources
}

fn record(facts: &ResourceFacts, schema: Schema) -> Resource {
    let subresources = facts.subresources.iter().filter(|s| s.served).map(|s| Subresource {
        name: s.name.into(),
        kind: GroupVersionKind::new(s.group, s.version, s.kind),
        verbs: verbs(&s.verbs),
    });
    let collection = facts.storage.as_ref().map(|storage| {
        Arc::new(Collection {
            prefix: storage.prefix.into(),
            hub_group: storage.hub_group.into(),
            hub_version: storage.hub_version.into(),
            hub_plural: facts.plural.into(),
            returns_deleted: storage.returns_deleted,
        })
    });
    let hub_group = facts.storage.as_ref().map_or(facts.group, |s| s.hub_group);
    Resource {
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
        schema,
        typed: true,
        subresources: subresources.collect(),
        collection,
        storage_version_hash: facts
            .storage
            .as_ref()
            .map(|s| hash(s.upstream_group, s.upstream_version, facts.kind))
            .unwrap_or_default(),
        deprecation: facts.deprecation.as_deref().map(Str::from),
        behaviour: crate::behaviour(facts.group, facts.version, facts.plural),
        table: crate::table(hub_group, facts.plural),
    }
}

fn verbs(names: &[&str]) -> Verbs {
    Verb::ALL.into_iter().filter(|verb| names.contains(&verb.name())).collect()
}

/// The first eight bytes of the SHA-256 of `group/version/kind`, in base64 (upstream: `discovery.StorageVersionHash`).
fn hash(group: &str, version: &str, kind: &str) -> Str {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    pintle_schema::base64::encode(&digest[..8]).into()
}
