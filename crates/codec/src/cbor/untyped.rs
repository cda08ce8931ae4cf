//! CBOR to a tree without a type: what decoding into an empty Go interface gives, maps having strings for keys.

use std::borrow::Cow;
use std::collections::HashSet;

use pintle_schema::base64;
use pintle_value::time::Time;
use pintle_value::{Object, Str, Value};

use super::check::{Limits, well_formed};
use super::error::Error;
use super::reader::{FALSE, Head, Later, Major, NULL, Reader, TIME_NUMBER, TIME_TEXT, TRUE};

/// Reads one item that fills all of the bytes.
///
/// # Errors
/// They are not CBOR, or hold what JSON cannot say, or a key twice.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Value, Error> {
    well_formed(bytes, limits)?;
    Untyped::new(Reader::new(bytes)).item(true)
}

/// Reads one item that is a map, as objects of custom kinds are.
///
/// # Errors
/// As for [`decode`], and where it is no map.
pub fn decode_object(bytes: &[u8], limits: Limits) -> Result<Value, Error> {
    well_formed(bytes, limits)?;
    object(Reader::new(bytes))
}

/// Reads checked bytes into a Go map of strings to anything; null is none.
pub(super) fn object(reader: Reader<'_>) -> Result<Value, Error> {
    const GO: &str = "map[string]interface {}";
    let mut untyped = Untyped::new(reader);
    untyped.reader.strip_self_described();
    untyped.reader.check_tags()?;
    untyped.tags();
    match untyped.reader.major() {
        Major::Map => untyped.map().map(Value::Object),
        _ => misfit(&mut untyped.reader, &|| GO.to_owned()),
    }
}

/// Says the name of a Go type to those who need it, for messages.
pub(super) type GoName<'a> = &'a dyn Fn() -> String;

/// What comes of an item that cannot be of a Go type that is no leaf: nothing of null, else an error.
pub(super) fn misfit(reader: &mut Reader<'_>, go: GoName<'_>) -> Result<Value, Error> {
    let (major, initial) = (reader.major(), reader.peek());
    match major {
        Major::Primitive if initial == NULL => {
            reader.skip();
            Ok(Value::Null)
        }
        Major::Primitive => {
            let head = reader.head();
            simple(head)?;
            Err(Error::unfit(major.name(), go()))
        }
        Major::Text => {
            reader.text_string()?;
            Err(Error::unfit(major.name(), go()))
        }
        Major::Negative => {
            let head = reader.head();
            negative(head, go)?;
            Err(Error::unfit(major.name(), go()))
        }
        _ => {
            reader.skip();
            Err(Error::unfit(major.name(), go()))
        }
    }
}

/// Refuses simple values that JSON does not have.
pub(super) fn simple(head: Head) -> Result<(), Error> {
    let accepted = head.info > 24 || matches!(head.argument, 20..=22);
    if accepted {
        return Ok(());
    }
    let what = format!("simple value {} is not recognized", head.argument);
    Err(Error::unacceptable(Major::Primitive.name(), &what))
}

/// The number of a negative item.
pub(super) fn negative(head: Head, go: GoName<'_>) -> Result<i64, Error> {
    i64::try_from(head.argument).map(|argument| -1 - argument).map_err(|_| {
        let number = -1 - i128::from(head.argument);
        Error::noted(Major::Negative.name(), go(), format!("{number} overflows Go's int64"))
    })
}

/// The text that a byte string stands for, in the encoding that the nearest tag asks for.
pub(super) fn text_of(bytes: &[u8], later: Option<Later>) -> Str {
    match later {
        None => crate::go::utf8(bytes),
        Some(Later::Base64) => base64::encode(bytes).into(),
        Some(Later::Base64Url) => {
            let mut text = base64::encode(bytes).replace('+', "-").replace('/', "_");
            text.truncate(text.trim_end_matches('=').len());
            text.into()
        }
        Some(Later::Base16) => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            digits.map(|digit| char::from(HEX[usize::from(digit)])).collect()
        }
    }
}

/// Finds keys that come twice. Most maps are small.
#[derive(Default)]
pub(super) struct Seen {
    few: Vec<Str>,
    many: HashSet<Str>,
}

