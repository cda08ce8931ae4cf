//! Converts errors to `metav1.Status` (upstream: apimachinery's `api/errors`). Only this module knows HTTP codes and
//! reasons.

use http::StatusCode;
use pintle_registry::{ApiError, Cause};
use pintle_value::{Object, Value, object};

/// Seconds after which a client may retry with another generated name.
const NAME_RETRY: u32 = 1;

/// An error as a response.
#[derive(Debug)]
pub(crate) struct ErrorStatus {
    /// The HTTP status code.
    pub(crate) code: StatusCode,
    /// The `Status` object.
    pub(crate) status: Value,
    /// The value of `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u32>,
}

/// Maximum length of a status's message and of all its causes, in bytes. Errors repeat the client's input, and
/// conflicts name every field.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// A message whose end is cut off if it is too long.
fn shortened(mut message: String) -> String {
    if message.len() > MAX_TEXT_BYTES {
        let omitted = message.len() - message.floor_char_boundary(MAX_TEXT_BYTES);
        message.truncate(message.floor_char_boundary(MAX_TEXT_BYTES));
        message.push_str(&format!("… and {omitted} bytes more"));
    }
    message
}

/// The response for a webhook's `Status`.
fn denial(status: &Value) -> ErrorStatus {
    let code = status.int_at(&["code"]).and_then(|code| u16::try_from(code).ok());
    let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let retry_after = status.int_at(&["details", "retryAfterSeconds"]).and_then(|seconds| u32::try_from(seconds).ok());
    let mut status = status.clone();
    status.set("kind", "Status");
    status.set("apiVersion", "v1");
    if status.get("metadata").is_none_or(Value::is_null) {
        status.set("metadata", Value::object());
    }
    ErrorStatus { code, status, retry_after: retry_after.filter(|seconds| *seconds > 0) }
}

/// Converts an error to a response.
#[must_use]
pub(crate) fn error_status(error: &ApiError) -> ErrorStatus {
    if let ApiError::Denied { status, .. } = error {
        return denial(status);
    }
    let mut details = Details::default();
    let (code, reason) = match error {
        ApiError::Denied { .. } => (500, ""),
        ApiError::BadRequest(_) => (400, "BadRequest"),
        ApiError::Unauthorized => (401, "Unauthorized"),
        ApiError::Forbidden { resource, name, causes, .. } => {
            details.named(name, &resource.group, &resource.resource);
            details.causes(causes);
            (403, "Forbidden")
        }
        ApiError::NotFound { resource, name } => {
            details.named(name, &resource.group, &resource.resource);
            (404, "NotFound")
        }
        ApiError::NoSuchPath => {
            details.present = true;
            (404, "NotFound")
        }
        ApiError::MethodNotAllowed => {
            details.present = true;
            (405, "MethodNotAllowed")
        }
        ApiError::MethodNotSupported { resource, .. } => {
            details.named("", &resource.group, &resource.resource);
            (405, "MethodNotAllowed")
        }
        ApiError::NotAcceptable(message) => {
            // Upstream's router adds empty details.
            details.present = message.starts_with("406:");
            (406, "NotAcceptable")
        }
        ApiError::AlreadyExists { resource, name, generated, .. } => {
            details.named(name, &resource.group, &resource.resource);
            if *generated {
                details.retry(NAME_RETRY);
            }
            (409, "AlreadyExists")
        }
        ApiError::Conflict { resource, name, .. } => {
            details.named(name, &resource.group, &resource.resource);
            (409, "Conflict")
        }
        ApiError::ApplyConflict { causes, .. } => {
            details.causes(causes);
            (409, "Conflict")
        }
        ApiError::Expired { .. } => (410, "Expired"),
        ApiError::TooLarge(_) => (413, "RequestEntityTooLarge"),
        ApiError::UnsupportedMediaType(_) => (415, "UnsupportedMediaType"),
        ApiError::NoRouteForMediaType => {
            details.present = true;
            (415, "UnsupportedMediaType")
        }
        ApiError::Invalid { kind, name, errors } => {
            details.named(name, &kind.group, &kind.kind);
            let causes: Vec<Cause> = errors
                .iter()
                .map(|e| Cause { reason: e.kind.reason().into(), message: e.body(), field: e.field.clone() })
                .collect();
            details.causes(&causes);
            (422, "Invalid")
        }
        ApiError::Unprocessable(_) => {
            details.present = true;
            (422, "Invalid")
        }
        ApiError::TooManyRequests { retry_after, causes, .. } => {
            if !causes.is_empty() {
                details.causes(causes);
            }
            if *retry_after > 0 {
                details.retry(*retry_after);
            }
            (429, "TooManyRequests")
        }
        ApiError::Internal(message) => {
            details.causes(&[Cause { reason: "".into(), message: message.clone(), field: String::new() }]);
            (500, "InternalError")
        }
        ApiError::StoreRead { resource, causes, .. } => {
            details.named("list", &resource.group, &resource.resource);
            details.causes(causes);
            (500, "StorageReadError")
        }
        ApiError::Unclassified(_) | ApiError::OutcomeUnknown(_) => (500, ""),
        ApiError::Unavailable(_) => (503, "ServiceUnavailable"),
        ApiError::StorageUnavailable { retry_after, .. } | ApiError::ShortOfMemory { retry_after, .. } => {
            details.retry(*retry_after);
            (503, "ServiceUnavailable")
        }
        ApiError::Timeout { retry_after, .. } => {
            details.retry(*retry_after);
            (504, "Timeout")
        }
        ApiError::TooLargeResourceVersion { retry_after, .. } => {
            details.causes(&[Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }]);
            details.retry(*retry_after);
            (504, "Timeout")
        }
    };
    let mut status = object! {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": Value::object(),
        "status": "Failure",
        "message": shortened(error.to_string()),
        "code": i64::from(code),
    };
    if !reason.is_empty() {
        status.set("reason", reason);
    }
    if let ApiError::Expired { continue_token: Some(token), .. } = error {
        status.set_at(&["metadata", "continue"], token.as_str());
    }
    let retry_after = details.retry_after;
    if let Some(details) = details.finish() {
        status.set("details", details);
    }
    ErrorStatus { code: StatusCode::from_u16(code).unwrap_or_default(), status, retry_after }
}

