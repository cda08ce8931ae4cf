//! Validates that everything that a junctor at the root of a schema mentions is also declared outside of junctors
//! (upstream: `validateStructuralCompleteness` of apiextensions-apiserver's `pkg/apiserver/schema/complete.go`).

use pintle_value::{Errors, FieldPath};

use super::node::Node;

/// Validates the junctors of the root. Like upstream, this ignores the junctors of other nodes.
pub(super) fn validate(errors: &mut Errors, root: Node<'_>, path: &FieldPath<'_>) {
    junctors(errors, root, root, path, path);
}

/// Compares the nodes that the junctors of `said` mention with the declared schema. Each node comes with its path.
fn junctors(
    errors: &mut Errors,
    said: Node<'_>,
    shape: Node<'_>,
    shape_path: &FieldPath<'_>,
    said_path: &FieldPath<'_>,
) {
    if let Some(below) = said.child("not") {
        nested(errors, below, Some(shape), shape_path, &said_path.child("not"));
    }
    for junctor in ["allOf", "anyOf", "oneOf"] {
        let list = said_path.child(junctor);
        for (i, below) in said.children(junctor).enumerate() {
            nested(errors, below, Some(shape), shape_path, &list.index(i));
        }
    }
}

fn nested(
    errors: &mut Errors,
    said: Node<'_>,
    shape: Option<Node<'_>>,
    shape_path: &FieldPath<'_>,
    said_path: &FieldPath<'_>,
) {
    let Some(shape) = shape else {
        return errors.required(shape_path, format!("because it is defined in {said_path}"));
    };
    junctors(errors, said, shape, shape_path, said_path);
    if let Some(items) = said.child("items") {
        nested(errors, items, shape.child("items"), &shape_path.child("items"), &said_path.child("items"));
    }
    let (shape_list, said_list) = (shape_path.child("properties"), said_path.child("properties"));
    for (name, property) in said.named("properties") {
        nested(errors, property, shape.property(name), &shape_list.key(name), &said_list.key(name));
    }
}
