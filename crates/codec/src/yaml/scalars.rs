//! The three ways to write a text: in a block, in quotes, and plain.

use std::borrow::Cow;
use std::ops::Range;

use super::decode::DecodeError;
use super::reader::Cursor;
use super::scanner::{Kind, Scanner};

/// A text in the making: a part of the source as long as it can be.
#[derive(Default)]
struct Pieces {
    /// The part of the source that comes after what is owned.
    run: Range<usize>,
    owned: Option<String>,
}

impl Pieces {
    /// Adds a part of the source.
    fn take(&mut self, cursor: &Cursor<'_>, part: Range<usize>) {
        if part.is_empty() {
            return;
        }
        if self.run.is_empty() {
            self.run = part;
        } else if self.run.end == part.start {
            self.run.end = part.end;
        } else {
            self.own(cursor);
            self.run = part;
        }
    }

    /// Adds what is not in the source.
    fn push(&mut self, cursor: &Cursor<'_>, text: &str) {
        if !text.is_empty() {
            self.own(cursor).push_str(text);
        }
    }

    fn own(&mut self, cursor: &Cursor<'_>) -> &mut String {
        let run = std::mem::take(&mut self.run);
        let owned = self.owned.get_or_insert_default();
        owned.push_str(cursor.slice(run.start, run.end));
        owned
    }

    fn finish<'t>(mut self, cursor: &Cursor<'t>) -> Cow<'t, str> {
        if self.owned.is_none() {
            return Cow::Borrowed(cursor.slice(self.run.start, self.run.end));
        }
        Cow::Owned(std::mem::take(self.own(cursor)))
    }
}

/// The white space between the words of a text that is not in a block.
#[derive(Default)]
struct Gap {
    blanks: Range<usize>,
    /// There was a line break.
    broken: bool,
    first: &'static str,
    others: String,
}

impl Gap {
    /// Goes behind blanks and line breaks. A tab in the indentation of a plain text is a mistake; `indent` says where
    /// indentation ends.
    fn skip(&mut self, cursor: &mut Cursor<'_>, indent: Option<usize>) -> Result<(), DecodeError> {
        cursor.need(1)?;
        while cursor.is_blank(0) || cursor.is_break(0) {
            if cursor.is_blank(0) {
                let is_tab = cursor.byte(0) == b'\t';
                if self.broken && is_tab && indent.is_some_and(|indent| cursor.column < indent) {
                    return cursor.fault("found a tab character that violates indentation");
                }
                if !self.broken && self.blanks.is_empty() {
                    self.blanks = cursor.at()..cursor.at();
                }
                cursor.skip();
                if !self.broken {
                    self.blanks.end = cursor.at();
                }
            } else {
                cursor.need(2)?;
                if self.broken {
                    self.others.push_str(cursor.skip_line());
                } else {
                    self.blanks = 0..0;
                    self.first = cursor.skip_line();
                    self.broken = true;
                }
            }
            cursor.need(1)?;
        }
        Ok(())
    }

    /// Adds what it stands for: a single line break is a space.
    fn join(&mut self, cursor: &Cursor<'_>, text: &mut Pieces) {
        if !self.broken {
            if self.blanks.is_empty() {
                return;
            }
            text.take(cursor, self.blanks.clone());
        } else if self.first == "\n" && self.others.is_empty() {
            text.push(cursor, " ");
        } else {
            if self.first != "\n" {
                text.push(cursor, self.first);
            }
            text.push(cursor, &self.others);
        }
        *self = Self::default();
    }
}

