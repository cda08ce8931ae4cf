//! Steps through bytes whose form was checked. What cannot happen in such bytes reads as an end.

use std::borrow::Cow;

use super::check;
use super::error::Error;

/// The eight kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Major {
    Positive,
    Negative,
    Bytes,
    Text,
    Array,
    Map,
    Tag,
    Primitive,
}

impl Major {
    pub(super) const fn of(initial: u8) -> Self {
        match initial >> 5 {
            0 => Major::Positive,
            1 => Major::Negative,
            2 => Major::Bytes,
            3 => Major::Text,
            4 => Major::Array,
            5 => Major::Map,
            6 => Major::Tag,
            _ => Major::Primitive,
        }
    }

    /// What messages call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Major::Positive => "positive integer",
            Major::Negative => "negative integer",
            Major::Bytes => "byte string",
            Major::Text => "UTF-8 text string",
            Major::Array => "array",
            Major::Map => "map",
            Major::Tag => "tag",
            Major::Primitive => "primitives",
        }
    }
}

/// The additional information of an item that ends with a break.
pub(super) const INDEFINITE: u8 = 31;
/// Ends such an item.
pub(super) const BREAK: u8 = 0xff;
/// The simple values that there are.
pub(super) const FALSE: u8 = 0xf4;
pub(super) const TRUE: u8 = 0xf5;
pub(super) const NULL: u8 = 0xf6;
pub(super) const UNDEFINED: u8 = 0xf7;

/// The tag that says that its content is CBOR.
pub(super) const SELF_DESCRIBED: u64 = 55799;
/// The tags of times.
pub(super) const TIME_TEXT: u64 = 0;
pub(super) const TIME_NUMBER: u64 = 1;

/// The head of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The additional information: how the argument is written.
    pub(super) info: u8,
    pub(super) argument: u64,
}

/// How byte strings are to be written where text is wanted ("expected later encoding").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Later {
    Base64Url,
    Base64,
    Base16,
}

impl Later {
    pub(super) const fn of(tag: u64) -> Option<Self> {
        match tag {
            21 => Some(Later::Base64Url),
            22 => Some(Later::Base64),
            23 => Some(Later::Base16),
            _ => None,
        }
    }
}

/// A place in checked bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(BREAK)
    }

    pub(super) fn major(&self) -> Major {
        Major::of(self.peek())
    }

    pub(super) fn is_nil(&self) -> bool {
        matches!(self.peek(), NULL | UNDEFINED)
    }

    pub(super) fn head(&mut self) -> Head {
        let initial = self.peek();
        self.at += 1;
        let info = initial & 0x1f;
        let width = match info {
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => 0,
        };
        let mut argument = if width == 0 { u64::from(info) } else { 0 };
        for byte in self.take(width) {
            argument = argument << 8 | u64::from(*byte);
        }
        Head { info, argument }
    }

    /// The next bytes, as many as there are.
    fn take(&mut self, count: usize) -> &'a [u8] {
        let start = self.at.min(self.bytes.len());
        let end = start.saturating_add(count).min(self.bytes.len());
        self.at = end;
        &self.bytes[start..end]
    }

    /// Goes over a break, if there is one here. So does the end.
    pub(super) fn found_break(&mut self) -> bool {
        let found = self.peek() == BREAK;
        if found {
            self.at += 1;
        }
        found
    }

    /// Goes over an item and returns it.
    pub(super) fn skip(&mut self) -> &'a [u8] {
        let start = self.at.min(self.bytes.len());
        self.at = check::end_of(self.bytes, start);
        &self.bytes[start..self.at]
    }

    /// Hands out the chunks of a string whose head is next. Most strings are one.
    fn chunks(&mut self, mut each: impl FnMut(&'a [u8])) {
        let head = self.head();
        if head.info != INDEFINITE {
            return each(self.take(usize::try_from(head.argument).unwrap_or(usize::MAX)));
        }
        while !self.found_break() {
            let head = self.head();
            each(self.take(usize::try_from(head.argument).unwrap_or(usize::MAX)));
        }
    }

    /// The bytes of a byte string whose head is next.
    pub(super) fn byte_string(&mut self) -> Cow<'a, [u8]> {
        let mut bytes = Cow::Borrowed(&[][..]);
        self.chunks(|chunk| match bytes.is_empty() {
            true => bytes = chunk.into(),
            false => bytes.to_mut().extend_from_slice(chunk),
        });
        bytes
    }

    /// The text of a text string whose head is next.
    ///
    /// # Errors
    /// A chunk is not UTF-8.
    pub(super) fn text_string(&mut self) -> Result<Cow<'a, str>, Error> {
        let mut text = Ok(Cow::Borrowed(""));
        self.chunks(|chunk| match (&mut text, std::str::from_utf8(chunk)) {
            (Ok(text), Ok(chunk)) if text.is_empty() => *text = chunk.into(),
            (Ok(text), Ok(chunk)) => text.to_mut().push_str(chunk),
            (Ok(_), Err(_)) => text = Err(Error::Other("cbor: invalid UTF-8 string".to_owned())),
            (Err(_), _) => {}
        });
        text
    }

    /// Goes over tags that say no more than that this is CBOR.
    pub(super) fn strip_self_described(&mut self) {
        while self.major() == Major::Tag {
            let before = self.at;
            if self.head().argument != SELF_DESCRIBED {
                self.at = before;
                break;
            }
        }
    }

    /// Checks that the content of each tag before an item is what the tag is for. Stays at the first tag.
    ///
    /// # Errors
    /// It is not; the item has been gone over.
    pub(super) fn check_tags(&mut self) -> Result<(), Error> {
        let start = self.at;
        while self.major() == Major::Tag {
            let tag = self.head().argument;
            let (content, initial) = (self.major(), self.peek());
            let expected = match tag {
                TIME_TEXT if content != Major::Text => "text string",
                TIME_NUMBER
                    if !matches!(content, Major::Positive | Major::Negative) && !(0xf9..=0xfb).contains(&initial) =>
                {
                    "integer or floating-point number"
                }
                _ => continue,
            };
            self.at = start;
            self.skip();
            return Err(Error::Other(format!(
                "cbor: tag number {tag} must be followed by {expected}, got {}",
                content.name()
            )));
        }
        self.at = start;
        Ok(())
    }

    /// The items of an array or map whose head was read, one call for each.
    pub(super) fn more(&mut self, head: Head, done: usize) -> bool {
        if head.info == INDEFINITE {
            return !self.found_break() && self.at < self.bytes.len();
        }
        (done as u64) < head.argument && self.at < self.bytes.len()
    }

    /// How many items there can be at most, to reserve room for them.
    pub(super) fn room(&self, head: Head) -> usize {
        let left = self.bytes.len().saturating_sub(self.at);
        if head.info == INDEFINITE { 0 } else { usize::try_from(head.argument).unwrap_or(usize::MAX).min(left) }
    }

    /// The number of a primitive item whose head this is, if it is a float.
    pub(super) fn float(head: Head) -> Option<f64> {
        match head.info {
            25 => Some(super::float::from_half(head.argument as u16)),
            26 => Some(f64::from(f32::from_bits(head.argument as u32))),
            27 => Some(f64::from_bits(head.argument)),
            _ => None,
        }
    }
}
