//! Checks that bytes are one well-formed CBOR item within the limits. It uses an explicit stack, so that nesting uses
//! memory in proportion to the input and no call stack.

use super::error::DecodeError;
use super::float::from_half;
use super::reader::{BREAK, INDEFINITE, MajorType};

/// Limits on the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum nesting depth of arrays, maps and tags.
    pub depth: usize,
    /// Maximum number of elements of an array.
    pub elements: u64,
    /// Maximum number of key-value pairs of a map.
    pub pairs: u64,
}

impl Default for Limits {
    /// Upstream's limits.
    fn default() -> Self {
        Self { depth: 10_000, elements: 2_147_483_647, pairs: 2_097_152 }
    }
}

/// Checks that the bytes are exactly one item.
///
/// # Errors
/// Returns an error if they are not, or if they exceed the limits.
pub(super) fn check_well_formed(bytes: &[u8], limits: Limits) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        return malformed("EOF");
    }
    let mut checker = WellFormedChecker { bytes, offset: 0, limits };
    checker.item()?;
    if checker.offset < bytes.len() {
        let (remaining, offset) = (bytes.len() - checker.offset, checker.offset);
        return malformed(format!("cbor: {remaining} bytes of extraneous data starting at index {offset}"));
    }
    Ok(())
}

/// The end of the item that starts at `start` in checked bytes.
pub(super) fn item_end(bytes: &[u8], start: usize) -> usize {
    let limits = Limits { depth: usize::MAX, elements: u64::MAX, pairs: u64::MAX };
    let mut checker = WellFormedChecker { bytes, offset: start, limits };
    if checker.item().is_ok() { checker.offset } else { bytes.len() }
}

fn malformed<T>(text: impl Into<String>) -> Result<T, DecodeError> {
    Err(DecodeError::Malformed(text.into()))
}

fn unexpected_eof<T>() -> Result<T, DecodeError> {
    malformed("unexpected EOF")
}

/// An open array or map.
struct OpenContainer {
    /// The nesting depth of its items.
    depth: usize,
    items: ItemCount,
}

enum ItemCount {
    /// Definite length: the number of remaining items.
    Remaining(u64),
    /// An array of indefinite length: the number of items so far.
    IndefiniteElements(u64),
    /// A map of indefinite length: the number of keys and values so far.
    IndefinitePairs(u64),
}

struct WellFormedChecker<'a> {
    bytes: &'a [u8],
    offset: usize,
    limits: Limits,
}

