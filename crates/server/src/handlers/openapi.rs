//! Serves OpenAPI documents: v3 as an index with one hashed, cacheable document per group and version, v2 as one
//! document in JSON or Protobuf. The crate `pintle_openapi` builds their contents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_MODIFIED_SINCE, LOCATION, VARY};
use http::{HeaderMap, Method, StatusCode};
use pintle_catalog::Catalog;
use pintle_codec::json::{self, DecodeOptions};
use pintle_openapi::{RemoteSpec, Spec, merge_v2};
use pintle_registry::Registry;
use pintle_value::time::Time;
use pintle_value::{Object, Value, object};

use super::documents::{Document, DocumentDependency, Documents, hash};
use crate::cluster::{ApiService, Cluster, RemoteOpenApi, RemoteV2, RemoteV3};
use crate::context::RequestContext;
use crate::http::{Body, Response, serve_content, set_header};
use crate::represent::compress_from;
use crate::request::log_limit::Shortened;
use crate::request::negotiate::accepted_types;

/// The subtypes of the Protobuf encoding of v2: the current name and the old name.
const V2_PROTOBUF: [&str; 2] =
    ["com.github.proto-openapi.spec.v2@v1.0+protobuf", "com.github.proto-openapi.spec.v2.v1.0+protobuf"];
/// The content type of the Protobuf encoding of v2.
const V2_PROTOBUF_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Responses with v2 that are smaller, in bytes, are not compressed (upstream: the default of `gziphandler`).
const V2_GZIP_THRESHOLD: usize = 1400;

/// The APIService of the API server that serves the document at this path.
pub(crate) fn remote_document(cluster: &Cluster, path: &str) -> Option<Arc<ApiService>> {
    let path = path.strip_prefix("/openapi/v3/")?;
    match remote_v3(cluster, &cluster.remote_openapi(), path)? {
        RemoteV3::Served { service, .. } => cluster.api_services()?.get_by_name(&service),
        RemoteV3::Converted(_) => None,
    }
}

/// The v3 document at a path, if it is of another API server. A document of this server counts, unless its version is
/// of the other.
fn remote_v3(cluster: &Cluster, remote: &RemoteOpenApi, path: &str) -> Option<RemoteV3> {
    let found = remote.v3.get(path)?;
    let is_hidden = || cluster.remote_api_service(&format!("/{path}")).is_some();
    let is_local = pintle_openapi::has_v3_document(&cluster.published_registry(), path);
    (!is_local || is_hidden()).then(|| found.clone())
}

/// Responds if the path is a path of OpenAPI.
pub(crate) fn respond(request: &RequestContext, documents: &Documents) -> Option<Response> {
    match request.info.path.as_str() {
        "/openapi/v2" => Some(v2(request, documents)),
        "/openapi/v3" => Some(index(request, documents)),
        path => path.strip_prefix("/openapi/v3/").map(|path| document(request, documents, path)),
    }
}

/// A response without a body.
fn empty(code: StatusCode, headers: HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    (*response.status_mut(), *response.headers_mut()) = (code, headers);
    response
}

/// Serves a document with these response headers.
fn serve(request: &RequestContext, headers: HeaderMap, document: &Document) -> Response {
    serve_content(&request.method, &request.headers, headers, &document.bytes, document.modified)
}

/// Responds with the v2 document.
fn v2(request: &RequestContext, documents: &Documents) -> Response {
    let registry = request.cluster.published_registry();
    let (catalog, remote) = (&request.cluster.served.catalog, request.cluster.remote_openapi());
    let dependency = DocumentDependency::Merged(registry.clone(), remote.clone());
    let mut headers = HeaderMap::new();
    // As in upstream, the response varies by encoding even if it is not compressed.
    for header in ["Accept-Encoding", "Accept"] {
        headers.append(VARY, HeaderValue::from_static(header));
    }
    let is_protobuf = accepted_types(&request.headers).into_iter().find_map(|accepted| match accepted {
        ("application" | "*", "json" | "*") => Some(false),
        ("application" | "*", subtype) if V2_PROTOBUF.contains(&subtype) => Some(true),
        _ => None,
    });
    let (document, content_type) = match is_protobuf {
        None => return empty(StatusCode::NOT_ACCEPTABLE, headers),
        Some(true) => {
            let make = || {
                Document::new(match merged_v2(&registry, catalog, &remote) {
                    Some(merged) => pintle_openapi::protobuf_of_v2(&merged),
                    None => pintle_openapi::v2_protobuf(&registry, catalog),
                })
            };
            (documents.get(&dependency, "openapi/v2.pb", make), V2_PROTOBUF_TYPE)
        }
        Some(false) => {
            let make = || {
                Document::new(match merged_v2(&registry, catalog, &remote) {
                    Some(merged) => pintle_codec::json::encode(&merged),
                    None => pintle_openapi::v2(&registry, catalog),
                })
            };
            (documents.get(&dependency, "openapi/v2", make), "application/json")
        }
    };
    set_header(&mut headers, CONTENT_TYPE, content_type);
    set_header(&mut headers, ETAG, &document.etag());
    let response = serve(request, headers, &document);
    // A response to HEAD has no body to compress.
    if request.method == Method::HEAD { response } else { compress_from(V2_GZIP_THRESHOLD, request, response) }
}

