//! A view of one node of an OpenAPI schema in JSON (upstream: `JSONSchemaProps`). It reads keywords by name and hides
//! how absence is written.

use pintle_value::Value;

/// A node of a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'s>(pub(in crate::apiextensions) &'s Value);

impl<'s> Node<'s> {
    /// Returns the value of a keyword, if it is set.
    pub(crate) fn keyword(self, name: &str) -> Option<&'s Value> {
        self.0.get(name)
    }

    /// Returns the string value of a keyword, or the empty string if there is none.
    pub(crate) fn text(self, name: &str) -> &'s str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the string value of a keyword for which the empty string and absence differ.
    pub(super) fn optional_text(self, name: &str) -> Option<&'s str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// Returns the `type`, or the empty string if there is none.
    pub(super) fn type_name(self) -> &'s str {
        self.text("type")
    }

    /// Returns true if a keyword is `true`.
    pub(super) fn flag(self, name: &str) -> bool {
        self.0.bool_at(&[name])
    }

    /// Returns true if a keyword is set to a non-empty value.
    pub(crate) fn has(self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_empty())
    }

    /// Returns the schema under a keyword.
    pub(super) fn child(self, name: &str) -> Option<Node<'s>> {
        self.0.get(name).filter(|value| value.as_object().is_some()).map(Node)
    }

    /// Returns the schemas under a keyword with a list value.
    pub(super) fn children(self, name: &str) -> impl ExactSizeIterator<Item = Node<'s>> {
        self.0.items_at(&[name]).iter().map(Node)
    }

    /// Returns the schemas under a keyword with a map value, with their keys.
    pub(super) fn named(self, name: &str) -> impl Iterator<Item = (&'s str, Node<'s>)> + use<'s> {
        self.0.entries_at(&[name]).map(|(key, value)| (key, Node(value)))
    }

    /// Returns the schema of a property.
    pub(super) fn property(self, name: &str) -> Option<Node<'s>> {
        self.child("properties")?.child(name)
    }

    /// Returns the strings under a keyword with a list value.
    pub(super) fn texts(self, name: &str) -> impl Iterator<Item = &'s str> {
        self.0.items_at(&[name]).iter().filter_map(Value::as_str)
    }

    /// Returns true if the schema has exactly this type and no other keyword.
    fn is_exactly(self, type_name: &str) -> bool {
        let set = self.0.as_object().map_or(0, |fields| fields.values().filter(|value| !value.is_null()).count());
        set == 1 && self.type_name() == type_name
    }

    /// Returns true if the schemas under a keyword are one integer and one string, as `x-kubernetes-int-or-string`
    /// allows.
    pub(super) fn is_int_or_string(self, name: &str) -> bool {
        let mut of = self.children(name);
        of.len() == 2 && ["integer", "string"].iter().all(|kind| of.next().is_some_and(|node| node.is_exactly(kind)))
    }

    /// Returns true if `is` returns true for this node or any node below it (upstream: `SchemaHas`).
    pub(crate) fn any(self, is: &mut dyn FnMut(Node<'s>) -> bool) -> bool {
        const ONE: [&str; 4] = ["items", "not", "additionalProperties", "additionalItems"];
        const LISTS: [&str; 4] = ["items", "allOf", "anyOf", "oneOf"];
        const MAPS: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];
        is(self)
            || ONE.iter().any(|name| self.child(name).is_some_and(|node| node.any(is)))
            || LISTS.iter().any(|name| self.children(name).any(|node| node.any(is)))
            || MAPS.iter().any(|name| self.named(name).any(|(_, node)| node.any(is)))
    }
}
