//! Validation of the defaults and the CEL rules in CRDs with the code that validates custom resources.

use std::sync::Arc;

use pintle_kinds::{CompiledRule, RuledNode, SchemaValidator};
use pintle_registry::Resource;
use pintle_value::metadata::MissingFields;
use pintle_value::{Errors, FieldPath, Value, object};
use pintle_versions::EffectiveVersion;

use crate::rules::{CelResult, CelValidator, CostLimits, ValidationTarget, compile_nodes};
use crate::schema::{MalformedObject, StructuralSchema};

/// The field of the wrapper object that holds a default during validation.
const FIELD: &str = "default";

/// Replaces the strategy of CRDs by a strategy that validates defaults and compiles CEL rules as a version does.
pub fn install_crd_validation(resources: &mut [Arc<Resource>], version: EffectiveVersion) {
    let crds = |resource: &&mut Arc<Resource>| {
        resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
    };
    for resource in resources.iter_mut().filter(crds).filter_map(Arc::get_mut) {
        resource.strategy =
            pintle_kinds::custom_resource_definition_strategy(Arc::new(StructuralSchemaValidator(version)));
    }
}

/// Validates with [`StructuralSchema`]. The version decides on rules.
struct StructuralSchemaValidator(EffectiveVersion);

/// Wraps a schema in the schema of an object with one field.
fn wrap_schema(schema: &Value) -> Option<StructuralSchema> {
    let mut properties = Value::object();
    properties.set(FIELD, schema.clone());
    StructuralSchema::parse(&object! { "type": "object", "properties": properties }).ok()
}

/// Wraps a value in an object with one field.
fn wrap_value(value: &Value) -> Value {
    let mut object = Value::object();
    object.set(FIELD, value.clone());
    object
}

/// Upstream validates defaults before `x-kubernetes-int-or-string` is expanded to types.
fn remove_int_or_string(schema: &mut Value) {
    schema.remove("x-kubernetes-int-or-string");
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(below) = schema.get_mut(keyword) {
            remove_int_or_string(below);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let list = schema.get_mut(keyword).and_then(Value::as_array_mut);
        list.into_iter().flatten().for_each(remove_int_or_string);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, below) in properties.into_iter().flat_map(|properties| properties.iter_mut()) {
        remove_int_or_string(below);
    }
}

impl SchemaValidator for StructuralSchemaValidator {
    fn has_unknown_fields(&self, schema: &Value, value: &Value) -> bool {
        wrap_schema(schema).is_some_and(|schema| !schema.prune(&mut wrap_value(value)).is_empty())
    }

    fn validate_metadata(&self, schema: &Value, value: &Value, resource: bool, path: &FieldPath<'_>) -> Errors {
        let mut schema = schema.clone();
        if resource {
            schema.set("x-kubernetes-embedded-resource", true);
        }
        let Some(schema) = wrap_schema(&schema) else { return Errors::new() };
        let object = wrap_value(value);
        let mut errors = match schema.conform(&mut object.clone()) {
            Ok(_) => schema.validate_embedded(&object, MissingFields::Invalid),
            Err(MalformedObject::Embedded(error)) => error.into(),
            Err(MalformedObject::Metadata(_)) => Errors::new(),
        };
        for error in errors.iter_mut() {
            let below = error.field.strip_prefix(FIELD).unwrap_or(&error.field);
            let whole = format!("{path}{below}");
            // A path without a parent does not start with a dot.
            error.field = whole.strip_prefix('.').map_or_else(|| whole.clone(), str::to_owned);
        }
        errors
    }

    fn validate(&self, schema: &Value, value: &Value, path: &FieldPath<'_>) -> Errors {
        let mut schema = schema.clone();
        remove_int_or_string(&mut schema);
        let schema = StructuralSchema::parse(&schema);
        schema.map(|schema| schema.root().validate(Some(&path.to_string()), value)).unwrap_or_default()
    }

    fn validate_default(
        &self,
        schema: &Value,
        value: &Value,
        resource: bool,
        budget: i64,
        path: &FieldPath<'_>,
    ) -> (Errors, i64) {
        let Ok(schema) = StructuralSchema::parse(schema) else { return (Errors::new(), budget) };
        let schema = schema.served_by(self.0);
        let node = schema.root();
        let Some(validator) = CelValidator::of(node, resource) else { return (Errors::new(), budget) };
        let validate = |old| {
            validator.validate(
                ValidationTarget { node, new: value, old, allow_ratcheting: false },
                CostLimits::of(budget),
                path,
            )
        };
        // A default must be valid on create, and on update of an object that already has it.
        let CelResult { errors, remaining_budget: left, .. } = validate(Some(value));
        if !errors.is_empty() {
            return (errors, left);
        }
        let CelResult { errors, remaining_budget: left_of_new, .. } = validate(None);
        (errors, left.min(left_of_new))
    }

    fn compile_rules(&self, root: &Value, ruled: &[RuledNode<'_>]) -> Vec<Result<Vec<CompiledRule>, String>> {
        let schema = StructuralSchema::parse(root).map(|schema| schema.served_by(self.0));
        schema.map(|schema| compile_nodes(&schema, ruled)).unwrap_or_default()
    }
}
