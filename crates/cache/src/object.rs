//! What the log holds: objects as finished bytes, and the events that changed them.

use bytes::Bytes;
use parking_lot::Mutex;
use pintle_value::Str;

/// What selection and splicing need to know of an object without parsing it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Where in the JSON `"resourceVersion":"…",` goes.
    pub version_at: u32,
    /// Where the JSON of an item of a typed list starts: after the opening brace, kind and apiVersion.
    pub item_at: u32,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(Str, Str)>,
    /// The values of the kind's selectable fields, in the kind's order.
    pub fields: Vec<Str>,
}

impl Outline {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok().map(|i| self.labels[i].1.as_str())
    }
}

/// One version of one object.
#[derive(Debug)]
pub struct Object {
    /// `namespace/name`, or `name` in the cluster's scope.
    pub key: Str,
    /// The revision that made this version: its resourceVersion.
    pub revision: u64,
    /// JSON at the hub version, without the resourceVersion.
    pub json: Bytes,
    /// What is known of it without parsing.
    pub outline: Outline,
}

impl Object {
    /// The namespace, or `""`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(self.key.as_str(), |(_, name)| name)
    }

    /// The finished JSON with a resourceVersion, from `start` (0, or [`Outline::item_at`]) on, appended to `out`.
    pub fn write_json(&self, start: u32, revision: u64, out: &mut Vec<u8>) {
        let split = (self.outline.version_at as usize).min(self.json.len());
        let start = (start as usize).min(split);
        out.extend_from_slice(&self.json[start..split]);
        out.extend_from_slice(b"\"resourceVersion\":\"");
        push_decimal(out, revision);
        out.extend_from_slice(b"\",");
        out.extend_from_slice(&self.json[split..]);
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKey(pub u32);

/// A finished form of an event, shared by all watchers that want it.
pub type Frame = Bytes;

/// One committed change of one key.
#[derive(Debug)]
pub struct Event {
    /// `namespace/name`, or `name` in the cluster's scope.
    pub key: Str,
    /// The revision of the change.
    pub revision: u64,
    /// The object after it; `None` for a deletion.
    pub object: Option<std::sync::Arc<Object>>,
    /// The object before it; `None` for a creation.
    pub previous: Option<std::sync::Arc<Object>>,
    /// `None` once the event is too old to keep any.
    frames: Mutex<Option<Vec<(FrameKey, Frame)>>>,
}

impl Event {
    /// A change.
    #[must_use]
    pub fn new(
        key: Str,
        revision: u64,
        object: Option<std::sync::Arc<Object>>,
        previous: Option<std::sync::Arc<Object>>,
    ) -> Self {
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

    /// About how long a finished form is.
    pub(crate) fn frame_length(&self) -> usize {
        100 + self.object.as_ref().or(self.previous.as_ref()).map_or(0, |object| object.json.len())
    }

    /// How many bytes of objects the event keeps alive beyond the newest ones, for the window's budget.
    #[must_use]
    pub fn weight(&self) -> usize {
        200 + self.previous.as_ref().map_or(0, |o| o.json.len())
    }
}
