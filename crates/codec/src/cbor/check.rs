//! Whether bytes are one item of CBOR, and no larger or deeper than is allowed. Keeps its place on a stack of its own, so
//! that depth costs memory in proportion to the bytes and no call stack.

use super::error::Error;
use super::float::from_half;
use super::reader::{BREAK, INDEFINITE, Major};

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How deep arrays, maps and tags may nest.
    pub depth: usize,
    /// How many elements an array may have.
    pub elements: u64,
    /// How many pairs a map may have.
    pub pairs: u64,
}

impl Default for Limits {
    /// Upstream's.
    fn default() -> Self {
        Self { depth: 10_000, elements: 2_147_483_647, pairs: 2_097_152 }
    }
}

/// Checks that the bytes are one item and nothing else.
///
/// # Errors
/// They are not.
pub(super) fn well_formed(bytes: &[u8], limits: Limits) -> Result<(), Error> {
    if bytes.is_empty() {
        return malformed("EOF");
    }
    let mut scan = Scan { bytes, at: 0, limits };
    scan.item()?;
    if scan.at < bytes.len() {
        let (left, at) = (bytes.len() - scan.at, scan.at);
        return malformed(format!("cbor: {left} bytes of extraneous data starting at index {at}"));
    }
    Ok(())
}

/// Where the item that starts here in checked bytes ends.
pub(super) fn end_of(bytes: &[u8], start: usize) -> usize {
    let limits = Limits { depth: usize::MAX, elements: u64::MAX, pairs: u64::MAX };
    let mut scan = Scan { bytes, at: start, limits };
    if scan.item().is_ok() { scan.at } else { bytes.len() }
}

fn malformed<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Malformed(text.into()))
}

fn cut<T>() -> Result<T, Error> {
    malformed("unexpected EOF")
}

/// An array or map that was begun.
struct Open {
    /// How deep its items are.
    depth: usize,
    items: Items,
}

enum Items {
    /// So many are to come.
    Left(u64),
    /// Until a break; so many came.
    Elements(u64),
    /// Keys and values until a break; so many of both came.
    Pairs(u64),
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    limits: Limits,
}

