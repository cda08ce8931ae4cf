//! The text of field sets in objects. Most field sets are only copied, so they are kept as text ([`EncodedObject`]).
//! A set whose keys need unusual escapes is kept as a tree, because encoders differ in how they write these.

use std::borrow::Cow;
use std::fmt::Write as _;

use pintle_value::print::{is_plain_in_json, is_plain_text_in_json, plain_length_in_json};
use pintle_value::{EncodedObject, Value};

use super::{FieldSet, Node};
use crate::path::{PathElement, PathElementError};

/// Maximum nesting of a set. It equals the maximum nesting of JSON that the server accepts.
const MAX_DEPTH: usize = 10_000;

impl FieldSet {
    /// The set as an object that is kept as text, in the order of the elements. `None` if the set is empty, or if a key
    /// has characters that encoders write differently.
    pub(super) fn to_encoded(&self) -> Option<EncodedObject> {
        let mut writer = SetWriter::default();
        writer.set(self)?;
        writer.finish()
    }
}

/// Writes a set as text. Its methods return `None` if a key has characters that encoders write differently.
pub struct SetWriter {
    out: String,
    /// Whether the keys that were written are sorted by their bytes.
    is_sorted: bool,
    /// The number of nodes around the next node.
    depth: usize,
}

impl Default for SetWriter {
    fn default() -> Self {
        let mut out = String::with_capacity(2048);
        out.push('{');
        Self { out, is_sorted: true, depth: 0 }
    }
}

