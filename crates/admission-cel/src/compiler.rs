//! Compiles expressions, with upstream's result types and errors (upstream: `plugin/cel/compile.go`, `composition.go`).

use std::collections::HashMap;
use std::sync::Arc;

use pintle_cel::{CheckedExpr, Program, Type};
use pintle_value::Str;
use pintle_versions::EffectiveVersion;

use crate::environment::environment;
use crate::types::{AdmissionTypes, JSON_PATCH, OBJECT, result_type_name, variable_type};
use crate::variables::{CompiledVariable, CompiledVariables};

/// The optional variables that an expression can use (upstream: `OptionalVariableDeclarations`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declarations {
    /// `params`, which may be null.
    pub params: bool,
    /// `authorizer` and `authorizer.requestResource`.
    pub authorizer: bool,
    /// The types of patches, `Object` and `JSONPatch`, and the functions for them.
    pub patches: bool,
}

impl Declarations {
    /// The declarations of most expressions: `authorizer`, and `params` if the flag is set.
    #[must_use]
    pub const fn with_authorizer(params: bool) -> Self {
        Self { params, authorizer: true, patches: false }
    }
}

/// The purpose of an expression, which decides its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionKind {
    /// A match condition or a validation: a bool.
    Condition,
    /// A message: a string.
    Message,
    /// The value of an audit annotation: a string or null.
    AuditAnnotation,
    /// A variable: any type.
    Variable,
    /// The configuration that a mutating policy applies: an `Object`.
    ApplyConfiguration,
    /// The patch of a mutating policy: a list of `JSONPatch`.
    JsonPatch,
}

impl ExpressionKind {
    /// The types that the expression may have; empty for any.
    fn result_types(self) -> Vec<Type> {
        match self {
            Self::Condition => vec![Type::Bool],
            Self::Message => vec![Type::String],
            Self::AuditAnnotation => vec![Type::String, Type::Null],
            Self::Variable => Vec::new(),
            Self::ApplyConfiguration => vec![Type::object(OBJECT)],
            Self::JsonPatch => vec![Type::list(Type::object(JSON_PATCH))],
        }
    }

    /// Fails if the expression has another type.
    fn check(self, checked: &CheckedExpr) -> Result<(), CompilationError> {
        let (allowed, output) = (self.result_types(), checked.output_type());
        if allowed.is_empty() || allowed.contains(output) {
            return Ok(());
        }
        let names: Vec<String> = allowed.iter().map(result_type_name).collect();
        let output = result_type_name(output);
        Err(CompilationError::Invalid(match &names[..] {
            [only] => format!("must evaluate to {only} but got {output}"),
            several => format!("must evaluate to one of [{}] but got {output}", several.join(" ")),
        }))
    }
}

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompilationError {
    /// The expression is malformed, ill-typed or of the wrong type.
    #[error("{0}")]
    Invalid(String),
    /// The expression is valid, but no program can be made from it.
    #[error("{0}")]
    Internal(String),
}

/// An expression with its program, or with the reason why it could not be compiled.
#[derive(Clone, Debug)]
pub struct CompiledExpression {
    /// The expression as written.
    pub text: Str,
    /// The program, or the reason why there is none.
    pub program: Result<Arc<Program>, CompilationError>,
    /// The values that its evaluation needs.
    pub(crate) used: UsedValues,
}

/// The values that expressions use and that are costly to prepare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedValues {
    /// `request`.
    pub request: bool,
    /// `namespaceObject`.
    pub namespace: bool,
    /// `authorizer`.
    pub authorizer: bool,
}

impl UsedValues {
    fn of(checked: &CheckedExpr) -> Self {
        Self {
            request: checked.references("request"),
            namespace: checked.references("namespaceObject"),
            authorizer: ["authorizer", "authorizer.requestResource"].iter().any(|name| checked.references(name)),
        }
    }

    /// The values that either of the two uses.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            request: self.request || other.request,
            namespace: self.namespace || other.namespace,
            authorizer: self.authorizer || other.authorizer,
        }
    }
}

/// Compiles the expressions of one policy or webhook. With variables, each expression can use the variables that were
/// added before it.
#[derive(Clone, Debug, Default)]
pub struct ExpressionCompiler {
    /// The types of the variables, if expressions can have variables.
    variable_types: Option<Arc<HashMap<Str, Type>>>,
    variables: Arc<CompiledVariables>,
    /// The version whose new expressions are compiled; `None` for stored expressions.
    version: Option<EffectiveVersion>,
}

impl ExpressionCompiler {
    /// A compiler for expressions without variables, such as the match conditions of webhooks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A compiler for a policy with variables (upstream: `CompositedCompiler`).
    #[must_use]
    pub fn with_variables() -> Self {
        Self { variable_types: Some(Arc::default()), ..Self::default() }
    }

    /// The compiler for new expressions of a server of this version. Without a version, it accepts whatever a version may
    /// have stored.
    #[must_use]
    pub fn for_new_expressions_of(self, version: EffectiveVersion) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Compiles an expression.
    #[must_use]
    pub fn compile(&self, text: &str, kind: ExpressionKind, declarations: Declarations) -> CompiledExpression {
        self.compile_typed(text, kind, declarations).0
    }

    /// Compiles a variable and adds it. A variable that cannot be compiled is dynamic for the expressions after it, and
    /// fails when it is used.
    ///
    /// # Errors
    /// The variable cannot be compiled.
    pub fn add_variable(&mut self, name: &str, text: &str, declarations: Declarations) -> Result<(), CompilationError> {
        let (compiled, ty) = self.compile_typed(text, ExpressionKind::Variable, declarations);
        let error = compiled.program.as_ref().err().cloned();
        let types = Arc::make_mut(self.variable_types.get_or_insert_default());
        types.insert(name.into(), ty.as_ref().map_or(Type::Dyn, variable_type));
        let CompiledExpression { program, used, .. } = compiled;
        Arc::make_mut(&mut self.variables).add(CompiledVariable { name: name.into(), program, used });
        error.map_or(Ok(()), Err)
    }

    /// The variables that were added.
    pub(crate) fn variables(&self) -> Arc<CompiledVariables> {
        self.variables.clone()
    }

    fn compile_typed(
        &self,
        text: &str,
        kind: ExpressionKind,
        declarations: Declarations,
    ) -> (CompiledExpression, Option<Type>) {
        let types = AdmissionTypes { variables: self.variable_types.clone(), patches: declarations.patches };
        let env = environment(types, declarations, self.version);
        let checked =
            env.check(text).map_err(|issues| CompilationError::Invalid(format!("compilation failed: {issues}")));
        let (mut ty, mut used) = (None, UsedValues::default());
        let program = checked.and_then(|checked| {
            kind.check(&checked)?;
            used = UsedValues::of(&checked);
            ty = Some(checked.output_type().clone());
            let program = env.program(&checked);
            program
                .map(Arc::new)
                .map_err(|error| CompilationError::Internal(format!("program instantiation failed: {error}")))
        });
        (CompiledExpression { text: text.into(), program, used }, ty)
    }
}
