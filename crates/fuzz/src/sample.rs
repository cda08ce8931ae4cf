//! Generates objects of any kind from the schema of its type. The samples miss fields, contain the limits of every
//! range, and contain strings that are difficult for some format.

use pintle_schema::{Scalar, ScalarType, Type, TypeId, Types, UnionKind, base64};
use pintle_value::{Object, Str, Value};

use crate::Random;

/// The maximum depth of a sample, because types may be recursive.
const MAX_DEPTH: usize = 9;

const TEXTS: &[&str] = &[
    "",
    "a",
    "no",
    "y",
    "null",
    "~",
    "1",
    "0x1f",
    "1_000",
    "1e3",
    ".5",
    ".inf",
    "2001-01-01",
    "12:30:45",
    "0o17",
    "017",
    "true",
    "- a",
    "a: b",
    "#",
    "a #b",
    "'",
    "\"",
    "\\",
    "\n",
    "a\nb",
    "a\nb\n",
    "a\n\n",
    " a",
    "a ",
    "\ta",
    "a\r\nb",
    "é",
    "日本",
    "😀",
    "\u{feff}a",
    "\u{85}",
    "\u{2028}x",
    "\0",
    "\u{7f}",
    "\u{1b}",
    "<a>&",
    "\u{fffd}",
    "---",
    "...",
    "%a",
    "@a",
    "*a",
    "&a",
    "!a",
    "|",
    ">",
    "{}",
    "[]",
    "a,b",
    "?",
    "-",
    ":",
    "a:",
    "=",
    "<<",
    "k8s\0",
    "example.com/a",
    "a text that is longer than eighty columns and has many words, so that writers that fold at some column do so here",
];

const KEYS: &[&str] =
    &["a", "b.c/d", "", "1", "yes", "null", "a: b", "é", "\n", "2.5", "<<", "~", "a10", "a9", "\u{1}"];

const QUANTITIES: &[&str] =
    &["0", "1", "100m", "1500m", "1Gi", "0.5", "1e3", "-1", "12345678901234567890", "1n", "3.14E", "9Ei"];

const DURATIONS: &[&str] = &["0s", "1s", "1h0m0s", "1.5s", "100ms", "-3m0s", "2540400h10m10s"];

/// Generates a value of a type. The value is not normalised, and has neither unknown fields nor invalid values.
#[must_use]
pub fn sample(random: &mut Random, types: &Types, type_id: TypeId) -> Value {
    // Some samples have nearly all fields, and some have nearly none.
    let field_rarity = *random.pick(&[1, 2, 4, 12]);
    Sampler { random, types, field_rarity }.value(type_id, 0)
}

struct Sampler<'a> {
    random: &'a mut Random,
    types: &'a Types,
    /// A field is present with a probability of one in this number.
    field_rarity: usize,
}

