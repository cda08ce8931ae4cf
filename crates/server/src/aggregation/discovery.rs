//! Follows the discovery documents of the API servers of APIServices (upstream: kube-aggregator's
//! `pkg/apiserver/handler_discovery.go`).

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use http::header::{CONTENT_TYPE, ETAG, HeaderValue};
use http::{HeaderMap, StatusCode};
use pintle_codec::json::{self, DecodeOptions};
use pintle_gates::Change;
use pintle_outbound::CallLimits;
use pintle_registry::GroupVersion;
use pintle_schema::{Problems, normalise};
use pintle_value::{Value, object};

use super::call::{Call, aggregator, available_remote, call, version_path};
use super::controllers::resources_of;
use super::follow::{ApiServer, Followed};
use crate::cluster::{ApiService, Cluster, RemoteApi, RemoteDiscovery, RemoteVersion};
use crate::http::header_text;

/// The name of the background task that follows discovery documents.
pub(crate) const REMOTE_DISCOVERY_TASK: &str = "apiservice-discovery-controller";
/// The limits of a call.
const LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(5), max_body_bytes: 16 << 20 };
/// Maximum number of resources of an API server. Controllers make a request for each.
const MAX_RESOURCES: usize = 1000;
/// The forms of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
/// The only form since [`Change::ONLY_DISCOVERY_V2`].
const AGGREGATED_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The resources of the versions in a discovery document.
type Discovered = BTreeMap<GroupVersion, Value>;

/// The versions of an API server.
#[derive(Clone, Debug, PartialEq)]
struct Document {
    versions: Arc<Discovered>,
    /// The versions whose own document could not be read.
    unknown: Vec<GroupVersion>,
    /// The ETag of the aggregated document; `None` for the documents of single versions.
    etag: Option<HeaderValue>,
}

/// Follows the discovery documents until the cluster is gone.
pub(crate) async fn run_discovery(cluster: Weak<Cluster>) {
    Followed { read, publish, document: PhantomData }.run(cluster).await;
}

fn publish(cluster: &Cluster, servers: &[&ApiServer<Document>]) {
    let mut versions = BTreeMap::new();
    for server in servers {
        // As in upstream, a version has no resources while its API server cannot be asked.
        let found = server.document.as_ref().filter(|_| server.is_answering);
        for service in &server.services {
            let is_current = server.is_answering
                && service.is_available
                && found.is_some_and(|document| !document.unknown.contains(&service.version));
            let found = found.filter(|_| is_current);
            let resources = found.and_then(|document| document.versions.get(&service.version)).cloned();
            let version = RemoteVersion {
                resources: resources.unwrap_or_else(|| Value::from(Vec::<Value>::new())),
                is_current,
                group_priority: service.group_priority,
                version_priority: service.version_priority,
            };
            versions.insert(service.version.clone(), version);
        }
    }
    let resources = Arc::new(resources_of(&versions));
    cluster.set_remote_discovery(RemoteDiscovery { versions, resources });
}

