//! Decodes an OpenAPI 2.0 document of an aggregated API server as kube-openapi's type `spec.Swagger` does. A field with
//! another type is an error. Unknown fields are dropped except in schemas, and empty fields are omitted.
//!
//! Upstream omits empty fields when it writes a document, which is after it compares definitions. So there an empty field
//! and an absent field differ. Servers that use kube-openapi do not send empty fields.

mod messages;

use pintle_value::url::parse_reference;
use pintle_value::{Object, Str, Value, atoi};

use messages::{Form, Message, Others, PATH_ITEM, RESPONSE, SCHEMA, SWAGGER};

/// A valid OpenAPI 2.0 document, which an aggregated API server has served. Its references are in normal form.
#[derive(Clone, Debug)]
pub struct Spec {
    pub(crate) document: Value,
}

/// Why a document is not an OpenAPI 2.0 document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid OpenAPI document: {}{reason}", .path.iter().rev().map(|key| format!("{key}: ")).collect::<String>())]
pub struct InvalidSpec {
    /// The keys of the faulty value, innermost first.
    path: Vec<String>,
    reason: String,
}

impl InvalidSpec {
    fn new(reason: impl Into<String>) -> Self {
        Self { path: Vec::new(), reason: reason.into() }
    }

    fn below(mut self, key: impl Into<String>) -> Self {
        self.path.push(key.into());
        self
    }
}

impl Spec {
    /// Checks and normalizes a downloaded document.
    ///
    /// # Errors
    /// A value has a type that OpenAPI does not allow at its place, or a reference is not a URL.
    pub fn decode(mut document: Value) -> Result<Self, InvalidSpec> {
        message(&mut document, &SWAGGER)?;
        Ok(Self { document })
    }

    /// The normalized document.
    #[must_use]
    pub fn document(&self) -> &Value {
        &self.document
    }
}

/// Whether a key is the name of a vendor extension.
pub(crate) fn is_extension(key: &str) -> bool {
    key.starts_with("x-") || key.starts_with("X-")
}

fn message(value: &mut Value, message: &Message) -> Result<(), InvalidSpec> {
    members(value, |key, value| match message.fields.iter().find(|(name, _)| *name == key) {
        Some((_, form)) => field(value, *form),
        None if message.others == Others::Kept => any(value),
        None if message.others == Others::Extensions && is_extension(key) => any(value),
        None => Ok(false),
    })
}

/// Decodes the members of an object and keeps a member if `decode` returns true. Null is an object without members.
fn members(
    value: &mut Value,
    mut decode: impl FnMut(&str, &mut Value) -> Result<bool, InvalidSpec>,
) -> Result<(), InvalidSpec> {
    let (found, mut result) = (value.json_type(), Ok(()));
    let object = value.or_object().ok_or_else(|| wrong_type("an object", found))?;
    object.retain(|key, value| {
        if result.is_err() {
            return false;
        }
        decode(key, value).unwrap_or_else(|error| {
            result = Err(error.below(key));
            false
        })
    });
    result
}

/// Decodes the items of an array. Null is an array without items.
fn items(value: &mut Value, mut decode: impl FnMut(&mut Value) -> Result<(), InvalidSpec>) -> Result<(), InvalidSpec> {
    let found = value.json_type();
    let items = value.or_array().ok_or_else(|| wrong_type("an array", found))?;
    items.iter_mut().enumerate().try_for_each(|(i, item)| decode(item).map_err(|error| error.below(i.to_string())))
}

fn wrong_type(expected: &str, found: &str) -> InvalidSpec {
    InvalidSpec::new(format!("expected {expected}, got {found}"))
}

