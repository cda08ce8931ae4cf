//! Scans the three forms of scalars: block, quoted and plain.

use std::borrow::Cow;
use std::ops::Range;

use super::decode::DecodeError;
use super::reader::Cursor;
use super::scanner::{Scanner, TokenKind};

/// Builds the text of a scalar, borrowing from the source while possible.
#[derive(Default)]
struct ScalarBuilder {
    /// The source range that follows the owned text.
    run: Range<usize>,
    owned: Option<String>,
}

impl ScalarBuilder {
    /// Appends a source range.
    fn push_source(&mut self, cursor: &Cursor<'_>, part: Range<usize>) {
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

    /// Appends text that is not in the source.
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

/// The white space between the words of a flow scalar (`whitespaces`, `leading_break` and `trailing_breaks` in
/// libyaml).
#[derive(Default)]
struct FlowWhitespace {
    blanks: Range<usize>,
    /// Whether there was a line break.
    has_break: bool,
    leading_break: &'static str,
    trailing_breaks: String,
}

impl FlowWhitespace {
    /// Skips blanks and line breaks. A tab in the indentation of a plain scalar is an error. `indent` is the column at
    /// which indentation ends.
    fn skip(&mut self, cursor: &mut Cursor<'_>, indent: Option<usize>) -> Result<(), DecodeError> {
        cursor.ensure(1)?;
        while cursor.is_blank(0) || cursor.is_break(0) {
            if cursor.is_blank(0) {
                let is_tab = cursor.byte(0) == b'\t';
                if self.has_break && is_tab && indent.is_some_and(|indent| cursor.column < indent) {
                    return cursor.error("found a tab character that violates indentation");
                }
                if !self.has_break && self.blanks.is_empty() {
                    self.blanks = cursor.offset()..cursor.offset();
                }
                cursor.skip();
                if !self.has_break {
                    self.blanks.end = cursor.offset();
                }
            } else {
                cursor.ensure(2)?;
                if self.has_break {
                    self.trailing_breaks.push_str(cursor.skip_line());
                } else {
                    self.blanks = 0..0;
                    self.leading_break = cursor.skip_line();
                    self.has_break = true;
                }
            }
            cursor.ensure(1)?;
        }
        Ok(())
    }

    /// Appends the folded white space: a single line break becomes a space.
    fn join(&mut self, cursor: &Cursor<'_>, text: &mut ScalarBuilder) {
        if !self.has_break {
            if self.blanks.is_empty() {
                return;
            }
            text.push_source(cursor, self.blanks.clone());
        } else if self.leading_break == "\n" && self.trailing_breaks.is_empty() {
            text.push(cursor, " ");
        } else {
            if self.leading_break != "\n" {
                text.push(cursor, self.leading_break);
            }
            text.push(cursor, &self.trailing_breaks);
        }
        *self = Self::default();
    }
}

impl<'t> Scanner<'t> {
    /// Scans a plain scalar.
    pub(super) fn plain_scalar(&mut self) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let in_flow = self.in_flow();
        let indent = usize::try_from(self.indent + 1).unwrap_or_default();
        let cursor = &mut self.cursor;
        let mut text = ScalarBuilder::default();
        let mut whitespace = FlowWhitespace::default();
        loop {
            cursor.ensure(4)?;
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
                whitespace.join(cursor, &mut text);
                let start = cursor.offset();
                cursor.skip();
                cursor.skip_word();
                text.push_source(cursor, start..cursor.offset());
                cursor.ensure(2)?;
            }
            if !(cursor.is_blank(0) || cursor.is_break(0)) {
                break;
            }
            whitespace.skip(cursor, Some(indent))?;
            if !in_flow && cursor.column < indent {
                break;
            }
        }
        let text = text.finish(cursor);
        if whitespace.has_break {
            self.simple_key_allowed = true;
        }
        self.push_token(TokenKind::Scalar { text, plain: true }, line)
    }

