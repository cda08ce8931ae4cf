//! Reads bytes that have been checked for well-formedness. A head that cannot occur in such bytes reads as the end.

use std::borrow::Cow;

use super::check;
use super::error::DecodeError;

/// The major types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MajorType {
    Positive,
    Negative,
    Bytes,
    Text,
    Array,
    Map,
    Tag,
    Primitive,
}

impl MajorType {
    pub(super) const fn of(initial: u8) -> Self {
        match initial >> 5 {
            0 => MajorType::Positive,
            1 => MajorType::Negative,
            2 => MajorType::Bytes,
            3 => MajorType::Text,
            4 => MajorType::Array,
            5 => MajorType::Map,
            6 => MajorType::Tag,
            _ => MajorType::Primitive,
        }
    }

    /// The name of the major type in error messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            MajorType::Positive => "positive integer",
            MajorType::Negative => "negative integer",
            MajorType::Bytes => "byte string",
            MajorType::Text => "UTF-8 text string",
            MajorType::Array => "array",
            MajorType::Map => "map",
            MajorType::Tag => "tag",
            MajorType::Primitive => "primitives",
        }
    }
}

/// The additional information of an indefinite-length item.
pub(super) const INDEFINITE: u8 = 31;
/// The end of an indefinite-length item.
pub(super) const BREAK: u8 = 0xff;
/// The supported simple values.
pub(super) const FALSE: u8 = 0xf4;
pub(super) const TRUE: u8 = 0xf5;
pub(super) const NULL: u8 = 0xf6;
pub(super) const UNDEFINED: u8 = 0xf7;

/// The tag number of self-described CBOR.
pub(super) const SELF_DESCRIBED: u64 = 55799;
/// The tag numbers of times.
pub(super) const TIME_STRING_TAG: u64 = 0;
pub(super) const TIME_EPOCH_TAG: u64 = 1;

/// The head of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The additional information, which determines how the argument is encoded.
    pub(super) info: u8,
    pub(super) argument: u64,
}

/// The expected later encoding of byte strings: how to convert them to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedEncoding {
    Base64Url,
    Base64,
    Base16,
}

impl ExpectedEncoding {
    pub(super) const fn of(tag: u64) -> Option<Self> {
        match tag {
            21 => Some(ExpectedEncoding::Base64Url),
            22 => Some(ExpectedEncoding::Base64),
            23 => Some(ExpectedEncoding::Base16),
            _ => None,
        }
    }
}

/// A position in checked bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemReader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) offset: usize,
}

