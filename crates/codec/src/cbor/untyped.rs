//! Decodes CBOR to a tree without a type, as Go decodes into an empty interface, with maps of string keys.

use std::borrow::Cow;
use std::collections::HashSet;

use pintle_budget as budget;
use pintle_schema::base64;
use pintle_value::time::Time;
use pintle_value::{MEMBER_BYTES, Object, Str, Value, print};

use super::check::{Limits, check_well_formed};
use super::error::DecodeError;
use super::reader::{
    ExpectedEncoding, FALSE, Head, ItemReader, MajorType, NULL, TIME_EPOCH_TAG, TIME_STRING_TAG, TRUE,
};

/// Decodes exactly one item.
///
/// # Errors
/// Returns an error if the bytes are not CBOR, have values that JSON cannot express, or have a duplicate key.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Value, DecodeError> {
    check_well_formed(bytes, limits)?;
    UntypedDecoder::new(ItemReader::new(bytes)).item(true)
}

/// Decodes exactly one item that must be a map, as for custom resources.
///
/// # Errors
/// As for [`decode`], or if the item is not a map.
pub fn decode_object(bytes: &[u8], limits: Limits) -> Result<Value, DecodeError> {
    check_well_formed(bytes, limits)?;
    object(ItemReader::new(bytes))
}

/// Decodes checked bytes into a Go `map[string]interface {}`. Null gives a nil map.
pub(super) fn object(reader: ItemReader<'_>) -> Result<Value, DecodeError> {
    const GO: &str = "map[string]interface {}";
    let mut untyped = UntypedDecoder::new(reader);
    untyped.reader.strip_self_described();
    untyped.reader.check_tags()?;
    untyped.tags();
    match untyped.reader.major() {
        MajorType::Map => untyped.map().map(Value::Object),
        _ => unmarshal_mismatch(&mut untyped.reader, &|| GO.to_owned()),
    }
}

/// Charges a part of the tree to the budget of the request.
pub(super) fn charge(bytes: usize) -> Result<(), DecodeError> {
    budget::charge(bytes).map_err(|why| DecodeError::Other(why.to_string()))
}

/// Returns the name of a Go type, for error messages.
pub(super) type GoName<'a> = &'a dyn Fn() -> String;

/// Handles an item that does not fit a Go type which is not a leaf: null is ignored, any other item is an error.
pub(super) fn unmarshal_mismatch(reader: &mut ItemReader<'_>, go: GoName<'_>) -> Result<Value, DecodeError> {
    let (major, initial) = (reader.major(), reader.peek());
    match major {
        MajorType::Primitive if initial == NULL => {
            reader.skip();
            Ok(Value::Null)
        }
        MajorType::Primitive => {
            let head = reader.head();
            check_simple_value(head)?;
            Err(DecodeError::type_mismatch(major.name(), go()))
        }
        MajorType::Text => {
            reader.text_string()?;
            Err(DecodeError::type_mismatch(major.name(), go()))
        }
        MajorType::Negative => {
            let head = reader.head();
            negative_int(head, go)?;
            Err(DecodeError::type_mismatch(major.name(), go()))
        }
        _ => {
            reader.skip();
            Err(DecodeError::type_mismatch(major.name(), go()))
        }
    }
}

/// Rejects simple values that JSON cannot express.
pub(super) fn check_simple_value(head: Head) -> Result<(), DecodeError> {
    let accepted = head.info > 24 || matches!(head.argument, 20..=22);
    if accepted {
        return Ok(());
    }
    let what = format!("simple value {} is not recognized", head.argument);
    Err(DecodeError::not_accepted(MajorType::Primitive.name(), &what))
}

/// The value of a negative integer.
pub(super) fn negative_int(head: Head, go: GoName<'_>) -> Result<i64, DecodeError> {
    i64::try_from(head.argument).map(|argument| -1 - argument).map_err(|_| {
        let number = -1 - i128::from(head.argument);
        DecodeError::type_mismatch_with_note(MajorType::Negative.name(), go(), format!("{number} overflows Go's int64"))
    })
}

/// Converts a byte string to text in the encoding that the nearest tag expects.
pub(super) fn byte_string_text(bytes: &[u8], expected_encoding: Option<ExpectedEncoding>) -> Str {
    match expected_encoding {
        None => crate::go::utf8(bytes),
        Some(ExpectedEncoding::Base64) => base64::encode(bytes).into(),
        Some(ExpectedEncoding::Base64Url) => {
            let mut text = base64::encode(bytes).replace('+', "-").replace('/', "_");
            text.truncate(text.trim_end_matches('=').len());
            text.into()
        }
        Some(ExpectedEncoding::Base16) => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            digits.map(|digit| char::from(HEX[usize::from(digit)])).collect()
        }
    }
}

/// The keys of a map, to find duplicates. Most maps are small.
#[derive(Default)]
pub(super) struct SeenKeys {
    few: Vec<Str>,
    many: HashSet<Str>,
}

