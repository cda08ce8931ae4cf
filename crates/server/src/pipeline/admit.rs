//! The filters before the handler of a request: authentication, impersonation, the number of requests in flight, and
//! authorization.

use http::HeaderMap;
use pintle_auth::user::{ALL_UNAUTHENTICATED, ANONYMOUS};
use pintle_auth::{AuthenticationError, UserInfo};
use pintle_registry::ApiError;
use pintle_value::Str;

use super::request_end::AnsweredBy;
use crate::access::{AccessControl, AuthenticationFailure, forbidden_error};
use crate::cluster::{AuthenticationResult, AuthorizationResult, Cluster};
use crate::http::Peer;
use crate::request::deadline::DeadlineExceeded;
use crate::request::in_flight::{InFlightLimits, InFlightRequest, TooManyInFlight};
use crate::request::info::RequestInfo;
use crate::request::log_limit::{LogLimit, Shortened};
use crate::request::query::Query;
use crate::request::recorder::Recorder;
use crate::request::trace::Step;

/// The reason why a request does not reach its handler.
pub(super) enum Refusal {
    Error(ApiError),
    /// An error that upstream writes with the header `X-Content-Type-Options`.
    Forbidden(ApiError),
    /// The authorizers could not decide.
    AuthorizationFailed(String),
    TooManyInFlight,
    DeadlineExceeded,
}

impl Refusal {
    pub(super) fn answered_by(&self) -> AnsweredBy {
        match self {
            Refusal::Error(_) | Refusal::Forbidden(_) | Refusal::AuthorizationFailed(_) => AnsweredBy::AccessControl,
            Refusal::TooManyInFlight => AnsweredBy::InFlightLimit,
            Refusal::DeadlineExceeded => AnsweredBy::Deadline,
        }
    }
}

impl From<DeadlineExceeded> for Refusal {
    fn from(_: DeadlineExceeded) -> Self {
        Self::DeadlineExceeded
    }
}

impl From<TooManyInFlight> for Refusal {
    fn from(_: TooManyInFlight) -> Self {
        Self::TooManyInFlight
    }
}

/// The sender of a request, as far as the filters have identified it.
#[derive(Default)]
pub(super) struct Sender {
    /// The user that the request acts as.
    pub(super) user: UserInfo,
    /// True if the request is known to have no valid credentials.
    pub(super) is_unauthenticated: bool,
    /// The WebSocket subprotocols, except the subprotocol that contains the credential. `None` if no subprotocol
    /// contains it.
    pub(super) websocket_protocols: Option<Str>,
}

fn is_anonymous(user: &UserInfo) -> bool {
    user.name == ANONYMOUS || user.groups.iter().any(|group| group == ALL_UNAUTHENTICATED)
}

/// A request whose sender is not known yet.
pub(super) struct ArrivedRequest<'r> {
    pub(super) peer: &'r Peer,
    pub(super) headers: &'r HeaderMap,
    pub(super) info: &'r RequestInfo,
    pub(super) query: &'r Query,
}

impl ArrivedRequest<'_> {
    /// Logs that the credentials of the request were rejected. The number of these lines is not limited if every
    /// request is logged.
    fn log_rejected(&self, error: &str) {
        static LIMIT: LogLimit = LogLimit::new();
        let unlogged = if tracing::enabled!(tracing::Level::DEBUG) { Some(0) } else { LIMIT.allow() };
        let Some(unlogged) = unlogged else { return };
        tracing::error!(
            error = %Shortened(error),
            srcIP = self.peer.address.map(tracing::field::display),
            verb = self.info.verb.as_str(),
            path = %Shortened(&self.info.path),
            unlogged = (unlogged > 0).then_some(unlogged),
            "Unable to authenticate the request"
        );
    }

    /// Lets a request pass the filters, and counts it as in flight. Sets its sender.
    pub(super) async fn admit(
        self,
        cluster: &Cluster,
        access: &AccessControl,
        in_flight: &InFlightLimits,
        recorder: &Recorder,
        Sender { user, is_unauthenticated, websocket_protocols }: &mut Sender,
    ) -> Result<InFlightRequest, Refusal> {
        let metrics = cluster.metrics.access();
        let authenticated = access.authenticate(self.peer, self.headers, &self.info.path, recorder).await;
        let took = recorder.trace.step(Step::Authenticated);
        match authenticated {
            Ok(authentication) => {
                let sender = authentication.user;
                metrics.record_authentication(AuthenticationResult::Success, &sender.name, took);
                *is_unauthenticated = is_anonymous(&sender);
                *user = sender;
                *websocket_protocols = authentication.websocket_protocols;
            }
            Err(failure) => {
                *is_unauthenticated = true;
                let result = match failure {
                    AuthenticationFailure::Unknown => AuthenticationResult::Failure,
                    AuthenticationFailure::Rejected(AuthenticationError(error)) => {
                        self.log_rejected(&error);
                        AuthenticationResult::Error
                    }
                };
                metrics.record_authentication(result, "", took);
                return Err(Refusal::Error(ApiError::Unauthorized));
            }
        }
        let mut authorization_started = took;
        let impersonated = access.impersonate(user, self.headers, self.info, self.query, metrics).await;
        if !matches!(impersonated, Ok(None) | Err(ApiError::BadRequest(_))) {
            authorization_started = recorder.trace.step(Step::Impersonated);
            let mode = impersonated.as_ref().ok().and_then(|found| found.as_ref()).map(|found| found.mode);
            metrics.record_impersonation(mode, authorization_started.saturating_sub(took));
        }
        if let Some(impersonated) = impersonated.map_err(Refusal::Forbidden)? {
            *user = impersonated.user;
        }
        let in_flight = in_flight.begin(self.info, user)?;
        let verb = &self.info.verb;
        let authorization = access.decide(user, self.info, self.query, verb).await;
        let authorized_at = recorder.trace.step(Step::Authorized);
        let result = AuthorizationResult::of(&authorization);
        metrics.record_authorization(result, authorized_at.saturating_sub(authorization_started));
        match (result, authorization.error) {
            (AuthorizationResult::Allowed, _) => Ok(in_flight),
            (_, Some(error)) => Err(Refusal::AuthorizationFailed(error)),
            (_, None) => {
                let error = forbidden_error(user, self.info, self.query, verb, &authorization.reason);
                Err(Refusal::Forbidden(error))
            }
        }
    }
}
