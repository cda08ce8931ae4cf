//! Attributes: roots and the ways from them.

use pintle_value::Str;

use super::fold::unusable_index;
use super::machine::{Machine, Slot};
use super::node::{Attribute, By, Node, Root, Step};
use crate::error::EvalError;
use crate::value::{Number, Outcome, Value, double_to_int, plain};

impl<'a> Machine<'a, '_> {
    /// The value at the end of the way. `bare` is true where cel-go does not charge for the root.
    pub(super) fn attribute(&mut self, attribute: &'a Attribute, bare: bool) -> Outcome<Value<'a>> {
        let free = bare || attribute.test || matches!(attribute.root, Root::Conditional(_));
        let root_cost = u64::from(!free);
        if attribute.plain {
            let root = match &attribute.root {
                Root::Variable(slot) => self.bindings.get(*slot as usize),
                Root::Local(slot) => match &self.locals[*slot as usize] {
                    Slot::Set(Ok(value)) => Some(value),
                    _ => None,
                },
                _ => None,
            };
            if let Some(root) = root.filter(|root| !matches!(root, Value::Optional(_) | Value::Invalid(_))) {
                let mut made = attribute.steps.len() as u64;
                let outcome = by_fields(root, &attribute.steps, &mut made);
                self.charge(made + root_cost)?;
                return outcome;
            }
        }
        let outcome = self.root(attribute).and_then(|root| self.follow(root, attribute));
        self.finish_attribute(outcome, root_cost)
    }

    fn finish_attribute(&mut self, outcome: Outcome<Value<'a>>, cost: u64) -> Outcome<Value<'a>> {
        if let Err(error) = &outcome
            && error.is_final()
        {
            return outcome;
        }
        self.charge(cost)?;
        outcome
    }

    /// Where the attribute begins.
    fn root(&mut self, attribute: &'a Attribute) -> Outcome<Value<'a>> {
        match &attribute.root {
            Root::Variable(slot) => match self.bindings.get(*slot as usize) {
                Some(value) => value.borrowed().valid(),
                None => {
                    let name = self.program.variable_names.get(*slot as usize).map_or("", Str::as_str);
                    Err(EvalError::new(format!("no such attribute(s): {name}")))
                }
            },
            Root::Local(slot) => self.local(*slot as usize),
            Root::Bound(bind) => {
                let bind = &self.program.binds[*bind as usize];
                if matches!(self.locals[bind.slot], Slot::Unset) {
                    let value = self.eval(&bind.init);
                    self.locals[bind.slot] = Slot::Set(value);
                }
                self.local(bind.slot)
            }
            Root::Node(node) => self.eval(node),
            Root::Conditional(parts) => {
                let [condition, truthy, falsy] = &**parts;
                match self.eval(condition)? {
                    Value::Bool(true) => self.bare(truthy),
                    Value::Bool(false) => self.bare(falsy),
                    _ => Err(EvalError::no_overload()),
                }
            }
        }
    }

    fn local(&self, slot: usize) -> Outcome<Value<'a>> {
        match &self.locals[slot] {
            Slot::Set(value) => value.clone(),
            Slot::Unset => Err(EvalError::no_overload()),
        }
    }

    /// A node where cel-go takes attributes apart instead of looking at their value.
    fn bare(&mut self, node: &'a Node) -> Outcome<Value<'a>> {
        match node {
            Node::Attribute(attribute) => self.attribute(attribute, true),
            other => self.eval(other),
        }
    }

    fn follow(&mut self, root: Value<'a>, attribute: &'a Attribute) -> Outcome<Value<'a>> {
        let (steps, test) = (&attribute.steps, attribute.test);
        if steps.is_empty() {
            return Ok(root);
        }
        let mut optional = false;
        let mut current = match root {
            Value::Optional(None) => return Ok(if test { Value::Bool(false) } else { Value::Optional(None) }),
            Value::Optional(Some(value)) => {
                optional = true;
                (*value).clone()
            }
            value => value,
        };
        let last = steps.len() - 1;
        for (i, step) in steps.iter().enumerate() {
            optional |= step.optional;
            let tests = test && i == last;
            match self.step(&current, step, optional || tests) {
                Found::Value(_) if tests && !optional => {
                    self.charge(1)?;
                    return Ok(Value::Bool(true));
                }
                Found::Value(value) => {
                    self.charge(1)?;
                    current = value;
                }
                Found::Nothing if optional => {
                    return Ok(if test { Value::Bool(false) } else { Value::Optional(None) });
                }
                Found::Nothing => {
                    self.charge(1)?;
                    return Ok(Value::Bool(false));
                }
                Found::Failed(error) => {
                    // cel-go does not charge for an optional step that fails.
                    if !error.is_final() && !optional {
                        self.charge(1)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(match (optional, test) {
            (true, true) => Value::Bool(true),
            (true, false) => Value::some(current),
            (false, _) => current,
        })
    }

    /// One step.
    fn step(&mut self, from: &Value<'a>, step: &'a Step, may_miss: bool) -> Found<'a> {
        match &step.by {
            By::Field(name) => match from {
                Value::Map(map) => match map.field(name) {
                    Ok(Some(value)) => found(value),
                    Ok(None) if may_miss => Found::Nothing,
                    Ok(None) => Found::Failed(EvalError::no_key(name)),
                    Err(error) => Found::Failed(error),
                },
                other => index_into(other, &Value::str(name), may_miss),
            },
            By::Const(index) => index_into(from, index, may_miss),
            By::Node(node) => match self.bare(node) {
                Ok(index) if is_index(&index) => index_into(from, &index, may_miss),
                Ok(index) => Found::Failed(EvalError::new(unusable_index(&index))),
                Err(error) => Found::Failed(error),
            },
        }
    }
}

/// What a step leads to.
enum Found<'a> {
    Value(Value<'a>),
    /// Nothing, where that is fine.
    Nothing,
    Failed(EvalError),
}

fn found(value: Value<'_>) -> Found<'_> {
    value.valid().map_or_else(Found::Failed, Found::Value)
}

fn is_index(value: &Value<'_>) -> bool {
    matches!(value, Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_))
}

/// The way by names alone. `made` is set to how many steps of it were made if not all of them were.
fn by_fields<'a>(root: &Value<'a>, steps: &'a [Step], made: &mut u64) -> Outcome<Value<'a>> {
    match steps {
        [] => Ok(root.clone()),
        [last] => by_field(root, last),
        [first, rest @ ..] => {
            let mut from = by_field(root, first).inspect_err(|_| *made = 1)?;
            for (i, step) in rest.iter().enumerate() {
                from = by_field(&from, step).inspect_err(|_| *made = i as u64 + 2)?;
            }
            Ok(from)
        }
    }
}

#[inline]
fn by_field<'a>(from: &Value<'a>, step: &'a Step) -> Outcome<Value<'a>> {
    let By::Field(name) = &step.by else { return Err(EvalError::no_overload()) };
    match from {
        Value::Map(map) => match map.field(name) {
            Ok(Some(value)) => value.valid(),
            Ok(None) => Err(EvalError::no_key(name)),
            Err(error) => Err(error),
        },
        other => match index_into(other, &Value::str(name), false) {
            Found::Value(value) => Ok(value),
            Found::Nothing => Err(EvalError::no_key(name)),
            Found::Failed(error) => Err(error),
        },
    }
}

/// What is at an index of a list or under a key of a map.
fn index_into<'a>(from: &Value<'a>, index: &Value<'_>, may_miss: bool) -> Found<'a> {
    let missing = |error: fn(&Value<'_>) -> EvalError| {
        if may_miss { Found::Nothing } else { Found::Failed(error(index)) }
    };
    match from {
        Value::Map(map) => match map.get(index) {
            Ok(Some(value)) => found(value),
            Ok(None) => missing(|key| EvalError::no_key(plain(key))),
            Err(error) => Found::Failed(error),
        },
        Value::List(list) => match list_index(index) {
            Ok(at) => match usize::try_from(at).ok().and_then(|at| list.get(at)) {
                Some(value) => found(value),
                None => missing(|index| EvalError::new(format!("index out of bounds: {}", plain(index)))),
            },
            Err(error) => Found::Failed(error),
        },
        _ => missing(|key| EvalError::no_key(plain(key))),
    }
}

/// An index as an integer, if it is a whole number.
pub(crate) fn list_index(index: &Value<'_>) -> Outcome<i64> {
    let whole = match Number::of(index) {
        Some(Number::Int(i)) => Some(i),
        Some(Number::Uint(u)) => i64::try_from(u).ok(),
        Some(Number::Double(x)) => double_to_int(x).filter(|i| *i as f64 == x),
        None => {
            return Err(EvalError::new(format!("unsupported index type '{}' in list", index.type_name())));
        }
    };
    whole.ok_or_else(|| EvalError::new(format!("unsupported index value {} in list", plain(index))))
}
