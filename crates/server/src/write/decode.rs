//! From a body to a tree at the request's version: decoded, its kind checked, normalised as a Go struct would be,
//! unknown and duplicate fields answered as the client wants, defaults set.

use std::sync::Arc;

use pintle_codec::{json, protobuf, yaml};
use pintle_registry::{ApiError, GroupVersion, Resource};
use pintle_schema::{Problems, Schema, normalise, static_defaults};
use pintle_value::Value;

use crate::negotiate::Encoding;
use crate::pipeline::Call;
use crate::query::FieldValidation;

/// How many warnings about fields a client gets.
const MOST_WARNINGS: usize = 50;

/// A kind that a body may be of: a resource's, or another one with a schema (`Scale`, `DeleteOptions`).
pub(crate) struct Expected<'a> {
    pub(crate) group_version: GroupVersion,
    pub(crate) kind: &'a str,
    pub(crate) schema: &'a Schema,
}

impl<'a> Expected<'a> {
    /// The kind of a resource.
    pub(crate) fn of(resource: &'a Resource) -> Self {
        Self { group_version: resource.group_version(), kind: &resource.kind, schema: &resource.schema }
    }
}

/// Reads a body as an object of a kind. Does not set defaults.
///
/// # Errors
/// 400 for what cannot be read, is of another kind, or (if strict) has unknown or duplicate fields.
pub(crate) fn decode(
    call: &Call,
    body: &[u8],
    encoding: Encoding,
    expected: &Expected<'_>,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let unrecognized = |why: String| {
        ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why} ({})",
            expected.kind,
            summary(body)
        ))
    };
    let (value, text) = match encoding {
        Encoding::Protobuf => return decode_protobuf(call, body, expected),
        Encoding::Json => {
            let decoded =
                json::decode(body, json::Options::default()).map_err(|error| unrecognized(error.to_string()))?;
            let text = decoded.has_duplicates.then_some(body);
            (decoded.value, Text::Json { bytes: body, duplicates: text.is_some() })
        }
        Encoding::Yaml => {
            let decoded = yaml::decode(body).map_err(|error| unrecognized(error.to_string()))?;
            (decoded.value, Text::Yaml { strict: decoded.strict })
        }
    };
    let meta = json::type_meta(&value).map_err(|error| unrecognized(error.to_string()))?;
    let kind = if meta.kind.is_empty() { expected.kind } else { &meta.kind };
    let group_version = if meta.api_version.is_empty() {
        expected.group_version.clone()
    } else {
        GroupVersion::parse(&meta.api_version)
            .ok_or_else(|| unrecognized(format!("unexpected GroupVersion string: {}", meta.api_version)))?
    };
    check_kind(call, expected, &group_version, kind)?;
    finish(call, value, &text, expected, validation)
}

/// What is known of the text that a tree was read from.
enum Text<'a> {
    Json { bytes: &'a [u8], duplicates: bool },
    Yaml { strict: Option<String> },
}

/// Normalises a tree that was read and answers its unknown and duplicate fields.
fn finish(
    call: &Call,
    mut value: Value,
    text: &Text<'_>,
    expected: &Expected<'_>,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let Schema { types, root } = expected.schema;
    let mut found = Problems::default();
    normalise(types, *root, &mut value, &mut found);
    let cannot = |why: &str| {
        ApiError::BadRequest(format!(
            "{} in version \"{}\" cannot be handled as a {}: {why}",
            expected.kind, expected.group_version.version, expected.kind
        ))
    };
    let problems = match text {
        // Order and wording are those of the text, which the tree does not keep.
        Text::Json { bytes, duplicates } if *duplicates || !found.is_empty() => {
            let exact = json::strictness(bytes, types, *root).map_err(|error| cannot(&error.to_string()))?;
            if let Some(error) = exact.error {
                return Err(cannot(&error));
            }
            exact.problems
        }
        Text::Json { .. } => Vec::new(),
        Text::Yaml { strict } => {
            let unknown = found.unknown.iter().map(|field| format!("unknown field \"{field}\""));
            strict.iter().cloned().chain(unknown).collect()
        }
    };
    if let Some(error) = found.errors.first() {
        return Err(cannot(error));
    }
    answer(call, &problems, validation).map_err(|why| cannot(&why))?;
    value.set("kind", expected.kind);
    value.set("apiVersion", expected.group_version.to_string());
    Ok(value)
}

