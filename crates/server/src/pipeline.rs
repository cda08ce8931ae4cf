//! The way of a request through the house: request info → authenticate → impersonate → (audit, flow control: their place
//! is here) → authorize → route → handler → answer. Each step is one function, and errors become `Status` in one place.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use pintle_auth::{Attributes, Credentials, Decision, ImpersonationError, UserInfo};
use pintle_registry::{ApiError, Backing, GroupResource, Resource, Scope, StrategyContext, Subresource, Verb};
use pintle_value::Value;

use crate::cluster::Cluster;
use crate::http::{Body, Handler, Peer, Response};
use crate::negotiate::{self, Endpoint};
use crate::query::Query;
use crate::request::RequestInfo;
use crate::versions::Conversions;
use crate::warnings::Warnings;
use crate::{cors, custom, discovery, health, openapi, read, represent, status, write};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The largest body that is read (kube-apiserver's limit).
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// How long a client may take to send a body.
const BODY_TIME: Duration = Duration::from_secs(60);

/// A request on its way.
pub(crate) struct RequestContext {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) info: RequestInfo,
    pub(crate) method: Method,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) user: UserInfo,
    body: Mutex<Option<Incoming>>,
    upgrade: Mutex<Option<OnUpgrade>>,
    pub(crate) warnings: Warnings,
    /// What is known of the objects that are written at other versions.
    pub(crate) conversions: Arc<Conversions>,
}

impl RequestContext {
    /// An endpoint that answers with plain objects, in all encodings that are served.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint { cbor: self.cluster.cbor, ..Endpoint::PLAIN }
    }

    /// What the rules of kinds may know of the request.
    pub(crate) fn context(&self, dry_run: bool) -> StrategyContext {
        StrategyContext {
            now: self.cluster.now(),
            user: self.user.name.clone(),
            uid: self.user.uid.clone(),
            groups: self.user.groups.clone(),
            extra: self.user.extra.clone(),
            dry_run,
            gates: self.cluster.gates.clone(),
        }
    }

    /// The namespace of the objects that the request is about; empty for resources of the cluster.
    pub(crate) fn namespace_of(&self, resource: &Resource) -> &str {
        if resource.scope == Scope::Namespaced { &self.info.namespace } else { "" }
    }

    /// Sees to it that the sender may do something else with the same object than was asked for.
    ///
    /// # Errors
    /// They may not.
    pub(crate) fn authorize(&self, verb: &str) -> Result<(), ApiError> {
        authorize(&self.cluster, &self.user, &self.info, verb)
    }

    /// Adds a warning for the client.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.push(text);
    }

    /// Reads the body, once.
    ///
    /// # Errors
    /// It is too large or does not come.
    pub(crate) async fn body(&self) -> Result<Bytes, ApiError> {
        let Some(mut body) = self.body.lock().take() else { return Ok(Bytes::new()) };
        let too_large = || ApiError::TooLarge(format!("Request entity too large: limit is {BODY_LIMIT}"));
        if hyper::body::Body::size_hint(&body).lower() > BODY_LIMIT as u64 {
            return Err(too_large());
        }
        let read = async {
            let mut bytes = BytesMut::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| ApiError::BadRequest(format!("the body cannot be read: {error}")))?;
                if let Ok(data) = frame.into_data() {
                    if bytes.len() + data.len() > BODY_LIMIT {
                        return Err(too_large());
                    }
                    bytes.extend_from_slice(&data);
                }
            }
            Ok(bytes.freeze())
        };
        match tokio::time::timeout(BODY_TIME, read).await {
            Ok(result) => result,
            Err(_) => Err(ApiError::Timeout { message: "the body did not come in time".to_owned(), retry_after: 1 }),
        }
    }

    /// The connection, once it is no longer HTTP; taken once. `None` if it has to stay HTTP.
    pub(crate) fn upgrade(&self) -> Option<OnUpgrade> {
        self.upgrade.lock().take()
    }

    /// True if the client accepts gzip.
    pub(crate) fn accepts_gzip(&self) -> bool {
        self.headers
            .get_all(http::header::ACCEPT_ENCODING)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(','))
            .any(|v| v.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("gzip")))
    }
}