impl<'t> Scanner<'t> {
    /// A text without quotes.
    pub(super) fn plain_scalar(&mut self) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let in_flow = self.in_flow();
        let indent = usize::try_from(self.indent + 1).unwrap_or_default();
        let cursor = &mut self.cursor;
        let mut text = Pieces::default();
        let mut gap = Gap::default();
        loop {
            cursor.need(4)?;
            if cursor.is_document_indicator() || cursor.byte(0) == b'#' {
                break;
            }
            while !cursor.is_word_end(0) {
                let byte = cursor.byte(0);
                let ends = byte == b':' && cursor.is_word_end(1)
                    || in_flow && matches!(byte, b',' | b'?' | b'[' | b']' | b'{' | b'}');
                if ends {
                    break;
                }
                gap.join(cursor, &mut text);
                let start = cursor.at();
                cursor.skip();
                cursor.skip_word();
                text.take(cursor, start..cursor.at());
                cursor.need(2)?;
            }
            if !(cursor.is_blank(0) || cursor.is_break(0)) {
                break;
            }
            gap.skip(cursor, Some(indent))?;
            if !in_flow && cursor.column < indent {
                break;
            }
        }
        let text = text.finish(cursor);
        if gap.broken {
            self.key_allowed = true;
        }
        self.found(Kind::Scalar { text, plain: true }, line)
    }

    /// A text in quotes.
    pub(super) fn quoted_scalar(&mut self, single: bool) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let quote = if single { b'\'' } else { b'"' };
        let cursor = &mut self.cursor;
        cursor.skip();
        let mut text = Pieces::default();
        loop {
            cursor.need(4)?;
            if cursor.is_document_indicator() {
                return cursor.fault("found unexpected document indicator");
            }
            if cursor.is_end() {
                return cursor.fault("found unexpected end of stream");
            }
            let mut gap = Gap::default();
            while !cursor.is_word_end(0) {
                let byte = cursor.byte(0);
                if byte == quote && !(single && cursor.byte(1) == quote) {
                    break;
                }
                if single && byte == quote {
                    text.push(cursor, "'");
                    cursor.skip();
                    cursor.skip();
                } else if !single && byte == b'\\' && cursor.is_break(1) {
                    // The line break is not part of the text, nor is the indentation behind it.
                    cursor.need(3)?;
                    cursor.skip();
                    cursor.skip_line();
                    gap.broken = true;
                    break;
                } else if !single && byte == b'\\' {
                    let c = escape(cursor)?;
                    text.push(cursor, c.encode_utf8(&mut [0; 4]));
                } else {
                    let start = cursor.at();
                    cursor.skip();
                    cursor.skip_word();
                    text.take(cursor, start..cursor.at());
                }
                cursor.need(2)?;
            }
            cursor.need(1)?;
            if cursor.byte(0) == quote {
                break;
            }
            gap.skip(cursor, None)?;
            gap.join(cursor, &mut text);
        }
        cursor.skip();
        let text = text.finish(cursor);
        self.found(Kind::Scalar { text, plain: false }, line)
    }

    /// A text in a block: `|` keeps its lines, `>` folds them.
    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let outer = self.indent;
        let cursor = &mut self.cursor;
        cursor.skip();
        let (chomping, increment) = block_header(cursor)?;
        let mut indent = increment.map(|i| usize::try_from(outer.max(0)).unwrap_or_default() + i);
        let mut text = Pieces::default();
        let mut breaks = String::new();
        let mut first_break = "";
        block_breaks(cursor, &mut indent, outer, &mut breaks)?;
        cursor.need(1)?;
        let mut after_indented = false;
        while Some(cursor.column) == indent && !cursor.is_end() {
            let indented = cursor.is_blank(0);
            if !literal && !after_indented && !indented && first_break == "\n" {
                if breaks.is_empty() {
                    text.push(cursor, " ");
                }
            } else {
                text.push(cursor, first_break);
            }
            text.push(cursor, &breaks);
            breaks.clear();
            after_indented = indented;
            let start = cursor.at();
            while !cursor.is_line_end(0) {
                cursor.skip();
                cursor.skip_word();
                cursor.need(1)?;
            }
            text.take(cursor, start..cursor.at());
            cursor.need(2)?;
            first_break = cursor.skip_line();
            block_breaks(cursor, &mut indent, outer, &mut breaks)?;
        }
        if chomping != Chomping::Strip {
            text.push(cursor, first_break);
        }
        if chomping == Chomping::Keep {
            text.push(cursor, &breaks);
        }
        let text = text.finish(cursor);
        self.found(Kind::Scalar { text, plain: false }, line)
    }
}

/// What becomes of the line breaks at the end of a block.
#[derive(Clone, Copy, PartialEq)]
enum Chomping {
    /// One stays.
    Clip,
    Strip,
    Keep,
}

