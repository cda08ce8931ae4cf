//! Duplicate keys in typed objects, as Go decodes them: the second value is decoded into the result of the first one.
//! Structs keep the fields that the second value does not set, and maps keep their entries. List items are decoded into
//! the existing items. Null is ignored for types that cannot be null.

use std::collections::BTreeMap;

use pintle_schema::{Scalar, ScalarType, Struct, Type, TypeId, Types, UnionKind};
use pintle_value::{Object, Str, Value};

use super::decode::{DecodeOptions, Token, Tokenizer, decode};

/// Decodes a well-formed text into a tree of the given type, not normalised. Unknown fields are dropped.
pub(super) fn decode_merging(text: &str, types: &Types, type_id: TypeId) -> Value {
    MergingDecoder { tokenizer: Tokenizer::new(text), types }.value(type_id, false, PartialValue::default()).finish()
}

/// A value that can be decoded into again, at a cost that is independent of its size.
enum PartialValue<'t> {
    Leaf(Value),
    Struct(BTreeMap<&'t str, PartialValue<'t>>),
    Map(BTreeMap<Str, PartialValue<'t>>),
    List(Vec<PartialValue<'t>>),
}

impl Default for PartialValue<'_> {
    fn default() -> Self {
        Self::Leaf(Value::Null)
    }
}

impl PartialValue<'_> {
    fn finish(self) -> Value {
        match self {
            Self::Leaf(value) => value,
            Self::List(items) => Value::Array(items.into_iter().map(PartialValue::finish).collect()),
            Self::Struct(fields) => {
                let entries = fields.into_iter().map(|(key, child)| (Str::from(key), child.finish()));
                Value::Object(Object::from_entries(entries.collect()))
            }
            Self::Map(entries) => {
                let entries = entries.into_iter().map(|(key, child)| (key, child.finish()));
                Value::Object(Object::from_entries(entries.collect()))
            }
        }
    }
}

struct MergingDecoder<'a, 't> {
    tokenizer: Tokenizer<'a>,
    types: &'t Types,
}

impl<'t> MergingDecoder<'_, 't> {
    /// Decodes the next value into the value `existing`.
    fn value(&mut self, id: TypeId, pointer: bool, existing: PartialValue<'t>) -> PartialValue<'t> {
        let types = self.types;
        let start = self.tokenizer.position();
        match (types.get(id), self.tokenizer.token()) {
            (ty, Token::Null) => {
                if !pointer && ignores_null(ty) {
                    existing
                } else {
                    PartialValue::default()
                }
            }
            (Type::Struct(ty), Token::Object) => self.fields(ty, existing),
            (Type::Map(map), Token::Object) => {
                let mut entries = match existing {
                    PartialValue::Map(entries) => entries,
                    _ => BTreeMap::new(),
                };
                while let Some(key) = self.tokenizer.next_key() {
                    entries.insert(key, self.value(map.value, false, PartialValue::default()));
                }
                PartialValue::Map(entries)
            }
            (Type::List(list), Token::Array) => self.items(list.item, list.pointers, existing),
            // A Go type with its own `UnmarshalJSON` starts from an empty value.
            (Type::Union(union), Token::Object) => match types.get(union.schema) {
                Type::Struct(ty) => self.fields(ty, PartialValue::default()),
                _ => self.untyped(start, Token::Object),
            },
            (Type::Union(union), Token::Array) if union.kind == UnionKind::SchemaOrArray => {
                self.items(union.schema, false, PartialValue::default())
            }
            (_, token) => self.untyped(start, token),
        }
    }

    fn fields(&mut self, ty: &'t Struct, existing: PartialValue<'t>) -> PartialValue<'t> {
        let mut fields = match existing {
            PartialValue::Struct(fields) => fields,
            _ => BTreeMap::new(),
        };
        while let Some(key) = self.tokenizer.next_key() {
            match ty.field(&key) {
                Some(field) => {
                    let existing = fields.remove(field.name.as_str()).unwrap_or_default();
                    let value = self.value(field.ty, field.pointer, existing);
                    fields.insert(&field.name, value);
                }
                None => {
                    let token = self.tokenizer.token();
                    self.tokenizer.skip(token);
                }
            }
        }
        PartialValue::Struct(fields)
    }

    fn items(&mut self, id: TypeId, pointers: bool, existing: PartialValue<'t>) -> PartialValue<'t> {
        let mut existing = match existing {
            PartialValue::List(items) => items.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let mut items = Vec::new();
        while self.tokenizer.next_item() {
            items.push(self.value(id, pointers, existing.next().unwrap_or_default()));
        }
        PartialValue::List(items)
    }

    /// Decodes the value whose first token was read at `start`. The last of duplicate keys wins.
    fn untyped(&mut self, start: usize, token: Token<'_>) -> PartialValue<'t> {
        self.tokenizer.skip(token);
        let read = decode(self.tokenizer.since(start).as_bytes(), DecodeOptions::default());
        PartialValue::Leaf(read.map(|read| read.value).unwrap_or_default())
    }
}

/// Returns whether Go leaves a value of this type unchanged when it decodes null into it.
fn ignores_null(ty: &Type) -> bool {
    match ty {
        Type::Struct(_) => true,
        Type::Scalar(ScalarType { kind, .. }) => !matches!(
            kind,
            Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Duration | Scalar::Quantity | Scalar::Json
        ),
        Type::Map(_) | Type::List(_) | Type::Union(_) | Type::Any => false,
    }
}
