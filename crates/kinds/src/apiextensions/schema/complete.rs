//! Validates that everything that a junctor at the root of a schema mentions is also declared outside of junctors
//! (upstream: `validateStructuralCompleteness` of apiextensions-apiserver's `pkg/apiserver/schema/complete.go`).

use pintle_value::{Errors, FieldPath};

use super::node::Node;

/// Validates the junctors of the root. Like upstream, this ignores the junctors of other nodes.
pub(super) fn validate(errors: &mut Errors, root: Node<'_>, path: &FieldPath<'_>) {
    validate_junctors(errors, root, root, path, path);
}

/// Compares the nodes below the junctors of `junctor` with the declared schema. Each schema comes with its path.
fn validate_junctors(
    errors: &mut Errors,
    junctor: Node<'_>,
    declared: Node<'_>,
    declared_path: &FieldPath<'_>,
    junctor_path: &FieldPath<'_>,
) {
    if let Some(below) = junctor.child("not") {
        validate_nested(errors, below, Some(declared), declared_path, &junctor_path.child("not"));
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let list = junctor_path.child(keyword);
        for (i, below) in junctor.children(keyword).enumerate() {
            validate_nested(errors, below, Some(declared), declared_path, &list.index(i));
        }
    }
}

fn validate_nested(
    errors: &mut Errors,
    junctor: Node<'_>,
    declared: Option<Node<'_>>,
    declared_path: &FieldPath<'_>,
    junctor_path: &FieldPath<'_>,
) {
    let Some(declared) = declared else {
        return errors.required(declared_path, format!("because it is defined in {junctor_path}"));
    };
    validate_junctors(errors, junctor, declared, declared_path, junctor_path);
    if let Some(items) = junctor.child("items") {
        validate_nested(
            errors,
            items,
            declared.child("items"),
            &declared_path.child("items"),
            &junctor_path.child("items"),
        );
    }
    let (shape_list, said_list) = (declared_path.child("properties"), junctor_path.child("properties"));
    for (name, property) in junctor.named("properties") {
        validate_nested(errors, property, declared.property(name), &shape_list.key(name), &said_list.key(name));
    }
}
