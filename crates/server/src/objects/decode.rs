//! From a body to a tree at the request's version: decoded, its kind checked, normalised as a Go struct would be,
//! unknown and duplicate fields answered as the client wants, defaults set.

use std::sync::Arc;

use pintle_codec::{json, protobuf, yaml};
use pintle_registry::{ApiError, GroupVersion, GroupVersionKind, Resource};
use pintle_schema::{Problems, Schema};
use pintle_value::metadata::MANAGED_FIELDS;
use pintle_value::{Errors, FieldPath, Str, Value};

use super::{BuiltIn, ObjectModel, decode_cbor, model};
use crate::context::RequestContext;
use crate::request::negotiate::Encoding;
use crate::request::query::FieldValidation;

/// A kind that a body may be of: a resource's, or another one with a schema (`Scale`, `DeleteOptions`).
#[derive(Clone)]
pub(crate) struct ExpectedKind<'a> {
    pub(crate) group_version: GroupVersion,
    pub(crate) kind: &'a str,
    pub(crate) schema: &'a Schema,
    /// The record of the kind, if it is a resource's.
    pub(crate) resource: Option<&'a Arc<Resource>>,
    /// The model that the kind follows.
    pub(crate) model: &'static dyn ObjectModel,
}

impl<'a> ExpectedKind<'a> {
    /// The kind of a resource.
    pub(crate) fn of(resource: &'a Arc<Resource>) -> Self {
        let (kind, schema) = (resource.kind.as_str(), &*resource.schema);
        Self { group_version: resource.group_version(), kind, schema, resource: Some(resource), model: model(resource) }
    }

    /// A built-in kind that is no resource's (`Scale`, `DeleteOptions`).
    pub(crate) fn of_type(group_version: GroupVersion, kind: &'a str, schema: &'a Schema) -> Self {
        Self { group_version, kind, schema, resource: None, model: &BuiltIn }
    }

    /// Sets `kind` and `apiVersion`.
    pub(crate) fn set_type(&self, value: &mut Value) {
        value.set("kind", self.kind);
        value.set("apiVersion", self.group_version.to_string());
    }

    /// Sets the defaults of the kind.
    pub(crate) fn default(&self, value: &mut Value) {
        if let Some(resource) = self.resource {
            default(resource, value);
        }
    }

    /// Writes a tree as its type does. An empty list of managers stays, which types write like none at all: with it a
    /// client asks that nobody own anything any more (upstream: `isResetManagedFields`).
    pub(crate) fn normalise(&self, value: &mut Value) -> Problems {
        let resets = value.at(&MANAGED_FIELDS).and_then(Value::as_array).is_some_and(Vec::is_empty);
        let found = self.model.normalise(self.schema, self.resource.map(|resource| &**resource), value);
        if resets {
            value.set_at(&MANAGED_FIELDS, Vec::<Value>::new());
        }
        found
    }

    pub(crate) fn unfit(&self, why: String) -> DecodeError {
        DecodeError::Unfit { kind: self.kind.to_owned(), version: self.group_version.version.clone(), why }
    }
}

/// Why a body is no object of a kind, in the words of upstream's decoders.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// It cannot be read, not even for its kind.
    Unread(String),
    /// It is of a kind and version, but does not fit them.
    Unfit { kind: String, version: Str, why: String },
    /// It is of another version of the kind.
    OtherVersion(String),
    /// It is of another kind, where that is for validation to say: among custom kinds.
    OtherKind { kind: String, name: String },
}

impl DecodeError {
    /// The decoder's own words.
    pub(crate) fn why(self) -> String {
        match self {
            DecodeError::Unread(why) | DecodeError::Unfit { why, .. } | DecodeError::OtherVersion(why) => why,
            DecodeError::OtherKind { kind, .. } => format!("no kind {kind:?} is expected"),
        }
    }

    /// What a client is told (upstream: `transformDecodeError`).
    fn told(self, expected: &ExpectedKind<'_>, body: &[u8]) -> ApiError {
        let kind = expected.kind;
        ApiError::BadRequest(match self {
            DecodeError::Unread(why) => {
                format!("the object provided is unrecognized (must be of type {kind}): {why} ({})", summary(body))
            }
            DecodeError::Unfit { kind: found, version, why } => {
                format!("{found} in version \"{version}\" cannot be handled as a {kind}: {why}")
            }
            DecodeError::OtherVersion(why) => why,
            DecodeError::OtherKind { kind: found, name } => {
                let mut errors = Errors::new();
                errors.invalid(&FieldPath::new("kind"), found.as_str(), format!("must be {kind}"));
                let GroupVersion { group, version } = expected.group_version.clone();
                return ApiError::Invalid {
                    kind: GroupVersionKind::new(group, version, found),
                    name: name.into(),
                    errors,
                };
            }
        })
    }
}

