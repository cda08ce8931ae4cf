//! Decodes CBOR to the tree that corresponds to a Go struct, with the error messages of upstream's decoder. As for
//! JSON, normalising brings the leaves into their canonical form afterwards.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::OnceLock;

use pintle_schema::scalar::{Mismatch, float_value};
use pintle_schema::{
    Field, Map, Omit, PatchMeta, Scalar, ScalarType, Struct, Type, TypeId, Types, Union, UnionKind, base64,
};
use pintle_value::{MEMBER_BYTES, Object, Str, Value, print};

use super::check::{Limits, check_well_formed};
use super::error::DecodeError;
use super::reader::{ExpectedEncoding, FALSE, Head, ItemReader, MajorType, NULL, TRUE};
use super::untyped::{
    GoName, MapDecoder, UntypedDecoder, byte_string_text, charge, negative_int, object, unmarshal_mismatch,
};
use crate::json::TypeMeta;

/// A decoded object of a built-in kind.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedObject {
    /// The tree, not normalised yet.
    pub value: Value,
    /// The strict decoding error for an unknown field. Upstream reports only one.
    pub unknown_field: Option<DecodeError>,
}

/// Decodes exactly one item as a value of a type.
///
/// # Errors
/// Returns an error if the bytes are not CBOR or do not fit the type.
pub fn decode_typed(bytes: &[u8], types: &Types, root: TypeId, limits: Limits) -> Result<DecodedObject, DecodeError> {
    check_well_formed(bytes, limits)?;
    let mut decoder = TypedDecoder {
        types,
        untyped: UntypedDecoder::new(ItemReader::new(bytes)),
        strict: false,
        embedded_error: None,
    };
    let mut unknown = None;
    let value = decoder.value(root, false, &mut unknown)?;
    match decoder.embedded_error {
        // Errors in embedded objects are reported after all others.
        Some(error) => Err(error),
        None => Ok(DecodedObject { value, unknown_field: unknown.map(|index| DecodeError::UnknownField { index }) }),
    }
}

