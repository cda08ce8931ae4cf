//! Scans directives, anchors, aliases and tags.

use std::borrow::Cow;

use super::decode::DecodeError;
use super::reader::Cursor;
use super::scanner::{Scanner, TokenKind};

impl<'t> Scanner<'t> {
    /// `%YAML 1.1` or `%TAG ! tag:example.com,2000:`
    pub(super) fn directive(&mut self) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let cursor = &mut self.cursor;
        cursor.skip();
        let name = name(cursor)?;
        if name.is_empty() {
            return cursor.error("could not find expected directive name");
        }
        if !cursor.is_word_end(0) {
            return cursor.error("found unexpected non-alphabetical character");
        }
        let kind = match name {
            "YAML" => version(cursor)?,
            "TAG" => tag_directive(cursor)?,
            _ => return cursor.error("found unknown directive name"),
        };
        cursor.skip_blanks()?;
        cursor.skip_comment()?;
        if !cursor.is_line_end(0) {
            return cursor.error("did not find expected comment or line break");
        }
        if cursor.is_break(0) {
            cursor.ensure(2)?;
            cursor.skip_line();
        }
        self.push_token(kind, line)
    }

    /// `&name` or `*name`
    pub(super) fn anchor(&mut self) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let cursor = &mut self.cursor;
        let is_alias = cursor.byte(0) == b'*';
        cursor.skip();
        let name = name(cursor)?;
        let ends =
            cursor.is_word_end(0) || matches!(cursor.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return cursor.error("did not find expected alphabetic or numeric character");
        }
        self.push_token(if is_alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, line)
    }

    /// `!<uri>`, `!suffix`, `!handle!suffix` or `!`
    pub(super) fn tag(&mut self) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let cursor = &mut self.cursor;
        cursor.ensure(2)?;
        let (handle, suffix) = if cursor.byte(1) == b'<' {
            cursor.skip();
            cursor.skip();
            let suffix = uri(cursor, "")?;
            if cursor.byte(0) != b'>' {
                return cursor.error("did not find the expected '>'");
            }
            cursor.skip();
            ("", suffix)
        } else {
            let handle = tag_handle(cursor, false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                (handle, uri(cursor, "")?)
            } else {
                // The text was not a handle but the start of the suffix.
                match uri(cursor, handle)? {
                    suffix if suffix.is_empty() => ("", Cow::Borrowed("!")),
                    suffix => ("!", suffix),
                }
            }
        };
        cursor.ensure(1)?;
        if !cursor.is_word_end(0) {
            return cursor.error("did not find expected whitespace or line break");
        }
        self.push_token(TokenKind::Tag(handle, suffix), line)
    }
}

fn name<'t>(cursor: &mut Cursor<'t>) -> Result<&'t str, DecodeError> {
    cursor.ensure(1)?;
    let start = cursor.offset();
    while cursor.is_name_char() {
        cursor.skip();
        cursor.ensure(1)?;
    }
    Ok(cursor.slice(start, cursor.offset()))
}

fn version<'t>(cursor: &mut Cursor<'_>) -> Result<TokenKind<'t>, DecodeError> {
    cursor.skip_blanks()?;
    let major = version_number(cursor)?;
    if cursor.byte(0) != b'.' {
        return cursor.error("did not find expected digit or '.' character");
    }
    cursor.skip();
    Ok(TokenKind::Version(major, version_number(cursor)?))
}

/// Scans a number of one or two digits.
fn version_number(cursor: &mut Cursor<'_>) -> Result<u8, DecodeError> {
    cursor.ensure(1)?;
    let (mut number, mut digits) = (0, 0);
    while cursor.byte(0).is_ascii_digit() {
        digits += 1;
        if digits > 2 {
            return cursor.error("found extremely long version number");
        }
        number = number * 10 + (cursor.byte(0) - b'0');
        cursor.skip();
        cursor.ensure(1)?;
    }
    if digits == 0 { cursor.error("did not find expected version number") } else { Ok(number) }
}

fn tag_directive<'t>(cursor: &mut Cursor<'t>) -> Result<TokenKind<'t>, DecodeError> {
    cursor.skip_blanks()?;
    let handle = tag_handle(cursor, true)?;
    cursor.ensure(1)?;
    if !cursor.is_blank(0) {
        return cursor.error("did not find expected whitespace");
    }
    cursor.skip_blanks()?;
    let prefix = uri(cursor, "")?;
    cursor.ensure(1)?;
    if !cursor.is_word_end(0) {
        return cursor.error("did not find expected whitespace or line break");
    }
    Ok(TokenKind::TagDirective(handle, prefix))
}

/// Scans `!`, `!name` or `!name!`. The second form is not allowed in a directive.
fn tag_handle<'t>(cursor: &mut Cursor<'t>, directive: bool) -> Result<&'t str, DecodeError> {
    cursor.ensure(1)?;
    if cursor.byte(0) != b'!' {
        return cursor.error("did not find expected '!'");
    }
    let start = cursor.offset();
    cursor.skip();
    name(cursor)?;
    if cursor.byte(0) == b'!' {
        cursor.skip();
    } else if directive && cursor.offset() > start + 1 {
        return cursor.error("did not find expected '!'");
    }
    Ok(cursor.slice(start, cursor.offset()))
}

/// Scans the characters of a URI after `head`, whose first character is not part of it.
fn uri<'t>(cursor: &mut Cursor<'t>, head: &'t str) -> Result<Cow<'t, str>, DecodeError> {
    cursor.ensure(1)?;
    let start = cursor.offset() - head.len().saturating_sub(1);
    let mut escaped: Option<Vec<u8>> = None;
    let is_uri = |cursor: &Cursor<'_>| cursor.is_name_char() || b";/?:@&=+$,.!~*'()[]%".contains(&cursor.byte(0));
    let mut empty = head.is_empty();
    while is_uri(cursor) {
        if cursor.byte(0) == b'%' {
            let before = cursor.slice(start, cursor.offset());
            uri_escape(cursor, escaped.get_or_insert_with(|| before.as_bytes().to_vec()))?;
        } else {
            let byte = cursor.byte(0);
            cursor.skip();
            escaped.as_mut().into_iter().for_each(|bytes| bytes.push(byte));
        }
        cursor.ensure(1)?;
        empty = false;
    }
    if empty {
        return cursor.error("did not find expected tag URI");
    }
    Ok(match escaped {
        // Upstream does not check that it is UTF-8. Only YAML's own tags are ever inspected.
        Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        None => Cow::Borrowed(cursor.slice(start, cursor.offset())),
    })
}

/// Decodes one percent-encoded character to its bytes.
fn uri_escape(cursor: &mut Cursor<'_>, bytes: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut left = None;
    while left != Some(0) {
        cursor.ensure(3)?;
        let digit = |ahead| char::from(cursor.byte(ahead)).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (b'%', Some(high), Some(low)) = (cursor.byte(0), digit(1), digit(2)) else {
            return cursor.error("did not find URI escaped octet");
        };
        let octet = high << 4 | low;
        let after = match (left, octet) {
            (None, 0..0x80) => 0,
            (None, 0xc0..0xe0) => 1,
            (None, 0xe0..0xf0) => 2,
            (None, 0xf0..0xf8) => 3,
            (None, _) => return cursor.error("found an incorrect leading UTF-8 octet"),
            (Some(left), 0x80..0xc0) => left - 1,
            (Some(_), _) => return cursor.error("found an incorrect trailing UTF-8 octet"),
        };
        left = Some(after);
        bytes.push(octet);
        (0..3).for_each(|_| cursor.skip());
    }
    Ok(())
}
