//! Encodes trees by their Go type, or as unstructured objects, in any of the encodings.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use pintle_catalog::Catalog;
use pintle_codec::cbor;
use pintle_registry::Resource;
use pintle_schema::{TypeId, Types};
use pintle_value::Value;

use super::model;
use crate::request::negotiate::Encoding;

thread_local! {
    /// The thread's buffer for [`encode_exact`].
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Maximum capacity of the buffer between two uses, in bytes.
const MAX_RETAINED_BYTES: usize = 64 * 1024;

/// Returns the bytes that `write` appends, without spare capacity. It uses a buffer of the thread, because the length
/// is unknown.
pub(crate) fn encode_exact(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut buffer = BUFFER.take();
    write(&mut buffer);
    let bytes = Bytes::copy_from_slice(&buffer);
    buffer.clear();
    buffer.shrink_to(MAX_RETAINED_BYTES);
    BUFFER.set(buffer);
    bytes
}

/// Determines the order of a tree's fields and their Protobuf numbers.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// The fields of a Go struct.
    Typed(&'a Types, TypeId),
    /// The fields of a Go struct that is made from unstructured JSON. So the members of its field sets are sorted.
    TypedFromUntyped(&'a Types, TypeId),
    /// Unstructured JSON with sorted members.
    Untyped,
}

impl<'a> Shape<'a> {
    /// The shape of a resource's objects.
    pub(crate) fn of(resource: &'a Resource) -> Self {
        model(resource).shape(&resource.schema)
    }

    /// The shape of the partial objects of a resource.
    pub(crate) fn partial(resource: &'a Resource, catalog: &'a Arc<Catalog>) -> Self {
        match (Self::of(resource), Self::named(catalog, "meta/v1.PartialObjectMetadata")) {
            (Shape::Untyped, Shape::Typed(types, id)) => Shape::TypedFromUntyped(types, id),
            (_, partial) => partial,
        }
    }

    /// The shape of a type of the catalog (`meta/v1.Status`).
    pub(crate) fn named(catalog: &'a Arc<Catalog>, name: &str) -> Self {
        catalog.struct_type(name).map_or(Shape::Untyped, |id| Shape::Typed(catalog.types(), id))
    }
}

/// Encodes a tree. The `kind` and `apiVersion` of an envelope are taken from the tree.
pub(crate) fn encode(value: &Value, shape: Shape<'_>, encoding: Encoding, pretty: bool) -> Vec<u8> {
    match encoding {
        Encoding::Json => {
            let mut out = json(value, shape);
            if pretty {
                // Indented JSON does not end with a line break.
                return pintle_codec::json::indent(&out);
            }
            if out.last() != Some(&b'\n') {
                out.push(b'\n');
            }
            out
        }
        Encoding::Yaml => pintle_codec::yaml::encode(value),
        Encoding::Protobuf => match shape {
            Shape::Typed(types, id) | Shape::TypedFromUntyped(types, id) => {
                let mut out = Vec::with_capacity(1024);
                pintle_codec::protobuf::encode_object(value, types, id, &mut out);
                out
            }
            Shape::Untyped => json(value, shape),
        },
        Encoding::Cbor => {
            let mut out = cbor::SELF_DESCRIBED.to_vec();
            write_cbor(value, shape, &mut out);
            out
        }
    }
}

/// Appends a tree as CBOR.
pub(crate) fn write_cbor(value: &Value, shape: Shape<'_>, out: &mut Vec<u8>) {
    match shape {
        Shape::Typed(types, id) | Shape::TypedFromUntyped(types, id) => cbor::encode_typed(value, types, id, out),
        Shape::Untyped => cbor::encode_into(value, out),
    }
}

/// Encodes a tree as JSON without a trailing newline.
pub(crate) fn json(value: &Value, shape: Shape<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write_json(value, shape, &mut out);
    out
}

/// Appends a tree as JSON.
pub(crate) fn write_json(value: &Value, shape: Shape<'_>, out: &mut Vec<u8>) {
    match shape {
        Shape::Typed(types, id) => pintle_codec::json::encode_typed(value, types, id, out),
        Shape::TypedFromUntyped(types, id) => {
            pintle_codec::json::encode_typed_from_unstructured(value, types, id, out);
        }
        Shape::Untyped => pintle_codec::json::encode_into(value, out),
    }
}
