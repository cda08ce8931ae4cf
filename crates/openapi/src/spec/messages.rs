//! The fields of the objects of an OpenAPI 2.0 document, as kube-openapi's package `spec` has them.

/// The values that a field may have. Null is an absent field everywhere.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Text,
    Texts,
    /// A string or an array of strings.
    TextOrTexts,
    /// An object of strings.
    TextMap,
    Bool,
    Int,
    Number,
    /// Any value. An empty one is omitted.
    Any,
    /// Any value, also an empty one.
    AnyOrEmpty,
    Anys,
    AnyMap,
    /// A URL with a fragment that points into the document.
    Reference,
    /// An object with fields, which may be empty.
    Message(&'static Message),
    /// Like [`Form::Message`]; an empty object is omitted.
    Filled(&'static Message),
    Messages(&'static Message),
    MessageMap(&'static Message),
    /// Like [`Form::MessageMap`]; a value may be null.
    NullableMap(&'static Message),
    SchemaOrBool,
    /// A schema or an array of schemas. Any other value is read as null.
    SchemaOrSchemas,
    /// An object of schemas and arrays of strings.
    Dependencies,
    Responses,
    Paths,
    /// The scopes of alternative security schemes.
    Requirements,
}

/// The fields of an object.
pub(super) struct Message {
    pub(super) fields: &'static [(&'static str, Form)],
    /// Which other fields are kept.
    pub(super) others: Others,
}

/// Fields that a message does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    Dropped,
    Extensions,
    Kept,
}

/// The fields of a message with vendor extensions.
const fn message_of(fields: &'static [(&'static str, Form)]) -> Message {
    Message { fields, others: Others::Extensions }
}

/// The fields of a message without vendor extensions.
const fn closed_message_of(fields: &'static [(&'static str, Form)]) -> Message {
    Message { fields, others: Others::Dropped }
}

pub(super) static SWAGGER: Message = message_of(&[
    ("id", Form::Text),
    ("consumes", Form::Texts),
    ("produces", Form::Texts),
    ("schemes", Form::Texts),
    ("swagger", Form::Text),
    ("info", Form::Message(&INFO)),
    ("host", Form::Text),
    ("basePath", Form::Text),
    ("paths", Form::Paths),
    ("definitions", Form::MessageMap(&SCHEMA)),
    ("parameters", Form::MessageMap(&PARAMETER)),
    ("responses", Form::MessageMap(&RESPONSE)),
    ("securityDefinitions", Form::NullableMap(&SECURITY_SCHEME)),
    ("security", Form::Requirements),
    ("tags", Form::Messages(&TAG)),
    ("externalDocs", Form::Message(&EXTERNAL_DOCS)),
]);

static INFO: Message = message_of(&[
    ("description", Form::Text),
    ("title", Form::Text),
    ("termsOfService", Form::Text),
    ("contact", Form::Filled(&CONTACT)),
    ("license", Form::Filled(&LICENSE)),
    ("version", Form::Text),
]);

static CONTACT: Message = closed_message_of(&[("name", Form::Text), ("url", Form::Text), ("email", Form::Text)]);

static LICENSE: Message = closed_message_of(&[("name", Form::Text), ("url", Form::Text)]);

static EXTERNAL_DOCS: Message = closed_message_of(&[("description", Form::Text), ("url", Form::Text)]);

static TAG: Message =
    message_of(&[("description", Form::Text), ("name", Form::Text), ("externalDocs", Form::Filled(&EXTERNAL_DOCS))]);

static SECURITY_SCHEME: Message = message_of(&[
    ("description", Form::Text),
    ("type", Form::Text),
    ("name", Form::Text),
    ("in", Form::Text),
    ("flow", Form::Text),
    ("authorizationUrl", Form::Text),
    ("tokenUrl", Form::Text),
    ("scopes", Form::TextMap),
]);

pub(super) static PATH_ITEM: Message = message_of(&[
    ("$ref", Form::Reference),
    ("get", Form::Filled(&OPERATION)),
    ("put", Form::Filled(&OPERATION)),
    ("post", Form::Filled(&OPERATION)),
    ("delete", Form::Filled(&OPERATION)),
    ("options", Form::Filled(&OPERATION)),
    ("head", Form::Filled(&OPERATION)),
    ("patch", Form::Filled(&OPERATION)),
    ("parameters", Form::Messages(&PARAMETER)),
]);

