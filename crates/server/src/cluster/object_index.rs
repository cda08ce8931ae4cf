//! Finds the places in an object's finished JSON where the resourceVersion goes, where a typed list's item starts, and
//! where its labels are, by one walk that parses nothing.

use std::ops::Range;

use pintle_codec::json::JsonCursor;

/// What one walk finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Where the resourceVersion goes.
    pub(crate) version_at: u32,
    /// Where an item of a typed list starts.
    pub(crate) item_at: u32,
    /// The members of `metadata.labels`; empty where there are none.
    pub(crate) labels: Range<u32>,
}

/// Walks the JSON of an object. `None` if it is not one of an object with a uid.
pub(crate) fn places(json: &[u8]) -> Option<Places> {
    let mut cursor = JsonCursor::new(json);
    cursor.byte(b'{')?;
    let mut item_at = 1;
    let mut before_metadata = true;
    loop {
        match cursor.name()? {
            b"metadata" => {
                let (version_at, labels) = in_metadata(&mut cursor)?;
                let item_at = if before_metadata { item_at } else { 1 };
                return Some(Places { version_at, item_at, labels });
            }
            b"kind" | b"apiVersion" => {
                cursor.value()?;
            }
            _ => {
                before_metadata = false;
                cursor.value()?;
            }
        }
        cursor.byte(b',')?;
        item_at = place(&cursor)?;
    }
}

/// The place of the resourceVersion in `metadata`, and the labels. In declaration order the resourceVersion follows the
/// uid; where members are sorted it stands before it.
fn in_metadata(cursor: &mut JsonCursor<'_>) -> Option<(u32, Range<u32>)> {
    cursor.byte(b'{')?;
    let mut sorted = true;
    let mut first = true;
    let mut version_at = None;
    let mut labels = 0..0;
    loop {
        let start = place(cursor)?;
        let name = cursor.name()?;
        let value = place(cursor)?;
        cursor.value()?;
        match name {
            b"uid" => {
                let last = cursor.peek()? != b',';
                version_at = Some(if sorted || last { start } else { place(cursor)? + 1 });
            }
            b"labels" => labels = value + 1..place(cursor)?.checked_sub(1)?,
            // Where members are sorted, others stand before the name.
            b"name" | b"generateName" | b"namespace" if first => sorted = false,
            _ => {}
        }
        first = false;
        if cursor.byte(b',').is_none() {
            cursor.byte(b'}')?;
            return Some((version_at?, labels));
        }
    }
}

/// Where a walk is.
fn place(cursor: &JsonCursor<'_>) -> Option<u32> {
    u32::try_from(cursor.offset()).ok()
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
        let labels = places(json.as_bytes()).expect("an object").labels;
        assert_eq!(&json[labels.start as usize..labels.end as usize], r#""a":"}\"""#);
    }

    #[test]
    fn anything_else_is_refused() {
        for json in ["", "{", "[]", r#"{"metadata":{}}"#, r#"{"metadata":{"uid":"#, r#"{"a":"\"#] {
            assert_eq!(places(json.as_bytes()), None, "{json}");
        }
    }
}
