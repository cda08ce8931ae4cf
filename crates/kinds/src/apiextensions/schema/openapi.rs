//! Validates each node of a schema (upstream: `ValidateCustomResourceDefinitionOpenAPISchema` and
//! `specStandardValidatorV3` of apiextensions-apiserver's `pkg/apis/apiextensions/validation`).

use std::borrow::Cow;

use pintle_value::{Errors, FieldPath};

use super::costs::Cardinality;
use super::node::Node;
use super::validator::{RuledNode, SchemaStep};
use super::{lists, rules};
use crate::apiextensions::validation_options::ValidationOptions;

/// The valid values of `type`.
pub(crate) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The fields that every object has.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Unsupported keywords, and whether an empty value is an error too.
const UNSUPPORTED: [(&str, bool); 6] = [
    ("id", false),
    ("additionalItems", true),
    ("patternProperties", false),
    ("definitions", false),
    ("dependencies", true),
    ("$ref", true),
];

/// The result of the validation of a schema or a part of it.
#[derive(Default)]
pub(super) struct SchemaFindings<'a> {
    /// The errors.
    pub(super) errors: Errors,
    /// The nodes whose rules are to be compiled, in upstream's order.
    pub(super) ruled: Vec<RuledNode<'a>>,
    /// The context of each of these nodes.
    pub(super) contexts: Vec<RuledNodeContext>,
}

/// The context of a node with rules.
pub(super) struct RuledNodeContext {
    /// The path of the node.
    pub(super) path: String,
    /// The path of the outermost enclosing node whose old value cannot be correlated.
    pub(super) uncorrelatable: Option<String>,
    /// The maximum number of values of the node.
    pub(super) cardinality: Cardinality,
}

impl<'a> SchemaFindings<'a> {
    fn append(&mut self, mut below: SchemaFindings<'a>) {
        self.errors.append(below.errors);
        self.ruled.append(&mut below.ruled);
        self.contexts.append(&mut below.contexts);
    }
}

/// Visits the nodes of one schema.
struct SchemaVisitor<'a> {
    options: &'a ValidationOptions,
    /// The steps from the root to the current node.
    steps: Vec<SchemaStep<'a>>,
}

/// Validates all nodes of a schema. With `rules`, collects the rules whose expressions are to be compiled.
pub(super) fn validate<'a>(
    root: Node<'a>,
    options: &'a ValidationOptions,
    rules: bool,
    path: &FieldPath<'_>,
) -> SchemaFindings<'a> {
    let context = NodeContext {
        root: true,
        inside_meta: false,
        no_default: None,
        uncorrelatable: None,
        cardinality: Cardinality::ONE,
        rules,
    };
    SchemaVisitor { options, steps: Vec::new() }.visit_node(root, &context, path)
}

/// The context of a node.
#[derive(Clone)]
struct NodeContext<'a> {
    /// True for the schema of the whole object.
    root: bool,
    /// True inside of `apiVersion`, `kind` and `metadata`, of the object or of an embedded resource.
    inside_meta: bool,
    /// Why the node may not have a default.
    no_default: Option<Cow<'a, str>>,
    /// The path of the outermost enclosing node whose old value cannot be correlated.
    uncorrelatable: Option<String>,
    /// The maximum number of values of the node.
    cardinality: Cardinality,
    /// True if the expressions of rules are to be compiled.
    rules: bool,
}

