//! Finds the offsets in an object's JSON where the resourceVersion is inserted, where an item of a typed list starts,
//! and where the labels are. One scan skips over values without decoding them, but for selected fields.

use std::ops::Range;

use bytes::Bytes;
use pintle_codec::json::{JsonCursor, Projection};
use pintle_value::Object;

/// The offsets that a scan finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectOffsets {
    /// Where the resourceVersion is inserted.
    pub(crate) resource_version_offset: u32,
    /// Where an item of a typed list starts.
    pub(crate) item_offset: u32,
    /// The members of `metadata.labels`; empty if there are none.
    pub(crate) labels: Range<u32>,
}

impl ObjectOffsets {
    fn new((resource_version_offset, labels): (u32, Range<u32>), item_offset: u32) -> Self {
        Self { resource_version_offset, item_offset, labels }
    }
}

/// Scans the JSON of an object. Returns `None` if the JSON is not that of an object with a uid, or if no kind and
/// apiVersion precede its metadata, as they do in both orders of members.
pub(crate) fn scan_object(json: &[u8]) -> Option<ObjectOffsets> {
    scan(json, None).map(|(offsets, _)| offsets)
}

/// Scans the JSON of an object like [`scan_object`], and decodes the selected fields on the way.
pub(crate) fn scan_object_with_fields(json: &[u8], fields: &Projection) -> Option<(ObjectOffsets, Object)> {
    scan(json, Some(fields))
}

fn scan(json: &[u8], fields: Option<&Projection>) -> Option<(ObjectOffsets, Object)> {
    let mut cursor = JsonCursor::new(json);
    cursor.byte(b'{')?;
    let mut item_offset = 1;
    let mut before_metadata = true;
    let (mut has_kind, mut has_version) = (false, false);
    let is_name = |value: &[u8]| value.len() > 2 && value.starts_with(b"\"");
    let mut metadata = None;
    let mut selected = Object::new();
    loop {
        let name = cursor.name()?;
        let wanted = fields.and_then(|fields| fields.member(name));
        let mut member = cursor.clone();
        match name {
            b"metadata" if has_kind && has_version => {
                let found = scan_metadata(&mut cursor, fields.is_none())?;
                if fields.is_none() {
                    return Some((ObjectOffsets::new(found, if before_metadata { item_offset } else { 1 }), selected));
                }
                metadata = Some(found);
            }
            b"metadata" => return None,
            b"kind" => has_kind = is_name(cursor.value()?),
            b"apiVersion" => has_version = is_name(cursor.value()?),
            _ => {
                before_metadata &= metadata.is_some();
                if wanted.is_none() {
                    cursor.value()?;
                }
            }
        }
        if let Some((name, wanted)) = wanted {
            selected.insert(name.clone(), wanted.read_at(&mut member)?);
            cursor = member;
        }
        let is_complete = metadata.is_some() && selected.len() == fields.map_or(0, Projection::len);
        if is_complete || cursor.byte(b',').is_none() {
            if !is_complete {
                cursor.byte(b'}')?;
            }
            let item_offset = if before_metadata { item_offset } else { 1 };
            return Some((ObjectOffsets::new(metadata?, item_offset), selected));
        }
        if metadata.is_none() {
            item_offset = offset(&cursor)?;
        }
    }
}

/// Moves the kind of an object to its start. Such an object is at no version as it is stored: it does not begin with
/// the prefix of one, so it is pruned and defaulted at each read.
pub(crate) fn with_kind_first(json: &Bytes) -> Bytes {
    let mut cursor = JsonCursor::new(json);
    let mut find_kind = || -> Option<Range<usize>> {
        cursor.byte(b'{')?;
        loop {
            let start = cursor.offset();
            let name = cursor.name()?;
            cursor.value()?;
            if name == b"kind" {
                return Some(start..cursor.offset());
            }
            cursor.byte(b',')?;
        }
    };
    match find_kind() {
        Some(kind) if kind.start > 1 => {
            [b"{", &json[kind.clone()], b",", &json[1..kind.start - 1], &json[kind.end..]].concat().into()
        }
        _ => json.clone(),
    }
}

/// True if two encodings are equal but for the place of the kind, see [`with_kind_first`].
pub(crate) fn is_same_object(a: &Bytes, b: &[u8]) -> bool {
    let begins_with_kind = |json: &[u8]| json.starts_with(b"{\"kind\"");
    let may_be_same = a.len() == b.len() && begins_with_kind(a) != begins_with_kind(b);
    a == b || (may_be_same && with_kind_first(a) == with_kind_first(&Bytes::copy_from_slice(b)))
}

/// Returns the offset of the resourceVersion in `metadata`, and the labels. In declaration order the resourceVersion
/// follows the uid; in sorted order it precedes it. The cursor may stay within the metadata if the rest is unused.
fn scan_metadata(cursor: &mut JsonCursor<'_>, is_rest_unused: bool) -> Option<(u32, Range<u32>)> {
    cursor.byte(b'{')?;
    let mut sorted = true;
    let mut first = true;
    let mut resource_version_offset = None;
    let mut labels = 0..0;
    let mut self_link = None;
    loop {
        let start = offset(cursor)?;
        let name = cursor.name()?;
        if name == b"managedFields" && !sorted && is_rest_unused {
            // Nothing follows it in declaration order, and it is often half of the object.
            return Some((resource_version_offset?, labels));
        }
        let value = offset(cursor)?;
        cursor.value()?;
        match name {
            b"uid" => {
                let last = cursor.peek()? != b',';
                let before = self_link.filter(|_| sorted).unwrap_or(start);
                resource_version_offset = Some(if sorted || last { before } else { offset(cursor)? + 1 });
            }
            // Only results of dry runs have it.
            b"selfLink" => self_link = Some(start),
            b"labels" => labels = value + 1..offset(cursor)?.checked_sub(1)?,
            // In sorted order, other members precede the name.
            b"name" | b"generateName" | b"namespace" if first => sorted = false,
            _ => {}
        }
        first = false;
        if cursor.byte(b',').is_none() {
            cursor.byte(b'}')?;
            return Some((resource_version_offset?, labels));
        }
    }
}

