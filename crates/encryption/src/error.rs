//! Why a value cannot be encrypted or decrypted. The texts are upstream's and contain neither keys nor values.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::kms::{KmsError, MissingDek, NO_GRPC_STATUS};
use crate::metrics::Recorder;

/// Why a value cannot be encrypted or decrypted: a reason of each provider and key that was tried.
#[derive(Clone, Debug)]
pub struct TransformError {
    reason: Cow<'static, str>,
    /// The reasons of further attempts.
    others: Vec<Cow<'static, str>>,
    missing: Option<Box<MissingDek>>,
    /// The name of the code of a plugin's error.
    status: Option<Cow<'static, str>>,
}

impl TransformError {
    /// An error with one reason.
    #[must_use]
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), others: Vec::new(), missing: None, status: None }
    }

    /// An error with one reason.
    pub(crate) const fn fixed(reason: &'static str) -> Self {
        Self { reason: Cow::Borrowed(reason), others: Vec::new(), missing: None, status: None }
    }

    /// An error that is gone once a KMS plugin has decrypted the key of the value.
    pub(crate) fn missing_dek(missing: MissingDek) -> Self {
        let missing = Some(Box::new(missing));
        Self { missing, ..Self::fixed("the KMS plugin has not decrypted the DEK yet") }
    }

    /// The error of a plugin that cannot decrypt a DEK.
    pub(crate) fn of_plugin(error: KmsError) -> Self {
        let reason = format!("failed to decrypt DEK, error: {error}");
        Self { status: Some(error.status), ..Self::new(reason) }
    }

    /// The status in metrics (`getErrorCode`).
    pub(crate) fn status(&self) -> Cow<'static, str> {
        self.status.clone().filter(|_| self.others.is_empty()).unwrap_or(NO_GRPC_STATUS.into())
    }

    /// Lets a failure of the plugin be recorded.
    pub(crate) fn record_missing(&mut self, recorder: &Arc<Recorder>) {
        if let Some(missing) = &mut self.missing {
            missing.record_failure_in(recorder.clone());
        }
    }

    /// The key that a KMS plugin has to decrypt before the value can be decrypted, if that is the reason.
    #[must_use]
    pub fn missing(&self) -> Option<&MissingDek> {
        self.missing.as_deref()
    }

    /// Adds the reasons of another attempt.
    pub(crate) fn append(&mut self, other: Self) {
        self.others.push(other.reason);
        self.others.extend(other.others);
        self.missing = self.missing.take().or(other.missing);
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
