//! Loops.

use std::sync::Arc;

use super::machine::{Machine, Slot, own};
use super::node::{Append, Condition, Fold, Gather, Insert, Node};
use crate::cost::LIST_COST;
use crate::error::{EvalError, Failure};
use crate::value::{Key, Map, Outcome, OwnedMap, Value};

/// After how many rounds of a loop the machine asks whether to go on.
const ROUNDS_BETWEEN_CHECKS: u32 = 100;

impl<'a> Machine<'a, '_> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Outcome<Value<'a>> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        if let Err(error) = &init
            && error.is_final()
        {
            return init;
        }
        self.locals[fold.accu] = Slot::Set(init);
        let mut rounds = Rounds { left: ROUNDS_BETWEEN_CHECKS };
        match &range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let Some(element) = list.get(index) else { break };
                    match fold.var2 {
                        None => self.set(fold.var, element),
                        Some(var2) => {
                            self.set(fold.var, Value::Int(index as i64));
                            self.set(var2, element);
                        }
                    }
                    if !self.round(fold, &mut rounds)? {
                        break;
                    }
                }
            }
            Value::Map(map) => match fold.var2 {
                None => {
                    for key in map.keys() {
                        self.set(fold.var, key);
                        if !self.round(fold, &mut rounds)? {
                            break;
                        }
                    }
                }
                Some(var2) => {
                    for (key, value) in map.iter() {
                        self.set(fold.var, key);
                        self.set(var2, value);
                        if !self.round(fold, &mut rounds)? {
                            break;
                        }
                    }
                }
            },
            other => {
                let name = go_type(other);
                return Err(EvalError::new(match fold.var2 {
                    None => format!("got '{name}', expected iterable type"),
                    Some(_) => format!("unsupported comprehension range type: {name}"),
                }));
            }
        }
        self.eval(&fold.result)
    }

    fn set(&mut self, slot: usize, value: Value<'a>) {
        self.locals[slot] = Slot::Set(value.valid());
    }

    /// One round of a loop. False if it is the last.
    fn round(&mut self, fold: &'a Fold, rounds: &mut Rounds) -> Outcome<bool> {
        let accu = |machine: &Self| match &machine.locals[fold.accu] {
            Slot::Set(Ok(Value::Bool(b))) => Some(*b),
            _ => None,
        };
        let goes_on = match &fold.condition {
            Condition::Always => true,
            Condition::UntilFalse => {
                self.charge(2)?;
                accu(self) != Some(false)
            }
            Condition::UntilTrue => {
                self.charge(3)?;
                accu(self) != Some(true)
            }
            Condition::Node(node) => match self.eval(node) {
                Ok(Value::Bool(b)) => b,
                Err(error) if error.is_final() => return Err(error),
                _ => true,
            },
        };
        if !goes_on {
            return Ok(false);
        }
        let next = self.eval(&fold.step);
        if let Err(error) = &next
            && error.is_final()
        {
            return Err(error.clone());
        }
        self.locals[fold.accu] = Slot::Set(next);
        rounds.left -= 1;
        if rounds.left == 0 {
            rounds.left = ROUNDS_BETWEEN_CHECKS;
            if self.budget.interrupt.is_some_and(|interrupted| interrupted()) {
                return Err(EvalError::of(Failure::Interrupted));
            }
        }
        Ok(true)
    }

    /// Takes the accumulator out of its slot, so that it can be changed in place.
    fn take(&mut self, accu: usize) -> Outcome<Outcome<Value<'a>>> {
        self.charge(1)?;
        Ok(match std::mem::replace(&mut self.locals[accu], Slot::Unset) {
            Slot::Set(value) => value,
            Slot::Unset => Err(EvalError::no_overload()),
        })
    }

    /// `accumulator && predicate`, as [`Machine::logic`] has it.
    pub(super) fn gather(&mut self, gather: &'a Gather) -> Outcome<Value<'a>> {
        self.charge(1)?;
        let decisive = gather.decisive;
        let failed = match &self.locals[gather.accu] {
            Slot::Set(Ok(Value::Bool(value))) if *value == decisive => return Ok(Value::Bool(decisive)),
            Slot::Set(Ok(Value::Bool(_))) => None,
            Slot::Set(Err(error)) => Some(error.clone()),
            _ => Some(EvalError::no_overload()),
        };
        let error = match self.eval(&gather.predicate) {
            Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(value)),
            Ok(Value::Bool(value)) => return failed.map_or(Ok(Value::Bool(value)), Err),
            Ok(_) => EvalError::no_overload(),
            Err(error) if error.is_final() => return Err(error),
            Err(error) => error,
        };
        Err(failed.unwrap_or(error))
    }

    pub(super) fn append(&mut self, append: &'a Append) -> Outcome<Value<'a>> {
        let accu = self.take(append.accu)?;
        let mut elements = match accu {
            Ok(Value::List(list)) => own(list),
            other => {
                // What is added is worked out anyway, as cel-go does, since it counts.
                let addition = self.eval(&append.addition);
                let error = other.err().unwrap_or_else(EvalError::no_overload);
                return match addition {
                    Err(addition) if addition.is_final() => Err(addition),
                    _ => {
                        self.charge(1)?;
                        Err(error)
                    }
                };
            }
        };
        let target = Arc::make_mut(&mut elements);
        let outcome = match &append.addition {
            Node::List(added) => {
                let outcome = self.elements(added, target);
                self.finish(outcome, LIST_COST)
            }
            other => self.eval(other).and_then(|value| match value {
                Value::List(list) => {
                    target.extend(list.iter());
                    Ok(())
                }
                _ => Err(EvalError::no_overload()),
            }),
        };
        self.finish(outcome, 1)?;
        Ok(Value::List(crate::value::List::Owned(elements)))
    }

    pub(super) fn insert(&mut self, insert: &'a Insert) -> Outcome<Value<'a>> {
        let accu = self.take(insert.accu)?;
        let mut args = Vec::with_capacity(2);
        if insert.args.len() == 1 {
            let addition = self.eval(&insert.args[0]);
            let outcome = accu.and_then(|accu| Ok((accu, addition?)));
            let (accu, addition) = self.charged(outcome)?;
            return insert_all(accu, &addition);
        }
        let accu = accu?;
        for (i, arg) in insert.args.iter().enumerate() {
            let value = self.eval(arg);
            // As for any call: it is charged for if all of its arguments were looked at.
            if i + 1 == insert.args.len() {
                args.push(self.charged(value)?);
            } else {
                args.push(value?);
            }
        }
        let (Some(value), Some(key)) = (args.pop(), args.pop()) else { return Err(EvalError::no_overload()) };
        let mut entries = own_map(accu)?;
        insert_one(Arc::make_mut(&mut entries), key, value)?;
        Ok(Value::Map(Map::Owned(entries)))
    }

    fn charged<T>(&mut self, outcome: Outcome<T>) -> Outcome<T> {
        match outcome {
            Err(error) if error.is_final() => Err(error),
            outcome => {
                self.charge(1)?;
                outcome
            }
        }
    }
}

struct Rounds {
    left: u32,
}

fn own_map(value: Value<'_>) -> Outcome<Arc<OwnedMap<'_>>> {
    match value {
        Value::Map(Map::Owned(entries)) => Ok(entries),
        Value::Map(map) => {
            let entries = map.iter().filter_map(|(key, value)| Some((Key::new(key)?, value)));
            Ok(Arc::new(entries.collect()))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn insert_one<'a>(entries: &mut OwnedMap<'a>, key: Value<'a>, value: Value<'a>) -> Outcome<()> {
    let key = Key::new(key).ok_or_else(|| EvalError::new("unsupported key type"))?;
    if entries.contains_key(&key) {
        return Err(EvalError::new(format!("insert failed: key {key} already exists")));
    }
    entries.insert(key, value);
    Ok(())
}

/// A map with the entries of another; none of them may be there already.
pub(crate) fn insert_all<'a>(map: Value<'a>, other: &Value<'a>) -> Outcome<Value<'a>> {
    let mut entries = own_map(map)?;
    let Value::Map(other) = other else { return Err(EvalError::no_overload()) };
    let target = Arc::make_mut(&mut entries);
    for (key, value) in other.iter() {
        insert_one(target, key, value)?;
    }
    Ok(Value::Map(Map::Owned(entries)))
}

/// A map with one more entry.
pub(crate) fn insert_entry<'a>(map: Value<'a>, key: Value<'a>, value: Value<'a>) -> Outcome<Value<'a>> {
    let mut entries = own_map(map)?;
    insert_one(Arc::make_mut(&mut entries), key, value)?;
    Ok(Value::Map(Map::Owned(entries)))
}

/// What is said of an index that is neither a key nor a number.
pub(super) fn unusable_index(index: &Value<'_>) -> String {
    format!("invalid qualifier type: {}", go_type(index))
}

/// The name that cel-go's code has for the type of a value, which shows in messages.
fn go_type(value: &Value<'_>) -> String {
    let name = match value {
        Value::Null => "Null",
        Value::Bool(_) => "Bool",
        Value::Int(_) => "Int",
        Value::Uint(_) => "Uint",
        Value::Double(_) => "Double",
        Value::String(_) => "String",
        Value::Bytes(_) => "Bytes",
        Value::Duration(_) => "Duration",
        Value::Timestamp(_) => "Timestamp",
        Value::Optional(_) => return "*types.Optional".to_owned(),
        Value::Type(_) => return "*types.Type".to_owned(),
        Value::Invalid(_) => return "*types.Err".to_owned(),
        Value::List(_) => return "*types.baseList".to_owned(),
        Value::Map(_) => return "*types.baseMap".to_owned(),
        Value::Opaque(value) => {
            let name = value.type_name();
            let name = name.strip_prefix("kubernetes.").or_else(|| name.strip_prefix("net.")).unwrap_or(name);
            return format!("cel.{}", name.strip_prefix("Named").unwrap_or(name));
        }
    };
    format!("types.{name}")
}
