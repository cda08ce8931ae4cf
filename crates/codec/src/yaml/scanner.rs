//! A text to tokens, as libyaml does it (YAML 1.1, section 5): with a stack of indentations that opens and closes block
//! collections, and with the keys that are only known to be keys when their colon is seen.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::decode::DecodeError;
use super::reader::Cursor;
use crate::json::MAX_DEPTH;

/// What a text consists of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'t> {
    StreamEnd,
    /// `%YAML 1.1`
    Version(u8, u8),
    /// `%TAG handle prefix`
    TagDirective(&'t str, Cow<'t, str>),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'t str),
    Anchor(&'t str),
    /// A handle, and what follows it. The handle is empty where the tag is written in full.
    Tag(&'t str, Cow<'t, str>),
    Scalar {
        text: Cow<'t, str>,
        plain: bool,
    },
}

/// A token and the line that it begins in, counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind<'t>,
    pub(super) line: usize,
}

/// A place where a key may have begun.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// Nothing but a key can be there.
    required: bool,
    /// The number of the token that it begins with.
    token: usize,
    index: usize,
    line: usize,
    column: usize,
}

/// How far a key and its colon may be apart.
const KEY_LENGTH: usize = 1024;

/// Makes tokens when they are asked for.
pub(super) struct Scanner<'t> {
    pub(super) cursor: Cursor<'t>,
    tokens: VecDeque<Token<'t>>,
    /// How many tokens have been taken.
    taken: usize,
    ended: bool,
    /// The column of the block collection that is open; -1 outside of all.
    pub(super) indent: isize,
    indents: Vec<isize>,
    flow_level: usize,
    /// A key may begin here.
    pub(super) key_allowed: bool,
    /// One for each flow collection that is open, and one for the block.
    keys: Vec<SimpleKey>,
    /// Which of them begins at which token, from the next one to be taken on. As in goyaml it may still name keys that have
    /// been given up.
    keys_by_token: VecDeque<Option<usize>>,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(cursor: Cursor<'t>) -> Self {
        Self {
            cursor,
            tokens: VecDeque::new(),
            taken: 0,
            ended: false,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            key_allowed: true,
            keys: vec![SimpleKey::default()],
            keys_by_token: VecDeque::new(),
        }
    }

    /// The next token.
    pub(super) fn peek(&mut self) -> Result<&Token<'t>, DecodeError> {
        while self.next_is_open()? && !self.ended {
            self.fetch()?;
        }
        // The end stays, however often it is taken.
        Ok(self.tokens.front().unwrap_or(&Token { kind: Kind::StreamEnd, line: 0 }))
    }

    /// Takes the token that was looked at.
    pub(super) fn take(&mut self) -> Option<Token<'t>> {
        if matches!(self.tokens.front(), None | Some(Token { kind: Kind::StreamEnd, .. })) {
            return None;
        }
        self.taken += 1;
        self.keys_by_token.pop_front();
        self.tokens.pop_front()
    }

    pub(super) fn in_flow(&self) -> bool {
        self.flow_level > 0
    }

    /// True if there is no token, or if the first may turn out to be a key.
    fn next_is_open(&mut self) -> Result<bool, DecodeError> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        match self.keys_by_token.front() {
            Some(Some(key)) => self.is_valid(*key),
            _ => Ok(false),
        }
    }

    /// True if the key may still come to its colon; if not, it is given up.
    fn is_valid(&mut self, at: usize) -> Result<bool, DecodeError> {
        let Some(key) = self.keys.get_mut(at).filter(|key| key.possible) else { return Ok(false) };
        if key.line < self.cursor.line || key.index + KEY_LENGTH < self.cursor.index {
            if key.required {
                return self.cursor.fault("could not find expected ':'");
            }
            key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn next_token(&self) -> usize {
        self.taken + self.tokens.len()
    }

    fn last_key(&mut self) -> usize {
        self.keys.len().saturating_sub(1)
    }

    /// Notes that a key may begin here.
    fn save_key(&mut self) -> Result<(), DecodeError> {
        if !self.key_allowed {
            return Ok(());
        }
        let column = isize::try_from(self.cursor.column).unwrap_or(isize::MAX);
        let key = SimpleKey {
            possible: true,
            required: !self.in_flow() && self.indent == column,
            token: self.next_token(),
            index: self.cursor.index,
            line: self.cursor.line,
            column: self.cursor.column,
        };
        self.remove_key()?;
        let last = self.last_key();
        if let Some(slot) = self.keys.get_mut(last) {
            *slot = key;
        }
        self.note_key(key.token, Some(last));
        Ok(())
    }

    /// Notes which key begins at a token, unless that has been taken.
    fn note_key(&mut self, token: usize, key: Option<usize>) {
        let Some(place) = token.checked_sub(self.taken) else { return };
        if key.is_some() && self.keys_by_token.len() <= place {
            self.keys_by_token.resize(place + 1, None);
        }
        if let Some(slot) = self.keys_by_token.get_mut(place) {
            *slot = key;
        }
    }

    /// Gives up the key of the innermost collection.
    fn remove_key(&mut self) -> Result<(), DecodeError> {
        let Some(key) = self.keys.last_mut().filter(|key| key.possible) else { return Ok(()) };
        if key.required {
            return self.cursor.fault("could not find expected ':'");
        }
        key.possible = false;
        let token = key.token;
        self.note_key(token, None);
        Ok(())
    }

    /// Adds a token before the one with that number. As in goyaml it comes last if that one has been taken already, which
    /// happens to keys that are empty collections.
    fn insert(&mut self, before: Option<usize>, token: Token<'t>) {
        let last = self.tokens.len();
        let place = before.and_then(|number| number.checked_sub(self.taken)).map_or(last, |place| place.min(last));
        self.tokens.insert(place, token);
    }

    fn push(&mut self, kind: Kind<'t>, line: usize) {
        self.tokens.push_back(Token { kind, line });
    }

    /// Opens a block collection if the column is further in than what is open. It begins before the token with that
    /// number, or here.
    fn indent_to(
        &mut self,
        column: usize,
        line: usize,
        before: Option<usize>,
        kind: Kind<'t>,
    ) -> Result<(), DecodeError> {
        let column = isize::try_from(column).unwrap_or(isize::MAX);
        if self.in_flow() || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_DEPTH {
            return self.cursor.fault("exceeded max depth of 10000");
        }
        self.insert(before, Token { kind, line });
        Ok(())
    }

    /// Closes the block collections that are further in than the column.
    fn unindent_to(&mut self, column: isize) {
        if self.in_flow() {
            return;
        }
        while self.indent > column {
            self.push(Kind::BlockEnd, self.cursor.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    /// Makes one more token.
    fn fetch(&mut self) -> Result<(), DecodeError> {
        self.cursor.need(1)?;
        self.skip_to_token()?;
        self.unindent_to(isize::try_from(self.cursor.column).unwrap_or(isize::MAX));
        self.cursor.need(4)?;
        let cursor = &self.cursor;
        if cursor.is_end() {
            return self.stream_end();
        }
        let first = cursor.byte(0);
        if cursor.column == 0 && first == b'%' {
            self.leave_blocks()?;
            return self.directive();
        }
        if cursor.is_document_indicator() {
            return self.document_indicator(first);
        }
        let word_ends = cursor.is_word_end(1);
        match first {
            b'[' => self.open_flow(Kind::FlowSequenceStart),
            b'{' => self.open_flow(Kind::FlowMappingStart),
            b']' => self.close_flow(Kind::FlowSequenceEnd),
            b'}' => self.close_flow(Kind::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.indicator(Kind::FlowEntry);
                Ok(())
            }
            b'-' if word_ends => self.block_entry(),
            b'?' if word_ends || self.in_flow() => self.key(),
            b':' if word_ends || self.in_flow() => self.value(),
            b'*' | b'&' => {
                self.save_key()?;
                self.key_allowed = false;
                self.anchor()
            }
            b'!' => {
                self.save_key()?;
                self.key_allowed = false;
                self.tag()
            }
            b'|' | b'>' if !self.in_flow() => {
                self.remove_key()?;
                self.key_allowed = true;
                self.block_scalar(first == b'|')
            }
            b'\'' | b'"' => {
                self.save_key()?;
                self.key_allowed = false;
                self.quoted_scalar(first == b'\'')
            }
            _ if self.begins_plain(first) => {
                self.save_key()?;
                self.key_allowed = false;
                self.plain_scalar()
            }
            _ => self.cursor.fault("found character that cannot start any token"),
        }
    }

    /// True if a plain scalar may begin here. Dashes, question marks and colons with something behind them are text.
    fn begins_plain(&self, first: u8) -> bool {
        match first {
            b'-' => !self.cursor.is_blank(1),
            b'?' | b':' => !self.in_flow() && !self.cursor.is_word_end(1),
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@'
            | b'`' => false,
            _ => !self.cursor.is_word_end(0),
        }
    }

    /// Goes behind white space and comments.
    fn skip_to_token(&mut self) -> Result<(), DecodeError> {
        loop {
            self.cursor.need(1)?;
            if self.cursor.column == 0 && self.cursor.holds_mark() {
                self.cursor.skip();
            }
            self.cursor.need(1)?;
            // Where a key may begin, a tab is no indentation.
            let tabs = self.in_flow() || !self.key_allowed;
            while self.cursor.byte(0) == b' ' || tabs && self.cursor.byte(0) == b'\t' {
                self.cursor.skip();
                self.cursor.need(1)?;
            }
            self.cursor.skip_comment()?;
            if !self.cursor.is_break(0) {
                return Ok(());
            }
            self.cursor.need(2)?;
            self.cursor.skip_line();
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    fn leave_blocks(&mut self) -> Result<(), DecodeError> {
        self.unindent_to(-1);
        self.remove_key()?;
        self.key_allowed = false;
        Ok(())
    }

    fn stream_end(&mut self) -> Result<(), DecodeError> {
        self.cursor.end_line();
        self.leave_blocks()?;
        self.push(Kind::StreamEnd, self.cursor.line);
        self.ended = true;
        Ok(())
    }

    fn document_indicator(&mut self, first: u8) -> Result<(), DecodeError> {
        self.leave_blocks()?;
        self.cursor.skip();
        self.cursor.skip();
        self.indicator(if first == b'-' { Kind::DocumentStart } else { Kind::DocumentEnd });
        Ok(())
    }

    /// A token of one character.
    fn indicator(&mut self, kind: Kind<'t>) {
        let line = self.cursor.line;
        self.cursor.skip();
        self.push(kind, line);
    }

    fn open_flow(&mut self, kind: Kind<'t>) -> Result<(), DecodeError> {
        self.save_key()?;
        self.keys.push(SimpleKey { token: self.next_token(), ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return self.cursor.fault("exceeded max depth of 10000");
        }
        self.key_allowed = true;
        self.indicator(kind);
        Ok(())
    }

    fn close_flow(&mut self, kind: Kind<'t>) -> Result<(), DecodeError> {
        self.remove_key()?;
        if self.in_flow() {
            self.flow_level -= 1;
            if let Some(key) = self.keys.pop() {
                self.note_key(key.token, None);
            }
        }
        self.key_allowed = false;
        self.indicator(kind);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<(), DecodeError> {
        // In a flow collection the parser finds it where it should not be.
        if !self.in_flow() {
            if !self.key_allowed {
                return self.cursor.fault("block sequence entries are not allowed in this context");
            }
            self.indent_to(self.cursor.column, self.cursor.line, None, Kind::BlockSequenceStart)?;
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.indicator(Kind::BlockEntry);
        Ok(())
    }

    fn key(&mut self) -> Result<(), DecodeError> {
        if !self.in_flow() {
            if !self.key_allowed {
                return self.cursor.fault("mapping keys are not allowed in this context");
            }
            self.indent_to(self.cursor.column, self.cursor.line, None, Kind::BlockMappingStart)?;
        }
        self.remove_key()?;
        self.key_allowed = !self.in_flow();
        self.indicator(Kind::Key);
        Ok(())
    }

    fn value(&mut self) -> Result<(), DecodeError> {
        let last = self.last_key();
        if self.is_valid(last)? {
            // What was a text so far is a key.
            let key = self.keys.get(last).copied().unwrap_or_default();
            self.insert(Some(key.token), Token { kind: Kind::Key, line: key.line });
            self.indent_to(key.column, key.line, Some(key.token), Kind::BlockMappingStart)?;
            if let Some(key) = self.keys.get_mut(last) {
                key.possible = false;
            }
            self.note_key(key.token, None);
            self.key_allowed = false;
        } else {
            if !self.in_flow() {
                if !self.key_allowed {
                    return self.cursor.fault("mapping values are not allowed in this context");
                }
                self.indent_to(self.cursor.column, self.cursor.line, None, Kind::BlockMappingStart)?;
            }
            self.key_allowed = !self.in_flow();
        }
        self.indicator(Kind::Value);
        Ok(())
    }

    /// Adds a token that has been read.
    pub(super) fn found(&mut self, kind: Kind<'t>, line: usize) -> Result<(), DecodeError> {
        self.push(kind, line);
        Ok(())
    }
}
