//! Encodes trees as upstream's deterministic mode does: keys sorted by their encoded bytes, shortest numbers, and
//! strings as byte strings. `[]byte` becomes a raw byte string with the tag for expected base64 encoding.

use pintle_schema::{Scalar, ScalarType, Struct, Type, TypeId, Types, UnionKind, base64};
use pintle_value::{Object, Value};

use super::float::to_half;

/// The prefix of every object: the self-described CBOR tag.
pub const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// The head of an indefinite-length array, which ends with [`BREAK`].
pub const INDEFINITE_ARRAY_HEAD: u8 = 0x9f;

/// The end of an indefinite-length item.
pub const BREAK: u8 = 0xff;

const POSITIVE: u8 = 0x00;
const NEGATIVE: u8 = 0x20;
const BYTES: u8 = 0x40;
const ARRAY: u8 = 0x80;
const MAP: u8 = 0xa0;
const TAG: u8 = 0xc0;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;

/// The tag for bytes that are expected to be converted to base64.
const EXPECTED_BASE64_TAG: u64 = 22;

/// Encodes an untyped object with the self-described tag.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(&SELF_DESCRIBED);
    encode_into(value, &mut out);
    out
}

/// Appends an untyped value.
pub fn encode_into(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        Value::Int(i) => write_int(*i, out),
        Value::Float(f) => write_float(*f, out),
        Value::String(text) => write_string(text.as_bytes(), out),
        Value::Array(items) => {
            write_array_head(items.len(), out);
            items.iter().for_each(|item| encode_into(item, out));
        }
        Value::Object(object) => {
            write_map_head(object.len(), out);
            for (key, value) in sorted_entries(object) {
                write_string(key.as_bytes(), out);
                encode_into(value, out);
            }
        }
    }
}

/// Appends a value of this type, without the self-described tag.
pub fn encode_typed(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    match (types.get(type_id), value) {
        (Type::Struct(ty), Value::Object(object)) => encode_struct(object, types, ty, out),
        (Type::Map(map), Value::Object(object)) => {
            write_map_head(object.len(), out);
            for (key, value) in sorted_entries(object) {
                write_string(key.as_bytes(), out);
                encode_typed(value, types, map.value, out);
            }
        }
        (Type::List(list), Value::Array(items)) => encode_items(items, types, list.item, out),
        (Type::Union(union), Value::Object(_)) => encode_typed(value, types, union.schema, out),
        (Type::Union(union), Value::Array(items)) if union.kind == UnionKind::SchemaOrArray => {
            encode_items(items, types, union.schema, out);
        }
        (Type::Scalar(ScalarType { kind: Scalar::Bytes, .. }), Value::String(text)) => {
            match base64::decode(text.as_bytes()) {
                Ok(bytes) => {
                    write_head(TAG, EXPECTED_BASE64_TAG, out);
                    write_string(&bytes, out);
                }
                // Not possible in a normalised value.
                Err(_) => write_string(text.as_bytes(), out),
            }
        }
        #[allow(clippy::cast_precision_loss)] // as Go stores it
        (Type::Scalar(ScalarType { kind: Scalar::Float64, .. }), Value::Int(i)) => write_float(*i as f64, out),
        _ => encode_into(value, out),
    }
}

fn encode_items(items: &[Value], types: &Types, item: TypeId, out: &mut Vec<u8>) {
    write_array_head(items.len(), out);
    items.iter().for_each(|value| encode_typed(value, types, item, out));
}

fn encode_struct(object: &Object, types: &Types, ty: &Struct, out: &mut Vec<u8>) {
    write_map_head(object.len(), out);
    for (key, value) in sorted_entries(object) {
        write_string(key.as_bytes(), out);
        match ty.field(key) {
            Some(field) => encode_typed(value, types, field.ty, out),
            None => encode_into(value, out),
        }
    }
}

/// The members sorted by their encoded keys. The head contains the length, so shorter keys come first.
fn sorted_entries(object: &Object) -> Vec<(&str, &Value)> {
    let mut entries: Vec<(&str, &Value)> = object.iter().collect();
    entries.sort_by_key(|(key, _)| key.len());
    entries
}

/// Appends the head of an array with this number of items. The items must follow.
pub fn write_array_head(items: usize, out: &mut Vec<u8>) {
    write_head(ARRAY, items as u64, out);
}

/// Appends the head of a map with this number of pairs. The pairs must follow, sorted by their encoded keys.
pub fn write_map_head(pairs: usize, out: &mut Vec<u8>) {
    write_head(MAP, pairs as u64, out);
}

/// Appends a string as a byte string.
pub fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    write_head(BYTES, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_int(i: i64, out: &mut Vec<u8>) {
    match u64::try_from(i) {
        Ok(positive) => write_head(POSITIVE, positive, out),
        Err(_) => write_head(NEGATIVE, !i as u64, out),
    }
}

/// Appends the shortest float that represents the value exactly. NaN and infinities, which JSON cannot express, become
/// null.
#[allow(clippy::cast_possible_truncation)] // compared below
fn write_float(f: f64, out: &mut Vec<u8>) {
    let single = f as f32;
    if !f.is_finite() {
        out.push(NULL);
    } else if f64::from(single) != f {
        out.push(0xfb);
        out.extend_from_slice(&f.to_be_bytes());
    } else if let Some(half) = to_half(single) {
        out.push(0xf9);
        out.extend_from_slice(&half.to_be_bytes());
    } else {
        out.push(0xfa);
        out.extend_from_slice(&single.to_be_bytes());
    }
}

#[allow(clippy::cast_possible_truncation)] // checked by the ranges
fn write_head(major: u8, argument: u64, out: &mut Vec<u8>) {
    match argument {
        0..=23 => out.push(major | argument as u8),
        24..=0xff => out.extend_from_slice(&[major | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend_from_slice(&(argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend_from_slice(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&argument.to_be_bytes());
        }
    }
}
