//! What is asked of those who know values and expressions, which is not known here.

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

    /// What the rules in `schema` say of a default, within a budget, of which what is left is returned. `resource` is true
    /// for a default of a whole resource.
    fn judge_default(
        &self,
        _schema: &Value,
        _value: &Value,
        _resource: bool,
        budget: i64,
        _path: &FieldPath<'_>,
    ) -> (Errors, i64) {
        (Errors::new(), budget)
    }

    /// Compiles the rules of nodes of a schema, each with the types of its node. Returns for each node its rules, or why
    /// it cannot have any.
    fn compile_rules(&self, _root: &Value, ruled: &[Ruled<'_>]) -> Vec<Result<Vec<CompiledRule>, String>> {
        ruled.iter().map(|_| Ok(Vec::new())).collect()
    }
}

/// A node with rules below which no other error was found. Nodes below junctors are none, nor are those of a schema that
/// is not structural or has bad defaults.
#[derive(Debug)]
pub struct Ruled<'s> {
    /// The schema of the node.
    pub schema: &'s Value,
    /// The way from the schema of the whole object.
    pub way: Vec<Step<'s>>,
}

/// A step from a schema to one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'s> {
    /// To a property.
    Property(&'s str),
    /// To the items of a list.
    Items,
    /// To the values of a map.
    Values,
}

/// What is known of a rule once it is compiled. A rule that does not compile costs nothing.
#[derive(Clone, Debug, Default)]
pub struct CompiledRule {
    /// Why it does not compile, if so.
    pub error: Option<String>,
    /// Why the expression of its message does not compile, if so.
    pub message_error: Option<String>,
    /// True if it asks for the old value.
    pub uses_old_self: bool,
    /// What it may cost.
    pub cost: RuleCost,
}

/// What a rule may cost, in the units of CEL.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleCost {
    /// One evaluation, at most.
    pub rule: u64,
    /// One evaluation of the expression of its message, if there is one.
    pub message: Option<u64>,
    /// How many values there can be in one request, if nothing limits them but its size.
    pub cardinality: u64,
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
