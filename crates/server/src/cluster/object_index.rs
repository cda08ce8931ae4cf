//! Finds the offsets in an object's JSON where the resourceVersion is inserted, where an item of a typed list starts,
//! and where the labels are. One scan skips values without decoding them, except for selected fields.

use std::ops::Range;

use bytes::Bytes;
use pintle_codec::json::{DecodeOptions, JsonCursor, Projection};
use pintle_value::{Object, Str, Value};

/// The offsets that a scan finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectOffsets {
    /// The offset at which the resourceVersion is inserted.
    pub(crate) resource_version_offset: u32,
    /// The offset at which an item of a typed list starts.
    pub(crate) item_offset: u32,
    /// The members of `metadata.labels`; empty if there are none.
    pub(crate) labels: Range<u32>,
    /// True if the object has a uid. Every object that this server stores has a uid.
    pub(crate) has_uid: bool,
}

/// The offsets that a scan finds in the metadata of an object.
struct MetadataOffsets {
    resource_version_offset: u32,
    labels: Range<u32>,
    has_uid: bool,
}

impl ObjectOffsets {
    fn new(metadata: MetadataOffsets, item_offset: u32) -> Self {
        let MetadataOffsets { resource_version_offset, labels, has_uid } = metadata;
        Self { resource_version_offset, item_offset, labels, has_uid }
    }
}