impl NodeContext<'_> {
    fn for_child(&self) -> Self {
        Self { root: false, ..self.clone() }
    }

    /// The context below a junctor, where rules are forbidden.
    fn for_junctor(&self) -> Self {
        Self { rules: false, ..self.for_child() }
    }

    fn for_additional_properties(&self, node: Node<'_>) -> Self {
        let mut context = self.for_child();
        context.cardinality = self.cardinality.within(node);
        if self.inside_meta {
            context.no_default = Some("inside additionalProperties applying to object metadata".into());
        }
        context
    }

    fn for_property(&self, node: Node<'_>, name: &str, path: &FieldPath<'_>) -> Self {
        let mut context = self.for_child();
        context.cardinality = self.cardinality.within(node);
        if !matches!(node.optional_text("x-kubernetes-map-type"), None | Some("granular" | "atomic")) {
            context.uncorrelatable.get_or_insert_with(|| path.to_string());
        }
        if META_FIELDS.contains(&name) && (self.root || node.flag("x-kubernetes-embedded-resource")) {
            context.inside_meta = true;
            if self.root {
                context.no_default = Some(format!("in top-level {name}").into());
            }
        }
        context
    }

    /// Only the items of lists of type `map` can be correlated with old items.
    fn for_item(&self, node: Node<'_>, path: &FieldPath<'_>) -> Self {
        let mut context = self.for_child();
        context.cardinality = self.cardinality.within(node);
        if node.text("x-kubernetes-list-type") != "map" {
            context.uncorrelatable.get_or_insert_with(|| path.to_string());
        }
        context
    }
}

impl<'a> SchemaVisitor<'a> {
    /// Validates a node and all nodes below it.
    fn visit_node(&mut self, node: Node<'a>, context: &NodeContext<'_>, path: &FieldPath<'_>) -> SchemaFindings<'a> {
        let mut findings = SchemaFindings::default();
        self.validate_keywords(&mut findings.errors, node, context, path);
        self.visit_properties(&mut findings, node, context, path);
        self.visit_junctors(&mut findings, node, context, path);
        self.visit_items(&mut findings, node, context, path);
        let list = path.child("dependencies");
        for (name, below) in node.named("dependencies").filter(|(_, below)| below.0.as_object().is_some()) {
            findings.append(self.visit_node(below, &context.for_junctor(), &list.key(name)));
        }
        let preserve = "x-kubernetes-preserve-unknown-fields";
        if node.keyword(preserve).is_some_and(|value| value.as_bool() == Some(false)) {
            findings.errors.invalid(&path.child(preserve), false, "must be true or undefined");
        }
        lists::validate(&mut findings.errors, node, self.options.require_atomic_sets, path);
        if self.options.require_list_items {
            lists::validate_items(&mut findings.errors, node, path);
        }
        self.collect_rules(&mut findings, node, context, path);
        findings
    }

    /// Validates the node that a step leads to.
    fn visit_step(
        &mut self,
        step: SchemaStep<'a>,
        node: Node<'a>,
        context: &NodeContext<'_>,
        path: &FieldPath<'_>,
    ) -> SchemaFindings<'a> {
        self.steps.push(step);
        let findings = self.visit_node(node, context, path);
        self.steps.pop();
        findings
    }

