//! Encodes trees as Go's `encoding/json` encodes untyped data: sorted keys, `<`, `>`, `&` and the two Unicode line
//! separators escaped, floats in their shortest form. A response body ends with a line feed, which the caller adds.

use pintle_fieldpath::set::is_sorted_text;
use pintle_value::Value;
use pintle_value::print::{is_plain_text_in_json, json_float};

use super::indent::indent;
use super::word::{repeated, zero_bytes};

/// Encodes a value as JSON with sorted keys.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    encode_into(value, &mut out);
    out
}

/// Appends the JSON of a value with sorted keys.
pub fn encode_into(value: &Value, out: &mut Vec<u8>) {
    encode_with(value, write_float, out);
}

/// Appends the JSON that [`encode_into`] makes of a value after it was encoded and decoded again. A negative zero is
/// encoded as `-0`, which is decoded as the integer 0.
pub fn encode_decoded_again(value: &Value, out: &mut Vec<u8>) {
    encode_with(value, |f, out| if f == 0.0 { out.push(b'0') } else { write_float(f, out) }, out);
}

fn encode_with(value: &Value, write_float: fn(f64, &mut Vec<u8>), out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(i) => write_int(*i, out),
        Value::Float(f) => write_float(*f, out),
        Value::String(s) => write_string(s, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                encode_with(item, write_float, out);
            }
            out.push(b']');
        }
        Value::Object(object) => {
            if let Some(encoded) = object.encoded().filter(|encoded| encoded.is_sorted_by(is_sorted_text)) {
                return out.extend_from_slice(encoded.text().as_bytes());
            }
            out.push(b'{');
            for (i, (key, value)) in object.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                encode_with(value, write_float, out);
            }
            out.push(b'}');
        }
    }
}

/// Encodes a value as JSON with two spaces of indentation per level, for `?pretty=1`.
#[must_use]
pub fn encode_pretty(value: &Value) -> Vec<u8> {
    indent(&encode(value))
}

pub(super) fn write_int(i: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(i).as_bytes());
}

/// Appends a float as Go does, with an exponent only below 1e-6 and from 1e21 on. NaN and infinities, which JSON cannot
/// express, become null.
pub(super) fn write_float(f: f64, out: &mut Vec<u8>) {
    match f.is_finite() {
        true => out.extend_from_slice(json_float(f).as_bytes()),
        false => out.extend_from_slice(b"null"),
    }
}

/// How to write each byte of a string. 0 means unchanged, and `u` means a `\u00XX` escape. `E2` may begin one of the
/// two line separators. Anything else is the character after a backslash.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 0x20 {
        table[i] = b'u';
        i += 1;
    }
    table[0x08] = b'b';
    table[0x0c] = b'f';
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'<' as usize] = b'u';
    table[b'>' as usize] = b'u';
    table[b'&' as usize] = b'u';
    table[0xe2] = 0xe2;
    table
};

/// True if a byte of the word may need an escape.
fn needs_escape(word: &[u8; 8]) -> bool {
    let word = u64::from_le_bytes(*word);
    let controls = zero_bytes(word & repeated(0xe0));
    // `"` and `&`, and `<` and `>`, differ in one bit each.
    let quotes = zero_bytes((word | repeated(0x04)) ^ repeated(b'&'));
    let angles = zero_bytes((word | repeated(0x02)) ^ repeated(b'>'));
    let backslashes = zero_bytes(word ^ repeated(b'\\'));
    // The first byte of U+2028 and U+2029.
    let separators = zero_bytes(word ^ repeated(0xe2));
    controls | quotes | angles | backslashes | separators != 0
}

/// Appends a string with its quotes, with Go's escapes, which include the characters that are special in HTML.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    if is_plain_text_in_json(bytes) {
        out.extend_from_slice(bytes);
    } else {
        write_escaped(bytes, out);
    }
    out.push(b'"');
}

/// Appends text with its escapes.
fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let (words, _) = bytes.as_chunks();
    let mut i = 8 * words.iter().position(needs_escape).unwrap_or(words.len());
    let mut done = 0;
    while let Some(&byte) = bytes.get(i) {
        let escape = ESCAPES[usize::from(byte)];
        if escape == 0 {
            i += 1;
            continue;
        }
        if escape == 0xe2 {
            if let Some([0x80, last @ (0xa8 | 0xa9)]) = bytes.get(i + 1..i + 3) {
                out.extend_from_slice(&bytes[done..i]);
                out.extend_from_slice(b"\\u202");
                out.push(HEX[usize::from(last & 0xf)]);
                i += 3;
                done = i;
            } else {
                i += 1;
            }
            continue;
        }
        out.extend_from_slice(&bytes[done..i]);
        if escape == b'u' {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0xf)]);
        } else {
            out.extend_from_slice(&[b'\\', escape]);
        }
        i += 1;
        done = i;
    }
    out.extend_from_slice(&bytes[done..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_escaped_at_every_place_of_a_long_text() {
        let written = |text: &str| {
            let mut out = Vec::new();
            write_string(text, &mut out);
            String::from_utf8(out).expect("UTF-8")
        };
        for byte in 0..=0x7f_u8 {
            let escaped = match ESCAPES[usize::from(byte)] {
                0 => char::from(byte).to_string(),
                b'u' => format!("\\u{byte:04x}"),
                short => format!("\\{}", char::from(short)),
            };
            for at in 0..20 {
                let [before, after] = [at, 19 - at].map(|length| "a".repeat(length));
                let text = format!("{before}{}{after}", char::from(byte));
                assert_eq!(written(&text), format!("\"{before}{escaped}{after}\""));
            }
        }
        for length in 0..20 {
            assert_eq!(written(&"é".repeat(length)), format!("\"{}\"", "é".repeat(length)));
        }
        assert_eq!(written("aaaaaaaaaaa\u{2028}b"), "\"aaaaaaaaaaa\\u2028b\"");
        assert_eq!(written("aaaaaaaa\u{2013}b"), "\"aaaaaaaa\u{2013}b\"");
    }
}
