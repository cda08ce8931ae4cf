//! CBOR as people read it (RFC 8949 §8), for the messages that show what a client sent.

use std::fmt::Write;

use pintle_value::float::{positional, scientific};

use super::check::{Limits, well_formed};
use super::reader::{FALSE, Head, INDEFINITE, Major, NULL, Reader, TRUE, UNDEFINED};

/// The diagnostic notation of an item; hexadecimal digits of what is none.
#[must_use]
pub fn diagnostic(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    if well_formed(bytes, Limits::default()).is_err() {
        hex(bytes, &mut out);
        return out;
    }
    item(&mut Reader::new(bytes), &mut out);
    out
}

fn item(reader: &mut Reader<'_>, out: &mut String) {
    let (major, initial) = (reader.major(), reader.peek());
    match major {
        Major::Bytes | Major::Text if initial & 0x1f == INDEFINITE => string_of_chunks(reader, major, out),
        Major::Bytes => {
            let bytes = reader.byte_string();
            match std::str::from_utf8(&bytes) {
                Ok(text) if !text.is_empty() => quoted(text, '\'', out),
                _ => {
                    out.push_str("h'");
                    hex(&bytes, out);
                    out.push('\'');
                }
            }
        }
        Major::Text => quoted(&reader.text_string().unwrap_or_default(), '"', out),
        Major::Array => listed(reader, ('[', ']'), out, item),
        Major::Map => listed(reader, ('{', '}'), out, |reader, out| {
            item(reader, out);
            out.push_str(": ");
            item(reader, out);
        }),
        // Writing to a string cannot fail, here and below.
        Major::Positive => drop(write!(out, "{}", reader.head().argument)),
        Major::Negative => drop(write!(out, "{}", -1 - i128::from(reader.head().argument))),
        Major::Tag => {
            let _ = write!(out, "{}(", reader.head().argument);
            item(reader, out);
            out.push(')');
        }
        Major::Primitive => primitive(initial, reader.head(), out),
    }
}

fn primitive(initial: u8, head: Head, out: &mut String) {
    match (initial, Reader::float(head)) {
        (_, Some(number)) => float(number, out),
        (FALSE, _) => out.push_str("false"),
        (TRUE, _) => out.push_str("true"),
        (NULL, _) => out.push_str("null"),
        (UNDEFINED, _) => out.push_str("undefined"),
        _ => drop(write!(out, "simple({})", head.argument)),
    }
}

fn listed(
    reader: &mut Reader<'_>,
    (open, close): (char, char),
    out: &mut String,
    each: fn(&mut Reader<'_>, &mut String),
) {
    let head = reader.head();
    out.push(open);
    if head.info == INDEFINITE {
        out.push_str("_ ");
    }
    all_of(head, reader, out, each);
    out.push(close);
}

/// What a head says that follows, with commas between.
fn all_of(head: Head, reader: &mut Reader<'_>, out: &mut String, each: fn(&mut Reader<'_>, &mut String)) {
    let mut done = 0;
    while reader.more(head, done) {
        if done > 0 {
            out.push_str(", ");
        }
        done += 1;
        each(reader, out);
    }
}

fn string_of_chunks(reader: &mut Reader<'_>, major: Major, out: &mut String) {
    let head = reader.head();
    if reader.peek() == super::reader::BREAK {
        reader.found_break();
        out.push_str(if major == Major::Bytes { "''_" } else { "\"\"_" });
        return;
    }
    out.push_str("(_ ");
    all_of(head, reader, out, item);
    out.push(')');
}

fn quoted(text: &str, quote: char, out: &mut String) {
    out.push(quote);
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push(quote);
}

fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

fn float(number: f64, out: &mut String) {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        out.push_str(&positional(number));
        if number.fract() == 0.0 {
            out.push_str(".0");
        }
        return;
    }
    let text = scientific(number);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    let _ = write!(out, "{digits}{point}e{sign}{exponent}");
}
