//! Evaluates compiled expressions for a request, within a budget (upstream: `plugin/cel/activation.go`, `condition.go`).

use std::borrow::Cow;
use std::sync::Arc;

use pintle_budget::limit_memory;
use pintle_cel::{
    AccessChecker, AuthorizationValue, EvalError, MAX_EVALUATION_MEMORY, Map, PER_CALL_COST_LIMIT, ResourceTarget,
    Value, untyped,
};
use pintle_value::Value as Json;

use crate::compiler::{CompilationError, CompiledExpression, ExpressionCompiler, UsedValues};
use crate::environment::SLOTS;
use crate::variables::{CompiledVariables, Variables};

/// The cost budget of the expressions of one kind of a policy for one binding and parameter object (upstream:
/// `RuntimeCELCostBudget`).
pub const POLICY_BUDGET: i64 = 10_000_000;

/// The values with which expressions are evaluated. Missing values are null.
#[derive(Clone, Copy)]
pub struct EvaluationInput<'a> {
    /// The object, at the version that the policy matches.
    pub object: &'a Json,
    /// The stored object.
    pub old_object: &'a Json,
    /// The namespace of the object, without the fields that policies do not see.
    pub namespace: &'a Json,
    /// The request, as [`AdmissionRequest::to_json`](crate::AdmissionRequest::to_json) makes it.
    pub request: &'a Json,
    /// The parameter object of the binding.
    pub params: &'a Json,
    /// Decides the checks of `authorizer`; without it, expressions that use it fail.
    pub authorizer: Option<RequestAuthorizer<'a>>,
}

/// The authorizer of a request, and the resource that the request is for.
#[derive(Clone, Copy)]
pub struct RequestAuthorizer<'a> {
    /// Decides the checks.
    pub checker: &'a dyn AccessChecker,
    /// The resource of the request.
    pub target: &'a ResourceTarget,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The expression was never compiled.
    #[error("compilation error: {0}")]
    Compilation(CompilationError),
    /// The evaluation failed.
    #[error("expression '{expression}' resulted in error: {error}")]
    Evaluation {
        /// The expression.
        expression: String,
        /// The error.
        error: EvalError,
    },
}

/// The budget was exceeded; no further expressions are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("validation failed due to running out of cost budget, no further validation rules will be run")]
pub struct OutOfBudget;

/// Expressions of one kind of a policy or webhook, with the variables that they can use.
#[derive(Clone, Debug, Default)]
pub struct Expressions {
    expressions: Vec<Option<CompiledExpression>>,
    variables: Arc<CompiledVariables>,
}

impl Expressions {
    /// The expressions, which the compiler has compiled. `None` stands for an omitted expression.
    #[must_use]
    pub fn new(compiler: &ExpressionCompiler, expressions: Vec<Option<CompiledExpression>>) -> Self {
        Self { expressions, variables: compiler.variables() }
    }

    /// True if there are no expressions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expressions.iter().all(Option::is_none)
    }

    /// The values that these expressions and their variables use. Other values need not be prepared for their
    /// evaluation.
    #[must_use]
    pub fn used_values(&self) -> UsedValues {
        let own = self.expressions.iter().flatten().map(|expression| expression.used);
        own.chain(self.variables.iter().map(|variable| variable.used)).fold(UsedValues::default(), UsedValues::or)
    }

    /// True if the evaluation of all expressions and variables cannot exceed a budget, because of their own limits.
    #[must_use]
    pub fn fits(&self, budget: i64) -> bool {
        // An evaluation ends soon after it has exceeded its limit.
        const MAX_COST: u64 = 2 * PER_CALL_COST_LIMIT;
        let count = self.expressions.len() + self.variables.len();
        u64::try_from(budget).is_ok_and(|budget| MAX_COST.saturating_mul(count as u64) <= budget)
    }

    /// Evaluates the expressions in order and passes the value of each to `each`, with its index. Omitted expressions
    /// are skipped. Variables are evaluated anew. Returns the rest of the budget. All values together, and the data
    /// that `each` derives from them, hold at most [`MAX_EVALUATION_MEMORY`].
    ///
    /// # Errors
    /// The budget was exceeded.
    pub fn evaluate(
        &self,
        input: &EvaluationInput<'_>,
        budget: i64,
        each: impl FnMut(usize, Result<&Value<'_>, EvaluationError>),
    ) -> Result<i64, OutOfBudget> {
        if self.is_empty() {
            return Ok(budget);
        }
        limit_memory(MAX_EVALUATION_MEMORY, || self.evaluate_all(input, budget, each))
    }

    fn evaluate_all(
        &self,
        input: &EvaluationInput<'_>,
        budget: i64,
        mut each: impl FnMut(usize, Result<&Value<'_>, EvaluationError>),
    ) -> Result<i64, OutOfBudget> {
        let mut remaining = budget;
        let variables = Variables::new(&self.variables);
        let bindings = bindings(input, &variables);
        variables.bind(&bindings);
        for (i, expression) in self.expressions.iter().enumerate() {
            let Some(expression) = expression else { continue };
            let program = match &expression.program {
                Ok(program) => program,
                Err(error) => {
                    each(i, Err(EvaluationError::Compilation(error.clone())));
                    continue;
                }
            };
            variables.allow(remaining);
            let evaluation = program.evaluate(&bindings, PER_CALL_COST_LIMIT);
            remaining = charge(remaining, variables.take_cost())?;
            remaining = charge(remaining, evaluation.cost)?;
            match &evaluation.result {
                Ok(value) => each(i, Ok(value)),
                Err(error) => {
                    let expression = expression.text.to_string();
                    each(i, Err(EvaluationError::Evaluation { expression, error: error.clone() }));
                }
            }
        }
        Ok(remaining)
    }
}

fn charge(remaining: i64, cost: u64) -> Result<i64, OutOfBudget> {
    i64::try_from(cost).ok().filter(|cost| *cost <= remaining).map(|cost| remaining - cost).ok_or(OutOfBudget)
}

/// The values of all slots of the environment.
fn bindings<'a>(input: &EvaluationInput<'a>, variables: &'a Variables<'a>) -> [Value<'a>; SLOTS] {
    let missing = |name: &str| Value::Invalid(EvalError::new(format!("no such attribute(s): {name}")));
    let (authorizer, resource) = match input.authorizer {
        Some(RequestAuthorizer { checker, target }) => {
            (AuthorizationValue::authorizer(checker), AuthorizationValue::resource_check(checker, target.clone()))
        }
        None => (missing("authorizer"), missing("authorizer.requestResource")),
    };
    [
        untyped(input.object),
        untyped(input.old_object),
        untyped(input.namespace),
        untyped(input.request),
        untyped(input.params),
        authorizer,
        resource,
        Value::Map(Map::Lazy(variables)),
    ]
}

/// The text of several errors together, without duplicates (upstream: `utilerrors.NewAggregate`).
#[must_use]
pub fn aggregate_errors(errors: &[String]) -> Cow<'_, str> {
    let mut distinct: Vec<&str> = Vec::with_capacity(errors.len());
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct[..] {
        [only] => Cow::Borrowed(only),
        _ => Cow::Owned(format!("[{}]", distinct.join(", "))),
    }
}
