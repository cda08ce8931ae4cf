//! The reader: detects the encoding of a text, checks that YAML allows its characters, and tracks the scanner's
//! position.
//!
//! goyaml reads 512 bytes at a time, which is visible in two ways. A disallowed character is found when its chunk is
//! read, so that an error before that chunk is reported first. A byte order mark is recognized at the start of a chunk.

use std::borrow::Cow;

use super::decode::DecodeError;

/// The number of bytes that goyaml reads at a time (`input_raw_buffer_size`).
const CHUNK_SIZE: usize = 512;

/// A text decoded to characters.
pub(super) struct InputText<'a> {
    /// The characters of the valid chunks.
    chars: Cow<'a, str>,
    /// The offset in `chars` at which each chunk ends.
    chunk_ends: Vec<usize>,
    /// The error in the first invalid chunk.
    error: Option<&'static str>,
}

impl<'a> InputText<'a> {
    /// Detects the encoding and checks the characters. UTF-16 is recognized by its byte order mark.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        match bytes {
            [0xff, 0xfe, ..] => Self::decode_slowly(bytes, 2, |rest| utf16(rest, u16::from_le_bytes)),
            [0xfe, 0xff, ..] => Self::decode_slowly(bytes, 2, |rest| utf16(rest, u16::from_be_bytes)),
            _ => {
                let mark = if bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
                match std::str::from_utf8(&bytes[mark..]) {
                    Ok(chars) if chars.chars().all(is_allowed_char) => {
                        Self { chars: Cow::Borrowed(chars), chunk_ends: chunk_ends(chars, mark), error: None }
                    }
                    _ => Self::decode_slowly(bytes, mark, utf8),
                }
            }
        }
    }

    /// The slow path: decodes character by character and finds the error.
    fn decode_slowly(bytes: &[u8], mark: usize, next: impl Fn(&[u8]) -> DecodedChar) -> Self {
        let mut text =
            Self { chars: Cow::Owned(String::with_capacity(bytes.len())), chunk_ends: Vec::new(), error: None };
        let (mut chunk_start, mut offset) = (0, mark);
        let mut chars = String::with_capacity(CHUNK_SIZE);
        loop {
            let end = bytes.len().min(chunk_start + CHUNK_SIZE);
            while offset < end {
                match next(&bytes[offset..end]) {
                    DecodedChar::Char(c, width) if is_allowed_char(c) => {
                        chars.push(c);
                        offset += width;
                    }
                    DecodedChar::Char(..) => {
                        text.error = Some("control characters are not allowed");
                        return text;
                    }
                    DecodedChar::Incomplete(_) if end < bytes.len() => break,
                    DecodedChar::Incomplete(error) => {
                        // The characters before it are still returned: goyaml finds the end of input at its next read.
                        text.finish_chunk(&mut chars);
                        text.error = Some(error);
                        return text;
                    }
                    DecodedChar::Invalid(error) => {
                        text.error = Some(error);
                        return text;
                    }
                }
            }
            text.finish_chunk(&mut chars);
            if offset >= bytes.len() {
                return text;
            }
            chunk_start = offset;
        }
    }

    fn finish_chunk(&mut self, chars: &mut String) {
        self.chars.to_mut().push_str(chars);
        self.chunk_ends.push(self.chars.len());
        chars.clear();
    }
}

/// The offsets at which the chunks of a valid text end.
fn chunk_ends(chars: &str, mark: usize) -> Vec<usize> {
    let mut ends = Vec::with_capacity(chars.len() / CHUNK_SIZE + 1);
    let mut end = 0;
    let mut limit = CHUNK_SIZE - mark;
    while end < chars.len() {
        end = chars.floor_char_boundary(end + limit);
        limit = CHUNK_SIZE;
        ends.push(end);
    }
    ends
}

