//! An audit event (upstream: `audit.k8s.io/v1`).
//!
//! - `encode`: the JSON of events and lists of events.
//! - `legacy`: the line of the format `legacy`.
//! - `raw_json`: objects inside events.
//! - `managed_fields`: objects without their managed fields.

mod encode;
mod legacy;
mod managed_fields;
mod raw_json;

use std::collections::BTreeMap;

use bytes::Bytes;
use pintle_auth::UserInfo;
use pintle_value::Str;
use pintle_value::time::Time;

pub use encode::event_list_json;
pub use managed_fields::without_managed_fields;
pub use raw_json::{InvalidJson, is_json};

use crate::{Level, Stage};

/// The record of a request at one of its stages. Empty texts and lists are absent in JSON, except where Go writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The level at which the event is recorded.
    pub level: Level,
    /// The ID of the request.
    pub audit_id: Str,
    /// The stage.
    pub stage: Stage,
    /// The URI, as the client sent it.
    pub request_uri: String,
    /// The verb, or for a path without resource the HTTP method in lower case.
    pub verb: Str,
    /// The authenticated user.
    pub user: UserInfo,
    /// The user that the request acts as, if it is another one.
    pub impersonated_user: Option<UserInfo>,
    /// How the request was authenticated.
    pub authentication_metadata: Option<AuthenticationMetadata>,
    /// Where the request comes from: `X-Forwarded-For`, `X-Real-Ip`, and the peer of the connection.
    pub source_ips: Vec<Str>,
    /// The user agent.
    pub user_agent: Str,
    /// The object of the request. `None` for paths without resource.
    pub object_ref: Option<ObjectReference>,
    /// The status of the response.
    pub response_status: Option<ResponseStatus>,
    /// The JSON of the object in the request.
    pub request_object: Option<Bytes>,
    /// The JSON of the object in the response.
    pub response_object: Option<Bytes>,
    /// When the server received the request.
    pub request_received_timestamp: Time,
    /// When the request reached the stage.
    pub stage_timestamp: Time,
    /// Annotations of authenticators, authorizers and admission plugins.
    pub annotations: BTreeMap<Str, String>,
}

/// The annotation of an event without its objects.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// The approximate size of the parts of an event that are small, in bytes.
const SMALL_PARTS: usize = 1024;

impl Event {
    /// Removes the objects, because they are too large. Upstream adds the annotation to all later events of the request,
    /// too.
    pub fn truncate(&mut self) {
        (self.request_object, self.response_object) = (None, None);
        self.annotations.insert(TRUNCATED.into(), "true".to_owned());
    }

    /// The approximate size in memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let user = |user: &UserInfo| {
            let extra = user.extra.iter().map(|(key, values)| key.len() + texts(values));
            user.name.len() + user.uid.len() + texts(&user.groups) + extra.sum::<usize>()
        };
        let objects = [&self.request_object, &self.response_object].into_iter().flatten();
        let annotations = self.annotations.iter().map(|(key, value)| key.len() + value.len());
        let status = self.response_status.iter().map(|status| {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            status.message.len()
                + causes.map(|cause| size_of_val(cause) + cause.message.len() + cause.field.len()).sum::<usize>()
        });
        SMALL_PARTS
            + self.audit_id.len()
            + self.request_uri.len()
            + user(&self.user)
            + self.impersonated_user.as_ref().map_or(0, user)
            + texts(&self.source_ips)
            + objects.map(Bytes::len).sum::<usize>()
            + annotations.sum::<usize>()
            + status.sum::<usize>()
    }
}

/// The approximate size of texts in memory, in bytes.
fn texts(texts: &[Str]) -> usize {
    texts.iter().map(|text| size_of_val(text) + text.len()).sum()
}

impl Default for Event {
    fn default() -> Self {
        Self {
            level: Level::default(),
            audit_id: Str::default(),
            stage: Stage::default(),
            request_uri: String::new(),
            verb: Str::default(),
            user: UserInfo::default(),
            impersonated_user: None,
            authentication_metadata: None,
            source_ips: Vec::new(),
            user_agent: Str::default(),
            object_ref: None,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: Time::ZERO,
            stage_timestamp: Time::ZERO,
            annotations: BTreeMap::new(),
        }
    }
}

/// How a request was authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationMetadata {
    /// The verb of the constrained impersonation that was allowed.
    pub impersonation_constraint: Str,
}

/// The object of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// The resource.
    pub resource: Str,
    /// The namespace.
    pub namespace: Str,
    /// The name.
    pub name: Str,
    /// The uid.
    pub uid: Str,
    /// The API group; empty for the core group.
    pub api_group: Str,
    /// The version in the API group.
    pub api_version: Str,
    /// The resource version.
    pub resource_version: Str,
    /// The subresource.
    pub subresource: Str,
}

/// The fields of a `metav1.Status` that events have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseStatus {
    /// `Success` or `Failure`.
    pub status: Str,
    /// The message.
    pub message: String,
    /// The reason.
    pub reason: Str,
    /// Details of a failure.
    pub details: Option<StatusDetails>,
    /// The HTTP status code.
    pub code: u16,
}

/// Details of a failure (`metav1.StatusDetails`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusDetails {
    /// The name of the object.
    pub name: Str,
    /// The group.
    pub group: Str,
    /// The kind.
    pub kind: Str,
    /// The uid of the object.
    pub uid: Str,
    /// The causes.
    pub causes: Vec<StatusCause>,
    /// The number of seconds after which the client may try again.
    pub retry_after_seconds: i32,
}

/// A cause of a failure (`metav1.StatusCause`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// The machine-readable reason.
    pub reason: Str,
    /// The message.
    pub message: String,
    /// The field.
    pub field: String,
}
