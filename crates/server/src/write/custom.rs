//! Bodies of custom kinds, which are no Go structs: any tree, which the kind's schema makes an object.

use pintle_registry::Resource;
use pintle_schema::Problems;
use pintle_value::Value;

use super::decode::{DecodeError, ExpectedKind};

/// Checks what a tree says that it is; what it does not say is as expected.
pub(super) fn named(value: &Value, expected: &ExpectedKind<'_>, kind: &str, version: &str) -> Result<(), DecodeError> {
    if !version.is_empty() && version != expected.group_version.to_string() {
        return Err(DecodeError::OtherVersion(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            expected.group_version
        )));
    }
    if kind != expected.kind {
        return Err(DecodeError::OtherKind { kind: kind.to_owned(), name: value.name().to_owned() });
    }
    Ok(())
}

/// Makes a tree an object of its kind.
pub(super) fn conform(resource: &Resource, value: &mut Value) -> Problems {
    let mut problems = Problems::default();
    match resource.strategy.conform(value) {
        Ok(unknown) => problems.unknown = unknown,
        Err(error) => problems.errors.push(error),
    }
    problems
}
