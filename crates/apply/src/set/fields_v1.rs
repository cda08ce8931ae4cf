//! `fieldsV1`: a set as JSON. A path element is a key, with what is below it as the value; the key `.` says that the path
//! so far is itself a member, which an empty object says too.

use pintle_value::{Object, Str, Value};

use super::{FieldSet, Node};
use crate::path::{PathElement, TextError, write_json_string};

/// Why JSON is not a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A key is not an element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] TextError),
    /// Something other than an object stands where one must be.
    #[error("expect {{ or n, but found another value")]
    NotAnObject,
    /// The text is not JSON.
    #[error("{0}")]
    Syntax(String),
}

impl FieldSet {
    /// The set as JSON text, byte for byte as upstream writes it.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(64 * self.nodes.len());
        let mut text = String::new();
        self.write(&mut out, &mut text, false);
        out
    }

    fn write(&self, out: &mut String, text: &mut String, member: bool) {
        out.push('{');
        let mut first = true;
        // An empty object alone says that its path is a member.
        if member && !self.nodes.is_empty() {
            out.push_str("\".\":{}");
            first = false;
        }
        for node in &self.nodes {
            if !first {
                out.push(',');
            }
            first = false;
            text.clear();
            node.element.write_text(text);
            write_json_string(out, text, false);
            out.push(':');
            node.children.write(out, text, node.member);
        }
        out.push('}');
    }

    /// Reads a set from JSON text.
    pub fn decode(text: &str) -> Result<Self, FieldsError> {
        let value = serde_json::from_str(text).map_err(|e| FieldsError::Syntax(e.to_string()))?;
        Self::from_value(&value)
    }

    /// The set as a tree. The keys of trees are sorted by their bytes, which is not quite the order of [`Self::encode`].
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.tree(false)
    }

    fn tree(&self, member: bool) -> Value {
        let mut entries = Vec::with_capacity(self.nodes.len() + 1);
        if member && !self.nodes.is_empty() {
            entries.push((Str::const_new("."), Value::object()));
        }
        for node in &self.nodes {
            let mut text = String::new();
            node.element.write_text(&mut text);
            entries.push((Str::from(text), node.children.tree(node.member)));
        }
        Value::Object(Object::from_entries(entries))
    }

    /// True if a tree is what [`Self::to_value`] makes, which it then need not make. May say no of a tree whose keys are not
    /// in the order of the elements.
    #[must_use]
    pub fn is_written_as(&self, tree: &Value) -> bool {
        self.is_tree(tree, false, &mut String::new())
    }

    fn is_tree(&self, tree: &Value, member: bool, text: &mut String) -> bool {
        let Value::Object(entries) = tree else { return false };
        let dot = member && !self.nodes.is_empty();
        if entries.len() != self.nodes.len() + usize::from(dot) || dot != entries.contains_key(".") {
            return false;
        }
        let keys = entries.iter().filter(|(key, _)| *key != ".");
        self.nodes.iter().zip(keys).all(|(node, (key, below))| {
            let is_key = match &node.element {
                PathElement::Field(name) => key.strip_prefix("f:") == Some(name.as_str()),
                element => {
                    text.clear();
                    element.write_text(text);
                    key == text
                }
            };
            is_key && node.children.is_tree(below, node.member, text)
        })
    }

    /// Reads a set from a tree. Null is the empty set, and elements of kinds that are not known are left out.
    pub fn from_value(value: &Value) -> Result<Self, FieldsError> {
        Ok(read(value)?.0)
    }
}

/// Reads the set below a path, and whether the path itself is a member.
fn read(value: &Value) -> Result<(FieldSet, bool), FieldsError> {
    let object = match value {
        Value::Object(object) => object,
        Value::Null => return Ok((FieldSet::new(), true)),
        _ => return Err(FieldsError::NotAnObject),
    };
    let mut member = false;
    let mut nodes = Vec::with_capacity(object.len());
    for (key, below) in object.iter() {
        if key == "." {
            member = true;
        } else if let Some(element) = PathElement::parse_text(key)? {
            let (children, member) = read(below)?;
            nodes.push(Node { element, member, children });
        }
    }
    if !nodes.is_sorted_by(|a, b| a.element < b.element) {
        nodes = sorted(nodes);
    }
    member |= nodes.is_empty();
    Ok((FieldSet { nodes }, member))
}

/// Sorts nodes. Two texts may mean the same element (`v:1` and `v:1.0`); they become one node.
fn sorted(mut nodes: Vec<Node>) -> Vec<Node> {
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
