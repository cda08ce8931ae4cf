//! The interpreter: evaluates a program and tracks its actual cost (upstream: cel-go `interpreter/interpretable.go` and
//! `interpreter/runtimecost.go`).

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_budget as budget;

use super::node::{Call, CallBinding, ElementNode, EntryNode, Interpretable, Plan, SetMembership};
use crate::cost::{LIST_CREATE_BASE_COST, MAP_CREATE_BASE_COST, STRUCT_CREATE_BASE_COST, tracker};
use crate::error::{EvalError, EvalErrorKind};
use crate::function::Overload;
use crate::value::{
    ELEMENT_BYTES, ENTRY_BYTES, EvalResult, List, Map, MapKey, OwnedMap, Value, equal, go_string, try_equal,
};

/// The content of a local variable's slot.
#[derive(Clone, Debug)]
pub(super) enum LocalValue<'a> {
    /// The variable is not evaluated yet.
    Unset,
    /// The value, or the error of its evaluation.
    Set(EvalResult<Value<'a>>),
}

/// cel-go panics with this message when the cost tracker measures the list argument and finds an error.
const NOT_A_LISTER: EvalErrorKind =
    EvalErrorKind::Internal("interface conversion: *types.Err is not traits.Lister: missing method Add");

/// One evaluation of a program.
pub(crate) struct Interpreter<'a> {
    pub(super) plan: &'a Plan,
    pub(super) bindings: &'a [Value<'a>],
    pub(super) locals: Vec<LocalValue<'a>>,
    cost_limit: u64,
    /// The memory of the values of lazy bindings.
    pub(super) kept: budget::KeptMemory,
    pub(crate) cost: u64,
}

impl<'a> Interpreter<'a> {
    pub(crate) fn new(plan: &'a Plan, bindings: &'a [Value<'a>], cost_limit: u64) -> Self {
        Self {
            plan,
            bindings,
            locals: vec![LocalValue::Unset; plan.local_slots],
            cost_limit,
            kept: budget::KeptMemory::default(),
            cost: 0,
        }
    }

    /// Adds to the cost. Fails if the cost exceeds the limit.
    #[inline]
    pub(super) fn charge(&mut self, cost: u64) -> EvalResult<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.cost_limit { Err(EvalError::from_kind(EvalErrorKind::CostLimit)) } else { Ok(()) }
    }

