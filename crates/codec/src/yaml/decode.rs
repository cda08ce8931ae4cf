//! YAML to trees: the first document of a text, anchors and merge keys resolved, with bounds on what they may expand to.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use pintle_schema::{base64, leaf};
use pintle_value::{Object, Str, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use thiserror::Error;

use super::number::{format_g, format_g32};
use super::resolve::{Scalar, resolve_tagged};
use crate::json::MAX_DEPTH;

/// Why a text could not be read, in the words that a Go server gives.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DecodeError(String);

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

/// How many duplicate keys are told. (goyaml tells all.)
const MOST_REPEATED: usize = 100;

/// How many `%TAG` lines there may be, each of which is compared with all others.
const MAX_TAG_DIRECTIVES: usize = 1_000;

/// Reads the first document of a text. An empty text is null.
///
/// # Errors
/// If the text is not YAML, or holds what JSON cannot say (infinities, keys that are lists).
pub fn decode(text: &[u8]) -> Result<Decoded, DecodeError> {
    let text = to_utf8(text)?;
    let nodes = parse(&text)?;
    if nodes.is_empty() {
        return Ok(Decoded { value: Value::Null, strict: None });
    }
    let mut builder = Builder { text: &text, nodes: &nodes, ..Builder::default() };
    let value = builder.value(0)?;
    let strict =
        (!builder.repeated.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", builder.repeated.join("\n  ")));
    Ok(Decoded { value, strict })
}

fn fail<T>(message: impl std::fmt::Display) -> Result<T, DecodeError> {
    Err(DecodeError(format!("yaml: {message}")))
}

/// A node of the document; the root is the first.
struct Node {
    /// Counted from 1.
    line: usize,
    content: Content,
}

enum Content {
    Scalar {
        tag: String,
        text: String,
        plain: bool,
    },
    Sequence(Vec<usize>),
    /// Keys and values in turn.
    Mapping(Vec<usize>),
    /// `at` counts characters.
    Alias {
        at: usize,
        target: usize,
    },
}

fn parse(text: &str) -> Result<Vec<Node>, DecodeError> {
    if text.lines().filter(|line| line.starts_with("%TAG")).nth(MAX_TAG_DIRECTIVES).is_some() {
        return fail("too many %TAG directives");
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut anchors: HashMap<usize, usize> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| in_gos_words(&e, text))?;
        let line = span.start.line();
        let (anchor, content) = match event {
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
            // Only the first document is read.
            Event::StreamEnd | Event::DocumentEnd => break,
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                continue;
            }
            Event::Alias(anchor) => {
                let target = anchors.get(&anchor).copied().unwrap_or(usize::MAX);
                (0, Content::Alias { at: span.start.index(), target })
            }
            Event::Scalar(value, style, anchor, tag) => {
                let tag = tag.map_or_else(String::new, |t| format!("{}{}", t.handle, t.suffix));
                let plain = style == ScalarStyle::Plain && tag != "!";
                (anchor, Content::Scalar { tag, text: value.into_owned(), plain })
            }
            Event::SequenceStart(anchor, _) => (anchor, Content::Sequence(Vec::new())),
            Event::MappingStart(anchor, _) => (anchor, Content::Mapping(Vec::new())),
        };
        let node = nodes.len();
        let opens = matches!(content, Content::Sequence(_) | Content::Mapping(_));
        nodes.push(Node { line, content });
        // An anchor is known inside of its own collection, where using it is an error that is found later.
        if anchor > 0 {
            anchors.insert(anchor, node);
        }
        let parent = open.last().and_then(|parent| nodes.get_mut(*parent)).map(|n| &mut n.content);
        if let Some(Content::Sequence(children) | Content::Mapping(children)) = parent {
            children.push(node);
        }
        if opens {
            open.push(node);
            if open.len() > MAX_DEPTH {
                return fail(format_args!("line {line}: exceeded max depth of {MAX_DEPTH}"));
            }
        }
    }
    Ok(nodes)
}