/// Reads the discovery document of an API server, or the documents of its versions if it has no such document.
async fn read(
    cluster: Arc<Cluster>,
    services: Vec<Arc<ApiService>>,
    before: Option<Document>,
) -> Result<Document, String> {
    let remote = available_remote(&services)?;
    let etag = before.as_ref().and_then(|document| document.etag.as_ref());
    let user = aggregator(&["system:masters"]);
    let only_v2 = cluster.gates().has(Change::ONLY_DISCOVERY_V2);
    let forms = if only_v2 { AGGREGATED_V2 } else { AGGREGATED };
    let response = call(&cluster, remote, Call { etag, ..Call::get("/apis", forms, user, LIMITS) }).await?;
    match response.status() {
        StatusCode::NOT_MODIFIED => {
            if let Some(before) = before.filter(|document| document.etag.is_some()) {
                return Ok(before);
            }
        }
        StatusCode::SERVICE_UNAVAILABLE => return Err("status 503 for /apis".to_owned()),
        StatusCode::OK if is_aggregated(response.headers(), only_v2) => {
            if response.body().truncated {
                return Err("the discovery document is too large".to_owned());
            }
            let etag = response.headers().get(ETAG).cloned();
            let versions = Arc::new(aggregated_versions(&cluster, &response.body().bytes)?);
            return Ok(Document { versions, unknown: Vec::new(), etag });
        }
        _ => {}
    }
    let documents = services.iter().map(|service| single_version(&cluster, remote, &service.version));
    let (mut versions, mut unknown) = (Discovered::new(), Vec::new());
    for (service, document) in services.iter().zip(join_all(documents).await) {
        match document {
            Ok(resources) => drop(versions.insert(service.version.clone(), resources)),
            // The last error is reported if no version can be read.
            Err(error) if unknown.len() + 1 == services.len() => return Err(error),
            Err(_) => unknown.push(service.version.clone()),
        }
    }
    Ok(Document { versions: Arc::new(versions), unknown, etag: None })
}

/// True if the content type is a form of aggregated discovery (upstream: `discovery.ContentTypeIsGVK`).
fn is_aggregated(headers: &HeaderMap, only_v2: bool) -> bool {
    let mut parts = header_text(headers, &CONTENT_TYPE).split(';').map(str::trim);
    let is_json = parts.next() == Some("application/json");
    let parameters: Vec<&str> = parts.collect();
    let has = |parameter: &str| parameters.contains(&parameter);
    let is_known = has("v=v2") || (!only_v2 && has("v=v2beta1"));
    is_json && has("g=apidiscovery.k8s.io") && has("as=APIGroupDiscoveryList") && is_known
}

