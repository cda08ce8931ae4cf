//! The three patch formats as pure functions on trees: JSON Patch (RFC 6902), JSON Merge Patch (RFC 7386) and strategic
//! merge patch. Each has kube-apiserver's leniency and messages. This crate does not know about HTTP.
//!
//! ```
//! use pintle_patch::{JsonPatch, merge_patch, strategic_merge_patch};
//! use pintle_value::Value;
//!
//! let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
//! let document = json(r#"{"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}}"#);
//!
//! let patch = JsonPatch::decode(&json(r#"[{"op": "remove", "path": "/spec/containers/1"}]"#), true).expect("a patch");
//! let expected = json(r#"{"spec": {"containers": [{"name": "a", "image": "x"}]}}"#);
//! assert_eq!(patch.apply(document.clone()).expect("it applies"), expected);
//!
//! // A merge patch replaces a list. A strategic merge patch merges it by the key of the type.
//! let patch = json(r#"{"spec": {"containers": [{"name": "a", "image": "y"}]}}"#);
//! assert_eq!(merge_patch(document.clone(), patch.clone()).expect("it applies"), patch);
//! let catalog = pintle_catalog::shared();
//! let pod = catalog.kind_type("", "v1", "Pod").expect("a kind");
//! let expected = json(r#"{"spec": {"containers": [{"name": "a", "image": "y"}, {"name": "b"}]}}"#);
//! assert_eq!(strategic_merge_patch(document, patch, catalog.types(), pod).expect("it applies"), expected);
//! ```

mod document;
mod from_unstructured;
mod json_patch;
mod merge_patch;
mod remaining_patch;
mod retain_keys;
mod strategic;
mod strategic_list;

pub use from_unstructured::from_unstructured;
pub use json_patch::{JsonPatch, MAX_COPY_BYTES, MAX_DEPTH, MAX_OPERATIONS, Operation};
pub use merge_patch::{check_merge_patch, merge_patch};
pub use remaining_patch::remaining_patch;
pub use strategic::{strategic_merge_patch, validate_strategic_merge_patch};

use pintle_value::Value;

/// The reason why a patch was not applied. It determines the status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchErrorKind {
    /// The patch is malformed: 400 `BadRequest`, with the message.
    Malformed,
    /// The patch has too many operations: 413 `RequestEntityTooLarge`, with the message.
    TooLarge,
    /// The patch does not fit the object: 422 `Invalid`. Upstream does not send the message, but "the server rejected
    /// our request due to an error in our request".
    NotApplicable,
    /// A `test` operation found another value: 422 `Invalid`, like [`NotApplicable`](Self::NotApplicable).
    TestFailed,
    /// A plain Go error upstream: 500 without a reason, with the message.
    Plain,
}

/// An error of applying a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatchError {
    /// The kind of the error.
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

/// Go's error for a value of the wrong JSON type.
fn cannot_unmarshal(value: &Value, go_type: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {go_type}", value.json_type())
}