/// The text as UTF-8. UTF-16 is known by its byte order mark.
fn to_utf8(text: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
    let unit: fn([u8; 2]) -> u16 = match text {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return utf8(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)).map(Cow::Borrowed),
    };
    let (pairs, rest) = text[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return fail("incomplete UTF-16 character");
    }
    let decoded: Result<String, _> = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect();
    decoded.map(Cow::Owned).or_else(|_| fail("unexpected low surrogate area"))
}

/// Finds bytes that are not UTF-8 and characters that YAML does not allow; goyaml's reader has words for both.
fn utf8(text: &[u8]) -> Result<&str, DecodeError> {
    match std::str::from_utf8(text) {
        Ok(text) => {
            let control = |c: char| {
                matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{84}')
                    || matches!(c, '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
            };
            if text.contains(control) { fail("control characters are not allowed") } else { Ok(text) }
        }
        Err(error) if error.error_len().is_none() => fail("incomplete UTF-8 octet sequence"),
        Err(error) => match text.get(error.valid_up_to()) {
            Some(0xc2..=0xf4) => fail("invalid trailing UTF-8 octet"),
            _ => fail("invalid leading UTF-8 octet"),
        },
    }
}

/// The parser's message in goyaml's words, as far as both have the same kind of error.
fn in_gos_words(error: &ScanError, text: &str) -> DecodeError {
    let info = error.info();
    // goyaml says what it found and not what it was doing.
    let problem = match info.strip_prefix("while ").and_then(|rest| rest.split_once(", ")) {
        Some((_, problem)) => problem,
        None => info,
    };
    // goyaml's lines are counted from 0, except for what its scanner finds, and line 0 is not named.
    let line = error.marker().line().saturating_sub(1);
    let by_parser = (info.contains("did not find expected ") && !info.contains(" a tag") && !info.contains("scalar"))
        || info.contains("expected ',' or ']'")
        || info == "misplaced bracket";
    let line = if line > 0 && !by_parser { line + 1 } else { line };
    let problem = match problem {
        "expected ',' or ']'" => "did not find expected ',' or ']'",
        "misplaced bracket" => "did not find expected node content",
        "simple key expect ':'" | "simple key expected" => "could not find expected ':'",
        "found unknown anchor" => {
            let name = name_at(text, error.marker().index());
            return DecodeError(format!("yaml: unknown anchor '{name}' referenced"));
        }
        "recursion limit exceeded" => "exceeded max depth of 10000",
        _ if problem.starts_with("unexpected character") => "found character that cannot start any token",
        _ if problem.starts_with("tab") => "found character that cannot start any token",
        other => other,
    };
    let place = if line > 0 { format!("line {line}: ") } else { String::new() };
    DecodeError(format!("yaml: {place}{problem}"))
}

/// The name of the alias at a position that counts characters.
fn name_at(text: &str, at: usize) -> String {
    text.chars().skip(at + 1).take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-')).collect()
}

/// The longest and shortest documents between which the part of aliases that is allowed shrinks.
const ALIAS_RANGE: (f64, f64) = (400_000.0, 4_000_000.0);

/// Makes values of nodes.
#[derive(Default)]
struct Builder<'n> {
    text: &'n str,
    nodes: &'n [Node],
    /// What strict decoding says of keys that came before.
    repeated: Vec<String>,
    /// How many nodes were made values of, and how many of these through an alias.
    decoded: u32,
    aliased: u32,
    /// The bytes of text that came through aliases.
    aliased_bytes: usize,
    /// The aliases that are being followed.
    following: HashSet<usize>,
    depth: usize,
}

