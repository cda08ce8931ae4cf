//! Encodes trees in the field order of their Go structs: schema order for declared fields, sorted keys for maps and
//! unknown fields. Every field in the tree is written; normalising has already removed those that `omitempty` drops.

use pintle_schema::{Scalar, ScalarType, Struct, Type, TypeId, Types, UnionKind};
use pintle_value::{Object, Value};

use super::encode::{encode_decoded_again, encode_into, write_string};
use super::fields::encode_fields_v1;
use super::indent::indent;

/// How a field set is encoded.
type EncodeFields = fn(&Value, &mut Vec<u8>);

/// Appends the JSON of a value of this type.
pub fn encode_typed(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    encode_value(value, types, type_id, encode_fields_v1, out);
}

/// Appends the JSON of a value of this type that was made from an unstructured object. The members of its field sets
/// are sorted by their bytes, like those of all maps.
pub fn encode_typed_from_unstructured(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    encode_value(value, types, type_id, encode_into, out);
}

fn encode_value(value: &Value, types: &Types, type_id: TypeId, fields: EncodeFields, out: &mut Vec<u8>) {
    match (types.get(type_id), value) {
        (Type::Struct(ty), Value::Object(object)) => encode_struct(object, types, ty, fields, out),
        (Type::Map(map), Value::Object(object)) => {
            out.push(b'{');
            for (i, (key, value)) in object.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                encode_value(value, types, map.value, fields, out);
            }
            out.push(b'}');
        }
        (Type::List(list), Value::Array(items)) => encode_items(items, types, list.item, fields, out),
        (Type::Union(union), Value::Object(_)) => encode_value(value, types, union.schema, fields, out),
        (Type::Union(union), Value::Array(items)) if union.kind == UnionKind::SchemaOrArray => {
            encode_items(items, types, union.schema, fields, out);
        }
        (Type::Scalar(ScalarType { kind: Scalar::FieldsV1, .. }), value) => fields(value, out),
        // Upstream decodes and encodes the text in a Go field of this type again with each conversion.
        (Type::Scalar(ScalarType { kind: Scalar::Json, .. }), value) => encode_decoded_again(value, out),
        _ => encode_into(value, out),
    }
}

/// Encodes a value of this type as indented JSON.
#[must_use]
pub fn encode_typed_pretty(value: &Value, types: &Types, type_id: TypeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    encode_typed(value, types, type_id, &mut out);
    indent(&out)
}

fn encode_items(items: &[Value], types: &Types, item: TypeId, fields: EncodeFields, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, value) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        encode_value(value, types, item, fields, out);
    }
    out.push(b']');
}

/// Maximum number of members that are sorted on the stack. Few objects have more.
const INLINE: usize = 16;

fn encode_struct(object: &Object, types: &Types, ty: &Struct, fields: EncodeFields, out: &mut Vec<u8>) {
    // An object has few of the fields that its struct declares, so look up the field of each member instead of the
    // member of each field. Unknown members come last.
    let mut inline = [(0u32, "", &Value::Null); INLINE];
    let mut spilled;
    let members: &mut [(u32, &str, &Value)] = if object.len() <= INLINE {
        &mut inline[..object.len()]
    } else {
        spilled = vec![(0u32, "", &Value::Null); object.len()];
        &mut spilled
    };
    for (member, (key, value)) in members.iter_mut().zip(object.iter()) {
        let index = ty.position(key).and_then(|i| u32::try_from(i).ok()).unwrap_or(u32::MAX);
        *member = (index, key, value);
    }
    members.sort_by_key(|m| m.0);
    out.push(b'{');
    for (i, (index, key, value)) in members.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match ty.fields.get(*index as usize) {
            Some(field) => {
                // Field names need no escapes.
                out.push(b'"');
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(b"\":");
                encode_value(value, types, field.ty, fields, out);
            }
            None => {
                write_string(key, out);
                out.push(b':');
                encode_into(value, out);
            }
        }
    }
    out.push(b'}');
}
