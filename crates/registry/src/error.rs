//! The one error type of everything behind the HTTP layer. It says what went wrong in the API's own terms; the server
//! turns it into a `Status` at the edge, in one place.

use pintle_value::{Errors, Str};

use crate::{GroupResource, GroupVersionKind};

/// The machine-readable reason of a `Status` (`metav1.StatusReason`).
pub type ErrorReason = &'static str;

/// Seconds after which a client may try again.
pub type RetryAfter = u32;

/// One entry of `status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason.
    pub reason: Str,
    /// The text.
    pub message: String,
    /// The field that it is about; may be empty.
    pub field: String,
}

/// Why a request failed. Each variant is one reason that clients tell apart.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApiError {
    /// 400: the request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// 401: nobody knows who asks.
    #[error("Unauthorized")]
    Unauthorized,
    /// 403 of the resource: `pods "x" is forbidden: why`.
    #[error("{resource} \"{name}\" is forbidden: {why}")]
    Forbidden {
        /// The resource.
        resource: GroupResource,
        /// The object's name; may be empty.
        name: Str,
        /// Why.
        why: String,
        /// Machine-readable causes.
        causes: Vec<Cause>,
    },
    /// 404 of an object: `pods "x" not found`.
    #[error("{resource} \"{name}\" not found")]
    NotFound {
        /// The resource.
        resource: GroupResource,
        /// The object's name.
        name: Str,
    },
    /// 404 of a path: `the server could not find the requested resource`.
    #[error("the server could not find the requested resource")]
    NoSuchPath,
    /// 405: the resource does not have this verb.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// 405: the resource does not have what a path that it has was asked for.
    #[error("{action} is not supported on resources of kind \"{resource}\"")]
    MethodNotSupported {
        /// The resource.
        resource: GroupResource,
        /// What was asked for.
        action: &'static str,
    },
    /// 406: none of the accepted types can be served. Holds the text.
    #[error("{0}")]
    NotAcceptable(String),
    /// 409: there is one of this name already.
    #[error(
        "{}{resource} \"{name}\" already exists{}",
        if *.terminating { "object is being deleted: " } else { "" },
        if *.generated { ", the server was not able to generate a unique name for the object" } else { "" },
    )]
    AlreadyExists {
        /// The resource.
        resource: GroupResource,
        /// The object's name.
        name: Str,
        /// True if that one is being deleted.
        terminating: bool,
        /// True if the object asks for a generated name; the client may try again.
        generated: bool,
    },
    /// 409: the object is not as the request assumes. `Operation cannot be fulfilled on pods "x": why`.
    #[error("Operation cannot be fulfilled on {resource} \"{name}\": {why}")]
    Conflict {
        /// The resource.
        resource: GroupResource,
        /// The object's name.
        name: Str,
        /// Why.
        why: String,
    },
    /// 409 of server-side apply: fields that others own.
    #[error("{message}")]
    ApplyConflict {
        /// The text.
        message: String,
        /// One cause per field.
        causes: Vec<Cause>,
    },
    /// 410: the revision asked for is no longer kept.
    #[error("{message}")]
    Expired {
        /// The text.
        message: String,
        /// For lists: a token to go on with, at the newest revision.
        continue_token: Option<String>,
    },
    /// 413: the body is too large.
    #[error("{0}")]
    TooLarge(String),
    /// 415: the body's media type is not supported. Holds the types that are.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: {}",
        .0.join(", ")
    )]
    UnsupportedMediaType(Vec<String>),
    /// 422 of an object: `Pod.apps "x" is invalid: …`.
    #[error("{} \"{name}\" is invalid: {}", group_kind(.kind), .errors.message())]
    Invalid {
        /// The kind, with its group.
        kind: GroupVersionKind,
        /// The object's name.
        name: Str,
        /// What is wrong with it.
        errors: Errors,
    },
    /// 422 without fields: a patch that cannot be applied.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable(String),
    /// 429: too many requests.
    #[error("{message}")]
    TooManyRequests {
        /// The text.
        message: String,
        /// When to try again.
        retry_after: RetryAfter,
    },
    /// 500: a fault of ours. The text goes to the client, so it holds nothing internal.
    #[error("Internal error occurred: {0}")]
    Internal(String),
    /// 500: some of what is stored of a resource cannot be read.
    #[error("failed to read one or more {resource} from the storage")]
    StoreRead {
        /// The resource.
        resource: GroupResource,
        /// One cause per object, its key being the field.
        causes: Vec<Cause>,
    },
    /// 500 without a reason: what upstream answers for an error that nobody classified. Clients see its text.
    #[error("{0}")]
    Unclassified(String),
    /// 503: not now.
    #[error("{0}")]
    Unavailable(String),
    /// 504: it took too long.
    #[error("Timeout: {message}")]
    Timeout {
        /// The text.
        message: String,
        /// When to try again.
        retry_after: RetryAfter,
    },
    /// 504: a revision from the future was asked for.
    #[error("Timeout: Too large resource version: {asked}, current: {current}")]
    TooLargeResourceVersion {
        /// The revision asked for.
        asked: u64,
        /// The newest one.
        current: u64,
        /// When to try again.
        retry_after: RetryAfter,
    },
}

fn group_kind(kind: &GroupVersionKind) -> String {
    if kind.group.is_empty() { kind.kind.to_string() } else { format!("{}.{}", kind.kind, kind.group) }
}