/// Reads a body as an object of a kind. Does not set defaults.
///
/// # Errors
/// 400 for what cannot be read, is of another kind, or (if strict) has unknown or duplicate fields.
pub(crate) fn decode(
    call: &RequestContext,
    body: &[u8],
    encoding: Encoding,
    expected: &ExpectedKind<'_>,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let check = |found: &GroupVersion, kind: &str| check_kind(call, expected, found, kind);
    let decoded = read(body, encoding, expected, &check).and_then(|(value, problems)| {
        answer(call, &problems, validation).map_err(|why| expected.unfit(why))?;
        Ok(value)
    });
    decoded.map_err(|error| error.told(expected, body))
}

/// Checks whether a body may be of a group, version and kind.
pub(crate) type TypeCheck<'a> = &'a dyn Fn(&GroupVersion, &str) -> Result<(), DecodeError>;

/// Reads a body as an object of a kind, and what strict decoding says of it.
///
/// # Errors
/// It is none.
pub(crate) fn read(
    body: &[u8],
    encoding: Encoding,
    expected: &ExpectedKind<'_>,
    check: TypeCheck<'_>,
) -> Result<(Value, Vec<String>), DecodeError> {
    let (mut value, problems) = match encoding {
        Encoding::Protobuf => (protobuf(body, expected, check)?, Vec::new()),
        Encoding::Json => json(body, expected, check)?,
        Encoding::Cbor => decode_cbor::read(body, expected, check)?,
        Encoding::Yaml => {
            let decoded = yaml::decode(body).map_err(|error| DecodeError::Unread(error.to_string()))?;
            let mut value = decoded.value;
            named(&value, expected, check)?;
            let found = expected.normalise(&mut value);
            if let Some(error) = found.errors.into_iter().next() {
                return Err(expected.unfit(error));
            }
            let unknown = found.unknown.iter().map(|field| format!("unknown field \"{field}\""));
            (value, decoded.strict_error.into_iter().chain(unknown).collect())
        }
    };
    expected.set_type(&mut value);
    Ok((value, problems))
}

fn json(body: &[u8], expected: &ExpectedKind<'_>, check: TypeCheck<'_>) -> Result<(Value, Vec<String>), DecodeError> {
    let Schema { types, root } = expected.schema;
    let (value, duplicates) = match json::decode(body, json::DecodeOptions::default()) {
        Ok(decoded) => (decoded.value, decoded.has_duplicates),
        Err(json::DecodeError::Syntax(why)) => return Err(unread(why)),
        Err(json::DecodeError::Type(why)) => {
            // A number that no `float64` holds: Go names the field that it is for.
            let exact = json::decode_strict(body, types, *root).ok().and_then(|exact| exact.error);
            return Err(expected.unfit(exact.unwrap_or(why)));
        }
    };
    named(&value, expected, check)?;
    let mut value = value;
    let found = expected.normalise(&mut value);
    if !duplicates && found.is_empty() {
        return Ok((value, Vec::new()));
    }
    // Order and wording are those of the text, which the tree does not keep.
    expected.model.strict_json(body, expected, value, found)
}

/// Checks what a tree says that it is; what it does not say is as expected.
fn named(value: &Value, expected: &ExpectedKind<'_>, check: TypeCheck<'_>) -> Result<(), DecodeError> {
    let meta = json::type_meta(value).map_err(|error| unread(error.to_string()))?;
    let kind = if meta.kind.is_empty() { expected.kind } else { &meta.kind };
    expected.model.check_type(value, expected, (kind, &meta.api_version), check)
}

fn unread(why: String) -> DecodeError {
    DecodeError::Unread(format!("couldn't get version/kind; json parse error: {why}"))
}

/// Refuses or warns about unknown and duplicate fields.
pub(crate) fn answer(call: &RequestContext, problems: &[String], validation: FieldValidation) -> Result<(), String> {
    if problems.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => {
            // What YAML says in many lines is many warnings.
            let lines = problems.iter().flat_map(|problem| match problem.strip_prefix("yaml: unmarshal errors:\n") {
                Some(lines) => lines.split('\n').map(str::trim).collect(),
                None => vec![problem.as_str()],
            });
            lines.for_each(|line| call.warn(line));
        }
        FieldValidation::Strict => return Err(format!("strict decoding error: {}", problems.join(", "))),
    }
    Ok(())
}

