//! From a value to its field set. Built bottom up: keys of objects are sorted already, items are sorted once.

use pintle_value::{Object, Value};

use super::shape::{Entries, Items, Place, Shape};
use crate::path::PathElement;
use crate::set::{FieldSet, Node};

/// The field set of a value that fits its type. Items that have no element, which validation reports, are left out.
pub(super) fn field_set(place: Place<'_>, value: &Value) -> FieldSet {
    walk(place, value).1
}

/// Whether the path to the value is a member by the value's type, and what is below.
fn walk(place: Place<'_>, value: &Value) -> (bool, FieldSet) {
    match (place.shape(Some(value)), value) {
        (Shape::Scalar(_), _) => (true, FieldSet::new()),
        (Shape::List(items), _) if items.is_atomic() => (true, FieldSet::new()),
        (Shape::List(items), Value::Array(values)) => (false, of_items(&items, values)),
        (Shape::Map(entries), _) if entries.atomic => (true, FieldSet::new()),
        (Shape::Map(entries), Value::Object(object)) => (false, of_entries(&entries, object)),
        (Shape::List(_) | Shape::Map(_), _) => (false, FieldSet::new()),
    }
}

fn of_entries(entries: &Entries<'_>, object: &Object) -> FieldSet {
    let mut nodes = Vec::with_capacity(object.len());
    for (key, value) in object.iter() {
        let Some((place, declared)) = entries.entry_and_declared(key) else { continue };
        let (leaf, children) = walk(place, value);
        // Structs come and go with their fields. What is not declared does not, nor does what has no fields.
        let empty = match value {
            Value::Null => true,
            Value::Object(object) => object.is_empty(),
            _ => false,
        };
        let member = leaf || empty || !declared;
        if member || !children.is_empty() {
            nodes.push(Node { element: PathElement::field(key), member, children });
        }
    }
    FieldSet::from_nodes(nodes)
}

fn of_items(items: &Items<'_>, values: &[Value]) -> FieldSet {
    let node = |value: &Value| {
        let element = items.element(value).ok()?;
        Some(Node { element, member: true, children: walk(items.item, value).1 })
    };
    let mut nodes: Vec<Node> = values.iter().filter_map(node).collect();
    nodes.sort_by(|a, b| a.element.cmp(&b.element));
    // Items that share an element are owned together, and nothing in them.
    nodes.dedup_by(|later, earlier| {
        let same = later.element == earlier.element;
        if same {
            earlier.children = FieldSet::new();
        }
        same
    });
    FieldSet::from_nodes(nodes)
}
