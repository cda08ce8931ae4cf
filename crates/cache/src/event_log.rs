//! The entries of a watch cache's log. An entry holds an event, or the key whose versions contain the event.

use std::sync::Arc;

use crate::event_summary::EventSummary;
use crate::packed_version::{FoundVersion, UnpackedObjects};
use crate::{Event, Key};

/// An event in the log.
#[derive(Debug)]
pub(crate) struct LogEntry {
    pub(crate) revision: u64,
    pub(crate) summary: EventSummary,
    pub(crate) content: LogContent,
}

/// The content that the log keeps of an event.
#[derive(Debug)]
pub(crate) enum LogContent {
    Event(Arc<Event>),
    /// The key. The versions of the key tell the rest.
    Packed(Key),
}

impl LogEntry {
    pub(crate) fn new(event: Arc<Event>) -> Self {
        Self { revision: event.revision, summary: EventSummary::of(&event), content: LogContent::Event(event) }
    }

    pub(crate) fn key(&self) -> &Key {
        match &self.content {
            LogContent::Event(event) => &event.key,
            LogContent::Packed(key) => key,
        }
    }

    /// True if the entry holds this event.
    pub(crate) fn is(&self, event: &Event) -> bool {
        matches!(&self.content, LogContent::Event(own) if std::ptr::eq(&raw const **own, event))
    }

    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.content, LogContent::Packed(_))
    }
}

/// An event that was found in the log, or the packed versions from which it is made. The event is made without a lock.
pub(crate) enum FoundEvent {
    Event(Arc<Event>),
    Packed { key: Key, revision: u64, object: Option<FoundVersion>, previous: Option<FoundVersion> },
}

impl FoundEvent {
    /// The approximate size of the objects that must be made for the event.
    pub(crate) fn packed_bytes(&self) -> usize {
        match self {
            Self::Event(_) => 0,
            Self::Packed { object, previous, .. } => object.iter().chain(previous).map(FoundVersion::json_length).sum(),
        }
    }

    pub(crate) fn into_event(self, unpacked: &mut UnpackedObjects) -> Arc<Event> {
        match self {
            Self::Event(event) => event,
            Self::Packed { key, revision, object, previous } => {
                let object = object.map(|found| found.into_object_with(unpacked));
                let previous = previous.map(|found| found.into_object_with(unpacked));
                Arc::new(Event::without_frames(key, revision, object, previous))
            }
        }
    }

    /// The events, in their order. They are made from the newest to the oldest, because each object is made from the
    /// next version.
    pub(crate) fn into_events(found: Vec<Self>) -> Vec<Arc<Event>> {
        let mut unpacked = UnpackedObjects::default();
        let mut events: Vec<_> = found.into_iter().rev().map(|found| found.into_event(&mut unpacked)).collect();
        events.reverse();
        events
    }
}