    /// Scans a quoted scalar.
    pub(super) fn quoted_scalar(&mut self, single: bool) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let quote = if single { b'\'' } else { b'"' };
        let cursor = &mut self.cursor;
        cursor.skip();
        let mut text = ScalarBuilder::default();
        loop {
            cursor.ensure(4)?;
            if cursor.is_document_indicator() {
                return cursor.error("found unexpected document indicator");
            }
            if cursor.is_end() {
                return cursor.error("found unexpected end of stream");
            }
            let mut whitespace = FlowWhitespace::default();
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
                    // An escaped line break is not part of the text, nor is the indentation after it.
                    cursor.ensure(3)?;
                    cursor.skip();
                    cursor.skip_line();
                    whitespace.has_break = true;
                    break;
                } else if !single && byte == b'\\' {
                    let c = escape(cursor)?;
                    text.push(cursor, c.encode_utf8(&mut [0; 4]));
                } else {
                    let start = cursor.offset();
                    cursor.skip();
                    cursor.skip_word();
                    text.push_source(cursor, start..cursor.offset());
                }
                cursor.ensure(2)?;
            }
            cursor.ensure(1)?;
            if cursor.byte(0) == quote {
                break;
            }
            whitespace.skip(cursor, None)?;
            whitespace.join(cursor, &mut text);
        }
        cursor.skip();
        let text = text.finish(cursor);
        self.push_token(TokenKind::Scalar { text, plain: false }, line)
    }

    /// Scans a block scalar: `|` keeps its lines, `>` folds them.
    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let parent_indent = self.indent;
        let cursor = &mut self.cursor;
        cursor.skip();
        let (chomping, increment) = block_header(cursor)?;
        let mut indent = increment.map(|i| usize::try_from(parent_indent.max(0)).unwrap_or_default() + i);
        let mut text = ScalarBuilder::default();
        let mut breaks = String::new();
        let mut first_break = "";
        block_breaks(cursor, &mut indent, parent_indent, &mut breaks)?;
        cursor.ensure(1)?;
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
            let start = cursor.offset();
            while !cursor.is_line_end(0) {
                cursor.skip();
                cursor.skip_word();
                cursor.ensure(1)?;
            }
            text.push_source(cursor, start..cursor.offset());
            cursor.ensure(2)?;
            first_break = cursor.skip_line();
            block_breaks(cursor, &mut indent, parent_indent, &mut breaks)?;
        }
        if chomping != Chomping::Strip {
            text.push(cursor, first_break);
        }
        if chomping == Chomping::Keep {
            text.push(cursor, &breaks);
        }
        let text = text.finish(cursor);
        self.push_token(TokenKind::Scalar { text, plain: false }, line)
    }
}

/// How to treat the line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq)]
enum Chomping {
    /// Keep one.
    Clip,
    Strip,
    Keep,
}

/// Scans the header after `|` or `>`: a chomping and an indentation indicator in any order, and an optional comment.
fn block_header(cursor: &mut Cursor<'_>) -> Result<(Chomping, Option<usize>), DecodeError> {
    cursor.ensure(1)?;
    let mut chomping = block_chomping(cursor)?;
    let mut increment = None;
    if cursor.byte(0).is_ascii_digit() {
        if cursor.byte(0) == b'0' {
            return cursor.error("found an indentation indicator equal to 0");
        }
        increment = Some(usize::from(cursor.byte(0) - b'0'));
        cursor.skip();
        if chomping.is_none() {
            cursor.ensure(1)?;
            chomping = block_chomping(cursor)?;
        }
    }
    cursor.skip_blanks()?;
    cursor.skip_comment()?;
    if !cursor.is_line_end(0) {
        return cursor.error("did not find expected comment or line break");
    }
    if cursor.is_break(0) {
        cursor.ensure(2)?;
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
    cursor.ensure(1)?;
    Ok(Some(chomping))
}

/// Skips indentation and empty lines, and detects the indentation of a block scalar without an indentation indicator.
fn block_breaks(
    cursor: &mut Cursor<'_>,
    indent: &mut Option<usize>,
    parent_indent: isize,
    breaks: &mut String,
) -> Result<(), DecodeError> {
    let mut max_column = 0;
    loop {
        cursor.ensure(1)?;
        let in_indentation = |cursor: &Cursor<'_>| indent.is_none_or(|indent| cursor.column < indent);
        while in_indentation(cursor) && cursor.byte(0) == b' ' {
            cursor.skip();
            cursor.ensure(1)?;
        }
        max_column = max_column.max(cursor.column);
        if in_indentation(cursor) && cursor.byte(0) == b'\t' {
            return cursor.error("found a tab character where an indentation space is expected");
        }
        if !cursor.is_break(0) {
            break;
        }
        cursor.ensure(2)?;
        breaks.push_str(cursor.skip_line());
    }
    indent.get_or_insert_with(|| max_column.max(usize::try_from(parent_indent + 1).unwrap_or_default()).max(1));
    Ok(())
}

/// Decodes an escape.
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
        _ => return cursor.error("found unknown escape character"),
    };
    cursor.skip();
    cursor.skip();
    if digits == 0 {
        return Ok(c);
    }
    cursor.ensure(digits)?;
    let mut code = 0u32;
    for ahead in 0..digits {
        let Some(digit) = char::from(cursor.byte(ahead)).to_digit(16) else {
            return cursor.error("did not find expected hexdecimal number");
        };
        code = code << 4 | digit;
    }
    let Some(c) = char::from_u32(code) else {
        return cursor.error("found invalid Unicode character escape code");
    };
    for _ in 0..digits {
        cursor.skip();
    }
    Ok(c)
}