impl WellFormedChecker<'_> {
    fn item(&mut self) -> Result<(), DecodeError> {
        let mut open: Vec<OpenContainer> = Vec::new();
        let mut depth = 0;
        loop {
            if let Some(container) = self.start_item(depth)? {
                open.push(container);
            }
            // A complete item counts as an item of the innermost open container.
            loop {
                let Some(container) = open.last_mut() else { return Ok(()) };
                depth = container.depth;
                if self.has_next(&mut container.items)? {
                    break;
                }
                open.pop();
            }
        }
    }

    /// Returns whether the container has another item, and counts it.
    fn has_next(&mut self, items: &mut ItemCount) -> Result<bool, DecodeError> {
        let count = match items {
            ItemCount::Remaining(remaining) => {
                let has_next = *remaining > 0;
                *remaining = remaining.saturating_sub(1);
                return Ok(has_next);
            }
            ItemCount::IndefiniteElements(count) | ItemCount::IndefinitePairs(count) => *count,
        };
        let pairs = matches!(items, ItemCount::IndefinitePairs(_));
        if !pairs && count > self.limits.elements {
            return self.too_many(MajorType::Array);
        }
        if pairs && count.is_multiple_of(2) && count / 2 > self.limits.pairs {
            return self.too_many(MajorType::Map);
        }
        let Some(&next) = self.bytes.get(self.offset) else { return unexpected_eof() };
        if next == BREAK {
            self.offset += 1;
            if pairs && !count.is_multiple_of(2) {
                return malformed("cbor: unexpected \"break\" code");
            }
            return Ok(false);
        }
        match items {
            ItemCount::Remaining(_) => {}
            ItemCount::IndefiniteElements(count) | ItemCount::IndefinitePairs(count) => *count += 1,
        }
        Ok(true)
    }

    fn too_many<T>(&self, major: MajorType) -> Result<T, DecodeError> {
        malformed(match major {
            MajorType::Map => {
                format!("cbor: exceeded max number of key-value pairs {} for CBOR map", self.limits.pairs)
            }
            _ => format!("cbor: exceeded max number of elements {} for CBOR array", self.limits.elements),
        })
    }

    fn too_deep<T>(&self) -> Result<T, DecodeError> {
        malformed(format!("cbor: exceeded max nested level {}", self.limits.depth))
    }

    /// Reads a leaf with its tags, or the head of an array or map, which is returned.
    fn start_item(&mut self, mut depth: usize) -> Result<Option<OpenContainer>, DecodeError> {
        let (mut major, mut info, mut argument) = self.head()?;
        if major == MajorType::Tag {
            (major, info, argument) = self.tags(argument, &mut depth)?;
        }
        match major {
            MajorType::Bytes | MajorType::Text if info == INDEFINITE => self.chunks(major)?,
            MajorType::Bytes | MajorType::Text => self.string(major, argument)?,
            MajorType::Array | MajorType::Map => {
                depth += 1;
                if depth > self.limits.depth {
                    return self.too_deep();
                }
                let map = major == MajorType::Map;
                if info == INDEFINITE {
                    let items = if map { ItemCount::IndefinitePairs(0) } else { ItemCount::IndefiniteElements(0) };
                    return Ok(Some(OpenContainer { depth, items }));
                }
                if i64::try_from(argument).is_err() {
                    return malformed(format!(
                        "cbor: {} length {argument} is too large, it would cause integer overflow",
                        major.name()
                    ));
                }
                if argument > if map { self.limits.pairs } else { self.limits.elements } {
                    return self.too_many(major);
                }
                let items = if map { argument.saturating_mul(2) } else { argument };
                return Ok(Some(OpenContainer { depth, items: ItemCount::Remaining(items) }));
            }
            MajorType::Positive | MajorType::Negative | MajorType::Tag | MajorType::Primitive => {}
        }
        Ok(None)
    }

    /// Skips further tags and reads the head of the tagged item.
    fn tags(&mut self, mut tag: u64, depth: &mut usize) -> Result<(MajorType, u8, u64), DecodeError> {
        loop {
            let Some(&next) = self.bytes.get(self.offset) else { return unexpected_eof() };
            if matches!(tag, 2 | 3) {
                return Err(DecodeError::not_accepted(MajorType::Tag.name(), "bignum"));
            }
            let head = self.head()?;
            if MajorType::of(next) != MajorType::Tag {
                return Ok(head);
            }
            tag = head.2;
            *depth += 1;
            if *depth > self.limits.depth {
                return self.too_deep();
            }
        }
    }

    fn string(&mut self, major: MajorType, length: u64) -> Result<(), DecodeError> {
        let Ok(length) = i64::try_from(length) else {
            let name = major.name();
            return malformed(format!("cbor: {name} length {length} is too large, causing integer overflow"));
        };
        match usize::try_from(length).ok().and_then(|length| self.offset.checked_add(length)) {
            Some(end) if end <= self.bytes.len() => {
                self.offset = end;
                Ok(())
            }
            _ => unexpected_eof(),
        }
    }

    fn chunks(&mut self, major: MajorType) -> Result<(), DecodeError> {
        loop {
            let Some(&next) = self.bytes.get(self.offset) else { return unexpected_eof() };
            if next == BREAK {
                self.offset += 1;
                return Ok(());
            }
            let name = major.name();
            if MajorType::of(next) != major {
                let other = MajorType::of(next).name();
                return malformed(format!("cbor: wrong element type {other} for indefinite-length {name}"));
            }
            if next & 0x1f == INDEFINITE {
                return malformed(format!("cbor: indefinite-length {name} chunk is not definite-length"));
            }
            let (_, _, length) = self.head()?;
            self.string(major, length)?;
        }
    }

    fn head(&mut self) -> Result<(MajorType, u8, u64), DecodeError> {
        let Some(&initial) = self.bytes.get(self.offset) else { return unexpected_eof() };
        self.offset += 1;
        let (major, info) = (MajorType::of(initial), initial & 0x1f);
        let width = match info {
            0..=23 => return Ok((major, info, u64::from(info))),
            24..=27 => 1usize << (info - 24),
            INDEFINITE => match major {
                MajorType::Primitive => return malformed("cbor: unexpected \"break\" code"),
                MajorType::Bytes | MajorType::Text | MajorType::Array | MajorType::Map => {
                    return Ok((major, info, u64::from(info)));
                }
                _ => return invalid_information(info, major),
            },
            _ => return invalid_information(info, major),
        };
        let Some(bytes) = self.bytes.get(self.offset..self.offset + width) else { return unexpected_eof() };
        let argument = bytes.iter().fold(0u64, |argument, byte| argument << 8 | u64::from(*byte));
        self.offset += width;
        if major == MajorType::Primitive {
            primitive(width, argument)?;
        }
        Ok((major, info, argument))
    }
}

fn invalid_information<T>(info: u8, major: MajorType) -> Result<T, DecodeError> {
    malformed(format!("cbor: invalid additional information {info} for type {}", major.name()))
}

fn primitive(width: usize, argument: u64) -> Result<(), DecodeError> {
    let value = match width {
        1 if argument < 32 => {
            let name = MajorType::Primitive.name();
            return malformed(format!("cbor: invalid simple value {argument} for type {name}"));
        }
        1 => return Ok(()),
        2 => from_half(argument as u16),
        4 => f64::from(f32::from_bits(argument as u32)),
        _ => f64::from_bits(argument),
    };
    if value.is_nan() {
        return Err(DecodeError::not_accepted(MajorType::Primitive.name(), "floating-point NaN"));
    }
    if value.is_infinite() {
        return Err(DecodeError::not_accepted(MajorType::Primitive.name(), "floating-point infinity"));
    }
    Ok(())
}
