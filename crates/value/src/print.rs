//! Prints values as Go does: quoted (`%q`), as JSON (`json.Marshal`) and plain (`%v`). API error messages contain these
//! forms, and clients match on them.

use std::fmt::Write as _;

use crate::Value;
use crate::float::{positional, scientific};

/// Returns whether Go considers the character printable (`unicode.IsPrint`): letters, marks, numbers, punctuation,
/// symbols and the space.
#[must_use]
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // Rust escapes the same categories, but also combining marks at the start of a string.
    let mut buffer = [b'a'; 5];
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let text = str::from_utf8(&buffer[..length]).unwrap_or("");
    text.escape_debug().count() == 2
}

/// Quotes a string as Go's `%q` does.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{07}' => out.push_str("\\a"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0b}' => out.push_str("\\v"),
            '\u{0c}' => out.push_str("\\f"),
            c if is_print(c) => out.push(c),
            c => {
                let code = u32::from(c);
                let _ = match code {
                    0..0x20 | 0x7f => write!(out, "\\x{code:02x}"),
                    0..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// Encodes a value as `json.Marshal` does: sorted keys and HTML escapes.
#[must_use]
pub fn json(value: &Value) -> String {
    json_ordered(value, &[], &[])
}

/// Encodes a value as `json.Marshal` encodes structs: the fields in the order of `order`, then the others sorted by
/// name. The fields in `maps` are Go maps, whose keys are sorted.
#[must_use]
pub fn json_ordered(value: &Value, order: &[&str], maps: &[&str]) -> String {
    let mut out = String::new();
    write_json(&mut out, value, order, maps);
    out
}

fn write_json(out: &mut String, value: &Value, order: &[&str], maps: &[&str]) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(i) => {
            let _ = write!(out, "{i}");
        }
        Value::Float(x) => out.push_str(&json_float(*x)),
        Value::String(text) => json_string(out, text),
        Value::Array(items) => {
            out.push('[');
            separated(out, ',', items, |out, item| write_json(out, item, order, maps));
            out.push(']');
        }
        Value::Object(object) => {
            let mut entries: Vec<(&str, &Value)> = object.iter().collect();
            // The sort is stable, so fields that are not in `order` stay sorted by name.
            entries.sort_by_key(|(key, _)| order.iter().position(|o| o == key).unwrap_or(usize::MAX));
            out.push('{');
            separated(out, ',', entries, |out, (key, value)| {
                json_string(out, key);
                out.push(':');
                write_json(out, value, if maps.contains(&key) { &[] } else { order }, maps);
            });
            out.push('}');
        }
    }
}

/// Writes items with a separator between them.
fn separated<T>(out: &mut String, separator: char, items: impl IntoIterator<Item = T>, write: impl Fn(&mut String, T)) {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(separator);
        }
        write(out, item);
    }
}

/// Appends a string as `json.Marshal` encodes it, including the quotes.
pub fn json_string(out: &mut String, text: &str) {
    out.push('"');
    if is_plain_text_in_json(text.as_bytes()) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// True for the ASCII characters that no encoder of JSON escapes. Most strings consist of them.
#[must_use]
#[inline]
pub fn is_plain_in_json(byte: u8) -> bool {
    PLAIN_IN_JSON[usize::from(byte)]
}

/// True for ASCII text that no encoder of JSON escapes.
#[must_use]
pub fn is_plain_text_in_json(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk() else { return text.iter().all(|byte| is_plain_in_json(*byte)) };
    let (blocks, rest) = text.as_chunks();
    // The last word may overlap the one before.
    blocks.iter().all(is_plain_block) && rest.as_chunks().0.iter().all(is_plain_word) && is_plain_word(last)
}

/// The number of bytes that a text begins with for which [`is_plain_in_json`] is true.
#[must_use]
pub fn plain_length_in_json(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = text[at..].first_chunk() {
        match unusual_bytes(word) {
            0 => at += 8,
            found => return at + (found.trailing_zeros() / 8) as usize,
        }
    }
    at + text[at..].iter().take_while(|byte| is_plain_in_json(**byte)).count()
}

/// Like [`is_plain_text_in_json`], for 32 bytes. It has no branches, so the compiler vectorizes it.
fn is_plain_block(block: &[u8; 32]) -> bool {
    // `"` and `&`, and `<` and `>`, differ in one bit each.
    let is_unusual =
        |byte: u8| !(0x20..0x80).contains(&byte) | (byte | 0x04 == b'&') | (byte | 0x02 == b'>') | (byte == b'\\');
    !block.iter().fold(false, |found, byte| found | is_unusual(*byte))
}

/// Like [`is_plain_text_in_json`], for eight bytes at once.
fn is_plain_word(word: &[u8; 8]) -> bool {
    unusual_bytes(word) == 0
}

/// The highest bits of the bytes for which [`is_plain_in_json`] is false. The bits after the first such byte may be
/// wrong.
fn unusual_bytes(word: &[u8; 8]) -> u64 {
    const fn repeated(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let word = u64::from_le_bytes(*word);
    // Subtracting one sets the highest bit of an ASCII byte only if it is zero, or if the byte before it is.
    let controls = word.wrapping_sub(repeated(0x20));
    // `"` and `&`, and `<` and `>`, differ in one bit each.
    let quotes = ((word | repeated(0x04)) ^ repeated(b'&')).wrapping_sub(repeated(0x01));
    let angles = ((word | repeated(0x02)) ^ repeated(b'>')).wrapping_sub(repeated(0x01));
    let backslashes = (word ^ repeated(b'\\')).wrapping_sub(repeated(0x01));
    (word | controls | quotes | angles | backslashes) & repeated(0x80)
}

const PLAIN_IN_JSON: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b' ';
    while byte <= 0x7f {
        table[byte as usize] = !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&');
        byte += 1;
    }
    table
};

/// Formats a float as `json.Marshal` does: with an exponent below 1e-6 and from 1e21 on.
#[must_use]
pub fn json_float(x: f64) -> String {
    let magnitude = x.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = scientific(x);
        return if x.is_finite() && magnitude >= 1.0 { text.replace('e', "e+") } else { text };
    }
    positional(x)
}

