//! A cursor over well-formed, compact JSON, as objects are stored: it finds offsets and decodes nothing. On other input
//! it stops early and never reads beyond the text.

use super::word::{repeated, zero_bytes};

/// A position in JSON text.
#[derive(Clone, Debug)]
pub struct JsonCursor<'a> {
    json: &'a [u8],
    offset: usize,
}

impl<'a> JsonCursor<'a> {
    /// Creates a cursor at the start of a text.
    #[must_use]
    pub fn new(json: &'a [u8]) -> Self {
        Self { json, offset: 0 }
    }

    /// The number of bytes that have been read.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The next byte.
    #[must_use]
    pub fn peek(&self) -> Option<u8> {
        self.json.get(self.offset).copied()
    }

    /// Reads a byte that must be the given one.
    pub fn byte(&mut self, expect: u8) -> Option<()> {
        (self.peek()? == expect).then(|| self.offset += 1)
    }

    /// Reads a string and returns the text between its quotes, with escapes unchanged.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.offset + 1;
        self.offset = end_of_string(self.json, self.offset)?;
        self.json.get(start..self.offset - 1)
    }

    /// Reads a member's name and the colon after it.
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let name = self.string()?;
        self.byte(b':')?;
        Some(name)
    }

    /// Reads a value and returns its text.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let start = self.offset;
        self.offset = match self.peek()? {
            b'"' => end_of_string(self.json, start)?,
            b'{' | b'[' => end_of_container(self.json, start)?,
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']');
                start + self.json[start..].iter().position(is_end)?
            }
        };
        self.json.get(start..self.offset)
    }
}

/// The offset behind the string that begins at an offset. Text has more escapes than escaped quotes, so the search is for
/// quotes.
#[inline]
fn end_of_string(json: &[u8], start: usize) -> Option<usize> {
    let mut offset = start + 1;
    loop {
        let quote = find_quote(json, offset)?;
        if json[quote - 1] != b'\\' || !is_escaped(&json[offset..quote]) {
            return Some(quote + 1);
        }
        offset = quote + 1;
    }
}

/// True if the character after this text is escaped: if the text ends with an odd number of backslashes.
fn is_escaped(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The offset behind the object or array that begins at an offset.
fn end_of_container(json: &[u8], start: usize) -> Option<usize> {
    let (mut offset, mut depth) = (start, 0usize);
    loop {
        match *json.get(offset)? {
            b'"' => {
                offset = end_of_string(json, offset)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        offset += 1;
        if depth == 0 {
            return Some(offset);
        }
    }
}

/// How many words are examined before a search begins that is faster for long strings only.
const SHORT_STRING_WORDS: usize = 4;

/// The offset of the first quote from an offset on. Most strings of objects are short, so the first bytes are examined a
/// word at a time.
#[inline]
fn find_quote(json: &[u8], from: usize) -> Option<usize> {
    let mut offset = from;
    for _ in 0..SHORT_STRING_WORDS {
        let Some(word) = json.get(offset..).and_then(<[u8]>::first_chunk) else { break };
        let found = zero_bytes(u64::from_le_bytes(*word) ^ repeated(b'"'));
        if found != 0 {
            return Some(offset + (found.trailing_zeros() / 8) as usize);
        }
        offset += size_of::<u64>();
    }
    Some(offset + memchr::memchr(b'"', json.get(offset..)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_all_lengths_end_at_their_quote() {
        for length in 0..80 {
            let text = "a".repeat(length);
            for tail in ["", "x", "\"\"", "\\\"\u{1}\u{80}"] {
                let json = format!("\"{text}\"{tail}");
                let mut cursor = JsonCursor::new(json.as_bytes());
                assert_eq!((cursor.string(), cursor.offset()), (Some(text.as_bytes()), length + 2), "{json}");
            }
            let escaped = format!("\"{text}\\\"b\\\\\"");
            let mut cursor = JsonCursor::new(escaped.as_bytes());
            assert_eq!(cursor.value(), Some(escaped.as_bytes()));
            for unterminated in [format!("\"{text}"), format!("\"{text}\\"), format!("\"{text}\\\"")] {
                assert_eq!(JsonCursor::new(unterminated.as_bytes()).string(), None, "{unterminated}");
            }
        }
    }
}