/// The v2 document of this server and of other API servers; `None` if there are no others. A document that cannot be
/// merged is left out.
fn merged_v2(registry: &Registry, catalog: &Catalog, remote: &RemoteOpenApi) -> Option<Value> {
    if remote.v2.is_empty() {
        return None;
    }
    let decode = |text: &[u8]| json::decode(text, DecodeOptions::default()).map(|decoded| decoded.value);
    let own = pintle_openapi::v2_document(registry, catalog);
    // The APIServices of an API server share its document.
    let mut last: Option<(*const u8, Spec)> = None;
    let mut spec_of = |RemoteV2 { service, document }: &RemoteV2| -> Result<RemoteSpec, String> {
        let spec = match &last {
            Some((decoded, spec)) if *decoded == document.as_ptr() => spec.clone(),
            _ => {
                let spec = Spec::decode(decode(document).map_err(|error| error.to_string())?);
                spec.map_err(|error| error.to_string())?
            }
        };
        last = Some((document.as_ptr(), spec.clone()));
        Ok(RemoteSpec::new(service.name.as_str(), &service.version.group, &service.version.version, spec))
    };
    let specs = remote.v2.iter().filter_map(|document| {
        let spec = spec_of(document);
        if let Err(error) = &spec {
            let error = Shortened(error);
            tracing::warn!(name = %document.service.name, %error, "Failed to read the OpenAPI document of an API server");
        }
        spec.ok()
    });
    let (merged, errors) = merge_v2(own, &specs.collect::<Vec<_>>());
    for error in errors {
        let error = error.to_string();
        tracing::warn!(error = %Shortened(&error), "Failed to merge the OpenAPI document of an API server");
    }
    Some(merged)
}

/// Responds with the index of the v3 documents. The URL of a document changes when its contents change. Upstream's
/// aggregator makes the index for each request. So the index has no ETag, has the content type that Go detects, and was
/// always modified just now. Two responses of the same second may contain different indexes, so the index is never "not
/// modified".
fn index(request: &RequestContext, documents: &Documents) -> Response {
    let registry = request.cluster.published_registry();
    let remote = request.cluster.remote_openapi();
    let dependency = DocumentDependency::Merged(registry.clone(), remote.clone());
    let index = documents.get(&dependency, "openapi/v3", || {
        let own = pintle_openapi::v3_paths(&registry).into_iter().map(|path| {
            let url = versioned_url(&path, &document_hash(request, documents, &registry, &path));
            (path, url)
        });
        let mut urls: BTreeMap<String, String> = own.collect();
        for path in remote.v3.keys() {
            let Some(found) = remote_v3(&request.cluster, &remote, path) else { continue };
            let url = match found {
                RemoteV3::Served { url, .. } => url,
                RemoteV3::Converted(text) => versioned_url(path, &hash(&text)),
            };
            urls.insert(path.clone(), url);
        }
        let entries = urls.into_iter().map(|(path, url)| (path, object! { "serverRelativeURL": url }));
        let paths: Object = entries.collect();
        Document::new(pintle_codec::json::encode(&object! { "paths": Value::Object(paths) }))
    });
    let mut headers = HeaderMap::new();
    set_header(&mut headers, CONTENT_TYPE, "text/plain; charset=utf-8");
    let now = SystemTime::now();
    let mut request_headers = request.headers.clone();
    if whole_seconds(index.modified) >= whole_seconds(now) {
        request_headers.remove(IF_MODIFIED_SINCE);
    }
    serve_content(&request.method, &request_headers, headers, &index.bytes, now)
}

