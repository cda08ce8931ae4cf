//! CEL, the expression language of CustomResourceDefinition rules, admission policies and selectors, as kube-apiserver
//! 1.36 configures cel-go: the same values, the same errors, the same costs.
//!
//! Pure and synchronous: no I/O, no clock, no knowledge of kinds, HTTP or CustomResourceDefinitions. Four layers, each
//! readable without the next: `syntax` (text to tree), `check` (types), `eval` (programs and values), `cost`; and the
//! `library` of functions on top.
//!
//! ```
//! use pintle_cel::{Budget, Env, Type, UnknownSizes, Value, untyped};
//!
//! // Declare the variables. Types with fields come from a `TypeProvider`, which the schema side implements.
//! let env = Env::kubernetes().variable("self", Type::map(Type::String, Type::Dyn));
//! let checked = env.check("self.replicas <= 5 && self.name.startsWith('web')").expect("the expression is valid");
//! assert_eq!(*checked.result(), Type::Bool);
//!
//! // What it may cost, given what is known of sizes.
//! assert_eq!(env.estimate(&checked, &UnknownSizes).min, 3);
//! let program = env.program(&checked).expect("the expression can be run");
//!
//! // Evaluate over JSON, which is read in place.
//! use pintle_value::{Object, Value as Json};
//! let json = Json::Object(Object::from_iter([("replicas", Json::Int(3)), ("name", Json::from("web-1"))]));
//! let bindings = [untyped(&json)];
//! let evaluation = program.evaluate(&bindings, Budget::limit(Budget::PER_CALL));
//! assert_eq!(evaluation.result, Ok(Value::Bool(true)));
//!
//! // What is wrong is reported as cel-go reports it.
//! let error = env.compile("self.replicas + 'a' > nothing").expect_err("the name is not known");
//! assert!(error.to_string().starts_with("ERROR: <input>:1:23: undeclared reference to 'nothing' (in container '')"));
//! ```

mod check;
mod cost;
mod env;
mod error;
mod eval;
mod function;
pub mod library;
mod pattern;
mod program;
mod source;
mod syntax;
mod types;
mod value;

pub use check::Checked;
pub use cost::{CallEstimate, CallSizes, CostEstimate, Operand, SizeEstimate, Sizes, UnknownSizes};
pub use env::{Env, TypeProvider};
pub use error::{EvalError, Failure};
pub use function::{Charge, Estimate, Eval, Function, Overload, RegexEval};
pub use library::{Library, is_request_uri};
pub use pattern::compile as compile_pattern;
pub use program::{Budget, CompileError, Evaluation, Program};
pub use source::{Issue, Issues, Location};
pub use syntax::{
    Comprehension, Entry, Expander, Expansion, Expr, ExprId, ExprKind, Literal, Macro, MacroContext, MacroError,
    is_reserved,
};
pub use types::Type;
pub use value::{
    Blob, Fields, Key, List, Map, Opaque, Outcome, OwnedMap, Shape, Text, Timestamp, Topology, Untyped, Value, compare,
    equal, untyped,
};