impl Handler for Cluster {
    fn handle(self: Arc<Self>, peer: Peer, request: http::Request<Incoming>) -> BoxFuture<'static, Response> {
        Box::pin(answer(self, peer, request))
    }

    fn drain(&self) {
        self.closing.send_replace(true);
    }
}

async fn answer(cluster: Arc<Cluster>, peer: Peer, request: http::Request<Incoming>) -> Response {
    let started = Instant::now();
    let (mut parts, body) = request.into_parts();
    let origin = cluster.cors.allowed(&parts.headers).cloned();
    if origin.is_some() && parts.method == Method::OPTIONS {
        // A browser asks whether it may ask: nobody has to say who they are.
        return preflight(&parts.headers, origin);
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::of(&parts.method, parts.uri.path(), &query);
    // Whoever it is, these may be asked by anyone (upstream: `system:public-info-viewer`).
    let public = health::is_public(&info.path);
    let (user, admitted) = match authenticate(&cluster, &peer, &parts.headers) {
        Ok(sender) => match act_as(&cluster, &sender, &parts.headers) {
            Ok(user) => {
                let user = user.unwrap_or(sender);
                let admitted = authorize(&cluster, &user, &info, info.verb);
                (user, admitted)
            }
            Err(error) => (sender, Err(error)),
        },
        Err(_) if public => (UserInfo::default(), Ok(())),
        Err(error) => (UserInfo::default(), Err(error)),
    };
    let call = Arc::new(RequestContext {
        cluster,
        info,
        method: parts.method,
        query,
        headers: parts.headers,
        user,
        body: Mutex::new(Some(body)),
        upgrade: Mutex::new(parts.extensions.remove()),
        warnings: Warnings::default(),
        conversions: Arc::default(),
    });
    let result = match admitted {
        Ok(()) => route(&call).await,
        Err(error) => Err(error),
    };
    let mut response = result.unwrap_or_else(|error| failure(&call, &error));
    finish(&call.headers, origin, &mut response);
    for warning in call.warnings.headers() {
        response.headers_mut().append(WARNING, warning);
    }
    if call.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    call.cluster.metrics.request(&call.info, response.status(), started.elapsed());
    response
}

fn authenticate(cluster: &Cluster, peer: &Peer, headers: &HeaderMap) -> Result<UserInfo, ApiError> {
    let credentials = Credentials {
        certificates: &peer.certificates,
        authorization: headers.get(http::header::AUTHORIZATION).and_then(|v| v.to_str().ok()),
    };
    match cluster.authenticator.authenticate(&credentials) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(ApiError::Unauthorized),
        Err(why) => {
            tracing::info!(%why, "unable to authenticate the request");
            Err(ApiError::Unauthorized)
        }
    }
}

/// Who a request acts as, if not as its sender.
fn act_as(cluster: &Cluster, sender: &UserInfo, headers: &HeaderMap) -> Result<Option<UserInfo>, ApiError> {
    let headers = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    pintle_auth::impersonate(headers, sender, &*cluster.authorizer).map_err(|refused| match refused {
        ImpersonationError::WithoutUser => {
            ApiError::Internal("requested impersonation without impersonating a user".to_owned())
        }
        ImpersonationError::Forbidden { resource, name, why } => {
            ApiError::Forbidden { resource: GroupResource::new("", resource), name, why, causes: Vec::new() }
        }
    })
}

fn authorize(cluster: &Cluster, user: &UserInfo, info: &RequestInfo, verb: &str) -> Result<(), ApiError> {
    let attributes = Attributes {
        verb,
        group: &info.group,
        version: &info.version,
        resource: &info.resource,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: &info.name,
        path: &info.path,
    };
    match cluster.authorizer.authorize(user, &attributes) {
        Decision::Allow => Ok(()),
        Decision::Deny(why) | Decision::NoOpinion(why) => Err(ApiError::Forbidden {
            resource: GroupResource::new(info.group.clone(), info.resource.clone()),
            name: info.name.clone(),
            why,
            causes: Vec::new(),
        }),
    }
}

