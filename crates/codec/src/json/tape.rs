//! A text as a list of places: where each of its values is, and where the next one is. Encoders walk it by the types of a
//! schema, in whatever order their format wants, without a tree.

use std::borrow::Cow;

use super::decode::{integer, plain, string};

/// The places of the values in a text that is known to be well-formed and compact, as objects are stored. Kept for the next
/// text, it needs no memory for it.
#[derive(Debug, Default)]
pub struct Tape {
    /// In the order of the text; a member is its name and its value.
    marks: Vec<Mark>,
    /// The arrays and objects that are open.
    open: Vec<u32>,
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
struct Mark {
    kind: Kind,
    /// Its first byte; of a string the one behind the quote.
    start: u32,
    /// The byte behind it; of a string the closing quote.
    end: u32,
    /// The mark behind it and what is in it.
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    /// A string without escapes.
    Plain,
    /// A string with escapes.
    Escaped,
    /// A number, a truth value or null.
    Word,
}

/// A text with its places. A value is a number.
#[derive(Clone, Copy, Debug)]
pub struct Marked<'t> {
    text: &'t str,
    marks: &'t [Mark],
}

/// A value of a marked text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// The value that is the whole text.
    pub const ROOT: Place = Place(0);
    /// No value: null.
    pub const NONE: Place = Place(u32::MAX);
}

impl Tape {
    /// Marks the values of a text. `None` if it is not well-formed and compact, as far as that shows.
    pub fn mark<'t>(&'t mut self, json: &'t [u8]) -> Option<Marked<'t>> {
        let text = std::str::from_utf8(json).ok()?;
        u32::try_from(json.len()).ok()?;
        self.marks.clear();
        self.open.clear();
        self.values(json)?;
        Some(Marked { text, marks: &self.marks })
    }

    /// Gives memory back that it has for more than so many values.
    pub fn shrink_to(&mut self, values: usize) {
        self.marks.shrink_to(values);
        self.open.shrink_to(values);
    }

    fn values(&mut self, json: &[u8]) -> Option<()> {
        let mut at = 0;
        loop {
            at = self.value(json, at)?;
            loop {
                match json.get(at) {
                    Some(b',' | b':') => {
                        at += 1;
                        break;
                    }
                    Some(b'}' | b']') => {
                        at += 1;
                        let next = self.marks.len() as u32;
                        let opened = self.open.pop()? as usize;
                        self.marks[opened] = Mark { end: at as u32, next, ..self.marks[opened] };
                    }
                    // An array or object has just been opened.
                    Some(_) if at > 0 && matches!(json[at - 1], b'{' | b'[') => break,
                    Some(_) => return None,
                    None => return self.open.is_empty().then_some(()),
                }
            }
        }
    }

    /// Marks the value at `at`, of an array or object its begin, and returns where it goes on.
    fn value(&mut self, json: &[u8], at: usize) -> Option<usize> {
        let (kind, start, end) = match json.get(at)? {
            b'"' => {
                let mut end = plain(json, at + 1);
                let kind = if json.get(end) == Some(&b'"') { Kind::Plain } else { Kind::Escaped };
                while json.get(end)? != &b'"' {
                    end = plain(json, end + 2);
                }
                (kind, at + 1, end)
            }
            b'{' => (Kind::Object, at, at + 1),
            b'[' => (Kind::Array, at, at + 1),
            _ => {
                let rest = json.get(at..)?;
                let length = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']')).unwrap_or(rest.len());
                (Kind::Word, at, at + length)
            }
        };
        let place = self.marks.len() as u32;
        self.marks.push(Mark { kind, start: start as u32, end: end as u32, next: place + 1 });
        match kind {
            Kind::Object | Kind::Array => self.open.push(place),
            Kind::Plain | Kind::Escaped => return Some(end + 1),
            Kind::Word => {}
        }
        Some(end)
    }
}

