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

/// A denial by a mutating policy.
#[derive(Debug)]
pub(super) struct Denial {
    pub(super) message: String,
    /// The reason of the status; `Forbidden` by default.
    pub(super) reason: Option<&'static str>,
}

/// The error of mutating policies: the message and the reason of the first denial, and all denials as causes. As in
/// upstream, the code does not follow the reason.
pub(super) fn mutating(attributes: &AdmissionAttributes<'_>, object: &Value, denials: &[Denial]) -> ApiError {
    let forbidden = attributes.forbidden(object, "admission request denied by policy");
    let (ApiError::Forbidden { resource, name, .. }, Some(first)) = (&forbidden, denials.first()) else {
        return forbidden;
    };
    let causes = denials.iter().map(|denial| object! {"message": denial.message.as_str()}).collect();
    let mut details = object! {"name": name.clone(), "kind": resource.resource.clone(), "causes": Value::Array(causes)};
    if !resource.group.is_empty() {
        details.set("group", resource.group.clone());
    }
    let status = object! {
        "status": "Failure",
        "message": first.message.as_str(),
        "reason": first.reason.unwrap_or("Forbidden"),
        "details": details,
        "code": 403,
    };
    ApiError::Denied { message: first.message.clone(), status: Box::new(status) }
}
