//! Finds the places in an object's finished JSON where the resourceVersion goes, where a typed list's item starts, and
//! where its labels are, by one walk that parses nothing.

use std::ops::Range;

/// What one walk finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Where the resourceVersion goes.
    pub(crate) version_at: u32,
    /// Where an item of a typed list starts.
    pub(crate) item_at: u32,
    /// The JSON of `metadata.labels`.
    pub(crate) labels: Option<Range<usize>>,
}

/// Walks the JSON of an object. `None` if it is not one of an object with a uid.
pub(crate) fn places(json: &[u8]) -> Option<Places> {
    let mut walk = Walk { json, at: 0 };
    walk.byte(b'{')?;
    let mut item_at = 1;
    let mut before_metadata = true;
    loop {
        let key = walk.string()?;
        walk.byte(b':')?;
        match key {
            b"metadata" => {
                let (version_at, labels) = walk.in_metadata()?;
                let item_at = if before_metadata { item_at } else { 1 };
                return Some(Places { version_at: u32::try_from(version_at).ok()?, item_at, labels });
            }
            b"kind" | b"apiVersion" => walk.skip_value()?,
            _ => {
                before_metadata = false;
                walk.skip_value()?;
            }
        }
        walk.byte(b',')?;
        item_at = u32::try_from(walk.at).ok()?;
    }
}

struct Walk<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn byte(&mut self, expect: u8) -> Option<()> {
        (*self.json.get(self.at)? == expect).then(|| self.at += 1)
    }

    /// A string's text between its quotes, escapes untouched.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let start = self.at;
        loop {
            match *self.json.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.json.get(start..self.at - 1)
    }

    fn skip_value(&mut self) -> Option<()> {
        match *self.json.get(self.at)? {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => {
                let mut depth = 0usize;
                loop {
                    match *self.json.get(self.at)? {
                        b'"' => {
                            self.string()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                while !matches!(*self.json.get(self.at)?, b',' | b'}' | b']') {
                    self.at += 1;
                }
            }
        }
        Some(())
    }

    /// The place of the resourceVersion in `metadata`, and the labels. In declaration order the resourceVersion follows
    /// the uid; where members are sorted it stands before it.
    fn in_metadata(&mut self) -> Option<(usize, Option<Range<usize>>)> {
        self.byte(b'{')?;
        let mut sorted = true;
        let mut first = true;
        let mut version_at = None;
        let mut labels = None;
        loop {
            let start = self.at;
            let key = self.string()?;
            self.byte(b':')?;
            let value = self.at;
            self.skip_value()?;
            match key {
                b"uid" => {
                    let last = *self.json.get(self.at)? != b',';
                    version_at = Some(if sorted || last { start } else { self.at + 1 });
                }
                b"labels" => labels = Some(value..self.at),
                // Where members are sorted, others stand before the name.
                b"name" | b"generateName" | b"namespace" if first => sorted = false,
                _ => {}
            }
            first = false;
            if self.byte(b',').is_none() {
                self.byte(b'}')?;
                return Some((version_at?, labels));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: &str, item: &str) {
        let Places { version_at, item_at, .. } = places(json.as_bytes()).expect("an object");
        let (head, tail) = json.split_at(version_at as usize);
        assert_eq!(format!("{head}\"rv\",{tail}"), expect);
        assert_eq!(&json[item_at as usize..], item);
    }

    #[test]
    fn places_are_found_in_both_orders() {
        check(
            r#"{"kind":"A","apiVersion":"v1","metadata":{"name":"\"uid\":","uid":"u","x":1},"s":1}"#,
            r#"{"kind":"A","apiVersion":"v1","metadata":{"name":"\"uid\":","uid":"u","rv","x":1},"s":1}"#,
            r#""metadata":{"name":"\"uid\":","uid":"u","x":1},"s":1}"#,
        );
        check(
            r#"{"apiVersion":"v1","kind":"A","metadata":{"creationTimestamp":"t","name":"n","uid":"u"}}"#,
            r#"{"apiVersion":"v1","kind":"A","metadata":{"creationTimestamp":"t","name":"n","rv","uid":"u"}}"#,
            r#""metadata":{"creationTimestamp":"t","name":"n","uid":"u"}}"#,
        );
    }

    #[test]
    fn labels_are_found() {
        let json = r#"{"kind":"A","metadata":{"name":"n","uid":"u","labels":{"a":"}\""},"x":[{}]}}"#;
        let labels = places(json.as_bytes()).expect("an object").labels.expect("labels");
        assert_eq!(&json[labels], r#"{"a":"}\""}"#);
    }

    #[test]
    fn anything_else_is_refused() {
        for json in ["", "{", "[]", r#"{"metadata":{}}"#, r#"{"metadata":{"uid":"#, r#"{"a":"\"#] {
            assert_eq!(places(json.as_bytes()), None, "{json}");
        }
    }
}