impl Sampler<'_> {
    fn value(&mut self, id: TypeId, depth: usize) -> Value {
        let types = self.types;
        match types.get(id) {
            Type::Scalar(scalar) => self.scalar(scalar),
            Type::Any => self.json(depth),
            _ if depth > MAX_DEPTH => types.zero(id),
            Type::Struct(ty) => {
                let field_rarity = self.field_rarity + depth / 3;
                let mut object = Object::new();
                for field in &ty.fields {
                    // A Protobuf message has no `apiVersion` and `kind`; the envelope has them for the whole object.
                    if depth > 0 && field.number == 0 {
                        continue;
                    }
                    if self.random.once_in(field_rarity) {
                        let value = if field.pointer && self.random.once_in(12) {
                            Value::Null
                        } else {
                            self.value(field.ty, depth + 1)
                        };
                        object.insert(field.name.as_str(), value);
                    }
                }
                Value::Object(object)
            }
            Type::Map(map) => {
                let mut object = Object::new();
                for _ in 0..self.random.below(4) {
                    let key = *self.random.pick(KEYS);
                    object.insert(key, self.value(map.value, depth + 1));
                }
                Value::Object(object)
            }
            Type::List(list) => {
                Value::Array((0..self.random.below(4)).map(|_| self.value(list.item, depth + 1)).collect())
            }
            Type::Union(union) => match (union.kind, self.random.below(3)) {
                (UnionKind::SchemaOrArray, 0) => Value::Array(vec![self.value(union.schema, depth + 1)]),
                (UnionKind::SchemaOrBool, 0) => Value::Bool(self.random.once_in(2)),
                (UnionKind::SchemaOrStringArray, 0) => Value::Array(vec![Value::String(self.text())]),
                _ => self.value(union.schema, depth + 1),
            },
        }
    }

    fn scalar(&mut self, scalar: &ScalarType) -> Value {
        match scalar.kind {
            Scalar::String => match &scalar.values {
                Some(known) if !known.values.is_empty() && !self.random.once_in(4) => {
                    Value::String(self.random.pick(&known.values).clone())
                }
                _ => Value::String(self.text()),
            },
            Scalar::Bool => Value::Bool(self.random.once_in(2)),
            Scalar::Float64 => Value::Float(*self.random.pick(&[0.5, 1e300, -2.25, 5e-324, 1e21, 123_456_789.125])),
            Scalar::Bytes => {
                let length = self.random.below(9);
                let bytes: Vec<u8> = (0..length).map(|_| self.random.number().to_le_bytes()[0]).collect();
                Value::from(base64::encode(&bytes))
            }
            Scalar::Time => Value::from(*self.random.pick(&[
                "2001-02-03T04:05:06Z",
                "1969-12-31T23:59:59Z",
                "9999-12-31T23:59:59Z",
                "0001-01-01T00:00:01Z",
                "2001-02-03T04:05:06+02:00",
            ])),
            Scalar::MicroTime => Value::from(*self.random.pick(&[
                "2001-02-03T04:05:06.000001Z",
                "1969-12-31T23:59:59.999999Z",
                "2001-02-03T04:05:06.120000-07:00",
                "9999-12-31T23:59:59.000000Z",
            ])),
            Scalar::Duration => Value::from(*self.random.pick(DURATIONS)),
            Scalar::Quantity => Value::from(*self.random.pick(QUANTITIES)),
            Scalar::IntOrString if self.random.once_in(2) => Value::String(self.text()),
            Scalar::IntOrString => self.integer(Scalar::Int32),
            Scalar::RawExtension => {
                let mut object = Object::new();
                object.insert("apiVersion", "example.com/v1");
                object.insert("kind", "Widget");
                object.insert("spec", self.json(MAX_DEPTH - 3));
                Value::Object(object)
            }
            Scalar::FieldsV1 => {
                let mut object = Object::new();
                for key in ["f:a", "k:{\"port\":80}", "k:{\"port\":443}", "v:10", "v:2", "."] {
                    if self.random.once_in(2) {
                        object.insert(key, Value::object());
                    }
                }
                Value::Object(object)
            }
            Scalar::Json => self.json(MAX_DEPTH - 3),
            integer => self.integer(integer),
        }
    }

    /// Returns a limit of the range, or a number within it.
    fn integer(&mut self, kind: Scalar) -> Value {
        let (low, high) = kind.range().unwrap_or((i64::MIN, i64::MAX));
        let small = i64::try_from(self.random.below(200)).unwrap_or_default();
        Value::Int(*self.random.pick(&[low, high, 0.max(low), 1, small]))
    }

    fn text(&mut self) -> Str {
        Str::from(*self.random.pick(TEXTS))
    }

    fn json(&mut self, depth: usize) -> Value {
        match self.random.below(if depth > MAX_DEPTH { 5 } else { 7 }) {
            0 => Value::Bool(true),
            1 => self.integer(Scalar::Int64),
            2 => Value::Float(*self.random.pick(&[0.5, -1e-7, 1e21])),
            3 | 4 => Value::String(self.text()),
            5 => Value::Array((0..self.random.below(3)).map(|_| self.json(depth + 1)).collect()),
            _ => {
                let mut object = Object::new();
                for _ in 0..self.random.below(3) {
                    let key = *self.random.pick(KEYS);
                    object.insert(key, self.json(depth + 1));
                }
                Value::Object(object)
            }
        }
    }
}
