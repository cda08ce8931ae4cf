//! Finds Go's words for what is wrong with a JSON text: the state machine of `encoding/json`'s scanner, run only for
//! texts that the parser has refused.

use super::decode::MAX_DEPTH;

/// What the scanner expects inside the innermost array or object.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Value,
    Item,
}

/// What is wrong with `text`, in Go's words; `None` for well-formed JSON.
pub(super) fn error(text: &[u8]) -> Option<String> {
    match (Scanner { text, at: 0, stack: Vec::new() }).run() {
        Ok(()) => None,
        Err(Fault::End) => Some("unexpected end of JSON input".to_owned()),
        Err(Fault::Byte(at, context)) => {
            let byte = text.get(at).copied().unwrap_or(b' ');
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
            let quoted = crate::go::quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

enum Fault {
    End,
    Byte(usize, &'static str),
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    stack: Vec<Inside>,
}

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        loop {
            self.value()?;
            if !self.after_value()? {
                return Ok(());
            }
        }
    }

    /// Reads what stands before and at the beginning of a value: keys, opening brackets, the literal itself.
    fn value(&mut self) -> Result<(), Fault> {
        loop {
            match self.past_space()? {
                b'{' => {
                    self.open(Inside::Value)?;
                    if self.past_space()? == b'}' {
                        return Ok(());
                    }
                    self.key()?;
                }
                b'[' => {
                    self.open(Inside::Item)?;
                    if self.past_space()? == b']' {
                        return Ok(());
                    }
                }
                b'"' => return self.string(),
                b'-' | b'0'..=b'9' => return self.number(),
                b't' => return self.word(b"true", &TRUE),
                b'f' => return self.word(b"false", &FALSE),
                b'n' => return self.word(b"null", &NULL),
                _ => return self.fault("looking for beginning of value"),
            }
        }
    }

    /// Reads what follows a value. True if another value follows, false at the end of the text.
    fn after_value(&mut self) -> Result<bool, Fault> {
        loop {
            let Some(inside) = self.stack.last().copied() else {
                return match self.past_space() {
                    Err(_) => Ok(false),
                    Ok(_) => self.fault("after top-level value"),
                };
            };
            match (self.past_space()?, inside) {
                (b',', Inside::Value) => {
                    self.at += 1;
                    self.past_space()?;
                    return self.key().map(|()| true);
                }
                (b',', Inside::Item) => {
                    self.at += 1;
                    return Ok(true);
                }
                (b'}', Inside::Value) | (b']', Inside::Item) => {
                    self.at += 1;
                    self.stack.pop();
                }
                (_, Inside::Item) => return self.fault("after array element"),
                (_, _) => return self.fault("after object key:value pair"),
            }
        }
    }

    fn key(&mut self) -> Result<(), Fault> {
        if self.byte()? != b'"' {
            return self.fault("looking for beginning of object key string");
        }
        self.string()?;
        if self.past_space()? != b':' {
            return self.fault("after object key");
        }
        self.at += 1;
        Ok(())
    }

    fn open(&mut self, inside: Inside) -> Result<(), Fault> {
        self.stack.push(inside);
        if self.stack.len() > MAX_DEPTH {
            return self.fault("exceeded max depth");
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        loop {
            self.at += 1;
            match self.byte()? {
                b'"' => break,
                b'\\' => {
                    self.at += 1;
                    match self.byte_or_space() {
                        b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                        b'u' => {
                            for _ in 0..4 {
                                self.at += 1;
                                if !self.byte_or_space().is_ascii_hexdigit() {
                                    return self.fault("in \\u hexadecimal character escape");
                                }
                            }
                        }
                        _ => return self.fault("in string escape code"),
                    }
                }
                0..0x20 => return self.fault("in string literal"),
                _ => {}
            }
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.byte_or_space() == b'-' {
            self.at += 1;
        }
        match self.byte_or_space() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return self.fault("in numeric literal"),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            if !self.byte_or_space().is_ascii_digit() {
                return self.fault("after decimal point in numeric literal");
            }
            self.digits();
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte_or_space(), b'+' | b'-') {
                self.at += 1;
            }
            if !self.byte_or_space().is_ascii_digit() {
                return self.fault("in exponent of numeric literal");
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8], faults: &[&'static str]) -> Result<(), Fault> {
        for (expected, context) in word.iter().zip(faults) {
            if self.byte_or_space() != *expected {
                return self.fault(context);
            }
            self.at += 1;
        }
        Ok(())
    }

    fn past_space(&mut self) -> Result<u8, Fault> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.byte()
    }

    fn byte(&self) -> Result<u8, Fault> {
        self.text.get(self.at).copied().ok_or(Fault::End)
    }

    /// The byte here; at the end a space, since Go's scanner feeds itself one to see whether the text may end.
    fn byte_or_space(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(b' ')
    }

    fn fault<T>(&self, context: &'static str) -> Result<T, Fault> {
        Err(Fault::Byte(self.at, context))
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
