//! The event log, which is the truth in memory: for every stored collection one ordered log of committed changes and
//! one ordered map from key to its versions, filled from the store's feed. Gets, lists at any revision of the window
//! and watches are all answered from here; nothing here knows HTTP or what an object means.

mod cache;
mod corrupt;
mod counts;
mod encoding_cache;
mod fields;
mod frames;
mod object;
mod progress;
mod watch_cache;
mod watcher;

pub use cache::{Cache, CacheError, EventStream, HistoryLimits, Indexer, LoadedCache, RevisionPin, StreamedEvent};
pub use corrupt::CorruptObject;
pub use encoding_cache::{Encoding, EncodingCache};
pub use fields::SelectableValues;
pub use object::{Event, Frame, FrameKey, Key, Object, ObjectIndex};
pub use watch_cache::{KeyRange, Page, TooOld, WatchCache};
pub use watcher::{WatchScope, Watcher};
