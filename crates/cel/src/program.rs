//! Compiled programs and their evaluation (upstream: cel-go `cel/program.go`).

use std::fmt;
use std::sync::Arc;

use pintle_value::Str;

use crate::check::CheckedExpr;
use crate::env::Env;
use crate::error::EvalError;
use crate::eval::{Interpretable, Interpreter, LazyBinding, Plan, plan};
use crate::source::Issues;
use crate::value::Value;

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

/// Limits on an evaluation.
#[derive(Clone, Copy, Default)]
pub struct Budget<'b> {
    /// The cost limit.
    pub limit: u64,
    /// Called periodically; the evaluation is interrupted when it returns true.
    pub interrupt: Option<&'b (dyn Fn() -> bool + 'b)>,
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Budget<'_> {
    /// Kubernetes' cost limit for a single expression, about 0.1 seconds (upstream:
    /// `apiserver/pkg/apis/cel.PerCallLimit`).
    pub const PER_CALL: u64 = 1_000_000;

    /// A budget with a cost limit and no interrupt.
    #[must_use]
    pub fn limit(limit: u64) -> Self {
        Self { limit, interrupt: None }
    }
}

/// The result and the actual cost of an evaluation. Failed evaluations have a cost too.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// The value or the error.
    pub result: Result<Value<'a>, EvalError>,
    /// The actual cost, in cel-go's units.
    pub cost: u64,
}

/// A compiled expression. It can be evaluated any number of times and concurrently. It retains only what evaluation
/// needs, since a server holds thousands of programs.
#[derive(Debug)]
pub struct Program {
    root: Interpretable,
    pub(crate) lazy_bindings: Box<[LazyBinding]>,
    pub(crate) local_slots: usize,
    pub(crate) variable_names: Arc<[Str]>,
}

impl Program {
    pub(crate) fn new(env: &Env, checked: &CheckedExpr) -> Result<Self, CompileError> {
        let Plan { root, lazy_bindings, local_slots } = plan(env, checked).map_err(CompileError::Program)?;
        Ok(Self { root, lazy_bindings: lazy_bindings.into(), local_slots, variable_names: env.variable_names() })
    }

    /// Evaluates the expression. `bindings` contains the variables in the order in which the environment declared them;
    /// the result may borrow from them. An expression that uses a missing variable fails.
    #[must_use]
    pub fn evaluate<'a>(&'a self, bindings: &'a [Value<'a>], budget: Budget<'_>) -> Evaluation<'a> {
        let mut interpreter = Interpreter::new(self, bindings, budget);
        let result = interpreter.eval(&self.root);
        Evaluation { result, cost: interpreter.cost }
    }
}
