//! An index over a JSON text: the offsets of each value and the index of the next one. Encoders read it by the types of
//! a schema, in the order that their format needs, without building a tree.

use std::borrow::Cow;

use super::decode::{integer, plain_run_end, string};

/// The index of a text that must be well-formed and compact, as stored objects are. A reused tape does not allocate
/// again.
#[derive(Debug, Default)]
pub struct Tape {
    /// In text order. A member of an object has two entries, its name and its value.
    entries: Vec<TapeEntry>,
    /// The indexes of the open arrays and objects.
    open: Vec<u32>,
}

/// The offsets of a value.
#[derive(Clone, Copy, Debug)]
struct TapeEntry {
    kind: EntryKind,
    /// Offset of the first byte. For a string, the byte after the opening quote.
    start: u32,
    /// Offset after the last byte. For a string, the offset of the closing quote.
    end: u32,
    /// Index of the entry after this value and its children.
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Object,
    Array,
    /// A string without escapes.
    PlainString,
    /// A string with escapes.
    EscapedString,
    /// A number, a boolean or null.
    Literal,
}

/// A text and its index. Values are identified by their index.
#[derive(Clone, Copy, Debug)]
pub struct IndexedJson<'t> {
    text: &'t str,
    entries: &'t [TapeEntry],
}

/// The index of a value in an [`IndexedJson`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueIndex(u32);

impl ValueIndex {
    /// The root value.
    pub const ROOT: ValueIndex = ValueIndex(0);
    /// A missing value, which reads as null.
    pub const NONE: ValueIndex = ValueIndex(u32::MAX);
}

impl Tape {
    /// Indexes the values of a text. Returns `None` if the indexer notices that the text is not well-formed and
    /// compact.
    pub fn index<'t>(&'t mut self, json: &'t [u8]) -> Option<IndexedJson<'t>> {
        let text = std::str::from_utf8(json).ok()?;
        u32::try_from(json.len()).ok()?;
        self.entries.clear();
        self.open.clear();
        self.values(json)?;
        Some(IndexedJson { text, entries: &self.entries })
    }

    /// Frees memory beyond the capacity for this many values.
    pub fn shrink_to(&mut self, values: usize) {
        self.entries.shrink_to(values);
        self.open.shrink_to(values);
    }

    fn values(&mut self, json: &[u8]) -> Option<()> {
        let mut offset = 0;
        loop {
            offset = self.value(json, offset)?;
            loop {
                match json.get(offset) {
                    Some(b',' | b':') => {
                        offset += 1;
                        break;
                    }
                    Some(b'}' | b']') => {
                        offset += 1;
                        let next = self.entries.len() as u32;
                        let container = self.open.pop()? as usize;
                        self.entries[container] = TapeEntry { end: offset as u32, next, ..self.entries[container] };
                    }
                    // The first child of an array or object that was just opened.
                    Some(_) if offset > 0 && matches!(json[offset - 1], b'{' | b'[') => break,
                    Some(_) => return None,
                    None => return self.open.is_empty().then_some(()),
                }
            }
        }
    }

    /// Adds the value at `offset`, or only the opening of an array or object, and returns the offset after it.
    fn value(&mut self, json: &[u8], offset: usize) -> Option<usize> {
        let (kind, start, end) = match json.get(offset)? {
            b'"' => {
                let mut end = plain_run_end(json, offset + 1);
                let kind = if json.get(end) == Some(&b'"') { EntryKind::PlainString } else { EntryKind::EscapedString };
                while json.get(end)? != &b'"' {
                    end = plain_run_end(json, end + 2);
                }
                (kind, offset + 1, end)
            }
            b'{' => (EntryKind::Object, offset, offset + 1),
            b'[' => (EntryKind::Array, offset, offset + 1),
            _ => {
                let rest = json.get(offset..)?;
                let length = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']')).unwrap_or(rest.len());
                (EntryKind::Literal, offset, offset + length)
            }
        };
        let index = self.entries.len() as u32;
        self.entries.push(TapeEntry { kind, start: start as u32, end: end as u32, next: index + 1 });
        match kind {
            EntryKind::Object | EntryKind::Array => self.open.push(index),
            EntryKind::PlainString | EntryKind::EscapedString => return Some(end + 1),
            EntryKind::Literal => {}
        }
        Some(end)
    }
}

