//! Objects at a version, and the way to another.

use std::borrow::Cow;

use pintle_value::Value;

use super::UpdateError;
use crate::path::same_value;
use crate::set::{FieldSet, Filter};
use crate::typed::{Comparison, Duplicates, Place};

/// The versions of a kind of objects: all that there is to know of it.
pub trait Versions {
    /// The type of objects at a version; `None` for a version that is not served (any more).
    fn place(&self, version: &str) -> Option<Place<'_>>;

    /// Converts an object from one version to another one.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError>;

    /// What of a request counts at a version. All counts where nothing is said.
    fn filter(&self, _version: &str) -> Option<&Filter> {
        None
    }
}

/// Why an object was not converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The version is not there. What was owned at it is forgotten.
    #[error("no such version")]
    MissingVersion,
    /// The conversion failed.
    #[error("{0}")]
    Failed(String),
}

/// An object at a version.
#[derive(Clone)]
pub(super) struct Object<'v> {
    versions: &'v dyn Versions,
    place: Place<'v>,
    pub(super) version: Cow<'v, str>,
    pub(super) value: Cow<'v, Value>,
}

impl<'v> Object<'v> {
    /// An object at a version that must be there.
    pub(super) fn new(versions: &'v dyn Versions, version: &str, value: &'v Value) -> Result<Self, ConvertError> {
        let place = versions.place(version).ok_or(ConvertError::MissingVersion)?;
        Ok(Self { versions, place, version: Cow::Owned(version.to_owned()), value: Cow::Borrowed(value) })
    }

    fn with(&self, value: Value) -> Self {
        Self { versions: self.versions, place: self.place, version: self.version.clone(), value: Cow::Owned(value) }
    }

    /// The object at another version.
    pub(super) fn convert(&self, version: &str) -> Result<Self, ConvertError> {
        if version == self.version {
            return Ok(self.clone());
        }
        // What cannot be converted to is told apart from what there is no type of.
        let value = self.versions.convert(&self.value, &self.version, version)?;
        let place = self.versions.place(version).ok_or(ConvertError::MissingVersion)?;
        place.validate(&value, Duplicates::Forbidden).map_err(|e| ConvertError::Failed(e.to_string()))?;
        let version = Cow::Owned(version.to_owned());
        Ok(Self { versions: self.versions, place, version, value: Cow::Owned(value) })
    }

    /// The object with a configuration put over it. Where that changes nothing, both borrow the same value.
    pub(super) fn merge<'s, M>(&'s self, config: &Object<'_>) -> Result<Object<'s>, UpdateError<M>> {
        let merged = self.place.merge(&self.value, &config.value);
        let value = merged.map_err(UpdateError::typed("failed to merge config"))?;
        Ok(Object { versions: self.versions, place: self.place, version: Cow::Borrowed(&self.version), value })
    }

    pub(super) fn compare<M>(&self, new: &Object<'_>) -> Result<Comparison, UpdateError<M>> {
        if self.is_identical(new) {
            return Ok(Comparison::default());
        }
        let compared = self.place.compare(&self.value, &new.value);
        compared.map_err(UpdateError::typed("failed to compare objects"))
    }

    pub(super) fn remove(&self, items: &FieldSet) -> Self {
        self.with(self.place.remove(&self.value, items))
    }

    pub(super) fn field_set(&self) -> FieldSet {
        self.place.field_set(&self.value)
    }

    /// The field set with the structs in it.
    pub(super) fn named_field_set(&self) -> FieldSet {
        self.named(&self.field_set())
    }

    /// A set of this object's fields, with the structs in it.
    pub(super) fn named(&self, set: &FieldSet) -> FieldSet {
        self.place.with_named_fields(set)
    }

    pub(super) fn is_same(&self, other: &Object<'_>) -> bool {
        self.is_identical(other) || same_value(&self.value, &other.value)
    }

    /// True if two objects share their value.
    fn is_identical(&self, other: &Object<'_>) -> bool {
        std::ptr::eq(&raw const *self.value, &raw const *other.value)
    }
}