/// Formats a float as `%v` does: with an exponent of at least two digits, below 1e-4 and from 1e6 on.
#[must_use]
pub fn plain_float(x: f64) -> String {
    let magnitude = x.abs();
    if !x.is_finite() {
        return if x.is_nan() {
            "NaN"
        } else if x > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        }
        .to_owned();
    }
    if magnitude != 0.0 && !(1e-4..1e6).contains(&magnitude) {
        let text = scientific(x);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    positional(x)
}

/// Formats a value as `%v` does after decoding into an `interface{}`: `map[a:1 b:[x y]]`.
#[must_use]
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(&mut out, value);
    out
}

/// The name of the Go type that a value has after decoding into an `interface{}`.
#[must_use]
pub const fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(i) => {
            let _ = write!(out, "{i}");
        }
        Value::Float(x) => out.push_str(&plain_float(*x)),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            separated(out, ' ', items, write_plain);
            out.push(']');
        }
        Value::Object(object) => {
            out.push_str("map[");
            separated(out, ' ', object.iter(), |out, (key, value)| {
                out.push_str(key);
                out.push(':');
                write_plain(out, value);
            });
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
        let check = |text: &str, expect: &str| assert_eq!(quote(text), expect);
        check("a\"\\\n\u{7}\u{0}", r#""a\"\\\n\a\x00""#);
        check("\u{e4}\u{301} \u{a0}\u{200b}\u{10ffff}", "\"\u{e4}\u{301} \\u00a0\\u200b\\U0010ffff\"");
        check("\u{301}\u{1f600}\u{7f}\u{85}", "\"\u{301}\u{1f600}\\x7f\\u0085\"");
    }

    #[test]
    fn plain_text_is_found_a_word_at_a_time() {
        for byte in 0..=u8::MAX {
            for (length, at) in
                [(1, 0), (7, 6), (8, 0), (8, 7), (9, 8), (16, 7), (17, 3), (32, 5), (45, 31), (45, 36), (70, 63)]
            {
                let mut text = vec![b'a'; length];
                text[at] = byte;
                assert_eq!(is_plain_text_in_json(&text), is_plain_in_json(byte), "{byte} at {at} of {length}");
                let plain = if is_plain_in_json(byte) { length } else { at };
                assert_eq!(plain_length_in_json(&text), plain, "{byte} at {at} of {length}");
            }
        }
        assert!(is_plain_text_in_json(b""));
    }

    #[test]
    fn values_are_printed_as_json_and_plain() {
        #[track_caller]
        fn check(value: impl Into<Value>, as_json: &str, as_plain: &str) {
            let value = value.into();
            assert_eq!((json(&value).as_str(), plain(&value).as_str()), (as_json, as_plain));
        }
        check(1.0, "1", "1");
        check(1e21, "1e+21", "1e+21");
        check(999_999.5, "999999.5", "999999.5");
        check(2_147_483_648.0, "2147483648", "2.147483648e+09");
        check(-1.5e-7, "-1.5e-7", "-1.5e-07");
        check(0.00001, "0.00001", "1e-05");
        check(
            object! {"b": vec![Value::Null, Value::from("<x>")], "a": object! {"k": true}},
            r#"{"a":{"k":true},"b":[null,"\u003cx\u003e"]}"#,
            "map[a:map[k:true] b:[<nil> <x>]]",
        );
    }
}
