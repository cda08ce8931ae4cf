//! Renders a response body as text that keeps every detail of the encoding. The details are the order of fields, the
//! spelling of numbers and strings, and the wire types of binary formats.
//!
//! JSON and YAML are text already. CBOR and Protobuf become an indented tree. So a difference can be read, and values
//! that vary can be found in the tree.

use std::fmt::Write as _;

/// The magic number before Kubernetes objects in Protobuf.
const PROTOBUF_MAGIC: &[u8] = b"k8s\0";

/// Renders a body of this media type.
pub(crate) fn render(media_type: &str, body: &[u8]) -> String {
    if media_type.starts_with("application/vnd.kubernetes.protobuf") && !media_type.contains("stream=watch") {
        return protobuf(body.strip_prefix(PROTOBUF_MAGIC).unwrap_or(body));
    }
    if media_type.starts_with("application/vnd.kubernetes.protobuf") {
        return protobuf_stream(body);
    }
    if media_type.starts_with("application/cbor") {
        return cbor(body);
    }
    match std::str::from_utf8(body) {
        Ok(text) => text.to_owned(),
        Err(_) => hex(body),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("h'"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }) + "'"
}

/// Renders a message without its schema. A length-delimited field is rendered as text if it is printable. Otherwise it
/// is rendered as a message if it can be read as a message, and else as bytes.
fn protobuf(body: &[u8]) -> String {
    let mut out = String::new();
    if !message(&mut out, body, 0) {
        return hex(body);
    }
    out
}

/// Renders the frames of a watch. Before each frame is its length in four bytes.
fn protobuf_stream(mut body: &[u8]) -> String {
    let mut out = String::new();
    while let Some((length, rest)) = body.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((frame, rest)) = rest.split_at_checked(length) else { break };
        let _ = writeln!(out, "frame\n{}", protobuf(frame));
        body = rest;
    }
    if !body.is_empty() {
        out.push_str(&hex(body));
    }
    out
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Writes the fields of a message. If the bytes are not a message, returns false and leaves `out` unchanged.
fn message(out: &mut String, mut bytes: &[u8], depth: usize) -> bool {
    let start = out.len();
    while !bytes.is_empty() {
        if field(out, &mut bytes, depth).is_none() {
            out.truncate(start);
            return false;
        }
    }
    true
}

fn field(out: &mut String, bytes: &mut &[u8], depth: usize) -> Option<()> {
    let tag = varint(bytes)?;
    let number = tag >> 3;
    if number == 0 || number > 20_000 {
        return None;
    }
    let _ = write!(out, "{:depth$}{number}: ", "");
    match tag & 7 {
        0 => {
            let value = varint(bytes)?;
            let _ = writeln!(out, "{value}");
        }
        1 => {
            let (value, rest) = bytes.split_first_chunk::<8>()?;
            let _ = writeln!(out, "fixed64 {}", u64::from_le_bytes(*value));
            *bytes = rest;
        }
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            let (value, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            content(out, value, depth);
        }
        5 => {
            let (value, rest) = bytes.split_first_chunk::<4>()?;
            let _ = writeln!(out, "fixed32 {}", u32::from_le_bytes(*value));
            *bytes = rest;
        }
        _ => return None,
    }
    Some(())
}

fn content(out: &mut String, value: &[u8], depth: usize) {
    let printable = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if let Some(object) = value.strip_prefix(PROTOBUF_MAGIC) {
        out.push_str("object\n");
        if !message(out, object, depth + 1) {
            let _ = writeln!(out, "{}", hex(object));
        }
        return;
    }
    match std::str::from_utf8(value) {
        Ok(text) if text.chars().all(printable) => {
            let _ = writeln!(out, "{text:?}");
        }
        _ => {
            out.push('\n');
            if !message(out, value, depth + 1) {
                let _ = writeln!(out, "{:depth$} {}", "", hex(value));
            }
        }
    }
}

