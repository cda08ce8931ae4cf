//! What the log holds: objects as finished bytes, and the events that changed them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pintle_value::Str;

use crate::encoding_cache::Encoding;
use crate::fields::SelectableValues;

/// What selection and splicing need to know of an object without parsing it. There is one for every object in memory, so
/// it holds places in the JSON rather than copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectIndex {
    /// Where in the JSON `"resourceVersion":"…",` goes.
    pub version_at: u32,
    /// Where the JSON of an item of a typed list starts: after the opening brace, kind and apiVersion.
    pub item_at: u32,
    /// Where the members of `metadata.labels` start, after the opening brace, and where they end.
    pub labels: (u32, u32),
    /// The values of the kind's selectable fields, in the kind's order.
    pub fields: SelectableValues,
}

/// The key of an object, shared by all its versions and events.
pub type Key = Arc<str>;

/// One version of one object.
#[derive(Debug)]
pub struct Object {
    /// `namespace/name`, or `name` in the cluster's scope.
    pub key: Key,
    /// The revision that made this version: its resourceVersion.
    pub revision: u64,
    /// JSON at the hub version, without the resourceVersion.
    pub json: Bytes,
    /// What is known of it without parsing.
    pub index: ObjectIndex,
    /// Another encoding of it, at the same version and with the resourceVersion.
    pub encoding: Encoding,
}

impl Object {
    /// A version of an object.
    #[must_use]
    pub fn new(key: Key, revision: u64, json: Bytes, index: ObjectIndex) -> Self {
        Self { key, revision, json, index, encoding: Encoding::default() }
    }

    /// The namespace, or `""`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        namespace_of(&self.key)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let (start, end) = self.index.labels;
        let mut rest = self.json.get(start as usize..end as usize)?;
        // Neither keys nor values of labels hold anything that JSON escapes.
        while let Some(member) = rest.strip_prefix(b"\"") {
            let name = &member[..memchr::memchr(b'"', member)?];
            let value = member.get(name.len() + 3..)?;
            let value = &value[..memchr::memchr(b'"', value)?];
            if name == key.as_bytes() {
                return std::str::from_utf8(value).ok();
            }
            // Behind the name, `":"`, the value, `"` and the comma.
            rest = member.get(name.len() + value.len() + 5..).unwrap_or_default();
        }
        None
    }

    /// The value of a selectable field, by its place in the kind's order.
    #[must_use]
    pub fn field(&self, place: usize) -> &str {
        self.index.fields.get(place)
    }

    /// The finished JSON with a resourceVersion, from `start` (0, or [`ObjectIndex::item_at`]) on, appended to `out`.
    pub fn write_json(&self, start: u32, revision: u64, out: &mut Vec<u8>) {
        self.write_around(start as usize..self.json.len(), revision, out);
    }

    /// A part of the finished JSON that the resourceVersion goes into, with it, appended to `out`.
    pub fn write_part(&self, part: Range<u32>, revision: u64, out: &mut Vec<u8>) {
        self.write_around(part.start as usize..part.end as usize, revision, out);
    }

    fn write_around(&self, part: Range<usize>, revision: u64, out: &mut Vec<u8>) {
        let end = part.end.min(self.json.len());
        let split = (self.index.version_at as usize).min(end);
        let start = part.start.min(split);
        out.extend_from_slice(&self.json[start..split]);
        out.extend_from_slice(b"\"resourceVersion\":\"");
        push_decimal(out, revision);
        out.extend_from_slice(b"\",");
        out.extend_from_slice(&self.json[split..end]);
    }
}

/// The namespace in a key, or `""`.
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

/// Which finished form of an event: chosen by whoever renders it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameKey {
    /// The encoding, and what is shown.
    pub form: u32,
    /// Group and version that the object is shown at, if that is not the one it is stored at.
    pub version: Option<[Str; 2]>,
}

/// A finished form of an event, shared by all watchers that want it.
pub type Frame = Bytes;

/// One committed change of one key.
#[derive(Debug)]
pub struct Event {
    /// `namespace/name`, or `name` in the cluster's scope.
    pub key: Key,
    /// The revision of the change.
    pub revision: u64,
    /// The object after it; `None` for a deletion.
    pub object: Option<Arc<Object>>,
    /// The object before it; `None` for a creation.
    pub previous: Option<Arc<Object>>,
    /// `None` once the event is too old to keep any.
    frames: Mutex<Option<Vec<(FrameKey, Frame)>>>,
}

impl Event {
    /// A change.
    #[must_use]
    pub fn new(key: Key, revision: u64, object: Option<Arc<Object>>, previous: Option<Arc<Object>>) -> Self {
        Self { key, revision, object, previous, frames: Mutex::new(Some(Vec::new())) }
    }

    /// The finished form of this key, made with `render` by the first who asks, or by each who asks once the event is old.
    pub fn frame(&self, key: FrameKey, render: impl FnOnce() -> Frame) -> Frame {
        let find = |frames: &Option<Vec<(FrameKey, Frame)>>| {
            frames.iter().flatten().find(|(k, _)| *k == key).map(|(_, frame)| frame.clone())
        };
        if let Some(frame) = find(&self.frames.lock()) {
            return frame;
        }
        // Made outside the lock: two watchers may both make it once, none waits for the other.
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

    /// Gives up the finished forms and keeps none from now on.
    pub(crate) fn forget_frames(&self) {
        let frames = self.frames.lock().take();
        drop(frames);
    }

    /// About how many bytes the event and its objects take.
    pub(crate) fn size(&self) -> usize {
        self.weight() + self.object.as_ref().map_or(0, |o| o.json.len())
    }

    /// About how long a finished form is.
    pub(crate) fn frame_length(&self) -> usize {
        100 + self.object.as_ref().or(self.previous.as_ref()).map_or(0, |object| object.json.len())
    }

    /// How many bytes of objects the event keeps alive beyond the newest ones, for the window's budget.
    #[must_use]
    pub fn weight(&self) -> usize {
        200 + self.previous.as_ref().map_or(0, |o| 200 + o.json.len())
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
    fn labels_are_read_in_place() {
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
        // Whatever the text is, nothing is read beyond it.
        for json in [r#"{"a}"#, r#"{"a"}"#, r#"{"a":}"#, r#"{"a":"}"#, "{1}"] {
            check(json, "a", None);
            check(json, "b", None);
        }
    }
}
