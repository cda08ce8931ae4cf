//! OpenAPI documents over HTTP: v3 as an index with a hashed, cacheable document per group and version, v2 as one
//! document in JSON or Protobuf. What is in them is made by the `openapi` crate.

use std::sync::Arc;

use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, EXPIRES, HeaderValue, VARY};
use pintle_registry::Registry;
use pintle_value::{Object, Value, object};

use crate::cluster::documents::{self, Document, DocumentDependency};
use crate::context::RequestContext;
use crate::http::{Body, Response};

/// The media types of v2's Protobuf form: the name that clients send today, and the one that they sent before.
const V2_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// Answers, if the path is one of OpenAPI.
pub(crate) fn answer(call: &RequestContext) -> Option<Response> {
    let path = call.info.path.trim_end_matches('/');
    match path {
        "/openapi/v2" => Some(v2(call)),
        "/openapi/v3" => Some(index(call)),
        _ => document(call, path.strip_prefix("/openapi/v3/")?),
    }
}

fn v2(call: &RequestContext) -> Response {
    let registry = call.cluster.registry();
    let (documents, catalog, of) =
        (&call.cluster.documents, &call.cluster.catalog, DocumentDependency::All(registry.clone()));
    let accept = call.headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect::<Vec<_>>().join(",");
    let mut wanted = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let served = |t: &str| matches!(t, "" | "*/*" | "application/*" | "application/json") || V2_PROTOBUF.contains(&t);
    if !wanted.clone().any(served) {
        let mut response = Response::new(Body::from(Vec::new()));
        *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
        return response;
    }
    let protobuf =
        wanted.by_ref().take_while(|t| !matches!(*t, "application/json" | "*/*")).any(|t| V2_PROTOBUF.contains(&t));
    let mut response = if protobuf {
        let document =
            documents.get(&of, "openapi/v2.pb", || Document::new(pintle_openapi::v2_protobuf(&registry, catalog)));
        document.respond(&call.headers, V2_PROTOBUF[1])
    } else {
        let document = documents.get(&of, "openapi/v2", || Document::new(pintle_openapi::v2(&registry, catalog)));
        document.respond(&call.headers, "application/json")
    };
    // Upstream says so of the encoding whether or not the answer has one.
    for header in ["Accept-Encoding", "Accept"] {
        response.headers_mut().append(VARY, HeaderValue::from_static(header));
    }
    crate::represent::compress(call, response)
}

/// The documents that there are, each with a URL that changes when it does.
fn index(call: &RequestContext) -> Response {
    let registry = call.cluster.registry();
    let index = call.cluster.documents.get(&DocumentDependency::All(registry.clone()), "openapi/v3", || {
        let paths: Object = pintle_openapi::v3_paths(&registry)
            .into_iter()
            .map(|path| {
                let url = format!("/openapi/v3/{path}?hash={}", hash(call, &registry, &path));
                (path, object! { "serverRelativeURL": url })
            })
            .collect();
        Document::new(pintle_codec::json::encode(&object! { "paths": Value::Object(paths) }))
    });
    index.respond(&call.headers, "application/json")
}

/// The hash of the document of a path, known without it for those of custom kinds.
fn hash(call: &RequestContext, registry: &Arc<Registry>, path: &str) -> String {
    match pintle_openapi::v3_cache_key(registry, path) {
        Some(mark) => documents::hash(format!("{} {mark}", env!("CARGO_PKG_VERSION")).as_bytes()),
        None => {
            call.cluster.documents.hash(&of(registry, path), &name(path), || Document::new(make(call, registry, path)))
        }
    }
}

fn make(call: &RequestContext, registry: &Registry, path: &str) -> Vec<u8> {
    pintle_openapi::v3_document(registry, &call.cluster.catalog, path).unwrap_or_default()
}

/// What the document of a path is made of: its group. What is outside of groups never changes.
fn of(registry: &Arc<Registry>, path: &str) -> DocumentDependency {
    let group = path.strip_prefix("apis/").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    registry
        .group(group)
        .map_or_else(|| DocumentDependency::All(registry.clone()), |group| DocumentDependency::Group(group.clone()))
}

/// The name under which the document of a path is kept.
fn name(path: &str) -> String {
    format!("openapi/v3/{path}")
}

fn made(call: &RequestContext, path: &str) -> Option<Document> {
    let registry = call.cluster.registry();
    if !pintle_openapi::has_v3_document(&registry, path) {
        return None;
    }
    let hash = hash(call, &registry, path);
    let make = || Document::with_hash(hash, make(call, &registry, path));
    Some(call.cluster.documents.get(&of(&registry, path), &name(path), make))
}

fn document(call: &RequestContext, path: &str) -> Option<Response> {
    let document = made(call, path)?;
    // A URL with the document's hash never changes its answer; one with an old hash leads to the new one.
    match call.query.get("hash") {
        Some(hash) if hash == document.hash => {
            let mut response = document.respond(&call.headers, "application/json");
            let headers = response.headers_mut();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            headers.insert(EXPIRES, HeaderValue::from_static("Tue, 19 Jan 2038 03:14:07 GMT"));
            Some(crate::represent::compress(call, response))
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
            let response = document.respond(&call.headers, "application/json");
            Some(crate::represent::compress(call, response))
        }
    }
}
