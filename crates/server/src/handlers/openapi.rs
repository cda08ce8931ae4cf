//! Serves OpenAPI documents: v3 as an index with one hashed, cacheable document per group and version, v2 as one
//! document in JSON or Protobuf. The crate `pintle_openapi` builds their contents.

use std::sync::Arc;

use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, EXPIRES, HeaderValue, VARY};
use pintle_registry::Registry;
use pintle_value::{Object, Value, object};

use crate::cluster::documents::{self, Document, DocumentDependency};
use crate::context::RequestContext;
use crate::http::{Body, Response};

/// The media types of the Protobuf encoding of v2: the current name and the old name.
const V2_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// Responds if the path is one of OpenAPI.
pub(crate) fn respond(request: &RequestContext) -> Option<Response> {
    let path = request.info.path.trim_end_matches('/');
    match path {
        "/openapi/v2" => Some(v2(request)),
        "/openapi/v3" => Some(index(request)),
        _ => document(request, path.strip_prefix("/openapi/v3/")?),
    }
}

/// Responds with the v2 document.
fn v2(request: &RequestContext) -> Response {
    let registry = request.cluster.published_registry();
    let (documents, catalog, dependency) =
        (&request.cluster.documents, &request.cluster.catalog, DocumentDependency::All(registry.clone()));
    let accept = request.headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect::<Vec<_>>().join(",");
    let mut accepted = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let is_served =
        |t: &str| matches!(t, "" | "*/*" | "application/*" | "application/json") || V2_PROTOBUF.contains(&t);
    if !accepted.clone().any(is_served) {
        let mut response = Response::new(Body::from(Vec::new()));
        *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
        return response;
    }
    let protobuf =
        accepted.by_ref().take_while(|t| !matches!(*t, "application/json" | "*/*")).any(|t| V2_PROTOBUF.contains(&t));
    let mut response = if protobuf {
        let document = documents
            .get(&dependency, "openapi/v2.pb", || Document::new(pintle_openapi::v2_protobuf(&registry, catalog)));
        document.respond(&request.headers, V2_PROTOBUF[1])
    } else {
        let document =
            documents.get(&dependency, "openapi/v2", || Document::new(pintle_openapi::v2(&registry, catalog)));
        document.respond(&request.headers, "application/json")
    };
    // As in upstream, the response varies by encoding even if it is not compressed.
    for header in ["Accept-Encoding", "Accept"] {
        response.headers_mut().append(VARY, HeaderValue::from_static(header));
    }
    crate::represent::compress(request, response)
}

/// Responds with the index of the v3 documents. The URL of a document changes when its contents change.
fn index(request: &RequestContext) -> Response {
    let registry = request.cluster.published_registry();
    let index = request.cluster.documents.get(&DocumentDependency::All(registry.clone()), "openapi/v3", || {
        let paths: Object = pintle_openapi::v3_paths(&registry)
            .into_iter()
            .map(|path| {
                let url = format!("/openapi/v3/{path}?hash={}", document_hash(request, &registry, &path));
                (path, object! { "serverRelativeURL": url })
            })
            .collect();
        Document::new(pintle_codec::json::encode(&object! { "paths": Value::Object(paths) }))
    });
    index.respond(&request.headers, "application/json")
}

/// The hash of the v3 document at a path. For groups of custom resources, it is computed without the document.
fn document_hash(request: &RequestContext, registry: &Arc<Registry>, path: &str) -> String {
    match pintle_openapi::v3_cache_key(registry, path) {
        Some(key) => documents::hash(format!("{} {key}", env!("CARGO_PKG_VERSION")).as_bytes()),
        None => request
            .cluster
            .documents
            .hash(&dependency(registry, path), &cache_name(path), || Document::new(build(request, registry, path))),
    }
}

/// Builds the v3 document at a path.
fn build(request: &RequestContext, registry: &Registry, path: &str) -> Vec<u8> {
    pintle_openapi::v3_document(registry, &request.cluster.catalog, path).unwrap_or_default()
}

/// What the v3 document at a path depends on: its group. Documents outside of groups never change.
fn dependency(registry: &Arc<Registry>, path: &str) -> DocumentDependency {
    let group = path.strip_prefix("apis/").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    registry
        .group(group)
        .map_or_else(|| DocumentDependency::All(registry.clone()), |group| DocumentDependency::Group(group.clone()))
}

/// The name of the v3 document at a path in the document cache.
fn cache_name(path: &str) -> String {
    format!("openapi/v3/{path}")
}

/// The v3 document at a path, `None` if there is none.
fn cached_document(request: &RequestContext, path: &str) -> Option<Document> {
    let registry = request.cluster.published_registry();
    if !pintle_openapi::has_v3_document(&registry, path) {
        return None;
    }
    let hash = document_hash(request, &registry, path);
    let build = || Document::with_hash(hash, build(request, &registry, path));
    Some(request.cluster.documents.get(&dependency(&registry, path), &cache_name(path), build))
}

/// Responds with the v3 document at a path.
fn document(request: &RequestContext, path: &str) -> Option<Response> {
    let document = cached_document(request, path)?;
    // The response for the current hash never changes. An old hash is redirected to the current one.
    match request.query.get("hash") {
        Some(hash) if hash == document.hash => {
            let mut response = document.respond(&request.headers, "application/json");
            let headers = response.headers_mut();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            headers.insert(EXPIRES, HeaderValue::from_static("Tue, 19 Jan 2038 03:14:07 GMT"));
            Some(crate::represent::compress(request, response))
        }
        Some(_) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = http::StatusCode::MOVED_PERMANENTLY;
            let location = format!("/openapi/v3/{path}?hash={}", document.hash);
            if let Ok(location) = HeaderValue::from_str(&location) {
                response.headers_mut().insert(http::header::LOCATION, location);
            }
            Some(response)
        }
        None => {
            let response = document.respond(&request.headers, "application/json");
            Some(crate::represent::compress(request, response))
        }
    }
}
