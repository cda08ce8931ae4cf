//! Validates that a schema is structural: it has one structure, declared outside of junctors, and types everywhere
//! (upstream: `ValidateStructural` of apiextensions-apiserver's `pkg/apiserver/schema/validation.go`).

use pintle_value::{Errors, FieldPath};

use super::complete;
use super::junctors;
use super::node::Node;

/// The position of a schema within the whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

const UNTYPED_ROOT: &str = "must not be empty at the root";
const UNTYPED_ITEM: &str = "must not be empty for specified array items";
const UNTYPED_FIELD: &str = "must not be empty for specified object fields";
const METADATA: &str =
    "must not specify anything other than name and generateName, but metadata is implicitly specified";
const EMPTY_EMBEDDED: &str =
    "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";

/// Validates a whole schema. Like upstream, sorts the errors by their text.
pub(crate) fn validate(root: Node<'_>, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    validate_invariants(&mut errors, root, Level::Root, path);
    complete::validate(&mut errors, root, path);
    errors.sort_by_text();
    errors
}

fn validate_invariants(errors: &mut Errors, node: Node<'_>, level: Level, path: &FieldPath<'_>) {
    validate_children(errors, node, level, path);
    validate_extensions(errors, node, path);
    junctors::validate(errors, node, path);
    validate_types(errors, node, level, path);

    let properties = path.child("properties");
    if level == Level::Root || node.flag("x-kubernetes-embedded-resource") {
        for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            if let Some(type_name) = node.property(name).map(Node::type_name).filter(|type_name| *type_name != expected)
            {
                let detail = format!("must be {expected}");
                errors.invalid(&properties.key(name).child("type"), type_name, detail);
            }
        }
    }
    if level == Level::Root && node.property("metadata").is_some_and(restricts_more_than_names) {
        errors.forbidden(&properties.key("metadata"), METADATA);
    }
}

fn validate_children(errors: &mut Errors, node: Node<'_>, level: Level, path: &FieldPath<'_>) {
    match node.child("items") {
        Some(items) => validate_invariants(errors, items, Level::Item, &path.child("items")),
        None if node.type_name() == "array" => errors.required(&path.child("items"), "must be specified"),
        None => {}
    }
    let properties = path.child("properties");
    for (name, property) in node.named("properties") {
        validate_invariants(errors, property, Level::Field, &properties.key(name));
    }
    let additional = path.child("additionalProperties");
    if level == Level::Root && node.keyword("additionalProperties").is_some() {
        errors.forbidden(&additional, "must not be used at the root");
    }
    if let Some(schema) = node.child("additionalProperties") {
        validate_invariants(errors, schema, Level::Field, &additional);
    }
}

fn validate_extensions(errors: &mut Errors, node: Node<'_>, path: &FieldPath<'_>) {
    let embedded = node.flag("x-kubernetes-embedded-resource");
    let preserves = node.flag("x-kubernetes-preserve-unknown-fields");
    if node.flag("x-kubernetes-int-or-string") {
        const DETAIL: &str = "must be false if x-kubernetes-int-or-string is true";
        if preserves {
            errors.invalid(&path.child("x-kubernetes-preserve-unknown-fields"), true, DETAIL);
        }
        if embedded {
            errors.invalid(&path.child("x-kubernetes-embedded-resource"), true, DETAIL);
        }
    }
    if embedded && node.keyword("additionalProperties").is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(&path.child("additionalProperties"), detail);
    }
    if embedded && !preserves && !node.has("properties") {
        errors.required(&path.child("properties"), EMPTY_EMBEDDED);
    }
}

fn validate_types(errors: &mut Errors, node: Node<'_>, level: Level, path: &FieldPath<'_>) {
    let type_name = node.type_name();
    let path = path.child("type");
    let untyped = || node.flag("x-kubernetes-int-or-string") || node.flag("x-kubernetes-preserve-unknown-fields");
    if node.flag("x-kubernetes-embedded-resource") {
        const DETAIL: &str = "must be object if x-kubernetes-embedded-resource is true";
        match type_name {
            "object" => {}
            "" => errors.required(&path, DETAIL),
            _ => errors.invalid(&path, type_name, DETAIL),
        }
    } else if type_name.is_empty() && !untyped() {
        let detail = match level {
            Level::Root => UNTYPED_ROOT,
            Level::Item => UNTYPED_ITEM,
            Level::Field => UNTYPED_FIELD,
        };
        errors.required(&path, detail);
    }
    if level == Level::Root && !type_name.is_empty() && type_name != "object" {
        errors.invalid(&path, type_name, "must be object at the root");
    }
}

/// Returns true if a schema of `metadata` restricts more than `name` and `generateName`.
fn restricts_more_than_names(metadata: Node<'_>) -> bool {
    const NAMES: [&str; 2] = ["name", "generateName"];
    let says_more = |keyword: &str| match keyword {
        "type" | "default" => false,
        "properties" => metadata.named("properties").any(|(name, _)| !NAMES.contains(&name)),
        _ => true,
    };
    let restricted = metadata.0.entries_at(&[]).filter(|(_, value)| !value.is_null());
    restricted.map(|(keyword, _)| keyword).any(says_more)
}
