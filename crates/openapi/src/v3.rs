//! Builds the OpenAPI 3.0 documents, one for each path of the index (KEP-2896), like upstream's `builder3`.

use std::sync::Arc;

use pintle_catalog::{Catalog, descriptions};
use pintle_registry::{GroupVersion, Registry, Resource};
use pintle_value::{Object, Str, Value, object};

use crate::kinds::{DocumentScope, KindsOfTypes};
use crate::operation::{PathItem, Route, by_path, response_description};
use crate::parameters::{Parameter, ParameterLocation};
use crate::routes::{RouteBuilder, documented_groups};
use crate::schemas::{Definitions, Dialect};
use crate::{info, kind_value};

/// The paths of the documents of the service account token issuer.
const ISSUER_PATHS: [&str; 2] = [".well-known/openid-configuration", "openid/v1/jwks"];

/// Returns the sorted paths of the documents, as the index at `/openapi/v3` lists them:
/// `.well-known/openid-configuration`, `api`, `api/v1`, `apis`, `apis/apps`, `apis/apps/v1`, ..., `version`.
#[must_use]
pub fn v3_paths(registry: &Registry) -> Vec<String> {
    let mut paths: Vec<String> =
        ["api", "apis", "version"].into_iter().chain(ISSUER_PATHS).map(str::to_owned).collect();
    for version in registry.versions() {
        if version.group.is_empty() {
            paths.push(format!("api/{}", version.version));
        } else {
            paths.push(format!("apis/{version}"));
        }
    }
    paths.extend(documented_groups(registry).map(|group| format!("apis/{group}")));
    paths.sort_unstable();
    paths
}

/// The title and the version of the documents of custom resources.
const CUSTOM_TITLE: &str = "Kubernetes CRD Swagger";
const CUSTOM_VERSION: &str = "v0.1.0";

/// Returns true if a group and version has only custom resources.
fn is_custom(registry: &Registry, version: &GroupVersion) -> bool {
    !registry.has_routes(&version.group, &version.version)
}

/// Returns true if there is a document at a path.
#[must_use]
pub fn has_v3_document(registry: &Registry, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        _ if ISSUER_PATHS.contains(&path) => true,
        ["api" | "apis" | "version"] => true,
        ["api", version] => registry.serves("", version),
        ["apis", group] => !group.is_empty() && registry.group(group).is_some_and(|group| group.has_built_in()),
        ["apis", group, version] => !group.is_empty() && registry.serves(group, version),
        _ => false,
    }
}

/// Returns a key that changes whenever the document at a path changes, without building the document. There may be many
/// documents of custom resources, but clients read few of them. Returns `None` for documents of built-in kinds, which
/// never change.
#[must_use]
pub fn v3_cache_key(registry: &Registry, path: &str) -> Option<String> {
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    let version = GroupVersion::new(group, version);
    if !is_custom(registry, &version) {
        return None;
    }
    let key_of = |resource: &Arc<Resource>| {
        let Resource { plural, kind, list_kind, .. } = &**resource;
        let crd = resource.crd.as_ref().map_or("", |crd| crd.fingerprint());
        format!("{plural} {kind} {list_kind} {crd}\n")
    };
    let keys: String = registry.resources_of(&version).map(key_of).collect();
    Some(format!("{version}\n{keys}"))
}

