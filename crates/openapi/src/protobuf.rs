//! Encodes the OpenAPI v2 document in Protobuf with the messages of gnostic (`openapiv2/OpenAPIv2.proto` of
//! github.com/google/gnostic-models). The input is the same tree as for JSON, also with the documents of aggregated API
//! servers. Values without a schema (defaults, enums, vendor extensions) are YAML text. Fields that the messages do not
//! have are left out, e.g. `oneOf`; upstream cannot encode a document that has them.

use pintle_value::Value;

use crate::spec::is_extension;

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

/// Encodes an OpenAPI 2.0 document, e.g. a merged one ([`crate::merge_v2`]), as the message `openapi.v2.Document`.
#[must_use]
pub fn document(tree: &Value) -> Vec<u8> {
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
        ("responses", 11, FieldEncoding::Named(response)),
        ("security", 12, FieldEncoding::Messages(security_requirement)),
        ("securityDefinitions", 13, FieldEncoding::Named(security_definition)),
        ("tags", 14, FieldEncoding::Messages(tag)),
        ("externalDocs", 15, FieldEncoding::Message(external_docs)),
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
        ("termsOfService", 4, FieldEncoding::Text),
        ("contact", 5, FieldEncoding::Message(contact)),
        ("license", 6, FieldEncoding::Message(license)),
    ];
    fields(out, value, FIELDS, 7);
}

fn contact(out: &mut Vec<u8>, value: &Value) {
    const FIELDS: Fields =
        &[("name", 1, FieldEncoding::Text), ("url", 2, FieldEncoding::Text), ("email", 3, FieldEncoding::Text)];
    fields(out, value, FIELDS, 4);
}

fn license(out: &mut Vec<u8>, value: &Value) {
    fields(out, value, &[("name", 1, FieldEncoding::Text), ("url", 2, FieldEncoding::Text)], 3);
}

fn external_docs(out: &mut Vec<u8>, value: &Value) {
    fields(out, value, &[("description", 1, FieldEncoding::Text), ("url", 2, FieldEncoding::Text)], 3);
}

fn tag(out: &mut Vec<u8>, value: &Value) {
    const FIELDS: Fields = &[
        ("name", 1, FieldEncoding::Text),
        ("description", 2, FieldEncoding::Text),
        ("externalDocs", 3, FieldEncoding::Message(external_docs)),
    ];
    fields(out, value, FIELDS, 4);
}

