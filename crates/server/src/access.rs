//! Authentication, impersonation and authorization of a request. Their results become API errors here.

use http::HeaderMap;
use pintle_auth::{
    AuthenticationRequest, Authenticator, AuthorizationAttributes, Authorizer, Decision, ImpersonationError, UserInfo,
};
use pintle_registry::{ApiError, GroupResource};

use crate::http::Peer;
use crate::request::info::RequestInfo;
use crate::request::query::Query;
use crate::request::recorder::Recorder;

/// The configured authenticators and authorizers. A reload replaces the whole value.
pub struct AccessControl {
    /// Identifies the sender of a request.
    pub authenticator: Box<dyn Authenticator>,
    /// Decides what a user may do.
    pub authorizer: Box<dyn Authorizer>,
}

/// Why a sender is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthenticationFailure {
    /// No authenticator recognizes it.
    Unknown,
    /// An authenticator rejects its credentials.
    Rejected,
}

impl AccessControl {
    /// Returns the user who sent a request.
    ///
    /// # Errors
    /// No authenticator recognizes the sender. The reason is only logged.
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        recorder: &Recorder,
    ) -> Result<UserInfo, AuthenticationFailure> {
        let request = AuthenticationRequest { certificates: &peer.certificates, headers, audiences: &[] };
        match self.authenticator.authenticate(&request).await {
            Ok(Some(authentication)) => {
                authentication.warnings.into_iter().for_each(|warning| recorder.warn(warning));
                Ok(authentication.user)
            }
            Ok(None) => Err(AuthenticationFailure::Unknown),
            Err(error) => {
                tracing::info!(%error, "Unable to authenticate the request");
                Err(AuthenticationFailure::Rejected)
            }
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
    ) -> Result<Option<UserInfo>, ApiError> {
        pintle_auth::impersonate(headers, sender, &*self.authorizer).await.map_err(|error| match error {
            ImpersonationError::WithoutUser { requested } => {
                ApiError::BadRequest(format!("requested {requested} without impersonating a user name"))
            }
            ImpersonationError::Malformed { header } => {
                ApiError::BadRequest(format!("the value of the header {header} is not valid UTF-8"))
            }
            ImpersonationError::Forbidden { resource, name, why } => {
                ApiError::Forbidden { resource: GroupResource::new("", resource), name, why, causes: Vec::new() }
            }
        })
    }

    /// Checks that a user may do `verb` on the object or path of a request.
    ///
    /// # Errors
    /// Returns `Forbidden` if no authorizer allows it.
    pub(crate) async fn authorize(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
        query: &Query,
        verb: &str,
    ) -> Result<(), ApiError> {
        let attributes = AuthorizationAttributes {
            verb,
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            path: &info.path,
            field_selector: query.get("fieldSelector").unwrap_or_default(),
            label_selector: query.get("labelSelector").unwrap_or_default(),
        };
        let authorization = self.authorizer.authorize(user, &attributes).await;
        match authorization.decision {
            Decision::Allow => Ok(()),
            Decision::Deny | Decision::NoOpinion => Err(ApiError::Forbidden {
                resource: GroupResource::new(info.group.clone(), info.resource.clone()),
                name: info.name.clone(),
                why: authorization.reason.into_owned(),
                causes: Vec::new(),
            }),
        }
    }
}
