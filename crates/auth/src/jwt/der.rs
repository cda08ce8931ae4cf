//! The part of DER (X.690) that keys need: elements with a tag, a definite length and content.

/// `INTEGER`.
pub(super) const INTEGER: u8 = 0x02;
/// `BIT STRING`.
pub(super) const BIT_STRING: u8 = 0x03;
/// `OCTET STRING`.
pub(super) const OCTET_STRING: u8 = 0x04;
/// `NULL`.
pub(super) const NULL: u8 = 0x05;
/// `OBJECT IDENTIFIER`.
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
/// `SEQUENCE`.
pub(super) const SEQUENCE: u8 = 0x30;
/// The first optional element of a sequence, `[0]`.
pub(super) const CONTEXT_0: u8 = 0xa0;
/// The second optional element of a sequence, `[1]`.
pub(super) const CONTEXT_1: u8 = 0xa1;

/// Reads one element after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'d>(pub(super) &'d [u8]);

impl<'d> Reader<'d> {
    /// The content of the next element, if it has this tag.
    pub(super) fn read(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..0x80 => (usize::from(first), rest),
            // A longer length is not needed for any key.
            0x85.. | 0x80 => return None,
            _ => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
        };
        if found != tag {
            return None;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }

    /// The elements within the next element, if it has this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Reader<'d>> {
        self.read(tag).map(Reader)
    }

    /// The bytes of the next bit string, if its number of bits is a multiple of eight.
    pub(super) fn bits(&mut self) -> Option<&'d [u8]> {
        self.read(BIT_STRING)?.strip_prefix(&[0])
    }

    /// The bytes of the next integer, which is positive, without leading zeros.
    pub(super) fn unsigned(&mut self) -> Option<&'d [u8]> {
        let bytes = self.read(INTEGER)?;
        let is_negative = bytes.first().is_none_or(|first| first & 0x80 != 0);
        (!is_negative).then(|| trim_zeros(bytes))
    }
}

/// A number without leading zeros.
pub(super) fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

/// Writes an element with the concatenation of some parts.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut out = vec![tag];
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let bytes = trim_zeros(&bytes);
        out.push(0x80 | bytes.len() as u8);
        out.extend_from_slice(bytes);
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Writes a positive integer.
pub(super) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let needs_zero = bytes.first().is_none_or(|first| first & 0x80 != 0);
    element(INTEGER, &[if needs_zero { &[0] } else { &[] }, bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_as_they_were_written() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x1_0000] {
            let content = vec![7; length];
            let written = element(OCTET_STRING, &[&content, &[8]]);
            let mut reader = Reader(&written);
            assert_eq!(reader.read(SEQUENCE), None);
            assert_eq!(reader.read(OCTET_STRING), Some(&*[&*content, &[8]].concat()), "{length}");
            assert!(reader.0.is_empty());
            for end in 0..written.len().min(300) {
                assert_eq!(Reader(&written[..end]).read(OCTET_STRING), None, "{length}, {end}");
            }
        }
    }

    #[test]
    fn integers_are_positive() {
        for (bytes, expect) in [
            (&[0x02, 1, 0x7f][..], Some(&[0x7f][..])),
            (&[0x02, 2, 0, 0x80], Some(&[0x80])),
            (&[0x02, 1, 0x80], None),
            (&[0x02, 0], None),
            (&[0x02, 0x80, 1], None),
            (&[0x02, 0x88, 0, 0, 0, 0, 0, 0, 0, 1, 1], None),
        ] {
            assert_eq!(Reader(bytes).unsigned(), expect, "{bytes:?}");
        }
        assert_eq!(unsigned(&[0x80]), [0x02, 2, 0, 0x80]);
        assert_eq!(unsigned(&[1]), [0x02, 1, 1]);
    }
}