static OPERATION: Message = message_of(&[
    ("description", Form::Text),
    ("consumes", Form::Texts),
    ("produces", Form::Texts),
    ("schemes", Form::Texts),
    ("tags", Form::Texts),
    ("summary", Form::Text),
    ("externalDocs", Form::Message(&EXTERNAL_DOCS)),
    ("operationId", Form::Text),
    ("deprecated", Form::Bool),
    ("security", Form::Requirements),
    ("parameters", Form::Messages(&PARAMETER)),
    ("responses", Form::Responses),
]);

pub(super) static RESPONSE: Message = message_of(&[
    ("$ref", Form::Reference),
    ("description", Form::Text),
    ("schema", Form::Message(&SCHEMA)),
    ("headers", Form::MessageMap(&HEADER)),
    ("examples", Form::AnyMap),
]);

/// A message with the fields of values that are not schemas, and its own fields.
macro_rules! simple_value {
    ($($own:expr),* $(,)?) => {
        message_of(&[
            $($own,)*
            ("type", Form::Text),
            ("nullable", Form::Bool),
            ("format", Form::Text),
            ("items", Form::Message(&ITEMS)),
            ("collectionFormat", Form::Text),
            ("default", Form::Any),
            ("example", Form::Any),
            ("maximum", Form::Number),
            ("exclusiveMaximum", Form::Bool),
            ("minimum", Form::Number),
            ("exclusiveMinimum", Form::Bool),
            ("maxLength", Form::Int),
            ("minLength", Form::Int),
            ("pattern", Form::Text),
            ("maxItems", Form::Int),
            ("minItems", Form::Int),
            ("uniqueItems", Form::Bool),
            ("multipleOf", Form::Number),
            ("enum", Form::Anys),
        ])
    };
}

static ITEMS: Message = simple_value!(("$ref", Form::Reference));

static HEADER: Message = simple_value!(("description", Form::Text));

static PARAMETER: Message = simple_value!(
    ("$ref", Form::Reference),
    ("description", Form::Text),
    ("name", Form::Text),
    ("in", Form::Text),
    ("required", Form::Bool),
    ("schema", Form::Message(&SCHEMA)),
    ("allowEmptyValue", Form::Bool),
);

pub(super) static SCHEMA: Message = Message {
    fields: &[
        ("$ref", Form::Reference),
        ("$schema", Form::Reference),
        ("id", Form::Text),
        ("description", Form::Text),
        ("type", Form::TextOrTexts),
        ("nullable", Form::Bool),
        ("format", Form::Text),
        ("title", Form::Text),
        ("default", Form::AnyOrEmpty),
        ("maximum", Form::Number),
        ("exclusiveMaximum", Form::Bool),
        ("minimum", Form::Number),
        ("exclusiveMinimum", Form::Bool),
        ("maxLength", Form::Int),
        ("minLength", Form::Int),
        ("pattern", Form::Text),
        ("maxItems", Form::Int),
        ("minItems", Form::Int),
        ("uniqueItems", Form::Bool),
        ("multipleOf", Form::Number),
        ("enum", Form::Anys),
        ("maxProperties", Form::Int),
        ("minProperties", Form::Int),
        ("required", Form::Texts),
        ("items", Form::SchemaOrSchemas),
        ("allOf", Form::Messages(&SCHEMA)),
        ("oneOf", Form::Messages(&SCHEMA)),
        ("anyOf", Form::Messages(&SCHEMA)),
        ("not", Form::Message(&SCHEMA)),
        ("properties", Form::MessageMap(&SCHEMA)),
        ("additionalProperties", Form::SchemaOrBool),
        ("patternProperties", Form::MessageMap(&SCHEMA)),
        ("dependencies", Form::Dependencies),
        ("additionalItems", Form::SchemaOrBool),
        ("definitions", Form::MessageMap(&SCHEMA)),
        ("discriminator", Form::Text),
        ("readOnly", Form::Bool),
        ("externalDocs", Form::Message(&EXTERNAL_DOCS)),
        ("example", Form::Any),
    ],
    others: Others::Kept,
};
