//! Function declarations: overloads, implementations, cost trackers and cost estimators (upstream: cel-go
//! `common/decls`).

use pintle_value::Str;

use crate::cost::{CallEstimate, EstimatedCall};
use crate::regexp::Pattern;
use crate::types::Type;
use crate::value::{EvalResult, Value};

/// The implementation of a function. The target of a member call is the first argument. Returns
/// [`EvalError::no_overload`](crate::EvalError::no_overload) for arguments of unsupported types (upstream:
/// `functions.FunctionOp`).
pub type FunctionOp = for<'a> fn(&[Value<'a>]) -> EvalResult<Value<'a>>;

/// The implementation of a function whose second argument is a constant regular expression, compiled at plan time
/// (upstream: `interpreter.RegexOptimization`).
pub type RegexFunctionOp = for<'a> fn(&Pattern, &[Value<'a>]) -> EvalResult<Value<'a>>;

/// The actual cost of a call, from its arguments and its result (upstream: `interpreter.FunctionTracker`).
pub type FunctionTracker = for<'a> fn(&[Value<'a>], &Value<'a>) -> u64;

/// The estimated cost of a call; `None` for the default of 1 (upstream: `checker.FunctionEstimator`).
pub type FunctionEstimator = fn(&EstimatedCall<'_>) -> Option<CallEstimate>;

/// A function and its overloads.
#[derive(Clone, Debug)]
pub struct Function {
    pub(crate) name: Str,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) binding: Option<FunctionOp>,
    pub(crate) regex_binding: Option<RegexFunctionOp>,
    pub(crate) cost_tracker: Option<FunctionTracker>,
    pub(crate) cost_estimator: Option<FunctionEstimator>,
    pub(crate) stops_at_first_error: bool,
    pub(crate) measured_list: Option<usize>,
}

impl Function {
    /// A function without overloads.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            overloads: Vec::new(),
            binding: None,
            regex_binding: None,
            cost_tracker: None,
            cost_estimator: None,
            stops_at_first_error: false,
            measured_list: None,
        }
    }

    /// Adds an overload.
    #[must_use]
    pub fn overload(mut self, overload: Overload) -> Self {
        self.overloads.push(overload);
        self
    }

    /// Sets the implementation of all overloads (upstream: `decls.SingletonFunctionBinding`).
    #[must_use]
    pub fn binding(mut self, binding: FunctionOp) -> Self {
        self.binding = Some(binding);
        self
    }

    /// Sets the implementation for a constant regular expression.
    #[must_use]
    pub fn regex_binding(mut self, binding: RegexFunctionOp) -> Self {
        self.regex_binding = Some(binding);
        self
    }

    /// Stops evaluating arguments at the first failed argument. Functions with three or more arguments always stop.
    /// Functions with one or two arguments evaluate all of them by default, which only affects the cost of a failed
    /// call.
    #[must_use]
    pub fn stop_at_first_error(mut self) -> Self {
        self.stops_at_first_error = true;
        self
    }

    /// Declares that the cost tracker measures the list argument at this index. If that argument is an error, cel-go
    /// panics, which ends the evaluation.
    #[must_use]
    pub(crate) fn measured_list(mut self, index: usize) -> Self {
        self.measured_list = Some(index);
        self
    }

    /// Sets the cost tracker of the overloads without a cost tracker of their own.
    #[must_use]
    pub fn cost_tracker(mut self, cost_tracker: FunctionTracker) -> Self {
        self.cost_tracker = Some(cost_tracker);
        self
    }

    /// Sets the cost estimator of the overloads without a cost estimator of their own.
    #[must_use]
    pub fn cost_estimator(mut self, cost_estimator: FunctionEstimator) -> Self {
        self.cost_estimator = Some(cost_estimator);
        self
    }

    /// Merges another declaration of the same function.
    pub(crate) fn merge(&mut self, other: Function) {
        self.overloads.extend(other.overloads);
        self.binding = self.binding.or(other.binding);
        self.regex_binding = self.regex_binding.or(other.regex_binding);
        self.cost_tracker = self.cost_tracker.or(other.cost_tracker);
        self.cost_estimator = self.cost_estimator.or(other.cost_estimator);
        self.stops_at_first_error |= other.stops_at_first_error;
        self.measured_list = self.measured_list.or(other.measured_list);
    }
}

/// One signature of a function.
#[derive(Clone, Debug)]
pub struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) binding: Option<FunctionOp>,
    pub(crate) cost_tracker: Option<FunctionTracker>,
    pub(crate) cost_estimator: Option<FunctionEstimator>,
}

impl Overload {
    /// An overload of a global function, `function(params)`.
    #[must_use]
    pub fn global(id: &'static str, params: &[Type], result: Type) -> Self {
        Self {
            id,
            member: false,
            params: params.to_vec(),
            result,
            binding: None,
            cost_tracker: None,
            cost_estimator: None,
        }
    }

    /// An overload of a member function, `target.function(…)`. The target is the first parameter.
    #[must_use]
    pub fn member(id: &'static str, params: &[Type], result: Type) -> Self {
        Self { member: true, ..Self::global(id, params, result) }
    }

    /// Sets the implementation.
    #[must_use]
    pub fn binding(mut self, binding: FunctionOp) -> Self {
        self.binding = Some(binding);
        self
    }

    /// Sets the cost tracker.
    #[must_use]
    pub fn cost_tracker(mut self, cost_tracker: FunctionTracker) -> Self {
        self.cost_tracker = Some(cost_tracker);
        self
    }

    /// Sets the cost estimator.
    #[must_use]
    pub fn cost_estimator(mut self, cost_estimator: FunctionEstimator) -> Self {
        self.cost_estimator = Some(cost_estimator);
        self
    }

    /// True if the arguments match the parameter types, as far as types can be checked at run time.
    pub(crate) fn accepts_args(&self, args: &[Value<'_>]) -> bool {
        self.params.len() == args.len() && self.params.iter().zip(args).all(|(param, arg)| accepts(param, arg))
    }
}

fn accepts(param: &Type, arg: &Value<'_>) -> bool {
    match (param, arg) {
        (Type::Dyn | Type::Param(_), _)
        | (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Map(_), Value::Map(_))
        | (Type::Type(_), Value::Type(_)) => true,
        // Only the first element is checked, as in cel-go.
        (Type::List(element), Value::List(list)) => list.get(0).is_none_or(|first| accepts(element, &first)),
        (Type::Opaque(name, _), value) => value.type_name() == *name,
        (Type::Object(name), Value::Opaque(value)) => value.type_name() == *name,
        (Type::Object(name), Value::Authorization(value)) => value.type_name() == *name,
        (Type::Object(_), Value::Map(_)) => true,
        _ => false,
    }
}
