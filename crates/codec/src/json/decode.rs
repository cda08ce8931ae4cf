//! Reads JSON into a tree with the rules of `sigs.k8s.io/json`: integers stay integers where they fit 64 bits, broken
//! UTF-8 and lone surrogates become U+FFFD, of duplicate keys the last wins, and nesting ends at 10,000 levels.

use std::borrow::Cow;

use pintle_value::{Object, Str, Value};
use thiserror::Error;

use super::{strict, syntax};

/// How deep arrays and objects may nest (`maxNestingDepth` of Go's scanner).
pub const MAX_DEPTH: usize = 10_000;

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// It is not well-formed JSON. The message is Go's.
    #[error("{0}")]
    Syntax(String),
    /// A value has the wrong type or is out of range. The message is Go's.
    #[error("{0}")]
    Type(String),
}

/// How to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Look for duplicate keys and list them.
    pub duplicates: bool,
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The tree.
    pub value: Value,
    /// True if a key came twice in some object, at any depth, whether or not [`Options::duplicates`] asked for the list.
    pub has_duplicates: bool,
    /// The full paths of duplicate keys in the order of the text (`spec.ports[0].name`), for data without a schema; each
    /// once, at most 100. Empty unless asked for. For typed data see [`super::strictness`].
    pub duplicates: Vec<String>,
}

/// Reads one JSON value that fills the whole text.
///
/// # Errors
/// [`DecodeError::Syntax`] for malformed JSON, [`DecodeError::Type`] for a number outside of the range of `float64`.
pub fn decode(text: &[u8], options: Options) -> Result<Decoded, DecodeError> {
    let valid = to_utf8(text)?;
    let mut parser = Parser {
        text: &valid,
        at: 0,
        depth: 0,
        duplicates: false,
        overflow: None,
        items: Vec::with_capacity(16),
        entries: Vec::with_capacity(64),
    };
    let value = match parser.document() {
        Ok(value) => value,
        Err(Malformed) => return Err(syntax_error(text)),
    };
    if let Some(number) = parser.overflow {
        let message = format!("json: cannot unmarshal number {number} into Go value of type float64");
        return Err(DecodeError::Type(message));
    }
    let has_duplicates = parser.duplicates;
    let duplicates = if has_duplicates && options.duplicates { strict::duplicates(&valid) } else { Vec::new() };
    Ok(Decoded { value, has_duplicates, duplicates })
}

/// The text as UTF-8. Every byte of a broken sequence becomes U+FFFD, as Go does inside strings; outside of them it is a
/// syntax error, which is why the syntax of such a text is checked first.
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
    // The parser and the scanner accept the same language (a test compares them), so the fallback is never seen.
    DecodeError::Syntax(syntax::error(text).unwrap_or_else(|| "invalid JSON".to_owned()))
}

/// `apiVersion` and `kind` of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apiVersion`, or empty.
    pub api_version: Str,
    /// `kind`, or empty.
    pub kind: Str,
}

/// Finds out what an object says that it is, as upstream does before anything else: with Go's standard decoder, which
/// ignores the case of names, so that `Kind` names a kind here although it is an unknown field later.
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
                shape(other)
            )));
        }
    };
    // Exact names sort after other spellings of them in ASCII, so that they win here, as a rule, in Go too.
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
                let shape = shape(other);
                let message = format!("json: cannot unmarshal {shape} into Go struct field .{name} of type string");
                return Err(DecodeError::Type(message));
            }
        }
    }
    Ok(meta)
}