/// Tabs, line breaks and printable characters.
pub(super) fn is_allowed_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// The result of decoding one character.
enum DecodedChar {
    /// A character and its width in bytes.
    Char(char, usize),
    /// A truncated character. It is an error if no more input follows.
    Incomplete(&'static str),
    Invalid(&'static str),
}

fn utf8(bytes: &[u8]) -> DecodedChar {
    let first = bytes.first().copied().unwrap_or_default();
    let (width, bits, min_code) = match first {
        0..0x80 => return DecodedChar::Char(char::from(first), 1),
        0xc0..0xe0 => (2, first & 0x1f, 0x80),
        0xe0..0xf0 => (3, first & 0x0f, 0x800),
        0xf0..0xf8 => (4, first & 0x07, 0x1_0000),
        _ => return DecodedChar::Invalid("invalid leading UTF-8 octet"),
    };
    let Some(rest) = bytes.get(1..width) else { return DecodedChar::Incomplete("incomplete UTF-8 octet sequence") };
    if rest.iter().any(|byte| byte & 0xc0 != 0x80) {
        return DecodedChar::Invalid("invalid trailing UTF-8 octet");
    }
    let code = rest.iter().fold(u32::from(bits), |code, byte| code << 6 | u32::from(byte & 0x3f));
    match char::from_u32(code) {
        _ if code < min_code => DecodedChar::Invalid("invalid length of a UTF-8 sequence"),
        Some(c) => DecodedChar::Char(c, width),
        None => DecodedChar::Invalid("invalid Unicode character"),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> DecodedChar {
    let unit = |offset: usize| bytes.get(offset..).and_then(<[u8]>::first_chunk).map(|two| u32::from(unit(*two)));
    let Some(high) = unit(0) else { return DecodedChar::Incomplete("incomplete UTF-16 character") };
    match high {
        0xdc00..0xe000 => DecodedChar::Invalid("unexpected low surrogate area"),
        0xd800..0xdc00 => match unit(2) {
            None => DecodedChar::Incomplete("incomplete UTF-16 surrogate pair"),
            Some(low @ 0xdc00..0xe000) => {
                let code = 0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
                DecodedChar::Char(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 4)
            }
            Some(_) => DecodedChar::Invalid("expected low surrogate area"),
        },
        _ => DecodedChar::Char(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 2),
    }
}

/// The scanner's position in a text. Reads after the end return zero bytes.
pub(super) struct Cursor<'t> {
    chars: &'t str,
    chunk_ends: std::slice::Iter<'t, usize>,
    error: Option<&'static str>,
    /// The position in bytes from the start of the text.
    offset: usize,
    /// The end of the input that was read so far, and the start of goyaml's current buffer.
    buffer_end: usize,
    buffer_start: usize,
    /// The position in characters from the start of the text and of the line, and the line number, all counted from 0.
    pub(super) index: usize,
    pub(super) column: usize,
    pub(super) line: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t InputText<'_>) -> Self {
        Self {
            chars: &text.chars,
            chunk_ends: text.chunk_ends.iter(),
            error: text.error,
            offset: 0,
            buffer_end: 0,
            buffer_start: 0,
            index: 0,
            column: 0,
            line: 0,
        }
    }

    /// Reads input until at least `count` characters are buffered or the text ends.
    pub(super) fn ensure(&mut self, count: usize) -> Result<(), DecodeError> {
        // A character has at most four bytes.
        if self.buffer_end >= self.offset + 4 * count || self.has_buffered(count) {
            return Ok(());
        }
        self.buffer_start = self.offset;
        while !self.has_buffered(count) {
            match (self.chunk_ends.next(), self.error) {
                (Some(end), _) => self.buffer_end = *end,
                (None, Some(error)) => return Err(DecodeError::new(error)),
                (None, None) => break,
            }
        }
        Ok(())
    }

    fn has_buffered(&self, count: usize) -> bool {
        let buffered = self.chars.get(self.offset..self.buffer_end).unwrap_or_default();
        count == 0 || buffered.chars().nth(count - 1).is_some()
    }

    /// Returns whether goyaml's current buffer starts with a byte order mark, wherever in the buffer the cursor is.
    pub(super) fn buffer_starts_with_bom(&self) -> bool {
        self.chars.get(self.buffer_start..self.buffer_end).is_some_and(|buffer| buffer.starts_with('\u{feff}'))
    }

    /// The byte at `ahead` bytes after the cursor.
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.chars.as_bytes().get(self.offset + ahead).copied().unwrap_or_default()
    }

    /// The position in bytes.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The text between two byte positions.
    pub(super) fn slice(&self, from: usize, to: usize) -> &'t str {
        self.chars.get(from..to).unwrap_or_default()
    }

