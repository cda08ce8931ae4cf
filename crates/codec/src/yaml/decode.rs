//! Decodes YAML to trees: the first document of a text, with anchors and merge keys resolved and with limits on their
//! expansion.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use pintle_budget as budget;
use pintle_schema::base64;
use pintle_value::{MEMBER_BYTES, Object, Str, Value};
use thiserror::Error;

use super::key::{MappingKey, go_syntax_of_value};
use super::parser::{Event, Parser};
use super::reader::{Cursor, InputText, is_allowed_char};
use super::resolve::{Scalar, resolve_tagged};
use super::scanner::Scanner;
use crate::json::{self, MAX_DEPTH};

/// Why a text could not be decoded. The message is the Go libraries'.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl DecodeError {
    /// An error of the YAML library.
    pub(super) fn new(problem: impl std::fmt::Display) -> Self {
        Self(format!("yaml: {problem}"))
    }

    /// The same with a line number. Line 0 is omitted.
    pub(super) fn at_line(line: usize, problem: &str) -> Self {
        if line == 0 { Self::new(problem) } else { Self::new(format_args!("line {line}: {problem}")) }
    }
}

/// The result of [`decode`].
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The decoded tree. The last of duplicate keys wins.
    pub value: Value,
    /// The strict decoding error for duplicate keys: one message with a line per key. `None` if there are none.
    pub strict_error: Option<String>,
}

/// Maximum number of text bytes that aliases may expand to. Upstream has no such limit.
const MAX_ALIASED_BYTES: usize = 32 << 20;

/// Maximum length in bytes of the message about duplicate keys. Upstream has no such limit.
const MAX_DUPLICATE_KEYS_BYTES: usize = 1 << 20;

/// Decodes the first document of a text. An empty text is null.
///
/// # Errors
/// Returns an error if the text is not YAML, or if it has values that JSON cannot express (infinities, keys that are
/// lists).
pub fn decode(text: &[u8]) -> Result<Decoded, DecodeError> {
    let text = InputText::new(text);
    let before = budget::mark();
    let nodes = parse(Parser::new(Scanner::new(Cursor::new(&text))))?;
    if nodes.is_empty() {
        return Ok(Decoded { value: Value::Null, strict_error: None });
    }
    let mut builder = ValueBuilder { nodes: &nodes, ..ValueBuilder::default() };
    let value = builder.value(0)?;
    // Upstream finds values that JSON cannot express only after the whole text has been read.
    if let Some(message) = builder.unsupported_key {
        return Err(DecodeError(message));
    }
    if let Some(name) = builder.non_finite.then(|| non_finite(&value)).flatten() {
        return Err(DecodeError(format!("json: unsupported value: {name}")));
    }
    // The nodes are dropped before the tree is used.
    before.release_all_but(before.charged().saturating_sub(nodes.len() * NODE_BYTES));
    let strict_error =
        (!builder.duplicate_keys.is_empty()).then(|| format!("yaml: unmarshal errors:{}", builder.duplicate_keys));
    Ok(Decoded { value, strict_error })
}

/// The memory of a node, with its number in its parent.
const NODE_BYTES: usize = size_of::<Node<'_>>() + size_of::<usize>();

/// Charges a part of the nodes or of the tree.
fn charge(bytes: usize) -> Result<(), DecodeError> {
    budget::charge(bytes).map_err(DecodeError::new)
}

fn fail<T>(message: impl std::fmt::Display) -> Result<T, DecodeError> {
    Err(DecodeError::new(message))
}

/// Returns the value that a float has after it is encoded to JSON and decoded. The shortest text of a large float may
/// denote another integer.
fn json_round_trip(f: f64) -> Value {
    let read = json::decode(&json::encode(&Value::Float(f)), json::DecodeOptions::default());
    read.map_or(Value::Float(f), |read| read.value)
}

/// True if a text that is valid JSON is YAML with the same value, except for numbers. It is false if anything precedes
/// the object, or if the text has any of these:
///
/// - characters that YAML does not allow, or takes for line breaks
/// - escapes that YAML does not have, or reads otherwise
/// - names that are too long, or have a line break before their colon
#[must_use]
pub fn may_be_json(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\t' | b' '..=b'~');
    // Each block is examined completely, so that the compiler vectorizes the loop.
    let is_plain_block = |block: &[u8; 32]| block.iter().fold(true, |plain, byte| plain & is_plain(byte));
    let (blocks, rest) = text.as_chunks();
    let is_other_break = |c: char| matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
    let is_allowed =
        || std::str::from_utf8(text).is_ok_and(|text| text.chars().all(|c| is_allowed_char(c) && !is_other_break(c)));
    text.first() == Some(&b'{')
        && (blocks.iter().all(is_plain_block) && rest.iter().all(is_plain) || is_allowed())
        && strings_are_alike(text)
}