async fn route(call: &Arc<RequestContext>) -> Result<Response, ApiError> {
    if call.info.is_resource {
        return resource(call).await;
    }
    if !matches!(call.method, Method::GET | Method::HEAD) && is_document(&call.info.path) {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Some(response) = health::answer(call) {
        return Ok(response);
    }
    if let Some(response) = openapi::answer(call) {
        return Ok(response);
    }
    if let Some(response) = discovery::answer(call)? {
        return Ok(response);
    }
    if call.info.path.starts_with("/api/") {
        return Err(ApiError::NoSuchPath);
    }
    Ok(page_not_found())
}

/// True for the paths of documents that upstream's router serves; others it leaves to handlers that take any method.
fn is_document(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    matches!(parts.as_slice(), ["api" | "version"] | ["api", "v1"] | ["apis", _, _])
}

async fn resource(call: &Arc<RequestContext>) -> Result<Response, ApiError> {
    let info = &call.info;
    let registry = call.cluster.registry();
    if !registry.serves(&info.group, &info.version) {
        return if info.group.is_empty() { Err(ApiError::NoSuchPath) } else { Ok(page_not_found()) };
    }
    match registry.resource(&info.group, &info.version, &info.resource) {
        Some(resource) if resource.built_in => dispatch(call, resource).await,
        Some(resource) => custom::dispatch(call, resource).await,
        None if registry.has_routes(&info.group, &info.version) => Err(ApiError::NoSuchPath),
        None => Ok(page_not_found()),
    }
}

/// Chooses the handler of a verb.
async fn dispatch(call: &Arc<RequestContext>, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let info = &call.info;
    let namespaced = resource.scope == Scope::Namespaced;
    let named_in_path = !info.name.is_empty() && !matches!(info.verb, "list" | "watch" | "deletecollection");
    let exists = match (namespaced, info.in_namespace) {
        (true, true) | (false, false) => true,
        // Over all namespaces there are collections, no single objects.
        (true, false) => !named_in_path,
        (false, true) => false,
    };
    // The deprecated paths watch objects in their namespaces, and no subresources.
    let watchable = info.subresource.is_empty() && (info.name.is_empty() || namespaced == info.in_namespace);
    if !exists || !info.rest.is_empty() || (info.watch_path && !watchable) {
        return Err(ApiError::NoSuchPath);
    }
    if info.watch_path && call.method != Method::GET {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Some(text) = &resource.deprecation {
        call.warn(text.as_str());
    }
    if !info.subresource.is_empty() {
        let Some(subresource) = resource.subresource(&info.subresource) else { return Err(ApiError::NoSuchPath) };
        let verb = match info.verb {
            "create" => Verb::Create,
            "get" => Verb::Get,
            "update" => Verb::Update,
            "patch" => Verb::Patch,
            _ => return Err(ApiError::MethodNotAllowed),
        };
        if !subresource.verbs.has(verb) {
            return Err(ApiError::MethodNotAllowed);
        }
        return write_subresource(call, resource, subresource, verb).await;
    }
    let verb = match info.verb {
        "get" if named_in_path => Verb::Get,
        "list" => Verb::List,
        "watch" => Verb::Watch,
        "create" if !named_in_path => Verb::Create,
        "update" if named_in_path => Verb::Update,
        "patch" if named_in_path => Verb::Patch,
        "delete" if named_in_path => Verb::Delete,
        "deletecollection" => Verb::DeleteCollection,
        _ => return Err(ApiError::MethodNotAllowed),
    };
    if !resource.verbs.has(verb) {
        // Watches come to the paths of lists, and have deprecated paths only where there are watches.
        return Err(match verb {
            Verb::Watch if info.watch_path => ApiError::NoSuchPath,
            Verb::Watch if resource.verbs.has(Verb::List) => {
                ApiError::MethodNotSupported { resource: resource.group_resource(), action: "watch" }
            }
            _ => ApiError::MethodNotAllowed,
        });
    }
    // A namespaced resource without a namespace in the path can only be listed and watched.
    if namespaced && !info.in_namespace && !matches!(verb, Verb::List | Verb::Watch) {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Backing::Computed(source) = resource.backing {
        return match verb {
            Verb::Get => read::computed::get(call, resource, source).await,
            Verb::List => read::computed::list(call, resource, source).await,
            _ => Err(ApiError::MethodNotAllowed),
        };
    }
    match verb {
        Verb::Get => read::get(call, resource).await,
        Verb::List => read::list(call, resource).await,
        Verb::Watch => read::watch(call, resource).await,
        writing => writes(call, resource, writing).await,
    }
}

/// Carries out a verb on a subresource.
pub(crate) async fn write_subresource(
    call: &Arc<RequestContext>,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    verb: Verb,
) -> Result<Response, ApiError> {
    if verb == Verb::Get {
        return write::subresource(call, resource, subresource, verb).await;
    }
    let (call, resource, subresource) = (call.clone(), resource.clone(), subresource.clone());
    to_its_end(async move { write::subresource(&call, &resource, &subresource, verb).await }).await
}

/// Carries out a verb that writes.
pub(crate) async fn writes(
    call: &Arc<RequestContext>,
    resource: &Arc<Resource>,
    verb: Verb,
) -> Result<Response, ApiError> {
    let (call, resource) = (call.clone(), resource.clone());
    if verb == Verb::DeleteCollection {
        // This alone stops in between, at an object's end.
        return write::delete_collection(&call, &resource).await;
    }
    to_its_end(async move {
        match verb {
            Verb::Create => write::create(&call, &resource).await,
            Verb::Update => write::update(&call, &resource).await,
            Verb::Patch => write::patch(&call, &resource).await,
            Verb::Delete => write::delete(&call, &resource).await,
            Verb::DeleteCollection | Verb::Get | Verb::List | Verb::Watch => Err(ApiError::MethodNotAllowed),
        }
    })
    .await
}

/// Runs a write to its end even if the client goes away in the middle, so that what it allocated is kept or given back.
async fn to_its_end(
    write: impl Future<Output = Result<Response, ApiError>> + Send + 'static,
) -> Result<Response, ApiError> {
    match tokio::spawn(write).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "a write ended early");
            Err(ApiError::Internal("the request could not be completed".to_owned()))
        }
    }
}

