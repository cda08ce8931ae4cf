//! Validates `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type` (upstream:
//! `ValidateCustomResourceDefinitionOpenAPISchema` and `validateMapListKeysMapSet`).

use std::collections::HashSet;

use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::go_types;
use super::node::Node;
use crate::go_json;

const LIST_TYPES: [&str; 3] = ["atomic", "set", "map"];
const MAP_TYPES: [&str; 2] = ["atomic", "granular"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const SET_ITEM: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";

/// Validates the list type and the map type of a node. With `require_atomic_sets`, the items of sets must be atomic.
pub(super) fn validate(errors: &mut Errors, node: Node<'_>, require_atomic_sets: bool, path: &FieldPath<'_>) {
    if let Some(kind) = node.optional_text(MAP_TYPE) {
        requires_type(errors, node, "object", MAP_TYPE, path);
        if !MAP_TYPES.contains(&kind) {
            errors.not_supported(&path.child(MAP_TYPE), kind, &MAP_TYPES);
        }
    }
    if let Some(kind) = node.optional_text(LIST_TYPE) {
        let is_list = requires_type(errors, node, "array", LIST_TYPE, path);
        if let Some((keyword, shown)) = non_atomic_set_item(node).filter(|_| is_list && require_atomic_sets) {
            errors.push(go_json::invalid_pointer(&path.child("items").child(keyword), shown, SET_ITEM));
        }
        if !LIST_TYPES.contains(&kind) {
            errors.not_supported(&path.child(LIST_TYPE), kind, &LIST_TYPES);
        }
    }
    validate_map_list(errors, node, path);
}

/// Validates that a node with a keyword has the type that the keyword requires. Returns true if it has.
fn requires_type(errors: &mut Errors, node: Node<'_>, expected: &str, keyword: &str, path: &FieldPath<'_>) -> bool {
    let detail = || format!("must be {expected} if {keyword} is specified");
    match node.type_name() {
        found if found == expected => return true,
        "" => errors.required(&path.child("type"), detail()),
        found => errors.invalid(&path.child("type"), found, detail()),
    }
    false
}

/// Returns the keyword that makes the items of a set non-atomic, and the value that upstream shows for it: always the
/// list type.
pub(crate) fn non_atomic_set_item(node: Node<'_>) -> Option<(&'static str, Value)> {
    if node.text(LIST_TYPE) != "set" {
        return None;
    }
    let item = node.child("items")?;
    let keyword = match item.type_name() {
        "array" if item.optional_text(LIST_TYPE).is_some_and(|kind| kind != "atomic") => LIST_TYPE,
        "object" if item.text(MAP_TYPE) != "atomic" => MAP_TYPE,
        _ => return None,
    };
    Some((keyword, item.optional_text(LIST_TYPE).map_or(Value::Null, Value::from)))
}

fn validate_map_list(errors: &mut Errors, node: Node<'_>, path: &FieldPath<'_>) {
    let keys: Vec<&str> = node.texts(MAP_KEYS).collect();
    let kind = node.optional_text(LIST_TYPE);
    if !keys.is_empty() {
        const DETAIL: &str = "must be map if x-kubernetes-list-map-keys is non-empty";
        match kind {
            None => errors.required(&path.child(LIST_TYPE), DETAIL),
            Some("map") => {}
            Some(kind) => errors.invalid(&path.child(LIST_TYPE), kind, DETAIL),
        }
    }
    if kind != Some("map") {
        return;
    }
    if keys.is_empty() {
        errors.required(&path.child(MAP_KEYS), "must not be empty if x-kubernetes-list-type is map");
    }
    let items = path.child("items");
    match (node.keyword("items"), node.child("items")) {
        (None, _) => errors.required(&items, "must have a schema if x-kubernetes-list-type is map"),
        (Some(value), None) => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(go_json::invalid(&items, value, &go_types::ITEMS, detail));
        }
        (_, Some(item)) if item.type_name() != "object" => {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            errors.invalid(&items.child("type"), item.type_name(), detail);
        }
        (_, Some(item)) => validate_map_keys(errors, item, &keys, path),
    }
}

fn validate_map_keys(errors: &mut Errors, item: Node<'_>, keys: &[&str], path: &FieldPath<'_>) {
    let (list, items) = (path.child(MAP_KEYS), path.child("items"));
    let properties = items.child("properties");
    let mut seen = HashSet::new();
    for key in keys {
        match item.property(key).map(Node::type_name) {
            // Upstream shows the type of the item.
            Some("array" | "object") => errors.invalid(
                &properties.key(key).child("type"),
                item.type_name(),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            ),
            Some(_) => {}
            None => errors.push_with(|| {
                FieldError::invalid(&list, keys.to_vec(), "entries must all be names of item properties")
            }),
        }
        if !seen.insert(key) {
            errors.push_with(|| FieldError::invalid(&list, keys.to_vec(), "must not contain duplicate entries"));
        }
    }
}

/// Requires that items of sets and maps are not nullable, and that keys of maps are required or have a default.
pub(crate) fn validate_items(errors: &mut Errors, node: Node<'_>, path: &FieldPath<'_>) {
    let (kind, Some(item)) = (node.text(LIST_TYPE), node.child("items")) else { return };
    if kind != "set" && kind != "map" {
        return;
    }
    let items = path.child("items");
    if item.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.forbidden(&items.child("nullable"), detail);
    }
    if kind == "set" {
        return;
    }
    let properties = items.child("properties");
    let required: HashSet<&str> = item.texts("required").collect();
    for key in node.texts(MAP_KEYS) {
        let Some(property) = item.property(key) else { continue };
        let path = properties.key(key);
        if property.keyword("default").is_none() && !required.contains(key) {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&path.child("default"), detail);
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&path.child("nullable"), detail);
        }
    }
}