/// What stands behind `|` or `>`: a sign, a digit, in any order, and perhaps a comment.
fn block_header(cursor: &mut Cursor<'_>) -> Result<(Chomping, Option<usize>), DecodeError> {
    cursor.need(1)?;
    let mut chomping = block_chomping(cursor)?;
    let mut increment = None;
    if cursor.byte(0).is_ascii_digit() {
        if cursor.byte(0) == b'0' {
            return cursor.fault("found an indentation indicator equal to 0");
        }
        increment = Some(usize::from(cursor.byte(0) - b'0'));
        cursor.skip();
        if chomping.is_none() {
            cursor.need(1)?;
            chomping = block_chomping(cursor)?;
        }
    }
    cursor.skip_blanks()?;
    cursor.skip_comment()?;
    if !cursor.is_line_end(0) {
        return cursor.fault("did not find expected comment or line break");
    }
    if cursor.is_break(0) {
        cursor.need(2)?;
        cursor.skip_line();
    }
    Ok((chomping.unwrap_or(Chomping::Clip), increment))
}

fn block_chomping(cursor: &mut Cursor<'_>) -> Result<Option<Chomping>, DecodeError> {
    let chomping = match cursor.byte(0) {
        b'+' => Chomping::Keep,
        b'-' => Chomping::Strip,
        _ => return Ok(None),
    };
    cursor.skip();
    cursor.need(1)?;
    Ok(Some(chomping))
}

/// Goes behind indentation and empty lines, and finds out the indentation of a block that does not say it.
fn block_breaks(
    cursor: &mut Cursor<'_>,
    indent: &mut Option<usize>,
    outer: isize,
    breaks: &mut String,
) -> Result<(), DecodeError> {
    let mut furthest = 0;
    loop {
        cursor.need(1)?;
        let in_indentation = |cursor: &Cursor<'_>| indent.is_none_or(|indent| cursor.column < indent);
        while in_indentation(cursor) && cursor.byte(0) == b' ' {
            cursor.skip();
            cursor.need(1)?;
        }
        furthest = furthest.max(cursor.column);
        if in_indentation(cursor) && cursor.byte(0) == b'\t' {
            return cursor.fault("found a tab character where an indentation space is expected");
        }
        if !cursor.is_break(0) {
            break;
        }
        cursor.need(2)?;
        breaks.push_str(cursor.skip_line());
    }
    indent.get_or_insert_with(|| furthest.max(usize::try_from(outer + 1).unwrap_or_default()).max(1));
    Ok(())
}

/// The character of an escape.
fn escape(cursor: &mut Cursor<'_>) -> Result<char, DecodeError> {
    let (digits, c) = match cursor.byte(1) {
        b'0' => (0, '\0'),
        b'a' => (0, '\u{7}'),
        b'b' => (0, '\u{8}'),
        b't' | b'\t' => (0, '\t'),
        b'n' => (0, '\n'),
        b'v' => (0, '\u{b}'),
        b'f' => (0, '\u{c}'),
        b'r' => (0, '\r'),
        b'e' => (0, '\u{1b}'),
        byte @ (b' ' | b'"' | b'\'' | b'\\') => (0, char::from(byte)),
        b'N' => (0, '\u{85}'),
        b'_' => (0, '\u{a0}'),
        b'L' => (0, '\u{2028}'),
        b'P' => (0, '\u{2029}'),
        b'x' => (2, '\0'),
        b'u' => (4, '\0'),
        b'U' => (8, '\0'),
        _ => return cursor.fault("found unknown escape character"),
    };
    cursor.skip();
    cursor.skip();
    if digits == 0 {
        return Ok(c);
    }
    cursor.need(digits)?;
    let mut code = 0u32;
    for ahead in 0..digits {
        let Some(digit) = char::from(cursor.byte(ahead)).to_digit(16) else {
            return cursor.fault("did not find expected hexdecimal number");
        };
        code = code << 4 | digit;
    }
    let Some(c) = char::from_u32(code) else {
        return cursor.fault("found invalid Unicode character escape code");
    };
    for _ in 0..digits {
        cursor.skip();
    }
    Ok(c)
}
