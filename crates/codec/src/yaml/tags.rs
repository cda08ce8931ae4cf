//! Names in a text: directives, anchors and aliases, tags.

use std::borrow::Cow;

use super::decode::DecodeError;
use super::reader::Cursor;
use super::scanner::{Kind, Scanner};

impl<'t> Scanner<'t> {
    /// `%YAML 1.1` or `%TAG ! tag:example.com,2000:`
    pub(super) fn directive(&mut self) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let cursor = &mut self.cursor;
        cursor.skip();
        let name = name(cursor)?;
        if name.is_empty() {
            return cursor.fault("could not find expected directive name");
        }
        if !cursor.is_word_end(0) {
            return cursor.fault("found unexpected non-alphabetical character");
        }
        let kind = match name {
            "YAML" => version(cursor)?,
            "TAG" => tag_directive(cursor)?,
            _ => return cursor.fault("found unknown directive name"),
        };
        cursor.skip_blanks()?;
        cursor.skip_comment()?;
        if !cursor.is_line_end(0) {
            return cursor.fault("did not find expected comment or line break");
        }
        if cursor.is_break(0) {
            cursor.need(2)?;
            cursor.skip_line();
        }
        self.found(kind, line)
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
            return cursor.fault("did not find expected alphabetic or numeric character");
        }
        self.found(if is_alias { Kind::Alias(name) } else { Kind::Anchor(name) }, line)
    }

    /// `!<uri>`, `!suffix`, `!handle!suffix` or `!`
    pub(super) fn tag(&mut self) -> Result<(), DecodeError> {
        let line = self.cursor.line;
        let cursor = &mut self.cursor;
        cursor.need(2)?;
        let (handle, suffix) = if cursor.byte(1) == b'<' {
            cursor.skip();
            cursor.skip();
            let suffix = uri(cursor, "")?;
            if cursor.byte(0) != b'>' {
                return cursor.fault("did not find the expected '>'");
            }
            cursor.skip();
            ("", suffix)
        } else {
            let handle = tag_handle(cursor, false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                (handle, uri(cursor, "")?)
            } else {
                // It was no handle but the beginning of the suffix.
                match uri(cursor, handle)? {
                    suffix if suffix.is_empty() => ("", Cow::Borrowed("!")),
                    suffix => ("!", suffix),
                }
            }
        };
        cursor.need(1)?;
        if !cursor.is_word_end(0) {
            return cursor.fault("did not find expected whitespace or line break");
        }
        self.found(Kind::Tag(handle, suffix), line)
    }
}

fn name<'t>(cursor: &mut Cursor<'t>) -> Result<&'t str, DecodeError> {
    cursor.need(1)?;
    let start = cursor.at();
    while cursor.is_name() {
        cursor.skip();
        cursor.need(1)?;
    }
    Ok(cursor.slice(start, cursor.at()))
}

fn version<'t>(cursor: &mut Cursor<'_>) -> Result<Kind<'t>, DecodeError> {
    cursor.skip_blanks()?;
    let major = version_number(cursor)?;
    if cursor.byte(0) != b'.' {
        return cursor.fault("did not find expected digit or '.' character");
    }
    cursor.skip();
    Ok(Kind::Version(major, version_number(cursor)?))
}

/// A number of one or two digits.
fn version_number(cursor: &mut Cursor<'_>) -> Result<u8, DecodeError> {
    cursor.need(1)?;
    let (mut number, mut digits) = (0, 0);
    while cursor.byte(0).is_ascii_digit() {
        digits += 1;
        if digits > 2 {
            return cursor.fault("found extremely long version number");
        }
        number = number * 10 + (cursor.byte(0) - b'0');
        cursor.skip();
        cursor.need(1)?;
    }
    if digits == 0 { cursor.fault("did not find expected version number") } else { Ok(number) }
}

fn tag_directive<'t>(cursor: &mut Cursor<'t>) -> Result<Kind<'t>, DecodeError> {
    cursor.skip_blanks()?;
    let handle = tag_handle(cursor, true)?;
    cursor.need(1)?;
    if !cursor.is_blank(0) {
        return cursor.fault("did not find expected whitespace");
    }
    cursor.skip_blanks()?;
    let prefix = uri(cursor, "")?;
    cursor.need(1)?;
    if !cursor.is_word_end(0) {
        return cursor.fault("did not find expected whitespace or line break");
    }
    Ok(Kind::TagDirective(handle, prefix))
}

/// `!`, `!name` or `!name!`, of which the second is not allowed in a directive.
fn tag_handle<'t>(cursor: &mut Cursor<'t>, directive: bool) -> Result<&'t str, DecodeError> {
    cursor.need(1)?;
    if cursor.byte(0) != b'!' {
        return cursor.fault("did not find expected '!'");
    }
    let start = cursor.at();
    cursor.skip();
    name(cursor)?;
    if cursor.byte(0) == b'!' {
        cursor.skip();
    } else if directive && cursor.at() > start + 1 {
        return cursor.fault("did not find expected '!'");
    }
    Ok(cursor.slice(start, cursor.at()))
}

/// The characters of a URI behind those of `head`, whose first is not part of it.
fn uri<'t>(cursor: &mut Cursor<'t>, head: &'t str) -> Result<Cow<'t, str>, DecodeError> {
    cursor.need(1)?;
    let start = cursor.at() - head.len().saturating_sub(1);
    let mut escaped: Option<Vec<u8>> = None;
    let is_uri = |cursor: &Cursor<'_>| cursor.is_name() || b";/?:@&=+$,.!~*'()[]%".contains(&cursor.byte(0));
    let mut empty = head.is_empty();
    while is_uri(cursor) {
        if cursor.byte(0) == b'%' {
            let before = cursor.slice(start, cursor.at());
            uri_escape(cursor, escaped.get_or_insert_with(|| before.as_bytes().to_vec()))?;
        } else {
            let byte = cursor.byte(0);
            cursor.skip();
            escaped.as_mut().into_iter().for_each(|bytes| bytes.push(byte));
        }
        cursor.need(1)?;
        empty = false;
    }
    if empty {
        return cursor.fault("did not find expected tag URI");
    }
    Ok(match escaped {
        // Not checked to be UTF-8 upstream, where nothing but the tags of YAML is looked at.
        Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        None => Cow::Borrowed(cursor.slice(start, cursor.at())),
    })
}

/// The bytes of one character, each as a percent sign and two digits.
fn uri_escape(cursor: &mut Cursor<'_>, bytes: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut left = None;
    while left != Some(0) {
        cursor.need(3)?;
        let digit = |ahead| char::from(cursor.byte(ahead)).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (b'%', Some(high), Some(low)) = (cursor.byte(0), digit(1), digit(2)) else {
            return cursor.fault("did not find URI escaped octet");
        };
        let octet = high << 4 | low;
        let after = match (left, octet) {
            (None, 0..0x80) => 0,
            (None, 0xc0..0xe0) => 1,
            (None, 0xe0..0xf0) => 2,
            (None, 0xf0..0xf8) => 3,
            (None, _) => return cursor.fault("found an incorrect leading UTF-8 octet"),
            (Some(left), 0x80..0xc0) => left - 1,
            (Some(_), _) => return cursor.fault("found an incorrect trailing UTF-8 octet"),
        };
        left = Some(after);
        bytes.push(octet);
        (0..3).for_each(|_| cursor.skip());
    }
    Ok(())
}
