//! CEL of admission: the environment of match conditions and admission policies, the compilation of their expressions,
//! and their evaluation for a request (upstream: `apiserver/pkg/admission/plugin/cel`). Strategies validate expressions
//! with it, admission plugins evaluate them.
//!
//! Pure and synchronous. Objects are bound without being copied.

mod compiler;
mod environment;
mod evaluation;
mod json;
mod match_conditions;
mod request;
mod type_check;
mod type_names;
mod types;
mod variables;

pub use compiler::{
    CompilationError, CompiledExpression, Declarations, ExpressionCompiler, ExpressionKind, UsedValues,
};
pub use evaluation::{
    EvaluationError, EvaluationInput, Expressions, OutOfBudget, POLICY_BUDGET, RequestAuthorizer, aggregate_errors,
};
pub use json::{apply_configuration, json_patch};
pub use match_conditions::{MATCH_CONDITIONS_BUDGET, MatchConditions, MatchOutcome};
pub use request::{AdmissionRequest, GroupVersionName};
pub use type_check::TypeChecker;
pub use types::result_type_name;
