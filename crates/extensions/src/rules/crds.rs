//! Compiles the rules of a CRD to validate them and estimate their cost.

use std::sync::Arc;

use pintle_kinds::{CompiledRule, RuleCost, RuledNode, SchemaStep};
use pintle_value::Value;

use super::compile::RuleEnvironments;
use super::decl_type::DeclType;
use crate::schema::{SchemaNode, StructuralSchema};

const NO_TYPES: &str = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
const NO_TYPE: &str = "failed to convert to declType for CEL validation rules";

/// Compiles the rules of schema nodes.
pub(crate) fn compile_nodes(
    schema: &StructuralSchema,
    ruled: &[RuledNode<'_>],
) -> Vec<Result<Vec<CompiledRule>, String>> {
    let mut types = NodeTypes { schema, outermost: None };
    ruled.iter().map(|node| compile_node(&mut types, node)).collect()
}

fn compile_node<'r>(types: &mut NodeTypes<'_, 'r>, node: &'r RuledNode<'_>) -> Result<Vec<CompiledRule>, String> {
    let decl_type = types.of(&node.steps)?;
    let cardinality = decl_type.max_cardinality();
    let environments = RuleEnvironments::of(decl_type, Some(types.schema.root().rule_features().version));
    let rules = node.schema.items_at(&["x-kubernetes-validations"]);
    Ok(rules.iter().map(|rule| compile_rule(rule, &environments, cardinality)).collect())
}

fn compile_rule(rule: &Value, environments: &RuleEnvironments, cardinality: u64) -> CompiledRule {
    let mut compiled = CompiledRule::default();
    match environments.rule(rule) {
        // An empty rule costs nothing.
        None => return compiled,
        Some(Err(error)) => {
            compiled.error = Some(error);
            return compiled;
        }
        Some(Ok(expression)) => {
            compiled.uses_old_self = expression.uses_old_self;
            compiled.cost = RuleCost { rule: expression.cost, message: None, cardinality };
        }
    }
    match environments.message(rule) {
        None => {}
        Some(Err(error)) => compiled.message_error = Some(error),
        Some(Ok(expression)) => compiled.cost.message = Some(expression.cost),
    }
    compiled
}

/// Resolves the CEL types of schema nodes. The type of a node is its type as its outermost ancestor with rules sees it.
struct NodeTypes<'s, 'r> {
    schema: &'s StructuralSchema,
    /// The most recently used of the outermost nodes with rules, and its type. All nodes within it are visited
    /// consecutively.
    outermost: Option<(&'r [SchemaStep<'r>], Arc<DeclType>)>,
}

impl<'s, 'r> NodeTypes<'s, 'r> {
    /// Returns the type of the node at a path.
    fn of(&mut self, steps: &'r [SchemaStep<'r>]) -> Result<Arc<DeclType>, &'static str> {
        let mut node = self.schema.root();
        let mut depth = 0;
        while node.rules().is_empty() {
            node = steps.get(depth).and_then(|step| below(node, *step)).ok_or(NO_TYPES)?;
            depth += 1;
        }
        let mut decl_type = Some(self.outermost(&steps[..depth], node)?);
        for step in &steps[depth..] {
            node = below(node, *step).ok_or(NO_TYPES)?;
            let seen = decl_type.as_ref().and_then(|around| around.step(*step)).cloned();
            decl_type = match step {
                // A field that CEL cannot name has a type of its own.
                SchemaStep::Property(_) if seen.is_none() => {
                    Some(DeclType::of(node, node.is_embedded_resource()).ok_or(NO_TYPES)?)
                }
                _ => seen,
            };
        }
        decl_type.ok_or(NO_TYPE)
    }

    fn outermost(&mut self, steps: &'r [SchemaStep<'r>], node: SchemaNode<'s>) -> Result<Arc<DeclType>, &'static str> {
        if let Some((known, decl_type)) = &self.outermost
            && *known == steps
        {
            return Ok(decl_type.clone());
        }
        let decl_type = DeclType::of(node, steps.is_empty() || node.is_embedded_resource()).ok_or(NO_TYPES)?;
        self.outermost = Some((steps, decl_type.clone()));
        Ok(decl_type)
    }
}

fn below<'s>(node: SchemaNode<'s>, step: SchemaStep<'_>) -> Option<SchemaNode<'s>> {
    match step {
        SchemaStep::Property(name) => node.property(name),
        SchemaStep::Items => node.items(),
        SchemaStep::Values => node.values(),
    }
}
