//! Authentication, impersonation and authorization of a request. Their results become API errors here.

mod chain;
mod claim_source;
mod issuer_keys;
mod jwt;
mod node;
mod rbac;
mod token_webhook;
mod webhook;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use pintle_admission::AdmissionRecorder;
use pintle_auth::user::ANONYMOUS;
use pintle_auth::{
    Authentication, AuthenticationError, AuthenticationRequest, Authenticator, Authorization, AuthorizationAttributes,
    Authorizer, ForbiddenError, Impersonation, ImpersonationError, ImpersonationObserver, Impersonator, RequestHeaders,
    UserInfo,
};
use pintle_registry::{ApiError, GroupResource};

pub use self::chain::{CountedAuthorizer, ReloadableAuthorizer, record_authorization_reload};
pub use self::jwt::{JwtAuthenticators, ReloadableJwtAuthenticators};
pub use self::node::NodeAuthorizer;
pub use self::rbac::RbacAuthorizer;
pub use self::token_webhook::TokenWebhookAuthenticator;
pub(crate) use self::token_webhook::read_token_review;
pub use self::webhook::WebhookAuthorizer;
pub(crate) use self::webhook::read_access_review;
use crate::http::{Peer, header_text};
use crate::request::info::RequestInfo;
use crate::request::query::Query;
use crate::request::recorder::Recorder;

/// The configured authenticators and authorizers. A reload replaces the whole value.
pub struct AccessControl {
    /// Identifies the sender of a request.
    pub authenticator: Box<dyn Authenticator>,
    /// The headers in which front proxies name users. These headers are not passed on to backends.
    pub front_proxy_headers: RequestHeaders,
    /// Decides what a user may do.
    pub authorizer: Box<dyn Authorizer>,
    /// Decides who may act as whom.
    pub impersonator: Impersonator,
}

/// The attributes of a request for authorizers.
pub(crate) fn attributes<'r>(info: &'r RequestInfo, query: &'r Query, verb: &'r str) -> AuthorizationAttributes<'r> {
    let selector = |name| if info.has_selectors() { query.get(name).unwrap_or_default() } else { "" };
    AuthorizationAttributes {
        verb,
        group: &info.group,
        version: &info.version,
        resource: &info.resource,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: &info.name,
        path: &info.path,
        field_selector: selector("fieldSelector"),
        label_selector: selector("labelSelector"),
    }
}

/// The API error of a user who may not do something.
pub(crate) fn forbidden(error: ForbiddenError) -> ApiError {
    let ForbiddenError { group, resource, name, why } = error;
    ApiError::Forbidden { resource: GroupResource::new(group, resource), name, why, causes: Vec::new() }
}

/// Requires that a user has a permission.
///
/// # Errors
/// Returns `Forbidden` with the authorizer's error and reason.
pub(crate) async fn require(
    authorizer: &dyn Authorizer,
    user: &UserInfo,
    wanted: &AuthorizationAttributes<'_>,
) -> Result<(), ApiError> {
    let authorization = authorizer.authorize(user, wanted).await;
    if authorization.is_allowed() {
        return Ok(());
    }
    let reason = match (authorization.error, authorization.reason) {
        (None, reason) => reason,
        (Some(error), reason) if reason.is_empty() => Cow::Owned(error),
        (Some(error), reason) => Cow::Owned(format!("{error}: {reason}")),
    };
    Err(forbidden(ForbiddenError::new(user, wanted, &reason)))
}

/// The credentials that a request has tried in vain, for its audit event (upstream: `getAuthMethods`).
pub(crate) fn attempted_authentication(peer: &Peer, headers: &HeaderMap, query: &Query) -> String {
    let authorization = header_text(headers, &AUTHORIZATION);
    let (scheme, credential) = authorization.split_once(' ').unwrap_or_default();
    let is_basic = scheme.eq_ignore_ascii_case("basic")
        && STANDARD.decode(credential).is_ok_and(|decoded| decoded.contains(&b':'));
    let is_bearer =
        authorization.trim().split_once(' ').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let has_access_token = query.get("access_token").is_some_and(|token| !token.trim().is_empty());
    let attempted: Vec<&str> = [
        (is_basic, "basic"),
        (is_bearer, "bearer"),
        (has_access_token, "access_token"),
        (!peer.certificates.is_empty(), "x509"),
    ]
    .into_iter()
    .filter_map(|(is_attempted, name)| is_attempted.then_some(name))
    .collect();
    match attempted.as_slice() {
        [] => "Authentication failed, no credentials provided".to_owned(),
        attempted => format!("Authentication failed, attempted: {}", attempted.join(", ")),
    }
}

/// The reason why a sender is not authenticated.
#[derive(Debug)]
pub(crate) enum AuthenticationFailure {
    /// No authenticator recognizes the sender.
    Unknown,
    /// An authenticator rejects the sender's credentials.
    Rejected(AuthenticationError),
}

impl AccessControl {
    /// Returns the user who sent a request. Warnings and annotations go to the recorder.
    ///
    /// # Errors
    /// No authenticator recognizes the sender. The reason is for the log.
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        path: &str,
        recorder: &Recorder,
    ) -> Result<Authentication, AuthenticationFailure> {
        let request = AuthenticationRequest { certificates: &peer.certificates, headers, path, audiences: &[] };
        let result = self.authenticator.authenticate(&request).await;
        let found = result.as_ref().ok().and_then(Option::as_ref);
        if found.is_none_or(|found| found.user.name == ANONYMOUS) {
            request.bearer_token_warning().into_iter().for_each(|warning| recorder.warn(warning));
        }
        match result {
            Ok(Some(mut authentication)) => {
                authentication.warnings.drain(..).for_each(|warning| recorder.warn(warning));
                for (key, value) in authentication.annotations.drain(..) {
                    recorder.annotate(key, value);
                }
                Ok(authentication)
            }
            Ok(None) => Err(AuthenticationFailure::Unknown),
            Err(error) => Err(AuthenticationFailure::Rejected(error)),
        }
    }

    /// Returns the user that a request impersonates, if any.
    ///
    /// # Errors
    /// Returns an error if the headers are incomplete, or if the sender may not impersonate that user.
    pub(crate) async fn impersonate(
        &self,
        sender: &UserInfo,
        headers: &HeaderMap,
        info: &RequestInfo,
        query: &Query,
        observer: &dyn ImpersonationObserver,
    ) -> Result<Option<Impersonation>, ApiError> {
        let request = attributes(info, query, &info.verb);
        let impersonated = self.impersonator.impersonate(headers, sender, &request, &*self.authorizer, observer).await;
        impersonated.map_err(|error| match error {
            ImpersonationError::WithoutUser { requested } => {
                ApiError::BadRequest(format!("requested {requested} without impersonating a user name"))
            }
            ImpersonationError::Malformed { header } => {
                ApiError::BadRequest(format!("the value of the header {header} is not valid UTF-8"))
            }
            ImpersonationError::Forbidden(error) => forbidden(error),
        })
    }

    /// Decides whether a user may do `verb` on the object or path of a request.
    pub(crate) async fn decide(&self, user: &UserInfo, info: &RequestInfo, query: &Query, verb: &str) -> Authorization {
        self.authorizer.authorize(user, &attributes(info, query, verb)).await
    }
}

/// The error for a user who may not do `verb` on the object or path of a request.
pub(crate) fn forbidden_error(
    user: &UserInfo,
    info: &RequestInfo,
    query: &Query,
    verb: &str,
    reason: &str,
) -> ApiError {
    forbidden(ForbiddenError::new(user, &attributes(info, query, verb), reason))
}