impl<'t> IndexedJson<'t> {
    fn get(&self, index: ValueIndex) -> Option<&'t TapeEntry> {
        self.entries.get(index.0 as usize)
    }

    fn slice(&self, entry: &TapeEntry) -> &'t str {
        self.text.get(entry.start as usize..entry.end as usize).unwrap_or_default()
    }

    /// The decoded text of a string.
    #[must_use]
    pub fn string(&self, index: ValueIndex) -> Option<Cow<'t, str>> {
        let entry = self.get(index)?;
        match entry.kind {
            EntryKind::PlainString => Some(Cow::Borrowed(self.slice(entry))),
            EntryKind::EscapedString => {
                let mut offset = entry.start as usize - 1;
                string(self.text, &mut offset).ok().map(|text| Cow::Owned(text.into()))
            }
            _ => None,
        }
    }

    /// The text of a number, a boolean or null.
    #[must_use]
    pub fn literal(&self, index: ValueIndex) -> Option<&'t str> {
        self.get(index).filter(|entry| entry.kind == EntryKind::Literal).map(|entry| self.slice(entry))
    }

    /// A number as an integer, if it is an integer that fits.
    #[must_use]
    pub fn integer(&self, index: ValueIndex) -> Option<i64> {
        self.literal(index).and_then(integer)
    }

    /// True for null and for a missing value.
    #[must_use]
    pub fn is_null(&self, index: ValueIndex) -> bool {
        self.get(index).is_none_or(|entry| entry.kind == EntryKind::Literal && self.slice(entry) == "null")
    }

    /// True for an object.
    #[must_use]
    pub fn is_object(&self, index: ValueIndex) -> bool {
        self.get(index).is_some_and(|entry| entry.kind == EntryKind::Object)
    }

    /// The JSON of a value as it appears in the text.
    #[must_use]
    pub fn json(&self, index: ValueIndex) -> &'t str {
        let Some(entry) = self.get(index) else { return "null" };
        let quote = u32::from(matches!(entry.kind, EntryKind::PlainString | EntryKind::EscapedString));
        self.text.get((entry.start - quote) as usize..(entry.end + quote) as usize).unwrap_or_default()
    }

    /// The members of an object in text order. Empty for other values.
    pub fn members(self, index: ValueIndex) -> impl Iterator<Item = (Cow<'t, str>, ValueIndex)> {
        let mut children = self.children(index, EntryKind::Object);
        std::iter::from_fn(move || {
            let name = children.next()?;
            Some((self.string(name)?, children.next()?))
        })
    }

    /// The items of an array. Empty for other values.
    pub fn items(self, index: ValueIndex) -> impl Iterator<Item = ValueIndex> {
        self.children(index, EntryKind::Array)
    }

    fn children(self, index: ValueIndex, kind: EntryKind) -> impl Iterator<Item = ValueIndex> {
        let end = self.get(index).filter(|entry| entry.kind == kind).map_or(0, |entry| entry.next);
        let mut next = index.0.wrapping_add(1);
        std::iter::from_fn(move || {
            let child = (next < end).then_some(ValueIndex(next))?;
            next = self.get(child)?.next;
            Some(child)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serializes a value by reading it from the index.
    fn write(indexed: IndexedJson<'_>, index: ValueIndex, out: &mut String) {
        if indexed.is_object(index) {
            out.push('{');
            for (name, value) in indexed.members(index) {
                out.push_str(&format!("{name}="));
                write(indexed, value, out);
                out.push(';');
            }
            out.push('}');
        } else if let Some(text) = indexed.string(index) {
            out.push_str(&text);
        } else if let Some(literal) = indexed.literal(index) {
            out.push_str(literal);
        } else {
            out.push('[');
            for item in indexed.items(index) {
                write(indexed, item, out);
                out.push(';');
            }
            out.push(']');
        }
    }

    fn check(json: &str, expect: Option<&str>) {
        let mut tape = Tape::default();
        for _ in 0..2 {
            let found = tape.index(json.as_bytes()).map(|indexed| {
                assert_eq!(indexed.json(ValueIndex::ROOT), json);
                let mut out = String::new();
                write(indexed, ValueIndex::ROOT, &mut out);
                out
            });
            assert_eq!(found.as_deref(), expect, "{json}");
        }
    }

    #[test]
    fn every_value_is_indexed() {
        for (json, expect) in [
            ("{}", "{}"),
            ("[]", "[]"),
            ("-1.5", "-1.5"),
            (r#""a""#, "a"),
            (r#"{"a":1,"b":{"c":[true,null,"x"],"d":{}},"e":[]}"#, "{a=1;b={c=[true;null;x;];d={};};e=[];}"),
            (r#"[[],[[]],{"a":[{}]}]"#, "[[];[[];];{a=[{};];};]"),
            (r#"{"a\u003cb":"\"}\\","c":"\n]"}"#, "{a<b=\"}\\;c=\n];}"),
        ] {
            check(json, Some(expect));
        }
    }

    #[test]
    fn truncated_and_malformed_texts_are_rejected() {
        let json = r#"{"a":[1,{"b":"c\""}],"d":-2}"#;
        check(json, Some("{a=[1;{b=c\";};];d=-2;}"));
        for end in 0..json.len() {
            check(&json[..end], None);
        }
        for json in ["}", "{}}", "[]]", "{}x", "\"a\"\"b\""] {
            check(json, None);
        }
    }
}
