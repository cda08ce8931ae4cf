//! The `fieldsV1` serialization of a set: a JSON object whose keys are path elements and whose values are the sets
//! below them. The key `.`, or an empty object, says that the path itself is a member.

use pintle_value::{Object, Str, Value};

use super::text::read_text;
use super::{FieldSet, Node, decoded};
use crate::path::{PathElement, PathElementError, write_json_string};

/// The reason why JSON is not a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsV1Error {
    /// A key is not a path element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] PathElementError),
    /// A value is neither an object nor null.
    #[error("expect {{ or n, but found another value")]
    NotAnObject,
    /// The text is not JSON.
    #[error("{0}")]
    Syntax(String),
}

impl FieldSet {
    /// Encodes the set as JSON text, byte for byte as upstream.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(64 * self.nodes().len());
        let mut text = String::new();
        self.write(&mut out, &mut text, false);
        out
    }

    fn write(&self, out: &mut String, text: &mut String, member: bool) {
        out.push('{');
        let mut first = true;
        // An empty object means a member, so `.` is only needed if the node has children.
        if member && !self.is_empty() {
            out.push_str("\".\":{}");
            first = false;
        }
        for node in self.nodes() {
            if !first {
                out.push(',');
            }
            first = false;
            text.clear();
            node.element.serialize_into(text);
            write_json_string(out, text, false);
            out.push(':');
            node.children.write(out, text, node.member);
        }
        out.push('}');
    }

    /// Decodes a set from JSON text.
    pub fn decode(text: &str) -> Result<Self, FieldsV1Error> {
        if let Some(read) = read_text(text) {
            return Ok(read?);
        }
        let value = serde_json::from_str(text).map_err(|e| FieldsV1Error::Syntax(e.to_string()))?;
        Self::from_value(&value)
    }

    /// Converts the set to a JSON value, which is kept as text if its keys are plain. The keys of objects are sorted by
    /// bytes, which differs from the order of [`Self::encode`].
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self.to_encoded() {
            Some(encoded) => Value::Object(encoded.into()),
            None => self.to_tree(false, &mut String::new()),
        }
    }

    fn to_tree(&self, member: bool, text: &mut String) -> Value {
        if self.is_empty() {
            return Value::object();
        }
        let mut entries = Vec::with_capacity(self.nodes().len() + usize::from(member));
        if member {
            entries.push((Str::const_new("."), Value::object()));
        }
        for node in self.nodes() {
            text.clear();
            node.element.serialize_into(text);
            entries.push((Str::from(text.as_str()), node.children.to_tree(node.member, text)));
        }
        Value::Object(Object::from_entries(entries))
    }

    /// True if a JSON value is what [`Self::to_value`] would return. May be false for an equal object whose keys are
    /// not in the order of the elements.
    #[must_use]
    pub fn is_serialized_as(&self, value: &Value) -> bool {
        if let Some(encoded) = value.as_object().and_then(Object::encoded) {
            if let Some(decoded) = decoded::get(encoded.text()) {
                return decoded.is_canonical && decoded.set == *self;
            }
            if let Some(own) = self.to_encoded() {
                return own.text() == encoded.text();
            }
        }
        self.matches_tree(value, false, &mut String::new())
    }

    fn matches_tree(&self, tree: &Value, member: bool, text: &mut String) -> bool {
        let Value::Object(entries) = tree else { return false };
        let dot = member && !self.is_empty();
        if entries.len() != self.nodes().len() + usize::from(dot) || dot != entries.contains_key(".") {
            return false;
        }
        let keys = entries.iter().filter(|(key, _)| *key != ".");
        self.nodes().iter().zip(keys).all(|(node, (key, below))| {
            let is_key = match &node.element {
                PathElement::Field(name) => key.strip_prefix("f:") == Some(name.as_str()),
                element => {
                    text.clear();
                    element.serialize_into(text);
                    key == text
                }
            };
            is_key && node.children.matches_tree(below, node.member, text)
        })
    }

    /// Decodes a set from a JSON value. Null is the empty set. Elements of unknown variants are skipped.
    pub fn from_value(value: &Value) -> Result<Self, FieldsV1Error> {
        if let Some(encoded) = value.as_object().and_then(Object::encoded) {
            if let Some(decoded) = decoded::get(encoded.text()) {
                return Ok(decoded.set);
            }
            if let Some(read) = read_text(encoded.text()) {
                let set = read?;
                decoded::insert(encoded.text(), &set);
                return Ok(set);
            }
        }
        Ok(read(value)?.0)
    }
}

/// Decodes the set below a path, and whether the path itself is a member.
fn read(value: &Value) -> Result<(FieldSet, bool), FieldsV1Error> {
    let object = match value {
        Value::Object(object) => object,
        Value::Null => return Ok((FieldSet::new(), true)),
        _ => return Err(FieldsV1Error::NotAnObject),
    };
    let mut member = false;
    let mut nodes = Vec::with_capacity(object.len());
    for (key, below) in object.iter() {
        if key == "." {
            member = true;
        } else if let Some(element) = PathElement::deserialize(key)? {
            let (children, member) = read(below)?;
            nodes.push(Node { element, member, children });
        }
    }
    if !nodes.is_sorted_by(|a, b| a.element < b.element) {
        nodes = sorted(nodes);
    }
    member |= nodes.is_empty();
    Ok((FieldSet::of(nodes), member))
}

/// Sorts nodes, and merges nodes whose keys are different texts of the same element (`v:1` and `v:1.0`).
pub(super) fn sorted(mut nodes: Vec<Node>) -> Vec<Node> {
    nodes.sort_by(|a, b| a.element.cmp(&b.element));
    nodes.dedup_by(|later, earlier| {
        let same = later.element == earlier.element;
        if same {
            earlier.member |= later.member;
            if !later.children.is_empty() {
                earlier.children = std::mem::take(&mut later.children);
            }
        }
        same
    });
    nodes
}
