//! Decodes JSON into a tree with the rules of `sigs.k8s.io/json`. Integers that fit 64 bits stay integers. Invalid
//! UTF-8 and lone surrogates become U+FFFD. The last of duplicate keys wins. Nesting is limited to 10,000 levels.

use std::borrow::Cow;

use pintle_budget as budget;
use pintle_fieldpath::set::encoded_field_set;
use pintle_value::{MEMBER_BYTES, Member, Object, Str, Value};
use thiserror::Error;

use super::plain_object::plain_object;
use super::word::{repeated, zero_bytes};
use super::{strict, syntax};

/// Maximum nesting depth of arrays and objects (`maxNestingDepth` of Go's scanner).
pub const MAX_DEPTH: usize = 10_000;

/// The nesting depth of an entry of managed fields.
const FIELD_SET_DEPTH: usize = 4;

/// Why a text could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The text is not well-formed JSON. The message is Go's.
    #[error("{0}")]
    Syntax(String),
    /// A value has the wrong type or is out of range. The message is Go's.
    #[error("{0}")]
    Type(String),
}

/// Options for [`decode`].
#[derive(Clone, Copy, Debug, Default)]
pub struct DecodeOptions {
    /// Whether to list the paths of duplicate keys.
    pub duplicates: bool,
    /// Whether a number outside the range of `float64` becomes an infinity instead of an error.
    pub infinities: bool,
    /// Whether copies of the tree share its objects until they are changed ([`Object::into_shared`]), and the field
    /// sets of managed fields are kept as text.
    pub stored: bool,
    /// The members of the outermost object in which objects are kept as text until they are used (`EncodedObject`).
    /// An object is kept so if it is written as this server writes it. Duplicate keys in it are not found.
    pub kept_as_text: &'static [&'static str],
    /// The number of objects and arrays around the text in a stored object. Only the objects of a whole text are shared.
    pub enclosing: usize,
}

impl DecodeOptions {
    /// The options for stored objects, whose field sets are in the form in which they are written.
    pub const STORED: Self =
        Self { duplicates: false, infinities: false, stored: true, kept_as_text: &[], enclosing: 0 };
}

/// The result of [`decode`].
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The tree.
    pub value: Value,
    /// True if any object, at any depth, has a duplicate key. Set regardless of [`DecodeOptions::duplicates`].
    pub has_duplicates: bool,
    /// The full paths of duplicate keys in text order (`spec.ports[0].name`), for data without a schema. Each path is
    /// listed once, and at most 100 are listed. Empty unless requested. For typed data see [`super::decode_strict`].
    pub duplicates: Vec<String>,
}

/// Decodes one JSON value that spans the whole text.
///
/// # Errors
/// [`DecodeError::Syntax`] for malformed JSON, [`DecodeError::Type`] for a number outside the range of `float64`,
/// unless these are allowed.
pub fn decode(text: &[u8], options: DecodeOptions) -> Result<Decoded, DecodeError> {
    let valid = to_utf8(text)?;
    let mut parser = Parser {
        text: &valid,
        offset: 0,
        depth: options.enclosing,
        shares: options.enclosing == 0,
        duplicates: false,
        overflow: None,
        unlike_text: 0,
        // Offsets in a text that was repaired are not offsets in the original.
        stored: options.stored && matches!(valid, Cow::Borrowed(_)),
        kept_as_text: options.kept_as_text,
        keeps_objects: false,
        items: Vec::new(),
        entries: Vec::new(),
    };
    // Most texts are objects, which have room for their members from the start. A scalar needs none.
    if text.first() == Some(&b'{') {
        parser.items.reserve(16);
        parser.entries.reserve(64);
    }
    let value = match parser.single_value() {
        Ok(value) => value,
        Err(Malformed) => return Err(syntax_error(text)),
    };
    if let Some(number) = parser.overflow.filter(|_| !options.infinities) {
        let message = format!("json: cannot unmarshal number {number} into Go value of type float64");
        return Err(DecodeError::Type(message));
    }
    let has_duplicates = parser.duplicates;
    let duplicates = if has_duplicates && options.duplicates { strict::duplicates(&valid) } else { Vec::new() };
    Ok(Decoded { value, has_duplicates, duplicates })
}

