//! From the text of a rule to a program (upstream: `Compile` of apiextensions-apiserver's `pkg/apiserver/schema/cel`).

use std::sync::{Arc, LazyLock};

use pintle_cel::{CheckedExpr, CompileError, Env, Program, Type};
use pintle_value::Value;

use super::declare::{Declared, Types};

/// The libraries that rules may use. All of them are older than the oldest version that 1.36 is compatible with, so that
/// rules that are stored and rules that are new may use the same.
static LIBRARIES: LazyLock<Env> = LazyLock::new(Env::kubernetes);

/// What the old value is called.
const OLD_SELF: &str = "oldSelf";

/// The environments of the rules of one node.
pub(super) struct Environments {
    declared: Arc<Declared>,
    plain: Env,
    /// With an old value that may be missing.
    optional: Env,
}

/// An expression that compiles.
pub(super) struct Expression {
    pub(super) program: Program,
    /// True if it asks for the old value.
    pub(super) uses_old_self: bool,
    /// What it may cost at most.
    pub(super) cost: u64,
}

impl Environments {
    /// For rules whose `self` is of a type.
    pub(super) fn of(declared: Arc<Declared>) -> Self {
        let types = Types::new(&declared);
        let self_type = types.self_type();
        let env = LIBRARIES.clone().type_provider(Arc::new(types)).variable("self", self_type.clone());
        let optional = env.clone().variable(OLD_SELF, Type::optional(self_type.clone()));
        Self { declared, plain: env.variable(OLD_SELF, self_type), optional }
    }

    fn env(&self, rule: &Value) -> &Env {
        if rule.bool_at(&["optionalOldSelf"]) { &self.optional } else { &self.plain }
    }

    /// The expression that says whether a rule is kept; `None` for a rule that says nothing.
    ///
    /// # Errors
    /// In upstream's words.
    pub(super) fn rule(&self, rule: &Value) -> Option<Result<Expression, String>> {
        let text = rule.str_at(&["rule"]);
        if text.trim().is_empty() {
            return None;
        }
        Some(self.compile(self.env(rule), text, &Type::Bool).map_err(|fault| match fault {
            Fault::Compile(issues) => format!("compilation failed: {issues}"),
            Fault::Type => "cel expression must evaluate to a bool".to_owned(),
            Fault::Program(why) => format!("program instantiation failed: {why}"),
        }))
    }

    /// The expression that says what is wrong where a rule is not kept, if there is one.
    ///
    /// # Errors
    /// In upstream's words.
    pub(super) fn message(&self, rule: &Value) -> Option<Result<Expression, String>> {
        let text = rule.str_at(&["messageExpression"]);
        if text.is_empty() {
            return None;
        }
        Some(self.compile(self.env(rule), text, &Type::String).map_err(|fault| match fault {
            Fault::Compile(issues) => format!("messageExpression compilation failed: {issues}"),
            Fault::Type => "messageExpression must evaluate to a string".to_owned(),
            Fault::Program(why) => format!("messageExpression instantiation failed: {why}"),
        }))
    }

    fn compile(&self, env: &Env, text: &str, expected: &Type) -> Result<Expression, Fault> {
        let checked: CheckedExpr = env.check(text).map_err(|issues| Fault::Compile(issues.to_string()))?;
        if checked.output_type() != expected {
            return Err(Fault::Type);
        }
        let program = env.program(&checked).map_err(|error: CompileError| Fault::Program(error.to_string()))?;
        let cost = env.estimate_cost(&checked, &*self.declared).max;
        Ok(Expression { program, uses_old_self: checked.references(OLD_SELF), cost })
    }
}

/// Why an expression does not compile.
enum Fault {
    Compile(String),
    /// What comes out is of the wrong type.
    Type,
    Program(String),
}
