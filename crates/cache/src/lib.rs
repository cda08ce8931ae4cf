//! The watch cache: for every stored collection a log of events and a map from key to its versions, updated from the
//! store's change feed. Gets, lists at any retained revision and watches are served from it (upstream:
//! `k8s.io/apiserver/pkg/storage/cacher`). It knows neither HTTP nor the meaning of an object.

mod cache;
mod chunked_queue;
mod corrupt;
mod difference;
mod encoding_cache;
mod event_log;
mod event_summary;
mod frame_budget;
mod key;
mod object;
mod object_versions;
mod packed_version;
mod progress;
mod remaining_counts;
mod selectable_values;
mod watch_cache;
mod watcher;

pub use cache::{
    Cache, CacheError, EventStream, FEED_TASK, HistoryLimits, HistoryStats, Indexer, LoadedCache, RevisionPin,
    StreamedEvent,
};
pub use corrupt::CorruptObject;
pub use encoding_cache::{Encoding, EncodingCache};
pub use key::Key;
pub use object::{Event, Frame, FrameKey, Object, ObjectIndex};
pub use selectable_values::SelectableValues;
pub use watch_cache::{KeyRange, ObjectPage, TooOld, WatchCache, WatchCacheStats};
pub use watcher::{WatchScope, Watcher};