/// The text as UTF-8. Every byte of an invalid sequence becomes U+FFFD, as Go does inside strings. Outside strings an
/// invalid sequence is a syntax error, so the syntax of such a text is checked first.
pub(super) fn to_utf8(text: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
    if let Ok(valid) = std::str::from_utf8(text) {
        return Ok(Cow::Borrowed(valid));
    }
    if let Some(message) = syntax::error(text) {
        return Err(DecodeError::Syntax(message));
    }
    let mut valid = String::with_capacity(text.len() + 16);
    for chunk in text.utf8_chunks() {
        valid.push_str(chunk.valid());
        valid.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(Cow::Owned(valid))
}

fn syntax_error(text: &[u8]) -> DecodeError {
    // The parser and the scanner accept the same language (a test compares them), so the fallback is unreachable.
    DecodeError::Syntax(syntax::error(text).unwrap_or_else(|| "invalid JSON".to_owned()))
}

/// An object's `apiVersion` and `kind`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apiVersion`, or empty.
    pub api_version: Str,
    /// `kind`, or empty.
    pub kind: Str,
}

/// Reads an object's type metadata. Upstream does this first, with Go's standard decoder. That decoder ignores the case
/// of field names, so `Kind` is accepted here although it is an unknown field later.
///
/// # Errors
/// [`DecodeError::Type`] if the value is not an object, or if a member is not a string.
pub fn type_meta(value: &Value) -> Result<TypeMeta, DecodeError> {
    let mut meta = TypeMeta::default();
    let object = match value {
        Value::Null => return Ok(meta),
        Value::Object(object) => object,
        other => {
            let go = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
            return Err(DecodeError::Type(format!(
                "json: cannot unmarshal {} into Go value of type {go}",
                other.json_type()
            )));
        }
    };
    // Exact names sort after other ASCII spellings of the same name, so the exact name wins here, as it usually does in
    // Go.
    for (key, value) in object.iter() {
        let (name, slot) = if key.eq_ignore_ascii_case("apiVersion") {
            ("apiVersion", &mut meta.api_version)
        } else if key.eq_ignore_ascii_case("kind") {
            ("kind", &mut meta.kind)
        } else {
            continue;
        };
        match value {
            Value::String(text) => slot.clone_from(text),
            Value::Null => {}
            other => {
                let actual = other.json_type();
                let message = format!("json: cannot unmarshal {actual} into Go struct field .{name} of type string");
                return Err(DecodeError::Type(message));
            }
        }
    }
    Ok(meta)
}

/// The text is not well-formed. The scanner in [`syntax`] finds the message.
pub(super) struct Malformed;

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    depth: usize,
    /// Whether stored objects are shared.
    shares: bool,
    duplicates: bool,
    /// The first number that does not fit a `float64`.
    overflow: Option<&'a str>,
    /// The number of values that are encoded in another way than they were read. The objects around them have no text
    /// to copy.
    unlike_text: usize,
    /// See [`DecodeOptions::stored`].
    stored: bool,
    /// See [`DecodeOptions::kept_as_text`].
    kept_as_text: &'static [&'static str],
    /// Whether objects in the current member of the outermost object are kept as text.
    keeps_objects: bool,
    /// The items and members of all open arrays and objects, so that each is allocated with its exact size.
    items: Vec<Value>,
    entries: Vec<Member>,
}

impl<'a> Parser<'a> {
    fn single_value(&mut self) -> Result<Value, Malformed> {
        let first_byte = self.skip_space();
        let value = self.value(first_byte)?;
        match self.skip_space() {
            0 if self.offset >= self.text.len() => Ok(value),
            _ => Err(Malformed),
        }
    }