    pub(crate) fn eval(&mut self, node: &'a Interpretable) -> EvalResult<Value<'a>> {
        budget::step()?;
        match node {
            Interpretable::Const(value) => Ok(value.borrowed()),
            Interpretable::Attribute(attribute) => self.eval_attribute(attribute, false),
            Interpretable::And(terms) => self.eval_logic(terms, false),
            Interpretable::Or(terms) => self.eval_logic(terms, true),
            Interpretable::LogicStep(step) => self.eval_logic_step(step),
            Interpretable::Equal(sides) => self.eval_equal(sides, true),
            Interpretable::NotEqual(sides) => self.eval_equal(sides, false),
            Interpretable::Call(call) => self.eval_call(call),
            Interpretable::List(elements) => self.eval_list(elements),
            Interpretable::Map(entries) => {
                let entries = self.eval_map(entries, MAP_CREATE_BASE_COST)?;
                Ok(Value::Map(Map::Owned(entries)))
            }
            Interpretable::Struct { name, is_known, fields } => {
                let fields = self.eval_map(fields, STRUCT_CREATE_BASE_COST)?;
                match is_known {
                    true => Ok(Value::Map(Map::Struct { name, fields })),
                    false => Err(EvalError::new(format!("unknown type '{name}'"))),
                }
            }
            Interpretable::Fold(fold) => self.eval_comprehension(fold),
            Interpretable::LazyBinding(bind, result) => {
                let slot = self.plan.lazy_bindings[*bind as usize].slot;
                self.locals[slot] = LocalValue::Unset;
                self.eval(result)
            }
            Interpretable::SetMembership(membership) => self.eval_membership(membership),
            Interpretable::AppendStep(step) => self.eval_append_step(step),
            Interpretable::InsertStep(step) => self.eval_insert_step(step),
            Interpretable::OptionalOr(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                other => Ok(other),
            },
            Interpretable::OptionalOrValue(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                Value::Optional(Some(value)) => Ok((*value).clone()),
                other => Ok(other),
            },
        }
    }

    /// `&&` or `||`: an operand that decides the result absorbs an error of the other one, in either order.
    fn eval_logic(&mut self, terms: &'a [Interpretable; 2], decisive: bool) -> EvalResult<Value<'a>> {
        let mut failed = None;
        for term in terms {
            let error = match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(value)),
                Ok(Value::Bool(_)) => continue,
                Ok(_) => EvalError::no_overload(),
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => error,
            };
            failed.get_or_insert(error);
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn eval_equal(&mut self, sides: &'a [Interpretable; 2], positive: bool) -> EvalResult<Value<'a>> {
        let a = self.eval(&sides[0]);
        if let Err(error) = &a
            && error.is_fatal()
        {
            return a;
        }
        let b = self.eval(&sides[1]);
        let (a, b) = self.charge_operands(a, b, |a, b| tracker::equality(a, b, positive))?;
        if positive
            && matches!((&a, &b), (Value::Opaque(_), other) if !matches!(other, Value::Null))
            && a.type_name() != b.type_name()
        {
            // Opaque values can only be compared to values of the same type.
            return Err(EvalError::no_overload());
        }
        // Values that cannot be compared are not equal. Only `==` reports such values as an error.
        match try_equal(&a, &b) {
            Ok(same) => Ok(Value::Bool(same == positive)),
            Err(error) if positive || error.is_fatal() => Err(error),
            Err(_) => Ok(Value::Bool(true)),
        }
    }

    /// Charges for a call with two operands. Returns both operands or the first error; a failed operand does not change
    /// the cost.
    fn charge_operands(
        &mut self,
        a: EvalResult<Value<'a>>,
        b: EvalResult<Value<'a>>,
        cost: impl FnOnce(&Value<'a>, &Value<'a>) -> u64,
    ) -> EvalResult<(Value<'a>, Value<'a>)> {
        match (a, b) {
            (Ok(a), Ok(b)) => {
                self.charge(cost(&a, &b))?;
                Ok((a, b))
            }
            (a, b) => {
                let cost = cost(a.as_ref().unwrap_or(&Value::Null), b.as_ref().unwrap_or(&Value::Null));
                if let Err(error) = &b
                    && error.is_fatal()
                {
                    return Err(error.clone());
                }
                let error = a.err().or(b.err()).unwrap_or_else(EvalError::no_overload);
                if !error.is_fatal() {
                    self.charge(cost)?;
                }
                Err(error)
            }
        }
    }

    fn eval_call(&mut self, call: &'a Call) -> EvalResult<Value<'a>> {
        let before = budget::mark();
        let result = self.eval_args_and_invoke(call);
        // The arguments are released, except for the parts that the result shares with them.
        let charged = before.charged();
        if charged > 0 {
            before.release_all_but(result.as_ref().map_or(0, |value| value.held_bytes(charged)));
        }
        result
    }

    fn eval_args_and_invoke(&mut self, call: &'a Call) -> EvalResult<Value<'a>> {
        match &*call.args {
            [] => self.invoke(call, &[]),
            [arg] => match self.eval(arg) {
                Ok(arg) => self.invoke(call, &[arg]),
                Err(error) if error.is_fatal() => Err(error),
                Err(_) if call.measured_list == Some(0) => Err(EvalError::from_kind(NOT_A_LISTER)),
                Err(error) => {
                    self.charge((call.cost_tracker)(&[Value::Null], &Value::Null))?;
                    Err(error)
                }
            },
            [a, b] if !call.stops_at_first_error => {
                let a = self.eval(a);
                if let Err(error) = &a
                    && error.is_fatal()
                {
                    return a;
                }
                match (a, self.eval(b)) {
                    (Ok(a), Ok(b)) => self.invoke(call, &[a, b]),
                    (_, Err(error)) if call.measured_list == Some(1) && !error.is_fatal() => {
                        Err(EvalError::from_kind(NOT_A_LISTER))
                    }
                    (a, b) => {
                        let cost_tracker = call.cost_tracker;
                        self.charge_operands(a, b, |a, b| cost_tracker(&[a.clone(), b.clone()], &Value::Null))
                            .map(|(a, _)| a)
                    }
                }
            }
            many => {
                let mut args = Vec::with_capacity(many.len());
                for (i, arg) in many.iter().enumerate() {
                    match self.eval(arg) {
                        Ok(arg) => args.push(arg),
                        Err(error) if error.is_fatal() || i + 1 < many.len() => return Err(error),
                        // cel-go charges for the call once all of its arguments have been evaluated.
                        Err(error) => {
                            args.push(Value::Null);
                            self.charge((call.cost_tracker)(&args, &Value::Null))?;
                            return Err(error);
                        }
                    }
                }
                self.invoke(call, &args)
            }
        }
    }

    fn invoke(&mut self, call: &'a Call, args: &[Value<'a>]) -> EvalResult<Value<'a>> {
        let outcome = match &call.binding {
            CallBinding::TypeChecked(_, overload) if !overload.accepts_args(args) => Err(EvalError::no_overload()),
            CallBinding::TypeChecked(op, _) | CallBinding::Direct(op) => op(args),
            CallBinding::Regex(regex, op) => op(regex, args),
            CallBinding::Dynamic(overloads) => match overloads.iter().find(|overload| overload.accepts_args(args)) {
                Some(Overload { binding: Some(op), .. }) => op(args),
                _ => Err(EvalError::no_overload()),
            },
        };
        let none = Value::Null;
        self.charge((call.cost_tracker)(args, outcome.as_ref().unwrap_or(&none)))?;
        if let Ok(value) = &outcome {
            budget::try_charge(value.new_bytes())?;
        }
        match outcome {
            Err(error) if call.reports_arg_types && *error.kind() == EvalErrorKind::NoOverload => {
                let types: Vec<_> = args.iter().map(Value::type_name).collect();
                Err(EvalError::new(format!("no such overload: {}({})", call.name, types.join(", "))))
            }
            outcome => outcome,
        }
    }

    fn eval_list(&mut self, elements: &'a [ElementNode]) -> EvalResult<Value<'a>> {
        budget::try_charge(elements.len() * ELEMENT_BYTES)?;
        let mut values = Vec::with_capacity(elements.len());
        let outcome = self.eval_elements(elements, &mut values);
        self.charge_aggregate(outcome, LIST_CREATE_BASE_COST)?;
        Ok(Value::list(values))
    }

    /// Charges for creating an aggregate, whether the creation succeeds or not.
    pub(super) fn charge_aggregate(&mut self, outcome: EvalResult<()>, cost: u64) -> EvalResult<()> {
        if let Err(error) = &outcome
            && error.is_fatal()
        {
            return outcome;
        }
        self.charge(cost)?;
        outcome
    }

    pub(super) fn eval_elements(&mut self, elements: &'a [ElementNode], values: &mut Vec<Value<'a>>) -> EvalResult<()> {
        for element in elements {
            let value = self.eval(&element.node)?;
            match value {
                value if !element.optional => values.push(value),
                Value::Optional(Some(value)) => values.push((*value).clone()),
                Value::Optional(None) => {}
                other => {
                    let shown = go_string(&other);
                    let message = format!("cannot initialize optional list element from non-optional value {shown}");
                    return Err(EvalError::new(message));
                }
            }
        }
        Ok(())
    }

    fn eval_map(&mut self, entries: &'a [EntryNode], cost: u64) -> EvalResult<Arc<OwnedMap<'a>>> {
        budget::try_charge(entries.len() * ENTRY_BYTES)?;
        let mut values = BTreeMap::new();
        let outcome = self.eval_entries(entries, &mut values);
        self.charge_aggregate(outcome, cost)?;
        Ok(Arc::new(values))
    }

    fn eval_entries(&mut self, entries: &'a [EntryNode], values: &mut OwnedMap<'a>) -> EvalResult<()> {
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let key = MapKey::new(key).ok_or_else(|| EvalError::new("unsupported key type"))?;
            match value {
                value if !entry.optional => {
                    values.insert(key, value);
                }
                Value::Optional(Some(value)) => {
                    values.insert(key, (*value).clone());
                }
                Value::Optional(None) => {
                    values.remove(&key);
                }
                other => {
                    let shown = go_string(&other);
                    let message = format!("cannot initialize optional entry '{key}' from non-optional value {shown}");
                    return Err(EvalError::new(message));
                }
            }
        }
        Ok(())
    }

    fn eval_membership(&mut self, membership: &'a SetMembership) -> EvalResult<Value<'a>> {
        let value = self.eval(&membership.value)?;
        Ok(Value::Bool(membership.constants.iter().any(|constant| equal(constant, &value))))
    }
}

/// Returns the elements of a list, for modification.
pub(super) fn into_elements(list: List<'_>) -> Arc<Vec<Value<'_>>> {
    match list {
        List::Owned(elements) => elements,
        other => Arc::new(other.iter().collect()),
    }
}
