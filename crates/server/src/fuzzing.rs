//! Entry points for fuzz targets. They cover the parsers of request heads, answers of webhooks and kubeconfigs, and the
//! objects of admission plugins. No code that serves requests uses this module.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::request::Parts;
use pintle_admission::objects::{Decoding, ObjectInterfaces};
use pintle_auth::review::ReviewVersion;
use pintle_auth::{AuthenticationError, AuthenticationResult, Authorization};
use pintle_gates::Gates;
use pintle_registry::{ApiError, BoxFuture, GroupVersionKind, Registry, Resource};
use pintle_store::ValueTransformer as _;
use pintle_value::{Str, Value};
use tokio::time::Instant;

use crate::cluster::object_index::scan_object;
use crate::conversion::StoredForm;
use crate::read::continue_token;
use crate::request::deadline::RequestDeadline;
use crate::request::info::RequestInfo;
use crate::request::negotiate::{self, EndpointRestrictions};
use crate::request::query::{DeleteOptions, ListOptions, Query, WriteOptions, WriteVerb, revision_parameter};
use crate::webhook::KubeconfigClient;
use crate::write::PluginObjects;

/// The verbs of writes, whose options differ.
const WRITES: [WriteVerb; 4] = [WriteVerb::Create, WriteVerb::Update, WriteVerb::Patch, WriteVerb::Apply];

/// The decision in an authorization webhook's answer. The version is `v1` or `v1beta1`.
///
/// # Errors
/// The answer is not a `SubjectAccessReview` of this version.
pub fn read_access_review(version: &str, answer: &[u8]) -> Result<Authorization, String> {
    crate::access::read_access_review(ReviewVersion::parse(version, "authorization webhook")?, answer)
}

/// The user of a token in the answer of an authentication webhook, for the requested audiences and the audiences of the
/// server. The version is `v1` or `v1beta1`.
///
/// # Errors
/// The answer is not a `TokenReview` of this version, or the webhook reports an error.
pub fn read_token_review(version: &str, answer: &[u8], requested: &[Str], of_server: &[Str]) -> AuthenticationResult {
    let version = ReviewVersion::parse(version, "authentication webhook").map_err(AuthenticationError)?;
    crate::access::read_token_review(version, answer, requested, of_server)
}

/// The URL of a kubeconfig's server, and the header with the user's password or the token from a file.
///
/// # Errors
/// The kubeconfig cannot be used.
pub fn read_kubeconfig(text: &[u8], folder: &Path) -> Result<(String, Option<HeaderValue>), String> {
    let client = KubeconfigClient::from_text(text, folder, pintle_outbound::Dialer::Direct)
        .map_err(|error| error.to_string())?;
    Ok((client.server().to_owned(), client.authorization()))
}

/// Converts, decodes and encodes objects for admission plugins, like a server with these resources. Custom resources
/// are not converted.
#[derive(Debug)]
pub struct RegistryObjects(pub Registry);

impl RegistryObjects {
    fn objects(&self) -> PluginObjects<'_> {
        PluginObjects { catalog: pintle_catalog::shared(), registry: &self.0 }
    }
}

impl ObjectInterfaces for RegistryObjects {
    fn convert<'a>(
        &'a self,
        _: &'a Arc<Resource>,
        object: Value,
        kind: &'a GroupVersionKind,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move { self.objects().convert(object, kind) })
    }

    fn decode(
        &self,
        resource: &Arc<Resource>,
        tree: Value,
        kind: &GroupVersionKind,
        decoding: Decoding,
    ) -> Result<Value, String> {
        self.objects().decode(resource, tree, kind, decoding)
    }

    fn set_defaults(&self, object: &mut Value, kind: &GroupVersionKind) {
        self.objects().set_defaults(object, kind);
    }

    fn encode(&self, resource: &Arc<Resource>, object: &Value, kind: &GroupVersionKind, out: &mut Vec<u8>) {
        self.objects().encode(resource, object, kind, out);
    }
}

/// The JSON that the watch cache gets from a value in etcd.
///
/// # Errors
/// The reason why the value cannot be read. Requests for the object fail with this reason.
///
/// # Panics
/// Panics if the JSON cannot be served.
pub fn read_stored(form: &StoredForm, key: &str, stored: &[u8]) -> Result<Bytes, String> {
    let read = form.transform_from_storage(key, Bytes::copy_from_slice(stored)).map_err(|error| error.detail)?.value;
    assert!(scan_object(&read).is_some(), "{}", read.escape_ascii());
    Ok(read)
}

/// Parses all the parts of a request's method, URI and headers that handlers read.
///
/// # Panics
/// Panics if a parser panics, or if the text of a parsed value does not parse again.
pub fn parse_request_head(parts: &Parts) {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::of(&parts.method, parts.uri.path(), &query);
    assert!(info.is_resource || info.resource.is_empty(), "{info:?}");
    let _ = RequestDeadline::of(&info, &query, Instant::now(), Duration::from_secs(60));
    if let Ok(options) = ListOptions::read_with(&query, true) {
        let _ = revision_parameter(&options.resource_version);
    }
    for verb in WRITES {
        let _ = WriteOptions::read(&query, verb);
    }
    let _ = DeleteOptions::from_query(&query, &Gates::default());
    if let Ok(token) = continue_token::decode(query.get("continue").unwrap_or_default()) {
        assert_eq!(continue_token::decode(&continue_token::encode(&token)), Ok(token));
    }
    let collection =
        EndpointRestrictions { allows_transform: true, is_collection: true, ..EndpointRestrictions::PLAIN };
    let watch = EndpointRestrictions { is_stream: true, ..collection };
    for has_cbor in [false, true] {
        for endpoint in [EndpointRestrictions::PLAIN, collection, watch] {
            for has_router in [false, true] {
                let endpoint = EndpointRestrictions { has_cbor, has_router, ..endpoint };
                let _ = negotiate::output(&parts.headers, &query, endpoint);
                let _ = negotiate::input(&parts.headers, endpoint);
            }
        }
    }
    let _ = negotiate::accepted_types(&parts.headers);
    let _ = negotiate::exposition_escaping(&parts.headers);
}