impl Seen {
    /// True if the key came before.
    pub(super) fn again(&mut self, key: &Str) -> bool {
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

/// A reader of items without a type.
pub(super) struct Untyped<'a> {
    pub(super) reader: Reader<'a>,
    /// What the nearest tag says about byte strings.
    pub(super) later: Option<Later>,
}

impl<'a> Untyped<'a> {
    pub(super) const fn new(reader: Reader<'a>) -> Self {
        Self { reader, later: None }
    }

    /// Reads an item; the reader stands after it, whatever comes of it.
    pub(super) fn item(&mut self, strip: bool) -> Result<Value, Error> {
        if strip {
            self.reader.strip_self_described();
        }
        self.reader.check_tags()?;
        self.checked_item()
    }

    /// Reads an item whose tags were checked.
    fn checked_item(&mut self) -> Result<Value, Error> {
        match self.reader.major() {
            Major::Positive => {
                let head = self.reader.head();
                i64::try_from(head.argument).map(Value::Int).map_err(|_| {
                    let note = format!("{} overflows Go's int64", head.argument);
                    Error::noted(Major::Positive.name(), "int64", note)
                })
            }
            Major::Negative => negative(self.reader.head(), &|| "int64".to_owned()).map(Value::Int),
            Major::Bytes => Ok(Value::String(text_of(&self.reader.byte_string(), self.later))),
            Major::Text => self.reader.text_string().map(|text| Value::String(Str::from(&*text))),
            Major::Array => self.array().map(Value::Array),
            Major::Map => self.map().map(Value::Object),
            Major::Tag => self.tagged(),
            Major::Primitive => {
                let (initial, head) = (self.reader.peek(), self.reader.head());
                simple(head)?;
                Ok(match initial {
                    FALSE => Value::Bool(false),
                    TRUE => Value::Bool(true),
                    // Also the two-byte form of the same values, which is malformed and cannot be here.
                    _ => Reader::float(head).map_or(Value::Null, Value::Float),
                })
            }
        }
    }

    /// Goes over a tag and heeds it.
    fn tag(&mut self) {
        let tag = self.reader.head().argument;
        self.later = Later::of(tag).or(self.later);
    }

    /// Goes over all tags before an item, and heeds them.
    pub(super) fn tags(&mut self) {
        while self.reader.major() == Major::Tag {
            self.tag();
        }
    }

    fn tagged(&mut self) -> Result<Value, Error> {
        let before = self.later;
        let start = self.reader;
        let tag = self.reader.head().argument;
        let item = if matches!(tag, TIME_TEXT | TIME_NUMBER) {
            self.time()
        } else {
            self.reader = start;
            self.tag();
            self.checked_item()
        };
        self.later = before;
        item
    }

    fn array(&mut self) -> Result<Vec<Value>, Error> {
        let head = self.reader.head();
        let mut items = Vec::with_capacity(self.reader.room(head));
        let (mut error, mut done) = (None, 0);
        while self.reader.more(head, done) {
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
        error.map_or(Ok(items), Err)
    }

    pub(super) fn map(&mut self) -> Result<Object, Error> {
        let mut entries = Entries::begin(self, "string");
        let mut found = Vec::new();
        while let Some(key) = entries.key(self) {
            let value = self.item(true);
            found.extend(entries.keep(self, value)?.map(|value| (key, value)));
        }
        entries.end()?;
        Ok(Object::from_entries(found))
    }

    /// The key of a map, as a Go string of this type. Null leaves the string as it was: what the key before was.
    fn key(&mut self, last: &Str, go: &str) -> Result<Str, Error> {
        self.reader.strip_self_described();
        self.reader.check_tags()?;
        let before = self.later;
        self.tags();
        let later = std::mem::replace(&mut self.later, before);
        match self.reader.major() {
            Major::Bytes => Ok(text_of(&self.reader.byte_string(), later)),
            Major::Text => self.reader.text_string().map(|text| Str::from(&*text)),
            _ => misfit(&mut self.reader, &|| go.to_owned()).map(|_| last.clone()),
        }
    }

    fn time(&mut self) -> Result<Value, Error> {
        const GO: &str = "time.Time";
        let time = match self.reader.major() {
            Major::Text => return rfc3339_nano(&self.reader.text_string()?),
            Major::Positive => {
                let head = self.reader.head();
                let seconds = i64::try_from(head.argument).map_err(|_| {
                    let note = format!("{} overflows Go's int64", head.argument);
                    Error::noted(Major::Positive.name(), GO, note)
                })?;
                Time { seconds, nanos: 0 }
            }
            Major::Negative => Time { seconds: negative(self.reader.head(), &|| GO.to_owned())?, nanos: 0 },
            _ => time_of_float(Reader::float(self.reader.head()).unwrap_or_default()),
        };
        // From the year 0 to the year 9999.
        if !(-62_167_219_200..253_402_300_800).contains(&time.seconds) {
            return Err(Error::Other(
                "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: \
                 Time.MarshalText: year outside of range [0,9999]"
                    .to_owned(),
            ));
        }
        Ok(Value::from(time.rfc3339_nano()))
    }
}

/// A map that is being read into a Go map of strings. Of errors the first counts, but a key that comes twice more than any
/// before it: upstream stops there.
pub(super) struct Entries<'t> {
    /// The Go type of the keys.
    go: &'t str,
    head: Head,
    done: usize,
    seen: Seen,
    last: Str,
    error: Option<Error>,
}

impl<'t> Entries<'t> {
    /// Begins with the map whose head is next.
    pub(super) fn begin(untyped: &mut Untyped<'_>, go: &'t str) -> Self {
        let head = untyped.reader.head();
        Self { go, head, done: 0, seen: Seen::default(), last: Str::default(), error: None }
    }

