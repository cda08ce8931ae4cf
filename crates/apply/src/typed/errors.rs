//! Where and why a value does not fit its type.

use std::fmt;

use crate::path::PathElement;

/// One reason why a value does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// Where, as paths print; empty for the object itself.
    pub path: String,
    /// Why, in upstream's words.
    pub message: String,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// All reasons why a value does not fit its type; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeErrors(pub Vec<TypeError>);

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for TypeErrors {}

/// Errors while they are collected.
#[derive(Default)]
pub(super) struct Collected(Vec<TypeError>);

impl Collected {
    /// Adds an error at the place that is walked.
    pub(super) fn add(&mut self, message: impl Into<String>) {
        self.0.push(TypeError { path: String::new(), message: message.into() });
    }

    /// Adds the errors of a walk one step down.
    pub(super) fn add_below(&mut self, element: &PathElement, below: Collected) {
        if !below.0.is_empty() {
            let prefix = element.to_string();
            self.0.extend(below.0.into_iter().map(|e| TypeError { path: format!("{prefix}{}", e.path), ..e }));
        }
    }

    /// Adds the errors of a walk at the same place.
    pub(super) fn extend(&mut self, more: Collected) {
        self.0.extend(more.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, unless there was an error.
    pub(super) fn unless<T>(self, value: T) -> Result<T, TypeErrors> {
        if self.0.is_empty() { Ok(value) } else { Err(TypeErrors(self.0)) }
    }
}