/// Reads an object's type metadata. Upstream reads it before anything else of the object.
///
/// # Errors
/// Returns an error if the bytes are not a CBOR map, or if `apiVersion` or `kind` is not a string.
pub fn type_meta(bytes: &[u8], limits: Limits) -> Result<TypeMeta, DecodeError> {
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
            patch: PatchMeta::default(),
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

struct TypedDecoder<'t, 'a> {
    types: &'t Types,
    untyped: UntypedDecoder<'a>,
    /// Whether unknown fields are errors. Upstream's decoder is always strict inside types with their own
    /// `UnmarshalCBOR`.
    strict: bool,
    /// The first error in an embedded object.
    embedded_error: Option<DecodeError>,
}

impl<'a> TypedDecoder<'_, 'a> {
    /// Decodes an item and moves past it, even on error. Sets `unknown` to the index of an unknown field.
    fn value(&mut self, id: TypeId, pointer: bool, unknown: &mut Option<usize>) -> Result<Value, DecodeError> {
        if pointer && self.untyped.reader.is_nil() {
            self.untyped.reader.skip();
            return Ok(Value::Null);
        }
        self.untyped.reader.strip_self_described();
        self.untyped.reader.check_tags()?;
        let types = self.types;
        match types.get(id) {
            Type::Any => return self.untyped.item(false),
            Type::Union(union) => return self.with_nested_decoder(|decoder| decoder.union(union)),
            Type::Scalar(scalar) if has_own_unmarshaler(scalar.kind) => {
                return self.with_nested_decoder(|decoder| decoder.leaf(scalar.kind));
            }
            _ => {}
        }
        let before = self.untyped.expected_encoding;
        self.untyped.tags();
        let value = self.reflected_value(id, unknown);
        self.untyped.expected_encoding = before;
        // If null has a tag, Go does not set a pointer to nil.
        value.map(|value| if pointer && value.is_null() { types.zero(id) } else { value })
    }

    /// Decodes a value of a type that Go's decoder fills by reflection.
    fn reflected_value(&mut self, id: TypeId, unknown: &mut Option<usize>) -> Result<Value, DecodeError> {
        let types = self.types;
        match (types.get(id), self.untyped.reader.major()) {
            (Type::Struct(ty), MajorType::Map) => self.fields(ty, unknown).map(Value::Object),
            (Type::Struct(_), MajorType::Array) => {
                self.untyped.reader.skip();
                let note = "cannot decode CBOR array to struct without toarray option";
                Err(DecodeError::type_mismatch_with_note(MajorType::Array.name(), types.go_name(id), note))
            }
            (Type::Map(map), MajorType::Map) => self.entries(map, unknown).map(Value::Object),
            (Type::List(list), MajorType::Array) => self.items(list.item, list.pointers, unknown).map(Value::Array),
            (Type::Scalar(scalar), _) => self.scalar(scalar.kind, &|| types.go_name(id)),
            _ => unmarshal_mismatch(&mut self.untyped.reader, &|| types.go_name(id)),
        }
    }

    /// Runs a nested decoder, which does not see the tags outside.
    fn with_nested_decoder<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.untyped.expected_encoding.take();
        let read = read(self);
        self.untyped.expected_encoding = before;
        read
    }

    fn items(&mut self, item: TypeId, pointers: bool, unknown: &mut Option<usize>) -> Result<Vec<Value>, DecodeError> {
        let head = self.untyped.reader.head();
        let mut items = Vec::with_capacity(self.untyped.reader.capacity_hint(head));
        let (mut error, mut done) = (None, 0);
        while self.untyped.reader.has_next(head, done) {
            done += 1;
            if error.is_some() {
                self.untyped.reader.skip();
                continue;
            }
            let mut inner = None;
            match self.value(item, pointers, &mut inner) {
                Ok(value) => items.push(value),
                Err(first) => error = Some(first),
            }
            *unknown = unknown.or(inner);
        }
        charge(items.len() * size_of::<Value>())?;
        error.map_or(Ok(items), Err)
    }

    fn entries(&mut self, map: &Map, unknown: &mut Option<usize>) -> Result<Object, DecodeError> {
        let mut entries = MapDecoder::new(&mut self.untyped, map.key_name());
        let mut found = Vec::new();
        while let Some(key) = entries.key(&mut self.untyped) {
            let mut inner = None;
            let value = self.value(map.value, false, &mut inner);
            *unknown = unknown.or(inner);
            found.extend(entries.finish_value(&mut self.untyped, value)?.map(|value| (key, value)));
        }
        entries.end()?;
        charge(found.len() * MEMBER_BYTES)?;
        Ok(Object::from_entries(found))
    }

    fn fields(&mut self, ty: &Struct, unknown: &mut Option<usize>) -> Result<Object, DecodeError> {
        let head = self.untyped.reader.head();
        let (mut error, mut done) = (None, 0);
        let mut found = vec![false; ty.fields.len()];
        let mut unknown_keys = HashSet::new();
        let mut entries = Vec::with_capacity(self.untyped.reader.capacity_hint(head).min(ty.fields.len()));
        let mut first_unknown = None;
        while self.untyped.reader.has_next(head, done) {
            let index = done;
            done += 1;
            let Some(key) = self.field_name(&mut error) else {
                self.untyped.reader.skip();
                continue;
            };
            let field_index = match &key {
                FieldKey::Text(name) => std::str::from_utf8(name).ok().and_then(|name| ty.position(name)),
                _ => None,
            };
            let Some((field_index, field)) = field_index.and_then(|i| Some((i, ty.fields.get(i)?))) else {
                if self.strict {
                    self.skip_rest(head, done);
                    return Err(DecodeError::UnknownField { index });
                }
                first_unknown = first_unknown.or(Some(index));
                let text = key.text();
                if !unknown_keys.insert(key) {
                    self.skip_rest(head, done);
                    return Err(DecodeError::DuplicateKey { key: text, index });
                }
                self.untyped.reader.skip();
                continue;
            };
            if std::mem::replace(&mut found[field_index], true) {
                self.skip_rest(head, done);
                return Err(DecodeError::DuplicateKey { key: print::quote(&field.name), index });
            }
            let mut inner = None;
            match self.value(field.ty, field.pointer, &mut inner) {
                Ok(value) => entries.push((field.name.clone(), value)),
                Err(first) if error.is_none() => {
                    let name = || format!("{}.{}", type_name_without_group(&ty.name), field.name);
                    error = Some(first.with_field(name));
                }
                Err(_) => {}
            }
            *unknown = unknown.or(inner);
        }
        // Upstream stops at an unknown field of the struct itself, which takes precedence over one further in.
        *unknown = first_unknown.or(*unknown);
        charge(size_of::<Value>() + entries.len() * MEMBER_BYTES)?;
        error.map_or_else(|| Ok(Object::from_entries(entries)), Err)
    }

    /// Skips the rest of a map, beginning with the value of the current key.
    fn skip_rest(&mut self, head: Head, mut done: usize) {
        self.untyped.reader.skip();
        while self.untyped.reader.has_next(head, done) {
            done += 1;
            self.untyped.reader.skip();
            self.untyped.reader.skip();
        }
    }

    /// Reads a key that may be a field name. `None` for an invalid key, whose error is recorded.
    fn field_name(&mut self, error: &mut Option<DecodeError>) -> Option<FieldKey<'a>> {
        let reader = &mut self.untyped.reader;
        let major = reader.major();
        let mut note = |first| {
            error.get_or_insert(first);
        };
        match major {
            MajorType::Bytes => Some(FieldKey::Text(reader.byte_string())),
            MajorType::Text => match reader.text_string() {
                Ok(Cow::Borrowed(text)) => Some(FieldKey::Text(text.as_bytes().into())),
                Ok(Cow::Owned(text)) => Some(FieldKey::Text(text.into_bytes().into())),
                Err(first) => {
                    note(first);
                    None
                }
            },
            #[allow(clippy::cast_possible_wrap)] // as Go does
            MajorType::Positive => Some(FieldKey::Int(reader.head().argument as i64)),
            MajorType::Negative => {
                let argument = reader.head().argument;
                if let Ok(argument) = i64::try_from(argument) {
                    return Some(FieldKey::Int(-1 - argument));
                }
                note(DecodeError::type_mismatch_with_note(
                    major.name(),
                    "int64",
                    format!("-1-{argument} overflows Go's int64"),
                ));
                None
            }
            _ => {
                let name = major.name();
                note(DecodeError::type_mismatch_with_note(
                    name,
                    "string",
                    format!("map key is of type {name} and cannot be used to match struct field name"),
                ));
                match self.untyped.item(true) {
                    Ok(Value::Array(_) | Value::Object(_)) | Err(_) => None,
                    Ok(Value::String(text)) => Some(FieldKey::Text(text.as_bytes().to_vec().into())),
                    Ok(Value::Int(i)) => Some(FieldKey::Int(i)),
                    Ok(Value::Bool(b)) => Some(FieldKey::Bool(b)),
                    Ok(Value::Float(f)) => Some(FieldKey::Float(f.to_bits())),
                    Ok(Value::Null) => Some(FieldKey::Null),
                }
            }
        }
    }

    /// Decodes a leaf that Go's decoder fills by reflection.
    fn scalar(&mut self, kind: Scalar, go: GoName<'_>) -> Result<Value, DecodeError> {
        let reader = &mut self.untyped.reader;
        let (major, initial) = (reader.major(), reader.peek());
        match (kind, major) {
            (Scalar::String, MajorType::Bytes) => {
                Ok(Value::String(byte_string_text(&reader.byte_string(), self.untyped.expected_encoding)))
            }
            (Scalar::String, MajorType::Text) => reader.text_string().map(|text| Value::String(Str::from(&*text))),
            (Scalar::Bytes, MajorType::Bytes) => bytes(&reader.byte_string(), self.untyped.expected_encoding),
            (Scalar::Bytes, MajorType::Array) => self.byte_list(),
            (Scalar::Bool, MajorType::Primitive) if matches!(initial, FALSE | TRUE) => {
                reader.skip();
                Ok(Value::Bool(initial == TRUE))
            }
            #[allow(clippy::cast_precision_loss)] // as Go converts
            (Scalar::Float64, MajorType::Positive) => Ok(float_value(reader.head().argument as f64)),
            #[allow(clippy::cast_precision_loss)]
            (Scalar::Float64, MajorType::Negative) => Ok(float_value(negative_int(reader.head(), go)? as f64)),
            (Scalar::Float64, MajorType::Primitive) if (0xf9..=0xfb).contains(&initial) => {
                Ok(float_value(ItemReader::float(reader.head()).unwrap_or_default()))
            }
            (_, MajorType::Positive | MajorType::Negative) => integer(kind, reader, go),
            _ => unmarshal_mismatch(reader, go),
        }
    }

    /// Decodes an array of numbers, which Go accepts for `[]byte` too.
    fn byte_list(&mut self) -> Result<Value, DecodeError> {
        let head = self.untyped.reader.head();
        let (mut bytes, mut error, mut done) = (Vec::with_capacity(self.untyped.reader.capacity_hint(head)), None, 0);
        while self.untyped.reader.has_next(head, done) {
            done += 1;
            if error.is_some() {
                self.untyped.reader.skip();
                continue;
            }
            self.untyped.reader.strip_self_described();
            let item = self.untyped.reader.check_tags().and_then(|()| {
                self.untyped.tags();
                self.scalar(Scalar::Uint8, &|| Scalar::Uint8.go_name().to_owned())
            });
            match item {
                Ok(item) => bytes.push(item.as_int().and_then(|i| u8::try_from(i).ok()).unwrap_or_default()),
                Err(first) => error = Some(first),
            }
        }
        error.map_or_else(|| Ok(Value::from(base64::encode(&bytes))), Err)
    }

    /// Decodes a leaf of a type with its own `UnmarshalCBOR`.
    fn leaf(&mut self, kind: Scalar) -> Result<Value, DecodeError> {
        let item = self.untyped.reader.skip();
        let mut inner = TypedDecoder {
            types: self.types,
            untyped: UntypedDecoder::new(ItemReader::new(item)),
            strict: true,
            embedded_error: None,
        };
        match kind {
            Scalar::IntOrString => inner.basic_value(Scalar::String, false).or_else(|_| {
                inner.untyped = UntypedDecoder::new(ItemReader::new(item));
                inner.basic_value(Scalar::Int32, false)
            }),
            Scalar::RawExtension if item == [NULL] => Ok(Value::Null),
            Scalar::RawExtension => {
                let found = inner.untyped.item(true);
                Ok(self.embedded("RawExtension", "failed to parse RawExtension bytes as CBOR", found))
            }
            Scalar::FieldsV1 if item == [NULL] => Ok(Value::Null),
            Scalar::FieldsV1 => Ok(match item.first().copied() {
                Some(0xa0..=0xbf | 0xc6..=0xdb | NULL) => {
                    self.embedded("FieldsV1", "metav1.FieldsV1 cbor invalid", object(inner.untyped.reader))
                }
                // Upstream stores a value that is not a map, and ignores it later.
                _ => Value::Null,
            }),
            Scalar::Json if item.first() == Some(&NULL) => Ok(Value::Null),
            Scalar::Json => inner.untyped.item(true),
            Scalar::Duration => {
                let value = inner.untyped.item(true).map_err(|error| {
                    DecodeError::Other(format!("cbor: cannot transcode from cbor to json: {error}"))
                })?;
                canonical(kind, if value.is_null() { Value::from("") } else { value })
            }
            // Times and quantities are decoded as strings.
            _ => match inner.basic_value(Scalar::String, true)? {
                Value::Null => Ok(Value::Null),
                value => canonical(kind, value),
            },
        }
    }

    /// Decodes a leaf into a Go variable of a basic type. Null leaves the variable unchanged, unless it is a pointer.
    fn basic_value(&mut self, kind: Scalar, pointer: bool) -> Result<Value, DecodeError> {
        if pointer && self.untyped.reader.is_nil() {
            return Ok(Value::Null);
        }
        self.untyped.reader.strip_self_described();
        self.untyped.reader.check_tags()?;
        self.untyped.tags();
        let value = self.scalar(kind, &|| kind.go_name().to_owned())?;
        Ok(if value.is_null() { kind.zero() } else { value })
    }

    fn embedded(&mut self, name: &str, what: &str, found: Result<Value, DecodeError>) -> Value {
        found.unwrap_or_else(|error| {
            let wrapped = || DecodeError::Other(format!("failed to transcode {name} to JSON: {what}: {error}"));
            self.embedded_error.get_or_insert_with(wrapped);
            Value::Null
        })
    }

    fn union(&mut self, union: &Union) -> Result<Value, DecodeError> {
        let strict = std::mem::replace(&mut self.strict, true);
        let value = self.union_value(union);
        self.strict = strict;
        value
    }

    fn union_value(&mut self, union: &Union) -> Result<Value, DecodeError> {
        let (major, initial) = (self.untyped.reader.major(), self.untyped.reader.peek());
        let mut unknown = None;
        match (union.kind, major) {
            (_, MajorType::Map) => self.value(union.schema, false, &mut unknown),
            (UnionKind::SchemaOrBool, _) => {
                self.untyped.reader.skip();
                match initial {
                    TRUE => Ok(Value::Bool(true)),
                    FALSE => Ok(Value::Bool(false)),
                    _ => Err(DecodeError::Other("boolean or JSON schema expected".to_owned())),
                }
            }
            (UnionKind::SchemaOrArray, MajorType::Array) => {
                self.items(union.schema, false, &mut unknown).map(Value::Array)
            }
            (UnionKind::SchemaOrStringArray, MajorType::Array) => self.strings().map(Value::Array),
            // Other items are ignored.
            _ => {
                self.untyped.reader.skip();
                Ok(Value::Null)
            }
        }
    }

    fn strings(&mut self) -> Result<Vec<Value>, DecodeError> {
        let head = self.untyped.reader.head();
        let (mut items, mut error, mut done) = (Vec::with_capacity(self.untyped.reader.capacity_hint(head)), None, 0);
        while self.untyped.reader.has_next(head, done) {
            done += 1;
            let item = self.untyped.reader.skip();
            let mut inner = TypedDecoder {
                types: self.types,
                untyped: UntypedDecoder::new(ItemReader::new(item)),
                strict: true,
                embedded_error: None,
            };
            match inner.basic_value(Scalar::String, false) {
                Ok(item) => items.push(item),
                Err(first) => {
                    error.get_or_insert(first);
                }
            }
        }
        error.map_or(Ok(items), Err)
    }
}

