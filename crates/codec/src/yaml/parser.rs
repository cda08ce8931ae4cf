//! Tokens to events, as libyaml does it: a machine whose states are the places in YAML's grammar, with a stack of those to
//! come back to, so that nothing is deep but the stack.

use std::borrow::Cow;

use super::decode::DecodeError;
use super::scanner::{Kind, Scanner};

/// What a document consists of.
#[derive(Debug, PartialEq)]
pub(super) enum Event<'t> {
    /// A text. It may mean something else than itself if it is plain.
    Scalar(Cow<'t, str>, bool),
    Alias(&'t str),
    SequenceStart,
    MappingStart,
    /// Of a sequence or a mapping.
    End,
    DocumentEnd,
}

/// An event and what stands before it.
#[derive(Debug)]
pub(super) struct Parsed<'t> {
    pub(super) event: Event<'t>,
    /// The line that it begins in, counted from 0.
    pub(super) line: usize,
    pub(super) anchor: Option<&'t str>,
    /// The tag in full, or empty.
    pub(super) tag: Cow<'t, str>,
}

impl<'t> Parsed<'t> {
    fn bare(event: Event<'t>, line: usize) -> Self {
        Self { event, line, anchor: None, tag: Cow::Borrowed("") }
    }

    fn empty(line: usize) -> Self {
        Self::bare(Event::Scalar(Cow::Borrowed(""), true), line)
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    /// The root of a document that begins without `---`.
    BlockNode,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirstEntry,
    FlowSequenceEntry,
    /// A mapping of one pair in a sequence: `[a: b]`.
    PairKey,
    PairValue,
    PairEnd,
    FlowMappingFirstKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Flow,
    Block,
    /// In a mapping a sequence may be no further in than its key.
    BlockOrIndentlessSequence,
}

/// The tag handles that need no directive.
const DEFAULT_TAGS: [(&str, &str); 2] = [("!", "!"), ("!!", "tag:yaml.org,2002:")];

/// How many `%TAG` lines there may be, each of which is compared with all others. Upstream has no such bound.
const MOST_TAG_DIRECTIVES: usize = 1_000;

/// Makes events when they are asked for, of the first document alone.
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

