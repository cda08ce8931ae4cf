//! Functions: their overloads, what they do, what they cost.

use pintle_value::Str;
use regex::Regex;

use crate::cost::{CallEstimate, CallSizes};
use crate::types::Type;
use crate::value::{Outcome, Value};

/// What a function does. The target of a member call comes first. Arguments of types that the overload does not take
/// are answered with [`EvalError::no_overload`](crate::EvalError::no_overload).
pub type Eval = for<'a> fn(&[Value<'a>]) -> Outcome<Value<'a>>;

/// What a function does whose second argument is a regular expression that is known beforehand.
pub type RegexEval = for<'a> fn(&Regex, &[Value<'a>]) -> Outcome<Value<'a>>;

/// What a call cost, from its arguments and its result.
pub type Charge = for<'a> fn(&[Value<'a>], &Value<'a>) -> u64;

/// What a call may cost, from what is known of its arguments; `None` to leave it at the usual 1.
pub type Estimate = fn(&CallSizes<'_>) -> Option<CallEstimate>;

/// A function and its overloads.
#[derive(Clone, Debug)]
pub struct Function {
    pub(crate) name: Str,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) run: Option<Eval>,
    pub(crate) regex: Option<RegexEval>,
    pub(crate) charge: Option<Charge>,
    pub(crate) estimate: Option<Estimate>,
    pub(crate) in_order: bool,
    pub(crate) sized_by: Option<usize>,
}

impl Function {
    /// A function without overloads.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            overloads: Vec::new(),
            run: None,
            regex: None,
            charge: None,
            estimate: None,
            in_order: false,
            sized_by: None,
        }
    }

    /// Adds an overload.
    #[must_use]
    pub fn overload(mut self, overload: Overload) -> Self {
        self.overloads.push(overload);
        self
    }

    /// What all overloads do, whatever the types are.
    #[must_use]
    pub fn run(mut self, run: Eval) -> Self {
        self.run = Some(run);
        self
    }

    /// What the function does with a regular expression that is known beforehand.
    #[must_use]
    pub fn regex(mut self, run: RegexEval) -> Self {
        self.regex = Some(run);
        self
    }

    /// Arguments are looked at until one fails, as those of functions with three or more are anyway. With one or two
    /// all of them are, which only shows in the cost of a call that fails.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// The cost depends on a list, the argument of this index. Where that is an error, cel-go fails while it counts,
    /// and nothing absorbs that.
    #[must_use]
    pub(crate) fn sized_by(mut self, index: usize) -> Self {
        self.sized_by = Some(index);
        self
    }

    /// What calls cost, where an overload does not say otherwise.
    #[must_use]
    pub fn charge(mut self, charge: Charge) -> Self {
        self.charge = Some(charge);
        self
    }

    /// What calls may cost, where an overload does not say otherwise.
    #[must_use]
    pub fn estimate(mut self, estimate: Estimate) -> Self {
        self.estimate = Some(estimate);
        self
    }

    /// Takes over what another declaration of the same function adds.
    pub(crate) fn merge(&mut self, other: Function) {
        self.overloads.extend(other.overloads);
        self.run = self.run.or(other.run);
        self.regex = self.regex.or(other.regex);
        self.charge = self.charge.or(other.charge);
        self.estimate = self.estimate.or(other.estimate);
        self.in_order |= other.in_order;
        self.sized_by = self.sized_by.or(other.sized_by);
    }
}

/// One signature of a function.
#[derive(Clone, Debug)]
pub struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) run: Option<Eval>,
    pub(crate) charge: Option<Charge>,
    pub(crate) estimate: Option<Estimate>,
}

impl Overload {
    /// `function(params)`
    #[must_use]
    pub fn global(id: &'static str, params: &[Type], result: Type) -> Self {
        Self { id, member: false, params: params.to_vec(), result, run: None, charge: None, estimate: None }
    }

    /// `target.function(…)`; the target is the first of the parameters.
    #[must_use]
    pub fn member(id: &'static str, params: &[Type], result: Type) -> Self {
        Self { member: true, ..Self::global(id, params, result) }
    }

    /// What it does.
    #[must_use]
    pub fn run(mut self, run: Eval) -> Self {
        self.run = Some(run);
        self
    }

    /// What calls cost.
    #[must_use]
    pub fn charge(mut self, charge: Charge) -> Self {
        self.charge = Some(charge);
        self
    }

    /// What calls may cost.
    #[must_use]
    pub fn estimate(mut self, estimate: Estimate) -> Self {
        self.estimate = Some(estimate);
        self
    }

    /// True if values have the types of the parameters, as far as that shows at run time.
    pub(crate) fn takes(&self, args: &[Value<'_>]) -> bool {
        self.params.len() == args.len() && self.params.iter().zip(args).all(|(param, arg)| fits(param, arg))
    }
}

fn fits(param: &Type, arg: &Value<'_>) -> bool {
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
        // Only the first element is looked at, as cel-go does.
        (Type::List(element), Value::List(list)) => list.get(0).is_none_or(|first| fits(element, &first)),
        (Type::Opaque(name, _), value) => value.type_name() == *name,
        (Type::Object(name), Value::Opaque(value)) => value.type_name() == *name,
        (Type::Object(_), Value::Map(_)) => true,
        _ => false,
    }
}
