//! Go's conversion of bytes to a string, as `encoding/json` does it.

use pintle_value::Str;

/// Converts bytes to a string as Go's `encoding/json` does: every byte that is not part of a valid character becomes
/// U+FFFD.
#[must_use]
pub fn utf8(bytes: &[u8]) -> Str {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Str::from(text);
    }
    let mut out = Str::default();
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}
