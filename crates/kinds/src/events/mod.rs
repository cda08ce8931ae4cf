//! Strategies for events. The core group and `events.k8s.io` serve the same objects, which are stored as core events.

mod convert;
pub(crate) mod event;