/// Decodes a field and returns whether it is kept.
fn field(value: &mut Value, form: Form) -> Result<bool, InvalidSpec> {
    if value.is_null() {
        return Ok(false);
    }
    match form {
        Form::Text => text(value)?,
        Form::Texts => items(value, text)?,
        Form::TextOrTexts => return text_or_texts(value),
        Form::TextMap => members(value, |_, value| text(value).map(|()| true))?,
        Form::Bool => {
            return value.as_bool().ok_or_else(|| wrong_type("a boolean", value.json_type()));
        }
        Form::Int if value.as_int().is_some() => return Ok(true),
        Form::Int => return Err(wrong_type("a 64-bit integer", value.json_type())),
        Form::Number if value.as_float().is_none() => return Err(wrong_type("a number", value.json_type())),
        Form::Number | Form::AnyOrEmpty => return any(value),
        Form::Any => {
            any(value)?;
            // Zero and false are not empty.
            return Ok(!is_omitted(value));
        }
        Form::Anys => items(value, |value| any(value).map(drop))?,
        Form::AnyMap => members(value, |_, value| any(value))?,
        Form::Reference => return reference(value),
        Form::Message(fields) => return message(value, fields).map(|()| true),
        Form::Filled(fields) => message(value, fields)?,
        Form::Messages(fields) => items(value, |value| message(value, fields))?,
        Form::MessageMap(fields) => members(value, |_, value| message(value, fields).map(|()| true))?,
        Form::NullableMap(fields) => members(value, |_, value| {
            if !value.is_null() {
                message(value, fields)?;
            }
            Ok(true)
        })?,
        Form::SchemaOrBool if value.as_bool().is_some() => return Ok(true),
        Form::SchemaOrBool => return message(value, &SCHEMA).map(|()| true),
        Form::SchemaOrSchemas => return schema_or_others(value, |value| message(value, &SCHEMA)),
        Form::Dependencies => members(value, |_, value| {
            schema_or_others(value, text)?;
            // An empty array is written as null.
            if is_omitted(value) && value.as_array().is_some() {
                *value = Value::Null;
            }
            Ok(true)
        })?,
        Form::Responses => return responses(value).map(|()| true),
        Form::Paths => {
            return members(value, |key, value| match key {
                path if path.starts_with('/') => message(value, &PATH_ITEM).map(|()| true),
                key if is_extension(key) => any(value),
                _ => Ok(false),
            })
            .map(|()| true);
        }
        Form::Requirements => {
            items(value, |value| members(value, |_, scopes| items(scopes, text).map(|()| true)))?;
        }
    }
    Ok(!is_omitted(value))
}

/// Whether a field with this value is omitted: null, an empty string, an empty array and an empty object.
fn is_omitted(value: &Value) -> bool {
    !matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_)) && value.is_empty()
}

fn text(value: &mut Value) -> Result<(), InvalidSpec> {
    match value {
        Value::Null => *value = Value::String(Str::default()),
        Value::String(_) => {}
        _ => return Err(wrong_type("a string", value.json_type())),
    }
    Ok(())
}

fn text_or_texts(value: &mut Value) -> Result<bool, InvalidSpec> {
    if value.as_str().is_some() {
        return Ok(true);
    }
    items(value, text)?;
    if let Value::Array(items) = value
        && let [only] = &mut items[..]
    {
        *value = only.take();
    }
    Ok(true)
}

fn schema_or_others(
    value: &mut Value,
    other: impl FnMut(&mut Value) -> Result<(), InvalidSpec>,
) -> Result<bool, InvalidSpec> {
    match value {
        Value::Object(_) => message(value, &SCHEMA)?,
        Value::Array(_) => items(value, other)?,
        _ => *value = Value::Null,
    }
    Ok(true)
}

fn responses(value: &mut Value) -> Result<(), InvalidSpec> {
    let found = value.json_type();
    let object = value.as_object_mut().ok_or_else(|| wrong_type("an object", found))?;
    let mut entries = Vec::with_capacity(object.len());
    for (key, mut value) in std::mem::take(object) {
        let (name, is_kept) = if is_extension(&key) {
            (key.clone(), any(&mut value))
        } else if key == "default" {
            (key.clone(), message(&mut value, &RESPONSE).map(|()| !is_omitted(&value)))
        } else if let Ok(code) = atoi(&key) {
            (code.to_string().into(), message(&mut value, &RESPONSE).map(|()| true))
        } else if matches!(value, Value::Null | Value::Bool(_) | Value::String(_)) {
            continue;
        } else {
            return Err(InvalidSpec::new("expected a status code or `default`").below(key));
        };
        if is_kept.map_err(|error| error.below(key))? {
            entries.push((name, value));
        }
    }
    *object = Object::from_entries(entries);
    Ok(())
}