/// Builds `status.details`.
#[derive(Default)]
struct Details {
    present: bool,
    object: Object,
    retry_after: Option<u32>,
}

impl Details {
    fn named(&mut self, name: &str, group: &str, kind: &str) {
        self.present = true;
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.object.insert(key, value);
            }
        }
    }

    fn causes(&mut self, causes: &[Cause]) {
        self.present = true;
        let mut bytes = 0;
        let causes: Vec<Value> = causes
            .iter()
            .take_while(|cause| {
                let is_within = bytes <= MAX_TEXT_BYTES;
                bytes += cause.message.len() + cause.field.len();
                is_within
            })
            .map(|cause| {
                let mut object = Object::new();
                for (key, value) in
                    [("reason", cause.reason.as_str()), ("message", &cause.message), ("field", &cause.field)]
                {
                    if !value.is_empty() {
                        object.insert(key, value);
                    }
                }
                Value::Object(object)
            })
            .collect();
        if !causes.is_empty() {
            self.object.insert("causes", causes);
        }
    }

    fn retry(&mut self, seconds: u32) {
        self.present = true;
        if seconds == 0 {
            return;
        }
        self.retry_after = Some(seconds);
        self.object.insert("retryAfterSeconds", seconds);
    }

    fn finish(self) -> Option<Value> {
        self.present.then_some(Value::Object(self.object))
    }
}

/// A `Status` of success.
#[must_use]
pub(crate) fn success(details: Value) -> Value {
    object! {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": Value::object(),
        "status": "Success",
        "details": details,
    }
}

#[cfg(test)]
mod tests {
    use pintle_registry::GroupResource;

    use super::*;

    #[test]
    fn the_size_of_a_status_is_bounded() {
        let cause = |_| Cause { reason: "".into(), message: "é".repeat(MAX_TEXT_BYTES / 4), field: "f".to_owned() };
        let causes: Vec<Cause> = (0..10).map(cause).collect();
        let message = "é".repeat(MAX_TEXT_BYTES);
        let status = error_status(&ApiError::ApplyConflict { message, causes }).status;
        let message = status.str_at(&["message"]);
        assert!(message.ends_with(&format!("é… and {MAX_TEXT_BYTES} bytes more")), "{}", message.len());
        assert_eq!(status.items_at(&["details", "causes"]).len(), 2);
        assert_eq!(shortened("short".to_owned()), "short");
    }

    #[test]
    fn conflicts_of_generated_names_have_retry_after() {
        let taken = |generated| {
            let resource = GroupResource::new("apps", "deployments");
            error_status(&ApiError::AlreadyExists { resource, name: "a-x".into(), terminating: false, generated })
        };
        let (named, generated) = (taken(false), taken(true));
        assert_eq!((named.retry_after, generated.retry_after), (None, Some(1)));
        let details = object! { "name": "a-x", "group": "apps", "kind": "deployments", "retryAfterSeconds": 1 };
        assert_eq!(generated.status["details"], details);
    }
}
