//! Evaluates comprehensions (upstream: `evalFold` of cel-go's `interpreter`).

use std::sync::Arc;

use pintle_budget as budget;

use super::interpreter::{Interpreter, LocalValue, into_elements};
use super::node::{AppendStep, Fold, InsertStep, Interpretable, LogicStep, LoopCondition};
use crate::cost::LIST_CREATE_BASE_COST;
use crate::error::EvalError;
use crate::value::{ELEMENT_BYTES, ENTRY_BYTES, EvalResult, List, Map, MapKey, OwnedMap, Value, held_bytes};

impl<'a> Interpreter<'a> {
    pub(super) fn eval_comprehension(&mut self, fold: &'a Fold) -> EvalResult<Value<'a>> {
        let range = self.eval(&fold.iter_range)?;
        let init = self.eval(&fold.accu_init);
        if let Err(error) = &init
            && error.is_fatal()
        {
            return init;
        }
        self.locals[fold.accu_var] = LocalValue::Set(init);
        match &range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let Some(element) = list.get(index) else { break };
                    match fold.iter_var2 {
                        None => self.set_local(fold.iter_var, element),
                        Some(iter_var2) => {
                            self.set_local(fold.iter_var, Value::Int(index as i64));
                            self.set_local(iter_var2, element);
                        }
                    }
                    if !self.iterate(fold)? {
                        break;
                    }
                }
            }
            Value::Map(map) => match fold.iter_var2 {
                None => {
                    for key in map.keys() {
                        self.set_local(fold.iter_var, key);
                        if !self.iterate(fold)? {
                            break;
                        }
                    }
                }
                Some(iter_var2) => {
                    for (key, value) in map.iter() {
                        self.set_local(fold.iter_var, key);
                        self.set_local(iter_var2, value);
                        if !self.iterate(fold)? {
                            break;
                        }
                    }
                }
            },
            other => {
                let name = go_type_name(other);
                return Err(EvalError::new(match fold.iter_var2 {
                    None => format!("got '{name}', expected iterable type"),
                    Some(_) => format!("unsupported comprehension range type: {name}"),
                }));
            }
        }
        self.eval(&fold.result)
    }

    fn set_local(&mut self, slot: usize, value: Value<'a>) {
        self.locals[slot] = LocalValue::Set(value.into_valid());
    }

    /// Runs one iteration. Returns false if the loop condition does not hold.
    fn iterate(&mut self, fold: &'a Fold) -> EvalResult<bool> {
        let accu = |interpreter: &Self| match &interpreter.locals[fold.accu_var] {
            LocalValue::Set(Ok(Value::Bool(b))) => Some(*b),
            _ => None,
        };
        let continues = match &fold.loop_condition {
            LoopCondition::Always => true,
            LoopCondition::UntilFalse => {
                self.charge(2)?;
                accu(self) != Some(false)
            }
            LoopCondition::UntilTrue => {
                self.charge(3)?;
                accu(self) != Some(true)
            }
            LoopCondition::Interpretable(node) => match self.eval(node) {
                Ok(Value::Bool(b)) => b,
                Err(error) if error.is_fatal() => return Err(error),
                _ => true,
            },
        };
        if !continues {
            return Ok(false);
        }
        let before = budget::mark();
        let accumulated = match &self.locals[fold.accu_var] {
            LocalValue::Set(Ok(Value::List(list))) => list.len(),
            _ => 0,
        };
        let value = self.eval(&fold.loop_step);
        if let Err(error) = &value
            && error.is_fatal()
        {
            return Err(error.clone());
        }
        let charged = before.charged();
        if charged > 0 {
            before.release_all_but(value.as_ref().map_or(0, |value| kept_by(value, accumulated, charged)));
        }
        self.locals[fold.accu_var] = LocalValue::Set(value);
        Ok(true)
    }

    /// Takes the accumulator out of its slot, so that it can be modified in place.
    fn take_accumulator(&mut self, accu: usize) -> EvalResult<EvalResult<Value<'a>>> {
        self.charge(1)?;
        Ok(match std::mem::replace(&mut self.locals[accu], LocalValue::Unset) {
            LocalValue::Set(value) => value,
            LocalValue::Unset => Err(EvalError::no_overload()),
        })
    }

    /// `accumulator && predicate` or `accumulator || predicate`, with the semantics of [`Interpreter::eval_logic`].
    pub(super) fn eval_logic_step(&mut self, step: &'a LogicStep) -> EvalResult<Value<'a>> {
        self.charge(1)?;
        let decisive = step.decisive;
        let failed = match &self.locals[step.accu] {
            LocalValue::Set(Ok(Value::Bool(value))) if *value == decisive => return Ok(Value::Bool(decisive)),
            LocalValue::Set(Ok(Value::Bool(_))) => None,
            LocalValue::Set(Err(error)) => Some(error.clone()),
            _ => Some(EvalError::no_overload()),
        };
        let error = match self.eval(&step.predicate) {
            Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(value)),
            Ok(Value::Bool(value)) => return failed.map_or(Ok(Value::Bool(value)), Err),
            Ok(_) => EvalError::no_overload(),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => error,
        };
        Err(failed.unwrap_or(error))
    }

    pub(super) fn eval_append_step(&mut self, step: &'a AppendStep) -> EvalResult<Value<'a>> {
        let accu = self.take_accumulator(step.accu)?;
        let mut elements = match accu {
            Ok(Value::List(list)) => into_elements(list),
            other => {
                // cel-go evaluates the addition nevertheless, so its cost counts.
                let addition = self.eval(&step.addition);
                let error = other.err().unwrap_or_else(EvalError::no_overload);
                return match addition {
                    Err(addition) if addition.is_fatal() => Err(addition),
                    _ => {
                        self.charge(1)?;
                        Err(error)
                    }
                };
            }
        };
        let before = elements.len();
        let target = Arc::make_mut(&mut elements);
        let outcome = match &step.addition {
            Interpretable::List(added) => {
                let outcome = self.eval_elements(added, target);
                self.charge_aggregate(outcome, LIST_CREATE_BASE_COST)
            }
            other => self.eval(other).and_then(|value| match value {
                Value::List(list) => {
                    target.extend(list.iter());
                    Ok(())
                }
                _ => Err(EvalError::no_overload()),
            }),
        };
        self.charge_aggregate(outcome, 1)?;
        budget::try_charge((elements.len() - before) * ELEMENT_BYTES)?;
        Ok(Value::List(List::Owned(elements)))
    }

    pub(super) fn eval_insert_step(&mut self, step: &'a InsertStep) -> EvalResult<Value<'a>> {
        let accu = self.take_accumulator(step.accu)?;
        let mut args = Vec::with_capacity(2);
        if step.args.len() == 1 {
            let addition = self.eval(&step.args[0]);
            let outcome = accu.and_then(|accu| Ok((accu, addition?)));
            let (accu, addition) = self.charge_call(outcome)?;
            return insert_all(accu, &addition);
        }
        let accu = accu?;
        for (i, arg) in step.args.iter().enumerate() {
            let value = self.eval(arg);
            // As in any call, the cost is charged once all arguments have been evaluated.
            if i + 1 == step.args.len() {
                args.push(self.charge_call(value)?);
            } else {
                args.push(value?);
            }
        }
        let (Some(value), Some(key)) = (args.pop(), args.pop()) else { return Err(EvalError::no_overload()) };
        budget::try_charge(ENTRY_BYTES)?;
        insert_entry(accu, key, value)
    }

    fn charge_call<T>(&mut self, outcome: EvalResult<T>) -> EvalResult<T> {
        match outcome {
            Err(error) if error.is_fatal() => Err(error),
            outcome => {
                self.charge(1)?;
                outcome
            }
        }
    }
}

/// The memory that an iteration has added to the accumulator, at most the bytes that the iteration has charged. The
/// accumulator had `accumulated` elements before.
fn kept_by(accumulator: &Value<'_>, accumulated: usize, charged: usize) -> usize {
    match accumulator {
        Value::List(List::Owned(elements)) => {
            let added = elements.get(accumulated..).unwrap_or_default();
            (added.len() * ELEMENT_BYTES + held_bytes(added, charged)).min(charged)
        }
        // It is not known which entries are new.
        Value::Map(_) => charged,
        other => other.held_bytes(charged),
    }
}

fn into_entries(value: Value<'_>) -> EvalResult<Arc<OwnedMap<'_>>> {
    match value {
        Value::Map(Map::Owned(entries)) => Ok(entries),
        Value::Map(map) => {
            let entries = map.iter().filter_map(|(key, value)| Some((MapKey::new(key)?, value)));
            Ok(Arc::new(entries.collect()))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn insert_new<'a>(entries: &mut OwnedMap<'a>, key: Value<'a>, value: Value<'a>) -> EvalResult<()> {
    let key = MapKey::new(key).ok_or_else(|| EvalError::new("unsupported key type"))?;
    if entries.contains_key(&key) {
        return Err(EvalError::new(format!("insert failed: key {key} already exists")));
    }
    entries.insert(key, value);
    Ok(())
}

/// Adds the entries of another map. Fails if a key exists already.
pub(crate) fn insert_all<'a>(map: Value<'a>, other: &Value<'a>) -> EvalResult<Value<'a>> {
    let mut entries = into_entries(map)?;
    let Value::Map(other) = other else { return Err(EvalError::no_overload()) };
    let target = Arc::make_mut(&mut entries);
    for (key, value) in other.iter() {
        budget::try_charge(ENTRY_BYTES)?;
        insert_new(target, key, value)?;
    }
    Ok(Value::Map(Map::Owned(entries)))
}

/// Adds an entry to a map. Fails if the key exists already.
pub(crate) fn insert_entry<'a>(map: Value<'a>, key: Value<'a>, value: Value<'a>) -> EvalResult<Value<'a>> {
    let mut entries = into_entries(map)?;
    insert_new(Arc::make_mut(&mut entries), key, value)?;
    Ok(Value::Map(Map::Owned(entries)))
}

/// The error message for an index that is neither a valid map key nor a number.
pub(super) fn invalid_qualifier_message(index: &Value<'_>) -> String {
    format!("invalid qualifier type: {}", go_type_name(index))
}

/// The name of the Go type of a value in cel-go, which appears in its messages.
fn go_type_name(value: &Value<'_>) -> String {
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
        Value::Authorization(value) => {
            let name = value.type_name().rsplit('.').next().unwrap_or_default();
            return format!("library.{}Val", name[..1].to_lowercase() + &name[1..]);
        }
        Value::Opaque(value) => {
            let name = value.type_name();
            let name = name.strip_prefix("kubernetes.").or_else(|| name.strip_prefix("net.")).unwrap_or(name);
            return format!("cel.{}", name.strip_prefix("Named").unwrap_or(name));
        }
    };
    format!("types.{name}")
}