/// What Go's messages call a JSON value.
fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The text is not well-formed; the scanner says why.
pub(super) struct Malformed;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    duplicates: bool,
    /// The first number that does not fit a float.
    overflow: Option<&'a str>,
    /// The items and members of the arrays and objects that are open, so that each gets a vector of just its size.
    items: Vec<Value>,
    entries: Vec<(Str, Value)>,
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Result<Value, Malformed> {
        let first = self.past_space();
        let value = self.value(first)?;
        match self.past_space() {
            0 if self.at >= self.text.len() => Ok(value),
            _ => Err(Malformed),
        }
    }

    /// The next byte that is not white space, or 0 at the end (a zero byte is never valid outside of strings, nor in them).
    fn past_space(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return byte;
            }
            self.at += 1;
        }
        0
    }

    fn value(&mut self, first: u8) -> Result<Value, Malformed> {
        match first {
            b'"' => self.string().map(Value::String),
            b'{' => self.object(),
            b'[' => self.array(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => Err(Malformed),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Malformed> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(value)
    }

    fn enter(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Malformed) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    fn array(&mut self) -> Result<Value, Malformed> {
        self.enter()?;
        let mut next = self.past_space();
        if next == b']' {
            self.leave();
            return Ok(Value::Array(Vec::new()));
        }
        let start = self.items.len();
        loop {
            let item = self.value(next)?;
            self.items.push(item);
            match self.past_space() {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(Malformed),
            }
            next = self.past_space();
        }
        self.leave();
        Ok(Value::Array(self.items.split_off(start)))
    }

    fn object(&mut self) -> Result<Value, Malformed> {
        self.enter()?;
        let mut next = self.past_space();
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
            if self.past_space() != b':' {
                return Err(Malformed);
            }
            self.at += 1;
            let first = self.past_space();
            let value = self.value(first)?;
            self.entries.push((key, value));
            match self.past_space() {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(Malformed),
            }
            next = self.past_space();
        }
        self.leave();
        let members = self.entries.len() - start;
        let object = Object::from_entries(self.entries.split_off(start));
        self.duplicates |= object.len() < members;
        Ok(Value::Object(object))
    }

    fn string(&mut self) -> Result<Str, Malformed> {
        string(self.text, &mut self.at)
    }

    fn number(&mut self) -> Result<Value, Malformed> {
        let text = number(self.text, &mut self.at)?;
        if let Some(i) = integer(text) {
            return Ok(Value::Int(i));
        }
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(Value::Float(f)),
            _ => {
                self.overflow.get_or_insert(text);
                Ok(Value::Null)
            }
        }
    }
}

/// A number's text as an integer, if it is one that fits.
pub(super) fn integer(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (negative, digits) = match bytes.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, bytes),
    };
    // Eighteen digits always fit; longer ones take the careful way.
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

/// The text of the number at `at`, which moves behind it.
fn number<'a>(text: &'a str, at: &mut usize) -> Result<&'a str, Malformed> {
    let bytes = text.as_bytes();
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let start = *at;
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
    *at = i;
    text.get(start..i).ok_or(Malformed)
}

/// Where the plain text from `i` on ends: at a quote, a backslash or a control character, or where there is no more. Looks
/// at eight bytes at a time.
pub(super) fn plain(bytes: &[u8], mut i: usize) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x80 * EACH;
    // The top bit of each byte below a limit of at most 0x80. A borrow may set others too, but none before the first.
    let below = |word: u64, limit: u8| word.wrapping_sub(EACH * u64::from(limit)) & !word & TOP;
    let is = |word: u64, byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    while let Some(eight) = bytes.get(i..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*eight);
        let ends = is(word, b'"') | is(word, b'\\') | below(word, 0x20);
        if ends != 0 {
            return i + (ends.trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    while bytes.get(i).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)) {
        i += 1;
    }
    i
}

/// The string whose opening quote is at `at`, which moves behind the closing one.
pub(super) fn string(text: &str, at: &mut usize) -> Result<Str, Malformed> {
    let bytes = text.as_bytes();
    let start = *at + 1;
    let mut i = plain(bytes, start);
    match bytes.get(i) {
        Some(b'"') => {
            *at = i + 1;
            return text.get(start..i).map(Str::from).ok_or(Malformed);
        }
        Some(b'\\') => {}
        _ => return Err(Malformed),
    }
    // There is an escape: copy runs of plain text and what the escapes stand for.
    let mut out = String::from(text.get(start..i).ok_or(Malformed)?);
    loop {
        match bytes.get(i) {
            Some(b'"') => {
                *at = i + 1;
                return Ok(Str::from(out));
            }
            Some(b'\\') => {
                out.push(escape(bytes, &mut i)?);
            }
            _ => {
                let run = i;
                i = plain(bytes, run);
                if !matches!(bytes.get(i), Some(b'"' | b'\\')) {
                    return Err(Malformed);
                }
                out.push_str(text.get(run..i).ok_or(Malformed)?);
            }
        }
    }
}