impl Scan<'_> {
    fn item(&mut self) -> Result<(), Error> {
        let mut open: Vec<Open> = Vec::new();
        let mut depth = 0;
        loop {
            if let Some(inside) = self.begin(depth)? {
                open.push(inside);
            }
            // What is whole now is an item of what is open.
            loop {
                let Some(inside) = open.last_mut() else { return Ok(()) };
                depth = inside.depth;
                if self.more(&mut inside.items)? {
                    break;
                }
                open.pop();
            }
        }
    }

    /// True if an array or map has another item, which is counted.
    fn more(&mut self, items: &mut Items) -> Result<bool, Error> {
        let done = match items {
            Items::Left(left) => {
                let more = *left > 0;
                *left = left.saturating_sub(1);
                return Ok(more);
            }
            Items::Elements(done) | Items::Pairs(done) => *done,
        };
        let pairs = matches!(items, Items::Pairs(_));
        if !pairs && done > self.limits.elements {
            return self.too_many(Major::Array);
        }
        if pairs && done.is_multiple_of(2) && done / 2 > self.limits.pairs {
            return self.too_many(Major::Map);
        }
        let Some(&next) = self.bytes.get(self.at) else { return cut() };
        if next == BREAK {
            self.at += 1;
            if pairs && !done.is_multiple_of(2) {
                return malformed("cbor: unexpected \"break\" code");
            }
            return Ok(false);
        }
        match items {
            Items::Left(_) => {}
            Items::Elements(done) | Items::Pairs(done) => *done += 1,
        }
        Ok(true)
    }

    fn too_many<T>(&self, major: Major) -> Result<T, Error> {
        malformed(match major {
            Major::Map => {
                format!("cbor: exceeded max number of key-value pairs {} for CBOR map", self.limits.pairs)
            }
            _ => format!("cbor: exceeded max number of elements {} for CBOR array", self.limits.elements),
        })
    }

    fn too_deep<T>(&self) -> Result<T, Error> {
        malformed(format!("cbor: exceeded max nested level {}", self.limits.depth))
    }

    /// Goes over a leaf with its tags, or over the head of an array or map, which is returned.
    fn begin(&mut self, mut depth: usize) -> Result<Option<Open>, Error> {
        let (mut major, mut info, mut argument) = self.head()?;
        if major == Major::Tag {
            (major, info, argument) = self.tags(argument, &mut depth)?;
        }
        match major {
            Major::Bytes | Major::Text if info == INDEFINITE => self.chunks(major)?,
            Major::Bytes | Major::Text => self.string(major, argument)?,
            Major::Array | Major::Map => {
                depth += 1;
                if depth > self.limits.depth {
                    return self.too_deep();
                }
                let map = major == Major::Map;
                if info == INDEFINITE {
                    let items = if map { Items::Pairs(0) } else { Items::Elements(0) };
                    return Ok(Some(Open { depth, items }));
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
                return Ok(Some(Open { depth, items: Items::Left(items) }));
            }
            Major::Positive | Major::Negative | Major::Tag | Major::Primitive => {}
        }
        Ok(None)
    }

    /// Goes over further tags to the head of what they are about.
    fn tags(&mut self, mut tag: u64, depth: &mut usize) -> Result<(Major, u8, u64), Error> {
        loop {
            let Some(&next) = self.bytes.get(self.at) else { return cut() };
            if matches!(tag, 2 | 3) {
                return Err(Error::unacceptable(Major::Tag.name(), "bignum"));
            }
            let head = self.head()?;
            if Major::of(next) != Major::Tag {
                return Ok(head);
            }
            tag = head.2;
            *depth += 1;
            if *depth > self.limits.depth {
                return self.too_deep();
            }
        }
    }

    fn string(&mut self, major: Major, length: u64) -> Result<(), Error> {
        let Ok(length) = i64::try_from(length) else {
            let name = major.name();
            return malformed(format!("cbor: {name} length {length} is too large, causing integer overflow"));
        };
        match usize::try_from(length).ok().and_then(|length| self.at.checked_add(length)) {
            Some(end) if end <= self.bytes.len() => {
                self.at = end;
                Ok(())
            }
            _ => cut(),
        }
    }

    fn chunks(&mut self, major: Major) -> Result<(), Error> {
        loop {
            let Some(&next) = self.bytes.get(self.at) else { return cut() };
            if next == BREAK {
                self.at += 1;
                return Ok(());
            }
            let name = major.name();
            if Major::of(next) != major {
                let other = Major::of(next).name();
                return malformed(format!("cbor: wrong element type {other} for indefinite-length {name}"));
            }
            if next & 0x1f == INDEFINITE {
                return malformed(format!("cbor: indefinite-length {name} chunk is not definite-length"));
            }
            let (_, _, length) = self.head()?;
            self.string(major, length)?;
        }
    }

    fn head(&mut self) -> Result<(Major, u8, u64), Error> {
        let Some(&initial) = self.bytes.get(self.at) else { return cut() };
        self.at += 1;
        let (major, info) = (Major::of(initial), initial & 0x1f);
        let width = match info {
            0..=23 => return Ok((major, info, u64::from(info))),
            24..=27 => 1usize << (info - 24),
            INDEFINITE => match major {
                Major::Primitive => return malformed("cbor: unexpected \"break\" code"),
                Major::Bytes | Major::Text | Major::Array | Major::Map => return Ok((major, info, u64::from(info))),
                _ => return invalid_information(info, major),
            },
            _ => return invalid_information(info, major),
        };
        let Some(bytes) = self.bytes.get(self.at..self.at + width) else { return cut() };
        let argument = bytes.iter().fold(0u64, |argument, byte| argument << 8 | u64::from(*byte));
        self.at += width;
        if major == Major::Primitive {
            primitive(width, argument)?;
        }
        Ok((major, info, argument))
    }
}

fn invalid_information<T>(info: u8, major: Major) -> Result<T, Error> {
    malformed(format!("cbor: invalid additional information {info} for type {}", major.name()))
}

fn primitive(width: usize, argument: u64) -> Result<(), Error> {
    let value = match width {
        1 if argument < 32 => {
            let name = Major::Primitive.name();
            return malformed(format!("cbor: invalid simple value {argument} for type {name}"));
        }
        1 => return Ok(()),
        2 => from_half(argument as u16),
        4 => f64::from(f32::from_bits(argument as u32)),
        _ => f64::from_bits(argument),
    };
    if value.is_nan() {
        return Err(Error::unacceptable(Major::Primitive.name(), "floating-point NaN"));
    }
    if value.is_infinite() {
        return Err(Error::unacceptable(Major::Primitive.name(), "floating-point infinity"));
    }
    Ok(())
}