    /// The next event; after the end of the document, and if there is none, its end.
    pub(super) fn next(&mut self) -> Result<Parsed<'t>, DecodeError> {
        match self.state {
            State::DocumentStart => self.document_start(),
            State::DocumentContent => match self.peek()? {
                Kind::Version(..)
                | Kind::TagDirective(..)
                | Kind::DocumentStart
                | Kind::DocumentEnd
                | Kind::StreamEnd => {
                    self.leave();
                    self.empty_here()
                }
                _ => self.node(Place::Block),
            },
            State::DocumentEnd => {
                let line = self.line()?;
                Ok(Parsed::bare(Event::DocumentEnd, line))
            }
            State::BlockNode => self.node(Place::Block),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirstEntry => self.flow_sequence_entry(true),
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::PairKey => self.pair_key(),
            State::PairValue => self.flow_value(&Kind::FlowSequenceEnd, State::PairEnd),
            State::PairEnd => {
                self.state = State::FlowSequenceEntry;
                Ok(Parsed::bare(Event::End, self.line()?))
            }
            State::FlowMappingFirstKey => self.flow_mapping_key(true),
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_value(&Kind::FlowMappingEnd, State::FlowMappingKey),
            State::FlowMappingEmptyValue => {
                self.state = State::FlowMappingKey;
                self.empty_here()
            }
        }
    }

    fn peek(&mut self) -> Result<&Kind<'t>, DecodeError> {
        self.scanner.peek().map(|token| &token.kind)
    }

    fn line(&mut self) -> Result<usize, DecodeError> {
        self.scanner.peek().map(|token| token.line)
    }

    /// Takes the token that was looked at, and returns its line.
    fn take(&mut self) -> usize {
        self.scanner.take().map_or(0, |token| token.line)
    }

    /// Back to where the innermost collection is in.
    fn leave(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    /// A node, behind which it goes on with a state.
    fn node_before(&mut self, state: State, place: Place) -> Result<Parsed<'t>, DecodeError> {
        self.states.push(state);
        self.node(place)
    }

    /// Nothing, where a node may be.
    fn empty_here(&mut self) -> Result<Parsed<'t>, DecodeError> {
        self.line().map(Parsed::empty)
    }

    fn fault<T>(&mut self, problem: &str) -> Result<T, DecodeError> {
        // Unlike the scanner's, these lines are told as they are counted, from 0.
        let line = self.line()?;
        Err(DecodeError::at_line(line, problem))
    }

    fn document_start(&mut self) -> Result<Parsed<'t>, DecodeError> {
        match self.peek()? {
            Kind::StreamEnd => {
                self.state = State::DocumentEnd;
                return Ok(Parsed::bare(Event::DocumentEnd, 0));
            }
            Kind::Version(..) | Kind::TagDirective(..) | Kind::DocumentStart => {
                self.directives()?;
                if *self.peek()? != Kind::DocumentStart {
                    return self.fault("did not find expected <document start>");
                }
                self.take();
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
                Kind::Version(..) if version => return self.fault("found duplicate %YAML directive"),
                Kind::Version(1, 1) => version = true,
                Kind::Version(..) => return self.fault("found incompatible YAML document"),
                Kind::TagDirective(handle, prefix) => {
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return self.fault("found duplicate %TAG directive");
                    }
                    if self.tags.len() >= MOST_TAG_DIRECTIVES {
                        return self.fault("found too many %TAG directives");
                    }
                    self.tags.push((handle, prefix));
                }
                _ => break,
            }
            self.take();
        }
        for (handle, prefix) in DEFAULT_TAGS {
            if !self.tags.iter().any(|(known, _)| *known == handle) {
                self.tags.push((handle, Cow::Borrowed(prefix)));
            }
        }
        Ok(())
    }

    fn node(&mut self, place: Place) -> Result<Parsed<'t>, DecodeError> {
        let line = self.line()?;
        if let Kind::Alias(name) = *self.peek()? {
            self.take();
            self.leave();
            return Ok(Parsed::bare(Event::Alias(name), line));
        }
        let (anchor, tag) = self.properties(line)?;
        let (event, enters) = match self.peek()?.clone() {
            Kind::BlockEntry if place == Place::BlockOrIndentlessSequence => {
                self.state = State::IndentlessSequenceEntry;
                return Ok(Parsed { event: Event::SequenceStart, line, anchor, tag });
            }
            Kind::Scalar { text, plain } => {
                let plain = if tag.is_empty() { plain } else { tag == "!" };
                (Event::Scalar(text, plain), None)
            }
            Kind::FlowSequenceStart => (Event::SequenceStart, Some(State::FlowSequenceFirstEntry)),
            Kind::FlowMappingStart => (Event::MappingStart, Some(State::FlowMappingFirstKey)),
            Kind::BlockSequenceStart if place != Place::Flow => (Event::SequenceStart, Some(State::BlockSequenceEntry)),
            Kind::BlockMappingStart if place != Place::Flow => (Event::MappingStart, Some(State::BlockMappingKey)),
            _ if anchor.is_some() || !tag.is_empty() => {
                self.leave();
                let plain = tag.is_empty();
                return Ok(Parsed { event: Event::Scalar(Cow::Borrowed(""), plain), line, anchor, tag });
            }
            _ => return self.fault("did not find expected node content"),
        };
        self.take();
        match enters {
            Some(state) => self.state = state,
            None => self.leave(),
        }
        Ok(Parsed { event, line, anchor, tag })
    }

    /// An anchor and a tag, in any order.
    fn properties(&mut self, line: usize) -> Result<(Option<&'t str>, Cow<'t, str>), DecodeError> {
        let mut anchor = None;
        let mut tag = None;
        let mut tag_line = line;
        loop {
            match self.peek()?.clone() {
                Kind::Anchor(name) if anchor.is_none() => anchor = Some(name),
                Kind::Tag(handle, suffix) if tag.is_none() => {
                    tag_line = self.line()?;
                    tag = Some((handle, suffix));
                }
                _ => break,
            }
            self.take();
        }
        let Some((handle, suffix)) = tag else { return Ok((anchor, Cow::Borrowed(""))) };
        if handle.is_empty() {
            return Ok((anchor, suffix));
        }
        let prefix = self.tags.iter().find(|(known, _)| *known == handle).map(|(_, prefix)| prefix);
        match prefix {
            Some(prefix) if !prefix.is_empty() || !suffix.is_empty() => {
                Ok((anchor, Cow::Owned(format!("{prefix}{suffix}"))))
            }
            _ => Err(DecodeError::at_line(if tag_line > 0 { tag_line } else { line }, "found undefined tag handle")),
        }
    }

    fn end(&mut self) -> Result<Parsed<'t>, DecodeError> {
        self.leave();
        let line = self.line()?;
        Ok(Parsed::bare(Event::End, line))
    }

    fn block_sequence_entry(&mut self) -> Result<Parsed<'t>, DecodeError> {
        match self.peek()? {
            Kind::BlockEntry => {
                let line = self.take();
                match self.peek()? {
                    Kind::BlockEntry | Kind::BlockEnd => Ok(Parsed::empty(line)),
                    _ => self.node_before(State::BlockSequenceEntry, Place::Block),
                }
            }
            Kind::BlockEnd => {
                let end = self.end();
                self.take();
                end
            }
            _ => self.fault("did not find expected '-' indicator"),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Result<Parsed<'t>, DecodeError> {
        if *self.peek()? != Kind::BlockEntry {
            return self.end();
        }
        let line = self.take();
        match self.peek()? {
            Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd => Ok(Parsed::empty(line)),
            _ => self.node_before(State::IndentlessSequenceEntry, Place::Block),
        }
    }

    fn block_mapping_key(&mut self) -> Result<Parsed<'t>, DecodeError> {
        match self.peek()? {
            Kind::Key => {
                let line = self.take();
                self.in_block_mapping(line, State::BlockMappingValue)
            }
            Kind::BlockEnd => {
                let end = self.end();
                self.take();
                end
            }
            _ => self.fault("did not find expected key"),
        }
    }

    fn block_mapping_value(&mut self) -> Result<Parsed<'t>, DecodeError> {
        if *self.peek()? != Kind::Value {
            self.state = State::BlockMappingKey;
            return self.empty_here();
        }
        let line = self.take();
        self.in_block_mapping(line, State::BlockMappingKey)
    }

    /// A key or a value, or nothing at a line, and after it a state.
    fn in_block_mapping(&mut self, line: usize, then: State) -> Result<Parsed<'t>, DecodeError> {
        match self.peek()? {
            Kind::Key | Kind::Value | Kind::BlockEnd => {
                self.state = then;
                Ok(Parsed::empty(line))
            }
            _ => self.node_before(then, Place::BlockOrIndentlessSequence),
        }
    }

    /// Goes behind the comma before an entry that is not the first. False at the end of the collection.
    fn next_entry(&mut self, first: bool, end: &Kind<'_>, problem: &str) -> Result<bool, DecodeError> {
        if self.peek()? == end {
            return Ok(false);
        }
        if first {
            return Ok(true);
        }
        if *self.peek()? != Kind::FlowEntry {
            return self.fault(problem);
        }
        self.take();
        Ok(self.peek()? != end)
    }

    fn flow_end(&mut self) -> Result<Parsed<'t>, DecodeError> {
        self.leave();
        let line = self.line()?;
        self.take();
        Ok(Parsed::bare(Event::End, line))
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Result<Parsed<'t>, DecodeError> {
        if !self.next_entry(first, &Kind::FlowSequenceEnd, "did not find expected ',' or ']'")? {
            return self.flow_end();
        }
        if *self.peek()? == Kind::Key {
            self.state = State::PairKey;
            let line = self.take();
            return Ok(Parsed::bare(Event::MappingStart, line));
        }
        self.node_before(State::FlowSequenceEntry, Place::Flow)
    }

    fn pair_key(&mut self) -> Result<Parsed<'t>, DecodeError> {
        match self.peek()? {
            Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd => {
                // As in libyaml, what ends the missing key is lost.
                let line = self.take();
                self.state = State::PairValue;
                Ok(Parsed::empty(line))
            }
            _ => self.node_before(State::PairValue, Place::Flow),
        }
    }

    /// The value of a pair, in a collection that ends so; after it a state.
    fn flow_value(&mut self, end: &Kind<'_>, then: State) -> Result<Parsed<'t>, DecodeError> {
        if *self.peek()? == Kind::Value {
            let line = self.take();
            let next = self.peek()?;
            if *next != Kind::FlowEntry && next != end {
                return self.node_before(then, Place::Flow);
            }
            if then == State::PairEnd {
                self.state = then;
                return Ok(Parsed::empty(line));
            }
        }
        self.state = then;
        self.empty_here()
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<Parsed<'t>, DecodeError> {
        if !self.next_entry(first, &Kind::FlowMappingEnd, "did not find expected ',' or '}'")? {
            return self.flow_end();
        }
        if *self.peek()? != Kind::Key {
            return self.node_before(State::FlowMappingEmptyValue, Place::Flow);
        }
        self.take();
        match self.peek()? {
            Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd => {
                self.state = State::FlowMappingValue;
                self.empty_here()
            }
            _ => self.node_before(State::FlowMappingValue, Place::Flow),
        }
    }
}
