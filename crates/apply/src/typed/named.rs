//! Adding the structs that contain a set's fields to the set.

use super::atom::{Atom, TypeRef};
use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::{FieldSet, Node};

pub(super) fn ensure_named_fields_are_members(type_ref: Option<TypeRef<'_>>, set: &FieldSet) -> FieldSet {
    let nodes = set.nodes().iter().map(|node| {
        let (declared, below) = step(type_ref, &node.element);
        let member = node.member || declared && !node.children.is_empty();
        Node { element: node.element.clone(), member, children: ensure_named_fields_are_members(below, &node.children) }
    });
    FieldSet::from_nodes(nodes.collect())
}

/// Whether an element is a declared field, and the type below it.
fn step<'t>(type_ref: Option<TypeRef<'t>>, element: &PathElement) -> (bool, Option<TypeRef<'t>>) {
    let Some(type_ref) = type_ref else { return (false, None) };
    match element {
        PathElement::Field(name) => match type_ref.atom(None) {
            Atom::Map(entries) => (entries.field(name).is_some(), entries.entry(name)),
            Atom::Scalar(_) | Atom::List(_) => (false, None),
        },
        PathElement::Key(_) => match type_ref.atom(None) {
            Atom::List(items) => (false, Some(items.item)),
            Atom::Scalar(_) | Atom::Map(_) => (false, None),
        },
        PathElement::Value(_) | PathElement::Index(_) => (false, None),
    }
}
