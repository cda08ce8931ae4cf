//! CBOR diagnostic notation (RFC 8949, section 8), for messages that show what a client sent.

use std::fmt::Write;

use pintle_value::float::{positional, scientific};

use super::check::{Limits, check_well_formed};
use super::reader::{FALSE, Head, INDEFINITE, ItemReader, MajorType, NULL, TRUE, UNDEFINED};

/// The diagnostic notation of an item. Malformed bytes are printed in hexadecimal.
#[must_use]
pub fn diagnostic(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    if check_well_formed(bytes, Limits::default()).is_err() {
        write_hex(bytes, &mut out);
        return out;
    }
    write_item(&mut ItemReader::new(bytes), &mut out);
    out
}

fn write_item(reader: &mut ItemReader<'_>, out: &mut String) {
    let (major, initial) = (reader.major(), reader.peek());
    match major {
        MajorType::Bytes | MajorType::Text if initial & 0x1f == INDEFINITE => write_chunked_string(reader, major, out),
        MajorType::Bytes => {
            let bytes = reader.byte_string();
            match std::str::from_utf8(&bytes) {
                Ok(text) if !text.is_empty() => write_quoted(text, '\'', out),
                _ => {
                    out.push_str("h'");
                    write_hex(&bytes, out);
                    out.push('\'');
                }
            }
        }
        MajorType::Text => write_quoted(&reader.text_string().unwrap_or_default(), '"', out),
        MajorType::Array => write_container(reader, ('[', ']'), out, write_item),
        MajorType::Map => write_container(reader, ('{', '}'), out, |reader, out| {
            write_item(reader, out);
            out.push_str(": ");
            write_item(reader, out);
        }),
        // Writing to a string cannot fail, here and below.
        MajorType::Positive => drop(write!(out, "{}", reader.head().argument)),
        MajorType::Negative => drop(write!(out, "{}", -1 - i128::from(reader.head().argument))),
        MajorType::Tag => {
            let _ = write!(out, "{}(", reader.head().argument);
            write_item(reader, out);
            out.push(')');
        }
        MajorType::Primitive => write_primitive(initial, reader.head(), out),
    }
}

fn write_primitive(initial: u8, head: Head, out: &mut String) {
    match (initial, ItemReader::float(head)) {
        (_, Some(number)) => write_float(number, out),
        (FALSE, _) => out.push_str("false"),
        (TRUE, _) => out.push_str("true"),
        (NULL, _) => out.push_str("null"),
        (UNDEFINED, _) => out.push_str("undefined"),
        _ => drop(write!(out, "simple({})", head.argument)),
    }
}

fn write_container(
    reader: &mut ItemReader<'_>,
    (open, close): (char, char),
    out: &mut String,
    write_one: fn(&mut ItemReader<'_>, &mut String),
) {
    let head = reader.head();
    out.push(open);
    if head.info == INDEFINITE {
        out.push_str("_ ");
    }
    write_items(head, reader, out, write_one);
    out.push(close);
}

/// Writes the items after a head, separated by commas.
fn write_items(
    head: Head,
    reader: &mut ItemReader<'_>,
    out: &mut String,
    write_one: fn(&mut ItemReader<'_>, &mut String),
) {
    let mut done = 0;
    while reader.has_next(head, done) {
        if done > 0 {
            out.push_str(", ");
        }
        done += 1;
        write_one(reader, out);
    }
}

fn write_chunked_string(reader: &mut ItemReader<'_>, major: MajorType, out: &mut String) {
    let head = reader.head();
    if reader.peek() == super::reader::BREAK {
        reader.skip_break();
        out.push_str(if major == MajorType::Bytes { "''_" } else { "\"\"_" });
        return;
    }
    out.push_str("(_ ");
    write_items(head, reader, out, write_item);
    out.push(')');
}

fn write_quoted(text: &str, quote: char, out: &mut String) {
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

fn write_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

fn write_float(number: f64, out: &mut String) {
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
