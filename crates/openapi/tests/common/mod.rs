//! A registry of the catalog's resources without their strategies, on which documents do not depend.

use std::sync::Arc;

use pintle_catalog::{ResourceFacts, complete};
use pintle_registry::{
    Action, Backing, Collection, CrdSource, DefaultStrategy, DefaultTable, GroupVersionKind, Registry, Resource, Scope,
    SelectableField, Subresource, SubresourceRole, Verb, Verbs,
};
use pintle_schema::TypeId;
use pintle_value::{Str, Value};

/// Returns a registry of the served resources, or of all known resources.
pub(crate) fn registry(all: bool) -> Registry {
    let mut resources = Vec::new();
    for group in complete().groups() {
        for version in &group.versions {
            let facts = complete().resources().iter().filter(|r| r.group == group.name && r.version == version.name);
            resources.extend(facts.filter(|r| all || r.served).map(|facts| Arc::new(record(facts, all))));
        }
    }
    Registry::new(resources)
}

fn record(facts: &ResourceFacts, all: bool) -> Resource {
    let subresources = facts.subresources.iter().filter(|s| all || s.served).map(|s| Subresource {
        name: s.name.into(),
        kind: GroupVersionKind::new(s.group, s.version, s.kind),
        accepts: None,
        verbs: verbs(&s.verbs),
        role: SubresourceRole::Object,
    });
    let collection = facts.storage().map(|storage| {
        Arc::new(Collection {
            prefix: storage.prefix.into(),
            hub_group: storage.hub_group.into(),
            hub_version: storage.hub_version.into(),
            hub_plural: facts.plural.into(),
            returns_deleted: storage.returns_deleted,
        })
    });
    Resource {
        group: facts.group.into(),
        version: facts.version.into(),
        plural: facts.plural.into(),
        singular: facts.singular.as_str().into(),
        kind: facts.kind.into(),
        list_kind: facts.list_kind.as_str().into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: if facts.namespaced { Scope::Namespaced } else { Scope::Cluster },
        verbs: verbs(&facts.verbs),
        schema: complete().kind_schema(facts.group, facts.version, facts.kind).expect(facts.kind).into(),
        selectable: Vec::new(),
        crd: None,
        terminating: false,
        unresolvable: false,
        established: true,
        built_in: true,
        subresources: subresources.collect(),
        // Documents only distinguish stored objects from everything else.
        backing: collection.map_or(Backing::Action(Action::Bind), Backing::Stored),
        creates_on_update: false,
        updates_unconditionally: true,
        reset_field_filters: Vec::new(),
        storage_version_hash: Str::default(),
        deprecation: None,
        removed_release: Str::default(),
        strategy: Arc::new(DefaultStrategy),
        declarative: None,
        versions: None,
        table: Arc::new(DefaultTable),
    }
}

fn verbs(names: &[&str]) -> Verbs {
    Verb::ALL.into_iter().filter(|verb| names.contains(&verb.name())).collect()
}

/// A CRD with this schema.
struct StaticCrd(Value);

impl CrdSource for StaticCrd {
    fn fingerprint(&self) -> &str {
        "a definition"
    }

    fn schema(&self, _: &str) -> Option<Value> {
        Some(self.0.clone())
    }

    fn is_terminating(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

/// Returns a registry with a custom resource in addition to the built-in resources.
pub(crate) fn registry_with_widgets(schema: Value) -> Registry {
    let built_in = registry(false);
    Registry::new(built_in.resources().cloned().chain([widgets(schema)]).collect())
}

/// Returns a custom resource: namespaced widgets with the usual subresources.
pub(crate) fn widgets(schema: Value) -> Arc<Resource> {
    let subresource = |name: &'static str, kind: GroupVersionKind| Subresource {
        name: name.into(),
        kind,
        accepts: None,
        verbs: verbs(&["get", "patch", "update"]),
        role: SubresourceRole::Object,
    };
    let all: Vec<&str> = Verb::ALL.iter().map(|verb| verb.name()).collect();
    Arc::new(Resource {
        group: "bench.example.com".into(),
        version: "v1".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: verbs(&all),
        schema: complete().schema(TypeId(0)).into(),
        selectable: vec![SelectableField { name: "spec.sizes".into(), index: 0 }],
        crd: Some(Arc::new(StaticCrd(schema))),
        terminating: false,
        unresolvable: false,
        established: true,
        built_in: false,
        subresources: vec![
            subresource("scale", GroupVersionKind::new("autoscaling", "v1", "Scale")),
            subresource("status", GroupVersionKind::new("bench.example.com", "v1", "Widget")),
        ],
        backing: Backing::Action(Action::Bind),
        creates_on_update: false,
        updates_unconditionally: true,
        reset_field_filters: Vec::new(),
        storage_version_hash: Str::default(),
        deprecation: None,
        removed_release: Str::default(),
        strategy: Arc::new(DefaultStrategy),
        declarative: None,
        versions: None,
        table: Arc::new(DefaultTable),
    })
}
