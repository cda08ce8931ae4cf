//! Compiled programs and their evaluation (upstream: cel-go `cel/program.go`).

use std::fmt;

use crate::check::CheckedExpr;
use crate::env::Env;
use crate::error::EvalError;
use crate::eval::{Interpreter, Plan, plan};
use crate::source::Issues;
use crate::value::{MAX_EVALUATION_MEMORY, Value};

/// Kubernetes' cost limit for a single expression, about 0.1 seconds (upstream: `apiserver/pkg/apis/cel.PerCallLimit`).
pub const PER_CALL_COST_LIMIT: u64 = 1_000_000;

/// An error that prevents an expression from being compiled.
#[derive(Debug)]
pub enum CompileError {
    /// The expression is malformed or ill-typed.
    Issues(Box<Issues>),
    /// The expression is valid, but its evaluation fails for any input.
    Program(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issues(issues) => issues.fmt(f),
            Self::Program(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CompileError {}

/// The result and the actual cost of an evaluation. Failed evaluations have a cost too.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// The value or the error.
    pub result: Result<Value<'a>, EvalError>,
    /// The actual cost, in cel-go's units.
    pub cost: u64,
}

/// A compiled expression. It can be evaluated any number of times and concurrently. It retains only the data that
/// evaluation needs, because a server holds thousands of programs.
#[derive(Debug)]
pub struct Program {
    plan: Plan,
}

impl Program {
    pub(crate) fn new(env: &Env, checked: &CheckedExpr) -> Result<Self, CompileError> {
        plan(env, checked).map(|plan| Self { plan }).map_err(CompileError::Program)
    }

    /// Evaluates the expression. `bindings` contains the variables in the order in which the environment declared them.
    /// The result may borrow from them. An expression that uses a missing variable fails. The evaluation ends when its
    /// cost exceeds the limit, when its values hold more than [`MAX_EVALUATION_MEMORY`], or when the budget of the
    /// thread is exhausted.
    #[must_use]
    pub fn evaluate<'a>(&'a self, bindings: &'a [Value<'a>], cost_limit: u64) -> Evaluation<'a> {
        let mut interpreter = Interpreter::new(&self.plan, bindings, cost_limit);
        let result = pintle_budget::limit_memory(MAX_EVALUATION_MEMORY, || interpreter.eval(&self.plan.root));
        Evaluation { result, cost: interpreter.cost }
    }
}
