//! Compiled expressions.

use std::fmt;
use std::sync::Arc;

use pintle_value::Str;

use crate::check::Checked;
use crate::env::Env;
use crate::error::EvalError;
use crate::eval::{Bind, Machine, Node, Planned, plan};
use crate::source::Issues;
use crate::value::Value;

/// Why an expression cannot be compiled.
#[derive(Debug)]
pub enum CompileError {
    /// It is malformed, or its types are wrong.
    Issues(Box<Issues>),
    /// It is well formed, but fails whatever the data is.
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

/// What an evaluation may use.
#[derive(Clone, Copy, Default)]
pub struct Budget<'b> {
    /// How much it may cost.
    pub limit: u64,
    /// Asked now and then; the evaluation ends when the answer is true.
    pub interrupt: Option<&'b (dyn Fn() -> bool + 'b)>,
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Budget<'_> {
    /// What Kubernetes allows for one expression, about a tenth of a second.
    pub const PER_CALL: u64 = 1_000_000;

    /// A limit on the cost alone.
    #[must_use]
    pub fn limit(limit: u64) -> Self {
        Self { limit, interrupt: None }
    }
}

/// What came out of an evaluation, and what it cost. The cost counts whether it failed or not.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// The value or the error.
    pub result: Result<Value<'a>, EvalError>,
    /// What it cost, in cel-go's units.
    pub cost: u64,
}

/// A compiled expression. It can be evaluated many times, from many threads. It keeps what evaluation needs and nothing
/// else, since servers hold thousands.
#[derive(Debug)]
pub struct Program {
    root: Node,
    pub(crate) binds: Box<[Bind]>,
    pub(crate) locals: usize,
    pub(crate) variable_names: Arc<[Str]>,
}

impl Program {
    pub(crate) fn new(env: &Env, checked: &Checked) -> Result<Self, CompileError> {
        let Planned { root, binds, locals } = plan(env, checked).map_err(CompileError::Program)?;
        Ok(Self { root, binds: binds.into(), locals, variable_names: env.variable_names() })
    }

    /// Evaluates the expression. `bindings` holds the variables in the order in which the environment declared them;
    /// what comes out may borrow from them. Where one is missing, expressions that ask for it fail.
    #[must_use]
    pub fn evaluate<'a>(&'a self, bindings: &'a [Value<'a>], budget: Budget<'_>) -> Evaluation<'a> {
        let mut machine = Machine::new(self, bindings, budget);
        let result = machine.eval(&self.root);
        Evaluation { result, cost: machine.cost }
    }
}
