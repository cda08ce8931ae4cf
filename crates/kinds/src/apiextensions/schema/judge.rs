//! What is asked of those who know values and expressions, which is not known here.

use std::collections::HashSet;

use pintle_value::{Errors, FieldPath, Value};

/// Judges the values and the expressions in schemas. Custom resources are judged elsewhere, and this is how the same
/// judge sees the schemas of definitions. Schemas are nodes of an `openAPIV3Schema` as its JSON has them, and structural.
pub trait SchemaJudge: Send + Sync {
    /// True if pruning by `schema` takes something away from `value`.
    fn has_unknown_fields(&self, schema: &Value, value: &Value) -> bool;

    /// What is wrong with the metadata of the resources in `value`: `value` itself, if it is one (`resource`), and those
    /// that its schema says are embedded.
    fn validate_metadata(&self, schema: &Value, value: &Value, resource: bool, path: &FieldPath<'_>) -> Errors;

    /// What is wrong with `value` by the keywords of `schema` and by its rules, without what the other methods say.
    fn validate(&self, schema: &Value, value: &Value, path: &FieldPath<'_>) -> Errors;

    /// What is wrong with the expressions in a schema. **The place to call `pintle-cel`**, which nobody does yet: rules and
    /// expressions of messages are to be compiled with the types of their schema, costs estimated for each and for all
    /// together, and `oldSelf` refused where nothing correlates. `path` is that of the schema as a whole.
    fn validate_rules(&self, _ruled: &[Ruled<'_>], _earlier: &Earlier<'_>, _path: &FieldPath<'_>) -> Errors {
        Errors::new()
    }
}

/// A node with rules below which no other error was found, in the order in which upstream looks at them. Nodes below
/// junctors are none, nor are those of a schema that is not structural or has bad defaults.
#[derive(Debug)]
pub struct Ruled<'s> {
    /// The path of the node.
    pub path: String,
    /// The schemas on the way from that of the whole object to that of the node, which comes last.
    pub way: Vec<&'s Value>,
    /// The path of the outermost part around the node whose old value cannot be told.
    pub uncorrelatable: Option<String>,
}

/// What was stored before, which newer checks let be.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// The rules of all versions.
    pub rules: &'a HashSet<String>,
    /// The expressions of messages of all versions.
    pub messages: &'a HashSet<String>,
    /// True if the schema is as it was: each of its rules may cost what it costs.
    pub unchanged: bool,
}

/// A judge that finds everything good, where none is at hand.
pub(crate) struct Lenient;

impl SchemaJudge for Lenient {
    fn has_unknown_fields(&self, _: &Value, _: &Value) -> bool {
        false
    }

    fn validate_metadata(&self, _: &Value, _: &Value, _: bool, _: &FieldPath<'_>) -> Errors {
        Errors::new()
    }

    fn validate(&self, _: &Value, _: &Value, _: &FieldPath<'_>) -> Errors {
        Errors::new()
    }
}
