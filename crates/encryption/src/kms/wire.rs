//! Reads the wire form of Protobuf as Go's library does. A known field with another wire type than its own is skipped like an
//! unknown field.

/// The largest number of a field.
const MAX_FIELD: u64 = (1 << 29) - 1;
/// The largest number of a field within a group that Go skips.
const MAX_SKIPPED_FIELD: u64 = i32::MAX as u64;
/// The maximum depth of groups.
const MAX_DEPTH: usize = 10_000;

/// The text of Go's error for a malformed message.
pub(super) const MALFORMED: &str = "proto: cannot parse invalid wire-format data";

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireValue<'m> {
    Varint(u64),
    Bytes(&'m [u8]),
    /// A value of any other wire type.
    Other,
}

/// The fields of a message. It ends after the first malformed field, which is `None`.
#[derive(Debug)]
pub(super) struct Fields<'m> {
    rest: &'m [u8],
}

impl<'m> Fields<'m> {
    pub(super) fn of(message: &'m [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for (position, byte) in self.rest.iter().enumerate().take(10) {
            if position == 9 && *byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if *byte < 0x80 {
                self.rest = &self.rest[position + 1..];
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'m [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// The number and the wire type of a field.
    fn tag(&mut self, max: u64) -> Option<(u64, u64)> {
        let tag = self.varint()?;
        let number = tag >> 3;
        (1..=max).contains(&number).then_some((number, tag & 7))
    }

    fn field(&mut self) -> Option<(u64, WireValue<'m>)> {
        let (number, wire_type) = self.tag(MAX_FIELD)?;
        let value = match wire_type {
            3 => {
                self.skip_group(number)?;
                WireValue::Other
            }
            _ => self.value(wire_type)?,
        };
        Some((number, value))
    }

    fn value(&mut self, wire_type: u64) -> Option<WireValue<'m>> {
        Some(match wire_type {
            0 => WireValue::Varint(self.varint()?),
            1 => self.take(8).map(|_| WireValue::Other)?,
            2 => {
                let length = self.varint()?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| WireValue::Other)?,
            _ => return None,
        })
    }

    fn skip_group(&mut self, number: u64) -> Option<()> {
        let mut open = vec![number];
        while let Some(innermost) = open.last().copied() {
            let (number, wire_type) = self.tag(MAX_SKIPPED_FIELD)?;
            match wire_type {
                3 if open.len() > MAX_DEPTH => return None,
                3 => open.push(number),
                4 if number == innermost => drop(open.pop()),
                _ => drop(self.value(wire_type)?),
            }
        }
        Some(())
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Option<(u64, WireValue<'m>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Appends a varint.
pub(super) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the tag of a field with bytes, and their length.
pub(super) fn write_length(number: u8, length: usize, out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    write_varint(length as u64, out);
}

/// Appends a field with bytes.
pub(super) fn write_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    write_length(number, bytes.len(), out);
    out.extend_from_slice(bytes);
}
