//! Compiles the text of a rule to a program (upstream: `Compile` of apiextensions-apiserver's
//! `pkg/apiserver/schema/cel`).

use std::sync::Arc;

use pintle_cel::{CheckedExpr, CompileError, Env, Program, Type};
use pintle_value::Value;
use pintle_versions::EffectiveVersion;

use super::decl_type::{DeclType, DeclTypeProvider};

/// The name of the old value.
const OLD_SELF: &str = "oldSelf";

/// The CEL environments for the rules of one node.
pub(super) struct RuleEnvironments {
    decl_type: Arc<DeclType>,
    plain: Env,
    /// The environment with an optional `oldSelf`.
    optional: Env,
}

/// A compiled expression.
pub(super) struct CompiledExpression {
    pub(super) program: Program,
    /// True if the expression uses `oldSelf`.
    pub(super) uses_old_self: bool,
    /// The estimated maximum cost.
    pub(super) cost: u64,
}

impl RuleEnvironments {
    /// Creates the environments for rules whose `self` has this type. New rules can use the libraries of a version.
    /// Stored rules, without a version, can use all libraries.
    pub(super) fn of(decl_type: Arc<DeclType>, version: Option<EffectiveVersion>) -> Self {
        let types = DeclTypeProvider::new(&decl_type);
        let self_type = types.self_type();
        let libraries = version.map_or_else(Env::kubernetes, Env::kubernetes_of);
        let env = libraries.type_provider(Arc::new(types)).variable("self", self_type.clone());
        let optional = env.clone().variable(OLD_SELF, Type::optional(self_type.clone()));
        Self { decl_type, plain: env.variable(OLD_SELF, self_type), optional }
    }

    fn env(&self, rule: &Value) -> &Env {
        if rule.bool_at(&["optionalOldSelf"]) { &self.optional } else { &self.plain }
    }

    /// Compiles the rule's expression. Returns `None` if the expression is empty.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(super) fn rule(&self, rule: &Value) -> Option<Result<CompiledExpression, String>> {
        let text = rule.str_at(&["rule"]);
        if text.trim().is_empty() {
            return None;
        }
        Some(self.compile(self.env(rule), text, &Type::Bool).map_err(|error| match error {
            ExpressionError::Compile(issues) => format!("compilation failed: {issues}"),
            ExpressionError::Type => "cel expression must evaluate to a bool".to_owned(),
            ExpressionError::Program(why) => format!("program instantiation failed: {why}"),
        }))
    }

    /// Compiles the rule's `messageExpression`, if it has one.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(super) fn message(&self, rule: &Value) -> Option<Result<CompiledExpression, String>> {
        let text = rule.str_at(&["messageExpression"]);
        if text.is_empty() {
            return None;
        }
        Some(self.compile(self.env(rule), text, &Type::String).map_err(|error| match error {
            ExpressionError::Compile(issues) => format!("messageExpression compilation failed: {issues}"),
            ExpressionError::Type => "messageExpression must evaluate to a string".to_owned(),
            ExpressionError::Program(why) => format!("messageExpression instantiation failed: {why}"),
        }))
    }

    fn compile(&self, env: &Env, text: &str, expected: &Type) -> Result<CompiledExpression, ExpressionError> {
        let checked: CheckedExpr = env.check(text).map_err(|issues| ExpressionError::Compile(issues.to_string()))?;
        if checked.output_type() != expected {
            return Err(ExpressionError::Type);
        }
        let program =
            env.program(&checked).map_err(|error: CompileError| ExpressionError::Program(error.to_string()))?;
        let cost = env.estimate_cost(&checked, &*self.decl_type).max;
        Ok(CompiledExpression { program, uses_old_self: checked.references(OLD_SELF), cost })
    }
}

/// The reason why an expression does not compile.
enum ExpressionError {
    Compile(String),
    /// The expression has the wrong result type.
    Type,
    Program(String),
}
