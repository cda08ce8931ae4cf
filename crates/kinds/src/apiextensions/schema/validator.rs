//! The interface through which the validation of CustomResourceDefinitions validates values and compiles expressions.
//! The extensions crate implements it.

use pintle_value::{Errors, FieldPath, Value};

/// Validates the values and the expressions in schemas. The validator of custom resources implements this trait, so
/// that CRDs and custom resources are validated alike. Schemas are nodes of the JSON of an `openAPIV3Schema` and are
/// structural.
pub trait SchemaValidator: Send + Sync {
    /// Returns true if pruning by `schema` removes a field from `value`.
    fn has_unknown_fields(&self, schema: &Value, value: &Value) -> bool;

    /// Validates the metadata of the resources in `value`: of `value` itself if `resource` is true, and of the embedded
    /// resources that the schema declares.
    fn validate_metadata(&self, schema: &Value, value: &Value, resource: bool, path: &FieldPath<'_>) -> Errors;

    /// Validates `value` against the keywords and the rules of `schema`. Excludes the errors that the other methods
    /// report.
    fn validate(&self, schema: &Value, value: &Value, path: &FieldPath<'_>) -> Errors;

    /// Evaluates the rules in `schema` on a default value within a cost budget. Returns the errors and the remaining
    /// budget. `resource` is true if the default is a whole resource.
    fn validate_default(
        &self,
        _schema: &Value,
        _value: &Value,
        _resource: bool,
        budget: i64,
        _path: &FieldPath<'_>,
    ) -> (Errors, i64) {
        (Errors::new(), budget)
    }

    /// Compiles the rules of nodes of a schema, each with the types of its node. Returns the rules of each node, or the
    /// reason why the node cannot have rules.
    fn compile_rules(&self, _root: &Value, ruled: &[RuledNode<'_>]) -> Vec<Result<Vec<CompiledRule>, String>> {
        ruled.iter().map(|_| Ok(Vec::new())).collect()
    }
}

/// A node with rules, below which no other error was found. Excludes nodes below junctors, and nodes of schemas that
/// are not structural or have invalid defaults.
#[derive(Debug)]
pub struct RuledNode<'s> {
    /// The schema of the node.
    pub schema: &'s Value,
    /// The steps from the schema of the whole object to the node.
    pub steps: Vec<SchemaStep<'s>>,
}

/// A step from a schema to a schema below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaStep<'s> {
    /// To a property.
    Property(&'s str),
    /// To the items of a list.
    Items,
    /// To the values of a map.
    Values,
}

/// The result of the compilation of a rule. A rule that does not compile has no cost.
#[derive(Clone, Debug, Default)]
pub struct CompiledRule {
    /// The compilation error of the rule.
    pub error: Option<String>,
    /// The compilation error of the rule's message expression.
    pub message_error: Option<String>,
    /// True if the rule refers to `oldSelf`.
    pub uses_old_self: bool,
    /// The estimated cost.
    pub cost: RuleCost,
}

/// The estimated cost of a rule, in CEL cost units.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleCost {
    /// The maximum cost of one evaluation.
    pub rule: u64,
    /// The maximum cost of one evaluation of the message expression, if there is one.
    pub message: Option<u64>,
    /// The maximum number of values in one request if only the size of the request limits it.
    pub cardinality: u64,
}

/// A validator that accepts everything, for use where no real one is available.
pub(crate) struct NoopSchemaValidator;

impl SchemaValidator for NoopSchemaValidator {
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
