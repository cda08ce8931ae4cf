//! Encodes the OpenAPI v2 document in Protobuf with the messages of gnostic (`openapiv2/OpenAPIv2.proto` of
//! github.com/google/gnostic-models). The input is the same tree as for JSON. Values without a schema (defaults, enums,
//! vendor extensions) are YAML text.

use pintle_value::Value;

/// The encoding of a message field.
#[derive(Clone, Copy)]
enum FieldEncoding {
    Text,
    Texts,
    Bool,
    Int,
    Double,
    /// Any value: a message with its YAML.
    Any,
    Anys,
    /// A nested message.
    Message(EncodeFn),
    Messages(EncodeFn),
    /// A message whose only field is a repeated message of a name and a value. The function encodes the value.
    Named(EncodeFn),
}

/// Encodes the fields of a message.
type EncodeFn = fn(&mut Vec<u8>, &Value);

/// The fields of a message: JSON name, field number, encoding.
type Fields = &'static [(&'static str, u32, FieldEncoding)];

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;

/// Encodes the whole document.
pub(crate) fn document(tree: &Value) -> Vec<u8> {
    const FIELDS: Fields = &[
        ("swagger", 1, FieldEncoding::Text),
        ("info", 2, FieldEncoding::Message(info)),
        ("host", 3, FieldEncoding::Text),
        ("basePath", 4, FieldEncoding::Text),
        ("schemes", 5, FieldEncoding::Texts),
        ("consumes", 6, FieldEncoding::Texts),
        ("produces", 7, FieldEncoding::Texts),
        ("paths", 8, FieldEncoding::Message(paths)),
        ("definitions", 9, FieldEncoding::Named(schema)),
        ("parameters", 10, FieldEncoding::Named(parameter)),
        ("security", 12, FieldEncoding::Messages(security_requirement)),
        ("securityDefinitions", 13, FieldEncoding::Named(security_definition)),
    ];
    let mut out = Vec::with_capacity(2 << 20);
    fields(&mut out, tree, FIELDS, 16);
    out
}

