//! The rules of definitions, compiled to see whether they can be, and what they may cost.

use std::sync::Arc;

use pintle_kinds::{CompiledRule, RuleCost, Ruled, Step};
use pintle_value::Value;

use super::compile::Environments;
use super::declare::Declared;
use crate::schema::{Part, Schema};

const NO_TYPES: &str = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
const NO_TYPE: &str = "failed to convert to declType for CEL validation rules";

/// Compiles the rules of nodes of a schema.
pub(crate) fn compile_nodes(schema: &Schema, ruled: &[Ruled<'_>]) -> Vec<Result<Vec<CompiledRule>, String>> {
    let mut types = NodeTypes { schema, outermost: None };
    ruled.iter().map(|node| compile_node(&mut types, node)).collect()
}

fn compile_node<'r>(types: &mut NodeTypes<'_, 'r>, node: &'r Ruled<'_>) -> Result<Vec<CompiledRule>, String> {
    let declared = types.of(&node.way)?;
    let cardinality = declared.max_cardinality();
    let environments = Environments::of(declared);
    let rules = node.schema.items_at(&["x-kubernetes-validations"]);
    Ok(rules.iter().map(|rule| compile_rule(rule, &environments, cardinality)).collect())
}

fn compile_rule(rule: &Value, environments: &Environments, cardinality: u64) -> CompiledRule {
    let mut compiled = CompiledRule::default();
    match environments.rule(rule) {
        // A rule that says nothing costs nothing.
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

/// The types of the nodes of a schema. That of a node within one that has rules is as it is seen from there.
struct NodeTypes<'s, 'r> {
    schema: &'s Schema,
    /// The outermost node that has rules and was asked for last, and its type: all nodes within it come one after the
    /// other.
    outermost: Option<(&'r [Step<'r>], Arc<Declared>)>,
}

impl<'s, 'r> NodeTypes<'s, 'r> {
    /// The type of the node at the end of a way.
    fn of(&mut self, way: &'r [Step<'r>]) -> Result<Arc<Declared>, &'static str> {
        let mut part = self.schema.root();
        let mut depth = 0;
        while part.rules().is_empty() {
            part = way.get(depth).and_then(|step| below(part, *step)).ok_or(NO_TYPES)?;
            depth += 1;
        }
        let mut declared = Some(self.outermost(&way[..depth], part)?);
        for step in &way[depth..] {
            part = below(part, *step).ok_or(NO_TYPES)?;
            let seen = declared.as_ref().and_then(|around| around.step(*step)).cloned();
            declared = match step {
                // Fields that expressions cannot name have types of their own.
                Step::Property(_) if seen.is_none() => {
                    Some(Declared::of(part, part.is_embedded_resource()).ok_or(NO_TYPES)?)
                }
                _ => seen,
            };
        }
        declared.ok_or(NO_TYPE)
    }

    fn outermost(&mut self, way: &'r [Step<'r>], part: Part<'s>) -> Result<Arc<Declared>, &'static str> {
        if let Some((known, declared)) = &self.outermost
            && *known == way
        {
            return Ok(declared.clone());
        }
        let declared = Declared::of(part, way.is_empty() || part.is_embedded_resource()).ok_or(NO_TYPES)?;
        self.outermost = Some((way, declared.clone()));
        Ok(declared)
    }
}

fn below<'s>(part: Part<'s>, step: Step<'_>) -> Option<Part<'s>> {
    match step {
        Step::Property(name) => part.property(name),
        Step::Items => part.items(),
        Step::Values => part.values(),
    }
}