/// Returns the document at a path of the index as JSON, or `None` if there is no such document.
#[must_use]
pub fn v3_document(registry: &Registry, catalog: &Catalog, path: &str) -> Option<Vec<u8>> {
    let texts = descriptions(catalog.minor());
    let shared = RouteBuilder::new(catalog, &texts);
    let parts: Vec<&str> = path.split('/').collect();
    let (routes, group_version) = match parts.as_slice() {
        ["api"] => (vec![shared.legacy_root()], None),
        ["apis"] => (vec![shared.root()], None),
        ["version"] => (vec![shared.version()], None),
        _ if ISSUER_PATHS.contains(&path) => {
            let documents = shared.issuer_documents().into_iter();
            (documents.filter(|(known, _)| *known == path).map(|(_, route)| route).collect(), None)
        }
        ["apis", group] if documented_groups(registry).any(|known| known == *group) => {
            (vec![shared.group(group)], None)
        }
        ["api", version] if registry.serves("", version) => {
            let version = GroupVersion::new("", *version);
            (shared.of_version(registry, &version), Some(version))
        }
        ["apis", group, version] if !group.is_empty() && registry.serves(group, version) => {
            let version = GroupVersion::new(*group, *version);
            (shared.of_version(registry, &version), Some(version))
        }
        _ => return None,
    };
    let scope = match &group_version {
        None => DocumentScope::All,
        Some(version) if is_custom(registry, version) => DocumentScope::Custom,
        Some(version) => DocumentScope::Version(version),
    };
    let mut schemas = Definitions::new(Dialect::V3, catalog, &texts, KindsOfTypes::new(catalog, scope));
    let paths = paths(&routes, &mut schemas);
    let mut components = object! { "schemas": schemas.finish() };
    let info = match scope {
        DocumentScope::Custom => object! { "title": CUSTOM_TITLE, "version": CUSTOM_VERSION },
        DocumentScope::All | DocumentScope::Version(_) => {
            components.set("securitySchemes", crate::security());
            info(catalog)
        }
    };
    let document = object! { "openapi": "3.0.0", "info": info, "paths": paths, "components": components };
    Some(crate::json(&document))
}

/// Returns the document of one group and version as JSON. If none of its resources is served, it has no operations.
#[must_use]
pub fn v3(registry: &Registry, catalog: &Catalog, version: &GroupVersion) -> Vec<u8> {
    let path = if version.group.is_empty() { format!("api/{version}") } else { format!("apis/{version}") };
    v3_document(registry, catalog, &path).unwrap_or_else(|| {
        let info = info(catalog);
        crate::json(&object! { "openapi": "3.0.0", "info": info, "paths": Value::object() })
    })
}

fn paths(routes: &[Route], schemas: &mut Definitions<'_>) -> Object {
    by_path(routes).iter().map(|item| (item.path, path_item(item, schemas))).collect()
}

fn path_item(item: &PathItem<'_>, schemas: &mut Definitions<'_>) -> Value {
    let mut result = Value::object();
    if !item.shared.is_empty() {
        result.set("parameters", item.shared.iter().copied().map(parameter).collect::<Vec<_>>());
    }
    for route in &item.routes {
        result.set(route.method, operation(item, route, schemas));
    }
    result
}

fn operation<'a>(item: &PathItem<'a>, route: &'a Route, schemas: &mut Definitions<'_>) -> Value {
    let own = item.own(route);
    let mut responses: Vec<(Str, Value)> = Vec::new();
    for (code, model) in &route.responses {
        let schema = schemas.model(model);
        let response =
            object! { "content": content(route.produces, &schema), "description": response_description(*code) };
        responses.push((code.to_string().into(), response));
    }
    responses.push(("401".into(), object! { "description": response_description(401) }));
    let mut result = object! {
        "description": &route.description,
        "operationId": &route.id,
        "tags": vec![route.tag.as_str()],
        "responses": Object::from_entries(responses),
    };
    if !own.is_empty() {
        result.set("parameters", own.into_iter().map(parameter).collect::<Vec<_>>());
    }
    if let Some(body) = &route.body {
        let schema = schemas.model(&body.model);
        let mut request = object! { "content": content(route.consumes, &schema) };
        if body.required {
            request.set("required", true);
        }
        result.set("requestBody", request);
    }
    if let Some(action) = route.action {
        result.set("x-kubernetes-action", action);
    }
    if let Some(kind) = &route.kind {
        result.set("x-kubernetes-group-version-kind", kind_value(kind));
    }
    result
}

fn content(media_types: &[&'static str], schema: &Value) -> Object {
    media_types.iter().map(|media_type| (*media_type, object! { "schema": schema.clone() })).collect()
}

fn parameter(parameter: &Parameter) -> Value {
    let mut result = object! {
        "name": parameter.name.as_ref(),
        "in": parameter.location.name(),
        "schema": object! { "type": parameter.ty, "uniqueItems": true },
    };
    if !parameter.description.is_empty() {
        result.set("description", &parameter.description);
    }
    if parameter.location == ParameterLocation::Path {
        result.set("required", true);
    }
    result
}