impl SeenKeys {
    /// Returns whether the key has been seen before.
    pub(super) fn is_duplicate(&mut self, key: &Str) -> bool {
        const FEW: usize = 16;
        if !self.many.is_empty() {
            return !self.many.insert(key.clone());
        }
        if self.few.contains(key) {
            return true;
        }
        self.few.push(key.clone());
        if self.few.len() > FEW {
            self.many = self.few.drain(..).collect();
        }
        false
    }
}

/// Decodes items without a type.
pub(super) struct UntypedDecoder<'a> {
    pub(super) reader: ItemReader<'a>,
    /// The expected later encoding of byte strings, from the nearest tag.
    pub(super) expected_encoding: Option<ExpectedEncoding>,
}

impl<'a> UntypedDecoder<'a> {
    pub(super) const fn new(reader: ItemReader<'a>) -> Self {
        Self { reader, expected_encoding: None }
    }

    /// Decodes an item and moves past it, even on error.
    pub(super) fn item(&mut self, strip: bool) -> Result<Value, DecodeError> {
        if strip {
            self.reader.strip_self_described();
        }
        self.reader.check_tags()?;
        self.checked_item()
    }

    /// Decodes an item whose tags have been checked.
    fn checked_item(&mut self) -> Result<Value, DecodeError> {
        match self.reader.major() {
            MajorType::Positive => {
                let head = self.reader.head();
                i64::try_from(head.argument).map(Value::Int).map_err(|_| {
                    let note = format!("{} overflows Go's int64", head.argument);
                    DecodeError::type_mismatch_with_note(MajorType::Positive.name(), "int64", note)
                })
            }
            MajorType::Negative => negative_int(self.reader.head(), &|| "int64".to_owned()).map(Value::Int),
            MajorType::Bytes => Ok(Value::String(byte_string_text(&self.reader.byte_string(), self.expected_encoding))),
            MajorType::Text => self.reader.text_string().map(|text| Value::String(Str::from(&*text))),
            MajorType::Array => self.array().map(Value::Array),
            MajorType::Map => self.map().map(Value::Object),
            MajorType::Tag => self.tagged(),
            MajorType::Primitive => {
                let (initial, head) = (self.reader.peek(), self.reader.head());
                check_simple_value(head)?;
                Ok(match initial {
                    FALSE => Value::Bool(false),
                    TRUE => Value::Bool(true),
                    // Malformed input, such as the two-byte form of these values, cannot occur here.
                    _ => ItemReader::float(head).map_or(Value::Null, Value::Float),
                })
            }
        }
    }

    /// Reads a tag and applies it.
    fn tag(&mut self) {
        let tag = self.reader.head().argument;
        self.expected_encoding = ExpectedEncoding::of(tag).or(self.expected_encoding);
    }

    /// Reads and applies all tags before an item.
    pub(super) fn tags(&mut self) {
        while self.reader.major() == MajorType::Tag {
            self.tag();
        }
    }

    fn tagged(&mut self) -> Result<Value, DecodeError> {
        let before = self.expected_encoding;
        let start = self.reader;
        let tag = self.reader.head().argument;
        let item = if matches!(tag, TIME_STRING_TAG | TIME_EPOCH_TAG) {
            self.time()
        } else {
            self.reader = start;
            self.tag();
            self.checked_item()
        };
        self.expected_encoding = before;
        item
    }

    fn array(&mut self) -> Result<Vec<Value>, DecodeError> {
        let head = self.reader.head();
        let mut items = Vec::with_capacity(self.reader.capacity_hint(head));
        let (mut error, mut done) = (None, 0);
        while self.reader.has_next(head, done) {
            done += 1;
            if error.is_some() {
                self.reader.skip();
                continue;
            }
            match self.item(true) {
                Ok(item) => items.push(item),
                Err(first) => error = Some(first),
            }
        }
        charge(items.len() * size_of::<Value>())?;
        error.map_or(Ok(items), Err)
    }

    pub(super) fn map(&mut self) -> Result<Object, DecodeError> {
        let mut entries = MapDecoder::new(self, "string");
        let mut found = Vec::new();
        while let Some(key) = entries.key(self) {
            let value = self.item(true);
            found.extend(entries.finish_value(self, value)?.map(|value| (key, value)));
        }
        entries.end()?;
        charge(found.len() * MEMBER_BYTES)?;
        Ok(Object::from_entries(found))
    }

    /// Decodes a map key into a Go string of the given type. Null leaves the string variable unchanged, so the previous
    /// key is used again.
    fn key(&mut self, last: &Str, go: &str) -> Result<Str, DecodeError> {
        self.reader.strip_self_described();
        self.reader.check_tags()?;
        let before = self.expected_encoding;
        self.tags();
        let expected_encoding = std::mem::replace(&mut self.expected_encoding, before);
        match self.reader.major() {
            MajorType::Bytes => Ok(byte_string_text(&self.reader.byte_string(), expected_encoding)),
            MajorType::Text => self.reader.text_string().map(|text| Str::from(&*text)),
            _ => unmarshal_mismatch(&mut self.reader, &|| go.to_owned()).map(|_| last.clone()),
        }
    }

