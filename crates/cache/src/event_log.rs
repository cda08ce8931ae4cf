//! The entries of the log of a watch cache: events, or what the versions of a key tell of them.

use std::sync::Arc;

use crate::packed_version::{FoundVersion, UnpackedObjects};
use crate::{Event, Key};

/// An event in the log.
#[derive(Debug)]
pub(crate) enum LogEntry {
    Event(Arc<Event>),
    /// A change of which the versions of the key tell the rest.
    Packed {
        key: Key,
        revision: u64,
    },
}

impl LogEntry {
    pub(crate) fn revision(&self) -> u64 {
        match self {
            Self::Event(event) => event.revision,
            Self::Packed { revision, .. } => *revision,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        match self {
            Self::Event(event) => &event.key,
            Self::Packed { key, .. } => key,
        }
    }
}

/// An event that was found in the log, or what it is made of, so that nothing is locked while it is made.
pub(crate) enum FoundEvent {
    Event(Arc<Event>),
    Packed { key: Key, revision: u64, object: Option<FoundVersion>, previous: Option<FoundVersion> },
}

impl FoundEvent {
    /// The approximate size of the objects that have to be made for it.
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

    /// The events, in their order. They are made from the newest one on: each object is made of the next one.
    pub(crate) fn into_events(found: Vec<Self>) -> Vec<Arc<Event>> {
        let mut unpacked = UnpackedObjects::default();
        let mut events: Vec<_> = found.into_iter().rev().map(|found| found.into_event(&mut unpacked)).collect();
        events.reverse();
        events
    }
}
