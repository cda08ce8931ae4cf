//! Validates that the defaults in a schema are valid themselves and contain nothing that pruning would remove
//! (upstream: `ValidateDefaults` of apiextensions-apiserver's `pkg/apiserver/schema/defaulting/validation.go`).

use pintle_value::{Errors, FieldPath, Value};

use super::node::Node;
use super::validator::SchemaValidator;

/// Validates the defaults of a structural schema. With `pruned`, defaults may not contain unknown fields.
pub(crate) fn validate(root: Node<'_>, pruned: bool, validator: &dyn SchemaValidator, path: &FieldPath<'_>) -> Errors {
    let mut defaults = DefaultsValidator { pruned, validator, budget: BUDGET, errors: Errors::new() };
    defaults.visit_node(root, &ResourcePosition { resource: root, steps: Vec::new(), inside_meta: false }, true, path);
    defaults.errors
}

/// Returns true if a default contains unknown fields. A schema that is not structural counts as having no such default.
pub(crate) fn has_unpruned_defaults(root: Node<'_>, validator: &dyn SchemaValidator) -> bool {
    root.any(&mut |node| node.keyword("default").is_some_and(|value| validator.has_unknown_fields(node.0, value)))
}

/// The CEL cost budget for the rules of all defaults together.
const BUDGET: i64 = 10_000_000;

struct DefaultsValidator<'a> {
    pruned: bool,
    validator: &'a dyn SchemaValidator,
    /// The remaining CEL cost budget. If it is negative, the remaining defaults are not validated.
    budget: i64,
    errors: Errors,
}

/// The position of a node within its resource.
struct ResourcePosition<'s> {
    /// The schema of the resource: the innermost embedded resource, or the whole object.
    resource: Node<'s>,
    /// The steps from the resource to the node. `None` stands for the items of a list.
    steps: Vec<Option<&'s str>>,
    /// True inside of `apiVersion`, `kind` and `metadata` of the resource.
    inside_meta: bool,
}

impl<'s> ResourcePosition<'s> {
    fn step(&self, name: Option<&'s str>, inside_meta: bool) -> Self {
        let mut steps = self.steps.clone();
        steps.push(name);
        Self { resource: self.resource, steps, inside_meta }
    }

    /// Returns the smallest resource that contains `value` at this position.
    fn resource_with(&self, value: &Value) -> Value {
        let mut object = self.steps.iter().rev().fold(value.clone(), |value, step| match step {
            Some(name) => Value::Object([(*name, value)].into_iter().collect()),
            None => vec![value].into(),
        });
        object.set_default("kind", "Validation");
        object.set_default("apiVersion", "validation/v1");
        object
    }
}

impl DefaultsValidator<'_> {
    fn visit_node<'s>(&mut self, node: Node<'s>, position: &ResourcePosition<'s>, root: bool, path: &FieldPath<'_>) {
        let embedded = root || node.flag("x-kubernetes-embedded-resource");
        let own = ResourcePosition { resource: node, steps: Vec::new(), inside_meta: false };
        let position = if embedded { &own } else { position };
        if self.budget < 0 {
            return;
        }
        if let Some(value) = node.keyword("default") {
            self.validate_default_value(node, value, embedded, position, &path.child("default"));
        }
        if self.budget < 0 {
            return;
        }
        // Defaults are not allowed below `additionalProperties`.
        if let Some(items) = node.child("items") {
            self.visit_node(items, &position.step(None, position.inside_meta), false, &path.child("items"));
        }
        let properties = path.child("properties");
        for (name, property) in node.named("properties") {
            let meta = position.inside_meta || (embedded && matches!(name, "metadata" | "apiVersion" | "kind"));
            self.visit_node(property, &position.step(Some(name), meta), false, &properties.key(name));
        }
    }

    fn validate_default_value(
        &mut self,
        node: Node<'_>,
        value: &Value,
        embedded: bool,
        position: &ResourcePosition<'_>,
        path: &FieldPath<'_>,
    ) {
        let errors = if position.inside_meta {
            let object = position.resource_with(value);
            let found = self.validator.validate_metadata(position.resource.0, &object, true, &FieldPath::root());
            if !found.is_empty() {
                let detail = format!("must result in valid metadata: {}", found.message());
                return self.errors.invalid(path, value.clone(), detail);
            }
            found
        } else {
            if self.pruned && self.validator.has_unknown_fields(node.0, value) {
                self.errors.invalid(path, value.clone(), "must not have unknown fields");
            }
            self.validator.validate_metadata(node.0, value, embedded, path)
        };
        let errors = if errors.is_empty() { self.validator.validate(node.0, value, path) } else { errors };
        if errors.is_empty() {
            let is_whole_resource = std::ptr::eq(position.resource.0, node.0);
            let (errors, budget) = self.validator.validate_default(node.0, value, is_whole_resource, self.budget, path);
            self.errors.append(errors);
            self.budget = budget;
        }
        self.errors.append(errors);
    }
}
