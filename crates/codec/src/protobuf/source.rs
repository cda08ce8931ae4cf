//! What messages are made of: trees, or the finished JSON of objects as they are stored. Either is walked in the order of
//! the message's fields.

use std::borrow::Cow;

use pintle_value::{Object, Value};

use crate::json::{self, Marked, Place};

/// The values of a normalised object. A value of a wrong type is read as one that is not there.
pub(super) trait Source<'a>: Copy {
    /// A value.
    type Node: Copy;

    /// What is not there.
    const NULL: Self::Node;

    fn is_null(self, node: Self::Node) -> bool;
    fn is_object(self, node: Self::Node) -> bool;
    fn string(self, node: Self::Node) -> Option<Cow<'a, str>>;
    fn boolean(self, node: Self::Node) -> Option<bool>;
    fn integer(self, node: Self::Node) -> Option<i64>;
    fn float(self, node: Self::Node) -> Option<f64>;
    /// The members of an object; of the maps in it they are sorted.
    fn members(self, node: Self::Node) -> impl Iterator<Item = (Cow<'a, str>, Self::Node)>;
    /// The items of an array.
    fn items(self, node: Self::Node) -> impl Iterator<Item = Self::Node>;
    /// Appends a value as JSON whose members are sorted.
    fn write_json(self, node: Self::Node, out: &mut Vec<u8>);
    /// Appends a set of fields as JSON.
    fn write_fields(self, node: Self::Node, out: &mut Vec<u8>);
}

/// A tree.
#[derive(Clone, Copy)]
pub(super) struct Tree;

impl<'a> Source<'a> for Tree {
    type Node = &'a Value;

    const NULL: &'a Value = &Value::Null;

    fn is_null(self, node: &'a Value) -> bool {
        node.is_null()
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

    fn integer(self, node: &'a Value) -> Option<i64> {
        node.as_int()
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
        json::encode_fields(node, out);
    }
}

/// Finished JSON has its embedded JSON in the form in which it is written here.
impl<'a> Source<'a> for Marked<'a> {
    type Node = Place;

    const NULL: Place = Place::NONE;

    fn is_null(self, node: Place) -> bool {
        Marked::is_null(&self, node)
    }

    fn is_object(self, node: Place) -> bool {
        Marked::is_object(&self, node)
    }

    fn string(self, node: Place) -> Option<Cow<'a, str>> {
        Marked::string(&self, node)
    }

    fn boolean(self, node: Place) -> Option<bool> {
        self.word(node).and_then(|word| word.parse().ok())
    }

    fn integer(self, node: Place) -> Option<i64> {
        Marked::integer(&self, node)
    }

    fn float(self, node: Place) -> Option<f64> {
        self.word(node).and_then(|word| word.parse().ok())
    }

    fn members(self, node: Place) -> impl Iterator<Item = (Cow<'a, str>, Place)> {
        Marked::members(self, node)
    }

    fn items(self, node: Place) -> impl Iterator<Item = Place> {
        Marked::items(self, node)
    }

    fn write_json(self, node: Place, out: &mut Vec<u8>) {
        out.extend_from_slice(self.json(node).as_bytes());
    }

    fn write_fields(self, node: Place, out: &mut Vec<u8>) {
        out.extend_from_slice(self.json(node).as_bytes());
    }
}
