//! The seam where encryption at rest sits: what the server writes is turned into what is stored, and back. Modelled on
//! kube-apiserver's value transformers, which also tell when the stored form is outdated.

use std::fmt;

use bytes::Bytes;

/// A value as it came back from its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The value that was written.
    pub value: Bytes,
    /// The stored form is outdated and should be made anew when the value is next written.
    pub stale: bool,
}

/// Why a value could not be transformed. The text is for the log and names no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransformError(pub String);

/// Turns values into their stored form and back. The key is given so that it can be authenticated along with the value.
///
/// `decode` is called on the thread that commits, so it must not wait for anything outside the process.
pub trait Transformer: fmt::Debug + Send + Sync + 'static {
    /// The stored form of a value.
    fn encode(&self, key: &str, value: Bytes) -> Result<Bytes, TransformError>;

    /// The value of a stored form.
    fn decode(&self, key: &str, stored: Bytes) -> Result<Decoded, TransformError>;
}

/// Stores values as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Transformer for Identity {
    fn encode(&self, _key: &str, value: Bytes) -> Result<Bytes, TransformError> {
        Ok(value)
    }

    fn decode(&self, _key: &str, stored: Bytes) -> Result<Decoded, TransformError> {
        Ok(Decoded { value: stored, stale: false })
    }
}
