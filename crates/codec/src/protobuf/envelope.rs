//! The framing around messages. The envelope names an object's kind (`runtime.Unknown` after the bytes `k8s\0`). Lists
//! of encoded items and the frames of a watch are framed here, too.

use pintle_value::{Str, Value};

use super::wire::{
    BYTES, DecodeError, VARINT, WireReader, varint_len, write_bytes, write_nested, write_object, write_tag,
    write_varint,
};
use crate::go::utf8 as text;

/// The prefix of every body.
pub const PREFIX: [u8; 4] = *b"k8s\0";

/// The last fields of every envelope: an empty content encoding and an empty content type.
pub const ENVELOPE_TAIL: [u8; 4] = [0x1a, 0, 0x22, 0];

/// An encoded object and the fields of its envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `apiVersion`, or empty.
    pub api_version: Str,
    /// `kind`, or empty.
    pub kind: Str,
    /// The message.
    pub raw: &'a [u8],
    /// The content encoding (compression) of the message, or empty.
    pub content_encoding: Str,
    /// The content type of the message, or empty for Protobuf.
    pub content_type: Str,
}

/// Decodes the envelope of a body.
///
/// # Errors
/// Returns an error with upstream's message if the body is empty, does not start with [`PREFIX`], or is malformed after
/// it.
pub fn open_envelope(body: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let malformed = |text: &str| Err(DecodeError::Malformed(text.to_owned()));
    if body.is_empty() {
        return malformed("empty data");
    }
    let Some(message) = body.strip_prefix(&PREFIX) else {
        return malformed("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
    };
    if message.is_empty() {
        return malformed("empty body");
    }
    let mut envelope = Envelope::default();
    let mut reader = WireReader::new(message);
    while !reader.is_empty() {
        let (number, wire_type) = reader.tag("Unknown")?;
        let name = match number {
            1 => "TypeMeta",
            2 => "Raw",
            3 => "ContentEncoding",
            4 => "ContentType",
            _ => {
                reader.skip(wire_type)?;
                continue;
            }
        };
        if wire_type != BYTES {
            return Err(DecodeError::Malformed(format!("proto: wrong wireType = {wire_type} for field {name}")));
        }
        let bytes = reader.bytes()?;
        match number {
            1 => type_meta(bytes, &mut envelope)?,
            2 => envelope.raw = bytes,
            3 => envelope.content_encoding = text(bytes),
            _ => envelope.content_type = text(bytes),
        }
    }
    Ok(envelope)
}

fn type_meta(bytes: &[u8], envelope: &mut Envelope<'_>) -> Result<(), DecodeError> {
    let mut reader = WireReader::new(bytes);
    while !reader.is_empty() {
        match reader.tag("TypeMeta")? {
            (1, BYTES) => envelope.api_version = text(reader.bytes()?),
            (2, BYTES) => envelope.kind = text(reader.bytes()?),
            (1, wire_type) => return Err(wrong_wire_type(wire_type, "APIVersion")),
            (2, wire_type) => return Err(wrong_wire_type(wire_type, "Kind")),
            (_, wire_type) => reader.skip(wire_type)?,
        }
    }
    Ok(())
}

fn wrong_wire_type(wire_type: u8, field: &str) -> DecodeError {
    DecodeError::Malformed(format!("proto: wrong wireType = {wire_type} for field {field}"))
}

/// Appends an envelope whose message `write` appends.
pub fn encode_envelope(api_version: &str, kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_envelope_head(api_version, kind, out);
    write_object(2, out, write);
    out.extend_from_slice(&ENVELOPE_TAIL);
}

fn write_envelope_head(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&PREFIX);
    write_nested(1, out, |out| {
        write_bytes(1, api_version.as_bytes(), out);
        write_bytes(2, kind.as_bytes(), out);
    });
}

/// The bytes of a list before its items. `items_len` is the total encoded length of the items ([`framed_len`]).
/// [`ENVELOPE_TAIL`] follows the items, so that a list can be streamed.
#[must_use]
pub fn list_head(api_version: &str, kind: &str, list_meta: &Value, items_len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write_envelope_head(api_version, kind, &mut out);
    let mut meta = Vec::with_capacity(64);
    write_nested(1, &mut meta, |out| {
        write_bytes(1, list_meta.str_at(&["selfLink"]).as_bytes(), out);
        write_bytes(2, list_meta.str_at(&["resourceVersion"]).as_bytes(), out);
        write_bytes(3, list_meta.str_at(&["continue"]).as_bytes(), out);
        if let Some(remaining) = list_meta.int_at(&["remainingItemCount"]) {
            write_tag(4, VARINT, out);
            write_varint(remaining as u64, out);
        }
        if let Some(shard) = list_meta.get("shardInfo") {
            write_nested(5, out, |out| write_bytes(1, shard.str_at(&["selector"]).as_bytes(), out));
        }
    });
    write_tag(2, BYTES, &mut out);
    write_varint((meta.len() + items_len) as u64, &mut out);
    out.extend_from_slice(&meta);
    out
}

/// Appends an item of a list with its tag and length. `write` appends the message.
pub fn write_item(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_object(2, out, write);
}

/// The first field of a message with its tag and length, if it is a message with this number.
#[must_use]
pub fn first_field(message: &[u8], number: u32) -> Option<&[u8]> {
    let mut reader = WireReader::new(message);
    (reader.tag("") == Ok((number, BYTES))).then_some(())?;
    reader.bytes().ok()?;
    Some(&message[..message.len() - reader.remaining()])
}

/// The encoded length of a list item whose message has this length.
#[must_use]
pub fn framed_len(item_len: usize) -> usize {
    1 + varint_len(item_len as u64) + item_len
}

/// Appends a frame of a watch: a four-byte length, then a `WatchEvent` that contains an object in its envelope, which
/// `object` appends.
pub fn watch_frame(event_type: &str, out: &mut Vec<u8>, object: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write_bytes(1, event_type.as_bytes(), out);
    write_object(2, out, |out| write_object(1, out, object));
    // An object within the size limits cannot exceed the maximum frame length.
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
