//! Text as Go has it: as `encoding/json` makes it of bytes, and as `strconv` prints it, for messages.

use std::fmt::Write;

use pintle_value::Str;

/// Bytes as the text that Go's `encoding/json` makes of them: every byte that is not part of a character becomes U+FFFD.
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
            // Rust's `Debug` escapes what is not printable; combining marks are the only printable ones that it escapes too.
            _ if c.escape_debug().len() == 1 => out.push(c),
            '\u{300}'..='\u{36f}' => out.push(c),
            '\0'..='\u{ffff}' => write_escape(&mut out, format_args!("\\u{:04x}", u32::from(c))),
            _ => write_escape(&mut out, format_args!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

fn write_escape(out: &mut String, escape: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(escape);
}
