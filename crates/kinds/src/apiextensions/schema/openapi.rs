//! What each node of a schema may say (upstream: `ValidateCustomResourceDefinitionOpenAPISchema` and
//! `specStandardValidatorV3` of apiextensions-apiserver's `pkg/apis/apiextensions/validation`).

use std::borrow::Cow;

use pintle_value::{Errors, FieldPath};

use super::node::Node;
use super::{lists, rules};
use crate::apiextensions::ratchet::Demands;

/// The types that values may have.
pub(crate) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The fields that every object has.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Keywords of which a node may not make any use, and whether those that are empty count too.
const UNSUPPORTED: [(&str, bool); 6] = [
    ("id", false),
    ("additionalItems", true),
    ("patternProperties", false),
    ("definitions", false),
    ("dependencies", true),
    ("$ref", true),
];

/// The errors of a schema: those of its rules' expressions come after all others.
#[derive(Default)]
pub(super) struct Found {
    /// What is wrong with keywords.
    pub(super) schema: Errors,
    /// What is wrong with expressions.
    pub(super) rules: Errors,
}

impl Found {
    fn append(&mut self, below: Found) {
        self.schema.append(below.schema);
        self.rules.append(below.rules);
    }
}

/// A walk over one schema.
pub(super) struct Walk<'a> {
    /// What is asked of the definition.
    pub(super) demands: &'a Demands,
    /// The schema of the whole object.
    pub(super) root: Node<'a>,
    /// True if the schema of this version is as it was.
    pub(super) unchanged: bool,
}

/// Where the walk is.
#[derive(Clone)]
pub(super) struct Place<'a> {
    /// True for the schema of the whole object.
    root: bool,
    /// True within `apiVersion`, `kind` or `metadata`, of the object or of one that is embedded.
    inside_meta: bool,
    /// Why there may not be a default.
    no_default: Option<Cow<'a, str>>,
    /// The path of the outermost part around whose old value cannot be told.
    uncorrelatable: Option<String>,
    /// True if rules have their expressions looked at.
    rules: bool,
}

impl<'a> Place<'a> {
    /// The root. With `rules` the expressions of rules are looked at.
    pub(super) fn root(rules: bool) -> Self {
        Self { root: true, inside_meta: false, no_default: None, uncorrelatable: None, rules }
    }

    fn below(&self) -> Self {
        Self { root: false, ..self.clone() }
    }

    /// Below a junctor, where rules are refused anyway.
    fn junctor(&self) -> Self {
        Self { rules: false, ..self.below() }
    }

    fn additional(&self) -> Self {
        let mut place = self.below();
        if self.inside_meta {
            place.no_default = Some("inside additionalProperties applying to object metadata".into());
        }
        place
    }

    fn property(&self, node: Node<'_>, name: &str, path: &FieldPath<'_>) -> Self {
        let mut place = self.below();
        if !matches!(node.optional_text("x-kubernetes-map-type"), None | Some("granular" | "atomic")) {
            place.uncorrelatable.get_or_insert_with(|| path.to_string());
        }
        if META_FIELDS.contains(&name) && (self.root || node.flag("x-kubernetes-embedded-resource")) {
            place.inside_meta = true;
            if self.root {
                place.no_default = Some(format!("in top-level {name}").into());
            }
        }
        place
    }

    /// Only the items of lists that are maps can be told apart.
    fn item(&self, node: Node<'_>, path: &FieldPath<'_>) -> Self {
        let mut place = self.below();
        if node.text("x-kubernetes-list-type") != "map" {
            place.uncorrelatable.get_or_insert_with(|| path.to_string());
        }
        place
    }
}

