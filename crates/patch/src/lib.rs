//! The three patches that a client can send, as pure functions on trees: JSON Patch (RFC 6902), JSON Merge Patch
//! (RFC 7386) and strategic merge patch, each with the leniencies and the words of kube-apiserver. Knows nothing of HTTP.

mod convert;
mod json_patch;
mod merge_patch;
mod opened;
mod retain_keys;
mod spent;
mod strategic;
mod strategic_list;

pub use convert::convert;
pub use json_patch::{JsonPatch, MAX_COPY_BYTES, MAX_DEPTH, MAX_OPERATIONS, Operation};
pub use merge_patch::{check_merge_patch, merge_patch};
pub use spent::spent;
pub use strategic::{check_strategic_patch, strategic};

use pintle_value::Value;

/// Whose fault it is that a patch was not applied, which decides the answer's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchErrorKind {
    /// The patch is malformed: 400 `BadRequest`, with the message.
    Malformed,
    /// The patch has too many operations: 413 `RequestEntityTooLarge`, with the message.
    TooLarge,
    /// The patch does not fit the object: 422 `Invalid`. Upstream keeps the message to itself and says "the server
    /// rejected our request due to an error in our request".
    NotApplicable,
    /// What upstream returns as a plain error: 500 without a reason, with the message.
    Plain,
}

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatchError {
    /// Whose fault it is.
    pub kind: PatchErrorKind,
    /// Upstream's message.
    pub message: String,
}

impl PatchError {
    fn new(kind: PatchErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    fn malformed(message: impl Into<String>) -> Self {
        Self::new(PatchErrorKind::Malformed, message)
    }

    fn plain(message: impl Into<String>) -> Self {
        Self::new(PatchErrorKind::Plain, message)
    }
}

/// How Go's JSON decoder names the kind of a value that it could not use.
const fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Go's error for a value of the wrong kind.
fn cannot_unmarshal(value: &Value, go_type: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {go_type}", json_kind(value))
}
