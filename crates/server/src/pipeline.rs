//! The handler chain of every request: CORS -> request info -> authentication -> impersonation -> (audit and flow
//! control will be added here) -> authorization -> handler -> response. Errors become a `Status` in one place.

use std::sync::Arc;
use std::time::Instant;

use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Method, StatusCode};
use hyper::body::Incoming;
use parking_lot::Mutex;
use pintle_auth::UserInfo;
use pintle_registry::ApiError;

use crate::access::AccessControl;
use crate::cluster::{Cluster, RecordedRequest};
use crate::context::RequestContext;
use crate::handlers::{health, route};
use crate::http::cors::{self, Cors};
use crate::http::unread_body::{self, BodyProtocol};
use crate::http::{Body, Peer, Response, catch_panic, panic_response, panic_text};
use crate::represent::error_response;
use crate::request::info::RequestInfo;
use crate::request::query::Query;
use crate::request::recorder::Recorder;

/// Identifies a request in audit events and logs.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Handles a request.
pub(crate) async fn handle(
    cluster: Arc<Cluster>,
    access: Arc<AccessControl>,
    cors: &Cors,
    peer: Peer,
    request: http::Request<Incoming>,
) -> Response {
    let started = Instant::now();
    let (mut parts, body) = request.into_parts();
    let protocol = BodyProtocol::of(parts.version, &parts.headers);
    let origin = cors.allowed_origin(&parts.headers).cloned();
    if origin.is_some() && parts.method == Method::OPTIONS {
        // Browsers send preflight requests without credentials.
        let mut response = preflight(&parts.headers, origin);
        unread_body::discard(body, protocol, &mut response).await;
        return response;
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::of(&parts.method, parts.uri.path(), &query);
    let recorder = Recorder::default();
    let (user, authorized) =
        authenticate_and_authorize(&access, &peer, &parts.headers, (&info, &query), &recorder).await;
    let request = Arc::new(RequestContext {
        cluster,
        access,
        info,
        method: parts.method,
        query,
        headers: parts.headers,
        user,
        body: Mutex::new(Some(body)),
        upgrade: Mutex::new(parts.extensions.remove()),
        recorder,
        conversions: Arc::default(),
    });
    let result = match authorized {
        Ok(()) => catch_panic(route(&request)).await.unwrap_or_else(|panic| {
            let (verb, path) = (request.info.verb, &request.info.path);
            tracing::error!(verb, path, panic = panic_text(&panic), "Request panicked");
            Ok(panic_response())
        }),
        Err(ApiError::Unauthorized) => Err(ApiError::Unauthorized),
        Err(error) => {
            let mut refusal = error_response(&request, &error);
            refusal.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            Ok(refusal)
        }
    };
    let mut response = result.unwrap_or_else(|error| error_response(&request, &error));
    finish(&request.headers, origin, &mut response);
    for warning in request.recorder.headers() {
        response.headers_mut().append(WARNING, warning);
    }
    if request.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    let recorded = RecordedRequest {
        info: &request.info,
        method: &request.method,
        query: &request.query,
        headers: &request.headers,
    };
    let metrics = &request.cluster.metrics;
    metrics.request(&recorded, &request.cluster.registry(), response.status(), started.elapsed());
    let unread = request.body.lock().take();
    if let Some(unread) = unread {
        unread_body::discard(unread, protocol, &mut response).await;
    }
    response
}

/// Authenticates, impersonates and authorizes. Returns the user that the request acts as, and whether it is allowed.
async fn authenticate_and_authorize(
    access: &AccessControl,
    peer: &Peer,
    headers: &HeaderMap,
    (info, query): (&RequestInfo, &Query),
    recorder: &Recorder,
) -> (UserInfo, Result<(), ApiError>) {
    let sender = match access.authenticate(peer, headers, recorder).await {
        Ok(sender) => sender,
        // Anonymous users may read public paths (upstream: `system:public-info-viewer`).
        Err(_) if health::is_public(&info.path) => return (UserInfo::default(), Ok(())),
        Err(error) => return (UserInfo::default(), Err(error)),
    };
    let user = match access.impersonate(&sender, headers).await {
        Ok(user) => user.unwrap_or(sender),
        Err(error) => return (sender, Err(error)),
    };
    let authorized = access.authorize(&user, info, query, info.verb).await;
    (user, authorized)
}

/// The response to a CORS preflight request.
fn preflight(headers: &HeaderMap, origin: Option<HeaderValue>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    finish(headers, origin, &mut response);
    response
}

/// Sets the headers that every response has. `origin` is the request's, if CORS allows it.
fn finish(request: &HeaderMap, origin: Option<HeaderValue>, response: &mut Response) {
    let headers = response.headers_mut();
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    headers.insert(AUDIT_ID, audit_id(request));
    if let Some(origin) = origin {
        cors::set_response_headers(origin, headers);
    }
}

/// The audit id of a request: the client's as it is if it sends one, otherwise a new one.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let own = headers.get(AUDIT_ID).filter(|id| !id.is_empty()).cloned();
    own.unwrap_or_else(|| {
        let id = uuid::Uuid::new_v4().to_string();
        HeaderValue::from_maybe_shared(bytes::Bytes::from(id)).unwrap_or_else(|_| HeaderValue::from_static(""))
    })
}
