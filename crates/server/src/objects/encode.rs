//! A tree as bytes: by its type, where it has one, in one of the encodings.

use std::sync::Arc;

use pintle_catalog::Catalog;
use pintle_codec::cbor;
use pintle_registry::Resource;
use pintle_schema::{TypeId, Types};
use pintle_value::Value;

use super::model;
use crate::request::negotiate::Encoding;

/// What orders a tree's fields and numbers them for Protobuf.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// A Go struct.
    Typed(&'a Types, TypeId),
    /// Any JSON, members sorted.
    Untyped,
}

impl<'a> Shape<'a> {
    /// The shape of a resource's objects.
    pub(crate) fn of(resource: &'a Resource) -> Self {
        model(resource).shape(&resource.schema)
    }

    /// The shape of a type of the catalog (`meta/v1.Status`).
    pub(crate) fn named(catalog: &'a Arc<Catalog>, name: &str) -> Self {
        catalog.struct_type(name).map_or(Shape::Untyped, |id| Shape::Typed(catalog.types(), id))
    }
}

/// Encodes a tree. `kind` and `apiVersion` are taken from the tree where the encoding has an envelope.
pub(crate) fn encode(value: &Value, shape: Shape<'_>, encoding: Encoding, pretty: bool) -> Vec<u8> {
    match encoding {
        Encoding::Json => {
            let mut out = json(value, shape);
            if pretty {
                out = pintle_codec::json::indent(&out);
            }
            if out.last() != Some(&b'\n') {
                out.push(b'\n');
            }
            out
        }
        Encoding::Yaml => pintle_codec::yaml::encode(value),
        Encoding::Protobuf => match shape {
            Shape::Typed(types, id) => {
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
        Shape::Typed(types, id) => cbor::encode_typed(value, types, id, out),
        Shape::Untyped => cbor::encode_into(value, out),
    }
}

/// Encodes a tree as JSON without a line's end.
pub(crate) fn json(value: &Value, shape: Shape<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write_json(value, shape, &mut out);
    out
}

/// Appends a tree as JSON.
pub(crate) fn write_json(value: &Value, shape: Shape<'_>, out: &mut Vec<u8>) {
    match shape {
        Shape::Typed(types, id) => pintle_codec::json::encode_typed(value, types, id, out),
        Shape::Untyped => pintle_codec::json::encode_into(value, out),
    }
}