fn info(out: &mut Vec<u8>, value: &Value) {
    const FIELDS: Fields = &[
        ("title", 1, FieldEncoding::Text),
        ("version", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
    ];
    fields(out, value, FIELDS, 7);
}

fn paths(out: &mut Vec<u8>, value: &Value) {
    for (path, item) in value.entries_at(&[]) {
        named(out, 2, path, item, path_item);
    }
}

fn path_item(out: &mut Vec<u8>, value: &Value) {
    const FIELDS: Fields = &[
        ("$ref", 1, FieldEncoding::Text),
        ("get", 2, FieldEncoding::Message(operation)),
        ("put", 3, FieldEncoding::Message(operation)),
        ("post", 4, FieldEncoding::Message(operation)),
        ("delete", 5, FieldEncoding::Message(operation)),
        ("options", 6, FieldEncoding::Message(operation)),
        ("head", 7, FieldEncoding::Message(operation)),
        ("patch", 8, FieldEncoding::Message(operation)),
        ("parameters", 9, FieldEncoding::Messages(parameter_or_reference)),
    ];
    fields(out, value, FIELDS, 10);
}

fn operation(out: &mut Vec<u8>, value: &Value) {
    const FIELDS: Fields = &[
        ("tags", 1, FieldEncoding::Texts),
        ("summary", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("operationId", 5, FieldEncoding::Text),
        ("produces", 6, FieldEncoding::Texts),
        ("consumes", 7, FieldEncoding::Texts),
        ("parameters", 8, FieldEncoding::Messages(parameter_or_reference)),
        ("responses", 9, FieldEncoding::Message(responses)),
        ("schemes", 10, FieldEncoding::Texts),
        ("deprecated", 11, FieldEncoding::Bool),
        ("security", 12, FieldEncoding::Messages(security_requirement)),
    ];
    fields(out, value, FIELDS, 13);
}

/// A oneof: a parameter or a reference to a parameter.
fn parameter_or_reference(out: &mut Vec<u8>, value: &Value) {
    if value.get("$ref").is_some() { nested(out, 2, value, reference) } else { nested(out, 1, value, parameter) }
}

fn reference(out: &mut Vec<u8>, value: &Value) {
    fields(out, value, &[("$ref", 1, FieldEncoding::Text), ("description", 2, FieldEncoding::Text)], 0);
}

/// A oneof of a body parameter and the locations of other parameters.
fn parameter(out: &mut Vec<u8>, value: &Value) {
    if value.str_at(&["in"]) == "body" {
        nested(out, 1, value, body_parameter);
    } else {
        nested(out, 2, value, plain_parameter);
    }
}

fn body_parameter(out: &mut Vec<u8>, value: &Value) {
    const FIELDS: Fields = &[
        ("description", 1, FieldEncoding::Text),
        ("name", 2, FieldEncoding::Text),
        ("in", 3, FieldEncoding::Text),
        ("required", 4, FieldEncoding::Bool),
        ("schema", 5, FieldEncoding::Message(schema)),
    ];
    fields(out, value, FIELDS, 6);
}

fn plain_parameter(out: &mut Vec<u8>, value: &Value) {
    const QUERY: Fields = &[
        ("required", 1, FieldEncoding::Bool),
        ("in", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("name", 4, FieldEncoding::Text),
        ("type", 6, FieldEncoding::Text),
        ("format", 7, FieldEncoding::Text),
        ("uniqueItems", 20, FieldEncoding::Bool),
    ];
    // Path and header parameters cannot be empty, so they lack one field.
    const OTHER: Fields = &[
        ("required", 1, FieldEncoding::Bool),
        ("in", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("name", 4, FieldEncoding::Text),
        ("type", 5, FieldEncoding::Text),
        ("format", 6, FieldEncoding::Text),
        ("uniqueItems", 19, FieldEncoding::Bool),
    ];
    match value.str_at(&["in"]) {
        "query" => nested(out, 3, value, |out, value| fields(out, value, QUERY, 23)),
        "path" => nested(out, 4, value, |out, value| fields(out, value, OTHER, 22)),
        _ => nested(out, 1, value, |out, value| fields(out, value, OTHER, 22)),
    }
}

fn responses(out: &mut Vec<u8>, value: &Value) {
    for (code, response) in value.entries_at(&[]) {
        named(out, 1, code, response, |out, value| nested(out, 1, value, self::response));
    }
}

fn response(out: &mut Vec<u8>, value: &Value) {
    // The schema is in a oneof with a file schema.
    const FIELDS: Fields = &[
        ("description", 1, FieldEncoding::Text),
        ("schema", 2, FieldEncoding::Message(|out, value| nested(out, 1, value, schema))),
    ];
    fields(out, value, FIELDS, 5);
}

fn security_requirement(out: &mut Vec<u8>, value: &Value) {
    for (name, scopes) in value.entries_at(&[]) {
        named(out, 1, name, scopes, |out, value| texts(out, 1, value));
    }
}

fn security_definition(out: &mut Vec<u8>, value: &Value) {
    const API_KEY: Fields = &[
        ("type", 1, FieldEncoding::Text),
        ("name", 2, FieldEncoding::Text),
        ("in", 3, FieldEncoding::Text),
        ("description", 4, FieldEncoding::Text),
    ];
    nested(out, 2, value, |out, value| fields(out, value, API_KEY, 5));
}

fn schema(out: &mut Vec<u8>, value: &Value) {
    const FIELDS: Fields = &[
        ("$ref", 1, FieldEncoding::Text),
        ("format", 2, FieldEncoding::Text),
        ("title", 3, FieldEncoding::Text),
        ("description", 4, FieldEncoding::Text),
        ("default", 5, FieldEncoding::Any),
        ("multipleOf", 6, FieldEncoding::Double),
        ("maximum", 7, FieldEncoding::Double),
        ("exclusiveMaximum", 8, FieldEncoding::Bool),
        ("minimum", 9, FieldEncoding::Double),
        ("exclusiveMinimum", 10, FieldEncoding::Bool),
        ("maxLength", 11, FieldEncoding::Int),
        ("minLength", 12, FieldEncoding::Int),
        ("pattern", 13, FieldEncoding::Text),
        ("maxItems", 14, FieldEncoding::Int),
        ("minItems", 15, FieldEncoding::Int),
        ("uniqueItems", 16, FieldEncoding::Bool),
        ("maxProperties", 17, FieldEncoding::Int),
        ("minProperties", 18, FieldEncoding::Int),
        ("required", 19, FieldEncoding::Texts),
        ("enum", 20, FieldEncoding::Anys),
        ("additionalProperties", 21, FieldEncoding::Message(schema_or_bool)),
        ("type", 22, FieldEncoding::Message(|out, value| texts(out, 1, value))),
        ("items", 23, FieldEncoding::Message(items)),
        ("allOf", 24, FieldEncoding::Messages(schema)),
        ("properties", 25, FieldEncoding::Named(schema)),
    ];
    fields(out, value, FIELDS, 31);
}

/// A oneof: a schema or a boolean.
fn schema_or_bool(out: &mut Vec<u8>, value: &Value) {
    match value.as_bool() {
        Some(allowed) => number(out, 2, u64::from(allowed)),
        None => nested(out, 1, value, schema),
    }
}

fn items(out: &mut Vec<u8>, value: &Value) {
    nested(out, 1, value, schema);
}

/// Writes the fields of a message in the order of their numbers, vendor extensions last.
fn fields(out: &mut Vec<u8>, value: &Value, known: Fields, extensions: u32) {
    for (name, at, form) in known {
        if let Some(value) = value.get(name) {
            field(out, *at, *form, value);
        }
    }
    if extensions > 0 {
        for (name, value) in value.entries_at(&[]).filter(|(name, _)| name.starts_with("x-")) {
            named(out, extensions, name, value, any);
        }
    }
}

fn field(out: &mut Vec<u8>, at: u32, form: FieldEncoding, value: &Value) {
    match form {
        FieldEncoding::Text => match value.as_str() {
            Some("") | None => {}
            Some(text) => bytes(out, at, text.as_bytes()),
        },
        FieldEncoding::Texts => texts(out, at, value),
        FieldEncoding::Bool => {
            if value.as_bool() == Some(true) {
                number(out, at, 1);
            }
        }
        // Protobuf encodes negative numbers in two's complement.
        FieldEncoding::Int => number(out, at, value.as_int().unwrap_or_default().cast_unsigned()),
        FieldEncoding::Double => {
            varint(out, u64::from(at) << 3 | u64::from(FIXED64));
            out.extend_from_slice(&value.as_float().unwrap_or_default().to_le_bytes());
        }
        FieldEncoding::Any => nested(out, at, value, any),
        FieldEncoding::Anys => value.items_at(&[]).iter().for_each(|item| nested(out, at, item, any)),
        FieldEncoding::Message(write) => nested(out, at, value, write),
        FieldEncoding::Messages(write) => value.items_at(&[]).iter().for_each(|item| nested(out, at, item, write)),
        FieldEncoding::Named(write) => nested_with(out, at, |out| {
            for (name, value) in value.entries_at(&[]) {
                named(out, 1, name, value, write);
            }
        }),
    }
}

/// Writes a name with a value.
fn named(out: &mut Vec<u8>, at: u32, name: &str, value: &Value, write: EncodeFn) {
    nested_with(out, at, |out| {
        bytes(out, 1, name.as_bytes());
        nested(out, 2, value, write);
    });
}

/// Writes any value as YAML.
fn any(out: &mut Vec<u8>, value: &Value) {
    bytes(out, 2, &pintle_codec::yaml::encode_json(value));
}

/// Writes a string or an array of strings.
fn texts(out: &mut Vec<u8>, at: u32, value: &Value) {
    let one = value.as_str().into_iter();
    for text in one.chain(value.items_at(&[]).iter().filter_map(Value::as_str)) {
        bytes(out, at, text.as_bytes());
    }
}

fn nested(out: &mut Vec<u8>, at: u32, value: &Value, write: EncodeFn) {
    nested_with(out, at, |out| write(out, value));
}

/// Writes a length-delimited message. It is encoded in place, and moved if its length needs more than one byte.
fn nested_with(out: &mut Vec<u8>, at: u32, write: impl FnOnce(&mut Vec<u8>)) {
    varint(out, u64::from(at) << 3 | u64::from(BYTES));
    let start = out.len();
    out.push(0);
    write(out);
    let mut length = Vec::with_capacity(4);
    varint(&mut length, (out.len() - start - 1) as u64);
    out.splice(start..=start, length);
}

fn bytes(out: &mut Vec<u8>, at: u32, value: &[u8]) {
    varint(out, u64::from(at) << 3 | u64::from(BYTES));
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn number(out: &mut Vec<u8>, at: u32, value: u64) {
    varint(out, u64::from(at) << 3 | u64::from(VARINT));
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::object;

    fn check(tree: &Value, expect: &[u8]) {
        assert_eq!(document(tree), expect, "{tree:?}");
    }

    #[test]
    fn messages() {
        check(&object! { "swagger": "2.0" }, b"\x0a\x032.0");
        check(&object! { "info": object! { "title": "T", "version": "" } }, b"\x12\x03\x0a\x01T");
        check(
            &object! { "definitions": object! { "A": object! { "type": "string", "enum": vec!["x"] } } },
            b"\x4a\x19\x0a\x17\x0a\x01A\x12\x12\xa2\x01\x04\x12\x02x\n\xb2\x01\x08\x0a\x06string",
        );
        check(
            &object! { "parameters": object! { "p": object! { "name": "n", "in": "query", "uniqueItems": true } } },
            b"\x52\x18\x0a\x16\x0a\x01p\x12\x11\x12\x0f\x1a\x0d\x12\x05query\x22\x01n\xa0\x01\x01",
        );
        check(
            &object! { "paths": object! { "/": object! { "x-a": 1 } } },
            b"\x42\x14\x12\x12\x0a\x01/\x12\x0d\x52\x0b\x0a\x03x-a\x12\x04\x12\x021\n",
        );
    }

    #[test]
    fn long_messages_have_multi_byte_lengths() {
        let text = "a".repeat(200);
        let mut expect = vec![0x12, 0xcb, 0x01, 0x0a, 0xc8, 0x01];
        expect.extend(text.as_bytes());
        check(&object! { "info": object! { "title": text } }, &expect);
    }
}
