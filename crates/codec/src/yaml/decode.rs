//! YAML to trees: the first document of a text, anchors and merge keys resolved, with bounds on what they may expand to.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use pintle_schema::base64;
use pintle_value::{Object, Str, Value};
use thiserror::Error;

use super::key::{Key, printed_value};
use super::parser::{Event, Parser};
use super::reader::{Cursor, Text};
use super::resolve::{Scalar, resolve_tagged};
use super::scanner::Scanner;
use crate::json::{self, MAX_DEPTH};

/// Why a text could not be read, in the words that a Go server gives.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl DecodeError {
    /// An error of the YAML library.
    pub(super) fn new(problem: impl std::fmt::Display) -> Self {
        Self(format!("yaml: {problem}"))
    }

    /// The same, with a line; line 0 is not told.
    pub(super) fn at_line(line: usize, problem: &str) -> Self {
        if line == 0 { Self::new(problem) } else { Self::new(format_args!("line {line}: {problem}")) }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The tree. Of duplicate keys the last wins.
    pub value: Value,
    /// What strict decoding says of duplicate keys, all in one message of many lines; `None` if there are none.
    pub strict: Option<String>,
}

/// How many bytes of text aliases may stand for. Upstream has no such bound.
const MAX_ALIASED_BYTES: usize = 32 << 20;

/// How many bytes may be told of duplicate keys. Upstream has no such bound.
const MAX_REPEATED_BYTES: usize = 1 << 20;

/// Reads the first document of a text. An empty text is null.
///
/// # Errors
/// If the text is not YAML, or holds what JSON cannot say (infinities, keys that are lists).
pub fn decode(text: &[u8]) -> Result<Decoded, DecodeError> {
    let text = Text::new(text);
    let nodes = parse(Parser::new(Scanner::new(Cursor::new(&text))))?;
    if nodes.is_empty() {
        return Ok(Decoded { value: Value::Null, strict: None });
    }
    let mut builder = Builder { nodes: &nodes, ..Builder::default() };
    let value = builder.value(0)?;
    // What JSON cannot say is found when the whole text has been read.
    if let Some(message) = builder.unsupported_key {
        return Err(DecodeError(message));
    }
    if let Some(name) = builder.infinite.then(|| infinite(&value)).flatten() {
        return Err(DecodeError(format!("json: unsupported value: {name}")));
    }
    let strict = (!builder.repeated.is_empty()).then(|| format!("yaml: unmarshal errors:{}", builder.repeated));
    Ok(Decoded { value, strict })
}

fn fail<T>(message: impl std::fmt::Display) -> Result<T, DecodeError> {
    Err(DecodeError::new(message))
}

/// A float as it is read from its JSON, where the shortest text of a large one may be that of another integer.
fn through_json(f: f64) -> Value {
    let read = json::decode(&json::encode(&Value::Float(f)), json::Options::default());
    read.map_or(Value::Float(f), |read| read.value)
}

/// Go's name of the first number in a tree that is none in JSON.
fn infinite(value: &Value) -> Option<&'static str> {
    match value {
        Value::Float(f) if f.is_nan() => Some("NaN"),
        Value::Float(f) if f.is_infinite() => Some(if *f > 0.0 { "+Inf" } else { "-Inf" }),
        Value::Array(items) => items.iter().find_map(infinite),
        Value::Object(object) => object.values().find_map(infinite),
        _ => None,
    }
}

/// A node of the document; the root is the first.
struct Node<'t> {
    /// Counted from 1.
    line: usize,
    content: Content<'t>,
}

enum Content<'t> {
    Scalar {
        tag: Cow<'t, str>,
        text: Cow<'t, str>,
        plain: bool,
    },
    Sequence(Vec<usize>),
    /// Keys and values in turn.
    Mapping(Vec<usize>),
    Alias {
        name: &'t str,
        target: usize,
    },
}

