//! Encodes objects to messages, byte for byte as generated code does: fields in ascending order, non-pointer fields
//! always written, maps sorted by key.

use std::borrow::Cow;
use std::cell::Cell;

use pintle_schema::{
    Field, List, Map, Omit, Scalar, ScalarType, Struct, Type, TypeId, Types, Union, UnionKind, base64,
};
use pintle_value::Value;
use pintle_value::time::{Duration, Time};

use super::envelope::encode_envelope;
use super::source::{TreeSource, ValueSource};
use super::wire::{FIXED64, VARINT, write_bytes, write_nested, write_tag, write_varint};
use crate::json::{Tape, ValueIndex};

/// The fields of an object that its message does not have, because the envelope has them.
const ENVELOPE_FIELDS: [&str; 2] = ["apiVersion", "kind"];

/// Appends the message of a normalised value of a struct type.
pub fn encode(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    Encoder::of_object(TreeSource, types, out, &Cell::new(false)).value_message(type_id, value);
}

/// Like [`encode`]. Also returns whether decoding the message, in an envelope with the object's type, is known to give
/// the same value again. It does not if the value has empty lists, for example.
pub fn encode_checked(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) -> bool {
    let exact = Cell::new(true);
    Encoder::of_object(TreeSource, types, out, &exact).value_message(type_id, value);
    exact.get()
}

/// Appends a normalised object in its envelope, with the object's `apiVersion` and `kind`.
pub fn encode_object(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    encode_envelope(value.api_version(), value.kind(), out, |out| encode(value, types, type_id, out));
}

/// Appends the message of a value of a struct type from its stored JSON: normalised, compact, and with embedded JSON in
/// the format of [`crate::json::encode_typed`]. The tape is a reusable buffer. Returns `None` if the JSON is malformed.
pub fn encode_json(json: &[u8], tape: &mut Tape, types: &Types, type_id: TypeId, out: &mut Vec<u8>) -> Option<()> {
    let source = tape.index(json)?;
    Encoder::of_object(source, types, out, &Cell::new(false)).value_message(type_id, ValueIndex::ROOT);
    Some(())
}

/// Like [`encode_json`]. Also returns whether decoding the message is known to give the same JSON again, as
/// [`encode_checked`] does.
pub fn encode_json_checked(
    json: &[u8],
    tape: &mut Tape,
    types: &Types,
    type_id: TypeId,
    out: &mut Vec<u8>,
) -> Option<bool> {
    let (source, exact) = (tape.index(json)?, Cell::new(true));
    Encoder::of_object(source, types, out, &exact).value_message(type_id, ValueIndex::ROOT);
    Some(exact.get())
}

struct Encoder<'t, 'o, S> {
    source: S,
    types: &'t Types,
    out: &'o mut Vec<u8>,
    /// Whether decoding is still known to give the same JSON. Always false if the caller does not ask.
    exact: &'o Cell<bool>,
    /// Whether this is the message of the object itself.
    is_root: bool,
}

impl<'s, 't, 'o, S: ValueSource<'s>> Encoder<'t, 'o, S> {
    fn of_object(source: S, types: &'t Types, out: &'o mut Vec<u8>, exact: &'o Cell<bool>) -> Self {
        Self { source, types, out, exact, is_root: true }
    }

    fn nested(&mut self, number: u32, write: impl FnOnce(&mut Encoder<'t, '_, S>)) {
        let (source, types, exact) = (self.source, self.types, self.exact);
        write_nested(number, self.out, |out| write(&mut Encoder { source, types, out, exact, is_root: false }));
    }

