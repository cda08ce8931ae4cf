//! Evaluates the rules of an object (upstream: `Validator.Validate` of apiextensions-apiserver's
//! `pkg/apiserver/schema/cel`).

use pintle_cel::PER_CALL_COST_LIMIT;
use pintle_value::{Errors, FieldPath, Value as Json};

use super::correlation::{CorrelatedObject, RatchetingOptions};
use super::validator::CelValidator;
use crate::schema::{OldValue, SchemaNode};

/// The result of evaluating rules.
#[derive(Debug, Default)]
pub(crate) struct CelResult {
    /// The errors.
    pub(crate) errors: Errors,
    /// Ratcheted errors, which are returned to the client as warnings.
    pub(crate) warnings: Vec<String>,
    /// The remaining cost budget. It is negative if the budget was exceeded.
    pub(crate) remaining_budget: i64,
}

/// A value to validate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidationTarget<'a> {
    /// Its schema node.
    pub(crate) node: SchemaNode<'a>,
    /// The new value.
    pub(crate) new: &'a Json,
    /// The old value.
    pub(crate) old: Option<&'a Json>,
    /// True if errors of unchanged values become warnings.
    pub(crate) allow_ratcheting: bool,
}

/// The cost limits of a validation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostLimits {
    /// The cost budget of all rules together.
    budget: i64,
    /// The cost limit of one evaluation.
    per_call: u64,
}

impl CostLimits {
    /// Uses a total budget, and upstream's limit for each evaluation.
    pub(crate) fn of(budget: i64) -> Self {
        Self { budget, per_call: PER_CALL_COST_LIMIT }
    }

    /// Uses the same limit for the total and for each evaluation.
    pub(crate) fn shared(limit: u32) -> Self {
        Self { budget: limit.into(), per_call: limit.into() }
    }
}

impl CelValidator {
    /// Evaluates the rules. `path` is the path of the value.
    pub(crate) fn validate(&self, target: ValidationTarget<'_>, limits: CostLimits, path: &FieldPath<'_>) -> CelResult {
        let CostLimits { budget, per_call } = limits;
        let mut walker =
            ValidationWalker { result: CelResult { remaining_budget: budget, ..CelResult::default() }, per_call };
        let ValidationTarget { node, new, old, allow_ratcheting } = target;
        let correlated = old.filter(|_| allow_ratcheting).map(|old| CorrelatedObject::new(node, new, old));
        // The negative budget records that the walk ended early.
        let _ = walker
            .node(self, &NodeContext { node, new, old, ratcheting: RatchetingOptions::of(correlated.as_ref()), path });
        walker.result
    }
}

/// The current node and value of the walk.
pub(super) struct NodeContext<'a> {
    pub(super) node: SchemaNode<'a>,
    pub(super) new: &'a Json,
    pub(super) old: Option<&'a Json>,
    pub(super) ratcheting: RatchetingOptions<'a>,
    pub(super) path: &'a FieldPath<'a>,
}

impl NodeContext<'_> {
    fn old_field(&self, name: &str) -> Option<&Json> {
        self.old.and_then(|old| old.get(name))
    }
}

/// Walks an object and evaluates the rules of each node.
pub(super) struct ValidationWalker {
    pub(super) result: CelResult,
    /// The cost limit of one evaluation.
    pub(super) per_call: u64,
}

/// The budget is exceeded, so no further rules are evaluated.
pub(super) struct OutOfBudget;

/// The result of a step of the walk.
pub(super) type WalkResult = Result<(), OutOfBudget>;

impl ValidationWalker {
    fn node(&mut self, validator: &CelValidator, context: &NodeContext<'_>) -> WalkResult {
        match context.new {
            Json::Null => return Ok(()),
            _ if validator.has_untyped_rules => self.report_untyped_rules(context),
            _ if validator.rules.is_empty() => {}
            _ => self.apply_rules(validator, context)?,
        }
        match context.new {
            Json::Array(items) => self.items(validator, context, items),
            Json::Object(_) => {
                self.values(validator, context)?;
                self.properties(validator, context)
            }
            _ => Ok(()),
        }
    }

    fn properties(&mut self, validator: &CelValidator, context: &NodeContext<'_>) -> WalkResult {
        for (name, below) in &validator.properties {
            let (Some(new), Some(node)) = (context.new.get(name), context.node.property(name)) else { continue };
            let correlated = context.ratcheting.correlate_field(name);
            let ratcheting = context.ratcheting.for_key(name, correlated.as_ref());
            self.node(
                below,
                &NodeContext { node, new, old: context.old_field(name), ratcheting, path: &context.path.child(name) },
            )?;
        }
        Ok(())
    }

    fn values(&mut self, validator: &CelValidator, context: &NodeContext<'_>) -> WalkResult {
        let Some(below) = &validator.values else { return Ok(()) };
        let Some(node) = context.node.values() else { return Ok(()) };
        for (key, new) in context.new.entries_at(&[]) {
            let correlated = context.ratcheting.correlate_field(key);
            let ratcheting = context.ratcheting.for_key(key, correlated.as_ref());
            self.node(
                below,
                &NodeContext { node, new, old: context.old_field(key), ratcheting, path: &context.path.key(key) },
            )?;
        }
        Ok(())
    }

    fn items(&mut self, validator: &CelValidator, context: &NodeContext<'_>, items: &[Json]) -> WalkResult {
        let (Some(below), Some(node)) = (&validator.items, context.node.items()) else { return Ok(()) };
        let old_items = context.old.and_then(|old| OldValue(old).items(context.node));
        for (i, new) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|old| old.correlated_item(new)).map(|old| old.0);
            let correlated =
                old.filter(|_| context.ratcheting.is_correlated()).map(|old| CorrelatedObject::new(node, new, old));
            let ratcheting = context.ratcheting.for_child(correlated.as_ref());
            self.node(below, &NodeContext { node, new, old, ratcheting, path: &context.path.index(i) })?;
        }
        Ok(())
    }
}
