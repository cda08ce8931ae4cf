//! The characters of a text: what encoding it is in, which characters YAML allows, and where the scanner stands. goyaml
//! reads 512 bytes at a time, which shows in two ways: a character that is not allowed is found when its piece is read,
//! so that a mistake in front of that piece is told first; and a byte order mark is looked for at the start of a piece.

use std::borrow::Cow;

use super::decode::DecodeError;

/// How many bytes are read at a time.
const PIECE: usize = 512;

/// A text as characters.
pub(super) struct Text<'a> {
    /// The characters of the pieces that are in order.
    chars: Cow<'a, str>,
    /// Where the pieces end in `chars`.
    ends: Vec<usize>,
    /// What is wrong with the piece after the last.
    fault: Option<&'static str>,
}

impl<'a> Text<'a> {
    /// Finds out the encoding, and checks the characters. UTF-16 is known by its byte order mark.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        match bytes {
            [0xff, 0xfe, ..] => Self::decoded(bytes, 2, |rest| utf16(rest, u16::from_le_bytes)),
            [0xfe, 0xff, ..] => Self::decoded(bytes, 2, |rest| utf16(rest, u16::from_be_bytes)),
            _ => {
                let mark = if bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
                match std::str::from_utf8(&bytes[mark..]) {
                    Ok(chars) if chars.chars().all(is_allowed) => {
                        Self { chars: Cow::Borrowed(chars), ends: pieces(chars, mark), fault: None }
                    }
                    _ => Self::decoded(bytes, mark, utf8),
                }
            }
        }
    }

    /// The slow way, character by character, which knows what is wrong.
    fn decoded(bytes: &[u8], mark: usize, next: impl Fn(&[u8]) -> Next) -> Self {
        let mut text = Self { chars: Cow::Owned(String::with_capacity(bytes.len())), ends: Vec::new(), fault: None };
        let (mut piece, mut at) = (0, mark);
        let mut chars = String::with_capacity(PIECE);
        loop {
            let end = bytes.len().min(piece + PIECE);
            while at < end {
                match next(&bytes[at..end]) {
                    Next::Char(c, width) if is_allowed(c) => {
                        chars.push(c);
                        at += width;
                    }
                    Next::Char(..) => {
                        text.fault = Some("control characters are not allowed");
                        return text;
                    }
                    Next::Incomplete(_) if end < bytes.len() => break,
                    Next::Incomplete(fault) => {
                        // What comes before it is still handed out: that there is no more is found at the next reading.
                        text.finish_piece(&mut chars);
                        text.fault = Some(fault);
                        return text;
                    }
                    Next::Fault(fault) => {
                        text.fault = Some(fault);
                        return text;
                    }
                }
            }
            text.finish_piece(&mut chars);
            if at >= bytes.len() {
                return text;
            }
            piece = at;
        }
    }

    fn finish_piece(&mut self, chars: &mut String) {
        self.chars.to_mut().push_str(chars);
        self.ends.push(self.chars.len());
        chars.clear();
    }
}

/// Where the pieces of a text end that is in order.
fn pieces(chars: &str, mark: usize) -> Vec<usize> {
    let mut ends = Vec::with_capacity(chars.len() / PIECE + 1);
    let mut end = 0;
    let mut room = PIECE - mark;
    while end < chars.len() {
        end = chars.floor_char_boundary(end + room);
        room = PIECE;
        ends.push(end);
    }
    ends
}

/// Tabs, line breaks and what can be printed.
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// What bytes begin with.
enum Next {
    /// A character, and how many bytes it takes.
    Char(char, usize),
    /// The beginning of a character; a fault if nothing follows.
    Incomplete(&'static str),
    Fault(&'static str),
}

fn utf8(bytes: &[u8]) -> Next {
    let first = bytes.first().copied().unwrap_or_default();
    let (width, bits, least) = match first {
        0..0x80 => return Next::Char(char::from(first), 1),
        0xc0..0xe0 => (2, first & 0x1f, 0x80),
        0xe0..0xf0 => (3, first & 0x0f, 0x800),
        0xf0..0xf8 => (4, first & 0x07, 0x1_0000),
        _ => return Next::Fault("invalid leading UTF-8 octet"),
    };
    let Some(rest) = bytes.get(1..width) else { return Next::Incomplete("incomplete UTF-8 octet sequence") };
    if rest.iter().any(|byte| byte & 0xc0 != 0x80) {
        return Next::Fault("invalid trailing UTF-8 octet");
    }
    let code = rest.iter().fold(u32::from(bits), |code, byte| code << 6 | u32::from(byte & 0x3f));
    match char::from_u32(code) {
        _ if code < least => Next::Fault("invalid length of a UTF-8 sequence"),
        Some(c) => Next::Char(c, width),
        None => Next::Fault("invalid Unicode character"),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Next {
    let unit = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|two| u32::from(unit(*two)));
    let Some(high) = unit(0) else { return Next::Incomplete("incomplete UTF-16 character") };
    match high {
        0xdc00..0xe000 => Next::Fault("unexpected low surrogate area"),
        0xd800..0xdc00 => match unit(2) {
            None => Next::Incomplete("incomplete UTF-16 surrogate pair"),
            Some(low @ 0xdc00..0xe000) => {
                let code = 0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
                Next::Char(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 4)
            }
            Some(_) => Next::Fault("expected low surrogate area"),
        },
        _ => Next::Char(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 2),
    }
}

/// A place in a text. Behind its end are zero bytes.
pub(super) struct Cursor<'t> {
    chars: &'t str,
    ends: std::slice::Iter<'t, usize>,
    fault: Option<&'static str>,
    /// The place in bytes, from the start of the text.
    at: usize,
    /// Where what was read so far ends, and where it begins that goyaml still holds.
    read: usize,
    held: usize,
    /// The place in characters: from the start of the text, of the line, and the number of the line, all counted from 0.
    pub(super) index: usize,
    pub(super) column: usize,
    pub(super) line: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t Text<'_>) -> Self {
        Self {
            chars: &text.chars,
            ends: text.ends.iter(),
            fault: text.fault,
            at: 0,
            read: 0,
            held: 0,
            index: 0,
            column: 0,
            line: 0,
        }
    }

    /// Makes sure that so many characters, of which the text may have fewer, have been read.
    pub(super) fn need(&mut self, count: usize) -> Result<(), DecodeError> {
        // A character has at most four bytes.
        if self.read >= self.at + 4 * count || self.has_read(count) {
            return Ok(());
        }
        self.held = self.at;
        while !self.has_read(count) {
            match (self.ends.next(), self.fault) {
                (Some(end), _) => self.read = *end,
                (None, Some(fault)) => return Err(DecodeError::new(fault)),
                (None, None) => break,
            }
        }
        Ok(())
    }

    fn has_read(&self, count: usize) -> bool {
        let read = self.chars.get(self.at..self.read).unwrap_or_default();
        count == 0 || read.chars().nth(count - 1).is_some()
    }

    /// True if what goyaml holds begins with a byte order mark, wherever in it the cursor is.
    pub(super) fn holds_mark(&self) -> bool {
        self.chars.get(self.held..self.read).is_some_and(|held| held.starts_with('\u{feff}'))
    }

    /// The byte that is so many bytes ahead.
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.chars.as_bytes().get(self.at + ahead).copied().unwrap_or_default()
    }