    fn time(&mut self) -> Result<Value, DecodeError> {
        const GO: &str = "time.Time";
        let time = match self.reader.major() {
            MajorType::Text => return rfc3339_nano(&self.reader.text_string()?),
            MajorType::Positive => {
                let head = self.reader.head();
                let seconds = i64::try_from(head.argument).map_err(|_| {
                    let note = format!("{} overflows Go's int64", head.argument);
                    DecodeError::type_mismatch_with_note(MajorType::Positive.name(), GO, note)
                })?;
                Time { seconds, nanos: 0 }
            }
            MajorType::Negative => Time { seconds: negative_int(self.reader.head(), &|| GO.to_owned())?, nanos: 0 },
            _ => time_of_float(ItemReader::float(self.reader.head()).unwrap_or_default()),
        };
        // From year 0 to year 9999.
        if !(-62_167_219_200..253_402_300_800).contains(&time.seconds) {
            return Err(DecodeError::Other(
                "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: \
                 Time.MarshalText: year outside of range [0,9999]"
                    .to_owned(),
            ));
        }
        Ok(Value::from(time.rfc3339_nano()))
    }
}

/// Decodes a map into a Go map with string keys. The first error is reported, except that a duplicate key takes
/// precedence over earlier errors: upstream stops there.
pub(super) struct MapDecoder<'t> {
    /// The Go type of the keys.
    go: &'t str,
    head: Head,
    done: usize,
    seen: SeenKeys,
    last: Str,
    error: Option<DecodeError>,
}

impl<'t> MapDecoder<'t> {
    /// Starts with the map whose head is next.
    pub(super) fn new(untyped: &mut UntypedDecoder<'_>, go: &'t str) -> Self {
        let head = untyped.reader.head();
        Self { go, head, done: 0, seen: SeenKeys::default(), last: Str::default(), error: None }
    }

    /// Reads the next key. The caller must decode its value and pass the result to [`MapDecoder::finish_value`].
    pub(super) fn key(&mut self, untyped: &mut UntypedDecoder<'_>) -> Option<Str> {
        while untyped.reader.has_next(self.head, self.done) {
            self.done += 1;
            match untyped.key(&self.last, self.go) {
                Ok(key) => {
                    self.last.clone_from(&key);
                    return Some(key);
                }
                Err(first) => {
                    self.error.get_or_insert(first);
                    untyped.reader.skip();
                }
            }
        }
        None
    }

    /// Records the result of decoding the last key's value.
    ///
    /// # Errors
    /// Returns an error if the key is a duplicate. Then the rest of the map has been skipped.
    pub(super) fn finish_value(
        &mut self,
        untyped: &mut UntypedDecoder<'_>,
        value: Result<Value, DecodeError>,
    ) -> Result<Option<Value>, DecodeError> {
        match value {
            Err(first) => {
                self.error.get_or_insert(first);
                Ok(None)
            }
            Ok(_) if self.seen.is_duplicate(&self.last) => {
                let index = self.done - 1;
                while untyped.reader.has_next(self.head, self.done) {
                    self.done += 1;
                    untyped.reader.skip();
                    untyped.reader.skip();
                }
                Err(DecodeError::DuplicateKey { key: print::quote(&self.last), index })
            }
            Ok(value) => Ok(Some(value)),
        }
    }

    /// Ends the map.
    ///
    /// # Errors
    /// The first error that was recorded.
    pub(super) fn end(self) -> Result<(), DecodeError> {
        self.error.map_or(Ok(()), Err)
    }
}

/// Formats a time string as Go does: with its own offset and without trailing zeros in the fraction.
fn rfc3339_nano(text: &str) -> Result<Value, DecodeError> {
    let time = Time::parse_rfc3339(text)
        .map_err(|error| DecodeError::Other(format!("cbor: cannot set {text} for time.Time: {error}")))?;
    let offset = match text.get(text.len().saturating_sub(6)..) {
        Some(offset) if offset.starts_with(['+', '-']) && !offset.ends_with("00:00") => Cow::Borrowed(offset),
        _ => return Ok(Value::from(time.rfc3339_nano())),
    };
    // `parse_rfc3339` has checked that these are digits.
    let part = |range| offset.get(range).and_then(|digits: &str| digits.parse::<i64>().ok()).unwrap_or_default();
    let minutes = part(1..3) * 60 + part(4..6);
    let minutes = if offset.starts_with('-') { -minutes } else { minutes };
    let local = Time { seconds: time.seconds + minutes * 60, nanos: time.nanos }.rfc3339_nano();
    Ok(Value::from(local.trim_end_matches('Z').to_owned() + &offset))
}

/// Converts a number of seconds to a time. Values out of range saturate.
#[allow(clippy::cast_possible_truncation)] // saturates
fn time_of_float(number: f64) -> Time {
    let (seconds, nanos) = (number.trunc() as i64, (number.fract() * 1e9) as i64);
    let (seconds, nanos) =
        if nanos < 0 { (seconds.saturating_sub(1), nanos + 1_000_000_000) } else { (seconds, nanos) };
    Time { seconds, nanos: u32::try_from(nanos).unwrap_or_default() }
}
