//! What Go makes of keys that come twice: the second value is decoded into what the first one left. Structs keep the fields
//! that it does not name, maps keep their entries, items of lists are decoded into the items before them, and null changes
//! nothing where it cannot be.

use std::collections::BTreeMap;

use pintle_schema::{Scalar, ScalarType, Struct, Type, TypeId, Types, UnionKind};
use pintle_value::{Object, Str, Value};

use super::decode::{Options, Token, Walk, decode};

/// The tree of a well-formed text of a type, not normalised. Fields that the type does not know are not in it.
pub(super) fn merged(text: &str, types: &Types, type_id: TypeId) -> Value {
    Merge { walk: Walk::new(text), types }.value(type_id, false, Node::default()).finish()
}

/// A value that more may be added to, at a cost that does not grow with what is there.
enum Node<'t> {
    Leaf(Value),
    Struct(BTreeMap<&'t str, Node<'t>>),
    Map(BTreeMap<Str, Node<'t>>),
    List(Vec<Node<'t>>),
}

impl Default for Node<'_> {
    fn default() -> Self {
        Self::Leaf(Value::Null)
    }
}

impl Node<'_> {
    fn finish(self) -> Value {
        match self {
            Self::Leaf(value) => value,
            Self::List(items) => Value::Array(items.into_iter().map(Node::finish).collect()),
            Self::Struct(fields) => {
                let entries = fields.into_iter().map(|(key, node)| (Str::from(key), node.finish()));
                Value::Object(Object::from_entries(entries.collect()))
            }
            Self::Map(entries) => {
                let entries = entries.into_iter().map(|(key, node)| (key, node.finish()));
                Value::Object(Object::from_entries(entries.collect()))
            }
        }
    }
}

struct Merge<'a, 't> {
    walk: Walk<'a>,
    types: &'t Types,
}

impl<'t> Merge<'_, 't> {
    /// Reads the next value into what is there before.
    fn value(&mut self, id: TypeId, pointer: bool, before: Node<'t>) -> Node<'t> {
        let types = self.types;
        let start = self.walk.position();
        match (types.get(id), self.walk.token()) {
            (ty, Token::Null) => {
                if !pointer && keeps_at_null(ty) {
                    before
                } else {
                    Node::default()
                }
            }
            (Type::Struct(ty), Token::Object) => self.fields(ty, before),
            (Type::Map(map), Token::Object) => {
                let mut entries = match before {
                    Node::Map(entries) => entries,
                    _ => BTreeMap::new(),
                };
                while let Some(key) = self.walk.next_key() {
                    entries.insert(key, self.value(map.value, false, Node::default()));
                }
                Node::Map(entries)
            }
            (Type::List(list), Token::Array) => self.items(list.item, list.pointers, before),
            // What unmarshals itself begins anew.
            (Type::Union(union), Token::Object) => match types.get(union.schema) {
                Type::Struct(ty) => self.fields(ty, Node::default()),
                _ => self.untyped(start, Token::Object),
            },
            (Type::Union(union), Token::Array) if union.kind == UnionKind::SchemaOrArray => {
                self.items(union.schema, false, Node::default())
            }
            (_, token) => self.untyped(start, token),
        }
    }

    fn fields(&mut self, ty: &'t Struct, before: Node<'t>) -> Node<'t> {
        let mut fields = match before {
            Node::Struct(fields) => fields,
            _ => BTreeMap::new(),
        };
        while let Some(key) = self.walk.next_key() {
            match ty.field(&key) {
                Some(field) => {
                    let before = fields.remove(field.name.as_str()).unwrap_or_default();
                    let value = self.value(field.ty, field.pointer, before);
                    fields.insert(&field.name, value);
                }
                None => {
                    let token = self.walk.token();
                    self.walk.skip(token);
                }
            }
        }
        Node::Struct(fields)
    }

    fn items(&mut self, id: TypeId, pointers: bool, before: Node<'t>) -> Node<'t> {
        let mut before = match before {
            Node::List(items) => items.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let mut items = Vec::new();
        while self.walk.next_item() {
            items.push(self.value(id, pointers, before.next().unwrap_or_default()));
        }
        Node::List(items)
    }

    /// The value that a token began at `start`, of which the last of equal keys counts.
    fn untyped(&mut self, start: usize, token: Token<'_>) -> Node<'t> {
        self.walk.skip(token);
        let read = decode(self.walk.since(start).as_bytes(), Options::default());
        Node::Leaf(read.map(|read| read.value).unwrap_or_default())
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
