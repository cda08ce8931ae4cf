//! A view of one node of an OpenAPI schema as its JSON has it (upstream: `JSONSchemaProps`), so that rules read fields
//! by name and do not care how absence is written.

use pintle_value::Value;

/// A node of a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'s>(pub(in crate::apiextensions) &'s Value);

impl<'s> Node<'s> {
    /// The value of a keyword, if it is set.
    pub(crate) fn keyword(self, name: &str) -> Option<&'s Value> {
        self.0.get(name)
    }

    /// The text of a keyword; empty where there is none.
    pub(crate) fn text(self, name: &str) -> &'s str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The text of a keyword for which the empty text and absence differ.
    pub(super) fn optional_text(self, name: &str) -> Option<&'s str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// The type that values have; empty where none is given.
    pub(super) fn type_name(self) -> &'s str {
        self.text("type")
    }

    /// True if a keyword is `true`.
    pub(super) fn flag(self, name: &str) -> bool {
        self.0.bool_at(&[name])
    }

    /// True if a keyword is set to something that is not empty.
    pub(crate) fn has(self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_empty())
    }

    /// The schema that a keyword holds.
    pub(super) fn child(self, name: &str) -> Option<Node<'s>> {
        self.0.get(name).filter(|value| value.as_object().is_some()).map(Node)
    }

    /// The schemas of a keyword that holds a list.
    pub(super) fn children(self, name: &str) -> impl ExactSizeIterator<Item = Node<'s>> {
        self.0.items_at(&[name]).iter().map(Node)
    }

    /// The schemas of a keyword that holds a map, by their names.
    pub(super) fn named(self, name: &str) -> impl Iterator<Item = (&'s str, Node<'s>)> + use<'s> {
        self.0.entries_at(&[name]).map(|(key, value)| (key, Node(value)))
    }

    /// The schema of a property.
    pub(super) fn property(self, name: &str) -> Option<Node<'s>> {
        self.child("properties")?.child(name)
    }

    /// The texts of a keyword that holds a list of texts.
    pub(super) fn texts(self, name: &str) -> impl Iterator<Item = &'s str> {
        self.0.items_at(&[name]).iter().filter_map(Value::as_str)
    }

    /// True if this is a schema of exactly that type, and nothing more.
    fn is_only(self, type_name: &str) -> bool {
        let set = self.0.as_object().map_or(0, |fields| fields.values().filter(|value| !value.is_null()).count());
        set == 1 && self.type_name() == type_name
    }

    /// True if the schemas of a keyword are those of a number or a text, as `x-kubernetes-int-or-string` has them.
    pub(super) fn is_int_or_string(self, name: &str) -> bool {
        let mut of = self.children(name);
        of.len() == 2 && ["integer", "string"].iter().all(|kind| of.next().is_some_and(|node| node.is_only(kind)))
    }

    /// True if `is` holds for this node or any below it (upstream: `SchemaHas`).
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
