//! The parser: tokens to events, as in libyaml. A state machine over YAML's grammar with an explicit stack of states,
//! so that nesting uses no call stack.

use std::borrow::Cow;

use super::decode::DecodeError;
use super::scanner::{Scanner, TokenKind};

/// The content of a parser event.
#[derive(Debug, PartialEq)]
pub(super) enum Event<'t> {
    /// A scalar's text, and whether it is plain, so that it may resolve to another type.
    Scalar(Cow<'t, str>, bool),
    Alias(&'t str),
    SequenceStart,
    MappingStart,
    /// The end of a sequence or a mapping.
    End,
    DocumentEnd,
}

/// An event with its anchor, tag and line.
#[derive(Debug)]
pub(super) struct ParsedEvent<'t> {
    pub(super) event: Event<'t>,
    /// The line on which the event starts, counted from 0.
    pub(super) line: usize,
    pub(super) anchor: Option<&'t str>,
    /// The full tag, or empty.
    pub(super) tag: Cow<'t, str>,
}

impl<'t> ParsedEvent<'t> {
    fn new(event: Event<'t>, line: usize) -> Self {
        Self { event, line, anchor: None, tag: Cow::Borrowed("") }
    }

    fn empty(line: usize) -> Self {
        Self::new(Event::Scalar(Cow::Borrowed(""), true), line)
    }
}

/// The parser's state (`yaml_parser_state_t`).
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    /// The root node of a document without `---`.
    BlockNode,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirstEntry,
    FlowSequenceEntry,
    /// A single-pair mapping in a flow sequence: `[a: b]`.
    PairKey,
    PairValue,
    PairEnd,
    FlowMappingFirstKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
}

/// The context of a node.
#[derive(Clone, Copy, PartialEq)]
enum NodeContext {
    Flow,
    Block,
    /// In a mapping, a sequence may be indented no further than its key.
    BlockOrIndentlessSequence,
}

/// The tag handles that need no `%TAG` directive.
const DEFAULT_TAGS: [(&str, &str); 2] = [("!", "!"), ("!!", "tag:yaml.org,2002:")];

/// Maximum number of `%TAG` directives, each of which is compared with all others. Upstream has no such limit.
const MAX_TAG_DIRECTIVES: usize = 1_000;

/// Produces the events of the first document on demand.
pub(super) struct Parser<'t> {
    scanner: Scanner<'t>,
    state: State,
    states: Vec<State>,
    tags: Vec<(&'t str, Cow<'t, str>)>,
}

impl<'t> Parser<'t> {
    pub(super) fn new(scanner: Scanner<'t>) -> Self {
        Self { scanner, state: State::DocumentStart, states: Vec::new(), tags: Vec::new() }
    }

    /// The next event. After the end of the document, or without a document, it is always the document's end.
    pub(super) fn next(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        match self.state {
            State::DocumentStart => self.document_start(),
            State::DocumentContent => match self.peek()? {
                TokenKind::Version(..)
                | TokenKind::TagDirective(..)
                | TokenKind::DocumentStart
                | TokenKind::DocumentEnd
                | TokenKind::StreamEnd => {
                    self.pop_state();
                    self.empty_scalar()
                }
                _ => self.node(NodeContext::Block),
            },
            State::DocumentEnd => {
                let line = self.line()?;
                Ok(ParsedEvent::new(Event::DocumentEnd, line))
            }
            State::BlockNode => self.node(NodeContext::Block),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirstEntry => self.flow_sequence_entry(true),
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::PairKey => self.pair_key(),
            State::PairValue => self.flow_value(&TokenKind::FlowSequenceEnd, State::PairEnd),
            State::PairEnd => {
                self.state = State::FlowSequenceEntry;
                Ok(ParsedEvent::new(Event::End, self.line()?))
            }
            State::FlowMappingFirstKey => self.flow_mapping_key(true),
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_value(&TokenKind::FlowMappingEnd, State::FlowMappingKey),
            State::FlowMappingEmptyValue => {
                self.state = State::FlowMappingKey;
                self.empty_scalar()
            }
        }
    }

