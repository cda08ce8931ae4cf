//! What Go makes of keys that come twice: the second value is decoded into what the first one left. Structs keep the fields
//! that it does not name, maps keep their entries, items of lists are decoded into the items before them, and null changes
//! nothing where it cannot be.

use pintle_schema::{Scalar, ScalarType, Struct, Type, TypeId, Types, UnionKind};
use pintle_value::{Object, Value};

use super::decode::{Options, Token, Walk, decode};

/// The tree of a well-formed text of a type, not normalised.
pub(super) fn merged(text: &str, types: &Types, type_id: TypeId) -> Value {
    Merge { walk: Walk::new(text), types }.value(type_id, false, Value::Null)
}

struct Merge<'a> {
    walk: Walk<'a>,
    types: &'a Types,
}

impl<'a> Merge<'a> {
    /// Reads the next value into what is there before. Null if there is nothing.
    fn value(&mut self, id: TypeId, pointer: bool, before: Value) -> Value {
        let types = self.types;
        let start = self.walk.position();
        match (types.get(id), self.walk.token()) {
            (ty, Token::Null) => {
                if !pointer && keeps_at_null(ty) {
                    before
                } else {
                    Value::Null
                }
            }
            (Type::Struct(ty), Token::Object) => self.fields(ty, before),
            (Type::Map(map), Token::Object) => {
                let mut entries = object_of(before);
                while let Some(key) = self.walk.next_key() {
                    let value = self.value(map.value, false, Value::Null);
                    entries.insert(key, value);
                }
                Value::Object(entries)
            }
            (Type::List(list), Token::Array) => self.items(list.item, list.pointers, before),
            // What unmarshals itself begins anew.
            (Type::Union(union), Token::Object) => match types.get(union.schema) {
                Type::Struct(ty) => self.fields(ty, Value::Null),
                _ => self.untyped(start, Token::Object),
            },
            (Type::Union(union), Token::Array) if union.kind == UnionKind::SchemaOrArray => {
                self.items(union.schema, false, Value::Null)
            }
            (_, token) => self.untyped(start, token),
        }
    }

    fn fields(&mut self, ty: &Struct, before: Value) -> Value {
        let mut object = object_of(before);
        while let Some(key) = self.walk.next_key() {
            let value = match ty.field(&key) {
                Some(field) => {
                    let before = object.remove(&key).unwrap_or_default();
                    self.value(field.ty, field.pointer, before)
                }
                None => {
                    let start = self.walk.position();
                    let token = self.walk.token();
                    self.untyped(start, token)
                }
            };
            object.insert(key, value);
        }
        Value::Object(object)
    }

    fn items(&mut self, id: TypeId, pointers: bool, before: Value) -> Value {
        let mut before = match before {
            Value::Array(items) => items.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let mut items = Vec::new();
        while self.walk.next_item() {
            items.push(self.value(id, pointers, before.next().unwrap_or_default()));
        }
        Value::Array(items)
    }

    /// The value that a token began at `start`, of which the last of equal keys counts.
    fn untyped(&mut self, start: usize, token: Token<'_>) -> Value {
        self.walk.skip(token);
        let read = decode(self.walk.since(start).as_bytes(), Options::default());
        read.map(|read| read.value).unwrap_or_default()
    }
}

fn object_of(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

/// True for Go's types that null leaves as they are.
fn keeps_at_null(ty: &Type) -> bool {
    match ty {
        Type::Struct(_) => true,
        Type::Scalar(ScalarType { kind, .. }) => !matches!(
            kind,
            Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Duration | Scalar::Quantity | Scalar::Json
        ),
        Type::Map(_) | Type::List(_) | Type::Union(_) | Type::Any => false,
    }
}
