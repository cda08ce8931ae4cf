//! Trees to messages, byte for byte as generated code writes them: fields in ascending order, fields that are not pointers
//! always, maps sorted by key.

use pintle_schema::{Field, List, Map, Scalar, ScalarType, Struct, Type, TypeId, Types, Union, UnionKind, base64};
use pintle_value::time::{Duration, Time};
use pintle_value::{Object, Value};

use super::envelope::encode_envelope;
use super::wire::{FIXED64, VARINT, write_bytes, write_nested, write_tag, write_varint};
use crate::json;

/// Appends the message of a normalised value of a struct type.
pub fn encode(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    Encoder { types, out }.value_message(type_id, value);
}

/// Appends a normalised object in its envelope, which names the `apiVersion` and `kind` that the tree has.
pub fn encode_object(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    encode_envelope(value.api_version(), value.kind(), out, |out| encode(value, types, type_id, out));
}

struct Encoder<'t, 'o> {
    types: &'t Types,
    out: &'o mut Vec<u8>,
}

/// What a value that is not there stands in for.
const NULL: &Value = &Value::Null;

impl<'t> Encoder<'t, '_> {
    fn nested(&mut self, number: u32, write: impl FnOnce(&mut Encoder<'t, '_>)) {
        let types = self.types;
        write_nested(number, self.out, |out| write(&mut Encoder { types, out }));
    }

    fn int(&mut self, number: u32, value: i64) {
        write_tag(number, VARINT, self.out);
        // Negative numbers take ten bytes, whatever their size.
        write_varint(value as u64, self.out);
    }

    /// The body of a type that is a message.
    fn value_message(&mut self, id: TypeId, value: &Value) {
        match self.types.get(id) {
            Type::Struct(ty) => {
                // The members look for their fields and not the fields for their values, since there are fewer of them.
                let mut few = [NULL; 64];
                let mut many = Vec::new();
                let values = match few.get_mut(..ty.fields.len()) {
                    Some(values) => values,
                    None => {
                        many.resize(ty.fields.len(), NULL);
                        &mut many
                    }
                };
                for (key, value) in value.as_object().into_iter().flat_map(Object::iter) {
                    if let Some(slot) = ty.position(key).and_then(|place| values.get_mut(place)) {
                        *slot = value;
                    }
                }
                self.struct_message(ty, 0, values);
            }
            Type::Union(union) => self.union_message(union, value),
            Type::Scalar(ScalarType { kind, .. }) => self.scalar_message(*kind, value),
            Type::List(list) => self.repeated(1, list, value),
            Type::Map(_) | Type::Any => {}
        }
    }

    fn struct_message(&mut self, ty: &Struct, message: u8, values: &[&Value]) {
        let mut written = 0;
        for (place, field) in ty.message(message) {
            self.inlined(ty, message, written, field.number, values);
            self.field(field, values.get(place).copied().unwrap_or(NULL));
            written = field.number;
        }
        self.inlined(ty, message, written, u32::MAX, values);
    }

    /// The inlined structs of a message with numbers between two others.
    fn inlined(&mut self, ty: &Struct, message: u8, after: u32, before: u32, values: &[&Value]) {
        if ty.embedded.is_empty() {
            return;
        }
        let mut last = after;
        loop {
            let next = (1u8..)
                .zip(&ty.embedded)
                .filter(|(_, e)| e.parent == message && e.number > last && e.number < before)
                .min_by_key(|(_, e)| e.number);
            let Some((inner, embedded)) = next else { return };
            last = embedded.number;
            self.nested(last, |nested| nested.struct_message(ty, inner, values));
        }
    }

    fn field(&mut self, field: &Field, value: &Value) {
        if field.pointer && value.is_null() {
            return;
        }
        match self.types.get(field.ty) {
            Type::Map(map) => self.map(field.number, map, value),
            // A named list is a message, written unless it is nil.
            Type::List(list) if !list.name.is_empty() => {
                if !value.is_null() {
                    self.nested(field.number, |nested| nested.repeated(1, list, value));
                }
            }
            Type::List(list) => self.repeated(field.number, list, value),
            _ => self.single(field.number, field.ty, value),
        }
    }

    /// One value with its tag. Null is the type's zero value, which of `[]byte` is nothing at all.
    fn single(&mut self, number: u32, id: TypeId, value: &Value) {
        let Type::Scalar(ScalarType { kind, .. }) = self.types.get(id) else {
            self.nested(number, |nested| nested.value_message(id, value));
            return;
        };
        match kind {
            Scalar::String => write_bytes(number, value.as_str().unwrap_or_default().as_bytes(), self.out),
            Scalar::Bool => self.int(number, i64::from(value.as_bool().unwrap_or_default())),
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 => {
                self.int(number, value.as_int().unwrap_or_default());
            }
            Scalar::Float64 => {
                write_tag(number, FIXED64, self.out);
                self.out.extend_from_slice(&value.as_float().unwrap_or_default().to_le_bytes());
            }
            Scalar::Bytes => {
                if let Some(text) = value.as_str() {
                    write_bytes(number, &base64::decode(text.as_bytes()).unwrap_or_default(), self.out);
                }
            }
            Scalar::Time
            | Scalar::MicroTime
            | Scalar::Duration
            | Scalar::Quantity
            | Scalar::IntOrString
            | Scalar::RawExtension
            | Scalar::FieldsV1
            | Scalar::Json => self.nested(number, |nested| nested.scalar_message(*kind, value)),
        }
    }

    fn scalar_message(&mut self, kind: Scalar, value: &Value) {
        let text = value.as_str();
        match kind {
            Scalar::Time => {
                if let Some(time) = text.and_then(|t| Time::parse_rfc3339(t).ok()).filter(|t| !t.is_zero()) {
                    self.int(1, time.seconds);
                    self.int(2, 0);
                }
            }
            Scalar::MicroTime => {
                if let Some(time) = text.and_then(|t| Time::parse_rfc3339_micro(t).ok()).filter(|t| !t.is_zero()) {
                    self.int(1, time.seconds);
                    self.int(2, i64::from(time.nanos / 1000 * 1000));
                }
            }
            Scalar::Duration => {
                let duration = text.and_then(|t| Duration::parse(t).ok()).unwrap_or_default();
                self.int(1, duration.0);
            }
            Scalar::Quantity => write_bytes(1, text.unwrap_or("0").as_bytes(), self.out),
            Scalar::IntOrString => {
                self.int(1, i64::from(text.is_some()));
                self.int(2, value.as_int().unwrap_or_default());
                write_bytes(3, text.unwrap_or_default().as_bytes(), self.out);
            }
            Scalar::FieldsV1 if !value.is_null() => write_nested(1, self.out, |out| json::encode_fields(value, out)),
            Scalar::RawExtension | Scalar::Json if !value.is_null() => {
                write_nested(1, self.out, |out| json::encode_into(value, out));
            }
            _ => {}
        }
    }

    fn repeated(&mut self, number: u32, list: &List, value: &Value) {
        for item in value.as_array().into_iter().flatten() {
            match self.types.get(list.item) {
                // An item must be there to be counted.
                Type::Scalar(ScalarType { kind: Scalar::Bytes, .. }) if item.is_null() => {
                    write_bytes(number, b"", self.out);
                }
                _ => self.single(number, list.item, item),
            }
        }
    }

    fn map(&mut self, number: u32, map: &Map, value: &Value) {
        for (key, value) in value.as_object().into_iter().flat_map(Object::iter) {
            self.nested(number, |nested| {
                write_bytes(1, key.as_bytes(), nested.out);
                nested.single(2, map.value, value);
            });
        }
    }

    fn union_message(&mut self, union: &Union, value: &Value) {
        let schema = matches!(value, Value::Object(_));
        if union.kind == UnionKind::SchemaOrBool {
            self.int(1, i64::from(schema || value.as_bool().unwrap_or_default()));
            if schema {
                self.nested(2, |nested| nested.value_message(union.schema, value));
            }
            return;
        }
        if schema {
            self.nested(1, |nested| nested.value_message(union.schema, value));
        }
        for item in value.as_array().into_iter().flatten() {
            match union.kind {
                UnionKind::SchemaOrStringArray => {
                    write_bytes(2, item.as_str().unwrap_or_default().as_bytes(), self.out);
                }
                _ => self.nested(2, |nested| nested.value_message(union.schema, item)),
            }
        }
    }
}
