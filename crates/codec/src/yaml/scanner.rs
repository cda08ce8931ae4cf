//! The scanner: characters to tokens, as in libyaml (YAML 1.1, section 5). A stack of indentation levels opens and
//! closes block collections. Simple keys are recognized as keys only when their colon is found.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::decode::DecodeError;
use super::reader::Cursor;
use crate::json::MAX_DEPTH;

/// The content of a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind<'t> {
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
    /// A handle and a suffix. The handle is empty if the tag is written in full.
    Tag(&'t str, Cow<'t, str>),
    Scalar {
        text: Cow<'t, str>,
        plain: bool,
    },
}

/// A token and the line on which it starts, counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind<'t>,
    pub(super) line: usize,
}

/// A position at which a simple key may start (`yaml_simple_key_t`).
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// Whether only a key may start here.
    required: bool,
    /// The number of the key's first token.
    token: usize,
    index: usize,
    line: usize,
    column: usize,
}

/// Maximum distance in characters between the start of a simple key and its colon.
const MAX_SIMPLE_KEY_LENGTH: usize = 1024;

/// Produces tokens on demand.
pub(super) struct Scanner<'t> {
    pub(super) cursor: Cursor<'t>,
    tokens: VecDeque<Token<'t>>,
    /// The number of tokens that have been consumed (`tokens_parsed`).
    consumed: usize,
    stream_ended: bool,
    /// The column of the current block collection, or -1 outside all of them.
    pub(super) indent: isize,
    indents: Vec<isize>,
    flow_level: usize,
    /// Whether a simple key may start here (`simple_key_allowed`).
    pub(super) simple_key_allowed: bool,
    /// The possible simple keys: one for the block context and one for each open flow collection (`simple_keys`).
    simple_keys: Vec<SimpleKey>,
    /// The index in `simple_keys` of the key that starts at each token, beginning with the next token
    /// (`simple_keys_by_tok`). As in goyaml it may still refer to keys that are no longer possible.
    simple_keys_by_token: VecDeque<Option<usize>>,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(cursor: Cursor<'t>) -> Self {
        Self {
            cursor,
            tokens: VecDeque::new(),
            consumed: 0,
            stream_ended: false,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            simple_keys_by_token: VecDeque::new(),
        }
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&mut self) -> Result<&Token<'t>, DecodeError> {
        while self.needs_more_tokens()? && !self.stream_ended {
            self.fetch_next_token()?;
        }
        // The end of the stream remains, however often it is consumed.
        Ok(self.tokens.front().unwrap_or(&Token { kind: TokenKind::StreamEnd, line: 0 }))
    }

    /// Consumes the peeked token.
    pub(super) fn consume(&mut self) -> Option<Token<'t>> {
        if matches!(self.tokens.front(), None | Some(Token { kind: TokenKind::StreamEnd, .. })) {
            return None;
        }
        self.consumed += 1;
        self.simple_keys_by_token.pop_front();
        self.tokens.pop_front()
    }

    pub(super) fn in_flow(&self) -> bool {
        self.flow_level > 0
    }

    /// Returns whether more tokens must be fetched: there is none, or the first one may turn out to start a key.
    fn needs_more_tokens(&mut self) -> Result<bool, DecodeError> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        match self.simple_keys_by_token.front() {
            Some(Some(key)) => self.is_simple_key_possible(*key),
            _ => Ok(false),
        }
    }

    /// Returns whether the simple key may still be followed by its colon. If not, it is marked as not possible.
    fn is_simple_key_possible(&mut self, key_index: usize) -> Result<bool, DecodeError> {
        let Some(key) = self.simple_keys.get_mut(key_index).filter(|key| key.possible) else { return Ok(false) };
        if key.line < self.cursor.line || key.index + MAX_SIMPLE_KEY_LENGTH < self.cursor.index {
            if key.required {
                return self.cursor.error("could not find expected ':'");
            }
            key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn next_token(&self) -> usize {
        self.consumed + self.tokens.len()
    }

    fn last_simple_key(&mut self) -> usize {
        self.simple_keys.len().saturating_sub(1)
    }

    /// Saves a possible simple key at the current position.
    fn save_simple_key(&mut self) -> Result<(), DecodeError> {
        if !self.simple_key_allowed {
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
        self.remove_simple_key()?;
        let last = self.last_simple_key();
        if let Some(slot) = self.simple_keys.get_mut(last) {
            *slot = key;
        }
        self.set_key_of_token(key.token, Some(last));
        Ok(())
    }

    /// Records which key starts at a token, unless the token has been consumed.
    fn set_key_of_token(&mut self, token: usize, key: Option<usize>) {
        let Some(index) = token.checked_sub(self.consumed) else { return };
        if key.is_some() && self.simple_keys_by_token.len() <= index {
            self.simple_keys_by_token.resize(index + 1, None);
        }
        if let Some(slot) = self.simple_keys_by_token.get_mut(index) {
            *slot = key;
        }
    }

    /// Discards the possible simple key of the innermost collection.
    fn remove_simple_key(&mut self) -> Result<(), DecodeError> {
        let Some(key) = self.simple_keys.last_mut().filter(|key| key.possible) else { return Ok(()) };
        if key.required {
            return self.cursor.error("could not find expected ':'");
        }
        key.possible = false;
        let token = key.token;
        self.set_key_of_token(token, None);
        Ok(())
    }

    /// Inserts a token before the token with the given number. As in goyaml it is appended if that token has been
    /// consumed, which happens for keys that are empty collections.
    fn insert(&mut self, before: Option<usize>, token: Token<'t>) {
        let last = self.tokens.len();
        let index = before.and_then(|number| number.checked_sub(self.consumed)).map_or(last, |index| index.min(last));
        self.tokens.insert(index, token);
    }

    fn push(&mut self, kind: TokenKind<'t>, line: usize) {
        self.tokens.push_back(Token { kind, line });
    }

    /// Opens a block collection if the column is greater than the current indentation. Its start token is inserted
    /// before the token with the given number, or appended (`yaml_parser_roll_indent`).
    fn roll_indent(
        &mut self,
        column: usize,
        line: usize,
        before: Option<usize>,
        kind: TokenKind<'t>,
    ) -> Result<(), DecodeError> {
        let column = isize::try_from(column).unwrap_or(isize::MAX);
        if self.in_flow() || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_DEPTH {
            return self.cursor.error("exceeded max depth of 10000");
        }
        self.insert(before, Token { kind, line });
        Ok(())
    }

    /// Closes the block collections that are indented further than the column (`yaml_parser_unroll_indent`).
    fn unroll_indent(&mut self, column: isize) {
        if self.in_flow() {
            return;
        }
        while self.indent > column {
            self.push(TokenKind::BlockEnd, self.cursor.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    /// Fetches the next token.
    fn fetch_next_token(&mut self) -> Result<(), DecodeError> {
        self.cursor.ensure(1)?;
        self.skip_to_token()?;
        self.unroll_indent(isize::try_from(self.cursor.column).unwrap_or(isize::MAX));
        self.cursor.ensure(4)?;
        let cursor = &self.cursor;
        if cursor.is_end() {
            return self.stream_end();
        }
        let first = cursor.byte(0);
        if cursor.column == 0 && first == b'%' {
            self.end_blocks()?;
            return self.directive();
        }
        if cursor.is_document_indicator() {
            return self.document_indicator(first);
        }
        let word_ends = cursor.is_word_end(1);
        match first {
            b'[' => self.flow_collection_start(TokenKind::FlowSequenceStart),
            b'{' => self.flow_collection_start(TokenKind::FlowMappingStart),
            b']' => self.flow_collection_end(TokenKind::FlowSequenceEnd),
            b'}' => self.flow_collection_end(TokenKind::FlowMappingEnd),
            b',' => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.indicator(TokenKind::FlowEntry);
                Ok(())
            }
            b'-' if word_ends => self.block_entry(),
            b'?' if word_ends || self.in_flow() => self.key(),
            b':' if word_ends || self.in_flow() => self.value(),
            b'*' | b'&' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.anchor()
            }
            b'!' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.tag()
            }
            b'|' | b'>' if !self.in_flow() => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.block_scalar(first == b'|')
            }
            b'\'' | b'"' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.quoted_scalar(first == b'\'')
            }
            _ if self.can_start_plain_scalar(first) => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.plain_scalar()
            }
            _ => self.cursor.error("found character that cannot start any token"),
        }
    }

    /// Returns whether a plain scalar may start here. A dash, question mark or colon that is not followed by white
    /// space starts one.
    fn can_start_plain_scalar(&self, first: u8) -> bool {
        match first {
            b'-' => !self.cursor.is_blank(1),
            b'?' | b':' => !self.in_flow() && !self.cursor.is_word_end(1),
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@'
            | b'`' => false,
            _ => !self.cursor.is_word_end(0),
        }
    }

    /// Skips white space and comments.
    fn skip_to_token(&mut self) -> Result<(), DecodeError> {
        loop {
            self.cursor.ensure(1)?;
            if self.cursor.column == 0 && self.cursor.buffer_starts_with_bom() {
                self.cursor.skip();
            }
            self.cursor.ensure(1)?;
            // Where a simple key may start, tabs are not allowed as indentation.
            let tabs = self.in_flow() || !self.simple_key_allowed;
            while self.cursor.byte(0) == b' ' || tabs && self.cursor.byte(0) == b'\t' {
                self.cursor.skip();
                self.cursor.ensure(1)?;
            }
            self.cursor.skip_comment()?;
            if !self.cursor.is_break(0) {
                return Ok(());
            }
            self.cursor.ensure(2)?;
            self.cursor.skip_line();
            if !self.in_flow() {
                self.simple_key_allowed = true;
            }
        }
    }

    fn end_blocks(&mut self) -> Result<(), DecodeError> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        Ok(())
    }

    fn stream_end(&mut self) -> Result<(), DecodeError> {
        self.cursor.finish_line();
        self.end_blocks()?;
        self.push(TokenKind::StreamEnd, self.cursor.line);
        self.stream_ended = true;
        Ok(())
    }

    fn document_indicator(&mut self, first: u8) -> Result<(), DecodeError> {
        self.end_blocks()?;
        self.cursor.skip();
        self.cursor.skip();
        self.indicator(if first == b'-' { TokenKind::DocumentStart } else { TokenKind::DocumentEnd });
        Ok(())
    }

    /// Appends a token of one character.
    fn indicator(&mut self, kind: TokenKind<'t>) {
        let line = self.cursor.line;
        self.cursor.skip();
        self.push(kind, line);
    }

    fn flow_collection_start(&mut self, kind: TokenKind<'t>) -> Result<(), DecodeError> {
        self.save_simple_key()?;
        self.simple_keys.push(SimpleKey { token: self.next_token(), ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return self.cursor.error("exceeded max depth of 10000");
        }
        self.simple_key_allowed = true;
        self.indicator(kind);
        Ok(())
    }

    fn flow_collection_end(&mut self, kind: TokenKind<'t>) -> Result<(), DecodeError> {
        self.remove_simple_key()?;
        if self.in_flow() {
            self.flow_level -= 1;
            if let Some(key) = self.simple_keys.pop() {
                self.set_key_of_token(key.token, None);
            }
        }
        self.simple_key_allowed = false;
        self.indicator(kind);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<(), DecodeError> {
        // In a flow collection the parser reports the error.
        if !self.in_flow() {
            if !self.simple_key_allowed {
                return self.cursor.error("block sequence entries are not allowed in this context");
            }
            self.roll_indent(self.cursor.column, self.cursor.line, None, TokenKind::BlockSequenceStart)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.indicator(TokenKind::BlockEntry);
        Ok(())
    }

    fn key(&mut self) -> Result<(), DecodeError> {
        if !self.in_flow() {
            if !self.simple_key_allowed {
                return self.cursor.error("mapping keys are not allowed in this context");
            }
            self.roll_indent(self.cursor.column, self.cursor.line, None, TokenKind::BlockMappingStart)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = !self.in_flow();
        self.indicator(TokenKind::Key);
        Ok(())
    }

    fn value(&mut self) -> Result<(), DecodeError> {
        let last = self.last_simple_key();
        if self.is_simple_key_possible(last)? {
            // The tokens since the saved simple key are a mapping key.
            let key = self.simple_keys.get(last).copied().unwrap_or_default();
            self.insert(Some(key.token), Token { kind: TokenKind::Key, line: key.line });
            self.roll_indent(key.column, key.line, Some(key.token), TokenKind::BlockMappingStart)?;
            if let Some(key) = self.simple_keys.get_mut(last) {
                key.possible = false;
            }
            self.set_key_of_token(key.token, None);
            self.simple_key_allowed = false;
        } else {
            if !self.in_flow() {
                if !self.simple_key_allowed {
                    return self.cursor.error("mapping values are not allowed in this context");
                }
                self.roll_indent(self.cursor.column, self.cursor.line, None, TokenKind::BlockMappingStart)?;
            }
            self.simple_key_allowed = !self.in_flow();
        }
        self.indicator(TokenKind::Value);
        Ok(())
    }

    /// Appends a token that has been scanned.
    pub(super) fn push_token(&mut self, kind: TokenKind<'t>, line: usize) -> Result<(), DecodeError> {
        self.push(kind, line);
        Ok(())
    }
}
