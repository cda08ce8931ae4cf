//! From a patched tree to a Go struct, as upstream's `runtime.DefaultUnstructuredConverter` goes there: unlike the JSON
//! decoder it takes `3.0` for an integer and cuts integers to their size, and it has its own words for what does not fit.

use pintle_schema::leaf::{Mismatch, float_value};
use pintle_schema::{Scalar, ScalarType, Type, TypeId, Types};
use pintle_value::{Str, Value};

use crate::strategic::go_type;

/// Brings the leaves of a tree into the form of their types.
///
/// # Errors
/// Upstream's message for the first value, in the order of the declared fields, that does not fit its type.
pub fn convert(value: &mut Value, types: &Types, ty: TypeId) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    match types.get(ty) {
        Type::Scalar(scalar) => match scalar.kind {
            Scalar::String | Scalar::Bool | Scalar::Float64 => convert_leaf(value, scalar, || types.go_name(ty)),
            kind if kind.range().is_some() => convert_leaf(value, scalar, || types.go_name(ty)),
            Scalar::Bytes => convert_bytes(value),
            kind => convert_by_json(value, kind),
        },
        Type::Struct(fields) => {
            let Value::Object(object) = value else {
                return Err(format!("cannot restore struct from: {}", go_kind(value)));
            };
            let mut first: Option<(usize, String)> = None;
            for (name, value) in object.iter_mut() {
                let Some(place) = fields.position(name) else { continue };
                if let Err(why) = convert(value, types, fields.fields[place].ty)
                    && first.as_ref().is_none_or(|(earlier, _)| place < *earlier)
                {
                    first = Some((place, why));
                }
            }
            first.map_or(Ok(()), |(_, why)| Err(why))
        }
        Type::Map(map) => {
            let Value::Object(object) = value else {
                return Err(format!("cannot restore map from {}", go_kind(value)));
            };
            object.iter_mut().try_for_each(|(_, value)| convert(value, types, map.value))
        }
        Type::List(list) => {
            let Value::Array(items) = value else {
                return Err(format!("cannot restore slice from {}", go_kind(value)));
            };
            items.iter_mut().try_for_each(|item| convert(item, types, list.item))
        }
        Type::Union(_) | Type::Any => Ok(()),
    }
}

/// Basic types: Go assigns or converts the value.
fn convert_leaf(value: &mut Value, scalar: &ScalarType, name: impl Fn() -> String) -> Result<(), String> {
    let kind = scalar.kind;
    let is_integer = kind.range().is_some();
    let whole_number = match value {
        Value::Int(number) => Some(*number),
        Value::Float(number) if number.trunc() == *number => Some(whole(*number)),
        _ => None,
    };
    match (kind, &*value) {
        (Scalar::String, Value::String(_)) | (Scalar::Bool, Value::Bool(_)) => return Ok(()),
        (Scalar::Float64, Value::Int(_) | Value::Float(_)) => return Ok(()),
        _ if is_integer => {
            if let Some(number) = whole_number {
                *value = Value::Int(cut(kind, number));
                return Ok(());
            }
        }
        _ => {}
    }
    // Go converts between numbers, and from integers to strings; anything else it does not know at all.
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

/// A byte slice is a text in base64, or a list of numbers.
fn convert_bytes(value: &mut Value) -> Result<(), String> {
    let byte = ScalarType { kind: Scalar::Uint8, name: Str::default(), values: None };
    match value {
        Value::String(_) => convert_by_json(value, Scalar::Bytes).map_err(|e| format!("error decoding from json: {e}")),
        Value::Array(items) => items
            .iter_mut()
            .filter(|item| !item.is_null())
            .try_for_each(|item| convert_leaf(item, &byte, || "uint8".to_owned())),
        other => Err(format!("cannot restore slice from {}", go_kind(other))),
    }
}

/// Types with JSON of their own are written as JSON, and read by their own code.
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

/// An integer in a type of Go that may be too small for it: the high bits go.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "this is what Go's conversion does")]
const fn cut(kind: Scalar, number: i64) -> i64 {
    match kind {
        Scalar::Int32 => number as i32 as i64,
        Scalar::Uint32 => number as u32 as i64,
        Scalar::Uint8 => number as u8 as i64,
        _ => number,
    }
}

/// A whole number as an integer. What no integer holds is the smallest one, as on the processors that servers have.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(number: f64) -> i64 {
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
