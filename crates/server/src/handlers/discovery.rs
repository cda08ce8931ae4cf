//! Discovery of groups, versions and resources, as single documents and aggregated (KEP-3352).

use std::sync::Arc;

use http::header::{ACCEPT, CACHE_CONTROL, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use pintle_extensions::version_order;
use pintle_gates::{Change, Feature};
use pintle_kinds::{ApiServicePriorities, api_services_resource};
use pintle_registry::{
    ApiError, Group, GroupVersion, GroupVersionKind, Registry, Resource, Scope, Subresource, Verb, Verbs,
};
use pintle_value::{Object, Str, Value, object};

use super::documents::{Document, DocumentDependency, Documents};
use super::{health, openid, zpages};
use crate::cluster::{Cluster, RemoteDiscovery};
use crate::context::RequestContext;
use crate::http::{Response, joined_headers};
use crate::objects::model;
use crate::represent;
use crate::request::negotiate::{Encoding, EndpointRestrictions};

/// Responds if the path is a path of discovery.
///
/// # Errors
/// Returns an error if the client accepts no supported encoding.
pub(crate) fn respond(request: &RequestContext, documents: &Documents) -> Result<Option<Response>, ApiError> {
    let path = request.info.path.trim_end_matches('/').to_owned();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let registry = request.cluster.published_registry();
    let cluster = &request.cluster;
    let has_cbor = cluster.settings.cbor && cluster.gates().has(Change::DISCOVERY_IN_CBOR);
    if let (["api" | "apis"], Some(encoding)) = (parts.as_slice(), aggregated_encoding(&request.headers, has_cbor)) {
        return Ok(Some(respond_aggregated(request, documents, &registry, parts[0] == "api", encoding)));
    }
    let (kind, value) = match parts.as_slice() {
        ["api"] => ("APIVersions", core_versions(request)),
        ["apis"] => ("APIGroupList", group_list(&request.cluster, &registry)),
        ["apis", group] => match group_versions(&request.cluster, &registry, group).and_then(|v| group_document(&v)) {
            Some(mut group) => {
                group.set("kind", "APIGroup");
                group.set("apiVersion", "v1");
                ("APIGroup", group)
            }
            None => return Ok(None),
        },
        ["api", version] if registry.serves("", version) => {
            ("APIResourceList", resource_list(request, &registry, &GroupVersion::new("", *version)))
        }
        ["apis", group, version] if !group.is_empty() && registry.serves(group, version) => {
            ("APIResourceList", resource_list(request, &registry, &GroupVersion::new(*group, *version)))
        }
        ["" | "index.html"] => {
            let index = object! { "paths": indexed_paths(&request.cluster) };
            return Ok(Some(represent::json_response(StatusCode::OK, &index)));
        }
        _ => return Ok(None),
    };
    // Before the change, upstream serves discovery in CBOR only for versions of built-in kinds whose objects are served in
    // CBOR. Versions of custom resources have no such documents afterwards either.
    let built_in = |group: &str| registry.group(group).is_some_and(|group| group.has_built_in());
    let endpoint = match parts.as_slice() {
        ["api", _] => request.endpoint(),
        ["apis", group, _] if built_in(group) => request.endpoint(),
        // Upstream's aggregation layer is in front of the router.
        ["apis"] | ["apis", _] if request.cluster.api_services().is_some() => {
            EndpointRestrictions { has_router: false, has_cbor, ..EndpointRestrictions::PLAIN }
        }
        ["api" | "apis"] | ["apis", _] => EndpointRestrictions { has_cbor, ..EndpointRestrictions::PLAIN },
        _ => EndpointRestrictions::PLAIN,
    };
    represent::respond_meta(request, &format!("meta/v1.{kind}"), value, endpoint).map(Some)
}

/// The paths that the document of `/` lists.
pub(crate) fn indexed_paths(cluster: &Cluster) -> Vec<String> {
    let registry = cluster.published_registry();
    let mut paths: Vec<String> = ["/api", "/api/v1", "/apis", "/apis/"].map(str::to_owned).to_vec();
    for group in registry.groups().filter(|group| !group.name().is_empty()) {
        paths.push(format!("/apis/{}", group.name()));
        paths.extend(group.versions().map(|version| format!("/apis/{version}")));
    }
    paths.extend(
        ["/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"].map(str::to_owned),
    );
    if cluster.settings.service_accounts.metadata.is_some() {
        paths.extend(openid::PATHS.map(str::to_owned));
    }
    paths.extend(zpages::paths(cluster).map(str::to_owned));
    paths.extend(health::paths(cluster));
    paths.sort();
    paths
}

/// The `APIVersions` of the core group.
fn core_versions(request: &RequestContext) -> Value {
    let host = request.headers.get(http::header::HOST).and_then(|v| v.to_str().ok()).unwrap_or_default();
    object! {
        "kind": "APIVersions",
        "versions": vec!["v1"],
        "serverAddressByClientCIDRs": vec![object! { "clientCIDR": "0.0.0.0/0", "serverAddress": host }],
    }
}

/// The `APIGroupList`. The group of APIServices comes first, because it has no APIService of its own. The other groups
/// follow in the order of their APIServices.
fn group_list(cluster: &Cluster, registry: &Registry) -> Value {
    let groups = match cluster.api_service_versions() {
        Some(versions) => {
            let own = registry.group(&api_services_resource().group).map(|group| group.versions().cloned().collect());
            own.into_iter().chain(versions.into_iter().filter(|group| !is_core(group))).collect()
        }
        None => published_groups(registry),
    };
    let groups: Vec<Value> = groups.iter().filter_map(|versions| group_document(versions)).collect();
    object! { "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }
}

/// True for the versions of the core group.
fn is_core(versions: &[GroupVersion]) -> bool {
    versions.first().is_some_and(|version| version.group.is_empty())
}

/// The versions of a group other than the core group, in the order of its APIServices if it has any.
fn group_versions(cluster: &Cluster, registry: &Registry, name: &str) -> Option<Vec<GroupVersion>> {
    let found = cluster.api_service_versions_of(name);
    let published = || registry.group(name).map(|group| group.versions().cloned().collect());
    found.or_else(published).filter(|_| !name.is_empty())
}

/// The versions of all groups except the core group, in the order that their APIServices would have.
fn published_groups(registry: &Registry) -> Vec<Vec<GroupVersion>> {
    let mut groups: Vec<&Arc<Group>> = registry.groups().filter(|group| !group.name().is_empty()).collect();
    // Upstream sorts groups of equal priority by the names of their APIServices (`version.group`).
    let first_api_service =
        |group: &&Arc<Group>| group.versions().map(|version| format!("{}.{}", version.version, version.group)).min();
    let built_in = groups.partition_point(|group| group.has_built_in());
    groups[built_in..].sort_by_cached_key(first_api_service);
    groups.into_iter().map(|group| group.versions().cloned().collect()).collect()
}

/// An `APIGroup` without kind and apiVersion. `None` if the group has no versions.
fn group_document(versions: &[GroupVersion]) -> Option<Value> {
    let name = versions.first()?.group.clone();
    let version = |v: &GroupVersion| object! { "groupVersion": v.to_string(), "version": v.version.as_str() };
    let versions: Vec<Value> = versions.iter().map(version).collect();
    let preferred = versions.first()?.clone();
    Some(object! { "name": name, "versions": versions, "preferredVersion": preferred })
}

fn verb_names(verbs: Verbs) -> Vec<&'static str> {
    verbs.iter().map(Verb::name).collect()
}

/// The `APIResourceList` of a group and version.
fn resource_list(request: &RequestContext, registry: &Registry, version: &GroupVersion) -> Value {
    let shows_hashes = request.cluster.settings.gates.is_enabled(Feature::STORAGE_VERSION_HASH);
    let mut sorted: Vec<&Arc<Resource>> = registry.resources_of(version).collect();
    sorted.sort_by(|a, b| a.plural.cmp(&b.plural));
    let mut resources: Vec<Value> = Vec::new();
    for resource in sorted {
        resources.push(resource_entry(resource, shows_hashes));
        for subresource in model(resource).discovery_subresources(resource) {
            let name = format!("{}/{}", resource.plural, subresource.name);
            resources.push(subresource_entry(resource, subresource, &name));
        }
    }
    let mut list = object! {
        "kind": "APIResourceList",
        "groupVersion": version.to_string(),
        "resources": resources,
    };
    if !version.group.is_empty() {
        list.set("apiVersion", "v1");
    }
    list
}

/// An `APIResource`.
fn resource_entry(resource: &Resource, shows_hashes: bool) -> Value {
    let mut entry = object! {
        "name": resource.plural.as_str(),
        "singularName": resource.singular.as_str(),
        "namespaced": resource.scope == Scope::Namespaced,
        "kind": resource.kind.as_str(),
        "verbs": model(resource).discovery_verbs(resource),
    };
    set_names(&mut entry, resource);
    if shows_hashes && !resource.storage_version_hash.is_empty() {
        entry.set("storageVersionHash", resource.storage_version_hash.as_str());
    }
    entry
}

/// Sets the short names and categories, if there are any.
fn set_names(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry.set("shortNames", resource.short_names.clone());
    }
    if !resource.categories.is_empty() {
        entry.set("categories", resource.categories.clone());
    }
}

