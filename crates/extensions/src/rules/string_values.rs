//! Strings that CEL sees as other types: timestamps, durations, bytes. They are parsed as in kube-openapi's `strfmt`.

use pintle_cel::{CelBytes, Timestamp, Value};
use pintle_value::time::Time;

use crate::schema::{SchemaNode, parse_duration};

/// The CEL type of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringKind {
    /// A string.
    Plain,
    /// Base64-encoded bytes.
    Bytes,
    /// A duration.
    Duration,
    /// A date.
    Date,
    /// A date-time.
    DateTime,
}

impl StringKind {
    /// Returns the kind of a node's strings. Only these exact format names count, although validation accepts other
    /// spellings.
    pub(super) fn of(node: SchemaNode<'_>) -> Self {
        match node.format().map_or("", |(name, _)| name) {
            "byte" => Self::Bytes,
            "duration" => Self::Duration,
            "date" => Self::Date,
            "date-time" => Self::DateTime,
            _ => Self::Plain,
        }
    }
}

/// Converts a string to a CEL value, or returns upstream's error.
pub(super) fn read(text: StringKind, written: &str) -> Result<Value<'_>, String> {
    let time = |time: Time| {
        let time = Timestamp::new(time.seconds, time.nanos);
        time.map(Value::Timestamp).map_err(|error| error.to_string())
    };
    match text {
        StringKind::Plain => Ok(Value::str(written)),
        // Validation requires the standard alphabet, but upstream decodes with the URL alphabet here.
        StringKind::Bytes => match decode(written.as_bytes()) {
            Ok(bytes) => Ok(Value::Bytes(CelBytes::Owned(bytes.into()))),
            Err(at) => Err(format!("Invalid byte formatted string {written}: illegal base64 data at input byte {at}")),
        },
        StringKind::Duration => {
            parse_duration(written).map(Value::Duration).map_err(|error| format!("Invalid duration {written}: {error}"))
        }
        StringKind::Date => match Time::parse_date(written) {
            Ok(date) => time(date),
            Err(error) => Err(format!("Invalid date formatted string {written}: {error}")),
        },
        StringKind::DateTime if written.is_empty() => time(Time::default()),
        StringKind::DateTime => match Timestamp::parse(written) {
            Some(Ok(time)) => Ok(Value::Timestamp(time)),
            _ => match Time::parse_local(written) {
                Ok(local) => time(local),
                Err(error) => Err(format!("Invalid date-time formatted string {written}: {error}")),
            },
        },
    }
}

/// Decodes base64 with the URL alphabet. The error is the offset that Go reports.
fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    // Line breaks are ignored.
    let mut characters = text.iter().copied().enumerate().filter(|(_, b)| !matches!(b, b'\r' | b'\n'));
    let (mut bits, mut count, mut start) = (0_u32, 0, 0);
    while let Some((at, character)) = characters.next() {
        if character == b'=' {
            // Two or three characters encode one or two bytes, padded to four characters.
            match (count, characters.next()) {
                (3, None) => {}
                (2, Some((_, b'='))) => match characters.next() {
                    None => {}
                    Some((at, _)) => return Err(at),
                },
                (2, Some((at, _))) => return Err(at - 1),
                (2, None) => return Err(text.len()),
                (3, Some((at, _))) => return Err(at),
                _ => return Err(at),
            }
            let whole = bits << (6 * (4 - count));
            bytes.extend_from_slice(&whole.to_be_bytes()[1..count]);
            return Ok(bytes);
        }
        if count == 0 {
            start = at;
        }
        bits = bits << 6 | sextet(character).ok_or(at)?;
        count += 1;
        if count == 4 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    if count == 0 { Ok(bytes) } else { Err(start) }
}

fn sextet(character: u8) -> Option<u32> {
    Some(u32::from(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<&[u8], usize>) {
        assert_eq!(decode(text.as_bytes()).as_deref().map_err(|at| *at), expect, "{text}");
    }

    #[test]
    fn base64_errors_match_go() {
        check("", Ok(b""));
        check("aGVsbG8=", Ok(b"hello"));
        check("aGVs\nbG8=\n", Ok(b"hello"));
        check("aGVsbA==", Ok(b"hell"));
        check("_-8=", Ok(&[0xff, 0xef]));
        check("/+8=", Err(0));
        check("aGVs/G8=", Err(4));
        check("aGVsbG8", Err(4));
        check("aGVsb", Err(4));
        check("aGVsbA=", Err(7));
        check("aGVsbA=b", Err(6));
        check("aGVsbG8=b", Err(8));
        check("a===", Err(1));
        check("=", Err(0));
    }
}
