//! The wire format: tags, varints, lengths, and how to skip unknown fields. Errors have gogo's messages.

use pintle_schema::bare_name;
use thiserror::Error;

/// Why bytes are not a valid message, with the messages of a Go server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// A varint has more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length is negative (as a signed integer).
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// An end-group tag without a start-group tag.
    #[error("proto: unexpected end of group")]
    EndOfGroup,
    /// Any other error, with the message of gogo, or of the type that rejects its content.
    #[error("{0}")]
    Malformed(String),
}

/// The wire types.
pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Reads the bytes of a message.
pub(super) struct WireReader<'a> {
    bytes: &'a [u8],
    /// The length of the message in bytes.
    total: usize,
}

impl<'a> WireReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, total: bytes.len() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number of unread bytes.
    pub(super) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        // Most varints have one byte.
        if let [byte, rest @ ..] = self.bytes
            && byte & 0x80 == 0
        {
            self.bytes = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for (i, byte) in self.bytes.iter().enumerate() {
            if i == 10 {
                return Err(DecodeError::Overflow);
            }
            // As in Go, bits beyond the 64th are dropped.
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err(if self.bytes.len() > 9 { DecodeError::Overflow } else { DecodeError::UnexpectedEof })
    }

    /// Reads a varint of zero or an empty string, if that is next.
    pub(super) fn skip_zero(&mut self) -> bool {
        let Some(rest) = self.bytes.strip_prefix(&[0]) else { return false };
        self.bytes = rest;
        true
    }

    /// Reads the next field's number and wire type. `name` is the type of the message.
    pub(super) fn tag(&mut self, name: &str) -> Result<(u32, u8), DecodeError> {
        let tag = self.varint()?;
        let wire_type = (tag & 7) as u8;
        // Go converts the number to a signed 32-bit integer.
        let number = (tag >> 3) as u32;
        if wire_type == END_GROUP {
            let name = bare_name(name);
            return Err(DecodeError::Malformed(format!("proto: {name}: wiretype end group for non-group")));
        }
        if number == 0 || number > i32::MAX as u32 {
            let (name, number) = (bare_name(name), number as i32);
            return Err(DecodeError::Malformed(format!("proto: {name}: illegal tag {number} (wire type {tag})")));
        }
        Ok((number, wire_type))
    }

    /// Reads the next field's number and wire type in a map entry, which generated code does not validate.
    pub(super) fn map_entry_tag(&mut self) -> Result<(u32, u8), DecodeError> {
        let tag = self.varint()?;
        Ok(((tag >> 3) as u32, (tag & 7) as u8))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.varint()?;
        // Go checks the sign of the length and of the index of its end.
        let consumed = (self.total - self.bytes.len()) as u64;
        if length > i64::MAX as u64 - consumed {
            return Err(DecodeError::NegativeLength);
        }
        let length = usize::try_from(length).map_err(|_| DecodeError::NegativeLength)?;
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(DecodeError::UnexpectedEof)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let (taken, rest) = self.bytes.split_first_chunk::<8>().ok_or(DecodeError::UnexpectedEof)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*taken))
    }

    /// Skips an unknown field.
    pub(super) fn skip(&mut self, wire_type: u8) -> Result<(), DecodeError> {
        let mut depth = 0usize;
        let mut wire_type = wire_type;
        loop {
            match wire_type {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.fixed64()?),
                BYTES => drop(self.bytes()?),
                FIXED32 => self.bytes = self.bytes.get(4..).ok_or(DecodeError::UnexpectedEof)?,
                START_GROUP => depth += 1,
                END_GROUP => depth = depth.checked_sub(1).ok_or(DecodeError::EndOfGroup)?,
                other => return Err(DecodeError::Malformed(format!("proto: illegal wireType {other}"))),
            }
            if depth == 0 {
                return Ok(());
            }
            wire_type = (self.varint()? & 7) as u8;
        }
    }
}

pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The encoded length of a varint.
pub(super) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

pub(super) fn write_tag(number: u32, wire_type: u8, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | u64::from(wire_type), out);
}

pub(super) fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_tag(number, BYTES, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a length-delimited field whose bytes `write` appends.
pub(super) fn write_nested(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    // Most nested messages need a one-byte length.
    write_length_delimited::<1>(number, out, write);
}

/// The same, optimized for messages longer than 127 bytes, as most objects are.
pub(super) fn write_object(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_length_delimited::<2>(number, out, write);
}

/// Reserves `ROOM` bytes for the length. If the length needs more or fewer, the message is moved.
fn write_length_delimited<const ROOM: usize>(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_tag(number, BYTES, out);
    let start = out.len();
    out.extend_from_slice(&[0; ROOM]);
    write(out);
    let length = out.len() - start - ROOM;
    let needed = varint_len(length as u64);
    if needed != ROOM {
        let end = out.len();
        out.resize(end.max(start + needed + length), 0);
        out.copy_within(start + ROOM..end, start + needed);
        out.truncate(start + needed + length);
    }
    let mut rest = length;
    for byte in &mut out[start..start + needed] {
        *byte = (rest & 0x7f) as u8 | 0x80;
        rest >>= 7;
    }
    out[start + needed - 1] &= 0x7f;
}
