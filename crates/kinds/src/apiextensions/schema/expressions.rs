//! Validates the CEL expressions of the rules of a schema (upstream: the last part of
//! `ValidateCustomResourceDefinitionOpenAPISchema`). A [`SchemaValidator`] compiles them. Unchanged expressions compile in
//! the same environment as new ones. Upstream's environments differ only for functions of newer versions.

use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::costs::{TotalCost, validate_one};
use super::go_types::RULE;
use super::node::Node;
use super::openapi::RuledNodeContext;
use super::validator::{CompiledRule, RuledNode, SchemaValidator};
use crate::go_json;

/// Validates the expressions of rules and adds up their estimated costs. Rules in `unchanged_schemas` schemas may
/// exceed the cost limits.
pub(super) fn validate(
    errors: &mut Errors,
    root: Node<'_>,
    ruled: &[RuledNode<'_>],
    contexts: &[RuledNodeContext],
    unchanged_schemas: bool,
    validator: &dyn SchemaValidator,
) -> TotalCost {
    let mut totals = TotalCost::default();
    if ruled.is_empty() {
        return totals;
    }
    for ((ruled, context), compiled) in ruled.iter().zip(contexts).zip(validator.compile_rules(root.0, ruled)) {
        let path = FieldPath::new(&context.path);
        let list = path.child("x-kubernetes-validations");
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(why) => {
                errors.push(FieldError::internal(&list, why));
                continue;
            }
        };
        let texts = ruled.schema.items_at(&["x-kubernetes-validations"]);
        for (i, (rule, text)) in compiled.iter().zip(texts).enumerate() {
            RuleInContext { rule, text, context, unchanged_schemas }.validate(errors, &mut totals, &list.index(i));
        }
    }
    totals
}

/// A rule of a node.
struct RuleInContext<'a> {
    rule: &'a CompiledRule,
    /// The rule as JSON.
    text: &'a Value,
    context: &'a RuledNodeContext,
    unchanged_schemas: bool,
}

impl RuleInContext<'_> {
    fn validate(&self, errors: &mut Errors, totals: &mut TotalCost, path: &FieldPath<'_>) {
        let (at_rule, at_message) = (path.child("rule"), path.child("messageExpression"));
        let rule = self.rule;
        self.cost(errors, totals, "estimated rule cost", self.context.cardinality.total(rule.cost), &at_rule);
        if let Some(why) = &rule.error {
            errors.push(go_json::invalid(&at_rule, self.text, &RULE, why));
        }
        if let Some(why) = &rule.message_error {
            errors.push(go_json::invalid(&at_message, self.text, &RULE, why));
        } else if let Some(cost) = rule.cost.message {
            self.cost(errors, totals, "estimated messageExpression cost", cost, &at_message);
        }
        if rule.uses_old_self {
            if let Some(within) = &self.context.uncorrelatable {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                errors.invalid(&at_rule, self.text.str_at(&["rule"]), detail);
            }
        } else if let Some(optional) = self.text.get("optionalOldSelf").and_then(Value::as_bool) {
            let detail = "may not be set if oldSelf is not used in rule";
            errors.invalid(&path.child("optionalOldSelf"), optional, detail);
        }
    }

    fn cost(&self, errors: &mut Errors, totals: &mut TotalCost, what: &str, cost: u64, path: &FieldPath<'_>) {
        if !self.unchanged_schemas {
            validate_one(errors, what, cost, path);
        }
        totals.add(path, cost);
    }
}
