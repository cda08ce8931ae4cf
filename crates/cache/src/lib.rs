//! The watch cache: for every stored collection a log of events and a map from key to its versions, updated from the
//! store's change feed. Gets, lists at any retained revision and watches are served from it (upstream:
//! `k8s.io/apiserver/pkg/storage/cacher`). It knows neither HTTP nor the meaning of an object.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pintle_cache::{Cache, CorruptReason, EncodingCache, HistoryLimits, Indexer, ObjectIndex};
//! use pintle_store::{Change, MemoryStore, Store, SystemClock};
//!
//! struct NoIndex;
//!
//! impl Indexer for NoIndex {
//!     fn index(&self, _prefix: &str, _json: &[u8]) -> Result<ObjectIndex, CorruptReason> {
//!         Ok(ObjectIndex::default())
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let store = Arc::new(MemoryStore::new());
//!     let (indexer, clock, limits) = (Arc::new(NoIndex), Arc::new(SystemClock), HistoryLimits::default());
//!     let load = Cache::load(store.clone(), "/registry", ["pods".into()], indexer, clock, limits).await;
//!     let cache = load.expect("the store answers").follow([], EncodingCache::new(0));
//!
//!     let revision = store.commit(Change::create("/registry/pods/default/a", "{}")).await.expect("a new key");
//!     cache.wait_until_fresh(revision.get()).await;
//!     let pods = cache.watch_cache("pods").expect("a loaded collection");
//!     assert!(pods.get("default/a", None).expect("the present is readable").is_some());
//! }
//! ```

mod cache;
mod chunked_queue;
mod compressed_blocks;
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
pub use compressed_blocks::{CompressedBlocks, GzipStream};
pub use corrupt::{CorruptObject, CorruptReason};
pub use encoding_cache::{Encoding, EncodingCache};
pub use key::Key;
pub use object::{Event, Frame, FrameKey, Object, ObjectIndex};
pub use selectable_values::SelectableValues;
pub use watch_cache::{KeyRange, ObjectPage, TooOld, WatchCache, WatchCacheStats};
pub use watcher::{WatchScope, Watcher};