fn paths(out: &mut Vec<u8>, value: &Value) {
    extensions(out, value, 1);
    for (path, item) in value.entries_at(&[]).filter(|(path, _)| path.starts_with('/')) {
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
        ("externalDocs", 4, FieldEncoding::Message(external_docs)),
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

/// A parameter that is not the body. Only parameters in the query or a form may be empty.
fn plain_parameter(out: &mut Vec<u8>, value: &Value) {
    let message = match value.str_at(&["in"]) {
        "formData" => 2,
        "query" => 3,
        "path" => 4,
        _ => 1,
    };
    nested_with(out, message, |out| {
        const FIELDS: Fields = &[
            ("required", 1, FieldEncoding::Bool),
            ("in", 2, FieldEncoding::Text),
            ("description", 3, FieldEncoding::Text),
            ("name", 4, FieldEncoding::Text),
        ];
        known_fields(out, value, FIELDS, 0);
        if matches!(message, 2 | 3) {
            known_fields(out, value, &[("allowEmptyValue", 5, FieldEncoding::Bool)], 0);
            known_fields(out, value, SIMPLE_VALUE, 5);
            extensions(out, value, 23);
        } else {
            known_fields(out, value, SIMPLE_VALUE, 4);
            extensions(out, value, 22);
        }
    });
}

/// The fields of a value that is not a schema. In some messages they come after other fields.
const SIMPLE_VALUE: Fields = &[
    ("type", 1, FieldEncoding::Text),
    ("format", 2, FieldEncoding::Text),
    ("items", 3, FieldEncoding::Message(simple_items)),
    ("collectionFormat", 4, FieldEncoding::Text),
    ("default", 5, FieldEncoding::Any),
    ("maximum", 6, FieldEncoding::Double),
    ("exclusiveMaximum", 7, FieldEncoding::Bool),
    ("minimum", 8, FieldEncoding::Double),
    ("exclusiveMinimum", 9, FieldEncoding::Bool),
    ("maxLength", 10, FieldEncoding::Int),
    ("minLength", 11, FieldEncoding::Int),
    ("pattern", 12, FieldEncoding::Text),
    ("maxItems", 13, FieldEncoding::Int),
    ("minItems", 14, FieldEncoding::Int),
    ("uniqueItems", 15, FieldEncoding::Bool),
    ("enum", 16, FieldEncoding::Anys),
    ("multipleOf", 17, FieldEncoding::Double),
];

fn simple_items(out: &mut Vec<u8>, value: &Value) {
    fields(out, value, SIMPLE_VALUE, 18);
}

fn header(out: &mut Vec<u8>, value: &Value) {
    known_fields(out, value, SIMPLE_VALUE, 0);
    fields(out, value, &[("description", 18, FieldEncoding::Text)], 19);
}

/// The default response comes first, as in upstream's JSON.
fn responses(out: &mut Vec<u8>, value: &Value) {
    let codes = value.entries_at(&[]).filter(|(code, _)| *code != "default" && !is_extension(code));
    let default = value.get("default").map(|response| ("default", response));
    for (code, response) in default.into_iter().chain(codes) {
        named(out, 1, code, response, response_or_reference);
    }
    extensions(out, value, 2);
}

/// A oneof: a response or a reference to a response.
fn response_or_reference(out: &mut Vec<u8>, value: &Value) {
    if value.get("$ref").is_some() { nested(out, 2, value, reference) } else { nested(out, 1, value, response) }
}

fn response(out: &mut Vec<u8>, value: &Value) {
    // The schema is in a oneof with a file schema.
    const FIELDS: Fields = &[
        ("description", 1, FieldEncoding::Text),
        ("schema", 2, FieldEncoding::Message(|out, value| nested(out, 1, value, schema))),
        ("headers", 3, FieldEncoding::Named(header)),
        ("examples", 4, FieldEncoding::Named(any)),
    ];
    fields(out, value, FIELDS, 5);
}

fn security_requirement(out: &mut Vec<u8>, value: &Value) {
    for (name, scopes) in value.entries_at(&[]) {
        named(out, 1, name, scopes, |out, value| texts(out, 1, value));
    }
}

/// A oneof of the types of security, and for OAuth 2 of its flows.
fn security_definition(out: &mut Vec<u8>, value: &Value) {
    const BASIC: Fields = &[("type", 1, FieldEncoding::Text), ("description", 2, FieldEncoding::Text)];
    const API_KEY: Fields = &[
        ("type", 1, FieldEncoding::Text),
        ("name", 2, FieldEncoding::Text),
        ("in", 3, FieldEncoding::Text),
        ("description", 4, FieldEncoding::Text),
    ];
    const OAUTH2: Fields = &[
        ("type", 1, FieldEncoding::Text),
        ("flow", 2, FieldEncoding::Text),
        ("scopes", 3, FieldEncoding::Message(scopes)),
    ];
    const IMPLICIT: Fields = &[("authorizationUrl", 4, FieldEncoding::Text), ("description", 5, FieldEncoding::Text)];
    const TOKEN: Fields = &[("tokenUrl", 4, FieldEncoding::Text), ("description", 5, FieldEncoding::Text)];
    const ACCESS_CODE: Fields = &[
        ("authorizationUrl", 4, FieldEncoding::Text),
        ("tokenUrl", 5, FieldEncoding::Text),
        ("description", 6, FieldEncoding::Text),
    ];
    let mut oauth2 = |message, own, extensions| {
        nested_with(out, message, |out| {
            known_fields(out, value, OAUTH2, 0);
            fields(out, value, own, extensions);
        });
    };
    match (value.str_at(&["type"]), value.str_at(&["flow"])) {
        ("basic", _) => nested(out, 1, value, |out, value| fields(out, value, BASIC, 3)),
        ("oauth2", "implicit") => oauth2(3, IMPLICIT, 6),
        ("oauth2", "password") => oauth2(4, TOKEN, 6),
        ("oauth2", "application") => oauth2(5, TOKEN, 6),
        ("oauth2", _) => oauth2(6, ACCESS_CODE, 7),
        _ => nested(out, 2, value, |out, value| fields(out, value, API_KEY, 5)),
    }
}

fn scopes(out: &mut Vec<u8>, value: &Value) {
    for (name, scope) in value.entries_at(&[]) {
        nested_with(out, 1, |out| {
            field(out, 1, FieldEncoding::Text, &Value::from(name));
            field(out, 2, FieldEncoding::Text, scope);
        });
    }
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
        ("discriminator", 26, FieldEncoding::Text),
        ("readOnly", 27, FieldEncoding::Bool),
        ("externalDocs", 29, FieldEncoding::Message(external_docs)),
        ("example", 30, FieldEncoding::Any),
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

/// A schema or an array of schemas.
fn items(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| nested(out, 1, item, schema)),
        one => nested(out, 1, one, schema),
    }
}

/// Writes the fields of a message in the order of their numbers, vendor extensions last.
fn fields(out: &mut Vec<u8>, value: &Value, known: Fields, number_of_extensions: u32) {
    known_fields(out, value, known, 0);
    if number_of_extensions > 0 {
        extensions(out, value, number_of_extensions);
    }
}

/// Writes fields whose numbers in this message are greater by `offset`.
fn known_fields(out: &mut Vec<u8>, value: &Value, known: Fields, offset: u32) {
    for (name, at, form) in known {
        if let Some(value) = value.get(name) {
            field(out, offset + *at, *form, value);
        }
    }
}

fn extensions(out: &mut Vec<u8>, value: &Value, at: u32) {
    for (name, value) in value.entries_at(&[]).filter(|(name, _)| is_extension(name)) {
        named(out, at, name, value, any);
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
        FieldEncoding::Int => match value.as_int() {
            Some(0) | None => {}
            Some(value) => number(out, at, value.cast_unsigned()),
        },
        FieldEncoding::Double => match value.as_float() {
            None => {}
            Some(value) if value.to_bits() == 0 => {}
            Some(value) => {
                varint(out, u64::from(at) << 3 | u64::from(FIXED64));
                out.extend_from_slice(&value.to_le_bytes());
            }
        },
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
