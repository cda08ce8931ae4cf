//! The defaults and the rules in definitions are judged by those who judge custom resources.

use std::sync::Arc;

use pintle_kinds::{CompiledRule, Ruled, SchemaJudge};
use pintle_registry::Resource;
use pintle_value::{Errors, FieldPath, Value, object};

use crate::rules::{Limits, Rules, Subject, Verdict, compile_nodes};
use crate::schema::{Malformed, Schema};

/// The field of the object that a default is put in to be judged.
const FIELD: &str = "default";

/// Lets the rules of definitions judge defaults and rules in CEL, in the records of the built-in kinds.
pub fn judge_definitions(resources: &mut [Arc<Resource>]) {
    let definitions = |resource: &&mut Arc<Resource>| {
        resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
    };
    for resource in resources.iter_mut().filter(definitions).filter_map(Arc::get_mut) {
        resource.strategy = pintle_kinds::definitions(Arc::new(Judge));
    }
}

/// Judges by [`Schema`].
struct Judge;

/// The schema of an object of which a part has this schema.
fn around(schema: &Value) -> Option<Schema> {
    let mut properties = Value::object();
    properties.set(FIELD, schema.clone());
    Schema::parse(&object! { "type": "object", "properties": properties }).ok()
}

/// An object that has this part.
fn with(value: &Value) -> Value {
    let mut object = Value::object();
    object.set(FIELD, value.clone());
    object
}

/// Upstream judges defaults by what a schema says before `x-kubernetes-int-or-string` is spelled out as types.
fn forget_int_or_string(schema: &mut Value) {
    schema.remove("x-kubernetes-int-or-string");
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(below) = schema.get_mut(keyword) {
            forget_int_or_string(below);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let list = schema.get_mut(keyword).and_then(Value::as_array_mut);
        list.into_iter().flatten().for_each(forget_int_or_string);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, below) in properties.into_iter().flat_map(|properties| properties.iter_mut()) {
        forget_int_or_string(below);
    }
}

impl SchemaJudge for Judge {
    fn has_unknown_fields(&self, schema: &Value, value: &Value) -> bool {
        around(schema).is_some_and(|schema| !schema.prune(&mut with(value)).is_empty())
    }

    fn validate_metadata(&self, schema: &Value, value: &Value, resource: bool, path: &FieldPath<'_>) -> Errors {
        let mut schema = schema.clone();
        if resource {
            schema.set("x-kubernetes-embedded-resource", true);
        }
        let Some(schema) = around(&schema) else { return Errors::new() };
        let object = with(value);
        let mut errors = match schema.conform(&mut object.clone()) {
            Ok(_) => schema.validate_embedded(&object),
            Err(Malformed::Embedded(error)) => error.into(),
            Err(Malformed::Metadata(_)) => Errors::new(),
        };
        for error in &mut errors.0 {
            let below = error.field.strip_prefix(FIELD).unwrap_or(&error.field);
            let whole = format!("{path}{below}");
            // Where there is nothing above, paths do not start with a dot.
            error.field = whole.strip_prefix('.').map_or_else(|| whole.clone(), str::to_owned);
        }
        errors
    }

    fn validate(&self, schema: &Value, value: &Value, path: &FieldPath<'_>) -> Errors {
        let mut schema = schema.clone();
        forget_int_or_string(&mut schema);
        let schema = Schema::parse(&schema);
        schema.map(|schema| schema.root().validate(Some(&path.to_string()), value)).unwrap_or_default()
    }

    fn judge_default(
        &self,
        schema: &Value,
        value: &Value,
        resource: bool,
        budget: i64,
        path: &FieldPath<'_>,
    ) -> (Errors, i64) {
        let Ok(schema) = Schema::parse(schema) else { return (Errors::new(), budget) };
        let part = schema.root();
        let Some(rules) = Rules::of(part, resource) else { return (Errors::new(), budget) };
        let judge = |old| rules.judge(Subject { part, new: value, old, ratchets: false }, Limits::of(budget), path);
        // A default must be good for objects that had it before, and for those that get it.
        let Verdict { errors, budget: left, .. } = judge(Some(value));
        if !errors.is_empty() {
            return (errors, left);
        }
        let Verdict { errors, budget: left_of_new, .. } = judge(None);
        (errors, left.min(left_of_new))
    }

    fn compile_rules(&self, root: &Value, ruled: &[Ruled<'_>]) -> Vec<Result<Vec<CompiledRule>, String>> {
        Schema::parse(root).map(|schema| compile_nodes(&schema, ruled)).unwrap_or_default()
    }
}
