//! Objects from one version to another by a webhook (upstream: `pkg/apiserver/conversion`): what it is asked, what it may
//! answer, and what of that is taken. The asking is the server's.

mod accept;
mod answer;
mod review;

pub use accept::accept;
pub use answer::answered;
pub use review::{Review, ReviewVersion};

use pintle_registry::GroupVersion;
use pintle_value::Value;

/// Why a webhook converted nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of fault it was.
    pub fault: Fault,
    /// Upstream's words for it, which clients see.
    pub message: String,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There was no answer, or one that is no review.
    Call,
    /// The answer is not to the question, or says no.
    Response,
    /// There are more or fewer objects in it than were asked about.
    Count,
    /// One of the objects is not what it should be.
    Object,
}

impl Fault {
    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Call => "conversion_webhook_call_failure",
            Fault::Response => "conversion_webhook_malformed_response_failure",
            Fault::Count => "conversion_webhook_partial_response_failure",
            Fault::Object => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

impl Failure {
    /// The failure of a call about an object.
    #[must_use]
    pub fn of_call(original: &Value, why: &str) -> Self {
        let message = format!("conversion webhook for {} failed: {why}", named(original));
        Self { fault: Fault::Call, message }
    }
}

/// What an object is, as Go prints a `GroupVersionKind`.
fn named(object: &Value) -> String {
    kind_of(object.api_version(), object.kind())
}

/// A kind as Go prints it.
fn kind_of(version: &str, kind: &str) -> String {
    let GroupVersion { group, version } = GroupVersion::parse(version).unwrap_or_default();
    format!("{group}/{version}, Kind={kind}")
}