fn parse<'t>(mut parser: Parser<'t>) -> Result<Vec<Node<'t>>, DecodeError> {
    let mut nodes: Vec<Node<'t>> = Vec::new();
    let mut anchors: HashMap<&str, usize> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    loop {
        let parsed = parser.next()?;
        let content = match parsed.event {
            Event::DocumentEnd => return Ok(nodes),
            Event::End => {
                open.pop();
                continue;
            }
            Event::Alias(name) => match anchors.get(name) {
                Some(target) => Content::Alias { name, target: *target },
                None => return fail(format_args!("unknown anchor '{name}' referenced")),
            },
            Event::Scalar(text, plain) => Content::Scalar { tag: parsed.tag, text, plain },
            Event::SequenceStart => Content::Sequence(Vec::new()),
            Event::MappingStart => Content::Mapping(Vec::new()),
        };
        let node = nodes.len();
        let opens = matches!(content, Content::Sequence(_) | Content::Mapping(_));
        nodes.push(Node { line: parsed.line + 1, content });
        // An anchor is known inside of its own collection, where using it is an error that is found later.
        if let Some(anchor) = parsed.anchor {
            anchors.insert(anchor, node);
        }
        let parent = open.last().and_then(|parent| nodes.get_mut(*parent)).map(|n| &mut n.content);
        if let Some(Content::Sequence(children) | Content::Mapping(children)) = parent {
            children.push(node);
        }
        if opens {
            open.push(node);
        }
    }
}

/// The longest and shortest documents between which the part of aliases that is allowed shrinks.
const ALIAS_RANGE: (f64, f64) = (400_000.0, 4_000_000.0);

/// Makes values of nodes.
#[derive(Default)]
struct Builder<'n> {
    nodes: &'n [Node<'n>],
    /// What strict decoding says of keys that came before.
    repeated: String,
    /// How many nodes were made values of, and how many of these through an alias.
    decoded: u32,
    aliased: u32,
    /// The bytes of text that came through aliases.
    aliased_bytes: usize,
    /// The message for the first key that is no text in JSON.
    unsupported_key: Option<String>,
    /// There is a number that is none in JSON.
    infinite: bool,
    /// What is read goes into a message: keys are what Go prints of them, and may be anything that Go's maps may have.
    printing: bool,
    /// The aliases that are being followed.
    following: HashSet<usize>,
    depth: usize,
}

/// A mapping under construction. Keys are told apart by type as well as text.
#[derive(Default)]
struct Entries {
    entries: Vec<(Str, Value)>,
    seen: HashSet<(std::mem::Discriminant<Key>, Str)>,
}

