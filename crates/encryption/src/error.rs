//! Why a value cannot be encrypted or decrypted. The texts are upstream's and contain neither keys nor values.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Why a value cannot be encrypted or decrypted: a reason of each provider and key that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformError {
    reason: Cow<'static, str>,
    /// The reasons of further attempts.
    others: Vec<Cow<'static, str>>,
}

impl TransformError {
    /// An error with one reason.
    #[must_use]
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), others: Vec::new() }
    }

    /// An error with one reason.
    pub(crate) const fn fixed(reason: &'static str) -> Self {
        Self { reason: Cow::Borrowed(reason), others: Vec::new() }
    }

    /// Adds the reasons of another attempt.
    pub(crate) fn append(&mut self, other: Self) {
        self.others.push(other.reason);
        self.others.extend(other.others);
    }
}

/// The only reason, or all reasons in brackets, each once (upstream: `Aggregate.Error`).
impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = HashSet::new();
        let reasons = std::iter::once(&self.reason).chain(&self.others).map(AsRef::as_ref);
        let reasons: Vec<&str> = reasons.filter(|reason| seen.insert(*reason)).collect();
        match reasons.as_slice() {
            [reason] => f.write_str(reason),
            reasons => write!(f, "[{}]", reasons.join(", ")),
        }
    }
}

impl std::error::Error for TransformError {}