    /// Skips white space and returns the next byte, or 0 at the end. A zero byte is never valid JSON, neither inside
    /// strings nor outside.
    fn skip_space(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.offset) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return byte;
            }
            self.offset += 1;
        }
        0
    }

    fn value(&mut self, first_byte: u8) -> Result<Value, Malformed> {
        match first_byte {
            b'"' => self.string().map(Value::String),
            b'{' if self.keeps_objects && self.depth > 1 => self.kept_object(),
            b'{' => self.object(),
            b'[' => self.array(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true", Value::Bool(true)),
            b'f' => self.literal("false", Value::Bool(false)),
            b'n' => self.literal("null", Value::Null),
            _ => Err(Malformed),
        }
    }

    fn literal(&mut self, literal: &str, value: Value) -> Result<Value, Malformed> {
        if !self.text.as_bytes()[self.offset..].starts_with(literal.as_bytes()) {
            return Err(Malformed);
        }
        self.offset += literal.len();
        Ok(value)
    }

    fn enter(&mut self) -> Result<(), Malformed> {
        self.offset += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Malformed) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.offset += 1;
        self.depth -= 1;
    }

    fn array(&mut self) -> Result<Value, Malformed> {
        self.enter()?;
        let mut next = self.skip_space();
        if next == b']' {
            self.leave();
            return Ok(Value::Array(Vec::new()));
        }
        let start = self.items.len();
        loop {
            let item = self.value(next)?;
            self.items.push(item);
            match self.skip_space() {
                b',' => self.offset += 1,
                b']' => break,
                _ => return Err(Malformed),
            }
            next = self.skip_space();
        }
        self.leave();
        self.charge((self.items.len() - start) * size_of::<Value>())?;
        Ok(Value::Array(self.items.split_off(start)))
    }

    /// Charges a part of the tree. When the budget is exhausted, nobody reads the error.
    fn charge(&self, bytes: usize) -> Result<(), Malformed> {
        if self.stored || budget::charge(bytes).is_ok() { Ok(()) } else { Err(Malformed) }
    }

    fn object(&mut self) -> Result<Value, Malformed> {
        let (text_start, unlike_text) = (self.offset, self.unlike_text);
        self.enter()?;
        let mut next = self.skip_space();
        if next == b'}' {
            self.leave();
            return Ok(Value::object());
        }
        let start = self.entries.len();
        loop {
            if next != b'"' {
                return Err(Malformed);
            }
            let key = self.string()?;
            if self.skip_space() != b':' {
                return Err(Malformed);
            }
            self.offset += 1;
            let first_byte = self.skip_space();
            if self.depth == 1 {
                self.keeps_objects = self.kept_as_text.contains(&key.as_str());
            }
            let value = match self.field_set(&key) {
                Some(field_set) => field_set,
                None => self.value(first_byte)?,
            };
            self.entries.push(Member::new(key, value));
            match self.skip_space() {
                b',' => self.offset += 1,
                b'}' => break,
                _ => return Err(Malformed),
            }
            next = self.skip_space();
        }
        self.leave();
        let members = self.entries.len() - start;
        self.charge(size_of::<Value>() + members * MEMBER_BYTES)?;
        let object = Object::from_members(self.entries.split_off(start));
        if object.len() < members {
            self.duplicates = true;
            self.unlike_text += 1;
        }
        let is_like_text = self.unlike_text == unlike_text;
        match (u32::try_from(text_start), u32::try_from(self.offset)) {
            (Ok(start), Ok(end)) if self.stored && self.shares && is_like_text => {
                Ok(Value::Object(object.into_shared(start..end)))
            }
            _ => Ok(Value::Object(object)),
        }
    }

    /// The next object, as text if it can be kept so. Otherwise all of it is decoded, so that no part is examined
    /// again.
    fn kept_object(&mut self) -> Result<Value, Malformed> {
        if let Some((object, length)) = plain_object(self.text, self.offset) {
            self.offset += length;
            return Ok(Value::Object(object.into()));
        }
        self.keeps_objects = false;
        let object = self.object();
        self.keeps_objects = true;
        object
    }

    /// The next value, if it is a field set that is kept as text.
    fn field_set(&mut self, key: &str) -> Option<Value> {
        if !self.stored || self.depth != FIELD_SET_DEPTH || key != "fieldsV1" {
            return None;
        }
        let (encoded, length) = encoded_field_set(self.text, self.offset)?;
        self.offset += length;
        Some(Value::Object(encoded.into()))
    }

    fn string(&mut self) -> Result<Str, Malformed> {
        string(self.text, &mut self.offset)
    }

    fn number(&mut self) -> Result<Value, Malformed> {
        let text = number(self.text, &mut self.offset)?;
        if let Some(i) = integer(text) {
            // This text stands for a float that is read again as the integer 0.
            self.unlike_text += usize::from(text == "-0");
            return Ok(Value::Int(i));
        }
        let f = text.parse::<f64>().map_err(|_| Malformed)?;
        if f.is_infinite() {
            self.overflow.get_or_insert(text);
        }
        Ok(Value::Float(f))
    }
}

/// Parses a number's text as an integer. `None` if it is not an integer or does not fit.
pub(super) fn integer(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (negative, digits) = match bytes.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, bytes),
    };
    // Eighteen digits always fit; longer numbers need the overflow checks of the standard library.
    if digits.len() > 18 {
        return text.parse().ok();
    }
    let mut value = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -value } else { value })
}

