//! Listing the structs that a set has fields of.

use super::shape::{Place, Shape};
use crate::path::PathElement;
use crate::set::{FieldSet, Node};

pub(super) fn with_named_fields(place: Option<Place<'_>>, set: &FieldSet) -> FieldSet {
    let nodes = set.nodes().iter().map(|node| {
        let (declared, below) = step(place, &node.element);
        let member = node.member || declared && !node.children.is_empty();
        Node { element: node.element.clone(), member, children: with_named_fields(below, &node.children) }
    });
    FieldSet::from_nodes(nodes.collect())
}

/// Whether an element is a declared field, and the type below it.
fn step<'t>(place: Option<Place<'t>>, element: &PathElement) -> (bool, Option<Place<'t>>) {
    let Some(place) = place else { return (false, None) };
    match element {
        PathElement::Field(name) => match place.shape(None) {
            Shape::Map(entries) => (entries.field(name).is_some(), entries.entry(name)),
            Shape::Scalar(_) | Shape::List(_) => (false, None),
        },
        PathElement::Key(_) => match place.shape(None) {
            Shape::List(items) => (false, Some(items.item)),
            Shape::Scalar(_) | Shape::Map(_) => (false, None),
        },
        PathElement::Value(_) | PathElement::Index(_) => (false, None),
    }
}
