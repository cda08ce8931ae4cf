//! Runs one conformance test: its declarations, its expression and its expected result.

use std::sync::Arc;

use pintle_cel::{
    CelBytes, CompileError, Env, Function, Map, MapKey, Overload, OwnedMap, Timestamp, Type, Value, equal, library,
};

use crate::textproto::{Field, Message};

/// The result of a test.
pub(crate) enum TestOutcome {
    Passed,
    Failed(String),
    Skipped,
}

/// The test needs a feature that is out of scope.
struct OutOfScope;

pub(crate) fn run(test: &Message) -> TestOutcome {
    match run_in_scope(test) {
        Ok(Ok(())) => TestOutcome::Passed,
        Ok(Err(reason)) => TestOutcome::Failed(reason),
        Err(OutOfScope) => TestOutcome::Skipped,
    }
}

fn run_in_scope(test: &Message) -> Result<Result<(), String>, OutOfScope> {
    let expr = test.text("expr");
    let messages = ["TestAllTypes", "NestedTestAllTypes", "TestRequired", "Value{", "Value {", "Struct{", "Any{"];
    let others = ["google.protobuf.Duration{", "google.protobuf.Timestamp{", "google.protobuf.Int", "Wrapper"];
    let proto = test.text("container").contains("conformance");
    if proto || messages.iter().chain(&others).any(|name| expr.contains(name)) {
        return Err(OutOfScope);
    }
    if test.word("disable_check") == Some("true") || test.word("disable_macros") == Some("true") {
        return Err(OutOfScope);
    }
    if test.message("unknown").is_some() || test.message("any_eval_errors").is_some() {
        return Err(OutOfScope);
    }
    let (env, bindings) = declarations(test)?;
    let checked = match env.check(&expr) {
        Ok(checked) => checked,
        Err(issues) => return Ok(Err(issues.to_string())),
    };
    let program = match env.program(&checked) {
        Ok(program) => program,
        // The conformance tests do not distinguish plan errors from evaluation errors.
        Err(CompileError::Program(_)) if test.message("eval_error").is_some() => return Ok(Ok(())),
        Err(error) => return Ok(Err(error.to_string())),
    };
    if let Some(typed) = test.message("typed_result") {
        let expected = match typed.message("deduced_type") {
            Some(expected) => type_of(expected)?,
            None => checked.output_type().clone(),
        };
        if expected != *checked.output_type() {
            return Ok(Err(format!("has the type {} instead of {expected}", checked.output_type())));
        }
    }
    if test.word("check_only") == Some("true") {
        return Ok(Ok(()));
    }
    let evaluation = program.evaluate(&bindings, u64::MAX);
    let typed = test.message("typed_result").and_then(|typed| typed.message("result"));
    let expected = match test.message("value").or(typed) {
        Some(expected) => Some(value_of(expected)?),
        None if test.message("eval_error").is_some() => None,
        None => Some(Value::Bool(true)),
    };
    Ok(match (expected, evaluation.result) {
        (None, Err(_)) => Ok(()),
        (None, Ok(value)) => Err(format!("gives {value:?} instead of an error")),
        (Some(expected), Ok(value)) if is_identical(&expected, &value) => Ok(()),
        (Some(expected), found) => Err(format!("gives {found:?} instead of {expected:?}")),
    })
}

/// Equality that distinguishes types and treats NaN as equal to itself.
fn is_identical(expected: &Value<'_>, found: &Value<'_>) -> bool {
    match (expected, found) {
        (Value::Double(a), Value::Double(b)) => a == b || (a.is_nan() && b.is_nan()),
        _ => expected.type_name() == found.type_name() && equal(expected, found),
    }
}

fn declarations(test: &Message) -> Result<(Env, Vec<Value<'static>>), OutOfScope> {
    let extended = library::extensions().iter().fold(Env::standard(), |env, library| env.library(library));
    let mut env = extended.container(&test.text("container"));
    let mut bindings = Vec::new();
    for declaration in test.all("type_env") {
        let name = declaration.text("name");
        if let Some(function) = declaration.message("function") {
            let mut declared = Function::new(&name);
            for overload in function.all("overloads") {
                let params = overload.all("params").map(type_of).collect::<Result<Vec<_>, _>>()?;
                let result = overload.message("result_type").map_or(Ok(Type::Dyn), type_of)?;
                declared = declared.overload(Overload::global("declared", &params, result));
            }
            env = env.library(&pintle_cel::Library { functions: vec![declared], ..Default::default() });
            continue;
        }
        let ident = declaration.message("ident").ok_or(OutOfScope)?;
        env = env.variable(&name, type_of(ident.message("type").ok_or(OutOfScope)?)?);
        let bound = test.all("bindings").find(|binding| binding.text("key") == name);
        let value = bound.and_then(|binding| binding.message("value")).and_then(|value| value.message("value"));
        match value {
            Some(value) => bindings.push(value_of(value)?),
            // Unbound variables must be declared last, so that their bindings are missing.
            None => return if test.all("type_env").count() == 1 { Ok((env, bindings)) } else { Err(OutOfScope) },
        }
    }
    Ok((env, bindings))
}

