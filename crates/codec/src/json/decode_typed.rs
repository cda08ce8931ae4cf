//! Decodes an object of a built-in kind: JSON text to the tree that corresponds to its Go struct, and the strict
//! decoding errors.

use pintle_schema::{Problems, TypeId, Types, normalise};
use pintle_value::Value;

use super::decode::{DecodeError, DecodeOptions, decode};
use super::strict::decode_strict;

/// A decoded object of a built-in kind.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedObject {
    /// The normalised tree.
    pub value: Value,
    /// `unknown field "spec.foo"` and `duplicate field "spec.bar"` in upstream's order. Each is listed once, and at
    /// most 100 are listed.
    pub strict_errors: Vec<String>,
}

/// Decodes JSON into a type as Go decodes it into the struct.
///
/// # Errors
/// [`DecodeError::Syntax`] for malformed JSON, [`DecodeError::Type`] for values that do not fit their fields.
pub fn decode_typed(text: &[u8], types: &Types, type_id: TypeId) -> Result<DecodedObject, DecodeError> {
    let decoded = match decode(text, DecodeOptions::default()) {
        Ok(decoded) => decoded,
        Err(DecodeError::Type(message)) => {
            // A number is out of range. Go's message names the field, so find it.
            let exact = decode_strict(text, types, type_id)?.error;
            return Err(DecodeError::Type(exact.unwrap_or(message)));
        }
        Err(e) => return Err(e),
    };
    let mut value = decoded.value;
    let mut problems = Problems::default();
    normalise(types, type_id, &mut value, &mut problems);
    if problems.is_empty() && !decoded.has_duplicates {
        return Ok(DecodedObject { value, strict_errors: Vec::new() });
    }
    let mut strict_result = decode_strict(text, types, type_id)?;
    if let Some(message) = strict_result.error.take().or(problems.errors.into_iter().next()) {
        return Err(DecodeError::Type(message));
    }
    let strict_errors = std::mem::take(&mut strict_result.strict_errors);
    strict_result.correct_tree(&mut value);
    normalise(types, type_id, &mut value, &mut Problems::default());
    Ok(DecodedObject { value, strict_errors })
}
