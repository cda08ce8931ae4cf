//! CBOR to the tree that a Go struct would hold: a walk over the type beside the bytes, which says of what does not fit
//! what upstream's decoder says. Leaves are brought into their canonical form afterwards, by normalising, as those of JSON.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::OnceLock;

use pintle_schema::leaf::{Mismatch, float_value};
use pintle_schema::{
    Field, Map, Omit, Patch, Scalar, ScalarType, Struct, Type, TypeId, Types, Union, UnionKind, base64,
};
use pintle_value::{Object, Str, Value};

use super::check::{Limits, well_formed};
use super::error::Error;
use super::reader::{FALSE, Head, Later, Major, NULL, Reader, TRUE};
use super::untyped::{Entries, GoName, Untyped, misfit, negative, object, text_of};
use crate::json::TypeMeta;

/// An object of a built-in kind as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    /// The tree, not normalised yet.
    pub value: Value,
    /// What strict decoding says: that a field is not known. Upstream says it of one.
    pub unknown: Option<Error>,
}

/// Reads one item that fills all of the bytes as a value of a type.
///
/// # Errors
/// It is not CBOR, or does not fit.
pub fn decode_typed(bytes: &[u8], types: &Types, root: TypeId, limits: Limits) -> Result<Typed, Error> {
    well_formed(bytes, limits)?;
    let mut walk = Walk { types, at: Untyped::new(Reader::new(bytes)), strict: false, raw: None };
    let mut unknown = None;
    let value = walk.value(root, false, &mut unknown)?;
    match walk.raw {
        // Embedded objects are looked into when all else was read.
        Some(error) => Err(error),
        None => Ok(Typed { value, unknown: unknown.map(|index| Error::UnknownField { index }) }),
    }
}

/// Finds out what an object says that it is, as upstream does before anything else.
///
/// # Errors
/// It is not CBOR, or no map, or does not say it in strings.
pub fn type_meta(bytes: &[u8], limits: Limits) -> Result<TypeMeta, Error> {
    static META: OnceLock<(Types, TypeId)> = OnceLock::new();
    let (types, root) = META.get_or_init(|| {
        let mut types = Types::default();
        let string = types.add(Type::Scalar(ScalarType { kind: Scalar::String, name: "".into(), values: None }));
        let field = |name: &str| Field {
            name: name.into(),
            ty: string,
            pointer: false,
            omit: Omit::Empty,
            required: false,
            number: 0,
            embedded: 0,
            patch: Patch::default(),
            default: None,
        };
        let root =
            types.add(Type::Struct(Struct::new("meta/v1.TypeMeta", "", vec![field("kind"), field("apiVersion")])));
        (types, root)
    });
    let meta = decode_typed(bytes, types, *root, limits)?.value;
    let text = |key: &str| Str::from(meta.str_at(&[key]));
    Ok(TypeMeta { api_version: text("apiVersion"), kind: text("kind") })
}

struct Walk<'t, 'a> {
    types: &'t Types,
    at: Untyped<'a>,
    /// True where upstream's decoder has no way but to be strict: inside of types that decode by themselves.
    strict: bool,
    /// The first embedded object that is none.
    raw: Option<Error>,
}

