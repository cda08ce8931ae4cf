//! The errors of requests that policies deny.

use pintle_registry::ApiError;
use pintle_value::{Str, Value, object};

use crate::AdmissionAttributes;

/// The HTTP status code of a reason (upstream: `reasonToCode`).
fn code(reason: &str) -> i64 {
    match reason {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    }
}

/// The error of a validating policy. It reads like a forbidden request, but has the reason that the policy gives.
pub(super) fn validating(
    attributes: &AdmissionAttributes<'_>,
    object: &Value,
    denial: &str,
    reason: Option<Str>,
) -> ApiError {
    let forbidden = attributes.forbidden(object, denial);
    let message = forbidden.to_string();
    let ApiError::Forbidden { resource, name, .. } = forbidden else { return forbidden };
    let reason = reason.unwrap_or_else(|| Str::const_new("Invalid"));
    let mut details = object! {
        "name": name,
        "kind": resource.resource,
        "causes": Value::Array(vec![object! {"message": denial}]),
    };
    if !resource.group.is_empty() {
        details.set("group", resource.group);
    }
    let status = object! {
        "status": "Failure",
        "message": message.as_str(),
        "code": code(&reason),
        "reason": reason,
        "details": details,
    };
    ApiError::Denied { message, status: Box::new(status) }
}
