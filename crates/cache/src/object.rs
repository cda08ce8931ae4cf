//! The content of the watch cache: objects as encoded bytes, and the events that changed them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pintle_locks::Mutex;
use pintle_value::Str;

use crate::Key;
use crate::encoding_cache::Encoding;
use crate::selectable_values::SelectableValues;

/// The data that selectors and encoders use without decoding the object. Every object in memory has an index, so it
/// holds offsets into the JSON instead of copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectIndex {
    /// The offset in the JSON at which the resourceVersion is inserted: the start of a member of the metadata, or its
    /// closing brace.
    pub resource_version_offset: u32,
    /// The offset at which the JSON of an item of a typed list starts: after the opening brace, kind and apiVersion.
    pub item_offset: u32,
    /// The start and end offset of the members of `metadata.labels`, without the braces.
    pub labels: (u32, u32),
    /// The values of the kind's selectable fields, in the order of the kind.
    pub fields: SelectableValues,
}

/// One version of an object.
#[derive(Debug)]
pub struct Object {
    /// `namespace/name`, or `name` if the kind is cluster-scoped.
    pub key: Key,
    /// The revision that wrote this version: its resourceVersion.
    pub revision: u64,
    /// The JSON at the storage version, without the resourceVersion. Its memory is exactly as large as the JSON.
    pub json: Box<[u8]>,
    /// The index of the object.
    pub index: ObjectIndex,
    /// The cached encoding in another format, at the same version and with the resourceVersion.
    pub encoding: Encoding,
}

impl Object {
    /// Creates a version of an object. Takes the JSON without a copy if nobody shares it; otherwise copies it.
    #[must_use]
    pub fn new(key: Key, revision: u64, json: Bytes, index: ObjectIndex) -> Self {
        let json = Vec::from(json).into_boxed_slice();
        Self { key, revision, json, index, encoding: Encoding::default() }
    }

    /// Sets whether the stored form of the object is stale.
    #[must_use]
    pub(crate) fn with_stale(mut self, stale: bool) -> Self {
        self.encoding.object_is_stale = stale;
        self
    }

    /// True if the stored form of the object is stale, for example encrypted with an old key. An update must write the
    /// object even if it does not change (upstream: `objState.stale` in the etcd3 store's `GuaranteedUpdate`).
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.encoding.object_is_stale
    }

    /// The namespace; empty if the kind is cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> &str {
        namespace_of(&self.key)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// The uid. Its member is next to the offset of the resourceVersion. Empty if the stored object has none.
    #[must_use]
    pub fn uid(&self) -> &str {
        let offset = (self.index.resource_version_offset as usize).min(self.json.len());
        let (before, after) = self.json.split_at(offset);
        const MEMBER: &[u8] = b"\"uid\":\"";
        // In declaration order, the uid precedes the resourceVersion.
        let value = match after.strip_prefix(MEMBER) {
            Some(value) => memchr::memchr(b'"', value).map(|end| &value[..end]),
            None => before.strip_suffix(b",").unwrap_or(before).strip_suffix(b"\"").and_then(|before| {
                let start = memchr::memrchr(b'"', before)? + 1;
                before[..start].ends_with(MEMBER).then(|| &before[start..])
            }),
        };
        value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let (_, value) = self.label_bytes().find(|(name, _)| *name == key.as_bytes())?;
        std::str::from_utf8(value).ok()
    }

    /// The labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = |bytes| std::str::from_utf8(bytes).ok();
        self.label_bytes().map_while(move |(name, value)| Some((text(name)?, text(value)?)))
    }

    fn label_bytes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (start, end) = self.index.labels;
        let mut rest = self.json.get(start as usize..end as usize).unwrap_or_default();
        // Neither keys nor values of labels contain characters that JSON escapes.
        std::iter::from_fn(move || {
            let member = rest.strip_prefix(b"\"")?;
            let name = &member[..memchr::memchr(b'"', member)?];
            let value = member.get(name.len() + 3..)?;
            let value = &value[..memchr::memchr(b'"', value)?];
            // Skip the name, `":"`, the value, `"` and the comma.
            rest = member.get(name.len() + value.len() + 5..).unwrap_or_default();
            Some((name, value))
        })
    }

    /// The value of a selectable field, by its index in the order of the kind.
    #[must_use]
    pub fn field(&self, index: usize) -> &str {
        self.index.fields.get(index)
    }

    /// Appends the JSON with a resourceVersion to `out`. It begins at the offset `start` (0 or
    /// [`ObjectIndex::item_offset`]).
    pub fn write_json(&self, start: u32, revision: u64, out: &mut Vec<u8>) {
        self.write_json_range(start as usize..self.json.len(), revision, out);
    }

    /// Appends a part of the JSON with a resourceVersion to `out`. The part contains the resourceVersion's offset.
    pub fn write_json_range(&self, part: Range<usize>, revision: u64, out: &mut Vec<u8>) {
        let end = part.end.min(self.json.len());
        let split = (self.index.resource_version_offset as usize).min(end);
        let start = part.start.min(split);
        self.index.write_with_resource_version(&self.json, start..split, out, |out| {
            out.push(b'"');
            push_decimal(out, revision);
            out.push(b'"');
        });
        out.extend_from_slice(&self.json[split..end]);
    }
}