/// Renders one or more CBOR items, one per line, in diagnostic notation. It shows argument widths that are longer than
/// needed.
fn cbor(body: &[u8]) -> String {
    let (mut out, mut rest) = (String::new(), body);
    while !rest.is_empty() {
        if cbor_item(&mut out, &mut rest, 0).is_none() {
            let _ = write!(out, "!{}", hex(rest));
            break;
        }
        out.push('\n');
    }
    out
}

fn cbor_item(out: &mut String, bytes: &mut &[u8], depth: usize) -> Option<()> {
    if depth > 200 {
        return None;
    }
    let (head, rest) = bytes.split_first()?;
    *bytes = rest;
    let (major, short) = (head >> 5, head & 0x1f);
    let width = match short {
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        _ => 0,
    };
    let (argument, rest) = bytes.split_at_checked(width)?;
    *bytes = rest;
    let argument = if width == 0 { u64::from(short) } else { argument.iter().fold(0, |n, b| n << 8 | u64::from(*b)) };
    let is_indefinite = short == 31;
    match major {
        0 => {
            let _ = write!(out, "{argument}");
        }
        1 => {
            let _ = write!(out, "-1-{argument}");
        }
        2 | 3 if is_indefinite => {
            out.push_str("(_ ");
            while *bytes.first()? != 0xff {
                cbor_item(out, bytes, depth + 1)?;
                out.push(' ');
            }
            *bytes = &bytes[1..];
            out.push(')');
        }
        2 | 3 => {
            let (value, rest) = bytes.split_at_checked(usize::try_from(argument).ok()?)?;
            *bytes = rest;
            match std::str::from_utf8(value) {
                Ok(text) => {
                    // Kubernetes writes strings as byte strings.
                    let _ = write!(out, "{}{text:?}", if major == 3 { "text " } else { "" });
                }
                Err(_) => out.push_str(&hex(value)),
            }
        }
        4 | 5 => {
            out.push(if major == 4 { '[' } else { '{' });
            out.push_str(if is_indefinite { "_ " } else { "" });
            let mut left = if is_indefinite { u64::MAX } else { argument };
            let mut items = Vec::new();
            while left > 0 {
                if is_indefinite && *bytes.first()? == 0xff {
                    *bytes = &bytes[1..];
                    break;
                }
                let mut item = String::new();
                cbor_item(&mut item, bytes, depth + 1)?;
                if major == 5 {
                    item.push_str(": ");
                    cbor_item(&mut item, bytes, depth + 1)?;
                }
                items.push(item);
                left -= 1;
            }
            // Upstream shuffles the members of maps on purpose.
            if major == 5 {
                items.sort_unstable();
            }
            out.push_str(&items.join(", "));
            out.push(if major == 4 { ']' } else { '}' });
        }
        6 => {
            let _ = write!(out, "tag{argument} ");
            cbor_item(out, bytes, depth + 1)?;
        }
        _ => match short {
            20 => out.push_str("false"),
            21 => out.push_str("true"),
            22 => out.push_str("null"),
            _ => {
                let _ = write!(out, "simple{width}:{argument}");
            }
        },
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn protobuf_bodies_become_trees() {
        let body = b"k8s\0\x0a\x04\x0a\x02v1\x12\x03\x08\x96\x01";
        let found = render("application/vnd.kubernetes.protobuf", body);
        // Nested messages are tried only for bytes that are not text, such as these four bytes with a control
        // character.
        assert_eq!(found, "1: \"\\n\\u{2}v1\"\n2: \n 1: 150\n".replace("\"\\n\\u{2}v1\"", "\n 1: \"v1\""));
    }

    #[test]
    fn cbor_bodies_become_diagnostic_notation() {
        let body = [0xa1, 0x41, b'a', 0x83, 0x18, 0x20, 0xf6, 0x61, b'b'];
        assert_eq!(render("application/cbor", &body), "{\"a\": [32, null, text \"b\"]}\n");
    }
}