/// Reads what a patch made of an object: a tree at the request's version, and what strict decoding says of it.
///
/// # Errors
/// It is no longer of its kind.
pub(crate) fn patched(
    call: &RequestContext,
    object: Value,
    expected: &ExpectedKind<'_>,
) -> Result<(Value, Vec<String>), DecodeError> {
    let check = |found: &GroupVersion, kind: &str| check_kind(call, expected, found, kind);
    let before = object.clone();
    let mut object = object;
    let found = expected.normalise(&mut object);
    if found.errors.is_empty() {
        named(&before, expected, &check)?;
        let unknown = found.unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
        return Ok((object, unknown));
    }
    // The exact words, which the tree alone does not tell.
    read(&json::encode(&before), Encoding::Json, expected, &check)
}

/// Makes what a strategic merge patch made of an object one of its kind, as upstream's converter from untyped data does
/// (`runtime.DefaultUnstructuredConverter`); also says which fields are unknown. What it says that it is does not count.
///
/// # Errors
/// Upstream's message: something does not fit its type.
pub(crate) fn converted(mut object: Value, expected: &ExpectedKind<'_>) -> Result<(Value, Vec<String>), String> {
    expected.model.convert_patched(expected.schema, &mut object)?;
    let found = expected.normalise(&mut object);
    if let Some(error) = found.errors.into_iter().next() {
        return Err(error);
    }
    expected.set_type(&mut object);
    let mut unknown: Vec<String> = found.unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    unknown.sort_unstable();
    Ok((object, unknown))
}

fn protobuf(body: &[u8], expected: &ExpectedKind<'_>, check: TypeCheck<'_>) -> Result<Value, DecodeError> {
    let Schema { types, root } = expected.schema;
    let envelope = protobuf::open_envelope(body).map_err(|error| DecodeError::Unread(error.to_string()))?;
    if !envelope.kind.is_empty() || !envelope.api_version.is_empty() {
        let kind = if envelope.kind.is_empty() { expected.kind } else { &envelope.kind };
        // Upstream takes a version that it cannot parse for none.
        let group_version = GroupVersion::parse(&envelope.api_version).filter(|gv| !gv.version.is_empty());
        check(&group_version.unwrap_or_else(|| expected.group_version.clone()), kind)?;
    }
    protobuf::decode_object(&envelope, types, *root).map_err(|error| expected.unfit(error.to_string()))
}

fn check_kind(
    call: &RequestContext,
    expected: &ExpectedKind<'_>,
    found: &GroupVersion,
    kind: &str,
) -> Result<(), DecodeError> {
    if *found == expected.group_version && kind == expected.kind {
        return Ok(());
    }
    let unfit = |why| DecodeError::Unfit { kind: kind.to_owned(), version: found.version.clone(), why };
    let catalog = &call.cluster.catalog;
    if catalog.kind_type(&found.group, &found.version, kind).is_none() {
        return Err(unfit(format!(
            "no kind \"{kind}\" is registered for version \"{found}\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
        )));
    }
    if kind == expected.kind {
        return Err(DecodeError::OtherVersion(format!(
            "the API version in the data ({found}) does not match the expected API version ({})",
            expected.group_version
        )));
    }
    Err(unfit(format!(
        "converting ({}.{kind}) to ({}.{}): unknown conversion",
        found.version,
        internal_package(&expected.group_version.group),
        expected.kind
    )))
}

/// The Go package of a group's internal types.
fn internal_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        group => group.split_once('.').map_or(group, |(first, _)| first),
    }
}

/// The start of a body, for error messages.
fn summary(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    // What looks like JSON is shown, anything else as hexadecimal digits.
    let (shown, cut) = (&body[..body.len().min(LIMIT)], body.len() > LIMIT);
    let shown = if body.starts_with(b"{") {
        String::from_utf8_lossy(shown).into_owned()
    } else {
        shown.iter().map(|b| format!("{b:02x}")).collect()
    };
    if cut { format!("{shown} ...") } else { shown }
}

/// Sets all defaults of a tree at a resource's version.
pub(crate) fn default(resource: &Arc<Resource>, value: &mut Value) {
    model(resource).set_schema_defaults(&resource.schema, value);
    resource.strategy.defaults(value);
}