/// Reads the number at `offset` and advances `offset` past it.
pub(super) fn number<'a>(text: &'a str, offset: &mut usize) -> Result<&'a str, Malformed> {
    let bytes = text.as_bytes();
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let start = *offset;
    let mut i = start + usize::from(bytes.get(start) == Some(&b'-'));
    match bytes.get(i) {
        Some(b'0') => i += 1,
        Some(b'1'..=b'9') => i = digits(i),
        _ => return Err(Malformed),
    }
    if bytes.get(i) == Some(&b'.') {
        let end = digits(i + 1);
        if end == i + 1 {
            return Err(Malformed);
        }
        i = end;
    }
    if let Some(b'e' | b'E') = bytes.get(i) {
        i += 1;
        if let Some(b'+' | b'-') = bytes.get(i) {
            i += 1;
        }
        let end = digits(i);
        if end == i {
            return Err(Malformed);
        }
        i = end;
    }
    *offset = i;
    text.get(start..i).ok_or(Malformed)
}

/// The end of the run of plain string characters that begins at `start`. It ends at the next quote, backslash or
/// control character, or at the end of the text. Most strings are short, so the first bytes are examined a word at a
/// time.
pub(super) fn plain_run_end(bytes: &[u8], start: usize) -> usize {
    const SHORT: usize = 32;
    let mut i = start;
    while let Some(eight) = bytes.get(i..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*eight);
        let controls = zero_bytes(word & repeated(0xe0));
        let ends = zero_bytes(word ^ repeated(b'"')) | zero_bytes(word ^ repeated(b'\\')) | controls;
        if ends != 0 {
            return i + (ends.trailing_zeros() / 8) as usize;
        }
        i += 8;
        if i - start == SHORT {
            i += plain_blocks_length(&bytes[i..]);
        }
    }
    while bytes.get(i).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)) {
        i += 1;
    }
    i
}

/// The total length of the leading 32-byte blocks that contain only plain string characters. The check of a block has
/// no branches, so the compiler vectorizes it.
#[inline(never)]
fn plain_blocks_length(bytes: &[u8]) -> usize {
    let ends_run = |byte: u8| (byte == b'"') | (byte == b'\\') | (byte < 0x20);
    let is_plain = |block: &&[u8; 32]| !block.iter().fold(false, |found, byte| found | ends_run(*byte));
    bytes.as_chunks().0.iter().take_while(is_plain).map(|block| block.len()).sum()
}

/// Reads the string whose opening quote is at `offset` and advances `offset` past the closing quote.
pub(super) fn string(text: &str, offset: &mut usize) -> Result<Str, Malformed> {
    let bytes = text.as_bytes();
    let start = *offset + 1;
    let mut i = plain_run_end(bytes, start);
    match bytes.get(i) {
        Some(b'"') => {
            *offset = i + 1;
            return text.get(start..i).map(Str::from).ok_or(Malformed);
        }
        Some(b'\\') => {}
        _ => return Err(Malformed),
    }
    // The string has escapes: copy runs of plain text and the decoded escapes.
    let mut out = String::from(text.get(start..i).ok_or(Malformed)?);
    loop {
        match bytes.get(i) {
            Some(b'"') => {
                *offset = i + 1;
                return Ok(Str::from(out));
            }
            Some(b'\\') => {
                out.push(escape(bytes, &mut i)?);
            }
            _ => {
                let run = i;
                i = plain_run_end(bytes, run);
                if !matches!(bytes.get(i), Some(b'"' | b'\\')) {
                    return Err(Malformed);
                }
                out.push_str(text.get(run..i).ok_or(Malformed)?);
            }
        }
    }
}

