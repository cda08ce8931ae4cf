//! Conversion of custom resources by a webhook: the `ConversionReview` request, its response, and the validation of
//! converted objects (upstream: `pkg/apiserver/conversion`). The server sends the request.

mod converted_object;
mod response;
mod review;

pub use converted_object::accept_converted;
pub use response::parse_response;
pub use review::{ConversionReview, ReviewVersion};

use pintle_registry::GroupVersion;
use pintle_value::Value;

/// A failed webhook conversion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConversionError {
    /// The type of the failure.
    pub error_type: ConversionErrorType,
    /// Upstream's message, which clients see.
    pub message: String,
}

/// The type of a conversion failure, as metrics count it (upstream: `conversionWebhookErrorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionErrorType {
    /// The call failed, or the response is not a `ConversionReview`.
    CallFailure,
    /// The response does not match the request, or reports a failure.
    MalformedResponse,
    /// The response has more or fewer objects than the request.
    PartialResponse,
    /// A converted object is invalid.
    InvalidConvertedObject,
}

impl ConversionErrorType {
    /// The value of the metric's label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ConversionErrorType::CallFailure => "conversion_webhook_call_failure",
            ConversionErrorType::MalformedResponse => "conversion_webhook_malformed_response_failure",
            ConversionErrorType::PartialResponse => "conversion_webhook_partial_response_failure",
            ConversionErrorType::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

impl ConversionError {
    /// Creates the error of a failed call about an object.
    #[must_use]
    pub fn call_failed(original: &Value, why: &str) -> Self {
        let message = format!("conversion webhook for {} failed: {why}", format_kind_of(original));
        Self { error_type: ConversionErrorType::CallFailure, message }
    }
}

/// Formats the kind of an object as Go prints a `GroupVersionKind`.
fn format_kind_of(object: &Value) -> String {
    format_kind(object.api_version(), object.kind())
}

/// Formats a kind as Go prints it.
fn format_kind(version: &str, kind: &str) -> String {
    let GroupVersion { group, version } = GroupVersion::parse(version).unwrap_or_default();
    format!("{group}/{version}, Kind={kind}")
}