/// A mapping under construction. Keys are told apart by type as well as text.
#[derive(Default)]
struct Entries {
    entries: Vec<(Str, Value)>,
    seen: HashSet<(&'static str, Str)>,
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
                    let name = if f.is_nan() {
                        "NaN"
                    } else if f > 0.0 {
                        "+Inf"
                    } else {
                        "-Inf"
                    };
                    return Err(DecodeError(format!("json: unsupported value: {name}")));
                }
                (Scalar::Float(f), _) => leaf::float_value(f),
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
            Some(Content::Alias { at, .. }) if !self.following.insert(alias) => {
                fail(format_args!("anchor '{}' value contains itself", name_at(self.text, *at)))
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
            return Ok((Scalar::Text, Str::from(text)));
        }
        if tag == "tag:yaml.org,2002:binary" {
            let Ok(bytes) = base64::decode(text.as_bytes()) else {
                return fail("!!binary value contains invalid base64 data");
            };
            return Ok((Scalar::Text, Str::from_utf8_lossy(&bytes)));
        }
        let scalar = resolve_tagged(tag, text).or_else(fail)?;
        Ok((scalar, Str::from(text)))
    }

    fn mapping(&mut self, node: usize, entries: &mut Entries) -> Result<(), DecodeError> {
        let Some(Node { content: Content::Mapping(children), .. }) = self.nodes.get(node) else { return Ok(()) };
        for pair in children.chunks_exact(2) {
            let (key_node, value_node) = (pair[0], pair[1]);
            if self.is_merge(key_node) {
                self.merge(value_node, entries)?;
                continue;
            }
            let (kind, key, printed) = self.key(key_node)?;
            let value = self.value(value_node)?;
            if kind == "unsupported" {
                let text = format!("unsupported map key of type: {printed}, value: {}", printed_value(&value));
                return Err(DecodeError(text));
            }
            if !entries.seen.insert((kind, key.clone())) && self.repeated.len() < MOST_REPEATED {
                let line = self.nodes.get(value_node).map_or(0, |n| n.line);
                self.repeated.push(format!("line {line}: key {printed} already set in map"));
            }
            entries.entries.push((key, value));
        }
        Ok(())
    }

    fn is_merge(&self, node: usize) -> bool {
        let content = self.nodes.get(node).map(|n| &n.content);
        matches!(content, Some(Content::Scalar { tag, text, plain })
            if text == "<<" && (*plain || tag == "tag:yaml.org,2002:merge"))
    }

    /// A key as its type, its text, and as Go prints it in messages.
    fn key(&mut self, node: usize) -> Result<(&'static str, Str, String), DecodeError> {
        self.count()?;
        if let Some(Node { content: Content::Alias { target, .. }, .. }) = self.nodes.get(node) {
            let target = *target;
            self.follow(node)?;
            let key = self.key(target);
            self.following.remove(&node);
            return key;
        }
        if !matches!(self.nodes.get(node), Some(Node { content: Content::Scalar { .. }, .. })) {
            let key = self.value(node)?;
            return fail(format_args!("invalid map key: {}", printed_value(&key)));
        }
        Ok(match self.scalar(node)? {
            (Scalar::Int(i), _) => ("int", Str::from(i.to_string()), i.to_string()),
            (Scalar::Bool(b), _) => ("bool", Str::from(b.to_string()), b.to_string()),
            (Scalar::Float(f), _) => ("float64", Str::from(format_g32(f)), format_g32(f)),
            (Scalar::Uint(u), _) => ("unsupported", Str::default(), format!("uint64, key: {u:#x}")),
            (Scalar::Null, _) => ("unsupported", Str::default(), "%!s(<nil>), key: <nil>".to_owned()),
            (Scalar::Text | Scalar::Timestamp, text) => {
                let printed = crate::go::quote(&text);
                ("string", text, printed)
            }
        })
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

/// A value in a message, as Go's `%#v` prints it.
fn printed_value(value: &Value) -> String {
    let inner = |value: &Value| match value {
        Value::Null => "interface {}(nil)".to_owned(),
        other => printed_value(other),
    };
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => format_g(*f),
        Value::String(text) => crate::go::quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(inner).collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => {
            let entries = object.iter().map(|(k, v)| format!("{}:{}", crate::go::quote(k), inner(v)));
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}
