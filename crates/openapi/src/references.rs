//! Finds and replaces the references within an OpenAPI 2.0 document, as kube-openapi's packages `aggregator` and
//! `schemamutation` do. Parts without a replaced reference are not copied.

use std::collections::HashSet;

use pintle_value::{Object, Str, Value};

use crate::spec::is_extension;

/// The start of a reference to a definition.
pub(crate) const DEFINITION: &str = "#/definitions/";

/// The start of a reference to a parameter.
pub(crate) const PARAMETER: &str = "#/parameters/";

/// Visits references. The function returns the reference to write instead of the visited one, if there is one. Each
/// method returns the changed part of the document, or `None` if nothing changes.
pub(crate) struct References<'f>(pub(crate) &'f mut dyn FnMut(&str) -> Option<Str>);

impl References<'_> {
    /// Visits the references of a path item. Its own `$ref` is not one of them.
    pub(crate) fn path_item(&mut self, item: &Value) -> Option<Value> {
        changed_members(item, |key, value| match key {
            "parameters" => changed_items(value, |parameter| self.parameter(parameter)),
            "get" | "put" | "post" | "delete" | "options" | "head" | "patch" => self.operation(value),
            _ => None,
        })
    }

    fn operation(&mut self, operation: &Value) -> Option<Value> {
        changed_members(operation, |key, value| match key {
            "parameters" => changed_items(value, |parameter| self.parameter(parameter)),
            "responses" => {
                changed_members(value, |key, response| if is_extension(key) { None } else { self.response(response) })
            }
            _ => None,
        })
    }

    fn response(&mut self, response: &Value) -> Option<Value> {
        changed_members(response, |key, value| match key {
            "$ref" => self.reference(value),
            "schema" => self.schema(value),
            _ => None,
        })
    }

    /// Visits the references of a parameter.
    pub(crate) fn parameter(&mut self, parameter: &Value) -> Option<Value> {
        changed_members(parameter, |key, value| match key {
            "$ref" => self.reference(value),
            "schema" => self.schema(value),
            "items" => changed_members(value, |key, value| (key == "$ref").then(|| self.reference(value)).flatten()),
            _ => None,
        })
    }

    /// Visits the references of a schema. Its `dependencies` are not visited.
    pub(crate) fn schema(&mut self, schema: &Value) -> Option<Value> {
        changed_members(schema, |key, value| match key {
            "$ref" => self.reference(value),
            key => changed_schemas(key, value, |schema| self.schema(schema)),
        })
    }

    fn reference(&mut self, value: &Value) -> Option<Value> {
        self.0(value.as_str()?).map(Value::String)
    }
}

/// Changes the schemas that a field of a schema has. Returns `None` if nothing changes.
pub(crate) fn changed_schemas(
    field: &str,
    value: &Value,
    mut change: impl FnMut(&Value) -> Option<Value>,
) -> Option<Value> {
    match field {
        "definitions" | "patternProperties" | "properties" => changed_members(value, |_, schema| change(schema)),
        "allOf" | "anyOf" | "oneOf" => changed_items(value, change),
        "items" if value.as_array().is_some() => changed_items(value, change),
        "additionalItems" | "additionalProperties" | "items" | "not" => change(value),
        _ => None,
    }
}

/// Changes members of an object. Returns `None` if no member changes, or the value is no object.
pub(crate) fn changed_members(value: &Value, mut change: impl FnMut(&str, &Value) -> Option<Value>) -> Option<Value> {
    let object = value.as_object()?;
    let mut changed: Vec<(usize, Value)> = Vec::new();
    for (at, (key, value)) in object.iter().enumerate() {
        changed.extend(change(key, value).map(|value| (at, value)));
    }
    if changed.is_empty() {
        return None;
    }
    let mut changed = changed.into_iter().peekable();
    let members = object.iter().enumerate().map(|(at, (key, value))| {
        let changed = changed.next_if(|(index, _)| *index == at).map(|(_, value)| value);
        (Str::from(key), changed.unwrap_or_else(|| value.clone()))
    });
    Some(Value::Object(Object::from_entries(members.collect())))
}

/// Changes items of an array. Returns `None` if no item changes, or the value is no array.
fn changed_items(value: &Value, change: impl FnMut(&Value) -> Option<Value>) -> Option<Value> {
    let items = value.as_array()?;
    let changed: Vec<Option<Value>> = items.iter().map(change).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let items = items.iter().zip(changed).map(|(item, changed)| changed.unwrap_or_else(|| item.clone()));
    Some(Value::Array(items.collect()))
}

/// The names of the definitions that path items refer to, directly or through parameters and other definitions. Names
/// without a definition are among them.
pub(crate) fn used_definitions<'v>(
    path_items: impl Iterator<Item = &'v Value>,
    definitions: &Object,
    parameters: &Object,
) -> HashSet<Str> {
    let mut found = Found::default();
    for item in path_items {
        References(&mut |reference| found.add(reference)).path_item(item);
    }
    let mut used = HashSet::new();
    // A chain of references may be longer than a stack permits.
    while let Some(reference) = found.pending.pop() {
        if let Some(name) = reference.strip_prefix(PARAMETER) {
            let parameter = parameters.get(name);
            parameter.and_then(|parameter| References(&mut |reference| found.add(reference)).parameter(parameter));
        } else if let Some(name) = reference.strip_prefix(DEFINITION) {
            used.insert(Str::from(name));
            let schema = definitions.get(name);
            schema.and_then(|schema| References(&mut |reference| found.add(reference)).schema(schema));
        }
    }
    used
}

/// The references that were found so far.
#[derive(Default)]
struct Found {
    /// References that have not been followed yet.
    pending: Vec<Str>,
    all: HashSet<Str>,
}

impl Found {
    /// Adds a reference, and leaves it as it is.
    fn add(&mut self, reference: &str) -> Option<Str> {
        if !self.all.contains(reference) {
            self.all.insert(Str::from(reference));
            self.pending.push(Str::from(reference));
        }
        None
    }
}