impl<'a> Walk<'_, 'a> {
    /// Reads an item; the reader stands after it, whatever comes of it. `unknown` is set to the place of an unknown field.
    fn value(&mut self, id: TypeId, pointer: bool, unknown: &mut Option<usize>) -> Result<Value, Error> {
        if pointer && self.at.reader.is_nil() {
            self.at.reader.skip();
            return Ok(Value::Null);
        }
        self.at.reader.strip_self_described();
        self.at.reader.check_tags()?;
        let types = self.types;
        match types.get(id) {
            Type::Any => return self.at.item(false),
            Type::Union(union) => return self.apart(|walk| walk.union(union)),
            Type::Scalar(scalar) if reads_itself(scalar.kind) => return self.apart(|walk| walk.leaf(scalar.kind)),
            _ => {}
        }
        let before = self.at.later;
        self.at.tags();
        let value = self.filled(id, unknown);
        self.at.later = before;
        // Behind a tag or two, null is no nil pointer any more.
        value.map(|value| if pointer && value.is_null() { types.zero(id) } else { value })
    }

    /// A value of a type that Go's reflection fills.
    fn filled(&mut self, id: TypeId, unknown: &mut Option<usize>) -> Result<Value, Error> {
        let types = self.types;
        match (types.get(id), self.at.reader.major()) {
            (Type::Struct(ty), Major::Map) => self.fields(ty, unknown).map(Value::Object),
            (Type::Struct(_), Major::Array) => {
                self.at.reader.skip();
                let note = "cannot decode CBOR array to struct without toarray option";
                Err(Error::noted(Major::Array.name(), types.go_name(id), note))
            }
            (Type::Map(map), Major::Map) => self.entries(map, unknown).map(Value::Object),
            (Type::List(list), Major::Array) => self.items(list.item, list.pointers, unknown).map(Value::Array),
            (Type::Scalar(scalar), _) => self.scalar(scalar.kind, &|| types.go_name(id)),
            _ => misfit(&mut self.at.reader, &|| types.go_name(id)),
        }
    }

    /// Reads an item as a decoder of its own, which knows nothing of the tags outside.
    fn apart<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.at.later.take();
        let read = read(self);
        self.at.later = before;
        read
    }

    fn items(&mut self, item: TypeId, pointers: bool, unknown: &mut Option<usize>) -> Result<Vec<Value>, Error> {
        let head = self.at.reader.head();
        let mut items = Vec::with_capacity(self.at.reader.room(head));
        let (mut error, mut done) = (None, 0);
        while self.at.reader.more(head, done) {
            done += 1;
            if error.is_some() {
                self.at.reader.skip();
                continue;
            }
            let mut inside = None;
            match self.value(item, pointers, &mut inside) {
                Ok(value) => items.push(value),
                Err(first) => error = Some(first),
            }
            *unknown = unknown.or(inside);
        }
        error.map_or(Ok(items), Err)
    }

    fn entries(&mut self, map: &Map, unknown: &mut Option<usize>) -> Result<Object, Error> {
        let mut entries = Entries::begin(&mut self.at, map.key_name());
        let mut found = Vec::new();
        while let Some(key) = entries.key(&mut self.at) {
            let mut inside = None;
            let value = self.value(map.value, false, &mut inside);
            *unknown = unknown.or(inside);
            found.extend(entries.keep(&mut self.at, value)?.map(|value| (key, value)));
        }
        entries.end()?;
        Ok(Object::from_entries(found))
    }

    fn fields(&mut self, ty: &Struct, unknown: &mut Option<usize>) -> Result<Object, Error> {
        let head = self.at.reader.head();
        let (mut error, mut done) = (None, 0);
        let mut found = vec![false; ty.fields.len()];
        let mut strangers = HashSet::new();
        let mut entries = Vec::with_capacity(self.at.reader.room(head).min(ty.fields.len()));
        let mut stranger = None;
        while self.at.reader.more(head, done) {
            let index = done;
            done += 1;
            let Some(key) = self.field_name(&mut error) else {
                self.at.reader.skip();
                continue;
            };
            let place = match &key {
                Key::Text(name) => std::str::from_utf8(name).ok().and_then(|name| ty.position(name)),
                _ => None,
            };
            let Some((place, field)) = place.and_then(|place| Some((place, ty.fields.get(place)?))) else {
                if self.strict {
                    self.skip_rest(head, done);
                    return Err(Error::UnknownField { index });
                }
                stranger = stranger.or(Some(index));
                let text = key.text();
                if !strangers.insert(key) {
                    self.skip_rest(head, done);
                    return Err(Error::DuplicateKey { key: text, index });
                }
                self.at.reader.skip();
                continue;
            };
            if std::mem::replace(&mut found[place], true) {
                self.skip_rest(head, done);
                return Err(Error::DuplicateKey { key: crate::go::quote(&field.name), index });
            }
            let mut inside = None;
            match self.value(field.ty, field.pointer, &mut inside) {
                Ok(value) => entries.push((field.name.clone(), value)),
                Err(first) if error.is_none() => {
                    let name = || format!("{}.{}", short(&ty.name), field.name);
                    error = Some(first.of_field(name));
                }
                Err(_) => {}
            }
            *unknown = unknown.or(inside);
        }
        // Upstream stops at an unknown field of its own, which counts more than one further in.
        *unknown = stranger.or(*unknown);
        error.map_or_else(|| Ok(Object::from_entries(entries)), Err)
    }

    /// Goes over what is left of a map, the value of the current key first.
    fn skip_rest(&mut self, head: Head, mut done: usize) {
        self.at.reader.skip();
        while self.at.reader.more(head, done) {
            done += 1;
            self.at.reader.skip();
            self.at.reader.skip();
        }
    }

    /// A key that may be the name of a field; `None` for one that is nothing at all, which was noted.
    fn field_name(&mut self, error: &mut Option<Error>) -> Option<Key<'a>> {
        let reader = &mut self.at.reader;
        let major = reader.major();
        let mut note = |first| {
            error.get_or_insert(first);
        };
        match major {
            Major::Bytes => Some(Key::Text(reader.byte_string())),
            Major::Text => match reader.text_string() {
                Ok(Cow::Borrowed(text)) => Some(Key::Text(text.as_bytes().into())),
                Ok(Cow::Owned(text)) => Some(Key::Text(text.into_bytes().into())),
                Err(first) => {
                    note(first);
                    None
                }
            },
            #[allow(clippy::cast_possible_wrap)] // as Go does
            Major::Positive => Some(Key::Int(reader.head().argument as i64)),
            Major::Negative => {
                let argument = reader.head().argument;
                if let Ok(argument) = i64::try_from(argument) {
                    return Some(Key::Int(-1 - argument));
                }
                note(Error::noted(major.name(), "int64", format!("-1-{argument} overflows Go's int64")));
                None
            }
            _ => {
                let name = major.name();
                note(Error::noted(
                    name,
                    "string",
                    format!("map key is of type {name} and cannot be used to match struct field name"),
                ));
                match self.at.item(true) {
                    Ok(Value::Array(_) | Value::Object(_)) | Err(_) => None,
                    Ok(Value::String(text)) => Some(Key::Text(text.as_bytes().to_vec().into())),
                    Ok(Value::Int(i)) => Some(Key::Int(i)),
                    Ok(Value::Bool(b)) => Some(Key::Bool(b)),
                    Ok(Value::Float(f)) => Some(Key::Float(f.to_bits())),
                    Ok(Value::Null) => Some(Key::Null),
                }
            }
        }
    }

    /// A leaf that Go's reflection fills.
    fn scalar(&mut self, kind: Scalar, go: GoName<'_>) -> Result<Value, Error> {
        let reader = &mut self.at.reader;
        let (major, initial) = (reader.major(), reader.peek());
        match (kind, major) {
            (Scalar::String, Major::Bytes) => Ok(Value::String(text_of(&reader.byte_string(), self.at.later))),
            (Scalar::String, Major::Text) => reader.text_string().map(|text| Value::String(Str::from(&*text))),
            (Scalar::Bytes, Major::Bytes) => bytes(&reader.byte_string(), self.at.later),
            (Scalar::Bytes, Major::Array) => self.byte_list(),
            (Scalar::Bool, Major::Primitive) if matches!(initial, FALSE | TRUE) => {
                reader.skip();
                Ok(Value::Bool(initial == TRUE))
            }
            #[allow(clippy::cast_precision_loss)] // as Go converts
            (Scalar::Float64, Major::Positive) => Ok(float_value(reader.head().argument as f64)),
            #[allow(clippy::cast_precision_loss)]
            (Scalar::Float64, Major::Negative) => Ok(float_value(negative(reader.head(), go)? as f64)),
            (Scalar::Float64, Major::Primitive) if (0xf9..=0xfb).contains(&initial) => {
                Ok(float_value(Reader::float(reader.head()).unwrap_or_default()))
            }
            (_, Major::Positive | Major::Negative) => integer(kind, reader, go),
            _ => misfit(reader, go),
        }
    }

    /// A list of numbers, which Go takes for bytes too.
    fn byte_list(&mut self) -> Result<Value, Error> {
        let head = self.at.reader.head();
        let (mut bytes, mut error, mut done) = (Vec::with_capacity(self.at.reader.room(head)), None, 0);
        while self.at.reader.more(head, done) {
            done += 1;
            if error.is_some() {
                self.at.reader.skip();
                continue;
            }
            self.at.reader.strip_self_described();
            let item = self.at.reader.check_tags().and_then(|()| {
                self.at.tags();
                self.scalar(Scalar::Uint8, &|| Scalar::Uint8.go_name().to_owned())
            });
            match item {
                Ok(item) => bytes.push(item.as_int().and_then(|i| u8::try_from(i).ok()).unwrap_or_default()),
                Err(first) => error = Some(first),
            }
        }
        error.map_or_else(|| Ok(Value::from(base64::encode(&bytes))), Err)
    }

    /// A leaf of a type that decodes by itself.
    fn leaf(&mut self, kind: Scalar) -> Result<Value, Error> {
        let item = self.at.reader.skip();
        let mut inside = Walk { types: self.types, at: Untyped::new(Reader::new(item)), strict: true, raw: None };
        match kind {
            Scalar::IntOrString => inside.plain(Scalar::String, false).or_else(|_| {
                inside.at = Untyped::new(Reader::new(item));
                inside.plain(Scalar::Int32, false)
            }),
            Scalar::RawExtension if item == [NULL] => Ok(Value::Null),
            Scalar::RawExtension => {
                let found = inside.at.item(true);
                Ok(self.embedded("RawExtension", "failed to parse RawExtension bytes as CBOR", found))
            }
            Scalar::FieldsV1 if item == [NULL] => Ok(Value::Null),
            Scalar::FieldsV1 => Ok(match item.first().copied() {
                Some(0xa0..=0xbf | 0xc6..=0xdb | NULL) => {
                    self.embedded("FieldsV1", "metav1.FieldsV1 cbor invalid", object(inside.at.reader))
                }
                // Upstream keeps what is no map, and ignores it later.
                _ => Value::Null,
            }),
            Scalar::Json if item.first() == Some(&NULL) => Ok(Value::Null),
            Scalar::Json => inside.at.item(true),
            Scalar::Duration => {
                let value = inside
                    .at
                    .item(true)
                    .map_err(|error| Error::Other(format!("cbor: cannot transcode from cbor to json: {error}")))?;
                canonical(kind, if value.is_null() { Value::from("") } else { value })
            }
            // Times and quantities are read as strings.
            _ => match inside.plain(Scalar::String, true)? {
                Value::Null => Ok(Value::Null),
                value => canonical(kind, value),
            },
        }
    }

    /// A leaf without a name of its own, as Go reads it into a variable: null changes nothing, where there is no pointer.
    fn plain(&mut self, kind: Scalar, pointer: bool) -> Result<Value, Error> {
        if pointer && self.at.reader.is_nil() {
            return Ok(Value::Null);
        }
        self.at.reader.strip_self_described();
        self.at.reader.check_tags()?;
        self.at.tags();
        let value = self.scalar(kind, &|| kind.go_name().to_owned())?;
        Ok(if value.is_null() { kind.zero() } else { value })
    }

    fn embedded(&mut self, name: &str, what: &str, found: Result<Value, Error>) -> Value {
        found.unwrap_or_else(|error| {
            let told = || Error::Other(format!("failed to transcode {name} to JSON: {what}: {error}"));
            self.raw.get_or_insert_with(told);
            Value::Null
        })
    }

    fn union(&mut self, union: &Union) -> Result<Value, Error> {
        let strict = std::mem::replace(&mut self.strict, true);
        let value = self.union_of(union);
        self.strict = strict;
        value
    }

    fn union_of(&mut self, union: &Union) -> Result<Value, Error> {
        let (major, initial) = (self.at.reader.major(), self.at.reader.peek());
        let mut unknown = None;
        match (union.kind, major) {
            (_, Major::Map) => self.value(union.schema, false, &mut unknown),
            (UnionKind::SchemaOrBool, _) => {
                self.at.reader.skip();
                match initial {
                    TRUE => Ok(Value::Bool(true)),
                    FALSE => Ok(Value::Bool(false)),
                    _ => Err(Error::Other("boolean or JSON schema expected".to_owned())),
                }
            }
            (UnionKind::SchemaOrArray, Major::Array) => self.items(union.schema, false, &mut unknown).map(Value::Array),
            (UnionKind::SchemaOrStringArray, Major::Array) => self.strings().map(Value::Array),
            // Anything else is ignored.
            _ => {
                self.at.reader.skip();
                Ok(Value::Null)
            }
        }
    }

    fn strings(&mut self) -> Result<Vec<Value>, Error> {
        let head = self.at.reader.head();
        let (mut items, mut error, mut done) = (Vec::with_capacity(self.at.reader.room(head)), None, 0);
        while self.at.reader.more(head, done) {
            done += 1;
            let item = self.at.reader.skip();
            let mut inside = Walk { types: self.types, at: Untyped::new(Reader::new(item)), strict: true, raw: None };
            match inside.plain(Scalar::String, false) {
                Ok(item) => items.push(item),
                Err(first) => {
                    error.get_or_insert(first);
                }
            }
        }
        error.map_or(Ok(items), Err)
    }
}

