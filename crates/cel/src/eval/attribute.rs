//! Attributes: roots and the ways from them.

use std::borrow::Cow;

use super::machine::{Machine, Slot};
use super::node::{Attribute, By, Node, Root, Step};
use crate::error::EvalError;
use crate::value::{Number, Outcome, Value, double_to_int, plain};

impl<'a> Machine<'a, '_> {
    /// The value at the end of the way. `bare` is true where cel-go does not charge for the root.
    pub(super) fn attribute(&mut self, attribute: &'a Attribute, bare: bool) -> Outcome<Value<'a>> {
        let outcome = self.walk(attribute);
        if let Err(error) = &outcome
            && error.is_final()
        {
            return outcome;
        }
        let free = bare || attribute.test || matches!(attribute.root, Root::Conditional(_));
        self.charge(u64::from(!free))?;
        outcome
    }

    fn walk(&mut self, attribute: &'a Attribute) -> Outcome<Value<'a>> {
        let steps = &attribute.steps;
        match &attribute.root {
            Root::Variable(slot) => match self.bindings.get(*slot as usize) {
                Some(value) => self.follow(Cow::Borrowed(value), attribute),
                None => {
                    let name = &self.program.variable_names[*slot as usize];
                    Err(EvalError::new(format!("no such attribute(s): {name}")))
                }
            },
            Root::Local(slot) => match &self.locals[*slot as usize] {
                Slot::Set(Ok(value)) if steps.is_empty() => Ok(value.clone()),
                Slot::Set(Ok(value)) => {
                    let value = value.clone();
                    self.follow(Cow::Owned(value), attribute)
                }
                Slot::Set(Err(error)) => Err(error.clone()),
                Slot::Unset => Err(EvalError::no_overload()),
            },
            Root::Bound(bind) => {
                let bind = &self.program.binds[*bind as usize];
                if matches!(self.locals[bind.slot], Slot::Unset) {
                    let value = self.eval(&bind.init);
                    self.locals[bind.slot] = Slot::Set(value);
                }
                let Slot::Set(value) = &self.locals[bind.slot] else { return Err(EvalError::no_overload()) };
                let value = value.clone()?;
                self.follow(Cow::Owned(value), attribute)
            }
            Root::Node(node) => {
                let value = self.eval(node)?;
                self.follow(Cow::Owned(value), attribute)
            }
            Root::Conditional(parts) => {
                let [condition, truthy, falsy] = &**parts;
                let branch = match self.eval(condition)? {
                    Value::Bool(true) => truthy,
                    Value::Bool(false) => falsy,
                    _ => return Err(EvalError::no_overload()),
                };
                let value = self.bare(branch)?;
                self.follow(Cow::Owned(value), attribute)
            }
        }
    }

    /// A node where cel-go takes attributes apart instead of looking at their value.
    fn bare(&mut self, node: &'a Node) -> Outcome<Value<'a>> {
        match node {
            Node::Attribute(attribute) => self.attribute(attribute, true),
            other => self.eval(other),
        }
    }

    fn follow(&mut self, root: Cow<'a, Value<'a>>, attribute: &'a Attribute) -> Outcome<Value<'a>> {
        let (steps, test) = (&attribute.steps, attribute.test);
        let owned = |root: Cow<'a, Value<'a>>| match root {
            Cow::Borrowed(value) => value.borrowed(),
            Cow::Owned(value) => value,
        };
        if steps.is_empty() {
            return Ok(owned(root));
        }
        let mut optional = false;
        let mut current = match root {
            Cow::Borrowed(value) if !matches!(value, Value::Optional(_)) => Cow::Borrowed(value),
            other => match owned(other) {
                Value::Optional(None) => return Ok(if test { Value::Bool(false) } else { Value::Optional(None) }),
                Value::Optional(Some(value)) => {
                    optional = true;
                    Cow::Owned((*value).clone())
                }
                value => Cow::Owned(value),
            },
        };
        let last = steps.len() - 1;
        for (i, step) in steps.iter().enumerate() {
            optional |= step.optional;
            let (tests, may_miss) = (test && i == last, optional || (test && i == last));
            let found = self.step(&current, step, may_miss)?;
            match found {
                Ok(found) => {
                    self.charge(1)?;
                    current = Cow::Owned(if tests && !optional {
                        Value::Bool(found.is_some())
                    } else {
                        found.unwrap_or(Value::Null)
                    });
                }
                Err(None) if optional => {
                    return Ok(if test { Value::Bool(false) } else { Value::Optional(None) });
                }
                Err(None) if tests => {
                    self.charge(1)?;
                    current = Cow::Owned(Value::Bool(false));
                }
                Err(missing) => {
                    self.charge(1)?;
                    return Err(missing.unwrap_or_else(EvalError::no_overload));
                }
            }
        }
        let value = match current {
            Cow::Owned(value) => value,
            Cow::Borrowed(value) => value.borrowed(),
        };
        Ok(match (optional, test) {
            (true, true) => Value::Bool(true),
            (true, false) => Value::some(value),
            (false, _) => value,
        })
    }

    /// One step: what is there, or `Err(None)` if nothing is and that is fine, or the error.
    /// The outer error ends the evaluation, the inner one the step.
    fn step(
        &mut self,
        from: &Value<'a>,
        step: &'a Step,
        may_miss: bool,
    ) -> Outcome<Result<Option<Value<'a>>, Option<EvalError>>> {
        let index = match &step.by {
            By::Field(name) => {
                let found = match from {
                    Value::Map(map) => map.field(name),
                    other => return Ok(index_into(other, &Value::str(name), may_miss)),
                };
                return Ok(match found {
                    Ok(Some(value)) => Ok(Some(value)),
                    Ok(None) if may_miss => Err(None),
                    Ok(None) => Err(Some(EvalError::no_key(name))),
                    Err(error) => Err(Some(error)),
                });
            }
            By::Const(index) => index.borrowed(),
            By::Node(node) => match self.bare(node) {
                Ok(index) => index,
                Err(error) if error.is_final() => return Err(error),
                Err(error) => return Ok(Err(Some(error))),
            },
        };
        Ok(index_into(from, &index, may_miss))
    }
}

/// What is at an index of a list or under a key of a map.
fn index_into<'a>(from: &Value<'a>, index: &Value<'_>, may_miss: bool) -> Result<Option<Value<'a>>, Option<EvalError>> {
    let missing = |error: EvalError| if may_miss { Err(None) } else { Err(Some(error)) };
    match from {
        Value::Map(map) => match map.get(index) {
            Ok(Some(value)) => Ok(Some(value)),
            Ok(None) => missing(EvalError::no_key(plain(index))),
            Err(error) => Err(Some(error)),
        },
        Value::List(list) => match list_index(index) {
            Ok(at) => match usize::try_from(at).ok().and_then(|at| list.get(at)) {
                Some(value) => Ok(Some(value)),
                None => missing(EvalError::new(format!("index out of bounds: {}", plain(index)))),
            },
            Err(error) => Err(Some(error)),
        },
        _ => missing(EvalError::no_key(plain(index))),
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
