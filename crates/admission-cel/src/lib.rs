//! CEL for admission: the environment of match conditions and admission policies, and the compilation and evaluation of
//! their expressions (upstream: `apiserver/pkg/admission/plugin/cel`). Strategies validate expressions with this crate,
//! and admission plugins evaluate them.
//!
//! The crate is pure and synchronous. Objects are bound without a copy.

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
