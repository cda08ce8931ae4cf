//! The field set of a value, built bottom up. The keys of objects are already sorted; items are sorted once (upstream:
//! structured-merge-diff's `typed/tofieldset.go`).

use pintle_value::{Object, Value};

use super::atom::{Atom, ListSchema, MapSchema, TypeRef};
use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::{FieldSet, Node};

/// Returns the field set of a valid value. Items without a path element, which validation reports, are skipped.
pub(super) fn field_set(type_ref: TypeRef<'_>, value: &Value) -> FieldSet {
    walk(type_ref, value).1
}

/// Returns whether the path to the value is a member because of the value's type, and the set below it.
fn walk(type_ref: TypeRef<'_>, value: &Value) -> (bool, FieldSet) {
    match (type_ref.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => (true, FieldSet::new()),
        (Atom::List(items), _) if items.is_atomic() => (true, FieldSet::new()),
        (Atom::List(items), Value::Array(values)) => (false, of_items(&items, values)),
        (Atom::Map(entries), _) if entries.atomic => (true, FieldSet::new()),
        (Atom::Map(entries), Value::Object(object)) => (false, of_entries(&entries, object)),
        (Atom::List(_) | Atom::Map(_), _) => (false, FieldSet::new()),
    }
}

fn of_entries(entries: &MapSchema<'_>, object: &Object) -> FieldSet {
    let mut nodes = Vec::with_capacity(object.len());
    for (key, value) in object.iter() {
        let Some((type_ref, declared)) = entries.entry_and_declared(key) else { continue };
        let (leaf, children) = walk(type_ref, value);
        // A declared struct exists through its fields, so it is a member only if it is empty. An undeclared entry is
        // always a member.
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

fn of_items(items: &ListSchema<'_>, values: &[Value]) -> FieldSet {
    let node = |value: &Value| {
        let element = items.element(value).ok()?;
        Some(Node { element, member: true, children: walk(items.item, value).1 })
    };
    let mut nodes: Vec<Node> = values.iter().filter_map(node).collect();
    nodes.sort_by(|a, b| a.element.cmp(&b.element));
    // Duplicates are owned together, without the fields in them.
    nodes.dedup_by(|later, earlier| {
        let same = later.element == earlier.element;
        if same {
            earlier.children = FieldSet::new();
        }
        same
    });
    FieldSet::from_nodes(nodes)
}
