//! Decoding of CBOR bodies: typed for built-in kinds, any map for custom resources.

use pintle_codec::cbor::{self, Limits};
use pintle_codec::json::TypeMeta;
use pintle_registry::GroupVersion;
use pintle_schema::Schema;
use pintle_value::Value;

use super::decode::{DecodeError, ExpectedKind, TypeCheck};

/// Decodes a body. The second value holds the errors of strict decoding.
///
/// # Errors
/// Returns an error if the body is not an object of the expected kind.
pub(super) fn decode(
    body: &[u8],
    expected: &ExpectedKind<'_>,
    check: TypeCheck<'_>,
) -> Result<(Value, Vec<String>), DecodeError> {
    let (mut value, mut problems) = expected.model.decode_cbor(body, expected, check)?;
    let found = expected.normalise(&mut value, None);
    if let Some(error) = found.errors.into_iter().next() {
        return Err(expected.undecodable_value(&value, error));
    }
    // Upstream's decoder of custom resources looks for unknown fields only in JSON and YAML.
    if !expected.model.requires_type() {
        problems.extend(found.unknown.iter().map(|field| format!("unknown field \"{field}\"")));
    }
    Ok((value, problems))
}

fn type_meta(body: &[u8]) -> Result<TypeMeta, DecodeError> {
    cbor::type_meta(body, Limits::default())
        .map_err(|error| DecodeError::Unrecognized(format!("unable to determine group/version/kind: {error}")))
}

pub(super) fn decode_built_in(
    body: &[u8],
    expected: &ExpectedKind<'_>,
    check: TypeCheck<'_>,
) -> Result<(Value, Vec<String>), DecodeError> {
    let meta = type_meta(body)?;
    let kind = if meta.kind.is_empty() { expected.kind } else { &meta.kind };
    // Like upstream, treat a version that cannot be parsed as missing. A missing version is the group's version.
    let version = GroupVersion::parse(&meta.api_version).unwrap_or_else(|| expected.group_version.clone());
    let is_other_group = !version.group.is_empty() && version.group != expected.group_version.group;
    match (version.version.is_empty(), is_other_group) {
        (false, _) => check(&version, kind)?,
        (true, false) => check(&expected.group_version, kind)?,
        (true, true) => {
            let (kind, version, why) = (kind.to_owned(), version.version, missing_field_message(body, "apiVersion"));
            return Err(DecodeError::Undecodable { kind, version, why });
        }
    }
    let Schema { types, root } = expected.schema;
    let read = cbor::decode_typed(body, types, *root, Limits::default())
        .map_err(|error| expected.undecodable(error.to_string()))?;
    Ok((read.value, read.unknown_field.iter().map(ToString::to_string).collect()))
}

fn missing_field_message(body: &[u8], name: &str) -> String {
    format!("Object '{name}' is missing in '{}'", cbor::diagnostic(body))
}

/// Unlike built-in kinds, and unlike JSON, a custom resource in CBOR must have a kind and apiVersion.
pub(super) fn decode_custom(
    body: &[u8],
    expected: &ExpectedKind<'_>,
    check: TypeCheck<'_>,
) -> Result<Value, DecodeError> {
    let value = match cbor::decode_object(body, Limits::default()) {
        Ok(value) => value,
        Err(error) => {
            return Err(type_meta(body).map_or_else(|error| error, |_| expected.undecodable(error.to_string())));
        }
    };
    let (kind, version) = (value.str_at(&["kind"]), value.str_at(&["apiVersion"]));
    if kind.is_empty() {
        return Err(DecodeError::Unrecognized(missing_field_message(body, "Kind")));
    }
    if version.is_empty() {
        let (kind, version) = (kind.to_owned(), version.into());
        return Err(DecodeError::Undecodable { kind, version, why: missing_field_message(body, "apiVersion") });
    }
    expected.model.check_type(&value, expected, (kind, version), check)?;
    Ok(value)
}
