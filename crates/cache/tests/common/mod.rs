//! Helpers of several tests: an indexer that indexes nothing, and a cache.

use std::sync::Arc;

use pintle_cache::{Cache, CorruptReason, EncodingCache, HistoryLimits, Indexer, ObjectIndex};
use pintle_store::{Store, SystemClock};
use pintle_value::Str;

/// An indexer that indexes nothing.
pub(crate) struct NullIndexer;

impl Indexer for NullIndexer {
    fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, CorruptReason> {
        Ok(ObjectIndex::default())
    }
}

/// A cache of these collections. Its history limits are too large to matter.
pub(crate) async fn load(store: Arc<dyn Store>, prefixes: &[&str], indexer: impl Indexer) -> Cache {
    let prefixes: Vec<Str> = prefixes.iter().copied().map(Str::from).collect();
    let clock = Arc::new(SystemClock);
    let load = Cache::load(store, "/registry", prefixes, Arc::new(indexer), clock, HistoryLimits::default());
    load.await.expect("a cache").follow([], EncodingCache::new(0))
}