fn type_of(message: &Message) -> Result<Type, OutOfScope> {
    let inner = |message: &Message, name: &str| message.message(name).map_or(Ok(Type::Dyn), type_of);
    let Some((kind, field)) = message.first() else { return Err(OutOfScope) };
    Ok(match (kind, field) {
        ("dyn", _) => Type::Dyn,
        ("null", _) => Type::Null,
        ("primitive", Field::Word(name)) => match name.as_str() {
            "BOOL" => Type::Bool,
            "INT64" => Type::Int,
            "UINT64" => Type::Uint,
            "DOUBLE" => Type::Double,
            "STRING" => Type::String,
            "BYTES" => Type::Bytes,
            _ => return Err(OutOfScope),
        },
        ("well_known", Field::Word(name)) => match name.as_str() {
            "DURATION" => Type::Duration,
            "TIMESTAMP" => Type::Timestamp,
            _ => return Err(OutOfScope),
        },
        ("list_type", Field::Message(list)) => Type::list(inner(list, "elem_type")?),
        ("map_type", Field::Message(map)) => Type::map(inner(map, "key_type")?, inner(map, "value_type")?),
        ("type", Field::Message(t)) => match t.first() {
            None => Type::Type(None),
            Some(_) => Type::of_type(type_of(t)?),
        },
        ("type_param", Field::Bytes(name)) => Type::param(&String::from_utf8_lossy(name)),
        ("abstract_type", Field::Message(t)) => {
            let parameters = t.all("parameter_types").map(type_of).collect::<Result<Vec<_>, _>>()?;
            Type::Opaque(t.text("name").into(), parameters.into())
        }
        _ => return Err(OutOfScope),
    })
}

fn value_of(message: &Message) -> Result<Value<'static>, OutOfScope> {
    let Some((kind, field)) = message.first() else { return Err(OutOfScope) };
    Ok(match (kind, field) {
        ("null_value", _) => Value::Null,
        ("bool_value", Field::Word(word)) => Value::Bool(word == "true"),
        ("int64_value", Field::Word(word)) => Value::Int(integer(word).ok_or(OutOfScope)?),
        ("uint64_value", Field::Word(word)) => Value::Uint(integer(word).ok_or(OutOfScope)?),
        ("double_value", Field::Word(word)) => Value::Double(word.parse().map_err(|_| OutOfScope)?),
        ("string_value", Field::Bytes(bytes)) => Value::string(String::from_utf8_lossy(bytes)),
        ("bytes_value", Field::Bytes(bytes)) => Value::Bytes(CelBytes::Owned(bytes.as_slice().into())),
        ("type_value", Field::Bytes(name)) => Value::Type(String::from_utf8_lossy(name).as_ref().into()),
        ("list_value", Field::Message(list)) => {
            Value::list(list.all("values").map(value_of).collect::<Result<Vec<_>, _>>()?)
        }
        ("map_value", Field::Message(map)) => {
            let mut entries = OwnedMap::new();
            for entry in map.all("entries") {
                let part = |name| entry.message(name).map_or(Err(OutOfScope), value_of);
                entries.insert(MapKey::new(part("key")?).ok_or(OutOfScope)?, part("value")?);
            }
            Value::Map(Map::Owned(Arc::new(entries)))
        }
        ("object_value", Field::Message(object)) => well_known(object)?,
        _ => return Err(OutOfScope),
    })
}

/// Converts a `Duration` or `Timestamp` message.
fn well_known(object: &Message) -> Result<Value<'static>, OutOfScope> {
    let Some((name, Field::Message(message))) = object.first() else { return Err(OutOfScope) };
    let number = |field: &str| message.word(field).map_or(Some(0), integer::<i64>).ok_or(OutOfScope);
    let (seconds, nanos) = (number("seconds")?, number("nanos")?);
    match name {
        "type.googleapis.com/google.protobuf.Duration" => Ok(Value::Duration(seconds * 1_000_000_000 + nanos)),
        "type.googleapis.com/google.protobuf.Timestamp" => {
            let time = Timestamp::new(seconds, u32::try_from(nanos).map_err(|_| OutOfScope)?);
            time.map(Value::Timestamp).map_err(|_| OutOfScope)
        }
        _ => Err(OutOfScope),
    }
}

fn integer<T: TryFrom<i128>>(word: &str) -> Option<T> {
    let (sign, digits) = word.strip_prefix('-').map_or((1, word), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    T::try_from(sign * value).ok()
}