/// The `APIResource` of a subresource.
fn subresource_entry(resource: &Resource, subresource: &Subresource, name: &str) -> Value {
    let mut entry = object! {
        "name": name,
        "singularName": "",
        "namespaced": resource.scope == Scope::Namespaced,
        "kind": subresource.kind.kind.as_str(),
        "verbs": verb_names(subresource.verbs),
    };
    if subresource.kind.group != resource.group || subresource.kind.version != resource.version {
        if !subresource.kind.group.is_empty() {
            entry.set("group", subresource.kind.group.as_str());
        }
        entry.set("version", subresource.kind.version.as_str());
    }
    entry
}

/// The encoding of aggregated discovery, if the client prefers it over the other documents.
fn aggregated_encoding(headers: &HeaderMap, has_cbor: bool) -> Option<Encoding> {
    let accept = joined_headers(headers, &ACCEPT);
    for clause in accept.split(',') {
        let mut parameters = clause.split(';').map(str::trim);
        let encoding = match parameters.next() {
            Some("application/json") => Encoding::Json,
            Some("application/cbor") if has_cbor => Encoding::Cbor,
            _ => continue,
        };
        let parameters: Vec<&str> = parameters.collect();
        if ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"].iter().all(|it| parameters.contains(it)) {
            return Some(encoding);
        }
        if parameters.iter().all(|p| p.starts_with("q=")) {
            return None;
        }
    }
    None
}