/// The cursor's offset.
fn offset(cursor: &JsonCursor<'_>) -> Option<u32> {
    u32::try_from(cursor.offset()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: &str, item: &str) {
        let ObjectOffsets { resource_version_offset, item_offset, .. } =
            scan_object(json.as_bytes()).expect("an object");
        let (head, tail) = json.split_at(resource_version_offset as usize);
        assert_eq!(format!("{head}\"rv\",{tail}"), expect);
        assert_eq!(&json[item_offset as usize..], item);
    }

    #[test]
    fn offsets_are_found_in_declaration_and_sorted_order() {
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
    fn the_kind_moves_to_the_start() {
        let cases = [
            (r#"{"apiVersion":"a/v1","kind":"A","metadata":{}}"#, r#"{"kind":"A","apiVersion":"a/v1","metadata":{}}"#),
            (
                r#"{"apiVersion":"a/v1","b":{"kind":1},"kind":"A"}"#,
                r#"{"kind":"A","apiVersion":"a/v1","b":{"kind":1}}"#,
            ),
            (r#"{"kind":"A","apiVersion":"a/v1"}"#, r#"{"kind":"A","apiVersion":"a/v1"}"#),
            (r#"{"apiVersion":"a/v1"}"#, r#"{"apiVersion":"a/v1"}"#),
        ];
        for (json, expect) in cases {
            assert_eq!(with_kind_first(&Bytes::from_static(json.as_bytes())), expect.as_bytes());
        }
    }

    #[test]
    fn the_place_of_the_kind_makes_no_other_object() {
        let [plain, moved, other] = [
            r#"{"apiVersion":"a/v1","kind":"A","metadata":{}}"#,
            r#"{"kind":"A","apiVersion":"a/v1","metadata":{}}"#,
            r#"{"kind":"B","apiVersion":"a/v1","metadata":{}}"#,
        ]
        .map(|json| Bytes::from_static(json.as_bytes()));
        assert!(is_same_object(&plain, &plain) && is_same_object(&plain, &moved) && is_same_object(&moved, &plain));
        assert!(!is_same_object(&plain, &other) && !is_same_object(&moved, &other));
    }

    #[test]
    fn labels_are_found() {
        let json = r#"{"kind":"A","apiVersion":"v1","metadata":{"name":"n","uid":"u","labels":{"a":"}\""},"x":[{}]}}"#;
        let labels = scan_object(json.as_bytes()).expect("an object").labels;
        assert_eq!(&json[labels.start as usize..labels.end as usize], r#""a":"}\"""#);
    }

    #[test]
    fn selected_fields_are_decoded_before_and_after_the_metadata() {
        let check = |json: &str, fields: &[&str], expect: Option<&str>| {
            let projection = Projection::of(fields.iter().copied());
            let read = scan_object_with_fields(json.as_bytes(), &projection);
            assert_eq!(
                read.as_ref().map(|(offsets, _)| offsets.clone()),
                read.as_ref().and(scan_object(json.as_bytes()))
            );
            let read = read.map(|(_, read)| pintle_codec::json::encode(&read.into()));
            assert_eq!(read.as_deref().map(String::from_utf8_lossy).as_deref(), expect, "{json}");
        };
        let head = r#"{"apiVersion":"v1","data":{"a":1,"b":2},"kind":"A","metadata":{"name":"n","uid":"u"}"#;
        let object = format!(r#"{head},"spec":{{"c":3,"d":4}}}}"#);
        check(&object, &["data.b", "spec.c"], Some(r#"{"data":{"b":2},"spec":{"c":3}}"#));
        check(
            &object,
            &["data.b", "kind", "metadata.name"],
            Some(r#"{"data":{"b":2},"kind":"A","metadata":{"name":"n"}}"#),
        );
        check(&object, &["spec.x", "status.y"], Some(r#"{"spec":{}}"#));
        check(&format!("{head},"), &["data.b"], Some(r#"{"data":{"b":2}}"#));
        check(&format!("{head},"), &["spec.c"], None);
        check(&format!(r#"{head},"spec":{{"c":3"#), &["spec.c"], None);
        check(r#"{"kind":"A","apiVersion":"v1","spec":{"c":3}}"#, &["spec.c"], None);
    }

    #[test]
    fn json_without_a_uid_or_a_type_and_truncated_json_are_rejected() {
        for json in [
            "",
            "{",
            "[]",
            r#"{"kind":"A","apiVersion":"v1","metadata":{}}"#,
            r#"{"kind":"A","apiVersion":"v1","metadata":{"uid":"#,
            r#"{"a":"\"#,
            r#"{"metadata":{"uid":"u"}}"#,
            r#"{"kind":"A","metadata":{"uid":"u"}}"#,
            r#"{"apiVersion":"v1","kind":"","metadata":{"uid":"u"}}"#,
            r#"{"apiVersion":null,"kind":"A","metadata":{"uid":"u"}}"#,
        ] {
            assert_eq!(scan_object(json.as_bytes()), None, "{json}");
        }
    }
}
