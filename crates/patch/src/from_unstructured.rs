//! Conversion of a patched tree to a Go struct, like upstream's `runtime.DefaultUnstructuredConverter`. Unlike the JSON
//! decoder it accepts `3.0` as an integer, truncates integers to their type, and has its own error messages.

use pintle_schema::scalar::{Mismatch, float_value};
use pintle_schema::{Scalar, ScalarType, Type, TypeId, Types};
use pintle_value::{Str, Value};

use crate::strategic::go_type;

/// Converts the leaves of a tree to their types. The tree may be a changed copy of `live`, a live object whose leaves
/// already have their types. Parts that both still share at the same path are skipped.
///
/// # Errors
/// Upstream's message for the first value, in the order of the declared fields, that does not fit its type.
pub fn from_unstructured(value: &mut Value, live: Option<&Value>, types: &Types, ty: TypeId) -> Result<(), String> {
    if value.is_null() || live.is_some_and(|live| value.shares_members(live)) {
        return Ok(());
    }
    match types.get(ty) {
        Type::Scalar(scalar) => match scalar.kind {
            Scalar::String | Scalar::Bool | Scalar::Float64 => convert_scalar(value, scalar, || types.go_name(ty)),
            kind if kind.range().is_some() => convert_scalar(value, scalar, || types.go_name(ty)),
            Scalar::Bytes => convert_bytes(value),
            kind => convert_by_json(value, kind),
        },
        Type::Struct(fields) => {
            let Value::Object(object) = value else {
                return Err(format!("cannot restore struct from: {}", go_kind(value)));
            };
            let mut first: Option<(usize, String)> = None;
            for (name, value, live) in object.iter_mut_beside(live.and_then(Value::as_object)) {
                let Some(index) = fields.position(name) else { continue };
                if let Err(message) = from_unstructured(value, live, types, fields.fields[index].ty)
                    && first.as_ref().is_none_or(|(earlier, _)| index < *earlier)
                {
                    first = Some((index, message));
                }
            }
            first.map_or(Ok(()), |(_, message)| Err(message))
        }
        Type::Map(map) => {
            let Value::Object(object) = value else {
                return Err(format!("cannot restore map from {}", go_kind(value)));
            };
            let mut members = object.iter_mut_beside(live.and_then(Value::as_object));
            members.try_for_each(|(_, value, live)| from_unstructured(value, live, types, map.value))
        }
        Type::List(list) => {
            let Value::Array(items) = value else {
                return Err(format!("cannot restore slice from {}", go_kind(value)));
            };
            let live = live.map_or(&[][..], |live| live.items_at(&[]));
            items
                .iter_mut()
                .enumerate()
                .try_for_each(|(i, item)| from_unstructured(item, live.get(i), types, list.item))
        }
        Type::Union(_) | Type::Any => Ok(()),
    }
}

/// Converts a value to a basic type by Go's assignment or conversion.
fn convert_scalar(value: &mut Value, scalar: &ScalarType, name: impl Fn() -> String) -> Result<(), String> {
    let kind = scalar.kind;
    let is_integer = kind.range().is_some();
    let integer = match value {
        Value::Int(number) => Some(*number),
        Value::Float(number) if number.trunc() == *number => Some(float_to_int(*number)),
        _ => None,
    };
    match (kind, &*value) {
        (Scalar::String, Value::String(_)) | (Scalar::Bool, Value::Bool(_)) => return Ok(()),
        (Scalar::Float64, Value::Int(_) | Value::Float(_)) => return Ok(()),
        _ if is_integer => {
            if let Some(number) = integer {
                *value = Value::Int(truncate_to(kind, number));
                return Ok(());
            }
        }
        _ => {}
    }
    // Go converts between numbers, and from integers to strings. Other combinations are unrecognized types.
    let convertible = match value {
        Value::Int(_) => kind != Scalar::Bool,
        Value::Float(_) => is_integer,
        _ => false,
    };
    Err(if convertible {
        format!("cannot convert {} to {}", go_type(value), name())
    } else {
        format!("unrecognized type: {}", kind.go_name())
    })
}

/// Converts a byte slice: a base64 string or an array of numbers.
fn convert_bytes(value: &mut Value) -> Result<(), String> {
    let byte = ScalarType { kind: Scalar::Uint8, name: Str::default(), values: None };
    match value {
        Value::String(_) => convert_by_json(value, Scalar::Bytes).map_err(|e| format!("error decoding from json: {e}")),
        Value::Array(items) => items
            .iter_mut()
            .filter(|item| !item.is_null())
            .try_for_each(|item| convert_scalar(item, &byte, || "uint8".to_owned())),
        other => Err(format!("cannot restore slice from {}", go_kind(other))),
    }
}

/// Converts a type with its own `UnmarshalJSON` through JSON.
fn convert_by_json(value: &mut Value, kind: Scalar) -> Result<(), String> {
    if let Value::Float(number) = *value {
        *value = float_value(number);
    }
    kind.canonical(value).map_err(|mismatch| match mismatch {
        Mismatch::Other(text) => text,
        Mismatch::Type(shape, name) => {
            let name = if name.is_empty() { kind.go_name() } else { name };
            format!("json: cannot unmarshal {shape} into Go value of type {name}")
        }
    })
}

/// Truncates an integer to the type, as Go's conversion does.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "this is what Go's conversion does")]
const fn truncate_to(kind: Scalar, number: i64) -> i64 {
    match kind {
        Scalar::Int32 => number as i32 as i64,
        Scalar::Uint32 => number as u32 as i64,
        Scalar::Uint8 => number as u8 as i64,
        _ => number,
    }
}

/// Converts an integral float to an integer. A float out of range becomes the smallest integer, as on amd64.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn float_to_int(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}

/// Go's name of the kind of a decoded value.
const fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        other => go_type(other),
    }
}
