//! The server's functions on objects of any kind for plugins (upstream: `admission.ObjectInterfaces`), and the objects
//! of a write at another version.

use std::borrow::Cow;
use std::sync::Arc;

use pintle_registry::{ApiError, BoxFuture, GroupVersion, GroupVersionKind, Resource};
use pintle_value::Value;

use crate::AdmissionAttributes;

/// Converts, decodes and encodes the objects of a write.
pub trait ObjectInterfaces: Send + Sync {
    /// Converts an object to another version of its kind. `resource` is the requested resource.
    fn convert<'a>(
        &'a self,
        resource: &'a Arc<Resource>,
        object: Value,
        kind: &'a GroupVersionKind,
    ) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Decodes a tree that a plugin has made as an object of a kind.
    ///
    /// # Errors
    /// Returns upstream's message if the tree does not match the kind.
    fn decode(
        &self,
        resource: &Arc<Resource>,
        tree: Value,
        kind: &GroupVersionKind,
        decoding: Decoding,
    ) -> Result<Value, String>;

    /// Sets the defaults of a decoded object of a kind.
    fn set_defaults(&self, object: &mut Value, kind: &GroupVersionKind);

    /// Appends the JSON of an object, with the members in the order of the kind's fields.
    fn encode(&self, resource: &Arc<Resource>, object: &Value, kind: &GroupVersionKind, out: &mut Vec<u8>);
}

/// How an object that a plugin has made is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// From JSON. Unknown fields are dropped.
    Lenient,
    /// From JSON. Unknown fields of built-in kinds are an error.
    Strict,
    /// From an unstructured object (upstream: `runtime.DefaultUnstructuredConverter`). Unknown fields are dropped.
    Unstructured,
}

/// Knows no kinds, and leaves objects as they are. For tests of plugins that convert nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoObjects;

impl ObjectInterfaces for NoObjects {
    fn convert<'a>(
        &'a self,
        _: &'a Arc<Resource>,
        object: Value,
        _: &'a GroupVersionKind,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async { Ok(object) })
    }

    fn decode(&self, _: &Arc<Resource>, tree: Value, _: &GroupVersionKind, _: Decoding) -> Result<Value, String> {
        Ok(tree)
    }

    fn set_defaults(&self, _: &mut Value, _: &GroupVersionKind) {}

    fn encode(&self, _: &Arc<Resource>, object: &Value, _: &GroupVersionKind, out: &mut Vec<u8>) {
        pintle_codec::json::encode_into(object, out);
    }
}

/// True if an object is of this kind and version.
fn is_of_kind(object: &Value, kind: &GroupVersionKind) -> bool {
    object.kind() == kind.kind
        && match object.api_version().split_once('/') {
            Some((group, version)) => group == kind.group && version == kind.version,
            None => kind.group.is_empty() && object.api_version() == kind.version,
        }
}

/// The objects of a write at one version (upstream: `admission.VersionedAttributes`).
#[derive(Clone, Debug)]
pub struct VersionedObjects<'a> {
    /// The kind with the version.
    pub kind: GroupVersionKind,
    /// The new object; null for deletes.
    pub object: Cow<'a, Value>,
    /// The old object; null for creates.
    pub old: Cow<'a, Value>,
}

/// Converts an object, unless it is of the kind. Null remains null.
///
/// # Errors
/// See [`ObjectInterfaces::convert`].
pub(crate) async fn convert<'a>(
    attributes: &AdmissionAttributes<'_>,
    object: Cow<'a, Value>,
    kind: &GroupVersionKind,
) -> Result<Cow<'a, Value>, ApiError> {
    if object.is_null() || is_of_kind(&object, kind) {
        return Ok(object);
    }
    let converted = attributes.objects.convert(attributes.resource, object.into_owned(), kind).await?;
    Ok(Cow::Owned(converted))
}

/// Stands in place of an object that does not exist.
pub(crate) static NOTHING: Value = Value::Null;

impl<'a> VersionedObjects<'a> {
    /// Converts the objects of a write, unless they are of the kind.
    ///
    /// # Errors
    /// A conversion failed.
    pub async fn convert(
        attributes: &'a AdmissionAttributes<'_>,
        object: &'a Value,
        kind: GroupVersionKind,
    ) -> Result<Self, ApiError> {
        let old = convert(attributes, Cow::Borrowed(attributes.old.unwrap_or(&NOTHING)), &kind).await?;
        let object = convert(attributes, Cow::Borrowed(object), &kind).await?;
        Ok(Self { kind, object, old })
    }
}

/// The kind of an object as it is now.
pub(crate) fn kind_of(object: &Value) -> GroupVersionKind {
    let GroupVersion { group, version } = GroupVersion::parse(object.api_version()).unwrap_or_default();
    GroupVersionKind::new(group, version, object.kind())
}
