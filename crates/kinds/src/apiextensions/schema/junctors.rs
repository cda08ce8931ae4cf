//! Validates schemas below `allOf`, `anyOf`, `oneOf` and `not`. They may restrict values but may not declare structure
//! (upstream: `validateNestedValueValidation` of apiextensions-apiserver's `pkg/apiserver/schema/validation.go`).

use pintle_cel::compile_pattern;
use pintle_value::{Errors, FieldPath};

use super::node::Node;

const EMPTY: &str = "must be empty to be structural";
const FALSE: &str = "must be false to be structural";
const UNDEFINED: &str = "must be undefined to be structural";

/// Keywords that must be unset or empty, with the error message for any other value.
const EMPTY_KEYWORDS: [(&str, &str); 9] = [
    ("type", EMPTY),
    ("title", EMPTY),
    ("description", EMPTY),
    ("nullable", FALSE),
    ("x-kubernetes-preserve-unknown-fields", FALSE),
    ("x-kubernetes-embedded-resource", FALSE),
    ("x-kubernetes-int-or-string", FALSE),
    ("x-kubernetes-list-map-keys", EMPTY),
    ("x-kubernetes-validations", EMPTY),
];

/// Keywords that must be absent.
const ABSENT_KEYWORDS: [&str; 3] = ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"];

/// The junctors to skip, because `x-kubernetes-int-or-string` allows types below them.
#[derive(Clone, Copy, Default)]
struct SkippedJunctors {
    any_of: bool,
    first_all_of: bool,
}

/// Validates the junctors of a node that is not below a junctor itself.
pub(super) fn validate(errors: &mut Errors, node: Node<'_>, path: &FieldPath<'_>) {
    let first = node.children("allOf").next();
    let skip = SkippedJunctors {
        any_of: node.is_int_or_string("anyOf"),
        first_all_of: first.is_some_and(|node| node.is_int_or_string("anyOf")),
    };
    validate_value_validation(errors, node, skip, path);
}

fn validate_value_validation(errors: &mut Errors, node: Node<'_>, skip: SkippedJunctors, path: &FieldPath<'_>) {
    let list = path.child("anyOf");
    for (i, below) in node.children("anyOf").enumerate().filter(|_| !skip.any_of) {
        validate_nested_value_validation(errors, below, SkippedJunctors::default(), &list.index(i));
    }
    let list = path.child("allOf");
    for (i, below) in node.children("allOf").enumerate() {
        let skip = SkippedJunctors { any_of: skip.first_all_of && i == 0, first_all_of: false };
        validate_nested_value_validation(errors, below, skip, &list.index(i));
    }
    let list = path.child("oneOf");
    for (i, below) in node.children("oneOf").enumerate() {
        validate_nested_value_validation(errors, below, SkippedJunctors::default(), &list.index(i));
    }
    if let Some(below) = node.child("not") {
        validate_nested_value_validation(errors, below, SkippedJunctors::default(), &path.child("not"));
    }
    // Compiling is slow, even for empty patterns.
    let pattern = node.text("pattern");
    if !pattern.is_empty()
        && let Err(error) = compile_pattern(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.invalid(&path.child("pattern"), pattern, detail);
    }
}

fn validate_nested_value_validation(errors: &mut Errors, node: Node<'_>, skip: SkippedJunctors, path: &FieldPath<'_>) {
    validate_value_validation(errors, node, skip, path);
    if let Some(items) = node.child("items") {
        validate_nested_value_validation(errors, items, SkippedJunctors::default(), &path.child("items"));
    }
    let properties = path.child("properties");
    for (name, property) in node.named("properties") {
        validate_nested_value_validation(errors, property, SkippedJunctors::default(), &properties.key(name));
    }
    for (keyword, detail) in EMPTY_KEYWORDS.iter().filter(|(keyword, _)| node.has(keyword)) {
        errors.forbidden(&path.child(keyword), *detail);
    }
    for keyword in ABSENT_KEYWORDS.iter().filter(|keyword| node.keyword(keyword).is_some()) {
        errors.forbidden(&path.child(keyword), UNDEFINED);
    }
    // `additionalProperties: false` adds nothing to a structural schema.
    if node.keyword("additionalProperties").is_some_and(|value| value.as_bool() != Some(false)) {
        errors.forbidden(&path.child("additionalProperties"), UNDEFINED);
    }
    // Otherwise, schemas could restrict metadata, which the server hides from them.
    if node.property("metadata").is_some() {
        errors.forbidden(&properties.key("metadata"), "must not be specified in a nested context");
    }
}
