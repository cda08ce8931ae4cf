//! Evaluates attributes: a root value and the qualifiers (fields and indices) applied to it (upstream: cel-go
//! `interpreter/attributes.go`).

use pintle_budget as budget;
use pintle_value::Str;

use super::fold::invalid_qualifier_message;
use super::interpreter::{Interpreter, LocalValue};
use super::node::{Attribute, AttributeRoot, Interpretable, Qualifier, QualifierKind};
use crate::error::EvalError;
use crate::value::{EvalResult, Number, Value, double_to_int, go_string};

impl<'a> Interpreter<'a> {
    /// Evaluates an attribute. With `root_is_free`, cel-go does not charge for the root.
    pub(super) fn eval_attribute(&mut self, attribute: &'a Attribute, root_is_free: bool) -> EvalResult<Value<'a>> {
        let free = root_is_free || attribute.test_only || matches!(attribute.root, AttributeRoot::Conditional(_));
        let root_cost = u64::from(!free);
        if attribute.fields_only {
            let root = match &attribute.root {
                AttributeRoot::Variable(slot) => self.bindings.get(*slot as usize),
                AttributeRoot::Local(slot) => match &self.locals[*slot as usize] {
                    LocalValue::Set(Ok(value)) => Some(value),
                    _ => None,
                },
                _ => None,
            };
            if let Some(root) = root.filter(|root| !matches!(root, Value::Optional(_) | Value::Invalid(_))) {
                let mut applied = attribute.qualifiers.len() as u64;
                let outcome = select_fields(root, &attribute.qualifiers, &mut applied);
                self.charge(applied + root_cost)?;
                return outcome;
            }
        }
        let outcome = self.eval_root(attribute).and_then(|root| self.apply_qualifiers(root, attribute));
        self.charge_attribute(outcome, root_cost)
    }

    fn charge_attribute(&mut self, outcome: EvalResult<Value<'a>>, cost: u64) -> EvalResult<Value<'a>> {
        if let Err(error) = &outcome
            && error.is_fatal()
        {
            return outcome;
        }
        self.charge(cost)?;
        outcome
    }

    /// Evaluates the root of an attribute.
    fn eval_root(&mut self, attribute: &'a Attribute) -> EvalResult<Value<'a>> {
        match &attribute.root {
            AttributeRoot::Variable(slot) => match self.bindings.get(*slot as usize) {
                Some(value) => value.borrowed().into_valid(),
                None => {
                    let name = self.plan.variable_names.get(*slot as usize).map_or("", Str::as_str);
                    Err(EvalError::new(format!("no such attribute(s): {name}")))
                }
            },
            AttributeRoot::Local(slot) => self.local(*slot as usize),
            AttributeRoot::LazyBinding(bind) => {
                let bind = &self.plan.lazy_bindings[*bind as usize];
                if matches!(self.locals[bind.slot], LocalValue::Unset) {
                    let before = budget::mark();
                    let value = self.eval(&bind.init);
                    // The value outlives the call that first uses it.
                    self.kept.add(value.as_ref().map_or(0, |value| value.held_bytes(before.charged())));
                    before.release_all_but(0);
                    self.locals[bind.slot] = LocalValue::Set(value);
                }
                self.local(bind.slot)
            }
            AttributeRoot::Interpretable(node) => self.eval(node),
            AttributeRoot::Conditional(parts) => {
                let [condition, truthy, falsy] = &**parts;
                match self.eval(condition)? {
                    Value::Bool(true) => self.eval_with_free_root(truthy),
                    Value::Bool(false) => self.eval_with_free_root(falsy),
                    _ => Err(EvalError::no_overload()),
                }
            }
        }
    }

    fn local(&self, slot: usize) -> EvalResult<Value<'a>> {
        match &self.locals[slot] {
            LocalValue::Set(value) => value.clone(),
            LocalValue::Unset => Err(EvalError::no_overload()),
        }
    }

    /// Evaluates a node where cel-go resolves the attribute without charging for its root.
    fn eval_with_free_root(&mut self, node: &'a Interpretable) -> EvalResult<Value<'a>> {
        match node {
            Interpretable::Attribute(attribute) => self.eval_attribute(attribute, true),
            other => self.eval(other),
        }
    }

    fn apply_qualifiers(&mut self, root: Value<'a>, attribute: &'a Attribute) -> EvalResult<Value<'a>> {
        let (qualifiers, test_only) = (&attribute.qualifiers, attribute.test_only);
        if qualifiers.is_empty() {
            return Ok(root);
        }
        let mut optional = false;
        let mut current = match root {
            Value::Optional(None) => return Ok(if test_only { Value::Bool(false) } else { Value::Optional(None) }),
            Value::Optional(Some(value)) => {
                optional = true;
                (*value).clone()
            }
            value => value,
        };
        let last = qualifiers.len() - 1;
        for (i, qualifier) in qualifiers.iter().enumerate() {
            optional |= qualifier.optional;
            let tests_presence = test_only && i == last;
            match self.qualify(&current, qualifier, optional || tests_presence) {
                QualifyResult::Value(_) if tests_presence && !optional => {
                    self.charge(1)?;
                    return Ok(Value::Bool(true));
                }
                QualifyResult::Value(value) => {
                    self.charge(1)?;
                    current = value;
                }
                QualifyResult::Missing if optional => {
                    return Ok(if test_only { Value::Bool(false) } else { Value::Optional(None) });
                }
                QualifyResult::Missing => {
                    self.charge(1)?;
                    return Ok(Value::Bool(false));
                }
                QualifyResult::Failed(error) => {
                    // cel-go does not charge for an optional qualifier that fails.
                    if !error.is_fatal() && !optional {
                        self.charge(1)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(match (optional, test_only) {
            (true, true) => Value::Bool(true),
            (true, false) => Value::some(current),
            (false, _) => current,
        })
    }

    /// Applies one qualifier.
    fn qualify(&mut self, from: &Value<'a>, qualifier: &'a Qualifier, allow_missing: bool) -> QualifyResult<'a> {
        match &qualifier.kind {
            QualifierKind::Field(name) => match from {
                Value::Map(map) => match map.field(name) {
                    Ok(Some(value)) => qualify_result(value),
                    Ok(None) if allow_missing => QualifyResult::Missing,
                    Ok(None) => QualifyResult::Failed(EvalError::no_such_key(name)),
                    Err(error) => QualifyResult::Failed(error),
                },
                other => qualify_index(other, &Value::str(name), allow_missing),
            },
            QualifierKind::Const(index) => qualify_index(from, index, allow_missing),
            QualifierKind::Dynamic(node) => match self.eval_with_free_root(node) {
                Ok(index) if is_index(&index) => qualify_index(from, &index, allow_missing),
                Ok(index) => QualifyResult::Failed(EvalError::new(invalid_qualifier_message(&index))),
                Err(error) => QualifyResult::Failed(error),
            },
        }
    }
}

/// The result of applying a qualifier.
enum QualifyResult<'a> {
    Value(Value<'a>),
    /// The field or entry does not exist, and the expression allows that.
    Missing,
    Failed(EvalError),
}

fn qualify_result(value: Value<'_>) -> QualifyResult<'_> {
    value.into_valid().map_or_else(QualifyResult::Failed, QualifyResult::Value)
}

fn is_index(value: &Value<'_>) -> bool {
    matches!(value, Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_))
}

/// Applies qualifiers that are all field names. If one fails, `applied` is set to the number of qualifiers that were
/// applied.
fn select_fields<'a>(root: &Value<'a>, qualifiers: &'a [Qualifier], applied: &mut u64) -> EvalResult<Value<'a>> {
    match qualifiers {
        [] => Ok(root.clone()),
        [last] => select_field(root, last),
        [first, rest @ ..] => {
            let mut from = select_field(root, first).inspect_err(|_| *applied = 1)?;
            for (i, qualifier) in rest.iter().enumerate() {
                from = select_field(&from, qualifier).inspect_err(|_| *applied = i as u64 + 2)?;
            }
            Ok(from)
        }
    }
}

#[inline]
fn select_field<'a>(from: &Value<'a>, qualifier: &'a Qualifier) -> EvalResult<Value<'a>> {
    let QualifierKind::Field(name) = &qualifier.kind else { return Err(EvalError::no_overload()) };
    match from {
        Value::Map(map) => match map.field(name) {
            Ok(Some(value)) => value.into_valid(),
            Ok(None) => Err(EvalError::no_such_key(name)),
            Err(error) => Err(error),
        },
        other => match qualify_index(other, &Value::str(name), false) {
            QualifyResult::Value(value) => Ok(value),
            QualifyResult::Missing => Err(EvalError::no_such_key(name)),
            QualifyResult::Failed(error) => Err(error),
        },
    }
}

/// Returns the value at an index of a list or under a key of a map.
fn qualify_index<'a>(from: &Value<'a>, index: &Value<'_>, allow_missing: bool) -> QualifyResult<'a> {
    let missing = |error: fn(&Value<'_>) -> EvalError| {
        if allow_missing { QualifyResult::Missing } else { QualifyResult::Failed(error(index)) }
    };
    match from {
        Value::Map(map) => match map.get(index) {
            Ok(Some(value)) => qualify_result(value),
            Ok(None) => missing(|key| EvalError::no_such_key(go_string(key))),
            Err(error) => QualifyResult::Failed(error),
        },
        Value::List(list) => match list_index(index) {
            Ok(index) => match usize::try_from(index).ok().and_then(|index| list.get(index)) {
                Some(value) => qualify_result(value),
                None => missing(|index| EvalError::new(format!("index out of bounds: {}", go_string(index)))),
            },
            Err(error) => QualifyResult::Failed(error),
        },
        _ => missing(|key| EvalError::no_such_key(go_string(key))),
    }
}

/// Converts an index of any numeric type to an integer.
pub(crate) fn list_index(index: &Value<'_>) -> EvalResult<i64> {
    let whole = match Number::of(index) {
        Some(Number::Int(i)) => Some(i),
        Some(Number::Uint(u)) => i64::try_from(u).ok(),
        Some(Number::Double(x)) => double_to_int(x).filter(|i| *i as f64 == x),
        None => {
            return Err(EvalError::new(format!("unsupported index type '{}' in list", index.type_name())));
        }
    };
    whole.ok_or_else(|| EvalError::new(format!("unsupported index value {} in list", go_string(index))))
}
