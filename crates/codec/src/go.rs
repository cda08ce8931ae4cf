//! Go's string conversions: from bytes as `encoding/json` does it, and quoting for messages as `strconv` does it.

use std::fmt::Write;

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

/// `strconv.Quote`: a Go string literal. (Which characters count as printable follows Rust's tables for `Debug`.)
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(c),
            '\0'..='\u{7f}' => write_escape(&mut out, format_args!("\\x{:02x}", u32::from(c))),
            _ if is_printable(c) => out.push(c),
            '\0'..='\u{ffff}' => write_escape(&mut out, format_args!("\\u{:04x}", u32::from(c))),
            _ => write_escape(&mut out, format_args!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// A character is printable if Rust does not escape it. Rust also escapes combining marks at the start of a string,
/// which Go prints, so a letter is put in front.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'a'; 5];
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..length]).is_ok_and(|text| text.escape_debug().count() == 2)
}

fn write_escape(out: &mut String, escape: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(escape);
}
