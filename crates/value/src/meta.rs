//! Accessors for `metadata` and type metadata, which every object has.

use crate::{Str, Value};

/// Accessors for an object's identity and metadata.
impl Value {
    /// `kind`, or `""`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.str_at(&["kind"])
    }

    /// `apiVersion`, or `""`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.str_at(&["apiVersion"])
    }

    /// `metadata.name`, or `""`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.str_at(&["metadata", "name"])
    }

    /// `metadata.namespace`, or `""`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.str_at(&["metadata", "namespace"])
    }

    /// `metadata.uid`, or `""`.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.str_at(&["metadata", "uid"])
    }

    /// `metadata.resourceVersion`, or `""`.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.str_at(&["metadata", "resourceVersion"])
    }

    /// `metadata.generation`, or 0.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.int_at(&["metadata", "generation"]).unwrap_or(0)
    }

    /// Returns whether `metadata.deletionTimestamp` is set.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.at(&["metadata", "deletionTimestamp"]).is_some()
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "labels", key]).and_then(Value::as_str)
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "annotations", key]).and_then(Value::as_str)
    }

    /// Sets an annotation.
    pub fn annotate(&mut self, key: &str, value: impl Into<Str>) {
        self.set_at(&["metadata", "annotations", key], value.into());
    }
}