/// The URL of the v3 document at a path with its hash.
fn versioned_url(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

/// The hash of the v3 document at a path. For groups of custom resources, it is computed without the document.
fn document_hash(request: &RequestContext, documents: &Documents, registry: &Arc<Registry>, path: &str) -> String {
    match pintle_openapi::v3_cache_key(registry, path) {
        Some(key) => hash(format!("{} {key}", env!("CARGO_PKG_VERSION")).as_bytes()),
        None => documents
            .hash(&dependency(registry, path), &cache_name(path), || Document::new(build(request, registry, path))),
    }
}

/// Builds the v3 document at a path.
fn build(request: &RequestContext, registry: &Registry, path: &str) -> Vec<u8> {
    pintle_openapi::v3_document(registry, &request.cluster.served.catalog, path).unwrap_or_default()
}

/// The dependency of the v3 document at a path: its group. Documents outside of groups never change.
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

/// The v3 document at a path; `None` if there is none.
fn cached_document(request: &RequestContext, documents: &Documents, path: &str) -> Option<Document> {
    let registry = request.cluster.published_registry();
    if let Some(RemoteV3::Converted(text)) = remote_v3(&request.cluster, &request.cluster.remote_openapi(), path) {
        return Some(Document::new(text.to_vec()));
    }
    if !pintle_openapi::has_v3_document(&registry, path) {
        return None;
    }
    let hash = document_hash(request, documents, &registry, path);
    let build = || Document::with_hash(hash, build(request, &registry, path));
    Some(documents.get(&dependency(&registry, path), &cache_name(path), build))
}

/// Whole seconds since 1970.
fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The same date and time in the next year, as Go's `time.RFC1123` has it.
fn expiry(now: SystemTime) -> String {
    let today = Time::from_seconds(i64::try_from(whole_seconds(now)).unwrap_or_default()).rfc3339();
    let (year, rest) = today.split_at(today.find('-').unwrap_or_default());
    let in_next_year =
        |rest: &str| Time::parse_rfc3339(&format!("{:04}{rest}", year.parse::<i64>().unwrap_or_default() + 1)).ok();
    // If the next year has no February 29, the expiry is March 1.
    let expiry = in_next_year(rest).or_else(|| in_next_year(&rest.replacen("-02-29", "-03-01", 1)));
    let expiry = expiry.and_then(|time| u64::try_from(time.seconds).ok()).unwrap_or_default();
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(expiry)).replace("GMT", "UTC")
}

/// Responds with the v3 document at a path.
fn document(request: &RequestContext, documents: &Documents, path: &str) -> Response {
    let Some(document) = cached_document(request, documents, path) else {
        return empty(StatusCode::NOT_FOUND, HeaderMap::new());
    };
    let mut headers = HeaderMap::new();
    set_header(&mut headers, VARY, "Accept");
    let is_json = |(main, sub): &(&str, &str)| matches!(*main, "application" | "*") && matches!(*sub, "json" | "*");
    if !accepted_types(&request.headers).iter().any(is_json) {
        return empty(StatusCode::NOT_ACCEPTABLE, headers);
    }
    set_header(&mut headers, CONTENT_TYPE, "application/json");
    set_header(&mut headers, ETAG, &document.etag());
    match request.query.get("hash").unwrap_or_default() {
        "" => {}
        // The response for the current hash never changes.
        hash if hash == document.hash => {
            set_header(&mut headers, CACHE_CONTROL, "public, immutable");
            set_header(&mut headers, EXPIRES, &expiry(SystemTime::now()));
        }
        // An old hash is redirected to the current hash.
        _ => {
            set_header(&mut headers, LOCATION, &versioned_url(path, &document.hash));
            return empty(StatusCode::MOVED_PERMANENTLY, headers);
        }
    }
    serve(request, headers, &document)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::expiry;

    #[test]
    fn documents_expire_after_a_year() {
        let check = |seconds: u64, expect: &str| {
            assert_eq!(expiry(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), expect);
        };
        check(1_795_365_194, "Mon, 22 Nov 2027 16:33:14 UTC");
        check(1_835_395_200, "Thu, 01 Mar 2029 00:00:00 UTC");
    }
}