impl ObjectIndex {
    /// Appends a part of the JSON that ends at the resourceVersion's offset, and then the resourceVersion. `write`
    /// appends its value.
    pub fn write_with_resource_version(
        &self,
        json: &[u8],
        part: Range<usize>,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let is_last = json.get(part.end).is_none_or(|next| *next == b'}');
        let is_first = json[..part.end].last() == Some(&b'{');
        out.extend_from_slice(&json[part]);
        if is_last && !is_first {
            out.push(b',');
        }
        out.extend_from_slice(b"\"resourceVersion\":");
        write(out);
        if !is_last {
            out.push(b',');
        }
    }
}

/// The namespace of a key; empty if the kind is cluster-scoped.
pub(crate) fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Appends a number in decimal digits.
fn push_decimal(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Identifies one encoded frame of an event. The encoder chooses the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameKey {
    /// The format and the content.
    pub format: u32,
    /// The group and version of the object, if they differ from its storage version.
    pub version: Option<[Str; 2]>,
}

/// The encoded frame of an event, shared by all watchers that need it.
pub type Frame = Bytes;

/// One committed change of one key.
#[derive(Debug)]
pub struct Event {
    /// `namespace/name`, or `name` if the kind is cluster-scoped.
    pub key: Key,
    /// The revision of the change.
    pub revision: u64,
    /// The object after the change; `None` for a deletion.
    pub object: Option<Arc<Object>>,
    /// The object before the change; `None` for a creation.
    pub previous: Option<Arc<Object>>,
    /// `None` once the event is too old to keep frames.
    frames: Mutex<Option<Vec<(FrameKey, Frame)>>>,
}

impl Event {
    /// Creates an event.
    #[must_use]
    pub fn new(key: Key, revision: u64, object: Option<Arc<Object>>, previous: Option<Arc<Object>>) -> Self {
        Self { key, revision, object, previous, frames: Mutex::new(Some(Vec::new())) }
    }

    /// Creates an event that keeps no frames.
    pub(crate) fn without_frames(
        key: Key,
        revision: u64,
        object: Option<Arc<Object>>,
        previous: Option<Arc<Object>>,
    ) -> Self {
        Self { key, revision, object, previous, frames: Mutex::new(None) }
    }

    /// The frame of this key. The first caller makes the frame with `render`. If the event is too old to keep frames,
    /// every caller makes its own.
    pub fn frame(&self, key: FrameKey, render: impl FnOnce() -> Frame) -> Frame {
        let find = |frames: &Option<Vec<(FrameKey, Frame)>>| {
            frames.iter().flatten().find(|(k, _)| *k == key).map(|(_, frame)| frame.clone())
        };
        if let Some(frame) = find(&self.frames.lock()) {
            return frame;
        }
        // The frame is rendered without the lock: two watchers may both render it, but neither waits for the other.
        let frame = render();
        let mut frames = self.frames.lock();
        if let Some(first) = find(&frames) {
            return first;
        }
        if let Some(frames) = &mut *frames {
            frames.push((key, frame.clone()));
        }
        frame
    }

    /// Drops the frames and keeps none from now on.
    pub(crate) fn drop_frames(&self) {
        let frames = self.frames.lock().take();
        drop(frames);
    }

    /// The approximate size of the event and its objects in a watch buffer.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.retained_bytes() + self.object.as_ref().map_or(0, |o| o.json.len())
    }

    /// The approximate size of a frame.
    pub(crate) fn frame_size(&self) -> usize {
        100 + self.object.as_ref().or(self.previous.as_ref()).map_or(0, |object| object.json.len())
    }

    /// The approximate memory that the event retains besides the newest objects, for the history limits.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        200 + self.previous_bytes()
    }

    /// The approximate size of the object before the change.
    pub(crate) fn previous_bytes(&self) -> usize {
        self.previous.as_ref().map_or(0, |previous| 200 + previous.json.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, key: &str, expect: Option<&str>) {
        let start = json.find('{').unwrap() + 1;
        let labels = (start as u32, json.len() as u32 - 1);
        let index = ObjectIndex { labels, ..ObjectIndex::default() };
        let object = Object::new("k".into(), 1, Bytes::copy_from_slice(json.as_bytes()), index);
        assert_eq!(object.label(key), expect, "{key} of {json}");
    }

    #[test]
    fn the_stale_flag_costs_no_memory() {
        let object = Object::new("k".into(), 1, Bytes::new(), ObjectIndex::default());
        assert!(!object.is_stale() && object.with_stale(true).is_stale());
        let fields = size_of::<Key>() + size_of::<u64>() + size_of::<Box<[u8]>>() + size_of::<ObjectIndex>();
        // Without the stale flag, an encoding would be a mutex (8 bytes with padding) around a length and a pointer (16
        // bytes with a tag).
        assert_eq!(size_of::<Object>(), fields + 24);
        // With the counts of an `Arc` the object fits into an allocation of 112 bytes; the next allocation size is 128.
        assert!(size_of::<Object>() <= 112 - 16);
    }

    #[test]
    fn labels_are_read_from_the_json() {
        let json = r#"{"a":"1","app.kubernetes.io/name":"web","e":"","z":"a"}"#;
        for (key, value) in
            [("a", Some("1")), ("app.kubernetes.io/name", Some("web")), ("e", Some("")), ("z", Some("a"))]
        {
            check(json, key, value);
        }
        for key in ["", "1", "web", "app", "b"] {
            check(json, key, None);
        }
        check("{}", "a", None);
        // Malformed text is never read beyond its end.
        for json in [r#"{"a}"#, r#"{"a"}"#, r#"{"a":}"#, r#"{"a":"}"#, "{1}"] {
            check(json, "a", None);
            check(json, "b", None);
        }
    }

    #[test]
    fn the_resource_version_is_inserted_anywhere_in_the_metadata() {
        for (json, expect) in [
            (r#"{"metadata":{^"uid":"u"}}"#, r#"{"metadata":{"resourceVersion":"7","uid":"u"}}"#),
            (r#"{"metadata":{"uid":"u",^"a":1}}"#, r#"{"metadata":{"uid":"u","resourceVersion":"7","a":1}}"#),
            (r#"{"metadata":{"uid":"u"^}}"#, r#"{"metadata":{"uid":"u","resourceVersion":"7"}}"#),
            (r#"{"metadata":{^},"a":1}"#, r#"{"metadata":{"resourceVersion":"7"},"a":1}"#),
        ] {
            let offset = json.find('^').unwrap() as u32;
            let index = ObjectIndex { resource_version_offset: offset, ..ObjectIndex::default() };
            let object = Object::new("k".into(), 7, json.replace('^', "").into(), index);
            let mut out = Vec::new();
            object.write_json(0, 7, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expect);
            // A part that begins at the offset, and a part that ends at it.
            let mut out = Vec::new();
            let offset = offset as usize;
            object.write_json_range(offset..offset, 7, &mut out);
            assert!(String::from_utf8_lossy(&out).contains(r#""resourceVersion":"7""#));
        }
    }

    #[test]
    fn the_uid_is_a_neighbour_of_the_resource_version() {
        // `^` marks the offset of the resourceVersion, in declaration order and in sorted order.
        for (json, expect) in [
            (r#"{"metadata":{"name":"a","uid":"u",^"labels":{}}}"#, "u"),
            (r#"{"metadata":{"name":"a",^"uid":"u"}}"#, "u"),
            (r#"{"metadata":{"name":"a",^"selfLink":"","uid":"u"}}"#, ""),
            (r#"{"metadata":{"name":"a","uid":"u"^}}"#, "u"),
            (r#"{"metadata":{"name":"a",^"labels":{}}}"#, ""),
            (r#"{"metadata":{"name":"a"^}}"#, ""),
            (r#"{"metadata":{^}}"#, ""),
            (r#"{"metadata":{"uid":"",^"labels":{}}}"#, ""),
            (r#"^{"#, ""),
        ] {
            let offset = json.find('^').unwrap() as u32;
            let index = ObjectIndex { resource_version_offset: offset, ..ObjectIndex::default() };
            let json = json.replace('^', "");
            let object = Object::new("k".into(), 1, Bytes::copy_from_slice(json.as_bytes()), index);
            assert_eq!(object.uid(), expect, "{json}");
        }
    }
}
