//! The registry records of a definition: one for each version that is served, as for any built-in kind.

use std::sync::Arc;

use pintle_registry::{
    Backing, Collection, DefinitionSource, GroupVersionKind, ResetFields, Resource, ScalePaths, Scope, Subresource,
    SubresourceRole, Verb, Verbs,
};
use pintle_value::{Str, Value};

use crate::columns::Columns;
use crate::condition_is_true;
use crate::defined::{Defined, api_version};
use crate::kind::Custom;
use crate::scale::Scaled;
use crate::selectable::Selectable;

/// The first part of the keys of a definition's objects, after the root.
#[must_use]
pub fn prefix(definition: &Value) -> Str {
    format!("{}/{}", definition.str_at(&["spec", "group"]), definition.str_at(&["spec", "names", "plural"])).into()
}

/// The records of a definition; none before its names are accepted, and none that cannot be served. What they need only
/// now and then they read in `source`.
#[must_use]
pub fn records(definition: &Value, source: &Arc<dyn DefinitionSource>) -> Vec<Arc<Resource>> {
    records_of(definition, source, |version| version.bool_at(&["served"]))
}

/// The record of the version that a definition's objects are stored at, served or not.
#[must_use]
pub fn stored_record(definition: &Value, source: &Arc<dyn DefinitionSource>) -> Option<Arc<Resource>> {
    records_of(definition, source, |version| version.bool_at(&["storage"])).pop()
}

fn records_of(
    definition: &Value,
    source: &Arc<dyn DefinitionSource>,
    wanted: impl Fn(&Value) -> bool,
) -> Vec<Arc<Resource>> {
    if !condition_is_true(definition, "NamesAccepted") && !condition_is_true(definition, "Established") {
        return Vec::new();
    }
    let versions = definition.items_at(&["spec", "versions"]);
    let Some(storage) = versions.iter().find(|version| version.bool_at(&["storage"])) else { return Vec::new() };
    let collection = Arc::new(Collection {
        prefix: prefix(definition),
        hub_group: definition.str_at(&["spec", "group"]).into(),
        hub_version: storage.str_at(&["name"]).into(),
        hub_plural: definition.str_at(&["spec", "names", "plural"]).into(),
        returns_deleted: false,
    });
    let defined = match Defined::of(definition, source) {
        Ok(defined) => Arc::new(defined),
        Err(error) => {
            tracing::error!(%error, definition = definition.name(), "a definition cannot be served");
            return Vec::new();
        }
    };
    let selectable = Selectable::of(definition);
    let record = |version| record(definition, source, version, &collection, &defined, &selectable);
    versions.iter().filter(|version| wanted(version)).filter_map(record).collect()
}

fn record(
    definition: &Value,
    source: &Arc<dyn DefinitionSource>,
    version: &Value,
    collection: &Arc<Collection>,
    defined: &Arc<Defined>,
    selectable: &Selectable,
) -> Option<Arc<Resource>> {
    let group: Str = definition.str_at(&["spec", "group"]).into();
    let name: Str = version.str_at(&["name"]).into();
    let names = definition.at(&["status", "acceptedNames"])?;
    let texts = |key: &str| names.items_at(&[key]).iter().filter_map(Value::as_str).map(Str::from).collect();
    let kind = GroupVersionKind::new(group.clone(), name.clone(), names.str_at(&["kind"]));
    let known = defined.version(&api_version(definition, &name))?;
    let status = version.at(&["subresources", "status"]).is_some();
    let strategy = Custom::new(known.schema.clone(), status, Scaled::of(version), selectable.clone());
    let stored = collection.hub_version.as_str();
    let served = |known: &Value| known.str_at(&["name"]) == stored && known.bool_at(&["served"]);
    let shown = definition.items_at(&["spec", "versions"]).iter().any(served);
    let hash = || pintle_kinds::storage_version_hash(&group, stored, definition.str_at(&["spec", "names", "kind"]));
    let storage_version_hash = if shown { hash() } else { Str::default() };
    Some(Arc::new(Resource {
        group,
        version: name,
        plural: names.str_at(&["plural"]).into(),
        singular: names.str_at(&["singular"]).into(),
        list_kind: names.str_at(&["listKind"]).into(),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        scope: if definition.str_at(&["spec", "scope"]) == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
        verbs: Verb::ALL.into_iter().collect(),
        schema: known.types.clone(),
        selectable: selectable.of_version(version),
        definition: Some(source.clone()),
        terminating: condition_is_true(definition, "Terminating"),
        built_in: false,
        subresources: subresources(version, &kind),
        reset_field_filters: reset_field_filters(status),
        backing: Backing::Stored(collection.clone()),
        storage_version_hash,
        deprecation: deprecation(version, &kind),
        strategy: Arc::new(strategy),
        versions: Some(defined.clone()),
        table: Columns::of(version).into(),
        kind: kind.kind,
    }))
}

fn subresources(version: &Value, kind: &GroupVersionKind) -> Vec<Subresource> {
    let verbs: Verbs = [Verb::Get, Verb::Patch, Verb::Update].into_iter().collect();
    let mut subresources = Vec::new();
    if version.at(&["subresources", "status"]).is_some() {
        subresources.push(Subresource {
            name: "status".into(),
            kind: kind.clone(),
            verbs,
            role: SubresourceRole::Object,
        });
    }
    if let Some(scale) = version.at(&["subresources", "scale"]) {
        let paths = ScalePaths::of_custom(
            scale.str_at(&["specReplicasPath"]),
            scale.str_at(&["statusReplicasPath"]),
            Some(scale.str_at(&["labelSelectorPath"])),
        );
        let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
        subresources.push(Subresource { name: "scale".into(), kind, verbs, role: SubresourceRole::Scale(paths) });
    }
    subresources
}

/// What of a write counts for who owns what (upstream: the strategies' `GetResetFields`).
fn reset_field_filters(status: bool) -> Vec<(Str, pintle_registry::Filter)> {
    if !status {
        return Vec::new();
    }
    let filters = [("", ResetFields::These(&["status"])), ("status", ResetFields::These(&["metadata", "spec"]))];
    filters.into_iter().filter_map(|(name, fields)| Some((name.into(), fields.filter()?))).collect()
}

fn deprecation(version: &Value, kind: &GroupVersionKind) -> Option<Str> {
    if !version.bool_at(&["deprecated"]) {
        return None;
    }
    Some(match version.str_at(&["deprecationWarning"]) {
        "" => format!("{}/{} {} is deprecated", kind.group, kind.version, kind.kind).into(),
        text => text.into(),
    })
}