    fn validate_keywords(&self, errors: &mut Errors, node: Node<'_>, context: &NodeContext<'_>, path: &FieldPath<'_>) {
        let kind = node.type_name();
        if self.options.require_known_types && !kind.is_empty() && !TYPES.contains(&kind) {
            errors.not_supported(&path.child("type"), kind, &TYPES);
        }
        if let Some(reason) = context.no_default.as_deref().filter(|_| node.keyword("default").is_some()) {
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
        if context.inside_meta && node.flag("x-kubernetes-embedded-resource") {
            let path = path.child("x-kubernetes-embedded-resource");
            errors.forbidden(&path, "must not be used inside of resource meta");
        }
        if node.flag("uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.forbidden(&path.child("uniqueItems"), detail);
        }
    }

    /// Validates properties and maps.
    fn visit_properties(
        &mut self,
        findings: &mut SchemaFindings<'a>,
        node: Node<'a>,
        context: &NodeContext<'_>,
        path: &FieldPath<'_>,
    ) {
        let additional = path.child("additionalProperties");
        if let Some(value) = node.keyword("additionalProperties") {
            if node.has("properties") && value.as_bool() != Some(true) {
                let detail = "additionalProperties and properties are mutual exclusive";
                findings.errors.forbidden(&additional, detail);
            }
            if let Some(schema) = node.child("additionalProperties") {
                findings.append(self.visit_step(
                    SchemaStep::Values,
                    schema,
                    &context.for_additional_properties(node),
                    &additional,
                ));
            }
        }
        let properties = path.child("properties");
        for (name, property) in node.named("properties") {
            let context = context.for_property(node, name, path);
            findings.append(self.visit_step(SchemaStep::Property(name), property, &context, &properties.key(name)));
        }
    }

    fn visit_junctors(
        &mut self,
        findings: &mut SchemaFindings<'a>,
        node: Node<'a>,
        context: &NodeContext<'_>,
        path: &FieldPath<'_>,
    ) {
        if let Some(below) = node.child("not") {
            findings.append(self.visit_node(below, &context.for_junctor(), &path.child("not")));
        }
        for junctor in ["allOf", "oneOf", "anyOf"] {
            let list = path.child(junctor);
            for (i, below) in node.children(junctor).enumerate() {
                findings.append(self.visit_node(below, &context.for_junctor(), &list.index(i)));
            }
        }
        let list = path.child("definitions");
        for (name, below) in node.named("definitions") {
            findings.append(self.visit_node(below, &context.for_junctor(), &list.key(name)));
        }
    }

    fn visit_items(
        &mut self,
        findings: &mut SchemaFindings<'a>,
        node: Node<'a>,
        context: &NodeContext<'_>,
        path: &FieldPath<'_>,
    ) {
        let items = path.child("items");
        if let Some(below) = node.child("items") {
            findings.append(self.visit_step(SchemaStep::Items, below, &context.for_item(node, path), &items));
        }
        for (i, below) in node.children("items").enumerate() {
            findings.append(self.visit_step(SchemaStep::Items, below, &context.for_item(node, path), &items.index(i)));
        }
    }

    fn collect_rules(
        &self,
        findings: &mut SchemaFindings<'a>,
        node: Node<'a>,
        context: &NodeContext<'_>,
        path: &FieldPath<'_>,
    ) {
        if !node.has("x-kubernetes-validations") {
            return;
        }
        rules::validate_shape(&mut findings.errors, node, path);
        if context.rules && findings.errors.is_empty() {
            findings.ruled.push(RuledNode { schema: node.0, steps: self.steps.clone() });
            findings.contexts.push(RuledNodeContext {
                path: path.to_string(),
                uncorrelatable: context.uncorrelatable.clone(),
                cardinality: context.cardinality,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    /// Compares the nodes whose rules are to be compiled: path, number of steps, and the uncorrelatable path.
    fn check(schema: &str, expect: &[&str]) {
        let schema = object(schema);
        let options = ValidationOptions::for_create();
        let findings = validate(Node(&schema), &options, true, &FieldPath::new("s"));
        let ruled = findings.ruled.iter().zip(&findings.contexts).map(|(ruled, context)| {
            let within = context.uncorrelatable.as_deref().unwrap_or("-");
            format!("{} {} {within}", context.path, ruled.steps.len())
        });
        assert_eq!(ruled.collect::<Vec<_>>(), expect);
        assert!(validate(Node(&schema), &options, false, &FieldPath::new("s")).ruled.is_empty());
    }

    const RULES: &str = r#""x-kubernetes-validations":[{"rule":"true"}]"#;

    #[test]
    fn only_rules_of_valid_nodes_are_compiled() {
        check(r#"{"type":"object"}"#, &[]);
        check(
            &format!(
                r#"{{{RULES},"type":"object","properties":{{"a":{{"type":"string",{RULES}}},
                "l":{{"type":"array","items":{{"type":"object",{RULES},"properties":{{"x":{{"type":"string",{RULES}}}}}}}}},
                "m":{{"type":"object","additionalProperties":{{"type":"string",{RULES}}}}}}}}}"#
            ),
            &[
                "s.properties[a] 1 -",
                "s.properties[l].items.properties[x] 3 s.properties[l]",
                "s.properties[l].items 2 s.properties[l]",
                "s.properties[m].additionalProperties 2 -",
                "s 0 -",
            ],
        );
        let invalid = format!(
            r#"{{{RULES},"type":"object","properties":{{"a":{{"type":"string",{RULES}}},"b":{{"type":"bad",{RULES}}}}}}}"#
        );
        check(&invalid, &["s.properties[a] 1 -"]);
        check(&format!(r#"{{"type":"object","not":{{{RULES}}}}}"#), &[]);
    }
}