    /// The place in bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The text between two places.
    pub(super) fn slice(&self, from: usize, to: usize) -> &'t str {
        self.chars.get(from..to).unwrap_or_default()
    }

    /// Goes behind the next character.
    pub(super) fn skip(&mut self) {
        self.at += match self.byte(0) {
            0..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        self.index += 1;
        self.column += 1;
    }

    /// Goes behind what is part of any text, wherever that is written: quickly, and no further than what was read.
    pub(super) fn skip_word(&mut self) {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        // The last characters are left to those who read on.
        let sure = self.chars.as_bytes().get(self.at..self.read.saturating_sub(8)).unwrap_or_default();
        let count = sure.iter().take_while(|byte| is_part(byte)).count();
        self.at += count;
        self.index += count;
        self.column += count;
    }

    /// Goes behind a line break, if there is one, and returns what it is in a scalar.
    pub(super) fn skip_line(&mut self) -> &'static str {
        let (width, text) = match (self.byte(0), self.byte(1), self.byte(2)) {
            (b'\r', b'\n', _) => (2, "\n"),
            (b'\r' | b'\n', ..) => (1, "\n"),
            (0xc2, 0x85, _) => (2, "\n"),
            (0xe2, 0x80, 0xa8) => (3, "\u{2028}"),
            (0xe2, 0x80, 0xa9) => (3, "\u{2029}"),
            _ => return "",
        };
        self.at += width;
        self.index += if self.slice(self.at - width, self.at) == "\r\n" { 2 } else { 1 };
        self.column = 0;
        self.line += 1;
        text
    }

    /// Moves to the start of the line behind the end of the text.
    pub(super) fn end_line(&mut self) {
        if self.column != 0 {
            self.column = 0;
            self.line += 1;
        }
    }

    pub(super) fn is_end(&self) -> bool {
        self.byte(0) == 0
    }

    /// A space or a tab.
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

    /// A line break or the end.
    pub(super) fn is_line_end(&self, ahead: usize) -> bool {
        self.byte(ahead) == 0 || self.is_break(ahead)
    }

    /// A blank, a line break or the end.
    pub(super) fn is_word_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_line_end(ahead)
    }

    /// A letter, a digit, `_` or `-`: what names consist of.
    pub(super) fn is_name(&self) -> bool {
        let byte = self.byte(0);
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
    }

    /// True at `---` or `...` at the start of a line, with a blank behind it.
    pub(super) fn is_document_indicator(&self) -> bool {
        let three = [self.byte(0), self.byte(1), self.byte(2)];
        self.column == 0 && (three == *b"---" || three == *b"...") && self.is_word_end(3)
    }

    /// Goes behind blanks.
    pub(super) fn skip_blanks(&mut self) -> Result<(), DecodeError> {
        self.need(1)?;
        while self.is_blank(0) {
            self.skip();
            self.need(1)?;
        }
        Ok(())
    }

    /// Goes behind a comment, if there is one, to the end of the line.
    pub(super) fn skip_comment(&mut self) -> Result<(), DecodeError> {
        if self.byte(0) == b'#' {
            while !self.is_line_end(0) {
                self.skip();
                self.need(1)?;
            }
        }
        Ok(())
    }

    /// An error here, with its line.
    pub(super) fn fault<T>(&self, problem: &str) -> Result<T, DecodeError> {
        // Lines are told from 1, but the first is not told at all.
        Err(DecodeError::at_line(if self.line == 0 { 0 } else { self.line + 1 }, problem))
    }
}