/// Decodes a document of a type of the catalog.
fn decode(cluster: &Cluster, name: &str, text: &[u8]) -> Result<Value, String> {
    let mut value = json::decode(text, DecodeOptions::default()).map_err(|error| error.to_string())?.value;
    let catalog = &cluster.served.catalog;
    let type_id = catalog.struct_type(name).ok_or_else(|| format!("unknown type {name}"))?;
    let mut problems = Problems::default();
    normalise(catalog.types(), type_id, &mut value, &mut problems);
    match problems.errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

/// The resources of the versions in an aggregated document.
fn aggregated_versions(cluster: &Cluster, text: &[u8]) -> Result<Discovered, String> {
    let list = decode(cluster, "apidiscovery/v2.APIGroupDiscoveryList", text)?;
    let (mut found, mut count) = (Discovered::new(), 0);
    for group in list.items_at(&["items"]) {
        for version in group.items_at(&["versions"]) {
            let mut resources = version.items_at(&["resources"]).to_vec();
            for resource in &mut resources {
                complete_kinds(resource);
            }
            let name = GroupVersion::new(group.name(), version.str_at(&["version"]));
            count += resources.len();
            found.insert(name, Value::from(resources));
        }
    }
    check_count(count)?;
    Ok(found)
}

/// Refuses a document with too many resources.
fn check_count(count: usize) -> Result<(), String> {
    match count {
        0..=MAX_RESOURCES => Ok(()),
        _ => Err(format!("the discovery document has {count} resources, more than {MAX_RESOURCES}")),
    }
}

/// Adds empty kinds, because old clients panic without any (kubernetes/kubernetes#118361).
fn complete_kinds(resource: &mut Value) {
    let empty = || object! { "group": "", "version": "", "kind": "" };
    if resource.get("responseKind").is_none() {
        resource.set("responseKind", empty());
    }
    let mut subresources = resource.items_at(&["subresources"]).to_vec();
    if subresources.is_empty() {
        return;
    }
    for subresource in subresources.iter_mut().filter(|subresource| subresource.get("responseKind").is_none()) {
        subresource.set("responseKind", empty());
    }
    resource.set("subresources", subresources);
}

/// The resources of a version, from its own document.
async fn single_version(cluster: &Cluster, remote: &RemoteApi, version: &GroupVersion) -> Result<Value, String> {
    let path = version_path(version);
    let request = Call::get(&path, "application/json", aggregator(&[]), LIMITS);
    let response = call(cluster, remote, request).await?;
    if response.status() != StatusCode::OK || response.body().truncated {
        return Err(format!("failed to download legacy discovery for {path}: status {}", response.status().as_u16()));
    }
    let list = decode(cluster, "meta/v1.APIResourceList", &response.body().bytes)?;
    let resources = list.items_at(&["resources"]);
    check_count(resources.len())?;
    discovery_of_resources(resources)
}

/// Converts entries of an `APIResourceList` to the form of aggregated discovery (upstream:
/// `ConvertGroupVersionIntoToDiscovery`).
fn discovery_of_resources(list: &[Value]) -> Result<Value, String> {
    let scope = |entry: &Value| if entry.bool_at(&["namespaced"]) { "Namespaced" } else { "Cluster" };
    let kind_of = |entry: &Value| {
        object! {
            "group": entry.str_at(&["group"]), "version": entry.str_at(&["version"]), "kind": entry.str_at(&["kind"]),
        }
    };
    let mut resources: Vec<Value> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for entry in list.iter().filter(|entry| !entry.str_at(&["name"]).contains('/')) {
        let mut resource = object! {
            "resource": entry.str_at(&["name"]),
            "responseKind": kind_of(entry),
            "scope": scope(entry),
            "singularResource": entry.str_at(&["singularName"]),
            "verbs": entry.items_at(&["verbs"]).to_vec(),
        };
        for field in ["shortNames", "categories"] {
            let names = entry.items_at(&[field]);
            if !names.is_empty() {
                resource.set(field, names.to_vec());
            }
        }
        positions.insert(entry.str_at(&["name"]), resources.len());
        resources.push(resource);
    }
    let mut subresources: Vec<Vec<Value>> = vec![Vec::new(); resources.len()];
    for entry in list {
        let Some((parent, name)) = entry.str_at(&["name"]).split_once('/') else { continue };
        let position = *positions.entry(parent).or_insert_with(|| {
            let kind = object! { "group": "", "version": "", "kind": "" };
            // As in upstream, the verbs are `null`, because they are required but unknown.
            resources.push(object! {
                "resource": parent, "responseKind": kind, "scope": scope(entry), "singularResource": "",
                "verbs": Value::Null,
            });
            subresources.push(Vec::new());
            resources.len() - 1
        });
        let of_parent = resources[position].str_at(&["scope"]);
        if of_parent != scope(entry) {
            return Err(format!(
                "Error: Parent {parent} (scope: {of_parent}) and subresource {name} (scope: {}) scope do not match",
                scope(entry)
            ));
        }
        let kind = match entry.str_at(&["kind"]) {
            "" => object! { "group": "", "version": "", "kind": "" },
            _ => kind_of(entry),
        };
        let verbs = entry.items_at(&["verbs"]).to_vec();
        subresources[position].push(object! { "subresource": name, "responseKind": kind, "verbs": verbs });
    }
    for (resource, subresources) in resources.iter_mut().zip(subresources) {
        if !subresources.is_empty() {
            resource.set("subresources", subresources);
        }
    }
    Ok(Value::from(resources))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_that_is_not_listed_has_no_verbs() {
        let entry = object! { "name": "things/log", "namespaced": true, "kind": "Log", "verbs": vec!["get"] };
        let resources = discovery_of_resources(&[entry]).expect("resources");
        let parent = &resources.as_array().expect("a list")[0];
        assert_eq!(parent.str_at(&["resource"]), "things");
        let text = String::from_utf8(json::encode(parent)).expect("UTF-8");
        assert!(text.contains(r#""verbs":null"#), "{text}");
        assert_eq!(parent.items_at(&["subresources"])[0].str_at(&["subresource"]), "log");
    }
}
