//! The machine that runs programs and counts what that costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{Call, Element, Entry, Membership, Node, Run};
use super::plan::charge_equal;
use crate::cost::{LIST_COST, MAP_COST, STRUCT_COST};
use crate::error::{EvalError, Failure};
use crate::function::Overload;
use crate::program::{Budget, Program};
use crate::value::{Key, List, Map, Outcome, OwnedMap, Value, equal, plain, try_equal};

/// What a local variable holds.
#[derive(Clone, Debug)]
pub(super) enum Slot<'a> {
    /// Nothing yet.
    Unset,
    /// A value, or the error that came instead.
    Set(Outcome<Value<'a>>),
}

/// What cel-go says when it counts the elements of an error.
const NO_LIST: Failure = Failure::Internal("interface conversion: *types.Err is not traits.Lister: missing method Add");

/// One evaluation under way.
pub(crate) struct Machine<'a, 'b> {
    pub(super) program: &'a Program,
    pub(super) bindings: &'a [Value<'a>],
    pub(super) locals: Vec<Slot<'a>>,
    pub(super) budget: Budget<'b>,
    pub(crate) cost: u64,
}

impl<'a, 'b> Machine<'a, 'b> {
    pub(crate) fn new(program: &'a Program, bindings: &'a [Value<'a>], budget: Budget<'b>) -> Self {
        Self { program, bindings, locals: vec![Slot::Unset; program.locals], budget, cost: 0 }
    }

    /// Adds to the cost, and stops the evaluation when it is too much.
    #[inline]
    pub(super) fn charge(&mut self, cost: u64) -> Outcome<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.budget.limit { Err(EvalError::of(Failure::CostLimit)) } else { Ok(()) }
    }

    pub(crate) fn eval(&mut self, node: &'a Node) -> Outcome<Value<'a>> {
        match node {
            Node::Const(value) => Ok(value.borrowed()),
            Node::Attribute(attribute) => self.attribute(attribute, false),
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Gather(gather) => self.gather(gather),
            Node::Equal(sides) => self.equal(sides, true),
            Node::NotEqual(sides) => self.equal(sides, false),
            Node::Call(call) => self.call(call),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries, MAP_COST),
            Node::Struct(unknown, entries) => {
                let value = self.map(entries, STRUCT_COST)?;
                match unknown {
                    None => Ok(value),
                    Some(name) => Err(EvalError::new(format!("unknown type '{name}'"))),
                }
            }
            Node::Fold(fold) => self.fold(fold),
            Node::Bind(bind, result) => {
                let slot = self.program.binds[*bind as usize].slot;
                self.locals[slot] = Slot::Unset;
                self.eval(result)
            }
            Node::Membership(membership) => self.membership(membership),
            Node::Append(append) => self.append(append),
            Node::Insert(insert) => self.insert(insert),
            Node::OptionalOr(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                other => Ok(other),
            },
            Node::OptionalOrValue(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                Value::Optional(Some(value)) => Ok((*value).clone()),
                other => Ok(other),
            },
        }
    }

