//! Reads an object of a built-in kind: JSON text to the tree that its Go struct would hold, with what strict decoding
//! says about it.

use pintle_schema::{Problems, TypeId, Types, normalise};
use pintle_value::Value;

use super::decode::{DecodeError, Options, decode};
use super::strict::strictness;

/// An object of a built-in kind as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    /// The normalised tree.
    pub value: Value,
    /// `unknown field "spec.foo"`, `duplicate field "spec.bar"`: in upstream's order, each once, at most 100.
    pub strict: Vec<String>,
}

/// Reads JSON into a type as Go's decoder reads it into the struct.
///
/// # Errors
/// [`DecodeError::Syntax`] for malformed JSON, [`DecodeError::Type`] for values that do not fit their fields.
pub fn decode_typed(text: &[u8], types: &Types, type_id: TypeId) -> Result<Typed, DecodeError> {
    let decoded = match decode(text, Options::default()) {
        Ok(decoded) => decoded,
        Err(DecodeError::Type(message)) => {
            // A number out of range: Go names the field that it is for.
            let exact = strictness(text, types, type_id)?.error;
            return Err(DecodeError::Type(exact.unwrap_or(message)));
        }
        Err(e) => return Err(e),
    };
    let mut value = decoded.value;
    let mut problems = Problems::default();
    normalise(types, type_id, &mut value, &mut problems);
    if problems.is_empty() && !decoded.has_duplicates {
        return Ok(Typed { value, strict: Vec::new() });
    }
    let mut look = strictness(text, types, type_id)?;
    if let Some(message) = look.error.take().or(problems.errors.into_iter().next()) {
        return Err(DecodeError::Type(message));
    }
    let strict = std::mem::take(&mut look.problems);
    look.correct(&mut value);
    normalise(types, type_id, &mut value, &mut Problems::default());
    Ok(Typed { value, strict })
}