impl SetWriter {
    /// The written set. `None` if it is empty.
    #[must_use]
    pub fn finish(self) -> Option<EncodedObject> {
        let Self { mut out, is_sorted, .. } = self;
        // The comma after the last node.
        out.pop().filter(|last| *last == ',')?;
        out.push('}');
        Some(EncodedObject::new(out).with_order(is_sorted))
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

    /// Writes the node of a field or of a map's key, and the set below it. Nothing is written if the path is no member
    /// and nothing is below it.
    pub fn field(&mut self, name: &str, member: bool, below: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let start = self.out.len();
        if !is_plain_text_in_json(name.as_bytes()) {
            return None;
        }
        self.out.push_str("\"f:");
        self.out.push_str(name);
        self.node(start, member, below)
    }

    /// Like [`Self::field`], for an item of a list. `previous` is the key of the item before, or empty.
    pub fn item(
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
    pub fn plain_item_key<'v>(&mut self, fields: impl Iterator<Item = (&'v str, Option<&'v Value>)>) -> Option<usize> {
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

    /// Records the order of two items that follow each other, which are identified by plain text under the same name.
    pub fn note_order(&mut self, previous: &str, next: &str) {
        // The quote after the shorter text is less than all plain characters but these.
        self.is_sorted &= !previous.bytes().chain(next.bytes()).any(|byte| byte < b'"');
    }

    /// Writes the rest of the node that begins at `start`.
    pub fn node(&mut self, start: usize, member: bool, below: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.out.push_str("\":{");
        let inside = self.out.len();
        if member {
            self.out.push_str("\".\":{},");
        }
        let children = self.out.len();
        self.depth += 1;
        if self.depth >= EncodedObject::MAX_DEPTH {
            return None;
        }
        below(self)?;
        self.depth -= 1;
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

/// Reads a set from its text. `None` if the text has anything but keys: numbers, strings, white space.
pub(super) fn read_text(text: &str) -> Option<Result<FieldSet, PathElementError>> {
    let mut reader = SetReader::new(text, 0);
    let set = reader.set()?;
    (reader.at == text.len()).then(|| set.map(|(set, _)| set))
}

/// Reads the field set at the offset `at` of a text without decoding it, and its length. `None` if the value is no set,
/// if the set is empty, or if it cannot be kept as text.
#[must_use]
pub fn encoded_field_set(text: &str, at: usize) -> Option<(EncodedObject, usize)> {
    let set = text.get(at..end_of_set(text.as_bytes(), at)?)?;
    Some((EncodedObject::new(set), set.len()))
}

/// Returns the end of the set at the offset `at`. `None` if there is no set, or a set without members.
fn end_of_set(text: &[u8], at: usize) -> Option<usize> {
    let is = |at: usize, byte: u8| text.get(at) == Some(&byte);
    if !is(at, b'{') {
        return None;
    }
    let (mut at, mut depth) = (at + 1, 1);
    // Each iteration reads a key, and the braces and the comma that follow it.
    while is(at, b'"') && depth <= EncodedObject::MAX_DEPTH {
        at = end_of_key(text, at + 1)?;
        if !is(at, b':') || !is(at + 1, b'{') {
            return None;
        }
        at += 2;
        if is(at, b'"') {
            depth += 1;
            continue;
        }
        // The object is empty. Objects around it may end with it.
        if !is(at, b'}') {
            return None;
        }
        at += 1;
        while is(at, b'}') {
            at += 1;
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
        if !is(at, b',') {
            return None;
        }
        at += 1;
    }
    None
}

/// Returns the end of the key whose text begins at `at`, after its quote. `None` if encoders write one of its
/// characters differently.
fn end_of_key(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        // Quotes and backslashes are not plain.
        at += plain_length_in_json(text.get(at..)?);
        match (text.get(at)?, text.get(at + 1)) {
            (b'"', _) => return Some(at + 1),
            (b'\\', Some(b'"' | b'\\')) => at += 2,
            _ => return None,
        }
    }
}

/// Whether a text is a set whose keys are known to be sorted by their bytes at every level.
#[must_use]
pub fn is_sorted_text(text: &str) -> bool {
    SetReader::new(text, 0).is_sorted().unwrap_or_default()
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
}

impl<'t> SetReader<'t> {
    fn new(text: &'t str, at: usize) -> Self {
        Self { text, at, depth: 0 }
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
        let start = self.at;
        self.at = end_of_key(self.text.as_bytes(), start)?;
        let key = self.text.get(start..self.at - 1)?;
        self.take(b':')?;
        Some((key, key.contains('\\')))
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

    /// Whether the keys of the next object are known to be sorted at every level.
    fn is_sorted(&mut self) -> Option<bool> {
        let mut has_next = self.open()?;
        let (mut previous, mut is_sorted) = (("", false), true);
        while has_next {
            let key = self.key_text()?;
            let has_escapes = previous.1 || key.1;
            is_sorted &= if has_escapes { is_before(previous.0, key.0) } else { previous.0 < key.0 };
            previous = key;
            is_sorted &= self.is_sorted()?;
            has_next = self.has_next()?;
        }
        Some(is_sorted)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_set_ends_with_its_last_brace() {
        for set in [
            r#"{"a":{}}"#,
            r#"{".":{},"f:a":{}}"#,
            r#"{"f:a":{"f:b":{"f:c":{}}},"f:d":{}}"#,
            r#"{"f:a":{".":{},"k:{\"name\":\"a{}\"}":{"f:b":{}}}}"#,
            r#"{"f:a\\":{},"":{}}"#,
        ] {
            for rest in ["", "}", ",", "x", "\"", "}}}}"] {
                let text = format!("{set}{rest}");
                assert_eq!(end_of_set(text.as_bytes(), 0), Some(set.len()), "{text}");
                assert_eq!(end_of_set(format!("{{{text}").as_bytes(), 1), Some(set.len() + 1), "{text}");
                let (encoded, length) = encoded_field_set(&text, 0).expect("a set");
                assert_eq!((encoded.text(), length), (set, set.len()));
            }
            for end in 0..set.len() {
                assert_eq!(end_of_set(&set.as_bytes()[..end], 0), None, "{}", &set[..end]);
            }
        }
        for other in [
            "",
            "{}",
            "[]",
            "{,}",
            r#"{"a":1}"#,
            r#"{"a":{}"#,
            r#"{"a":{},}"#,
            r#"{"a":{},{"b":{}}}"#,
            r#"{"a":{}{"b":{}}}"#,
            r#"{"a" :{}}"#,
            r#"{"a":{"b"}}"#,
            r#"{"a":{"b":{}},"c"}"#,
            r#"{"a<":{}}"#,
            r#"{"\u0041":{}}"#,
            r#"{"ä":{}}"#,
            r#"{a:{}}"#,
            r#"{"a":{}}"#.split_at(1).1,
        ] {
            assert_eq!(end_of_set(other.as_bytes(), 0), None, "{other}");
        }
        let deep = |depth| format!("{}{{}}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert_eq!(
            end_of_set(deep(EncodedObject::MAX_DEPTH).as_bytes(), 0),
            Some(deep(EncodedObject::MAX_DEPTH).len())
        );
        assert_eq!(end_of_set(deep(EncodedObject::MAX_DEPTH + 1).as_bytes(), 0), None);
    }

    #[test]
    fn a_deep_set_is_kept_as_a_tree() {
        for depth in [1, EncodedObject::MAX_DEPTH - 1, EncodedObject::MAX_DEPTH, 200] {
            let set: FieldSet = [vec![PathElement::field("a"); depth]].into_iter().collect();
            let value = set.to_value();
            let object = value.as_object().expect("an object");
            assert_eq!(object.encoded().is_some(), depth < EncodedObject::MAX_DEPTH, "{depth}");
            assert!(object.contains_key("f:a"), "{depth}");
            assert_eq!(FieldSet::from_value(&value), Ok(set), "{depth}");
        }
    }

    #[test]
    fn the_order_of_keys_is_known_when_it_is_asked_for() {
        for (set, expect) in [
            (r#"{"a":{},"b":{}}"#, true),
            (r#"{"b":{},"a":{}}"#, false),
            (r#"{"a":{"d":{},"c":{}},"b":{}}"#, false),
            (r#"{"a":{"c":{},"d":{}},"b":{"a":{}}}"#, true),
            (r#"{"k:{\"port\":80}":{},"k:{\"port\":443}":{}}"#, false),
            (r#"{"a":{},"a":{}}"#, false),
        ] {
            let (encoded, _) = encoded_field_set(set, 0).expect("a set");
            assert_eq!(encoded.is_sorted_by(is_sorted_text), expect, "{set}");
        }
    }
}
