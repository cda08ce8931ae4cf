//! What is around the messages: the envelope that names an object's kind (`runtime.Unknown` after the bytes `k8s\0`),
//! lists made of finished items, and the frames of a watch.

use pintle_value::{Str, Value};

use super::wire::{
    BYTES, DecodeError, Reader, VARINT, varint_len, write_bytes, write_nested, write_object, write_tag, write_varint,
};
use crate::go::utf8 as text;

/// What every body begins with.
pub const PREFIX: [u8; 4] = *b"k8s\0";

/// What every envelope ends with: an empty content encoding and an empty content type.
pub const LIST_TAIL: [u8; 4] = [0x1a, 0, 0x22, 0];

/// An object that is still encoded, with what its envelope says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `apiVersion`, or empty.
    pub api_version: Str,
    /// `kind`, or empty.
    pub kind: Str,
    /// The message.
    pub raw: &'a [u8],
    /// How the message is compressed, or empty.
    pub content_encoding: Str,
    /// What the message is, or empty for Protobuf.
    pub content_type: Str,
}

/// Opens the envelope of a body.
///
/// # Errors
/// If the body is empty, does not begin with [`PREFIX`], or is malformed behind it; in upstream's words.
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
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        let (number, wire) = reader.tag("Unknown")?;
        let name = match number {
            1 => "TypeMeta",
            2 => "Raw",
            3 => "ContentEncoding",
            4 => "ContentType",
            _ => {
                reader.skip(wire)?;
                continue;
            }
        };
        if wire != BYTES {
            return Err(DecodeError::Malformed(format!("proto: wrong wireType = {wire} for field {name}")));
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
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.tag("TypeMeta")? {
            (1, BYTES) => envelope.api_version = text(reader.bytes()?),
            (2, BYTES) => envelope.kind = text(reader.bytes()?),
            (1, wire) => return Err(wrong(wire, "APIVersion")),
            (2, wire) => return Err(wrong(wire, "Kind")),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(())
}

fn wrong(wire: u8, field: &str) -> DecodeError {
    DecodeError::Malformed(format!("proto: wrong wireType = {wire} for field {field}"))
}

/// Appends an envelope whose message is written by `write`.
pub fn encode_envelope(api_version: &str, kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    head(api_version, kind, out);
    write_object(2, out, write);
    out.extend_from_slice(&LIST_TAIL);
}

fn head(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&PREFIX);
    write_nested(1, out, |out| {
        write_bytes(1, api_version.as_bytes(), out);
        write_bytes(2, kind.as_bytes(), out);
    });
}

/// The bytes of a list before its items, for items that together take `items_len` bytes with their heads
/// ([`framed_len`]). After the items comes [`LIST_TAIL`], so that a list is written without holding it.
#[must_use]
pub fn list_head(api_version: &str, kind: &str, list_meta: &Value, items_len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    head(api_version, kind, &mut out);
    let mut meta = Vec::with_capacity(64);
    write_nested(1, &mut meta, |out| {
        write_bytes(1, list_meta.str_at(&["selfLink"]).as_bytes(), out);
        write_bytes(2, list_meta.str_at(&["resourceVersion"]).as_bytes(), out);
        write_bytes(3, list_meta.str_at(&["continue"]).as_bytes(), out);
        if let Some(remaining) = list_meta.int_at(&["remainingItemCount"]) {
            write_tag(4, VARINT, out);
            write_varint(remaining as u64, out);
        }
    });
    write_tag(2, BYTES, &mut out);
    write_varint((meta.len() + items_len) as u64, &mut out);
    out.extend_from_slice(&meta);
    out
}

/// Appends an item of a list, whose message is appended by `write`, with what stands before it.
pub fn write_item(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_object(2, out, write);
}

/// The first field of a message, with what stands before it, if that is a message with this number.
#[must_use]
pub fn first_field(message: &[u8], number: u32) -> Option<&[u8]> {
    let mut reader = Reader::new(message);
    (reader.tag("") == Ok((number, BYTES))).then_some(())?;
    reader.bytes().ok()?;
    Some(&message[..message.len() - reader.left()])
}

/// How many bytes an item's message of this length takes in a list.
#[must_use]
pub fn framed_len(item_len: usize) -> usize {
    1 + varint_len(item_len as u64) + item_len
}

/// Appends a frame of a watch: four bytes of length, then a `WatchEvent` around an object in its envelope, which is appended
/// by `object`.
pub fn watch_frame(event_type: &str, out: &mut Vec<u8>, object: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write_bytes(1, event_type.as_bytes(), out);
    write_object(2, out, |out| write_object(1, out, object));
    // A frame longer than a length can say cannot be made of an object that passed the size limits.
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
