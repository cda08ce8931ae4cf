//! The errors of values that do not match their type.

use std::fmt;

use pintle_budget as budget;

use pintle_fieldpath::path::PathElement;

/// One reason why a value does not match its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// The path; empty for the object itself.
    pub path: String,
    /// Upstream's message.
    pub message: String,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// All reasons why a value does not match its type. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationErrors(pub Vec<ValidationError>);

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ValidationErrors {}

/// Collects errors during a walk.
#[derive(Default)]
pub(super) struct ErrorCollector(Vec<ValidationError>);

impl From<ValidationErrors> for ErrorCollector {
    fn from(errors: ValidationErrors) -> Self {
        Self(errors.0)
    }
}

impl ErrorCollector {
    /// Adds an error at the current path.
    pub(super) fn add(&mut self, message: impl Into<String>) {
        let error = ValidationError { path: String::new(), message: message.into() };
        // Every item of a large list may be of the wrong type. Without the error, the request fails by its budget.
        if budget::charge(size_of::<ValidationError>() + error.message.len()).is_ok() {
            self.0.push(error);
        }
    }

    /// Adds the errors of a walk one step down.
    pub(super) fn add_prefixed(&mut self, element: &PathElement, below: ErrorCollector) {
        if !below.0.is_empty() {
            let prefix = element.to_string();
            self.0.extend(below.0.into_iter().map(|e| ValidationError { path: format!("{prefix}{}", e.path), ..e }));
        }
    }

    /// The number of errors.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a step to the front of the paths of all errors but the first `before`, which a walk one step down has
    /// added.
    pub(super) fn prefix_after(&mut self, before: usize, element: &PathElement) {
        if self.0.len() > before {
            let prefix = element.to_string();
            self.0[before..].iter_mut().for_each(|error| error.path.insert_str(0, &prefix));
        }
    }

    /// Adds the errors of a walk at the same path.
    pub(super) fn extend(&mut self, more: ErrorCollector) {
        self.0.extend(more.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value, or the errors if there are any.
    pub(super) fn into_result<T>(self, value: T) -> Result<T, ValidationErrors> {
        if self.0.is_empty() { Ok(value) } else { Err(ValidationErrors(self.0)) }
    }
}