/// Numbers of values without a schema are `float64` in Go. Returns true: any value is kept.
fn any(value: &mut Value) -> Result<bool, InvalidSpec> {
    match value {
        Value::Int(_) | Value::Float(_) => *value = number(value.as_float().unwrap_or_default()),
        Value::Array(items) => {
            for item in items {
                any(item)?;
            }
        }
        Value::Object(object) => {
            for (_, value) in object.iter_mut() {
                any(value)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    Ok(true)
}

/// A number without a fraction is an integer, as it is written without one.
#[allow(clippy::cast_possible_truncation)] // the range is checked
fn number(number: f64) -> Value {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number) {
        Value::Int(number as i64)
    } else {
        Value::Float(number)
    }
}

/// Normalizes a reference. Another value than a string is dropped.
fn reference(value: &mut Value) -> Result<bool, InvalidSpec> {
    let Value::String(text) = value else { return Ok(false) };
    if let Some(normal) = normal_reference(text)? {
        *text = normal;
    }
    Ok(!text.is_empty())
}

/// The reference with a fragment that is escaped as Go escapes it. `None` if it is so already.
fn normal_reference(text: &str) -> Result<Option<Str>, InvalidSpec> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=?@!()*".contains(&byte);
    if text.strip_prefix('#').is_some_and(|fragment| !fragment.is_empty() && fragment.bytes().all(is_plain)) {
        return Ok(None);
    }
    let (_, fragment) = parse_reference(text).map_err(InvalidSpec::new)?;
    let mut normal = Str::from(text.split_once('#').map_or(text, |(before, _)| before));
    if !fragment.is_empty() {
        normal.push('#');
    }
    let mut rest = fragment.as_bytes();
    while let [first, others @ ..] = rest {
        let escaped = others.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = if byte.is_some() { &others[2..] } else { others };
        let byte = byte.unwrap_or(*first);
        if is_plain(byte) {
            normal.push(char::from(byte));
        } else {
            normal.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(Some(normal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::object;

    fn decoded(document: Value) -> Value {
        Spec::decode(document).expect("a valid document").document
    }

    fn error(document: Value) -> String {
        Spec::decode(document).expect_err("an invalid document").to_string()
    }

    #[test]
    fn unknown_and_empty_fields_are_dropped() {
        let schema = object! {
            "type": vec!["object"],
            "description": "",
            "nullable": false,
            "default": object! {},
            "example": "",
            "required": Value::Array(Vec::new()),
            "properties": object! { "a": Value::Null },
            "unknown": 1.0,
            "x-any": object! { "a": Value::Null },
            "items": "neither a schema nor an array",
            "$ref": 1,
        };
        let expect = object! {
            "type": "object",
            "default": object! {},
            "properties": object! { "a": object! {} },
            "unknown": 1,
            "x-any": object! { "a": Value::Null },
            "items": Value::Null,
        };
        let parameter = object! { "in": "query", "unknown": 1, "X-any": 2, "default": 0, "enum": Value::Null };
        let document = object! {
            "swagger": "2.0",
            "unknown": 1,
            "info": object! {},
            "paths": object! { "/a": object! { "get": object! {} }, "b": 1, "x-c": Value::Null },
            "definitions": object! { "A": schema },
            "parameters": object! { "p": parameter },
            "tags": Value::Array(Vec::new()),
        };
        let expect = object! {
            "swagger": "2.0",
            "info": object! {},
            "paths": object! { "/a": object! {}, "x-c": Value::Null },
            "definitions": object! { "A": expect },
            "parameters": object! { "p": object! { "in": "query", "X-any": 2, "default": 0 } },
        };
        assert_eq!(decoded(document), expect);
    }

    #[test]
    fn responses_have_status_codes() {
        let responses = |responses: Value| {
            object! { "paths": object! { "/": object! { "get": object! { "responses": responses } } } }
        };
        let ok = || object! { "description": "OK" };
        assert_eq!(
            decoded(responses(object! { "+200": ok(), "default": Value::Null, "x-a": 1, "b": "c" })),
            responses(object! { "200": ok(), "x-a": 1 })
        );
        assert_eq!(
            error(responses(object! { "OK": ok() })),
            "invalid OpenAPI document: paths: /: get: responses: OK: expected a status code or `default`"
        );
    }

    #[test]
    fn values_of_a_wrong_type_are_errors() {
        let check = |document: Value, expect: &str| {
            assert_eq!(error(document), format!("invalid OpenAPI document: {expect}"));
        };
        let schema = |schema: Value| object! { "definitions": object! { "A": schema } };
        check(Value::from("a"), "expected an object, got string");
        check(object! { "swagger": 2 }, "swagger: expected a string, got number");
        check(object! { "tags": vec!["a"] }, "tags: 0: expected an object, got string");
        check(object! { "paths": vec![1] }, "paths: expected an object, got array");
        check(schema(object! { "type": 1 }), "definitions: A: type: expected an array, got number");
        check(schema(object! { "nullable": "" }), "definitions: A: nullable: expected a boolean, got string");
        check(schema(object! { "maxLength": 1.5 }), "definitions: A: maxLength: expected a 64-bit integer, got number");
        check(schema(object! { "maximum": "1" }), "definitions: A: maximum: expected a number, got string");
        check(
            schema(object! { "$ref": "#/a%zz" }),
            r##"definitions: A: $ref: parse "#/a%zz": invalid URL escape "%zz""##,
        );
    }

    #[test]
    fn references_are_escaped_as_in_go() {
        let check = |text: &str, expect: &str| {
            let document = |text: &str| object! { "definitions": object! { "A": object! { "$ref": text } } };
            let found = decoded(document(text));
            assert_eq!(found.str_at(&["definitions", "A", "$ref"]), expect, "{text}");
            assert_eq!(decoded(found.clone()), found, "{text}");
        };
        check("#/definitions/io.k8s.A", "#/definitions/io.k8s.A");
        check("#/definitions/A[B]", "#/definitions/A%5BB%5D");
        check("#/definitions/%41%5b%25é", "#/definitions/A%5B%25%C3%A9");
        check("other.json#/definitions/A", "other.json#/definitions/A");
        check("other.json", "other.json");
        check("#", "");
    }
}
