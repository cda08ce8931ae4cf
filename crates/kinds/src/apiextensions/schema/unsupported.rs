//! Keywords that structural schemas do not support (upstream: `NewStructural` of apiextensions-apiserver's
//! `pkg/apiserver/schema`).

use super::node::Node;

const KEYWORDS: [(&str, &str); 7] = [
    ("id", "OpenAPIV3Schema 'id' is not supported"),
    ("$schema", "OpenAPIV3Schema 'schema' is not supported"),
    ("$ref", "OpenAPIV3Schema '$ref' is not supported"),
    ("patternProperties", "OpenAPIV3Schema 'patternProperties' is not supported"),
    ("dependencies", "OpenAPIV3Schema 'dependencies' is not supported"),
    ("additionalItems", "OpenAPIV3Schema 'additionalItems' is not supported"),
    ("definitions", "OpenAPIV3Schema 'definitions' is not supported"),
];

const ITEMS_ARRAY: &str = "OpenAPIV3Schema 'items' must be a schema, but is an array";
const PRESERVE: &str = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";

/// Returns the first reason why a schema cannot be converted to a structural schema, or `None` if it can.
pub(crate) fn fault(node: Node<'_>) -> Option<&'static str> {
    // `additionalItems` is an error even if it is `false`.
    let set = |name| if name == "additionalItems" { node.keyword(name).is_some() } else { node.has(name) };
    if let Some((_, detail)) = KEYWORDS.iter().find(|(name, _)| set(name)) {
        return Some(detail);
    }
    let junctors = || ["allOf", "anyOf", "oneOf"].iter().flat_map(|name| node.children(name));
    if let Some(detail) = node.child("not").into_iter().chain(junctors()).find_map(fault) {
        return Some(detail);
    }
    if node.keyword("x-kubernetes-preserve-unknown-fields").is_some_and(|value| value.as_bool() == Some(false)) {
        return Some(PRESERVE);
    }
    if node.children("items").len() > 0 {
        return Some(ITEMS_ARRAY);
    }
    let properties = node.named("properties").map(|(_, property)| property);
    node.child("items").into_iter().chain(properties).chain(node.child("additionalProperties")).find_map(fault)
}
