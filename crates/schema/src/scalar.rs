//! Canonical form of scalars: the result of Go's `UnmarshalJSON` followed by `MarshalJSON`.

use pintle_value::time::{Duration, Time};
use pintle_value::{Quantity, Str, Value};

use crate::{Scalar, base64};

/// The reason why a value does not have a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Mismatch {
    /// Go's decoder cannot unmarshal this value (`string`, `number -5`) into the named type. An empty name stands for
    /// the field's own type.
    Type(String, &'static str),
    /// The type's `UnmarshalJSON` fails with this message.
    Other(String),
}

/// The name of a value's JSON type in Go's messages.
#[must_use]
pub fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl Scalar {
    /// The encoding of the type's zero value; null for `[]byte`, too.
    #[must_use]
    pub fn zero(self) -> Value {
        match self {
            Scalar::String => Value::from(""),
            Scalar::Bool => Value::Bool(false),
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 => Value::Int(0),
            Scalar::Float64 | Scalar::IntOrString => Value::Int(0),
            Scalar::Duration => Value::from("0s"),
            Scalar::Quantity => Value::from("0"),
            Scalar::Bytes
            | Scalar::Time
            | Scalar::MicroTime
            | Scalar::RawExtension
            | Scalar::FieldsV1
            | Scalar::Json => Value::Null,
        }
    }

    /// Converts a value other than null to the type's canonical encoding.
    ///
    /// # Errors
    /// Returns an error if the value does not have the type. The value is then unchanged.
    pub fn canonical(self, value: &mut Value) -> Result<(), Mismatch> {
        match self {
            Scalar::String => match value {
                Value::String(_) => Ok(()),
                other => Err(mismatch(other)),
            },
            Scalar::Bool => match value {
                Value::Bool(_) => Ok(()),
                other => Err(mismatch(other)),
            },
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 => self.integer(value, ""),
            Scalar::Float64 => float(value),
            Scalar::Bytes => bytes(value),
            Scalar::Time if value.as_str().and_then(Time::parse_canonical).is_some_and(|time| !time.is_zero()) => {
                Ok(())
            }
            Scalar::Time => time_text(value, |text| {
                let time = Time::parse_rfc3339(text).map_err(|e| e.to_string())?;
                Ok(if time.is_zero() { None } else { Some(Str::from(time.rfc3339())) })
            }),
            Scalar::MicroTime => time_text(value, |text| {
                let time = Time::parse_rfc3339_micro(text).map_err(|e| e.to_string())?;
                Ok(if time.is_zero() { None } else { Some(Str::from(time.rfc3339_micro())) })
            }),
            Scalar::Duration => time_text(value, |text| {
                let duration = Duration::parse(text).map_err(|e| e.to_string())?;
                Ok(Some(Str::from(duration.to_string())))
            }),
            Scalar::Quantity => quantity(value),
            Scalar::IntOrString => match value {
                Value::String(_) => Ok(()),
                Value::Int(_) | Value::Float(_) => Scalar::Int32.integer(value, "int32"),
                other => Err(Mismatch::Type(json_type_name(other).to_owned(), "int32")),
            },
            Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json => Ok(()),
        }
    }

    fn integer(self, value: &Value, name: &'static str) -> Result<(), Mismatch> {
        let fits = match value {
            Value::Int(i) => self.range().is_some_and(|(low, high)| (low..=high).contains(i)),
            Value::Float(_) => false,
            other => return Err(Mismatch::Type(json_type_name(other).to_owned(), name)),
        };
        if fits { Ok(()) } else { Err(Mismatch::Type(format!("number {}", number_text(value)), name)) }
    }
}

fn mismatch(value: &Value) -> Mismatch {
    Mismatch::Type(json_type_name(value).to_owned(), "")
}

/// Formats a number for messages.
fn number_text(value: &Value) -> String {
    match value {
        Value::Int(i) => i.to_string(),
        Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e21 => format!("{f:.1}"),
        Value::Float(f) => f.to_string(),
        other => json_type_name(other).to_owned(),
    }
}

/// Converts a number to the tree's form of a `float64`. It is an integer if its text is an integer.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn float(value: &mut Value) -> Result<(), Mismatch> {
    match value {
        Value::Int(i) => {
            *value = float_value(*i as f64);
            Ok(())
        }
        Value::Float(f) => {
            *value = float_value(*f);
            Ok(())
        }
        other => Err(mismatch(other)),
    }
}

/// A `float64` as the tree represents it after parsing. It is an integer if its text is an integer.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
pub fn float_value(f: f64) -> Value {
    let is_integer = f.fract() == 0.0 && f.abs() < i64::MAX as f64;
    if is_integer { Value::Int(f as i64) } else { Value::Float(f) }
}

fn bytes(value: &mut Value) -> Result<(), Mismatch> {
    let decoded = match value {
        Value::String(text) => base64::decode(text.as_bytes()).map_err(|e| Mismatch::Other(e.to_string()))?,
        // Go also decodes a byte slice from a list of numbers.
        Value::Array(items) => {
            let mut bytes = Vec::with_capacity(items.len());
            for item in items.iter() {
                if !item.is_null() {
                    Scalar::Uint8.integer(item, "uint8")?;
                }
                bytes.push(item.as_int().and_then(|i| u8::try_from(i).ok()).unwrap_or_default());
            }
            bytes
        }
        other => return Err(mismatch(other)),
    };
    *value = Value::from(base64::encode(&decoded));
    Ok(())
}

/// Canonicalizes a type whose `UnmarshalJSON` first decodes a Go string. The error for other values says that they are
/// not strings.
fn time_text(value: &mut Value, canonical: impl Fn(&str) -> Result<Option<Str>, String>) -> Result<(), Mismatch> {
    let Value::String(text) = value else {
        return Err(Mismatch::Type(json_type_name(value).to_owned(), "string"));
    };
    match canonical(text).map_err(Mismatch::Other)? {
        Some(new) if new == *text => {}
        Some(new) => *text = new,
        None => *value = Value::Null,
    }
    Ok(())
}

/// True for common canonical quantities: up to six digits and a suffix that no larger suffix can replace.
fn is_canonical_quantity(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let Ok(number) = number.parse::<u32>() else { return false };
    let step = match suffix {
        "" | "m" | "k" | "M" | "G" | "T" => 1000,
        "Ki" | "Mi" | "Gi" | "Ti" => 1024,
        _ => return false,
    };
    digits <= 6 && !text.starts_with('0') && number % step != 0
}

fn quantity(value: &mut Value) -> Result<(), Mismatch> {
    if value.as_str().is_some_and(is_canonical_quantity) {
        return Ok(());
    }
    *value = Value::from(&Quantity::from_value(value).map_err(|e| Mismatch::Other(e.to_string()))?);
    Ok(())
}