impl Walk<'_> {
    /// Checks a node and all below it.
    pub(super) fn node(&self, node: Node<'_>, place: &Place<'_>, path: &FieldPath<'_>) -> Found {
        let mut found = Found::default();
        self.keywords(&mut found.schema, node, place, path);
        self.shape(&mut found, node, place, path);
        self.junctors(&mut found, node, place, path);
        self.items(&mut found, node, place, path);
        let list = path.child("dependencies");
        for (name, below) in node.named("dependencies").filter(|(_, below)| below.0.as_object().is_some()) {
            found.append(self.node(below, &place.junctor(), &list.key(name)));
        }
        let preserve = "x-kubernetes-preserve-unknown-fields";
        if node.keyword(preserve).is_some_and(|value| value.as_bool() == Some(false)) {
            found.schema.invalid(&path.child(preserve), false, "must be true or undefined");
        }
        lists::validate(&mut found.schema, node, self.demands.atomic_sets, path);
        if self.demands.list_items {
            lists::validate_items(&mut found.schema, node, path);
        }
        self.rules(&mut found, node, place, path);
        found
    }

    fn keywords(&self, errors: &mut Errors, node: Node<'_>, place: &Place<'_>, path: &FieldPath<'_>) {
        let kind = node.type_name();
        if self.demands.known_types && !kind.is_empty() && !TYPES.contains(&kind) {
            errors.not_supported(&path.child("type"), kind, &TYPES);
        }
        if let Some(reason) = place.no_default.as_deref().filter(|_| node.keyword("default").is_some()) {
            errors.forbidden(&path.child("default"), format!("must not be set {reason}"));
        }
        for (keyword, even_empty) in UNSUPPORTED {
            if node.has(keyword) || (even_empty && node.keyword(keyword).is_some()) {
                errors.forbidden(&path.child(keyword), format!("{keyword} is not supported"));
            }
        }
        if kind == "null" {
            errors.forbidden(&path.child("type"), "type cannot be set to null, use nullable as an alternative");
        }
        if node.children("items").len() > 0 {
            errors.forbidden(&path.child("items"), "items must be a schema object and not an array");
        }
        if place.inside_meta && node.flag("x-kubernetes-embedded-resource") {
            let path = path.child("x-kubernetes-embedded-resource");
            errors.forbidden(&path, "must not be used inside of resource meta");
        }
        if node.flag("uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.forbidden(&path.child("uniqueItems"), detail);
        }
    }

    /// Fields and maps.
    fn shape(&self, found: &mut Found, node: Node<'_>, place: &Place<'_>, path: &FieldPath<'_>) {
        let additional = path.child("additionalProperties");
        if let Some(value) = node.keyword("additionalProperties") {
            if node.has("properties") && value.as_bool() != Some(true) {
                let detail = "additionalProperties and properties are mutual exclusive";
                found.schema.forbidden(&additional, detail);
            }
            if let Some(schema) = node.child("additionalProperties") {
                found.append(self.node(schema, &place.additional(), &additional));
            }
        }
        let properties = path.child("properties");
        for (name, property) in node.named("properties") {
            found.append(self.node(property, &place.property(node, name, path), &properties.key(name)));
        }
    }

    fn junctors(&self, found: &mut Found, node: Node<'_>, place: &Place<'_>, path: &FieldPath<'_>) {
        if let Some(below) = node.child("not") {
            found.append(self.node(below, &place.junctor(), &path.child("not")));
        }
        for junctor in ["allOf", "oneOf", "anyOf"] {
            let list = path.child(junctor);
            for (i, below) in node.children(junctor).enumerate() {
                found.append(self.node(below, &place.junctor(), &list.index(i)));
            }
        }
        let list = path.child("definitions");
        for (name, below) in node.named("definitions") {
            found.append(self.node(below, &place.junctor(), &list.key(name)));
        }
    }

    fn items(&self, found: &mut Found, node: Node<'_>, place: &Place<'_>, path: &FieldPath<'_>) {
        let items = path.child("items");
        if let Some(below) = node.child("items") {
            found.append(self.node(below, &place.item(node, path), &items));
        }
        for (i, below) in node.children("items").enumerate() {
            found.append(self.node(below, &place.item(node, path), &items.index(i)));
        }
    }

    fn rules(&self, found: &mut Found, node: Node<'_>, place: &Place<'_>, path: &FieldPath<'_>) {
        if !node.has("x-kubernetes-validations") {
            return;
        }
        rules::validate_shape(&mut found.schema, node, path);
        if place.rules && found.schema.is_empty() {
            let place = rules::Place {
                root: self.root,
                uncorrelatable: place.uncorrelatable.as_deref(),
                known: &self.demands.known,
                unchanged: self.unchanged,
            };
            found.rules.append(rules::validate_rules(node, &place, path));
        }
    }
}