/// The character of the escape at `i`, which moves behind it. Half a surrogate pair gives U+FFFD.
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

/// The number of the escape `\uXXXX` at `i`.
fn code_unit(bytes: &[u8], i: usize) -> Option<u32> {
    let escape = bytes.get(i..i + 6)?;
    if !escape.starts_with(b"\\u") {
        return None;
    }
    escape[2..].iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

/// Walks over a text that is known to be well-formed, value by value.
pub(super) struct Walk<'a> {
    text: &'a str,
    at: usize,
}

/// What a value begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Object,
    Array,
    String(&'a str),
    Number(&'a str),
    Bool(bool),
    Null,
}

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or_default()
    }

    /// Where the next value begins.
    pub(super) fn position(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// The text from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Reads the next value, of an array or object only its opening bracket. A string comes with its quotes.
    pub(super) fn token(&mut self) -> Token<'a> {
        let start = self.position();
        match self.peek() {
            b'{' => {
                self.at += 1;
                Token::Object
            }
            b'[' => {
                self.at += 1;
                Token::Array
            }
            b'"' => {
                let bytes = self.text.as_bytes();
                self.at += 1;
                while let Some(&byte) = bytes.get(self.at) {
                    self.at += 1;
                    match byte {
                        b'"' => break,
                        b'\\' => self.at += 1,
                        _ => {}
                    }
                }
                Token::String(self.since(start))
            }
            b't' => {
                self.at += 4;
                Token::Bool(true)
            }
            b'f' => {
                self.at += 5;
                Token::Bool(false)
            }
            b'n' => {
                self.at += 4;
                Token::Null
            }
            _ => match number(self.text, &mut self.at) {
                Ok(number) => Token::Number(number),
                Err(Malformed) => {
                    self.at = self.text.len();
                    Token::Null
                }
            },
        }
    }

    /// The key of the next member of an object, or none at its end.
    pub(super) fn next_key(&mut self) -> Option<Str> {
        if self.peek() == b',' {
            self.at += 1;
        }
        if self.peek() != b'"' {
            self.at += 1;
            return None;
        }
        let key = string(self.text, &mut self.at).ok()?;
        if self.peek() == b':' {
            self.at += 1;
        }
        Some(key)
    }

    /// True if an array has another item.
    pub(super) fn next_item(&mut self) -> bool {
        if self.peek() == b',' {
            self.at += 1;
        }
        if matches!(self.peek(), b']' | 0) {
            self.at += 1;
            return false;
        }
        true
    }

    /// Reads over what is left of the value that `token` began.
    pub(super) fn skip(&mut self, token: Token<'_>) {
        let mut depth = usize::from(matches!(token, Token::Object | Token::Array));
        while depth > 0 && self.at < self.text.len() {
            match self.peek() {
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                _ => depth += usize::from(matches!(self.token(), Token::Object | Token::Array)),
            }
        }
    }

    /// What a string token stands for.
    pub(super) fn unquote(token: &str) -> Str {
        string(token, &mut 0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn plain_text_ends_where_it_does() {
        let naive = |bytes: &[u8], start: usize| {
            let rest = bytes[start..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            rest.map_or(bytes.len(), |at| start + at)
        };
        for byte in 0..=u8::MAX {
            for other in [b'a', b'"', b'\\', 0x1f, 0x21, 0x7f, 0x80, 0xff] {
                for at in 0..20 {
                    let mut bytes = vec![b' '; 20];
                    bytes[at] = byte;
                    bytes[(at + 1) % 20] = other;
                    for start in 0..3 {
                        assert_eq!(plain(&bytes, start), naive(&bytes, start), "{byte} {other} {at} {start}");
                    }
                }
            }
        }
        assert_eq!(plain(b"ab", 2), 2);
    }
}
