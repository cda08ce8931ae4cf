//! Base64 for `[]byte` fields, like Go's `encoding/base64.StdEncoding` (RFC 4648 section 4): padding is required and
//! line breaks are skipped.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The offset of the first malformed byte, as Go counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptInput(pub usize);

impl std::fmt::Display for CorruptInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "illegal base64 data at input byte {}", self.0)
    }
}

impl std::error::Error for CorruptInput {}

const fn sextet(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value as u32)
}

/// Decodes base64.
///
/// # Errors
/// Returns the offset at which Go reports the text as illegal.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, CorruptInput> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut symbols = text.iter().copied().enumerate().filter(|(_, b)| !matches!(b, b'\n' | b'\r'));
    loop {
        let mut bits = 0u32;
        let mut count = 0;
        while count < 4 {
            let Some((at, byte)) = symbols.next() else {
                // The text ends inside a group, and Go reports the start of the group.
                return if count == 0 { Ok(out) } else { Err(CorruptInput(text.len() - count)) };
            };
            if let Some(value) = sextet(byte) {
                bits = bits << 6 | value;
                count += 1;
                continue;
            }
            if byte != b'=' || count < 2 {
                return Err(CorruptInput(at));
            }
            if count == 2 {
                match symbols.next() {
                    None => return Err(CorruptInput(text.len())),
                    Some((_, b'=')) => {}
                    // Go reports the padding that a second padding character should have followed.
                    Some((at, _)) => return Err(CorruptInput(at - 1)),
                }
            }
            if let Some((at, _)) = symbols.next() {
                return Err(CorruptInput(at));
            }
            let bytes = (bits << (6 * (4 - count))).to_be_bytes();
            out.extend_from_slice(&bytes[1..count]);
            return Ok(out);
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
}

/// Encodes bytes as base64 with padding.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, i| bits << 8 | u32::from(group.get(i).copied().unwrap_or_default()));
        for i in 0..4 {
            let symbol = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= group.len() { char::from(symbol) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_inverts_encode() {
        for bytes in [&b""[..], b"f", b"fo", b"foo", b"foob", b"fooba", b"foobar", &[0, 255, 128, 7]] {
            assert_eq!(decode(encode(bytes).as_bytes()).as_deref(), Ok(bytes));
        }
        assert_eq!(encode(b"fooba"), "Zm9vYmE=");
        assert_eq!(decode(b"Zm9v\nYmE=\r\n").as_deref(), Ok(&b"fooba"[..]));
    }

    #[test]
    fn error_offsets_match_go() {
        // Each offset was printed by Go's decoder.
        for (text, offset) in [
            ("!", 0),
            ("a", 0),
            ("ab", 0),
            ("abc", 0),
            ("abcde", 4),
            ("ab=", 3),
            ("ab=c", 2),
            ("a===", 1),
            ("ab==c", 4),
            ("abc=d", 4),
            ("ab*d", 2),
            ("not base64!", 3),
        ] {
            assert_eq!(decode(text.as_bytes()), Err(CorruptInput(offset)), "{text}");
        }
    }
}