impl<'a> ItemReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.offset).copied().unwrap_or(BREAK)
    }

    pub(super) fn major(&self) -> MajorType {
        MajorType::of(self.peek())
    }

    pub(super) fn is_nil(&self) -> bool {
        matches!(self.peek(), NULL | UNDEFINED)
    }

    pub(super) fn head(&mut self) -> Head {
        let initial = self.peek();
        self.offset += 1;
        let info = initial & 0x1f;
        let width = match info {
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => 0,
        };
        let mut argument = if width == 0 { u64::from(info) } else { 0 };
        for byte in self.read_bytes(width) {
            argument = argument << 8 | u64::from(*byte);
        }
        Head { info, argument }
    }

    /// Reads up to `count` bytes.
    fn read_bytes(&mut self, count: usize) -> &'a [u8] {
        let start = self.offset.min(self.bytes.len());
        let end = start.saturating_add(count).min(self.bytes.len());
        self.offset = end;
        &self.bytes[start..end]
    }

    /// Skips a break, if there is one. The end of the input counts as a break.
    pub(super) fn skip_break(&mut self) -> bool {
        let found = self.peek() == BREAK;
        if found {
            self.offset += 1;
        }
        found
    }

    /// Skips an item and returns it.
    pub(super) fn skip(&mut self) -> &'a [u8] {
        let start = self.offset.min(self.bytes.len());
        self.offset = check::item_end(self.bytes, start);
        &self.bytes[start..self.offset]
    }

    /// Calls `each` with the chunks of the string whose head is next. Most strings have a single chunk.
    fn chunks(&mut self, mut each: impl FnMut(&'a [u8])) {
        let head = self.head();
        if head.info != INDEFINITE {
            return each(self.read_bytes(usize::try_from(head.argument).unwrap_or(usize::MAX)));
        }
        while !self.skip_break() {
            let head = self.head();
            each(self.read_bytes(usize::try_from(head.argument).unwrap_or(usize::MAX)));
        }
    }

    /// Reads the byte string whose head is next.
    pub(super) fn byte_string(&mut self) -> Cow<'a, [u8]> {
        let mut bytes = Cow::Borrowed(&[][..]);
        self.chunks(|chunk| match bytes.is_empty() {
            true => bytes = chunk.into(),
            false => bytes.to_mut().extend_from_slice(chunk),
        });
        bytes
    }

    /// Reads the text string whose head is next.
    ///
    /// # Errors
    /// Returns an error if a chunk is not UTF-8.
    pub(super) fn text_string(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        let mut text = Ok(Cow::Borrowed(""));
        self.chunks(|chunk| match (&mut text, std::str::from_utf8(chunk)) {
            (Ok(text), Ok(chunk)) if text.is_empty() => *text = chunk.into(),
            (Ok(text), Ok(chunk)) => text.to_mut().push_str(chunk),
            (Ok(_), Err(_)) => text = Err(DecodeError::Other("cbor: invalid UTF-8 string".to_owned())),
            (Err(_), _) => {}
        });
        text
    }

    /// Skips self-described CBOR tags.
    pub(super) fn strip_self_described(&mut self) {
        while self.major() == MajorType::Tag {
            let before = self.offset;
            if self.head().argument != SELF_DESCRIBED {
                self.offset = before;
                break;
            }
        }
    }

    /// Checks that the content of each tag before an item has a valid type for the tag. Does not move past the tags.
    ///
    /// # Errors
    /// Returns an error if a content is invalid. Then the item has been skipped.
    pub(super) fn check_tags(&mut self) -> Result<(), DecodeError> {
        let start = self.offset;
        while self.major() == MajorType::Tag {
            let tag = self.head().argument;
            let (content, initial) = (self.major(), self.peek());
            let expected = match tag {
                TIME_STRING_TAG if content != MajorType::Text => "text string",
                TIME_EPOCH_TAG
                    if !matches!(content, MajorType::Positive | MajorType::Negative)
                        && !(0xf9..=0xfb).contains(&initial) =>
                {
                    "integer or floating-point number"
                }
                _ => continue,
            };
            self.offset = start;
            self.skip();
            return Err(DecodeError::Other(format!(
                "cbor: tag number {tag} must be followed by {expected}, got {}",
                content.name()
            )));
        }
        self.offset = start;
        Ok(())
    }

    /// Returns whether the array or map with this head has another item after `done` items.
    pub(super) fn has_next(&mut self, head: Head, done: usize) -> bool {
        if head.info == INDEFINITE {
            return !self.skip_break() && self.offset < self.bytes.len();
        }
        (done as u64) < head.argument && self.offset < self.bytes.len()
    }

    /// A capacity for the items of a head, limited by the remaining input.
    pub(super) fn capacity_hint(&self, head: Head) -> usize {
        let left = self.bytes.len().saturating_sub(self.offset);
        if head.info == INDEFINITE { 0 } else { usize::try_from(head.argument).unwrap_or(usize::MAX).min(left) }
    }

    /// The value of a primitive item with this head, if it is a float.
    pub(super) fn float(head: Head) -> Option<f64> {
        match head.info {
            25 => Some(super::float::from_half(head.argument as u16)),
            26 => Some(f64::from(f32::from_bits(head.argument as u32))),
            27 => Some(f64::from_bits(head.argument)),
            _ => None,
        }
    }
}