    fn peek(&mut self) -> Result<&TokenKind<'t>, DecodeError> {
        self.scanner.peek().map(|token| &token.kind)
    }

    fn line(&mut self) -> Result<usize, DecodeError> {
        self.scanner.peek().map(|token| token.line)
    }

    /// Consumes the peeked token and returns its line.
    fn consume(&mut self) -> usize {
        self.scanner.consume().map_or(0, |token| token.line)
    }

    /// Returns to the state of the enclosing collection.
    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    /// Parses a node. `state` is the state after it.
    fn node_then(&mut self, state: State, context: NodeContext) -> Result<ParsedEvent<'t>, DecodeError> {
        self.states.push(state);
        self.node(context)
    }

    /// An empty scalar in place of a missing node.
    fn empty_scalar(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        self.line().map(ParsedEvent::empty)
    }

    fn error<T>(&mut self, problem: &str) -> Result<T, DecodeError> {
        // Unlike the scanner's, goyaml's parser errors print line numbers counted from 0.
        let line = self.line()?;
        Err(DecodeError::at_line(line, problem))
    }

    fn document_start(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        match self.peek()? {
            TokenKind::StreamEnd => {
                self.state = State::DocumentEnd;
                return Ok(ParsedEvent::new(Event::DocumentEnd, 0));
            }
            TokenKind::Version(..) | TokenKind::TagDirective(..) | TokenKind::DocumentStart => {
                self.directives()?;
                if *self.peek()? != TokenKind::DocumentStart {
                    return self.error("did not find expected <document start>");
                }
                self.consume();
                self.state = State::DocumentContent;
            }
            _ => {
                self.directives()?;
                self.state = State::BlockNode;
            }
        }
        self.states.push(State::DocumentEnd);
        self.next()
    }

    fn directives(&mut self) -> Result<(), DecodeError> {
        let mut version = false;
        loop {
            match self.peek()?.clone() {
                TokenKind::Version(..) if version => return self.error("found duplicate %YAML directive"),
                TokenKind::Version(1, 1) => version = true,
                TokenKind::Version(..) => return self.error("found incompatible YAML document"),
                TokenKind::TagDirective(handle, prefix) => {
                    if self.tags.iter().any(|(declared, _)| *declared == handle) {
                        return self.error("found duplicate %TAG directive");
                    }
                    if self.tags.len() >= MAX_TAG_DIRECTIVES {
                        return self.error("found too many %TAG directives");
                    }
                    self.tags.push((handle, prefix));
                }
                _ => break,
            }
            self.consume();
        }
        for (handle, prefix) in DEFAULT_TAGS {
            if !self.tags.iter().any(|(declared, _)| *declared == handle) {
                self.tags.push((handle, Cow::Borrowed(prefix)));
            }
        }
        Ok(())
    }

    fn node(&mut self, context: NodeContext) -> Result<ParsedEvent<'t>, DecodeError> {
        let line = self.line()?;
        if let TokenKind::Alias(name) = *self.peek()? {
            self.consume();
            self.pop_state();
            return Ok(ParsedEvent::new(Event::Alias(name), line));
        }
        let (anchor, tag) = self.properties(line)?;
        let (event, collection_state) = match self.peek()?.clone() {
            TokenKind::BlockEntry if context == NodeContext::BlockOrIndentlessSequence => {
                self.state = State::IndentlessSequenceEntry;
                return Ok(ParsedEvent { event: Event::SequenceStart, line, anchor, tag });
            }
            TokenKind::Scalar { text, plain } => {
                let plain = if tag.is_empty() { plain } else { tag == "!" };
                (Event::Scalar(text, plain), None)
            }
            TokenKind::FlowSequenceStart => (Event::SequenceStart, Some(State::FlowSequenceFirstEntry)),
            TokenKind::FlowMappingStart => (Event::MappingStart, Some(State::FlowMappingFirstKey)),
            TokenKind::BlockSequenceStart if context != NodeContext::Flow => {
                (Event::SequenceStart, Some(State::BlockSequenceEntry))
            }
            TokenKind::BlockMappingStart if context != NodeContext::Flow => {
                (Event::MappingStart, Some(State::BlockMappingKey))
            }
            _ if anchor.is_some() || !tag.is_empty() => {
                self.pop_state();
                let plain = tag.is_empty();
                return Ok(ParsedEvent { event: Event::Scalar(Cow::Borrowed(""), plain), line, anchor, tag });
            }
            _ => return self.error("did not find expected node content"),
        };
        self.consume();
        match collection_state {
            Some(state) => self.state = state,
            None => self.pop_state(),
        }
        Ok(ParsedEvent { event, line, anchor, tag })
    }

    /// Parses an anchor and a tag, in any order.
    fn properties(&mut self, line: usize) -> Result<(Option<&'t str>, Cow<'t, str>), DecodeError> {
        let mut anchor = None;
        let mut tag = None;
        let mut tag_line = line;
        loop {
            match self.peek()?.clone() {
                TokenKind::Anchor(name) if anchor.is_none() => anchor = Some(name),
                TokenKind::Tag(handle, suffix) if tag.is_none() => {
                    tag_line = self.line()?;
                    tag = Some((handle, suffix));
                }
                _ => break,
            }
            self.consume();
        }
        let Some((handle, suffix)) = tag else { return Ok((anchor, Cow::Borrowed(""))) };
        if handle.is_empty() {
            return Ok((anchor, suffix));
        }
        let prefix = self.tags.iter().find(|(declared, _)| *declared == handle).map(|(_, prefix)| prefix);
        match prefix {
            Some(prefix) if !prefix.is_empty() || !suffix.is_empty() => {
                Ok((anchor, Cow::Owned(format!("{prefix}{suffix}"))))
            }
            _ => Err(DecodeError::at_line(if tag_line > 0 { tag_line } else { line }, "found undefined tag handle")),
        }
    }

    fn end(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        self.pop_state();
        let line = self.line()?;
        Ok(ParsedEvent::new(Event::End, line))
    }

    fn block_sequence_entry(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        match self.peek()? {
            TokenKind::BlockEntry => {
                let line = self.consume();
                match self.peek()? {
                    TokenKind::BlockEntry | TokenKind::BlockEnd => Ok(ParsedEvent::empty(line)),
                    _ => self.node_then(State::BlockSequenceEntry, NodeContext::Block),
                }
            }
            TokenKind::BlockEnd => {
                let end = self.end();
                self.consume();
                end
            }
            _ => self.error("did not find expected '-' indicator"),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        if *self.peek()? != TokenKind::BlockEntry {
            return self.end();
        }
        let line = self.consume();
        match self.peek()? {
            TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                Ok(ParsedEvent::empty(line))
            }
            _ => self.node_then(State::IndentlessSequenceEntry, NodeContext::Block),
        }
    }

    fn block_mapping_key(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        match self.peek()? {
            TokenKind::Key => {
                let line = self.consume();
                self.block_mapping_node(line, State::BlockMappingValue)
            }
            TokenKind::BlockEnd => {
                let end = self.end();
                self.consume();
                end
            }
            _ => self.error("did not find expected key"),
        }
    }

    fn block_mapping_value(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        if *self.peek()? != TokenKind::Value {
            self.state = State::BlockMappingKey;
            return self.empty_scalar();
        }
        let line = self.consume();
        self.block_mapping_node(line, State::BlockMappingKey)
    }

    /// Parses a key or a value of a block mapping, which may be empty. `then` is the state after it.
    fn block_mapping_node(&mut self, line: usize, then: State) -> Result<ParsedEvent<'t>, DecodeError> {
        match self.peek()? {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => {
                self.state = then;
                Ok(ParsedEvent::empty(line))
            }
            _ => self.node_then(then, NodeContext::BlockOrIndentlessSequence),
        }
    }

    /// Consumes the comma before any entry but the first. Returns false at the end of the collection.
    fn next_entry(&mut self, first: bool, end: &TokenKind<'_>, problem: &str) -> Result<bool, DecodeError> {
        if self.peek()? == end {
            return Ok(false);
        }
        if first {
            return Ok(true);
        }
        if *self.peek()? != TokenKind::FlowEntry {
            return self.error(problem);
        }
        self.consume();
        Ok(self.peek()? != end)
    }

    fn flow_end(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        self.pop_state();
        let line = self.line()?;
        self.consume();
        Ok(ParsedEvent::new(Event::End, line))
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Result<ParsedEvent<'t>, DecodeError> {
        if !self.next_entry(first, &TokenKind::FlowSequenceEnd, "did not find expected ',' or ']'")? {
            return self.flow_end();
        }
        if *self.peek()? == TokenKind::Key {
            self.state = State::PairKey;
            let line = self.consume();
            return Ok(ParsedEvent::new(Event::MappingStart, line));
        }
        self.node_then(State::FlowSequenceEntry, NodeContext::Flow)
    }

    fn pair_key(&mut self) -> Result<ParsedEvent<'t>, DecodeError> {
        match self.peek()? {
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd => {
                // As in libyaml, the token that ends the missing key is lost.
                let line = self.consume();
                self.state = State::PairValue;
                Ok(ParsedEvent::empty(line))
            }
            _ => self.node_then(State::PairValue, NodeContext::Flow),
        }
    }

    /// Parses the value of a pair in a flow collection that `end` closes. `then` is the state after it.
    fn flow_value(&mut self, end: &TokenKind<'_>, then: State) -> Result<ParsedEvent<'t>, DecodeError> {
        if *self.peek()? == TokenKind::Value {
            let line = self.consume();
            let next = self.peek()?;
            if *next != TokenKind::FlowEntry && next != end {
                return self.node_then(then, NodeContext::Flow);
            }
            if then == State::PairEnd {
                self.state = then;
                return Ok(ParsedEvent::empty(line));
            }
        }
        self.state = then;
        self.empty_scalar()
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<ParsedEvent<'t>, DecodeError> {
        if !self.next_entry(first, &TokenKind::FlowMappingEnd, "did not find expected ',' or '}'")? {
            return self.flow_end();
        }
        if *self.peek()? != TokenKind::Key {
            return self.node_then(State::FlowMappingEmptyValue, NodeContext::Flow);
        }
        self.consume();
        match self.peek()? {
            TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd => {
                self.state = State::FlowMappingValue;
                self.empty_scalar()
            }
            _ => self.node_then(State::FlowMappingValue, NodeContext::Flow),
        }
    }
}