/// Checks that YAML reads the strings of a JSON text as JSON does.
fn strings_are_alike(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(start) = memchr::memchr(b'"', rest) {
        rest = &rest[start + 1..];
        let mut length = 0;
        loop {
            // Malformed JSON is left to the decoder.
            let Some(at) = memchr::memchr2(b'"', b'\\', &rest[length..]) else { return true };
            length += at;
            if rest[length] == b'"' {
                break;
            }
            let is_other_escape = match rest.get(length + 1) {
                Some(b'/') => true,
                Some(b'u') => matches!(
                    rest.get(length + 2..length + 4),
                    Some([b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F'])
                ),
                _ => false,
            };
            if is_other_escape {
                return false;
            }
            length += 2;
            if length >= rest.len() {
                return true;
            }
        }
        rest = &rest[length + 1..];
        let white = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let is_name = rest.get(white) == Some(&b':');
        if is_name && (length > MAX_NAME || rest[..white].contains(&b'\n') || rest[..white].contains(&b'\r')) {
            return false;
        }
    }
    true
}

/// The maximum length of a member's name that YAML recognizes, in bytes.
const MAX_NAME: usize = 1000;

/// Gives the numbers of a tree from JSON the form that decoding the text as YAML gives.
pub fn convert_json_numbers(value: &mut Value) {
    match value {
        Value::Float(f) => *value = json_round_trip(*f),
        Value::Array(items) => items.iter_mut().for_each(convert_json_numbers),
        Value::Object(object) => object.iter_mut().for_each(|(_, value)| convert_json_numbers(value)),
        _ => {}
    }
}

/// Go's name of the first number in a tree that JSON cannot express.
fn non_finite(value: &Value) -> Option<&'static str> {
    match value {
        Value::Float(f) if f.is_nan() => Some("NaN"),
        Value::Float(f) if f.is_infinite() => Some(if *f > 0.0 { "+Inf" } else { "-Inf" }),
        Value::Array(items) => items.iter().find_map(non_finite),
        Value::Object(object) => object.values().find_map(non_finite),
        _ => None,
    }
}

/// A node of the document. The root is the first node.
struct Node<'t> {
    /// The line number, counted from 1.
    line: usize,
    content: NodeContent<'t>,
}

enum NodeContent<'t> {
    Scalar {
        tag: Cow<'t, str>,
        text: Cow<'t, str>,
        plain: bool,
    },
    Sequence(Vec<usize>),
    /// Keys and values alternate.
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
                Some(target) => NodeContent::Alias { name, target: *target },
                None => return fail(format_args!("unknown anchor '{name}' referenced")),
            },
            Event::Scalar(text, plain) => NodeContent::Scalar { tag: parsed.tag, text, plain },
            Event::SequenceStart => NodeContent::Sequence(Vec::new()),
            Event::MappingStart => NodeContent::Mapping(Vec::new()),
        };
        let node = nodes.len();
        let opens = matches!(content, NodeContent::Sequence(_) | NodeContent::Mapping(_));
        nodes.push(Node { line: parsed.line + 1, content });
        charge(NODE_BYTES)?;
        // An anchor is visible inside its own collection. Using it there is an error that is found later.
        if let Some(anchor) = parsed.anchor {
            anchors.insert(anchor, node);
        }
        let parent = open.last().and_then(|parent| nodes.get_mut(*parent)).map(|n| &mut n.content);
        if let Some(NodeContent::Sequence(children) | NodeContent::Mapping(children)) = parent {
            children.push(node);
        }
        if opens {
            open.push(node);
        }
    }
}

/// The document sizes, in decoded nodes, between which the allowed ratio of aliased nodes shrinks
/// (`alias_ratio_range_low` and `alias_ratio_range_high` of goyaml).
const ALIAS_RANGE: (f64, f64) = (400_000.0, 4_000_000.0);

