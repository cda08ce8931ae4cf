//! The inputs of the Protobuf encoder: trees, or the stored JSON of objects. Both are read in the order of the
//! message's fields.

use std::borrow::Cow;

use pintle_value::print::json_float;
use pintle_value::{Object, Value};

use crate::json::{self, IndexedJson, ValueIndex};

/// Access to the values of a normalised object. A value of the wrong type reads as missing.
pub(super) trait ValueSource<'a>: Copy {
    /// A reference to a value.
    type Node: Copy;

    /// A missing value.
    const MISSING: Self::Node;
    /// Whether the members of structs are in the order in which their JSON has them.
    const IS_ORDERED: bool;

    /// True for null, and for a missing value.
    fn is_null(self, node: Self::Node) -> bool;
    /// True for a missing value.
    fn is_missing(self, node: Self::Node) -> bool;
    fn is_object(self, node: Self::Node) -> bool;
    fn string(self, node: Self::Node) -> Option<Cow<'a, str>>;
    fn boolean(self, node: Self::Node) -> Option<bool>;
    fn integer(self, node: Self::Node) -> Option<i64>;
    fn float(self, node: Self::Node) -> Option<f64>;
    /// The members of an object. The members of a map are sorted.
    fn members(self, node: Self::Node) -> impl Iterator<Item = (Cow<'a, str>, Self::Node)>;
    /// The items of an array.
    fn items(self, node: Self::Node) -> impl Iterator<Item = Self::Node>;
    /// Appends a value as JSON with sorted members.
    fn write_json(self, node: Self::Node, out: &mut Vec<u8>);
    /// Appends a field set as JSON.
    fn write_fields(self, node: Self::Node, out: &mut Vec<u8>);
}

/// Reads a tree.
#[derive(Clone, Copy)]
pub(super) struct TreeSource;

/// A missing value. Its address distinguishes it from the nulls of a tree.
static MISSING: Value = Value::Null;

impl<'a> ValueSource<'a> for TreeSource {
    type Node = &'a Value;

    const MISSING: &'a Value = &MISSING;
    // Trees are sorted, and written in the order of the schema.
    const IS_ORDERED: bool = false;

    fn is_null(self, node: &'a Value) -> bool {
        node.is_null()
    }

    fn is_missing(self, node: &'a Value) -> bool {
        std::ptr::eq(node, &MISSING)
    }

    fn is_object(self, node: &'a Value) -> bool {
        matches!(node, Value::Object(_))
    }

    fn string(self, node: &'a Value) -> Option<Cow<'a, str>> {
        node.as_str().map(Cow::Borrowed)
    }

    fn boolean(self, node: &'a Value) -> Option<bool> {
        node.as_bool()
    }

    /// A float that is an integer is written as one in JSON.
    fn integer(self, node: &'a Value) -> Option<i64> {
        let of_float = || node.as_float().and_then(|float| json_float(float).parse().ok());
        node.as_int().or_else(of_float)
    }

    fn float(self, node: &'a Value) -> Option<f64> {
        node.as_float()
    }

    fn members(self, node: &'a Value) -> impl Iterator<Item = (Cow<'a, str>, &'a Value)> {
        let members = node.as_object().into_iter().flat_map(Object::iter);
        members.map(|(name, value)| (Cow::Borrowed(name), value))
    }

    fn items(self, node: &'a Value) -> impl Iterator<Item = &'a Value> {
        node.as_array().into_iter().flatten()
    }

    fn write_json(self, node: &'a Value, out: &mut Vec<u8>) {
        json::encode_into(node, out);
    }

    fn write_fields(self, node: &'a Value, out: &mut Vec<u8>) {
        json::encode_fields_v1(node, out);
    }
}

/// Embedded values in stored JSON already have the format that the message needs, so they are copied.
impl<'a> ValueSource<'a> for IndexedJson<'a> {
    type Node = ValueIndex;

    const MISSING: ValueIndex = ValueIndex::NONE;
    const IS_ORDERED: bool = true;

    fn is_null(self, node: ValueIndex) -> bool {
        IndexedJson::is_null(&self, node)
    }

    fn is_missing(self, node: ValueIndex) -> bool {
        node == ValueIndex::NONE
    }

    fn is_object(self, node: ValueIndex) -> bool {
        IndexedJson::is_object(&self, node)
    }

    fn string(self, node: ValueIndex) -> Option<Cow<'a, str>> {
        IndexedJson::string(&self, node)
    }

    fn boolean(self, node: ValueIndex) -> Option<bool> {
        self.literal(node).and_then(|literal| literal.parse().ok())
    }

    fn integer(self, node: ValueIndex) -> Option<i64> {
        IndexedJson::integer(&self, node)
    }

    fn float(self, node: ValueIndex) -> Option<f64> {
        self.literal(node).and_then(|literal| literal.parse().ok())
    }

    fn members(self, node: ValueIndex) -> impl Iterator<Item = (Cow<'a, str>, ValueIndex)> {
        IndexedJson::members(self, node)
    }

    fn items(self, node: ValueIndex) -> impl Iterator<Item = ValueIndex> {
        IndexedJson::items(self, node)
    }

    fn write_json(self, node: ValueIndex, out: &mut Vec<u8>) {
        out.extend_from_slice(self.json(node).as_bytes());
    }

    fn write_fields(self, node: ValueIndex, out: &mut Vec<u8>) {
        out.extend_from_slice(self.json(node).as_bytes());
    }
}
