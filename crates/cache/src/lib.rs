//! The event log, which is the truth in memory: for every stored collection one ordered log of committed changes and
//! one ordered map from key to its versions, filled from the store's feed. Gets, lists at any revision of the window
//! and watches are all answered from here; nothing here knows HTTP or what an object means.

mod broken;
mod cache;
mod counts;
mod encodings;
mod fields;
mod frames;
mod log;
mod object;
mod progress;
mod watcher;

pub use broken::Broken;
pub use cache::{Cache, CacheError, Describe, Filled, Pin, Tap, Tapped, Window};
pub use encodings::{Encoding, Encodings};
pub use fields::Fields;
pub use log::{KeyRange, Log, Page, TooOld};
pub use object::{Event, Frame, FrameKey, Key, Object, Outline};
pub use watcher::{Scope, Watcher};
