//! Validates the CEL expressions of webhooks and policies by compiling them (upstream: `validateCELCondition` and
//! similar of `pkg/apis/admissionregistration/validation`).
//!
//! Upstream compiles expressions that an update does not change in a more permissive environment. It differs only for
//! expressions that a newer version has stored, so validation has only one here.

use pintle_admission_cel::{CompilationError, CompiledExpression, Declarations, ExpressionCompiler, ExpressionKind};
use pintle_value::{Errors, FieldError, FieldPath, Value};
use pintle_versions::EffectiveVersion;

/// Compiles the expressions of one policy.
pub(super) struct PolicyExpressions {
    compiler: ExpressionCompiler,
    version: EffectiveVersion,
    /// True if the policy has a `paramKind`.
    has_params: bool,
}

impl PolicyExpressions {
    /// The expressions of a policy with this spec. They can use variables if there are any, or always.
    pub(super) fn of(spec: &Value, always_variables: bool, version: EffectiveVersion) -> Self {
        let variables = always_variables || !spec.items_at(&["variables"]).is_empty();
        let compiler = if variables { ExpressionCompiler::with_variables() } else { ExpressionCompiler::new() };
        let compiler = compiler.for_new_expressions_of(version);
        Self { compiler, version, has_params: spec.get("paramKind").is_some() }
    }

    /// The version whose expressions these are.
    pub(super) fn version(&self) -> EffectiveVersion {
        self.version
    }

    /// Validates a variable, which the expressions after it can use.
    pub(super) fn variable(&mut self, errors: &mut Errors, name: &str, expression: &str, path: &FieldPath<'_>) {
        let declarations = Declarations::with_authorizer(self.has_params);
        if let Err(error) = self.compiler.add_variable(name, expression, declarations) {
            report(errors, path, expression, &error);
        }
    }

    /// Validates an expression. `shown` is the expression as the error shows it.
    pub(super) fn expression(
        &self,
        errors: &mut Errors,
        (expression, shown): (&str, &str),
        kind: ExpressionKind,
        path: &FieldPath<'_>,
    ) {
        let declarations = Declarations {
            params: self.has_params,
            authorizer: kind != ExpressionKind::Message,
            patches: matches!(kind, ExpressionKind::ApplyConfiguration | ExpressionKind::JsonPatch),
        };
        if let Err(error) = self.compiler.compile(expression, kind, declarations).program {
            report(errors, path, shown, &error);
        }
    }
}

/// Validates the expression of a match condition, which cannot use variables.
pub(super) fn match_condition(
    errors: &mut Errors,
    expression: &str,
    has_params: bool,
    version: EffectiveVersion,
    path: &FieldPath<'_>,
) {
    let declarations = Declarations::with_authorizer(has_params);
    let CompiledExpression { program, .. } = ExpressionCompiler::new().for_new_expressions_of(version).compile(
        expression,
        ExpressionKind::Condition,
        declarations,
    );
    if let Err(error) = program {
        report(errors, path, expression, &error);
    }
}

fn report(errors: &mut Errors, path: &FieldPath<'_>, expression: &str, error: &CompilationError) {
    match error {
        CompilationError::Invalid(detail) => errors.invalid(path, expression, detail.as_str()),
        CompilationError::Internal(detail) => errors.push(FieldError::internal(path, detail.as_str())),
    }
}