/// Refuses or warns about unknown and duplicate fields.
pub(crate) fn answer(call: &Call, problems: &[String], validation: FieldValidation) -> Result<(), String> {
    if problems.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => problems.iter().take(MOST_WARNINGS).for_each(|problem| call.warn(problem.as_str())),
        FieldValidation::Strict => return Err(format!("strict decoding error: {}", problems.join(", "))),
    }
    Ok(())
}

/// Reads what a patch made of an object: a tree at the request's version.
///
/// # Errors
/// As [`decode`].
pub(crate) fn patched(
    call: &Call,
    value: Value,
    expected: &Expected<'_>,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let mut value = value;
    let Schema { types, root } = expected.schema;
    let mut found = Problems::default();
    normalise(types, *root, &mut value, &mut found);
    if let Some(error) = found.errors.first() {
        return Err(ApiError::BadRequest(error.clone()));
    }
    let problems: Vec<String> = found.unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    answer(call, &problems, validation).map_err(ApiError::BadRequest)?;
    Ok(value)
}

fn decode_protobuf(call: &Call, body: &[u8], expected: &Expected<'_>) -> Result<Value, ApiError> {
    let Schema { types, root } = expected.schema;
    let malformed = |error: protobuf::DecodeError| {
        ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            expected.kind,
            summary(body)
        ))
    };
    let envelope = protobuf::open_envelope(body).map_err(malformed)?;
    let group_version = GroupVersion::parse(&envelope.api_version).unwrap_or_default();
    if !envelope.kind.is_empty() {
        check_kind(call, expected, &group_version, &envelope.kind)?;
    }
    let mut value = protobuf::decode_object(&envelope, types, *root).map_err(malformed)?;
    value.set("kind", expected.kind);
    value.set("apiVersion", expected.group_version.to_string());
    Ok(value)
}

fn check_kind(call: &Call, expected: &Expected<'_>, found: &GroupVersion, kind: &str) -> Result<(), ApiError> {
    if *found == expected.group_version && kind == expected.kind {
        return Ok(());
    }
    let known = call.cluster.catalog.kind_type(&found.group, &found.version, kind).is_some();
    if !known {
        return Err(ApiError::BadRequest(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: no kind \"{kind}\" is registered for version \"{found}\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
            found.version, expected.kind
        )));
    }
    Err(mismatch(expected, found, kind))
}

fn mismatch(expected: &Expected<'_>, found: &GroupVersion, kind: &str) -> ApiError {
    if kind == expected.kind {
        return ApiError::BadRequest(format!(
            "the API version in the data ({found}) does not match the expected API version ({})",
            expected.group_version
        ));
    }
    ApiError::BadRequest(format!(
        "{kind} in version \"{}\" cannot be handled as a {}: converting ({}.{kind}) to ({}.{}): unknown conversion",
        found.version, expected.kind, found.version, expected.group_version.version, expected.kind
    ))
}

/// The start of a body, for error messages.
fn summary(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    // Text is shown, anything else as hexadecimal digits.
    let text = body.first() == Some(&b'{') || body.iter().all(|b| (0x20..0x7f).contains(b) || b.is_ascii_whitespace());
    let (shown, cut) = (&body[..body.len().min(LIMIT)], body.len() > LIMIT);
    let shown = if text {
        String::from_utf8_lossy(shown).into_owned()
    } else {
        shown.iter().map(|b| format!("{b:02x}")).collect()
    };
    if cut { format!("{shown} ...") } else { shown }
}

/// Sets all defaults of a tree at a resource's version.
pub(crate) fn default(resource: &Arc<Resource>, value: &mut Value) {
    static_defaults(&resource.schema.types, resource.schema.root, value);
    resource.behaviour.defaults(value);
}
