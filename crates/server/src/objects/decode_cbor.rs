//! Bodies in CBOR: of built-in kinds, whose types say what is read, and of custom kinds, which are any map.

use pintle_codec::cbor::{self, Limits};
use pintle_codec::json::TypeMeta;
use pintle_registry::GroupVersion;
use pintle_schema::Schema;
use pintle_value::Value;

use super::decode::{DecodeError, ExpectedKind, TypeCheck};

/// Reads a body as an object of a kind, and what strict decoding says of it.
///
/// # Errors
/// It is none.
pub(super) fn read(
    body: &[u8],
    expected: &ExpectedKind<'_>,
    check: TypeCheck<'_>,
) -> Result<(Value, Vec<String>), DecodeError> {
    let (mut value, mut problems) = expected.model.decode_cbor(body, expected, check)?;
    let found = expected.normalise(&mut value);
    if let Some(error) = found.errors.into_iter().next() {
        return Err(expected.unfit(error));
    }
    problems.extend(found.unknown.iter().map(|field| format!("unknown field \"{field}\"")));
    Ok((value, problems))
}

fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    cbor::type_meta(body, Limits::default())
        .map_err(|error| DecodeError::Unread(format!("unable to determine group/version/kind: {error}")))
}

pub(super) fn typed(
    body: &[u8],
    expected: &ExpectedKind<'_>,
    check: TypeCheck<'_>,
) -> Result<(Value, Vec<String>), DecodeError> {
    let meta = type_meta(body)?;
    let kind = if meta.kind.is_empty() { expected.kind } else { &meta.kind };
    // Upstream takes a version that it cannot parse for none; one that is missing is that of the group.
    let version = GroupVersion::parse(&meta.api_version).unwrap_or_else(|| expected.group_version.clone());
    let elsewhere = !version.group.is_empty() && version.group != expected.group_version.group;
    match (version.version.is_empty(), elsewhere) {
        (false, _) => check(&version, kind)?,
        (true, false) => check(&expected.group_version, kind)?,
        (true, true) => {
            let (kind, version, why) = (kind.to_owned(), version.version, missing(body, "apiVersion"));
            return Err(DecodeError::Unfit { kind, version, why });
        }
    }
    let Schema { types, root } = expected.schema;
    let read =
        cbor::decode_typed(body, types, *root, Limits::default()).map_err(|error| expected.unfit(error.to_string()))?;
    Ok((read.value, read.unknown_field.iter().map(ToString::to_string).collect()))
}

fn missing(body: &[u8], name: &str) -> String {
    format!("Object '{name}' is missing in '{}'", cbor::diagnostic(body))
}

/// Unlike bodies of built-in kinds, and unlike those in JSON, these have to say what they are.
pub(super) fn untyped(body: &[u8], expected: &ExpectedKind<'_>, check: TypeCheck<'_>) -> Result<Value, DecodeError> {
    let value = match cbor::decode_object(body, Limits::default()) {
        Ok(value) => value,
        Err(error) => return Err(type_meta(body).map_or_else(|unread| unread, |_| expected.unfit(error.to_string()))),
    };
    let (kind, version) = (value.str_at(&["kind"]), value.str_at(&["apiVersion"]));
    if kind.is_empty() {
        return Err(DecodeError::Unread(missing(body, "Kind")));
    }
    if version.is_empty() {
        let (kind, version) = (kind.to_owned(), version.into());
        return Err(DecodeError::Unfit { kind, version, why: missing(body, "apiVersion") });
    }
    expected.model.check_type(&value, expected, (kind, version), check)?;
    Ok(value)
}