/// Go's answer to a path that nobody serves.
pub(crate) fn page_not_found() -> Response {
    let mut response = text(StatusCode::NOT_FOUND, "404 page not found\n");
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// An answer of plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::Whole(text.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// An answer of JSON that is not an object of the API (or one whose encoding is not negotiated).
pub(crate) fn json(call: &RequestContext, code: StatusCode, value: &Value) -> Response {
    let accepted = negotiate::output(&call.headers, &call.query, Endpoint { protobuf: false, ..Endpoint::PLAIN });
    let pretty = accepted.is_ok_and(|a| a.pretty);
    let bytes = if pretty { pintle_codec::json::encode_pretty(value) } else { pintle_codec::json::encode(value) };
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error as an answer: a `Status` in the encoding that the client accepts of what is not transformed, or in JSON.
pub(crate) fn failure(call: &RequestContext, error: &ApiError) -> Response {
    let failure = status::failure(error);
    let mut response = match negotiate::output(&call.headers, &call.query, call.endpoint()) {
        Ok(accepted) => represent::status(call, failure.code, &failure.status, accepted.encoding, accepted.pretty),
        Err(_) => represent::raw_status(call, failure.code, &failure.status),
    };
    if let Some(seconds) = failure.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if failure.code == StatusCode::PAYLOAD_TOO_LARGE {
        response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The answer to a browser that asks what scripts of an origin may do.
fn preflight(headers: &HeaderMap, origin: Option<HeaderValue>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    finish(headers, origin, &mut response);
    response
}

/// What every answer has. `asked` are the headers of the request, `origin` is that of a script that may ask.
fn finish(asked: &HeaderMap, origin: Option<HeaderValue>, response: &mut Response) {
    let headers = response.headers_mut();
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    if let Ok(id) = HeaderValue::from_str(&audit_id(asked)) {
        headers.insert(HeaderName::from_static("audit-id"), id);
    }
    if let Some(origin) = origin {
        cors::tell(origin, headers);
    }
}

/// The id under which a request is known: the client's, where it sends one, else a new one.
fn audit_id(headers: &HeaderMap) -> String {
    headers
        .get("audit-id")
        .and_then(|v| v.to_str().ok())
        .filter(|id| !id.is_empty() && id.len() <= 64)
        .map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}