    fn string_or_empty(&self, node: S::Node) -> Cow<'s, str> {
        self.source.string(node).unwrap_or_default()
    }

    fn int(&mut self, number: u32, value: i64) {
        write_tag(number, VARINT, self.out);
        // Negative numbers always take ten bytes.
        write_varint(value as u64, self.out);
    }

    /// Writes the body of a type that is a message.
    fn value_message(&mut self, id: TypeId, value: S::Node) {
        match self.types.get(id) {
            Type::Struct(ty) => {
                // Look up the field of each member instead of the member of each field, since there are fewer members.
                let mut inline = [S::MISSING; 64];
                let mut spilled = Vec::new();
                let values = match inline.get_mut(..ty.fields.len()) {
                    Some(values) => values,
                    None => {
                        spilled.resize(ty.fields.len(), S::MISSING);
                        &mut spilled
                    }
                };
                let mut next = 0;
                for (key, value) in self.source.members(value) {
                    let position = ty.position(&key);
                    // The envelope has the type of the object itself. Objects in it have no type in their messages.
                    let is_of_envelope = self.is_root && ENVELOPE_FIELDS.contains(&&*key);
                    let is_encoded = |at: usize| ty.fields[at].number > 0 || is_of_envelope;
                    let is_in_order = |at: usize| !S::IS_ORDERED || at >= next;
                    if !position.is_some_and(|position| is_in_order(position) && is_encoded(position)) {
                        self.exact.set(false);
                    }
                    if let Some((position, slot)) = position.and_then(|at| Some((at, values.get_mut(at)?))) {
                        *slot = value;
                        next = position + 1;
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

    fn struct_message(&mut self, ty: &Struct, message: u8, values: &[S::Node]) {
        let mut written = 0;
        for (index, field) in ty.message(message) {
            self.embedded_structs(ty, message, written, field.number, values);
            self.field(field, values.get(index).copied().unwrap_or(S::MISSING));
            written = field.number;
        }
        self.embedded_structs(ty, message, written, u32::MAX, values);
    }

    /// Writes the embedded structs of a message whose numbers are between `after` and `before`.
    fn embedded_structs(&mut self, ty: &Struct, message: u8, after: u32, before: u32, values: &[S::Node]) {
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

    /// True if decoding gives the same JSON for the value of a field, without the values in it.
    fn is_kept(&self, field: &Field, value: S::Node) -> bool {
        if self.source.is_missing(value) {
            return !self.types.is_always_encoded(field);
        }
        if self.source.is_null(value) {
            let is_zero = field.pointer || self.types.zero(field.ty).is_null();
            return is_zero && self.types.is_always_encoded(field);
        }
        let omits_zero = field.omit != Omit::Never && !field.pointer;
        match self.types.get(field.ty) {
            Type::Map(_) => self.source.members(value).next().is_some(),
            Type::List(_) => self.source.items(value).next().is_some(),
            Type::Scalar(ScalarType { kind: Scalar::String | Scalar::Bytes, .. }) if omits_zero => {
                self.source.string(value).is_some_and(|text| !text.is_empty())
            }
            Type::Scalar(ScalarType { kind: Scalar::Bool, .. }) if omits_zero => {
                self.source.boolean(value) == Some(true)
            }
            Type::Scalar(ScalarType { kind, .. }) if omits_zero && kind.range().is_some() => {
                self.source.integer(value).is_some_and(|number| number != 0)
            }
            _ => true,
        }
    }

    fn field(&mut self, field: &Field, value: S::Node) {
        if self.exact.get() && !self.is_kept(field, value) {
            self.exact.set(false);
        }
        if field.pointer && self.source.is_null(value) {
            return;
        }
        match self.types.get(field.ty) {
            Type::Map(map) => self.map(field.number, map, value),
            // A named list is a message, which is written unless it is nil.
            Type::List(list) if !list.name.is_empty() => {
                if !self.source.is_null(value) {
                    self.nested(field.number, |nested| nested.repeated(1, list, value));
                }
            }
            Type::List(list) => self.repeated(field.number, list, value),
            _ => self.single(field.number, field.ty, value),
        }
    }

    /// Writes one value with its tag. Null is written as the type's zero value, except that a null `[]byte` is not
    /// written.
    fn single(&mut self, number: u32, id: TypeId, value: S::Node) {
        let Type::Scalar(ScalarType { kind, .. }) = self.types.get(id) else {
            self.nested(number, |nested| nested.value_message(id, value));
            return;
        };
        match kind {
            Scalar::String => write_bytes(number, self.string_or_empty(value).as_bytes(), self.out),
            Scalar::Bool => self.int(number, i64::from(self.source.boolean(value).unwrap_or_default())),
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 => {
                self.int(number, self.source.integer(value).unwrap_or_default());
            }
            Scalar::Float64 => {
                write_tag(number, FIXED64, self.out);
                self.out.extend_from_slice(&self.source.float(value).unwrap_or_default().to_le_bytes());
            }
            Scalar::Bytes => {
                if let Some(text) = self.source.string(value) {
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

    fn scalar_message(&mut self, kind: Scalar, value: S::Node) {
        let text = self.source.string(value);
        let text = text.as_deref();
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
                self.int(2, self.source.integer(value).unwrap_or_default());
                write_bytes(3, text.unwrap_or_default().as_bytes(), self.out);
            }
            Scalar::FieldsV1 if !self.source.is_null(value) => {
                write_nested(1, self.out, |out| self.source.write_fields(value, out));
            }
            Scalar::RawExtension | Scalar::Json if !self.source.is_null(value) => {
                let start = self.out.len();
                write_nested(1, self.out, |out| self.source.write_json(value, out));
                // A negative zero is decoded to zero.
                if self.exact.get() && self.out[start..].windows(2).any(|two| two == b"-0") {
                    self.exact.set(false);
                }
            }
            _ => {}
        }
    }

    fn repeated(&mut self, number: u32, list: &List, value: S::Node) {
        for item in self.source.items(value) {
            if self.source.is_null(item) {
                self.exact.set(false);
            }
            match self.types.get(list.item) {
                // A null item must still be written, so that the number of items is kept.
                Type::Scalar(ScalarType { kind: Scalar::Bytes, .. }) if self.source.is_null(item) => {
                    write_bytes(number, b"", self.out);
                }
                _ => self.single(number, list.item, item),
            }
        }
    }

    fn map(&mut self, number: u32, map: &Map, value: S::Node) {
        let mut last = None;
        for (key, value) in self.source.members(value) {
            if self.exact.get() && (self.source.is_null(value) || last.as_ref().is_some_and(|last| *last >= key)) {
                self.exact.set(false);
            }
            self.nested(number, |nested| {
                write_bytes(1, key.as_bytes(), nested.out);
                nested.single(2, map.value, value);
            });
            last = Some(key);
        }
    }

    fn union_message(&mut self, union: &Union, value: S::Node) {
        let schema = self.source.is_object(value);
        if union.kind == UnionKind::SchemaOrBool {
            self.int(1, i64::from(schema || self.source.boolean(value).unwrap_or_default()));
            if schema {
                self.nested(2, |nested| nested.value_message(union.schema, value));
            }
            return;
        }
        if schema {
            self.nested(1, |nested| nested.value_message(union.schema, value));
        }
        for item in self.source.items(value) {
            match union.kind {
                UnionKind::SchemaOrStringArray => {
                    write_bytes(2, self.string_or_empty(item).as_bytes(), self.out);
                }
                _ => self.nested(2, |nested| nested.value_message(union.schema, item)),
            }
        }
    }
}
