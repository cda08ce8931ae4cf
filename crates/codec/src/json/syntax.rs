//! Finds Go's message for malformed JSON: the state machine of `encoding/json`'s scanner. It runs only for texts that
//! the parser has rejected.

use pintle_value::print;

use super::decode::MAX_DEPTH;

/// The kind of element that the innermost open array or object expects (`parseState` of Go's scanner).
#[derive(Clone, Copy, PartialEq)]
enum ParseState {
    ObjectValue,
    ArrayValue,
}

/// Go's message for the syntax error in `text`, or `None` for well-formed JSON.
pub(super) fn error(text: &[u8]) -> Option<String> {
    match (Scanner { text, offset: 0, stack: Vec::new() }).run() {
        Ok(()) => None,
        Err(SyntaxError::UnexpectedEnd) => Some("unexpected end of JSON input".to_owned()),
        Err(SyntaxError::InvalidCharacter(offset, context)) => {
            let byte = text.get(offset).copied().unwrap_or(b' ');
            Some(format!("invalid character {} {context}", quote(byte)))
        }
    }
}

/// A byte in single quotes, as Go's scanner prints it.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => r#"'"'"#.to_owned(),
        _ => {
            let quoted = print::quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

enum SyntaxError {
    UnexpectedEnd,
    InvalidCharacter(usize, &'static str),
}

struct Scanner<'a> {
    text: &'a [u8],
    offset: usize,
    stack: Vec<ParseState>,
}

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.value()?;
            if !self.after_value()? {
                return Ok(());
            }
        }
    }

    /// Scans up to and including the first scalar or empty collection: keys, opening brackets and the literal itself.
    fn value(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.skip_space()? {
                b'{' => {
                    self.open(ParseState::ObjectValue)?;
                    if self.skip_space()? == b'}' {
                        return Ok(());
                    }
                    self.key()?;
                }
                b'[' => {
                    self.open(ParseState::ArrayValue)?;
                    if self.skip_space()? == b']' {
                        return Ok(());
                    }
                }
                b'"' => return self.string(),
                b'-' | b'0'..=b'9' => return self.number(),
                b't' => return self.literal(b"true", &TRUE),
                b'f' => return self.literal(b"false", &FALSE),
                b'n' => return self.literal(b"null", &NULL),
                _ => return self.invalid_character("looking for beginning of value"),
            }
        }
    }

    /// Scans the text after a value. Returns true if another value follows, false at the end of the text.
    fn after_value(&mut self) -> Result<bool, SyntaxError> {
        loop {
            let Some(state) = self.stack.last().copied() else {
                return match self.skip_space() {
                    Err(_) => Ok(false),
                    Ok(_) => self.invalid_character("after top-level value"),
                };
            };
            match (self.skip_space()?, state) {
                (b',', ParseState::ObjectValue) => {
                    self.offset += 1;
                    self.skip_space()?;
                    return self.key().map(|()| true);
                }
                (b',', ParseState::ArrayValue) => {
                    self.offset += 1;
                    return Ok(true);
                }
                (b'}', ParseState::ObjectValue) | (b']', ParseState::ArrayValue) => {
                    self.offset += 1;
                    self.stack.pop();
                }
                (_, ParseState::ArrayValue) => return self.invalid_character("after array element"),
                (_, _) => return self.invalid_character("after object key:value pair"),
            }
        }
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        if self.peek()? != b'"' {
            return self.invalid_character("looking for beginning of object key string");
        }
        self.string()?;
        if self.skip_space()? != b':' {
            return self.invalid_character("after object key");
        }
        self.offset += 1;
        Ok(())
    }

    fn open(&mut self, state: ParseState) -> Result<(), SyntaxError> {
        self.stack.push(state);
        if self.stack.len() > MAX_DEPTH {
            return self.invalid_character("exceeded max depth");
        }
        self.offset += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.offset += 1;
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    self.offset += 1;
                    match self.peek_or_space() {
                        b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                        b'u' => {
                            for _ in 0..4 {
                                self.offset += 1;
                                if !self.peek_or_space().is_ascii_hexdigit() {
                                    return self.invalid_character("in \\u hexadecimal character escape");
                                }
                            }
                        }
                        _ => return self.invalid_character("in string escape code"),
                    }
                }
                0..0x20 => return self.invalid_character("in string literal"),
                _ => {}
            }
        }
        self.offset += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek_or_space() == b'-' {
            self.offset += 1;
        }
        match self.peek_or_space() {
            b'0' => self.offset += 1,
            b'1'..=b'9' => self.digits(),
            _ => return self.invalid_character("in numeric literal"),
        }
        if self.text.get(self.offset) == Some(&b'.') {
            self.offset += 1;
            if !self.peek_or_space().is_ascii_digit() {
                return self.invalid_character("after decimal point in numeric literal");
            }
            self.digits();
        }
        if matches!(self.text.get(self.offset), Some(b'e' | b'E')) {
            self.offset += 1;
            if matches!(self.peek_or_space(), b'+' | b'-') {
                self.offset += 1;
            }
            if !self.peek_or_space().is_ascii_digit() {
                return self.invalid_character("in exponent of numeric literal");
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.text.get(self.offset).is_some_and(u8::is_ascii_digit) {
            self.offset += 1;
        }
    }

    fn literal(&mut self, literal: &[u8], contexts: &[&'static str]) -> Result<(), SyntaxError> {
        for (expected, context) in literal.iter().zip(contexts) {
            if self.peek_or_space() != *expected {
                return self.invalid_character(context);
            }
            self.offset += 1;
        }
        Ok(())
    }

    fn skip_space(&mut self) -> Result<u8, SyntaxError> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.offset) {
            self.offset += 1;
        }
        self.peek()
    }

    fn peek(&self) -> Result<u8, SyntaxError> {
        self.text.get(self.offset).copied().ok_or(SyntaxError::UnexpectedEnd)
    }

    /// The next byte, or a space at the end of the text: Go's scanner feeds itself a space to check whether the text
    /// may end.
    fn peek_or_space(&self) -> u8 {
        self.text.get(self.offset).copied().unwrap_or(b' ')
    }

    fn invalid_character<T>(&self, context: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError::InvalidCharacter(self.offset, context))
    }
}

const TRUE: [&str; 4] =
    ["", "in literal true (expecting 'r')", "in literal true (expecting 'u')", "in literal true (expecting 'e')"];
const FALSE: [&str; 5] = [
    "",
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const NULL: [&str; 4] =
    ["", "in literal null (expecting 'u')", "in literal null (expecting 'l')", "in literal null (expecting 'l')"];