impl<'t> Marked<'t> {
    fn get(&self, place: Place) -> Option<&'t Mark> {
        self.marks.get(place.0 as usize)
    }

    fn slice(&self, mark: &Mark) -> &'t str {
        self.text.get(mark.start as usize..mark.end as usize).unwrap_or_default()
    }

    /// A string's text.
    #[must_use]
    pub fn string(&self, place: Place) -> Option<Cow<'t, str>> {
        let mark = self.get(place)?;
        match mark.kind {
            Kind::Plain => Some(Cow::Borrowed(self.slice(mark))),
            Kind::Escaped => {
                let mut at = mark.start as usize - 1;
                string(self.text, &mut at).ok().map(|text| Cow::Owned(text.into()))
            }
            _ => None,
        }
    }

    /// The text of a number, a truth value or null.
    #[must_use]
    pub fn word(&self, place: Place) -> Option<&'t str> {
        self.get(place).filter(|mark| mark.kind == Kind::Word).map(|mark| self.slice(mark))
    }

    /// A number as an integer, if it is one that fits.
    #[must_use]
    pub fn integer(&self, place: Place) -> Option<i64> {
        self.word(place).and_then(integer)
    }

    /// True for null, and for no value.
    #[must_use]
    pub fn is_null(&self, place: Place) -> bool {
        self.get(place).is_none_or(|mark| mark.kind == Kind::Word && self.slice(mark) == "null")
    }

    /// True for an object.
    #[must_use]
    pub fn is_object(&self, place: Place) -> bool {
        self.get(place).is_some_and(|mark| mark.kind == Kind::Object)
    }

    /// The JSON of a value as it stands in the text.
    #[must_use]
    pub fn json(&self, place: Place) -> &'t str {
        let Some(mark) = self.get(place) else { return "null" };
        let quote = u32::from(matches!(mark.kind, Kind::Plain | Kind::Escaped));
        self.text.get((mark.start - quote) as usize..(mark.end + quote) as usize).unwrap_or_default()
    }

    /// The members of an object, in the order of the text; none of anything else.
    pub fn members(self, place: Place) -> impl Iterator<Item = (Cow<'t, str>, Place)> {
        let mut parts = self.parts(place, Kind::Object);
        std::iter::from_fn(move || {
            let name = parts.next()?;
            Some((self.string(name)?, parts.next()?))
        })
    }

    /// The items of an array; none of anything else.
    pub fn items(self, place: Place) -> impl Iterator<Item = Place> {
        self.parts(place, Kind::Array)
    }

    fn parts(self, place: Place, kind: Kind) -> impl Iterator<Item = Place> {
        let end = self.get(place).filter(|mark| mark.kind == kind).map_or(0, |mark| mark.next);
        let mut at = place.0.wrapping_add(1);
        std::iter::from_fn(move || {
            let part = (at < end).then_some(Place(at))?;
            at = self.get(part)?.next;
            Some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a value again by walking over its places.
    fn write(marked: Marked<'_>, place: Place, out: &mut String) {
        if marked.is_object(place) {
            out.push('{');
            for (name, value) in marked.members(place) {
                out.push_str(&format!("{name}="));
                write(marked, value, out);
                out.push(';');
            }
            out.push('}');
        } else if let Some(text) = marked.string(place) {
            out.push_str(&text);
        } else if let Some(word) = marked.word(place) {
            out.push_str(word);
        } else {
            out.push('[');
            for item in marked.items(place) {
                write(marked, item, out);
                out.push(';');
            }
            out.push(']');
        }
    }

    fn check(json: &str, expect: Option<&str>) {
        let mut tape = Tape::default();
        for _ in 0..2 {
            let found = tape.mark(json.as_bytes()).map(|marked| {
                assert_eq!(marked.json(Place::ROOT), json);
                let mut out = String::new();
                write(marked, Place::ROOT, &mut out);
                out
            });
            assert_eq!(found.as_deref(), expect, "{json}");
        }
    }

    #[test]
    fn every_value_is_found() {
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
    fn what_is_cut_off_is_refused() {
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