    /// `&&` or `||`: a term that decides makes up for an error in the other, in either order.
    fn logic(&mut self, terms: &'a [Node; 2], decisive: bool) -> Outcome<Value<'a>> {
        let mut failed = None;
        for term in terms {
            let error = match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(value)),
                Ok(Value::Bool(_)) => continue,
                Ok(_) => EvalError::no_overload(),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => error,
            };
            failed.get_or_insert(error);
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn equal(&mut self, sides: &'a [Node; 2], positive: bool) -> Outcome<Value<'a>> {
        let a = self.eval(&sides[0]);
        if let Err(error) = &a
            && error.is_final()
        {
            return a;
        }
        let b = self.eval(&sides[1]);
        let (a, b) = self.both(a, b, |a, b| charge_equal(a, b, positive))?;
        if positive
            && matches!((&a, &b), (Value::Opaque(_), other) if !matches!(other, Value::Null))
            && a.type_name() != b.type_name()
        {
            // Values of libraries only compare to their own kind.
            return Err(EvalError::no_overload());
        }
        // What cannot be compared is not equal, but only for `==` that is an error.
        match try_equal(&a, &b) {
            Ok(same) => Ok(Value::Bool(same == positive)),
            Err(error) if positive || error.is_final() => Err(error),
            Err(_) => Ok(Value::Bool(true)),
        }
    }

    /// Both operands, or the first error. What is charged for a call does not depend on whether it failed.
    fn both(
        &mut self,
        a: Outcome<Value<'a>>,
        b: Outcome<Value<'a>>,
        charge: impl FnOnce(&Value<'a>, &Value<'a>) -> u64,
    ) -> Outcome<(Value<'a>, Value<'a>)> {
        match (a, b) {
            (Ok(a), Ok(b)) => {
                self.charge(charge(&a, &b))?;
                Ok((a, b))
            }
            (a, b) => {
                let cost = charge(a.as_ref().unwrap_or(&Value::Null), b.as_ref().unwrap_or(&Value::Null));
                if let Err(error) = &b
                    && error.is_final()
                {
                    return Err(error.clone());
                }
                let error = a.err().or(b.err()).unwrap_or_else(EvalError::no_overload);
                if !error.is_final() {
                    self.charge(cost)?;
                }
                Err(error)
            }
        }
    }

    fn call(&mut self, call: &'a Call) -> Outcome<Value<'a>> {
        match &*call.args {
            [] => self.run(call, &[]),
            [arg] => match self.eval(arg) {
                Ok(arg) => self.run(call, &[arg]),
                Err(error) if error.is_final() => Err(error),
                Err(_) if call.sized_by == Some(0) => Err(EvalError::of(NO_LIST)),
                Err(error) => {
                    self.charge((call.charge)(&[Value::Null], &Value::Null))?;
                    Err(error)
                }
            },
            [a, b] if !call.in_order => {
                let a = self.eval(a);
                if let Err(error) = &a
                    && error.is_final()
                {
                    return a;
                }
                match (a, self.eval(b)) {
                    (Ok(a), Ok(b)) => self.run(call, &[a, b]),
                    (_, Err(error)) if call.sized_by == Some(1) && !error.is_final() => Err(EvalError::of(NO_LIST)),
                    (a, b) => {
                        let charge = call.charge;
                        self.both(a, b, |a, b| charge(&[a.clone(), b.clone()], &Value::Null)).map(|(a, _)| a)
                    }
                }
            }
            many => {
                let mut args = Vec::with_capacity(many.len());
                for (i, arg) in many.iter().enumerate() {
                    match self.eval(arg) {
                        Ok(arg) => args.push(arg),
                        Err(error) if error.is_final() || i + 1 < many.len() => return Err(error),
                        // cel-go charges for the call if all of its arguments were looked at.
                        Err(error) => {
                            args.push(Value::Null);
                            self.charge((call.charge)(&args, &Value::Null))?;
                            return Err(error);
                        }
                    }
                }
                self.run(call, &args)
            }
        }
    }

    fn run(&mut self, call: &'a Call, args: &[Value<'a>]) -> Outcome<Value<'a>> {
        let outcome = match &call.run {
            Run::Checked(_, overload) if !overload.takes(args) => Err(EvalError::no_overload()),
            Run::Checked(run, _) | Run::Direct(run) => run(args),
            Run::Regex(regex, run) => run(regex, args),
            Run::Dispatch(overloads) => match overloads.iter().find(|overload| overload.takes(args)) {
                Some(Overload { run: Some(run), .. }) => run(args),
                _ => Err(EvalError::no_overload()),
            },
        };
        let none = Value::Null;
        self.charge((call.charge)(args, outcome.as_ref().unwrap_or(&none)))?;
        match outcome {
            Err(error) if call.guarded && *error.failure() == Failure::NoOverload => {
                let types: Vec<_> = args.iter().map(Value::type_name).collect();
                Err(EvalError::new(format!("no such overload: {}({})", call.name, types.join(", "))))
            }
            outcome => outcome,
        }
    }

    fn list(&mut self, elements: &'a [Element]) -> Outcome<Value<'a>> {
        let mut values = Vec::with_capacity(elements.len());
        let outcome = self.elements(elements, &mut values);
        self.finish(outcome, LIST_COST)?;
        Ok(Value::list(values))
    }

    /// Charges for an aggregate, whether it came about or not.
    pub(super) fn finish(&mut self, outcome: Outcome<()>, cost: u64) -> Outcome<()> {
        if let Err(error) = &outcome
            && error.is_final()
        {
            return outcome;
        }
        self.charge(cost)?;
        outcome
    }

    pub(super) fn elements(&mut self, elements: &'a [Element], values: &mut Vec<Value<'a>>) -> Outcome<()> {
        for element in elements {
            let value = self.eval(&element.node)?;
            match value {
                value if !element.optional => values.push(value),
                Value::Optional(Some(value)) => values.push((*value).clone()),
                Value::Optional(None) => {}
                other => {
                    let shown = plain(&other);
                    let message = format!("cannot initialize optional list element from non-optional value {shown}");
                    return Err(EvalError::new(message));
                }
            }
        }
        Ok(())
    }

    fn map(&mut self, entries: &'a [Entry], cost: u64) -> Outcome<Value<'a>> {
        let mut values = BTreeMap::new();
        let outcome = self.entries(entries, &mut values);
        self.finish(outcome, cost)?;
        Ok(Value::Map(Map::Owned(Arc::new(values))))
    }

    fn entries(&mut self, entries: &'a [Entry], values: &mut OwnedMap<'a>) -> Outcome<()> {
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let key = Key::new(key).ok_or_else(|| EvalError::new("unsupported key type"))?;
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
                    let shown = plain(&other);
                    let message = format!("cannot initialize optional entry '{key}' from non-optional value {shown}");
                    return Err(EvalError::new(message));
                }
            }
        }
        Ok(())
    }

    fn membership(&mut self, membership: &'a Membership) -> Outcome<Value<'a>> {
        let value = self.eval(&membership.value)?;
        Ok(Value::Bool(membership.constants.iter().any(|constant| equal(constant, &value))))
    }
}

/// The elements of a list that may be changed.
pub(super) fn own(list: List<'_>) -> Arc<Vec<Value<'_>>> {
    match list {
        List::Owned(elements) => elements,
        other => Arc::new(other.iter().collect()),
    }
}
