//! Objects inside events: JSON that Go's `encoding/json` writes again when it encodes a `json.RawMessage`. It removes
//! white space and escapes characters that are special in HTML. All other bytes stay.

use serde::de::IgnoredAny;

/// An object in an event is not JSON, so the event cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidJson(String);

impl std::fmt::Display for InvalidJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "json: error calling MarshalJSON for type *runtime.Unknown: {}", self.0)
    }
}

impl std::error::Error for InvalidJson {}

/// True if a text can be an object in an event.
#[must_use]
pub fn is_json(text: &[u8]) -> bool {
    check(text).is_ok()
}

fn check(text: &[u8]) -> Result<(), InvalidJson> {
    let checked = serde_json::from_slice::<IgnoredAny>(text);
    checked.map(drop).map_err(|error| InvalidJson(error.to_string()))
}

/// Appends a JSON text in its compact form.
pub(super) fn write_compact(text: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidJson> {
    check(text)?;
    out.reserve(text.len());
    let (mut in_string, mut after_backslash, mut done) = (false, false, 0);
    let mut index = 0;
    while let Some(&byte) = text.get(index) {
        let replacement: Option<(&[u8], usize)> = match byte {
            b' ' | b'\t' | b'\n' | b'\r' if !in_string => Some((b"", 1)),
            b'<' => Some((b"\\u003c", 1)),
            b'>' => Some((b"\\u003e", 1)),
            b'&' => Some((b"\\u0026", 1)),
            0xe2 => match text.get(index + 1..index + 3) {
                Some([0x80, 0xa8]) => Some((b"\\u2028", 3)),
                Some([0x80, 0xa9]) => Some((b"\\u2029", 3)),
                _ => None,
            },
            _ => None,
        };
        if byte == b'"' && !after_backslash {
            in_string = !in_string;
        }
        after_backslash = byte == b'\\' && !after_backslash;
        let Some((replacement, length)) = replacement else {
            index += 1;
            continue;
        };
        out.extend_from_slice(&text[done..index]);
        out.extend_from_slice(replacement);
        index += length;
        done = index;
    }
    out.extend_from_slice(&text[done..]);
    Ok(())
}
