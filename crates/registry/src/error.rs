//! The error type of all code behind the HTTP layer (upstream: `k8s.io/apimachinery/pkg/api/errors`). The server
//! converts it to a `Status` in one place.

use pintle_value::field::quote;
use pintle_value::{Errors, Str, Value};

use crate::{GroupResource, GroupVersionKind};

/// The machine-readable reason of a `Status` (`metav1.StatusReason`).
pub type ErrorReason = &'static str;

/// The number of seconds after which a client may retry.
pub type RetryAfter = u32;

/// An entry of `status.details.causes` (`metav1.StatusCause`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason.
    pub reason: Str,
    /// The message for people.
    pub message: String,
    /// The path of the field; may be empty.
    pub field: String,
}

/// The subject of the message: `pods "x" is `, `pods is `, or nothing for a path.
fn forbidden_subject(resource: &GroupResource, name: &str) -> String {
    match (resource.resource.is_empty() && resource.group.is_empty(), name.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("{resource} is "),
        (false, false) => format!("{resource} {} is ", quote(name)),
    }
}

/// The error of a request. Each variant is a status that clients can distinguish.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApiError {
    /// 400: the request is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 401: the sender cannot be authenticated.
    #[error("Unauthorized")]
    Unauthorized,
    /// 403: `pods "x" is forbidden: why`.
    #[error("{}forbidden: {why}", forbidden_subject(.resource, .name))]
    Forbidden {
        /// The resource.
        resource: GroupResource,
        /// The object's name; may be empty.
        name: Str,
        /// The reason.
        why: String,
        /// Machine-readable causes.
        causes: Vec<Cause>,
    },
    /// The status of a webhook or a policy that denies the request. Its code is at least 400.
    #[error("{message}")]
    Denied {
        /// The message for people.
        message: String,
        /// The whole `Status`.
        status: Box<Value>,
    },
    /// 404 for an object: `pods "x" not found`.
    #[error("{resource} {} not found", quote(.name))]
    NotFound {
        /// The resource.
        resource: GroupResource,
        /// The object's name.
        name: Str,
    },
    /// 404 for a path: `the server could not find the requested resource`.
    #[error("the server could not find the requested resource")]
    NoSuchPath,
    /// 405: there is no route for this method at the path.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// 405: the route exists, but the resource does not support the action.
    #[error("{action} is not supported on resources of kind \"{resource}\"")]
    MethodNotSupported {
        /// The resource.
        resource: GroupResource,
        /// The action that was requested.
        action: Str,
    },
    /// 406: none of the accepted media types can be served. Contains the message.
    #[error("{0}")]
    NotAcceptable(String),
    /// 409: an object with this name exists.
    #[error(
        "{}{resource} {} already exists{}",
        if *.terminating { "object is being deleted: " } else { "" },
        quote(.name),
        if *.generated { ", the server was not able to generate a unique name for the object" } else { "" },
    )]
    AlreadyExists {
        /// The resource.
        resource: GroupResource,
        /// The object's name.
        name: Str,
        /// True if the existing object is terminating.
        terminating: bool,
        /// True if the new object has a `generateName`; the client may retry.
        generated: bool,
    },
    /// 409: the stored object does not match the request. `Operation cannot be fulfilled on pods "x": why`.
    #[error("Operation cannot be fulfilled on {resource} {}: {why}", quote(.name))]
    Conflict {
        /// The resource.
        resource: GroupResource,
        /// The object's name.
        name: Str,
        /// The reason.
        why: String,
    },
    /// 409 for server-side apply: other managers own some of the fields.
    #[error("{message}")]
    ApplyConflict {
        /// The message for people.
        message: String,
        /// One cause per field.
        causes: Vec<Cause>,
    },
    /// 410: the requested resourceVersion is no longer in the history.
    #[error("{message}")]
    Expired {
        /// The message for people.
        message: String,
        /// For lists: a continue token for the rest of the list at the current revision.
        continue_token: Option<String>,
    },
    /// 413: the body is too large.
    #[error("{0}")]
    TooLarge(String),
    /// 415: the media type of the body is not supported. Contains the supported media types.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: {}",
        .0.join(", ")
    )]
    UnsupportedMediaType(Vec<String>),
    /// 415: there is no route at the path for the media type of the body.
    #[error("415: Unsupported Media Type")]
    NoRouteForMediaType,
    /// 422 for an object: `Deployment.apps "x" is invalid: …`.
    #[error("{} {} is invalid: {}", group_kind(.kind), quote(.name), .errors.message())]
    Invalid {
        /// The kind, with its group.
        kind: GroupVersionKind,
        /// The object's name.
        name: Str,
        /// The validation errors.
        errors: Errors,
    },
    /// 422 for a patch that cannot be applied.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable(String),
    /// 429: too many requests.
    #[error("{message}")]
    TooManyRequests {
        /// The message for people.
        message: String,
        /// The time after which the client may retry.
        retry_after: RetryAfter,
        /// Machine-readable causes.
        causes: Vec<Cause>,
    },
    /// 500: a fault of the server. The message is sent to the client, so it must not contain internal details.
    #[error("Internal error occurred: {0}")]
    Internal(String),
    /// 500: some stored objects of a resource cannot be read.
    #[error("{message}")]
    StoreRead {
        /// The message for people.
        message: String,
        /// The resource.
        resource: GroupResource,
        /// One cause per object, with its key as the field.
        causes: Vec<Cause>,
    },
    /// 500 without a reason, as upstream responds for errors without a status. The message is sent to the client.
    #[error("{0}")]
    Unclassified(String),
    /// 500 without a reason: the store did not say whether a write is stored. The message is the store's message, as in
    /// upstream. Clients do not repeat such a write by themselves.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// 503: the server cannot handle the request now.
    #[error("{0}")]
    Unavailable(String),
    /// 503: the store does not accept the change now, for a reason that an operator can remove.
    #[error("the storage is unavailable: {message}")]
    StorageUnavailable {
        /// The reason, for people.
        message: String,
        /// The time after which the client may retry.
        retry_after: RetryAfter,
    },
    /// 503: the process does not have enough memory for the write.
    #[error("{message}")]
    ShortOfMemory {
        /// The message for people.
        message: String,
        /// The time after which the client may retry.
        retry_after: RetryAfter,
    },
    /// 504: the request timed out.
    #[error("Timeout: {message}")]
    Timeout {
        /// The message for people.
        message: String,
        /// The time after which the client may retry.
        retry_after: RetryAfter,
    },
    /// 504: the requested resourceVersion is larger than the current resourceVersion.
    #[error("Timeout: Too large resource version: {asked}, current: {current}")]
    TooLargeResourceVersion {
        /// The requested revision.
        asked: u64,
        /// The current revision.
        current: u64,
        /// The time after which the client may retry.
        retry_after: RetryAfter,
    },
}

fn group_kind(kind: &GroupVersionKind) -> String {
    if kind.group.is_empty() { kind.kind.to_string() } else { format!("{}.{}", kind.kind, kind.group) }
}
