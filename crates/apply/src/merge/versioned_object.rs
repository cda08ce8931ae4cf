//! Objects at a version, and their conversion to other versions.

use std::borrow::Cow;
use std::sync::LazyLock;

use pintle_value::Value;

use super::UpdateError;
use crate::typed::{Comparison, Duplicates, TypeRef};
use pintle_fieldpath::path::{PathElement, values_equal};
use pintle_fieldpath::set::{FieldSet, Filter};

/// The types and the conversions of a kind (upstream: `merge.Converter`, with the types and ignored fields that the
/// `merge.Updater` needs).
pub trait VersionConverter {
    /// Returns the type of objects at a version, or `None` if the version is not served any more.
    fn type_ref(&self, version: &str) -> Option<TypeRef<'_>>;

    /// Converts an object from one version to another.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError>;

    /// Returns the filter for the fields that count at a version (upstream: `IgnoreFilter`). Without a filter all
    /// fields count.
    fn ignore_filter(&self, _version: &str) -> Option<&Filter> {
        None
    }
}

/// The reason why an object was not converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The version does not exist. Fields that are owned at this version lose their owner.
    #[error("no such version")]
    MissingVersion,
    /// The conversion failed.
    #[error("{0}")]
    Failed(String),
}

/// Fields that are not compared. Nobody owns managed fields, and one of two objects may have none (upstream removes
/// them from both before).
static IGNORED_FIELDS: LazyLock<FieldSet> =
    LazyLock::new(|| [["metadata", "managedFields"].map(PathElement::field)].into_iter().collect());

/// An object at a version.
#[derive(Clone)]
pub(super) struct VersionedObject<'v> {
    converter: &'v dyn VersionConverter,
    type_ref: TypeRef<'v>,
    pub(super) version: Cow<'v, str>,
    pub(super) value: Cow<'v, Value>,
}

impl<'v> VersionedObject<'v> {
    /// Creates an object. Returns an error if the version does not exist.
    pub(super) fn new(
        converter: &'v dyn VersionConverter,
        version: &str,
        value: &'v Value,
    ) -> Result<Self, ConvertError> {
        let type_ref = converter.type_ref(version).ok_or(ConvertError::MissingVersion)?;
        Ok(Self { converter, type_ref, version: Cow::Owned(version.to_owned()), value: Cow::Borrowed(value) })
    }

    fn with(&self, value: Value) -> Self {
        Self {
            converter: self.converter,
            type_ref: self.type_ref,
            version: self.version.clone(),
            value: Cow::Owned(value),
        }
    }

    /// Converts the object to another version.
    pub(super) fn convert(&self, version: &str) -> Result<Self, ConvertError> {
        if version == self.version {
            return Ok(self.clone());
        }
        // A failed conversion and a missing type are distinct errors, so convert before looking up the type.
        let value = self.converter.convert(&self.value, &self.version, version)?;
        let type_ref = self.converter.type_ref(version).ok_or(ConvertError::MissingVersion)?;
        type_ref.validate(&value, Duplicates::Forbidden).map_err(|e| ConvertError::Failed(e.to_string()))?;
        let version = Cow::Owned(version.to_owned());
        Ok(Self { converter: self.converter, type_ref, version, value: Cow::Owned(value) })
    }

    /// Merges a configuration into the object. If nothing changes, both share the same value.
    pub(super) fn merge<'s, M>(&'s self, config: &VersionedObject<'_>) -> Result<VersionedObject<'s>, UpdateError<M>> {
        let merged = self.type_ref.merge(&self.value, &config.value);
        let value = merged.map_err(UpdateError::typed("failed to merge config"))?;
        Ok(VersionedObject {
            converter: self.converter,
            type_ref: self.type_ref,
            version: Cow::Borrowed(&self.version),
            value,
        })
    }

    pub(super) fn compare<M>(&self, new: &VersionedObject<'_>) -> Result<Comparison, UpdateError<M>> {
        if self.shares_value(new) {
            return Ok(Comparison::default());
        }
        let compared = self.type_ref.compare_without(&self.value, &new.value, &IGNORED_FIELDS);
        compared.map_err(UpdateError::typed("failed to compare objects"))
    }

    pub(super) fn remove(&self, items: &FieldSet) -> Self {
        self.with(self.type_ref.remove(&self.value, items))
    }

    pub(super) fn field_set(&self) -> FieldSet {
        self.type_ref.field_set(&self.value)
    }

    /// The field set, including the structs on the way to each field.
    pub(super) fn field_set_with_named_fields(&self) -> FieldSet {
        self.ensure_named_fields_are_members(&self.field_set())
    }

    /// Adds the structs that contain the set's fields.
    pub(super) fn ensure_named_fields_are_members(&self, set: &FieldSet) -> FieldSet {
        self.type_ref.ensure_named_fields_are_members(set)
    }

    pub(super) fn is_same(&self, other: &VersionedObject<'_>) -> bool {
        self.shares_value(other) || values_equal(&self.value, &other.value)
    }

    /// True if both objects borrow the same value.
    fn shares_value(&self, other: &VersionedObject<'_>) -> bool {
        std::ptr::eq(&raw const *self.value, &raw const *other.value)
    }
}
