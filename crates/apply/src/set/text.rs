//! The text of field sets in objects. Most field sets are only copied, so they are kept as text ([`EncodedObject`]).
//! A set whose keys need unusual escapes is kept as a tree, because encoders differ in how they write these.

use std::borrow::Cow;
use std::fmt::Write as _;

use pintle_value::print::{is_plain_in_json, is_plain_text_in_json, plain_length_in_json};
use pintle_value::{EncodedObject, Object, Str, Value};

use super::{FieldSet, Node};
use crate::path::{PathElement, PathElementError};

/// Maximum nesting of a set that is kept as text: that of JSON which the server accepts.
const MAX_DEPTH: usize = 10_000;

impl FieldSet {
    /// The set as an object that is kept as text, in the order of the elements. `None` if the set is empty, or if a key
    /// has characters that encoders write differently.
    pub(super) fn to_encoded(&self) -> Option<EncodedObject> {
        let mut writer = SetWriter::new();
        writer.set(self)?;
        writer.finish()
    }
}

/// Writes a set as text. Its methods return `None` if a key has characters that encoders write differently.
pub(crate) struct SetWriter {
    out: String,
    /// Whether the keys that were written are sorted by their bytes.
    is_sorted: bool,
}

impl SetWriter {
    /// A writer of a set.
    pub(crate) fn new() -> Self {
        let mut out = String::with_capacity(2048);
        out.push('{');
        Self { out, is_sorted: true }
    }

    /// The set that was written. `None` if it is empty.
    pub(crate) fn finish(self) -> Option<EncodedObject> {
        let Self { mut out, is_sorted } = self;
        // The comma after the last node.
        out.pop().filter(|last| *last == ',')?;
        out.push('}');
        Some(EncodedObject::new(out, is_sorted, decode))
    }

    fn set(&mut self, set: &FieldSet) -> Option<()> {
        let mut previous = String::new();
        for node in set.nodes() {
            let below = |writer: &mut Self| writer.set(&node.children);
            match &node.element {
                PathElement::Field(name) => self.field(name, node.member, below)?,
                element => self.item(element, &mut previous, node.member, below)?,
            }
        }
        Some(())
    }

    /// Writes the node of a field or of a map's key, and what is below it. Nothing is written if the path is no member and
    /// nothing is below it.
    pub(crate) fn field(
        &mut self,
        name: &str,
        member: bool,
        below: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let start = self.out.len();
        if !is_plain_text_in_json(name.as_bytes()) {
            return None;
        }
        self.out.push_str("\"f:");
        self.out.push_str(name);
        self.node(start, member, below)
    }

    /// Like [`Self::field`], for an item of a list. `previous` is the key of the item before, or empty.
    pub(crate) fn item(
        &mut self,
        element: &PathElement,
        previous: &mut String,
        member: bool,
        below: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let start = self.out.len();
        let mut key = String::with_capacity(32);
        element.serialize_into(&mut key);
        self.out.push('"');
        // The escapes that all encoders write.
        let mut rest = key.as_str();
        while let Some(at) = rest.bytes().position(|byte| !is_plain_in_json(byte)) {
            let escape = match rest.as_bytes()[at] {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                _ => return None,
            };
            self.out.push_str(&rest[..at]);
            self.out.push_str(escape);
            rest = &rest[at + 1..];
        }
        self.out.push_str(rest);
        self.is_sorted &= *previous < key;
        *previous = key;
        self.node(start, member, below)
    }

    /// Writes the key of an item from the sorted fields that identify it, without making its element. Returns where the
    /// node begins. Writes nothing and returns `None` if a value is neither plain text nor an integer.
    pub(crate) fn plain_item_key<'v>(
        &mut self,
        fields: impl Iterator<Item = (&'v str, Option<&'v Value>)>,
    ) -> Option<usize> {
        let start = self.out.len();
        self.out.push_str("\"k:{");
        for (i, (name, value)) in fields.enumerate() {
            self.out.push_str(if i > 0 { ",\\\"" } else { "\\\"" });
            self.out.push_str(name);
            let written = is_plain_text_in_json(name.as_bytes()).then_some(()).and_then(|()| match value? {
                Value::String(text) if is_plain_text_in_json(text.as_bytes()) => {
                    self.out.push_str("\\\":\\\"");
                    self.out.push_str(text);
                    self.out.push_str("\\\"");
                    Some(())
                }
                Value::Int(number) => write!(self.out, "\\\":{number}").ok(),
                _ => None,
            });
            if written.is_none() {
                self.out.truncate(start);
                return None;
            }
        }
        self.out.push('}');
        Some(start)
    }

    /// Notes the order of two items that follow each other, which are identified by plain text under the same name.
    pub(crate) fn note_order(&mut self, previous: &str, next: &str) {
        // The quote after the shorter text is less than all plain characters but these.
        self.is_sorted &= !previous.bytes().chain(next.bytes()).any(|byte| byte < b'"');
    }

    /// Writes the rest of the node that begins at `start`.
    pub(crate) fn node(
        &mut self,
        start: usize,
        member: bool,
        below: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.out.push_str("\":{");
        let inside = self.out.len();
        if member {
            self.out.push_str("\".\":{},");
        }
        let children = self.out.len();
        below(self)?;
        if self.out.len() > children {
            // The comma after the last node.
            self.out.pop();
        } else if member {
            // An empty object means a member.
            self.out.truncate(inside);
        } else {
            self.out.truncate(start);
            return Some(());
        }
        self.out.push_str("},");
        Some(())
    }
}