impl Builder<'_> {
    fn value(&mut self, node: usize) -> Result<Value, DecodeError> {
        self.count()?;
        let Some(Node { content, .. }) = self.nodes.get(node) else { return Ok(Value::Null) };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail(format_args!("exceeded max depth of {MAX_DEPTH}"));
        }
        let value = match content {
            Content::Scalar { .. } => match self.scalar(node)? {
                (Scalar::Null, _) => Value::Null,
                (Scalar::Bool(b), _) => Value::Bool(b),
                (Scalar::Int(i), _) => Value::Int(i),
                #[allow(clippy::cast_precision_loss)] // as Go converts
                (Scalar::Uint(u), _) => Value::Float(u as f64),
                (Scalar::Float(f), _) if !f.is_finite() => {
                    self.infinite = true;
                    Value::Float(f)
                }
                (Scalar::Float(f), _) => through_json(f),
                (Scalar::Timestamp | Scalar::Text, text) => Value::String(text),
            },
            Content::Sequence(children) => {
                let mut items = Vec::with_capacity(children.len());
                for child in children {
                    items.push(self.value(*child)?);
                }
                Value::Array(items)
            }
            Content::Mapping(_) => {
                let mut entries = Entries::default();
                self.mapping(node, &mut entries)?;
                Value::Object(Object::from_entries(entries.entries))
            }
            Content::Alias { target, .. } => {
                self.follow(node)?;
                let value = self.value(*target)?;
                self.following.remove(&node);
                value
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Keeps the work that aliases cause in proportion, with goyaml's ratios.
    fn count(&mut self) -> Result<(), DecodeError> {
        self.decoded += 1;
        self.aliased += u32::from(!self.following.is_empty());
        let (low, high) = ALIAS_RANGE;
        let decoded = f64::from(self.decoded);
        let allowed = 0.99 - 0.89 * ((decoded.clamp(low, high) - low) / (high - low));
        if self.aliased > 100 && self.decoded > 1000 && f64::from(self.aliased) / decoded > allowed {
            return fail("document contains excessive aliasing");
        }
        Ok(())
    }

    fn follow(&mut self, alias: usize) -> Result<(), DecodeError> {
        match self.nodes.get(alias).map(|n| &n.content) {
            Some(Content::Alias { name, .. }) if !self.following.insert(alias) => {
                fail(format_args!("anchor '{name}' value contains itself"))
            }
            _ => Ok(()),
        }
    }

    /// What a scalar means, and its text.
    fn scalar(&mut self, node: usize) -> Result<(Scalar, Str), DecodeError> {
        let Some(Node { content: Content::Scalar { tag, text, plain }, .. }) = self.nodes.get(node) else {
            return Ok((Scalar::Null, Str::default()));
        };
        if !self.following.is_empty() {
            self.aliased_bytes += text.len();
            if self.aliased_bytes > MAX_ALIASED_BYTES {
                return fail("document contains excessive aliasing");
            }
        }
        if tag.is_empty() && !plain {
            return Ok((Scalar::Text, Str::from(text.as_ref())));
        }
        if tag == "tag:yaml.org,2002:binary" {
            let Ok(bytes) = base64::decode(text.as_bytes()) else {
                return fail("!!binary value contains invalid base64 data");
            };
            return Ok((Scalar::Text, crate::go::utf8(&bytes)));
        }
        let scalar = resolve_tagged(tag, text).or_else(fail)?;
        Ok((scalar, Str::from(text.as_ref())))
    }

    fn mapping(&mut self, node: usize, entries: &mut Entries) -> Result<(), DecodeError> {
        let Some(Node { content: Content::Mapping(children), .. }) = self.nodes.get(node) else { return Ok(()) };
        for pair in children.chunks_exact(2) {
            let (key_node, value_node) = (pair[0], pair[1]);
            if self.is_merge(key_node) {
                self.merge(value_node, entries)?;
                continue;
            }
            let key = self.key(key_node)?;
            let value = self.value(value_node)?;
            if self.printing {
                entries.entries.push((key.in_message(), value));
                continue;
            }
            let Some(text) = key.text() else {
                if self.unsupported_key.is_none() {
                    self.unsupported_key = Some(key.unsupported(&self.printed(value_node)?));
                }
                continue;
            };
            let is_new = entries.seen.insert((std::mem::discriminant(&key), text.clone())) || key.is_nan();
            if !is_new && self.repeated.len() < MAX_REPEATED_BYTES {
                let line = self.nodes.get(value_node).map_or(0, |n| n.line);
                // Writing to a string cannot fail.
                let _ = write!(self.repeated, "\n  line {line}: key {} already set in map", key.printed());
            }
            entries.entries.push((text, value));
        }
        Ok(())
    }

    fn is_merge(&self, node: usize) -> bool {
        let content = self.nodes.get(node).map(|n| &n.content);
        matches!(content, Some(Content::Scalar { tag, text, plain })
            if text == "<<" && (*plain || tag == "tag:yaml.org,2002:merge"))
    }

    /// A value in a message.
    fn printed(&mut self, node: usize) -> Result<String, DecodeError> {
        let before = std::mem::replace(&mut self.printing, true);
        let value = self.value(node);
        self.printing = before;
        value.map(|value| printed_value(&value))
    }

    fn key(&mut self, node: usize) -> Result<Key, DecodeError> {
        self.count()?;
        if let Some(Node { content: Content::Alias { target, .. }, .. }) = self.nodes.get(node) {
            let target = *target;
            self.follow(node)?;
            let key = self.key(target);
            self.following.remove(&node);
            return key;
        }
        if !matches!(self.nodes.get(node), Some(Node { content: Content::Scalar { .. }, .. })) {
            let key = self.printed(node)?;
            return fail(format_args!("invalid map key: {key}"));
        }
        let (scalar, text) = self.scalar(node)?;
        Ok(Key::new(&scalar, text))
    }

    /// Puts what a merge key refers to into a mapping. As in goyaml, a merge overrides what stands before it.
    fn merge(&mut self, node: usize, entries: &mut Entries) -> Result<(), DecodeError> {
        match self.nodes.get(node).map(|n| &n.content) {
            Some(Content::Sequence(children)) => {
                // Of several the first takes precedence, so it comes last.
                for child in children.iter().rev() {
                    self.merge_one(*child, entries)?;
                }
                Ok(())
            }
            _ => self.merge_one(node, entries),
        }
    }

    fn merge_one(&mut self, node: usize, entries: &mut Entries) -> Result<(), DecodeError> {
        self.count()?;
        self.depth += 1;
        let content = |node: usize| self.nodes.get(node).map(|n| &n.content);
        let result = match content(node) {
            _ if self.depth > MAX_DEPTH => fail(format_args!("exceeded max depth of {MAX_DEPTH}")),
            Some(Content::Mapping(_)) => self.mapping(node, entries),
            Some(Content::Alias { target, .. }) if matches!(content(*target), Some(Content::Mapping(_))) => {
                let target = *target;
                self.follow(node)?;
                self.count()?;
                let result = self.mapping(target, entries);
                self.following.remove(&node);
                result
            }
            _ => fail("map merge requires map or sequence of maps as the value"),
        };
        self.depth -= 1;
        result
    }
}