/// A map key where a field name is expected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FieldKey<'a> {
    Text(Cow<'a, [u8]>),
    Int(i64),
    Bool(bool),
    Float(u64),
    Null,
}

impl FieldKey<'_> {
    /// The key as Go's `%#v` prints it.
    fn text(&self) -> String {
        match self {
            FieldKey::Text(text) => print::quote(&crate::go::utf8(text)),
            FieldKey::Int(i) => i.to_string(),
            FieldKey::Bool(b) => b.to_string(),
            FieldKey::Float(bits) => f64::from_bits(*bits).to_string(),
            FieldKey::Null => "<nil>".to_owned(),
        }
    }
}

/// Returns whether the Go type has its own `UnmarshalCBOR`.
fn has_own_unmarshaler(kind: Scalar) -> bool {
    kind.is_go_struct()
}

fn type_name_without_group(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

fn canonical(kind: Scalar, mut value: Value) -> Result<Value, DecodeError> {
    match kind.canonical(&mut value) {
        Ok(()) => Ok(value),
        Err(Mismatch::Other(text)) => Err(DecodeError::Other(text)),
        Err(Mismatch::Type(value, go)) => {
            Err(DecodeError::Other(format!("json: cannot unmarshal {value} into Go value of type {go}")))
        }
    }
}

/// The base64 text of a byte string for `[]byte`. Without a tag for expected later encoding, the byte string itself is
/// base64.
fn bytes(bytes: &[u8], expected_encoding: Option<ExpectedEncoding>) -> Result<Value, DecodeError> {
    if expected_encoding.is_some() {
        return Ok(Value::from(base64::encode(bytes)));
    }
    let decoded = base64::decode(bytes)
        .map_err(|error| DecodeError::Other(format!("cbor: failed to decode base64 from byte string: {error}")))?;
    Ok(Value::from(base64::encode(&decoded)))
}

fn integer(kind: Scalar, reader: &mut ItemReader<'_>, go: GoName<'_>) -> Result<Value, DecodeError> {
    let major = reader.major();
    let head = reader.head();
    let number =
        if major == MajorType::Positive { i128::from(head.argument) } else { i128::from(negative_int(head, go)?) };
    let Some((low, high)) = kind.range().filter(|(low, _)| major == MajorType::Positive || *low < 0) else {
        return Err(DecodeError::type_mismatch(major.name(), go()));
    };
    match i64::try_from(number) {
        Ok(number) if (low..=high).contains(&number) => Ok(Value::Int(number)),
        _ => Err(DecodeError::type_mismatch_with_note(major.name(), go(), format!("{number} overflows {}", go()))),
    }
}