/// Decodes the text of a set into an object. Every text that gets here was written or checked by this module; any other
/// would give an empty object.
fn decode(text: &str) -> Object {
    SetReader::new(text, 0).object().unwrap_or_default()
}

/// Reads a set from its text. `None` if the text has anything but keys: numbers, strings, white space.
pub(super) fn read_text(text: &str) -> Option<Result<FieldSet, PathElementError>> {
    let mut reader = SetReader::new(text, 0);
    let set = reader.set()?;
    (reader.at == text.len()).then(|| set.map(|(set, _)| set))
}

/// Reads the field set that begins at `at` in a text without decoding it, and its length. `None` if the value is no set,
/// if the set is empty, or if it cannot be kept as text.
#[must_use]
pub fn encoded_field_set(text: &str, at: usize) -> Option<(EncodedObject, usize)> {
    let mut reader = SetReader::new(text, at);
    reader.skip()?;
    let set = text.get(at..reader.at).filter(|set| set.len() > 2)?;
    Some((EncodedObject::new(set, reader.is_sorted, decode), set.len()))
}

/// Whether the key with this text is known to come before the other by the bytes of the keys.
fn is_before(key: &str, other: &str) -> bool {
    let (key, other) = (key.as_bytes(), other.as_bytes());
    let Some(at) = key.iter().zip(other).position(|(a, b)| a != b) else { return key.len() < other.len() };
    // A backslash stands for the byte after it, unless it is the second of an escape.
    if at > 0 && key[at - 1] == b'\\' {
        return false;
    }
    let byte = |text: &[u8]| if text[at] == b'\\' { text.get(at + 1).copied() } else { Some(text[at]) };
    byte(key) < byte(other)
}

/// Reads the text of a set, which consists of objects only.
struct SetReader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// Whether the keys that were skipped are sorted by their bytes.
    is_sorted: bool,
}

impl<'t> SetReader<'t> {
    fn new(text: &'t str, at: usize) -> Self {
        Self { text, at, depth: 0, is_sorted: true }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let is_next = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next.then_some(())
    }

    /// Enters an object. `Some(false)` if it has no members.
    fn open(&mut self) -> Option<bool> {
        self.take(b'{')?;
        let has_members = self.take(b'}').is_none();
        self.depth += usize::from(has_members);
        (self.depth <= MAX_DEPTH).then_some(has_members)
    }

    /// The key of the next member.
    fn key(&mut self) -> Option<Cow<'t, str>> {
        let (key, is_escaped) = self.key_text()?;
        Some(if is_escaped { Cow::Owned(unescaped(key)) } else { Cow::Borrowed(key) })
    }

    /// The text of the next member's key, and whether it has escapes.
    fn key_text(&mut self) -> Option<(&'t str, bool)> {
        self.take(b'"')?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut is_escaped = false;
        loop {
            // Quotes and backslashes are not plain.
            self.at += plain_length_in_json(bytes.get(self.at..)?);
            match (bytes.get(self.at)?, bytes.get(self.at + 1)) {
                (b'"', _) => break,
                (b'\\', Some(b'"' | b'\\')) => {
                    is_escaped = true;
                    self.at += 2;
                }
                _ => return None,
            }
        }
        let key = self.text.get(start..self.at)?;
        self.at += 1;
        self.take(b':')?;
        Some((key, is_escaped))
    }

    /// Leaves the object, or goes to its next member.
    fn has_next(&mut self) -> Option<bool> {
        if self.take(b',').is_some() {
            return Some(true);
        }
        self.take(b'}')?;
        self.depth -= 1;
        Some(false)
    }

    fn object(&mut self) -> Option<Object> {
        let mut entries = Vec::new();
        let mut has_next = self.open()?;
        while has_next {
            let key = Str::from(self.key()?);
            entries.push((key, Value::Object(self.object()?)));
            has_next = self.has_next()?;
        }
        Some(Object::from_entries(entries))
    }

    /// The set below a path, and whether the path itself is a member.
    fn set(&mut self) -> Option<Result<(FieldSet, bool), PathElementError>> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut member = false;
        let mut has_next = self.open()?;
        while has_next {
            let key = self.key()?;
            let below = self.set()?;
            if key == "." {
                member = true;
            } else {
                match (PathElement::deserialize(&key), below) {
                    // An unknown variant.
                    (Ok(None), _) => {}
                    (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
                    (Ok(Some(element)), Ok((children, member))) => nodes.push(Node { element, member, children }),
                }
            }
            has_next = self.has_next()?;
        }
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes = super::fields_v1::sorted(nodes);
        }
        member |= nodes.is_empty();
        Some(Ok((FieldSet::of(nodes), member)))
    }

    fn skip(&mut self) -> Option<()> {
        let mut has_next = self.open()?;
        let mut previous = ("", false);
        while has_next {
            let key = self.key_text()?;
            let has_escapes = previous.1 || key.1;
            self.is_sorted &= if has_escapes { is_before(previous.0, key.0) } else { previous.0 < key.0 };
            previous = key;
            self.skip()?;
            has_next = self.has_next()?;
        }
        Some(())
    }
}

/// A key without its backslashes, each of which escapes the character after it.
fn unescaped(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    let mut chars = key.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    out
}