/// Responds with aggregated discovery.
fn respond_aggregated(
    request: &RequestContext,
    documents: &Documents,
    registry: &Arc<Registry>,
    core: bool,
    encoding: Encoding,
) -> Response {
    const TYPE: &str = "apidiscovery/v2.APIGroupDiscoveryList";
    let name = format!("discovery/{core}");
    let remote = request.cluster.remote_discovery();
    let dependency = DocumentDependency::Merged(registry.clone(), remote.clone());
    let list = || {
        let groups = discovered_groups(&request.cluster, registry, &remote).into_iter();
        let groups = groups.filter(|group| group.name.is_empty() == core);
        let items: Vec<Value> = groups.map(DiscoveredGroup::document).collect();
        object! {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": Value::object(),
            "items": items,
        }
    };
    let document =
        documents.get(&dependency, &name, || Document::new(represent::typed_json(&request.cluster, TYPE, &list())));
    let mut response = if encoding == Encoding::Cbor {
        // All encodings have the ETag of the JSON.
        let in_cbor = documents.get(&dependency, &format!("{name}/cbor"), || {
            let bytes = represent::typed(&request.cluster, TYPE, &list(), encoding);
            Document::with_hash(document.hash.clone(), bytes)
        });
        in_cbor.respond(&request.headers, "application/cbor;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    } else {
        document.respond(&request.headers, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    };
    if let Some(audit) = request.audit.as_ref().filter(|_| response.status() == StatusCode::OK) {
        audit.set_response_object(document.json());
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// A group of aggregated discovery, with versions of this server and of other API servers.
struct DiscoveredGroup {
    name: Str,
    /// The highest priority of the group.
    priority: i64,
    versions: Vec<DiscoveredVersion>,
}

/// A version of a group, and its priority among them.
struct DiscoveredVersion {
    name: Str,
    priority: i64,
    /// The `APIVersionDiscovery`.
    document: Value,
}

impl DiscoveredGroup {
    /// The `APIGroupDiscovery`.
    fn document(self) -> Value {
        let metadata = match self.name.as_str() {
            "" => Value::object(),
            name => object! { "name": name },
        };
        let versions: Vec<Value> = self.versions.into_iter().map(|version| version.document).collect();
        object! { "metadata": metadata, "versions": versions }
    }
}

/// The groups of aggregated discovery in their order. A version of another API server hides the same version of this
/// server.
fn discovered_groups(cluster: &Cluster, registry: &Registry, remote: &RemoteDiscovery) -> Vec<DiscoveredGroup> {
    let priorities = ApiServicePriorities::new(&cluster.served.catalog);
    let mut groups: Vec<DiscoveredGroup> = Vec::new();
    for group in registry.groups() {
        let of_server = group.versions().filter(|version| !remote.versions.contains_key(version));
        let versions: Vec<DiscoveredVersion> = of_server
            .map(|version| DiscoveredVersion {
                name: version.version.clone(),
                priority: priorities.of(version).1,
                document: version_discovery(registry, version),
            })
            .collect();
        let priority = group.versions().map(|version| priorities.of(version).0).max().unwrap_or_default();
        groups.push(DiscoveredGroup { name: group.name().clone(), priority, versions });
    }
    if remote.versions.is_empty() {
        return groups;
    }
    for (version, found) in &remote.versions {
        let index = groups.iter().position(|group| group.name == version.group).unwrap_or_else(|| {
            groups.push(DiscoveredGroup { name: version.group.clone(), priority: 0, versions: Vec::new() });
            groups.len() - 1
        });
        let group = &mut groups[index];
        group.priority = group.priority.max(found.group_priority);
        let freshness = if found.is_current { "Current" } else { "Stale" };
        let mut document = object! { "version": version.version.as_str() };
        if found.resources.as_array().is_some_and(|resources| !resources.is_empty()) {
            document.set("resources", found.resources.clone());
        }
        document.set("freshness", freshness);
        group.versions.push(DiscoveredVersion {
            name: version.version.clone(),
            priority: found.version_priority,
            document,
        });
    }
    for group in &mut groups {
        group.versions.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| version_order(&a.name, &b.name)));
    }
    groups.retain(|group| !group.versions.is_empty());
    groups.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
    groups
}

/// The `APIVersionDiscovery` of a version that this server serves.
fn version_discovery(registry: &Registry, version: &GroupVersion) -> Value {
    let mut resources: Vec<&Arc<Resource>> = registry.resources_of(version).collect();
    resources.sort_by(|a, b| a.plural.cmp(&b.plural));
    let resources: Vec<Value> = resources.into_iter().map(|r| resource_discovery(r)).collect();
    object! { "version": version.version.as_str(), "resources": resources, "freshness": "Current" }
}

/// A group, version and kind as an object.
fn response_kind(kind: &GroupVersionKind) -> Value {
    let mut object = Object::new();
    object.insert("group", kind.group.as_str());
    object.insert("version", kind.version.as_str());
    object.insert("kind", kind.kind.as_str());
    Value::Object(object)
}

/// An `APIResourceDiscovery`.
fn resource_discovery(resource: &Resource) -> Value {
    let mut entry = object! {
        "resource": resource.plural.as_str(),
        "responseKind": response_kind(&resource.gvk()),
        "scope": if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular.as_str(),
        "verbs": model(resource).discovery_verbs(resource),
    };
    set_names(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let subresources: Vec<Value> = model(resource)
            .discovery_subresources(resource)
            .into_iter()
            .map(|s| {
                object! {
                    "subresource": s.name.as_str(),
                    "responseKind": response_kind(&s.kind),
                    "verbs": verb_names(s.verbs),
                }
            })
            .collect();
        entry.set("subresources", subresources);
    }
    entry
}