/// Decodes the escape at `i` and advances `i` past it. An unpaired surrogate gives U+FFFD.
fn escape(bytes: &[u8], i: &mut usize) -> Result<char, Malformed> {
    let plain = match bytes.get(*i + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let unit = code_unit(bytes, *i).ok_or(Malformed)?;
            *i += 6;
            if let Some(c) = char::from_u32(unit) {
                return Ok(c);
            }
            if let (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) = (unit, code_unit(bytes, *i)) {
                *i += 6;
                let c = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        _ => return Err(Malformed),
    };
    *i += 2;
    Ok(plain)
}

/// The code unit of the escape `\uXXXX` at `i`.
fn code_unit(bytes: &[u8], i: usize) -> Option<u32> {
    let escape = bytes.get(i..i + 6)?;
    if !escape.starts_with(b"\\u") {
        return None;
    }
    escape[2..].iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

/// Reads a well-formed text token by token.
pub(super) struct Tokenizer<'a> {
    text: &'a str,
    offset: usize,
}

/// The first token of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Object,
    Array,
    String(&'a str),
    Number(&'a str),
    Bool(bool),
    Null,
}

impl<'a> Tokenizer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, offset: 0 }
    }

    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(self.offset) {
            self.offset += 1;
        }
        bytes.get(self.offset).copied().unwrap_or_default()
    }

    /// The offset of the next value.
    pub(super) fn position(&mut self) -> usize {
        self.peek();
        self.offset
    }

    /// The text from `start` to the current position.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.offset).unwrap_or_default()
    }

    /// Reads the next value, or only the opening bracket of an array or object. A string token includes its quotes.
    pub(super) fn token(&mut self) -> Token<'a> {
        let start = self.position();
        match self.peek() {
            b'{' => {
                self.offset += 1;
                Token::Object
            }
            b'[' => {
                self.offset += 1;
                Token::Array
            }
            b'"' => {
                let bytes = self.text.as_bytes();
                self.offset += 1;
                while let Some(&byte) = bytes.get(self.offset) {
                    self.offset += 1;
                    match byte {
                        b'"' => break,
                        b'\\' => self.offset += 1,
                        _ => {}
                    }
                }
                Token::String(self.since(start))
            }
            b't' => {
                self.offset += 4;
                Token::Bool(true)
            }
            b'f' => {
                self.offset += 5;
                Token::Bool(false)
            }
            b'n' => {
                self.offset += 4;
                Token::Null
            }
            _ => match number(self.text, &mut self.offset) {
                Ok(number) => Token::Number(number),
                Err(Malformed) => {
                    self.offset = self.text.len();
                    Token::Null
                }
            },
        }
    }

    /// The key of the next member of an object, or `None` at the end of the object.
    pub(super) fn next_key(&mut self) -> Option<Str> {
        if self.peek() == b',' {
            self.offset += 1;
        }
        if self.peek() != b'"' {
            self.offset += 1;
            return None;
        }
        let key = string(self.text, &mut self.offset).ok()?;
        if self.peek() == b':' {
            self.offset += 1;
        }
        Some(key)
    }

    /// Returns whether the array has another item.
    pub(super) fn next_item(&mut self) -> bool {
        if self.peek() == b',' {
            self.offset += 1;
        }
        if matches!(self.peek(), b']' | 0) {
            self.offset += 1;
            return false;
        }
        true
    }

    /// Skips the rest of the value that starts with `token`.
    pub(super) fn skip(&mut self, token: Token<'_>) {
        let mut depth = usize::from(matches!(token, Token::Object | Token::Array));
        while depth > 0 && self.offset < self.text.len() {
            match self.peek() {
                b'}' | b']' => {
                    depth -= 1;
                    self.offset += 1;
                }
                b',' | b':' => self.offset += 1,
                _ => depth += usize::from(matches!(self.token(), Token::Object | Token::Array)),
            }
        }
    }

    /// Decodes the text of a string token.
    pub(super) fn unquote(token: &str) -> Str {
        string(token, &mut 0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::plain_run_end;

    #[test]
    fn plain_run_end_agrees_with_a_bytewise_search() {
        let naive = |bytes: &[u8], start: usize| {
            let rest = bytes[start..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            rest.map_or(bytes.len(), |offset| start + offset)
        };
        for byte in 0..=u8::MAX {
            for other in [b'a', b'"', b'\\', 0x1f, 0x21, 0x7f, 0x80, 0xff] {
                for offset in 0..20 {
                    let mut bytes = vec![b' '; 20];
                    bytes[offset] = byte;
                    bytes[(offset + 1) % 20] = other;
                    for start in 0..3 {
                        assert_eq!(
                            plain_run_end(&bytes, start),
                            naive(&bytes, start),
                            "{byte} {other} {offset} {start}"
                        );
                    }
                }
            }
        }
        for length in 30..130 {
            for (offset, byte) in (0..length).flat_map(|offset| [b'"', b'\\', 0x1f, 0xff].map(|byte| (offset, byte))) {
                let mut bytes = vec![b' '; length];
                bytes[offset] = byte;
                assert_eq!(plain_run_end(&bytes, 1), naive(&bytes, 1), "{byte} {offset} of {length}");
            }
        }
        assert_eq!(plain_run_end(b"ab", 2), 2);
    }
}
