//! The registry resources of a CRD, one per version.

use std::sync::Arc;

use pintle_kinds::has_unreadable_bundle;
use pintle_registry::{
    Backing, Collection, DefinitionSource, GroupVersionKind, ResetFields, Resource, ScalePaths, Scope, Subresource,
    SubresourceRole, Verb, Verbs,
};
use pintle_value::{Str, Value};

use crate::definition_versions::{DefinitionVersions, api_version};
use crate::is_condition_true;
use crate::printer_columns::PrinterColumns;
use crate::scale::ScaleValidator;
use crate::selectable_fields::SelectableFields;
use crate::strategy::CustomResourceStrategy;
use crate::version_priority::version_order;

/// The prefix of the storage keys of a CRD's objects, after the root.
#[must_use]
pub fn key_prefix(definition: &Value) -> Str {
    format!("{}/{}", definition.str_at(&["spec", "group"]), definition.str_at(&["spec", "names", "plural"])).into()
}

/// Builds the resources of all served versions of a CRD. Returns no resources if the CRD's names are not accepted, or
/// if it cannot be served. Rarely needed data is read from `source`.
#[must_use]
pub fn build_resources(definition: &Value, source: &Arc<dyn DefinitionSource>) -> Vec<Arc<Resource>> {
    build_matching_resources(definition, source, |version| version.bool_at(&["served"]))
}

/// Builds the resource of the storage version, served or not.
#[must_use]
pub fn build_storage_resource(definition: &Value, source: &Arc<dyn DefinitionSource>) -> Option<Arc<Resource>> {
    build_matching_resources(definition, source, |version| version.bool_at(&["storage"])).pop()
}

fn build_matching_resources(
    definition: &Value,
    source: &Arc<dyn DefinitionSource>,
    wanted: impl Fn(&Value) -> bool,
) -> Vec<Arc<Resource>> {
    if !is_condition_true(definition, "NamesAccepted") && !is_condition_true(definition, "Established") {
        return Vec::new();
    }
    let versions = definition.items_at(&["spec", "versions"]);
    let Some(storage) = versions.iter().find(|version| version.bool_at(&["storage"])) else { return Vec::new() };
    let collection = Arc::new(Collection {
        prefix: key_prefix(definition),
        hub_group: definition.str_at(&["spec", "group"]).into(),
        hub_version: storage.str_at(&["name"]).into(),
        hub_plural: definition.str_at(&["spec", "names", "plural"]).into(),
        returns_deleted: false,
    });
    let definition_versions = match DefinitionVersions::of(definition, source) {
        Ok(definition_versions) => Arc::new(definition_versions),
        Err(error) => {
            tracing::error!(%error, definition = definition.name(), "Failed to build resources of CustomResourceDefinition");
            return Vec::new();
        }
    };
    let selectable_fields = SelectableFields::of(definition);
    let build_resource =
        |version| build_resource(definition, source, version, &collection, &definition_versions, &selectable_fields);
    versions.iter().filter(|version| wanted(version)).filter_map(build_resource).collect()
}

fn build_resource(
    definition: &Value,
    source: &Arc<dyn DefinitionSource>,
    version: &Value,
    collection: &Arc<Collection>,
    definition_versions: &Arc<DefinitionVersions>,
    selectable_fields: &SelectableFields,
) -> Option<Arc<Resource>> {
    let group: Str = definition.str_at(&["spec", "group"]).into();
    let name: Str = version.str_at(&["name"]).into();
    let names = definition.at(&["status", "acceptedNames"])?;
    let texts = |key: &str| names.items_at(&[key]).iter().filter_map(Value::as_str).map(Str::from).collect();
    let kind = GroupVersionKind::new(group.clone(), name.clone(), names.str_at(&["kind"]));
    let known = definition_versions.version(&api_version(definition, &name))?;
    let status = version.at(&["subresources", "status"]).is_some();
    let strategy = CustomResourceStrategy::new(
        kind.clone(),
        known.schema.clone(),
        status,
        ScaleValidator::of(version),
        selectable_fields.clone(),
    );
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
        selectable: selectable_fields.of_version(version),
        definition: Some(source.clone()),
        terminating: is_condition_true(definition, "Terminating"),
        unresolvable: has_unreadable_bundle(definition),
        established: is_condition_true(definition, "Established"),
        built_in: false,
        subresources: subresources(version, &kind),
        reset_field_filters: reset_field_filters(status),
        backing: Backing::Stored(collection.clone()),
        storage_version_hash,
        deprecation: deprecation(definition, version, &kind),
        strategy: Arc::new(strategy),
        versions: Some(definition_versions.clone()),
        table: PrinterColumns::of(version).into(),
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
            accepts: None,
            verbs,
            role: SubresourceRole::Object,
        });
    }
    if let Some(scale) = version.at(&["subresources", "scale"]) {
        let paths = ScalePaths::from_definition(
            scale.str_at(&["specReplicasPath"]),
            scale.str_at(&["statusReplicasPath"]),
            Some(scale.str_at(&["labelSelectorPath"])),
        );
        let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
        subresources.push(Subresource {
            name: "scale".into(),
            kind,
            accepts: None,
            verbs,
            role: SubresourceRole::Scale(paths),
        });
    }
    subresources
}

/// The fields that a write resets, so that it does not own them (upstream: the strategies' `GetResetFields`).
fn reset_field_filters(status: bool) -> Vec<(Str, pintle_registry::Filter)> {
    if !status {
        return Vec::new();
    }
    let filters = [("", ResetFields::Paths(&["status"])), ("status", ResetFields::Paths(&["metadata", "spec"]))];
    filters.into_iter().filter_map(|(name, fields)| Some((name.into(), fields.filter()?))).collect()
}

/// The warning of a deprecated version. The default warning names the preferred version among the later versions that
/// are served and not deprecated (upstream: `defaultDeprecationWarning`).
fn deprecation(definition: &Value, version: &Value, kind: &GroupVersionKind) -> Option<Str> {
    if !version.bool_at(&["deprecated"]) {
        return None;
    }
    if let Some(warning) = version.at(&["deprecationWarning"]).and_then(Value::as_str) {
        return Some(warning.into());
    }
    let GroupVersionKind { group, version: name, .. } = kind;
    let kind = definition.str_at(&["spec", "names", "kind"]);
    let versions = definition.items_at(&["spec", "versions"]).iter();
    let current = versions.filter(|other| other.bool_at(&["served"]) && !other.bool_at(&["deprecated"]));
    let later = current.map(|other| other.str_at(&["name"])).filter(|other| version_order(other, name).is_lt());
    let replacement = later.min_by(|a, b| version_order(a, b));
    let replacement = replacement.map(|other| format!("; use {group}/{other} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{replacement}").into())
}
