//! A parser for the protocol buffer text format, limited to the parts that the conformance tests use.

use std::iter::Peekable;
use std::str::Chars;

/// A message: its fields in order.
#[derive(Debug, Default)]
pub(crate) struct Message {
    fields: Vec<(String, Field)>,
}

/// The value of a field.
#[derive(Debug)]
pub(crate) enum Field {
    /// A number, a bool or the name of an enum value.
    Word(String),
    /// A string or bytes.
    Bytes(Vec<u8>),
    Message(Message),
}

impl Message {
    pub(crate) fn parse(text: &str) -> Self {
        Parser { chars: text.chars().peekable() }.message(None)
    }

    pub(crate) fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Message> {
        self.fields.iter().filter(move |(field, _)| field == name).filter_map(|(_, value)| match value {
            Field::Message(message) => Some(message),
            _ => None,
        })
    }

    pub(crate) fn message(&self, name: &str) -> Option<&Message> {
        self.fields.iter().find(|(field, _)| field == name).and_then(|(_, value)| match value {
            Field::Message(message) => Some(message),
            _ => None,
        })
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(field, _)| field == name).and_then(|(_, value)| match value {
            Field::Bytes(bytes) => Some(bytes.as_slice()),
            _ => None,
        })
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.bytes(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).and_then(|(_, value)| match value {
            Field::Word(word) => Some(word.as_str()),
            _ => None,
        })
    }

    /// The first field.
    pub(crate) fn first(&self) -> Option<(&str, &Field)> {
        self.fields.first().map(|(name, value)| (name.as_str(), value))
    }
}

struct Parser<'t> {
    chars: Peekable<Chars<'t>>,
}

impl Parser<'_> {
    fn skip(&mut self) {
        while let Some(c) = self.chars.peek() {
            match c {
                '#' => while self.chars.next_if(|c| *c != '\n').is_some() {},
                c if c.is_whitespace() || matches!(c, ',' | ';') => {
                    self.chars.next();
                }
                _ => break,
            }
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        if self.chars.next_if_eq(&'[').is_some() {
            while let Some(c) = self.chars.next_if(|c| *c != ']') {
                word.push(c);
            }
            self.chars.next();
            return word;
        }
        while let Some(c) = self.chars.next_if(|c| c.is_alphanumeric() || "_.+-".contains(*c)) {
            word.push(c);
        }
        word
    }

    fn message(&mut self, end: Option<char>) -> Message {
        let mut message = Message::default();
        loop {
            self.skip();
            match self.chars.peek() {
                None => return message,
                Some(c) if Some(*c) == end => {
                    self.chars.next();
                    return message;
                }
                Some(_) => {}
            }
            let name = self.word();
            self.skip();
            if self.chars.next_if_eq(&':').is_some() {
                self.skip();
            }
            if self.chars.next_if_eq(&'[').is_some() {
                loop {
                    self.skip();
                    if self.chars.next_if_eq(&']').is_some() || self.chars.peek().is_none() {
                        break;
                    }
                    let value = self.value();
                    message.fields.push((name.clone(), value));
                }
                continue;
            }
            let value = self.value();
            message.fields.push((name, value));
        }
    }

    fn value(&mut self) -> Field {
        match self.chars.peek() {
            Some('{') => {
                self.chars.next();
                Field::Message(self.message(Some('}')))
            }
            Some('"' | '\'') => {
                let mut bytes = Vec::new();
                while let Some(quote) = self.chars.next_if(|c| matches!(c, '"' | '\'')) {
                    self.string(quote, &mut bytes);
                    self.skip();
                }
                Field::Bytes(bytes)
            }
            _ => {
                let word = self.word();
                if word.is_empty() {
                    self.chars.next();
                }
                Field::Word(word)
            }
        }
    }

    fn string(&mut self, quote: char, bytes: &mut Vec<u8>) {
        while let Some(c) = self.chars.next().filter(|c| *c != quote) {
            if c != '\\' {
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            let Some(escaped) = self.chars.next() else { return };
            match escaped {
                'n' => bytes.push(b'\n'),
                't' => bytes.push(b'\t'),
                'r' => bytes.push(b'\r'),
                'a' => bytes.push(7),
                'b' => bytes.push(8),
                'f' => bytes.push(12),
                'v' => bytes.push(11),
                'x' => bytes.push(self.number(16, 2) as u8),
                'u' | 'U' => {
                    let code = self.number(16, if escaped == 'u' { 4 } else { 8 });
                    let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                '0'..='7' => {
                    let first = escaped.to_digit(8).unwrap_or(0);
                    let rest: Vec<u32> = std::iter::from_fn(|| self.chars.next_if(|c| c.is_digit(8)))
                        .take(2)
                        .filter_map(|c| c.to_digit(8))
                        .collect();
                    bytes.push(rest.into_iter().fold(first, |code, digit| code * 8 + digit) as u8);
                }
                other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn number(&mut self, radix: u32, digits: usize) -> u32 {
        let mut code = 0;
        for _ in 0..digits {
            let Some(digit) = self.chars.next_if(|c| c.is_digit(radix)).and_then(|c| c.to_digit(radix)) else { break };
            code = code * radix + digit;
        }
        code
    }
}