/// Scans the JSON of an object. Returns `None` if the JSON is not an object with metadata. Also returns `None` if no
/// kind and apiVersion precede the metadata, as they do in both orders of members.
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
    let mut is_sorted = false;
    let is_name = |value: &[u8]| value.len() > 2 && value.starts_with(b"\"");
    let mut metadata = None;
    let mut selected = Object::new();
    loop {
        let name = cursor.name()?;
        let wanted = fields.and_then(|fields| fields.member(name));
        let mut member = cursor.clone();
        match name {
            b"metadata" if has_kind && has_version => {
                let found = scan_metadata(&mut cursor, is_sorted, fields.is_none())?;
                if fields.is_none() {
                    return Some((ObjectOffsets::new(found, if before_metadata { item_offset } else { 1 }), selected));
                }
                metadata = Some(found);
            }
            b"metadata" => return None,
            b"kind" => has_kind = is_name(cursor.value()?),
            b"apiVersion" => {
                has_version = is_name(cursor.value()?);
                is_sorted = !has_kind;
            }
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

/// Moves the kind of an object to its start. The prefix of such an object matches no version, so each read prunes it
/// and sets its defaults.
pub(crate) fn with_kind_first(json: &Bytes) -> Bytes {
    match member_with(json, |name| name == b"kind") {
        Some(kind) if kind.start > 1 => {
            [b"{", &json[kind.clone()], b",", &json[1..kind.start - 1], &json[kind.end..]].concat().into()
        }
        _ => json.clone(),
    }
}

/// True if the kind of an object comes first, see [`with_kind_first`].
pub(crate) fn is_kind_first(json: &[u8]) -> bool {
    json.starts_with(b"{\"kind\"")
}

/// Moves the kind of an object to its position among sorted members. This is the inverse of [`with_kind_first`].
pub(crate) fn with_kind_sorted(json: &[u8]) -> Vec<u8> {
    let follows = |name: &[u8]| match memchr::memchr(b'\\', name) {
        None => *name > b"kind"[..],
        // Members are sorted by their names without escapes.
        Some(_) => unescaped(name).is_none_or(|name| name.as_str() > "kind"),
    };
    let kind = member_with(json, |name| name == b"kind").filter(|kind| kind.start == 1);
    let Some(kind) = kind.filter(|kind| json.get(kind.end) == Some(&b',')) else { return json.to_vec() };
    let first = kind.end + 1;
    match member_with(json, follows) {
        Some(next) => [b"{", &json[first..next.start], &json[kind], b",", &json[next.start..]].concat(),
        None => {
            let end = json.len() - 1;
            [b"{", &json[first..end], b",", &json[kind], b"}"].concat()
        }
    }
}

/// A name without its escapes.
fn unescaped(name: &[u8]) -> Option<Str> {
    let text = [b"\"", name, b"\""].concat();
    match pintle_codec::json::decode(&text, DecodeOptions::default()).ok()?.value {
        Value::String(name) => Some(name),
        _ => None,
    }
}

/// The first member of an object whose name, with its escapes, is accepted.
fn member_with(json: &[u8], accepts: impl Fn(&[u8]) -> bool) -> Option<Range<usize>> {
    let mut cursor = JsonCursor::new(json);
    cursor.byte(b'{')?;
    loop {
        let start = cursor.offset();
        let name = cursor.name()?;
        cursor.value()?;
        if accepts(name) {
            return Some(start..cursor.offset());
        }
        cursor.byte(b',')?;
    }
}

/// True if two encodings are equal except for the position of the kind, see [`with_kind_first`].
pub(crate) fn is_same_object(a: &Bytes, b: &[u8]) -> bool {
    let may_be_same = a.len() == b.len() && is_kind_first(a) != is_kind_first(b);
    a == b || (may_be_same && with_kind_first(a) == with_kind_first(&Bytes::copy_from_slice(b)))
}

/// Returns the offset of the resourceVersion in `metadata`, and the labels. In declaration order the resourceVersion
/// follows the uid; in sorted order it precedes the uid. If there is a uid, it is a neighbour. `is_sorted` is true if
/// the members of the object are sorted. Otherwise the members of the metadata may still be sorted, see
/// [`with_kind_first`]. If the caller does not use the rest, the cursor may stay within the metadata.
fn scan_metadata(cursor: &mut JsonCursor<'_>, is_sorted: bool, is_rest_unused: bool) -> Option<MetadataOffsets> {
    cursor.byte(b'{')?;
    let mut sorted = is_sorted;
    let mut first = true;
    let mut labels = 0..0;
    // The start and the end of the member `uid`.
    let mut uid = None;
    let mut self_link = None;
    // The start of the members that follow the resourceVersion in declaration order.
    let mut declared = None;
    while cursor.peek()? != b'}' || !first {
        let start = offset(cursor)?;
        let name = cursor.name()?;
        let precedes = matches!(name, b"name" | b"generateName" | b"namespace" | b"selfLink" | b"uid");
        if first {
            // In sorted order, other members precede the name.
            sorted |= !precedes;
        }
        first = false;
        if !precedes {
            declared.get_or_insert(start);
        }
        if name == b"managedFields" && !sorted && is_rest_unused {
            // In declaration order nothing follows `managedFields`, which is often half of the object.
            let after_uid = |(_, end): (u32, u32)| end + 1;
            let resource_version_offset = uid.map(after_uid).or(declared)?;
            return Some(MetadataOffsets { resource_version_offset, labels, has_uid: uid.is_some() });
        }
        let value = offset(cursor)?;
        cursor.value()?;
        match name {
            b"uid" => uid = Some((start, offset(cursor)?)),
            // Only results of dry runs have a `selfLink`.
            b"selfLink" => self_link = Some(start),
            b"labels" => labels = value + 1..offset(cursor)?.checked_sub(1)?,
            _ => {}
        }
        if cursor.byte(b',').is_none() {
            break;
        }
    }
    let end = offset(cursor)?;
    cursor.byte(b'}')?;
    let resource_version_offset = match uid {
        Some((start, _)) if sorted => self_link.unwrap_or(start),
        // The offset is after the comma, if other members follow.
        Some((_, after)) => (after + 1).min(end),
        None if is_sorted => self_link.unwrap_or(end),
        None => declared.unwrap_or(end),
    };
    Some(MetadataOffsets { resource_version_offset, labels, has_uid: uid.is_some() })
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
        check(
            r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"n","ownerReferences":[],"uid":"u"}}"#,
            r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"n","ownerReferences":[],"rv","uid":"u"}}"#,
            r#""metadata":{"name":"n","ownerReferences":[],"uid":"u"}}"#,
        );
    }

    /// Upstream serves such objects. Only other programs can have stored them.
    #[test]
    fn objects_without_a_uid_have_an_offset() {
        for (metadata, expect) in [
            ("{}", ["{^}", "{^}"]),
            (r#"{"name":"n"}"#, [r#"{"name":"n"^}"#, r#"{"name":"n"^}"#]),
            (r#"{"name":"n","labels":{}}"#, [r#"{"name":"n",^"labels":{}}"#, r#"{"name":"n","labels":{}^}"#]),
            (r#"{"labels":{},"name":"n"}"#, [r#"{^"labels":{},"name":"n"}"#, r#"{"labels":{},"name":"n"^}"#]),
            (r#"{"generation":1}"#, [r#"{^"generation":1}"#, r#"{"generation":1^}"#]),
            (r#"{"name":"n","uid":"u"}"#, [r#"{"name":"n","uid":"u"^}"#, r#"{"name":"n",^"uid":"u"}"#]),
            (r#"{"uid":"u"}"#, [r#"{"uid":"u"^}"#, r#"{^"uid":"u"}"#]),
            (
                r#"{"name":"n","managedFields":[]}"#,
                [r#"{"name":"n",^"managedFields":[]}"#, r#"{"name":"n","managedFields":[]^}"#],
            ),
        ] {
            let heads =
                [r#"{"kind":"A","apiVersion":"v1","metadata":"#, r#"{"apiVersion":"v1","kind":"A","metadata":"#];
            for (head, expect) in heads.into_iter().zip(expect) {
                let mut json = format!("{head}{metadata},\"x\":1}}");
                let found = scan_object(json.as_bytes()).expect("an object").resource_version_offset;
                json.insert(found as usize, '^');
                assert_eq!(json, format!("{head}{expect},\"x\":1}}"));
            }
        }
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
            let moved = with_kind_first(&Bytes::from_static(json.as_bytes()));
            assert_eq!(moved, expect.as_bytes());
            let is_sorted = json.starts_with(r#"{"apiVersion""#);
            assert_eq!(
                with_kind_sorted(&moved),
                if is_sorted { json } else { r#"{"apiVersion":"a/v1","kind":"A"}"# }.as_bytes()
            );
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
    fn json_without_metadata_or_a_type_and_truncated_json_are_rejected() {
        for json in [
            "",
            "{",
            "[]",
            r#"{"kind":"A","apiVersion":"v1"}"#,
            r#"{"kind":"A","apiVersion":"v1","metadata":[]}"#,
            r#"{"kind":"A","apiVersion":"v1","metadata":{"uid":"#,
            r#"{"kind":"A","apiVersion":"v1","metadata":{"uid":"u","#,
            r#"{"kind":"A","apiVersion":"v1","metadata":{"uid":"u",}}"#,
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