    /// Skips one character.
    pub(super) fn skip(&mut self) {
        self.offset += match self.byte(0) {
            0..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        self.index += 1;
        self.column += 1;
    }

    /// Skips characters that are part of any scalar, whatever its style. This fast path does not read beyond the
    /// buffered input.
    pub(super) fn skip_word(&mut self) {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        // The last characters are left for code that looks ahead.
        let sure = self.chars.as_bytes().get(self.offset..self.buffer_end.saturating_sub(8)).unwrap_or_default();
        let count = sure.iter().take_while(|byte| is_part(byte)).count();
        self.offset += count;
        self.index += count;
        self.column += count;
    }

    /// Skips a line break, if there is one, and returns the text that it stands for in a scalar.
    pub(super) fn skip_line(&mut self) -> &'static str {
        let (width, text) = match (self.byte(0), self.byte(1), self.byte(2)) {
            (b'\r', b'\n', _) => (2, "\n"),
            (b'\r' | b'\n', ..) => (1, "\n"),
            (0xc2, 0x85, _) => (2, "\n"),
            (0xe2, 0x80, 0xa8) => (3, "\u{2028}"),
            (0xe2, 0x80, 0xa9) => (3, "\u{2029}"),
            _ => return "",
        };
        self.offset += width;
        self.index += if self.slice(self.offset - width, self.offset) == "\r\n" { 2 } else { 1 };
        self.column = 0;
        self.line += 1;
        text
    }

    /// Moves to the start of the line after the end of the text.
    pub(super) fn finish_line(&mut self) {
        if self.column != 0 {
            self.column = 0;
            self.line += 1;
        }
    }

    pub(super) fn is_end(&self) -> bool {
        self.byte(0) == 0
    }

    /// Returns whether the character is a space or a tab.
    pub(super) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t')
    }

    pub(super) fn is_break(&self, ahead: usize) -> bool {
        match self.byte(ahead) {
            b'\r' | b'\n' => true,
            0xc2 => self.byte(ahead + 1) == 0x85,
            0xe2 => self.byte(ahead + 1) == 0x80 && matches!(self.byte(ahead + 2), 0xa8 | 0xa9),
            _ => false,
        }
    }

    /// Returns whether the character is a line break or the end of the text.
    pub(super) fn is_line_end(&self, ahead: usize) -> bool {
        self.byte(ahead) == 0 || self.is_break(ahead)
    }

    /// Returns whether the character is a blank, a line break or the end of the text.
    pub(super) fn is_word_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_line_end(ahead)
    }

    /// Returns whether the character may be part of a name: a letter, a digit, `_` or `-`.
    pub(super) fn is_name_char(&self) -> bool {
        let byte = self.byte(0);
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
    }

    /// Returns whether the cursor is at `---` or `...` at the start of a line with a blank after it.
    pub(super) fn is_document_indicator(&self) -> bool {
        let three = [self.byte(0), self.byte(1), self.byte(2)];
        self.column == 0 && (three == *b"---" || three == *b"...") && self.is_word_end(3)
    }

    /// Skips blanks.
    pub(super) fn skip_blanks(&mut self) -> Result<(), DecodeError> {
        self.ensure(1)?;
        while self.is_blank(0) {
            self.skip();
            self.ensure(1)?;
        }
        Ok(())
    }

    /// Skips a comment, if there is one, up to the end of the line.
    pub(super) fn skip_comment(&mut self) -> Result<(), DecodeError> {
        if self.byte(0) == b'#' {
            while !self.is_line_end(0) {
                self.skip();
                self.ensure(1)?;
            }
        }
        Ok(())
    }

    /// Returns an error with the current line.
    pub(super) fn error<T>(&self, problem: &str) -> Result<T, DecodeError> {
        // Line numbers are counted from 1, but goyaml omits the number of the first line.
        Err(DecodeError::at_line(if self.line == 0 { 0 } else { self.line + 1 }, problem))
    }
}
