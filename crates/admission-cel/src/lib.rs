//! CEL for admission: the environment of match conditions and admission policies, and the compilation and evaluation of
//! their expressions (upstream: `apiserver/pkg/admission/plugin/cel`). Strategies validate expressions with this crate,
//! and admission plugins evaluate them.
//!
//! The crate is pure and synchronous. Objects are bound without a copy.
//!
//! ```
//! use pintle_admission_cel::{Declarations, EvaluationInput, MatchConditions, MatchOutcome};
//! use pintle_value::{Value, object};
//!
//! let condition = object! { "name": "few", "expression": "object.spec.replicas <= 5" };
//! let conditions = MatchConditions::of_webhook(&[condition]);
//! let matches = |replicas: i64| {
//!     let (object, null) = (object! { "spec": object! { "replicas": replicas } }, Value::Null);
//!     let outcome = conditions.evaluate(&EvaluationInput {
//!         object: &object,
//!         old_object: &null,
//!         namespace: &null,
//!         request: &null,
//!         params: &null,
//!         authorizer: None,
//!     });
//!     matches!(outcome, MatchOutcome::Matches)
//! };
//! assert!(matches(3));
//! assert!(!matches(6));
//! ```

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
