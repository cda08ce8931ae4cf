//! Finds the places in an object's finished JSON where the resourceVersion goes and where a typed list's item starts,
//! by one walk over its outermost members.

/// Where the resourceVersion goes, and where an item of a typed list starts. `None` if the JSON is not one of an object
/// with a uid.
pub(crate) fn splices(json: &[u8]) -> Option<(u32, u32)> {
    let mut walk = Walk { json, at: 0 };
    walk.byte(b'{')?;
    let mut item_at = 1;
    let mut before_metadata = true;
    loop {
        let key = walk.string()?;
        walk.byte(b':')?;
        match key {
            b"metadata" => {
                let version_at = walk.in_metadata()?;
                return Some((u32::try_from(version_at).ok()?, if before_metadata { item_at } else { 1 }));
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

    /// The place of the resourceVersion in `metadata`. In declaration order it follows the uid; where members are
    /// sorted it stands before it.
    fn in_metadata(&mut self) -> Option<usize> {
        self.byte(b'{')?;
        let mut sorted = true;
        loop {
            let start = self.at;
            let key = self.string()?;
            self.byte(b':')?;
            self.skip_value()?;
            if key == b"uid" {
                let last = *self.json.get(self.at)? != b',';
                return Some(if sorted || last { start } else { self.at + 1 });
            }
            // In declaration order nothing but the name and the namespace stands before the uid; where members are
            // sorted, the creation time does.
            if key == b"creationTimestamp" {
                sorted = true;
            } else if matches!(key, b"name" | b"generateName" | b"namespace") && start_is_first(self.json, start) {
                sorted = false;
            }
            self.byte(b',')?;
        }
    }
}

fn start_is_first(json: &[u8], start: usize) -> bool {
    start > 0 && json[start - 1] == b'{'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: &str, item: &str) {
        let (version_at, item_at) = splices(json.as_bytes()).expect("an object");
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
    fn anything_else_is_refused() {
        for json in ["", "{", "[]", r#"{"metadata":{}}"#, r#"{"metadata":{"uid":"#, r#"{"a":"\"#] {
            assert_eq!(splices(json.as_bytes()), None, "{json}");
        }
    }
}
