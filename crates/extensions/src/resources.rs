//! The registry resources of a CRD, one per version.

use std::sync::Arc;

use pintle_kinds::has_unreadable_bundle;
use pintle_registry::{
    Backing, Collection, CrdSource, GroupVersionKind, Resource, ScalePaths, Scope, Subresource, SubresourceRole, Verb,
    Verbs, reset_field_filter,
};
use pintle_value::{Str, Value};

use crate::crd_versions::{CrdVersions, api_version};
use crate::is_condition_true;
use crate::printer_columns::PrinterColumns;
use crate::scale::ScaleValidator;
use crate::selectable_fields::SelectableFields;
use crate::strategy::CustomResourceStrategy;
use crate::version_priority::version_order;

/// The prefix of the storage keys of a CRD's objects, after the root.
#[must_use]
pub fn key_prefix(crd: &Value) -> Str {
    format!("{}/{}", crd.str_at(&["spec", "group"]), crd.str_at(&["spec", "names", "plural"])).into()
}

/// Builds the resources of all served versions of a CRD. Returns no resources if the CRD's names are not accepted, or
/// if it cannot be served. Rarely needed data is read from `source`.
#[must_use]
pub fn build_resources(crd: &Value, source: &Arc<dyn CrdSource>) -> Vec<Arc<Resource>> {
    build_matching_resources(crd, source, |version| version.bool_at(&["served"]))
}

/// Builds the resource of the storage version, served or not.
#[must_use]
pub fn build_storage_resource(crd: &Value, source: &Arc<dyn CrdSource>) -> Option<Arc<Resource>> {
    build_matching_resources(crd, source, |version| version.bool_at(&["storage"])).pop()
}

fn build_matching_resources(
    crd: &Value,
    source: &Arc<dyn CrdSource>,
    wanted: impl Fn(&Value) -> bool,
) -> Vec<Arc<Resource>> {
    if !is_condition_true(crd, "NamesAccepted") && !is_condition_true(crd, "Established") {
        return Vec::new();
    }
    let versions = crd.items_at(&["spec", "versions"]);
    let Some(storage) = versions.iter().find(|version| version.bool_at(&["storage"])) else { return Vec::new() };
    let collection = Arc::new(Collection {
        prefix: key_prefix(crd),
        hub_group: crd.str_at(&["spec", "group"]).into(),
        hub_version: storage.str_at(&["name"]).into(),
        hub_plural: crd.str_at(&["spec", "names", "plural"]).into(),
        returns_deleted: false,
    });
    let crd_versions = match CrdVersions::of(crd, source) {
        Ok(crd_versions) => Arc::new(crd_versions),
        Err(error) => {
            tracing::error!(%error, crd = crd.name(), "Failed to build resources of CustomResourceDefinition");
            return Vec::new();
        }
    };
    let selectable_fields = SelectableFields::of(crd);
    let build_resource = |version| build_resource(crd, source, version, &collection, &crd_versions, &selectable_fields);
    versions.iter().filter(|version| wanted(version)).filter_map(build_resource).collect()
}

fn build_resource(
    crd: &Value,
    source: &Arc<dyn CrdSource>,
    version: &Value,
    collection: &Arc<Collection>,
    crd_versions: &Arc<CrdVersions>,
    selectable_fields: &SelectableFields,
) -> Option<Arc<Resource>> {
    let group: Str = crd.str_at(&["spec", "group"]).into();
    let name: Str = version.str_at(&["name"]).into();
    let names = crd.at(&["status", "acceptedNames"])?;
    let texts = |key: &str| names.items_at(&[key]).iter().filter_map(Value::as_str).map(Str::from).collect();
    let kind = GroupVersionKind::new(group.clone(), name.clone(), names.str_at(&["kind"]));
    let known = crd_versions.version(&api_version(crd, &name))?;
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
    let shown = crd.items_at(&["spec", "versions"]).iter().any(served);
    let hash = || pintle_kinds::storage_version_hash(&group, stored, crd.str_at(&["spec", "names", "kind"]));
    let storage_version_hash = if shown { hash() } else { Str::default() };
    Some(Arc::new(Resource {
        group,
        version: name,
        plural: names.str_at(&["plural"]).into(),
        singular: names.str_at(&["singular"]).into(),
        list_kind: names.str_at(&["listKind"]).into(),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        scope: if crd.str_at(&["spec", "scope"]) == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
        verbs: Verb::ALL.into_iter().collect(),
        schema: known.types.clone(),
        selectable: selectable_fields.of_version(version),
        crd: Some(source.clone()),
        terminating: is_condition_true(crd, "Terminating"),
        unresolvable: has_unreadable_bundle(crd),
        established: is_condition_true(crd, "Established"),
        built_in: false,
        creates_on_update: false,
        updates_unconditionally: false,
        subresources: subresources(version, &kind),
        reset_field_filters: reset_field_filters(status),
        backing: Backing::Stored(collection.clone()),
        storage_version_hash,
        deprecation: deprecation(crd, version, &kind),
        removed_release: Str::default(),
        strategy: Arc::new(strategy),
        declarative: None,
        versions: Some(crd_versions.clone()),
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
        let paths = ScalePaths::from_crd(
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
    let resets = [("", &["status"][..]), ("status", &["metadata", "spec"])];
    resets.into_iter().filter_map(|(name, paths)| Some((name.into(), reset_field_filter(paths)?))).collect()
}

/// The warning of a deprecated version. The default warning names the preferred version among the later versions that
/// are served and not deprecated (upstream: `defaultDeprecationWarning`).
fn deprecation(crd: &Value, version: &Value, kind: &GroupVersionKind) -> Option<Str> {
    if !version.bool_at(&["deprecated"]) {
        return None;
    }
    if let Some(warning) = version.at(&["deprecationWarning"]).and_then(Value::as_str) {
        return Some(warning.into());
    }
    let GroupVersionKind { group, version: name, .. } = kind;
    let kind = crd.str_at(&["spec", "names", "kind"]);
    let versions = crd.items_at(&["spec", "versions"]).iter();
    let current = versions.filter(|other| other.bool_at(&["served"]) && !other.bool_at(&["deprecated"]));
    let later = current.map(|other| other.str_at(&["name"])).filter(|other| version_order(other, name).is_lt());
    let replacement = later.min_by(|a, b| version_order(a, b));
    let replacement = replacement.map(|other| format!("; use {group}/{other} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{replacement}").into())
}