    /// The next key; its value is to be read then, and to be given to [`Entries::keep`].
    pub(super) fn key(&mut self, untyped: &mut Untyped<'_>) -> Option<Str> {
        while untyped.reader.more(self.head, self.done) {
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

    /// What came of the last key's value.
    ///
    /// # Errors
    /// The key came before; the map has been gone over.
    pub(super) fn keep(
        &mut self,
        untyped: &mut Untyped<'_>,
        value: Result<Value, Error>,
    ) -> Result<Option<Value>, Error> {
        match value {
            Err(first) => {
                self.error.get_or_insert(first);
                Ok(None)
            }
            Ok(_) if self.seen.again(&self.last) => {
                let index = self.done - 1;
                while untyped.reader.more(self.head, self.done) {
                    self.done += 1;
                    untyped.reader.skip();
                    untyped.reader.skip();
                }
                Err(Error::DuplicateKey { key: crate::go::quote(&self.last), index })
            }
            Ok(value) => Ok(Some(value)),
        }
    }

    /// The end of the map.
    ///
    /// # Errors
    /// The first that there was.
    pub(super) fn end(self) -> Result<(), Error> {
        self.error.map_or(Ok(()), Err)
    }
}

/// A time as it was written, in Go's form: with its own offset and no zeros after the fraction.
fn rfc3339_nano(text: &str) -> Result<Value, Error> {
    let time = Time::parse_rfc3339(text)
        .map_err(|error| Error::Other(format!("cbor: cannot set {text} for time.Time: {error}")))?;
    let offset = match text.get(text.len().saturating_sub(6)..) {
        Some(offset) if offset.starts_with(['+', '-']) && !offset.ends_with("00:00") => Cow::Borrowed(offset),
        _ => return Ok(Value::from(time.rfc3339_nano())),
    };
    // `parse_rfc3339` has made sure that these are digits.
    let part = |range| offset.get(range).and_then(|digits: &str| digits.parse::<i64>().ok()).unwrap_or_default();
    let minutes = part(1..3) * 60 + part(4..6);
    let minutes = if offset.starts_with('-') { -minutes } else { minutes };
    let local = Time { seconds: time.seconds + minutes * 60, nanos: time.nanos }.rfc3339_nano();
    Ok(Value::from(local.trim_end_matches('Z').to_owned() + &offset))
}

/// The time of a number of seconds; of one that is too large, a time that is.
#[allow(clippy::cast_possible_truncation)] // saturates
fn time_of_float(number: f64) -> Time {
    let (seconds, nanos) = (number.trunc() as i64, (number.fract() * 1e9) as i64);
    let (seconds, nanos) =
        if nanos < 0 { (seconds.saturating_sub(1), nanos + 1_000_000_000) } else { (seconds, nanos) };
    Time { seconds, nanos: u32::try_from(nanos).unwrap_or_default() }
}
