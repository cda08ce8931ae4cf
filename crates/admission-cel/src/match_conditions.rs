//! Match conditions of webhooks and policies. They decide whether a request is for the webhook or policy at all
//! (upstream: `plugin/webhook/matchconditions`).

use pintle_cel::Value;
use pintle_value::{Str, Value as Json};

use crate::compiler::{Declarations, ExpressionCompiler, ExpressionKind, UsedValues};
use crate::evaluation::{EvaluationInput, Expressions, aggregate_errors};

/// The cost budget of all match conditions of a webhook or policy (upstream: `RuntimeCELCostBudgetMatchConditions`).
pub const MATCH_CONDITIONS_BUDGET: i64 = 2_500_000;

/// Compiled match conditions.
#[derive(Clone, Debug, Default)]
pub struct MatchConditions {
    names: Vec<Str>,
    expressions: Expressions,
}

/// The result of match conditions for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchOutcome<'c> {
    /// All conditions are true.
    Matches,
    /// The name of a false condition. The results of the other conditions do not matter.
    Excluded(&'c str),
    /// Some conditions failed, and none is false. The failure policy decides.
    Failed {
        /// The text of all errors.
        error: String,
        /// The number of failed conditions; zero if their budget was exceeded.
        failures: usize,
    },
}

impl MatchConditions {
    /// Compiles the elements of a list `matchConditions`. Conditions that cannot be compiled fail for every request.
    #[must_use]
    pub fn compile(conditions: &[Json], compiler: &ExpressionCompiler, declarations: Declarations) -> Self {
        let compile = |condition: &Json| {
            Some(compiler.compile(condition.str_at(&["expression"]), ExpressionKind::Condition, declarations))
        };
        Self {
            names: conditions.iter().map(|condition| condition.str_at(&["name"]).into()).collect(),
            expressions: Expressions::new(compiler, conditions.iter().map(compile).collect()),
        }
    }

    /// Compiles the match conditions of a webhook, which have `authorizer` but neither `params` nor `variables`.
    #[must_use]
    pub fn of_webhook(conditions: &[Json]) -> Self {
        Self::compile(conditions, &ExpressionCompiler::new(), Declarations::with_authorizer(false))
    }

    /// True if there are no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The values that the conditions use.
    #[must_use]
    pub fn used_values(&self) -> UsedValues {
        self.expressions.used_values()
    }

    /// Evaluates the conditions for a request. They do not see the namespace, which the caller leaves null.
    #[must_use]
    pub fn evaluate(&self, input: &EvaluationInput<'_>) -> MatchOutcome<'_> {
        let mut excluded = None;
        let mut errors = Vec::new();
        let evaluated = self.expressions.evaluate(input, MATCH_CONDITIONS_BUDGET, |i, result| match result {
            Ok(Value::Bool(false)) => excluded = excluded.or(Some(i)),
            Ok(_) => {}
            Err(error) if excluded.is_none() => errors.push(error.to_string()),
            Err(_) => {}
        });
        if let Err(error) = evaluated {
            return MatchOutcome::Failed { error: error.to_string(), failures: 0 };
        }
        if let Some(name) = excluded.and_then(|i| self.names.get(i)) {
            return MatchOutcome::Excluded(name);
        }
        if errors.is_empty() {
            return MatchOutcome::Matches;
        }
        MatchOutcome::Failed { error: aggregate_errors(&errors).into_owned(), failures: errors.len() }
    }
}
