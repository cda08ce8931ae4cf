//! CEL, the expression language of CRD validation rules, admission policies and selectors. Values, errors and costs
//! match cel-go as kube-apiserver configures it.
//!
//! The crate is pure and synchronous: no I/O, no knowledge of kinds, HTTP or CRDs. The modules form layers. Each module
//! imports only modules of lower layers.
//!
//! - `syntax` (lexer, parser, macros) and `value`;
//! - `cost` (cost trackers, ranges of costs);
//! - `function` (overloads);
//! - `env` (declarations);
//! - `check` (type checker);
//! - `cost_estimator` and `eval` (planner, interpreter);
//! - `program` and `library` (the functions);
//! - `compile` (the operations of an environment).
//!
//! ```
//! use pintle_cel::{PER_CALL_COST_LIMIT, Env, Type, UnknownSizes, Value, untyped};
//!
//! // Declare the variables. Types with fields come from a `TypeProvider`.
//! let env = Env::kubernetes().variable("self", Type::map(Type::String, Type::Dyn));
//! let checked = env.check("self.replicas <= 5 && self.name.startsWith('web')").expect("the expression is valid");
//! assert_eq!(*checked.output_type(), Type::Bool);
//!
//! // Estimate the cost. A `SizeEstimator` would provide upper bounds of sizes.
//! assert_eq!(env.estimate_cost(&checked, &UnknownSizes).min, 3);
//! let program = env.program(&checked).expect("the expression can be planned");
//!
//! // Evaluate with JSON bindings, which are not copied.
//! use pintle_value::{Object, Value as Json};
//! let json = Json::Object(Object::from_iter([("replicas", Json::Int(3)), ("name", Json::from("web-1"))]));
//! let bindings = [untyped(&json)];
//! let evaluation = program.evaluate(&bindings, PER_CALL_COST_LIMIT);
//! assert_eq!(evaluation.result, Ok(Value::Bool(true)));
//!
//! // Errors are reported in cel-go's format.
//! let error = env.compile("self.replicas + 'a' > nothing").expect_err("the identifier is undeclared");
//! assert!(error.to_string().starts_with("ERROR: <input>:1:23: undeclared reference to 'nothing' (in container '')"));
//! ```

mod check;
mod compile;
mod cost;
mod cost_estimator;
mod env;
mod error;
mod escape;
mod eval;
mod format_string;
mod function;
pub mod library;
mod program;
mod regexp;
mod source;
mod syntax;
mod types;
mod value;

pub use check::CheckedExpr;
pub use compile::parse_without_macros;
pub use cost::{AstNode, CallEstimate, CostEstimate, EstimatedCall, SizeEstimate, SizeEstimator, UnknownSizes};
pub use env::{Env, Library, TypeProvider};
pub use error::{EvalError, EvalErrorKind};
pub use escape::escape_field_name;
pub use function::{Function, FunctionEstimator, FunctionOp, FunctionTracker, Overload, RegexFunctionOp};
pub use library::is_request_uri;
pub use program::{CompileError, Evaluation, PER_CALL_COST_LIMIT, Program};
pub use regexp::{Pattern, compile as compile_pattern};
pub use source::{Issue, Issues, Location};
pub use syntax::{
    Comprehension, EntryExpr, Expr, ExprId, ExprKind, Literal, Macro, MacroError, MacroExpander, MacroExpansion,
    MacroExprFactory, is_reserved,
};
pub use types::Type;
pub use value::{
    AccessCheck, AccessChecker, AccessDecision, AccessSubject, AccessTarget, AuthorizationValue, CelBytes, CelString,
    EvalResult, LazyMap, List, ListTopology, MAX_EVALUATION_MEMORY, Map, MapKey, Opaque, OwnedMap, ResourceTarget,
    Timestamp, TypeAdapter, Untyped, Value, compare, equal, untyped,
};