/// What a struct may find where a field's name should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key<'a> {
    Text(Cow<'a, [u8]>),
    Int(i64),
    Bool(bool),
    Float(u64),
    Null,
}

impl Key<'_> {
    /// As Go's `%#v` prints it.
    fn text(&self) -> String {
        match self {
            Key::Text(text) => crate::go::quote(&crate::go::utf8(text)),
            Key::Int(i) => i.to_string(),
            Key::Bool(b) => b.to_string(),
            Key::Float(bits) => f64::from_bits(*bits).to_string(),
            Key::Null => "<nil>".to_owned(),
        }
    }
}

/// True for the types that implement an unmarshaler of their own.
fn reads_itself(kind: Scalar) -> bool {
    kind.is_go_struct()
}

fn short(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

fn canonical(kind: Scalar, mut value: Value) -> Result<Value, Error> {
    match kind.canonical(&mut value) {
        Ok(()) => Ok(value),
        Err(Mismatch::Other(text)) => Err(Error::Other(text)),
        Err(Mismatch::Type(value, go)) => {
            Err(Error::Other(format!("json: cannot unmarshal {value} into Go value of type {go}")))
        }
    }
}

/// The base64 text of a byte string for `[]byte`: it is taken for base64 already, unless a tag says that it is not.
fn bytes(bytes: &[u8], later: Option<Later>) -> Result<Value, Error> {
    if later.is_some() {
        return Ok(Value::from(base64::encode(bytes)));
    }
    let decoded = base64::decode(bytes)
        .map_err(|error| Error::Other(format!("cbor: failed to decode base64 from byte string: {error}")))?;
    Ok(Value::from(base64::encode(&decoded)))
}

fn integer(kind: Scalar, reader: &mut Reader<'_>, go: GoName<'_>) -> Result<Value, Error> {
    let major = reader.major();
    let head = reader.head();
    let number = if major == Major::Positive { i128::from(head.argument) } else { i128::from(negative(head, go)?) };
    let Some((low, high)) = kind.range().filter(|(low, _)| major == Major::Positive || *low < 0) else {
        return Err(Error::unfit(major.name(), go()));
    };
    match i64::try_from(number) {
        Ok(number) if (low..=high).contains(&number) => Ok(Value::Int(number)),
        _ => Err(Error::noted(major.name(), go(), format!("{number} overflows {}", go()))),
    }
}