/// Builds values from nodes.
#[derive(Default)]
struct ValueBuilder<'n> {
    nodes: &'n [Node<'n>],
    /// The strict decoding errors for duplicate keys.
    duplicate_keys: String,
    /// The number of decoded nodes, and how many of them were decoded through an alias.
    decoded: u32,
    aliased: u32,
    /// The number of text bytes that were decoded through aliases.
    aliased_bytes: usize,
    /// The message for the first key that JSON cannot express.
    unsupported_key: Option<String>,
    /// Whether the tree has a number that JSON cannot express.
    non_finite: bool,
    /// Whether the value is built for an error message. Then keys are printed as Go prints them and may be of any type
    /// that Go's map keys may have.
    for_message: bool,
    /// The aliases that are being expanded.
    expanding: HashSet<usize>,
    depth: usize,
}

/// A mapping under construction. Keys of different types are distinct even if their texts are equal.
#[derive(Default)]
struct MappingEntries {
    entries: Vec<(Str, Value)>,
    seen: HashSet<(std::mem::Discriminant<MappingKey>, Str)>,
}

impl ValueBuilder<'_> {
    fn value(&mut self, node: usize) -> Result<Value, DecodeError> {
        self.count_node()?;
        let Some(Node { content, .. }) = self.nodes.get(node) else { return Ok(Value::Null) };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail(format_args!("exceeded max depth of {MAX_DEPTH}"));
        }
        let value = match content {
            NodeContent::Scalar { .. } => match self.scalar(node)? {
                (Scalar::Null, _) => Value::Null,
                (Scalar::Bool(b), _) => Value::Bool(b),
                (Scalar::Int(i), _) => Value::Int(i),
                #[allow(clippy::cast_precision_loss)] // as Go converts
                (Scalar::Uint(u), _) => Value::Float(u as f64),
                (Scalar::Float(f), _) if !f.is_finite() => {
                    self.non_finite = true;
                    Value::Float(f)
                }
                (Scalar::Float(f), _) => json_round_trip(f),
                (Scalar::Timestamp | Scalar::Text, text) => Value::String(text),
            },
            NodeContent::Sequence(children) => {
                let mut items = Vec::with_capacity(children.len());
                for child in children {
                    items.push(self.value(*child)?);
                    charge(size_of::<Value>())?;
                }
                Value::Array(items)
            }
            NodeContent::Mapping(_) => {
                let mut entries = MappingEntries::default();
                self.mapping(node, &mut entries)?;
                charge(entries.entries.len() * MEMBER_BYTES)?;
                Value::Object(Object::from_entries(entries.entries))
            }
            NodeContent::Alias { target, .. } => {
                self.start_alias(node)?;
                let value = self.value(*target)?;
                self.expanding.remove(&node);
                value
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Limits the share of aliased nodes, with goyaml's ratios.
    fn count_node(&mut self) -> Result<(), DecodeError> {
        self.decoded += 1;
        self.aliased += u32::from(!self.expanding.is_empty());
        let (low, high) = ALIAS_RANGE;
        let decoded = f64::from(self.decoded);
        let allowed = 0.99 - 0.89 * ((decoded.clamp(low, high) - low) / (high - low));
        if self.aliased > 100 && self.decoded > 1000 && f64::from(self.aliased) / decoded > allowed {
            return fail("document contains excessive aliasing");
        }
        Ok(())
    }

    fn start_alias(&mut self, alias: usize) -> Result<(), DecodeError> {
        match self.nodes.get(alias).map(|n| &n.content) {
            Some(NodeContent::Alias { name, .. }) if !self.expanding.insert(alias) => {
                fail(format_args!("anchor '{name}' value contains itself"))
            }
            _ => Ok(()),
        }
    }

    /// The resolved value of a scalar, and its text.
    fn scalar(&mut self, node: usize) -> Result<(Scalar, Str), DecodeError> {
        let Some(Node { content: NodeContent::Scalar { tag, text, plain }, .. }) = self.nodes.get(node) else {
            return Ok((Scalar::Null, Str::default()));
        };
        if !self.expanding.is_empty() {
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

    fn mapping(&mut self, node: usize, entries: &mut MappingEntries) -> Result<(), DecodeError> {
        let Some(Node { content: NodeContent::Mapping(children), .. }) = self.nodes.get(node) else { return Ok(()) };
        for pair in children.chunks_exact(2) {
            let (key_node, value_node) = (pair[0], pair[1]);
            if self.is_merge(key_node) {
                self.merge(value_node, entries)?;
                continue;
            }
            let key = self.key(key_node)?;
            let value = self.value(value_node)?;
            if self.for_message {
                entries.entries.push((key.message_key(), value));
                continue;
            }
            let Some(text) = key.text() else {
                if self.unsupported_key.is_none() {
                    self.unsupported_key = Some(key.unsupported_message(&self.print(value_node)?));
                }
                continue;
            };
            let is_new = entries.seen.insert((std::mem::discriminant(&key), text.clone())) || key.is_nan();
            if !is_new && self.duplicate_keys.len() < MAX_DUPLICATE_KEYS_BYTES {
                let line = self.nodes.get(value_node).map_or(0, |n| n.line);
                // Writing to a string cannot fail.
                let _ = write!(self.duplicate_keys, "\n  line {line}: key {} already set in map", key.go_syntax());
            }
            entries.entries.push((text, value));
        }
        Ok(())
    }

    fn is_merge(&self, node: usize) -> bool {
        let content = self.nodes.get(node).map(|n| &n.content);
        matches!(content, Some(NodeContent::Scalar { tag, text, plain })
            if text == "<<" && (*plain || tag == "tag:yaml.org,2002:merge"))
    }

    /// Prints a value for an error message.
    fn print(&mut self, node: usize) -> Result<String, DecodeError> {
        let before = std::mem::replace(&mut self.for_message, true);
        let value = self.value(node);
        self.for_message = before;
        value.map(|value| go_syntax_of_value(&value))
    }

    fn key(&mut self, node: usize) -> Result<MappingKey, DecodeError> {
        self.count_node()?;
        if let Some(Node { content: NodeContent::Alias { target, .. }, .. }) = self.nodes.get(node) {
            let target = *target;
            self.start_alias(node)?;
            let key = self.key(target);
            self.expanding.remove(&node);
            return key;
        }
        if !matches!(self.nodes.get(node), Some(Node { content: NodeContent::Scalar { .. }, .. })) {
            let key = self.print(node)?;
            return fail(format_args!("invalid map key: {key}"));
        }
        let (scalar, text) = self.scalar(node)?;
        Ok(MappingKey::new(&scalar, text))
    }

    /// Adds the entries that a merge key refers to. As in goyaml, a merge overrides the entries before it.
    fn merge(&mut self, node: usize, entries: &mut MappingEntries) -> Result<(), DecodeError> {
        match self.nodes.get(node).map(|n| &n.content) {
            Some(NodeContent::Sequence(children)) => {
                // The first of several mappings takes precedence, so it is merged last.
                for child in children.iter().rev() {
                    self.merge_one(*child, entries)?;
                }
                Ok(())
            }
            _ => self.merge_one(node, entries),
        }
    }

    fn merge_one(&mut self, node: usize, entries: &mut MappingEntries) -> Result<(), DecodeError> {
        self.count_node()?;
        self.depth += 1;
        let content = |node: usize| self.nodes.get(node).map(|n| &n.content);
        let result = match content(node) {
            _ if self.depth > MAX_DEPTH => fail(format_args!("exceeded max depth of {MAX_DEPTH}")),
            Some(NodeContent::Mapping(_)) => self.mapping(node, entries),
            Some(NodeContent::Alias { target, .. }) if matches!(content(*target), Some(NodeContent::Mapping(_))) => {
                let target = *target;
                self.start_alias(node)?;
                self.count_node()?;
                let result = self.mapping(target, entries);
                self.expanding.remove(&node);
                result
            }
            _ => fail("map merge requires map or sequence of maps as the value"),
        };
        self.depth -= 1;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_yaml_unless_yaml_reads_it_otherwise() {
        let long = format!("{{\"{}\": 1}}", "x".repeat(1100));
        for (text, expect) in [
            (r#"{"a": "b\n\u00e9\\/", "c": ["d"]}"#, true),
            ("{\n\t\"a\" : 1}", true),
            (" {}", false),
            ("[]", false),
            (r#"{"a": "\/"}"#, false),
            (r#"{"a": "\ud83d\ude00"}"#, false),
            ("{\"a\": \"\u{7f}\"}", false),
            ("{\"a\": \"\u{2028}\"}", false),
            ("{\"a\": \"\u{85}\"}", false),
            ("{\"a\"\n: 1}", false),
            (&*long, false),
        ] {
            assert_eq!(may_be_json(text.as_bytes()), expect, "{text}");
            let json = json::decode(text.as_bytes(), json::DecodeOptions::default()).expect("JSON").value;
            if expect {
                assert_eq!(decode(text.as_bytes()).expect("YAML").value, json, "{text}");
            }
        }
    }
}
