//! The cache of a logical cluster: its watch caches, updated in order from the store's change feed, with a bounded
//! history.

mod event_stream;
mod history;
mod load;
mod recover;
mod undecrypted;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use pintle_locks::{Mutex, RwLock};
use pintle_store::{ChangeBatch, Clock, KeyInterval, Store, StoredChange, Timestamp};
use pintle_supervisor::BackgroundTask;
use pintle_value::Str;
use tokio::task::JoinHandle;

pub use self::event_stream::{EventStream, StreamedEvent};
use self::history::{EventHistory, PACK_BATCH, PACKED_PER_CHANGE};
pub use self::load::LoadedCache;
use crate::encoding_cache::EncodingCache;
use crate::progress::Progress;
use crate::watch_cache::{NewState, PendingChange, WatchCache};
use crate::{CorruptReason, Event, Key, Object, ObjectIndex};

/// The name of the task that follows the store's change feed.
pub const FEED_TASK: &str = "watch-cache";
/// The maximum number of changes that are appended to a watch cache under one lock.
const MAX_RUN: usize = 64;
/// How much a pin may retain beyond the history limits. A list fails if it takes longer, or if more is written during
/// it.
const PINNED_EXTRA: HistoryLimits = HistoryLimits { duration: Duration::from_secs(300), bytes: 256 << 20 };

/// Extracts from stored values the data that the cache needs. It runs once per change, outside the commit path.
pub trait Indexer: Send + Sync + 'static {
    /// Returns the form in which the cache keeps a stored value. It is called for the changes of a collection in their
    /// order, and before [`index`](Self::index).
    fn kept(&self, _prefix: &str, _key: &str, _revision: u64, value: Bytes) -> Bytes {
        value
    }

    /// Returns the index of a stored object, which selectors and encoders use.
    ///
    /// # Errors
    /// Returns an error if the value is not an object that can be served. Reads of it fail with this text.
    fn index(&self, prefix: &str, value: &[u8]) -> Result<ObjectIndex, CorruptReason>;
}

impl dyn Indexer {
    /// The state of a key after a change.
    fn index_change(&self, prefix: &str, key: &Key, revision: u64, value: Option<Bytes>, stale: bool) -> NewState {
        let Some(value) = value else { return NewState::Deleted };
        let value = self.kept(prefix, key, revision, value);
        match self.index(prefix, &value) {
            Ok(index) => NewState::Object(Object::new(key.clone(), revision, value, index).with_stale(stale)),
            Err(error) => {
                // The store has logged which values cannot be decrypted.
                if !error.is_encrypted {
                    let key = format!("{prefix}/{key}");
                    tracing::error!(key, revision, error = &*error.text, "Failed to decode a stored object");
                }
                NewState::Corrupt(error)
            }
        }
    }
}

/// How much history is retained in memory. The limit that is reached first applies.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// The maximum age of an event.
    pub duration: Duration,
    /// The maximum size of the objects that only the history retains. The oldest events are dropped first.
    pub bytes: usize,
}

impl HistoryLimits {
    /// The sum of both limits.
    fn plus(self, other: HistoryLimits) -> HistoryLimits {
        HistoryLimits {
            duration: self.duration.saturating_add(other.duration),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { duration: Duration::from_secs(300), bytes: 256 << 20 }
    }
}

/// The numbers of the history that all watch caches share, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryStats {
    /// The number of events.
    pub events: usize,
    /// The size of the objects that only the history retains, in bytes.
    pub retained_bytes: usize,
    /// The age of the oldest event; zero if there is none. For a packed run of events it is the age of the newest event
    /// in the run, which is at most about three seconds younger.
    pub oldest_age: Duration,
}

/// The cache cannot be loaded from the store.
#[derive(Debug)]
pub struct CacheError(String);

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CacheError {}

impl From<pintle_store::Error> for CacheError {
    fn from(error: pintle_store::Error) -> Self {
        Self(error.to_string())
    }
}

/// The watch caches of a logical cluster.
pub struct Cache {
    shared: Arc<CacheState>,
    encoding_cache: Arc<EncodingCache>,
    feeder: JoinHandle<()>,
}

struct CacheState {
    store: Arc<dyn Store>,
    root: String,
    indexer: Arc<dyn Indexer>,
    clock: Arc<dyn Clock>,
    history_limits: HistoryLimits,
    progress: Progress,
    watch_caches: RwLock<WatchCaches>,
    start_revision: u64,
    history: Mutex<EventHistory>,
    pins: Arc<Mutex<BTreeMap<u64, usize>>>,
    /// The task that follows the change feed. It counts as failed while the feed cannot be read or changes are missing.
    feed_task: BackgroundTask,
}

/// The watch caches by key prefix.
#[derive(Default)]
struct WatchCaches {
    by_prefix: HashMap<Str, Arc<WatchCache>>,
    /// Incremented when a watch cache is added or removed.
    generation: u64,
    /// For each collection without a watch cache, a revision after which it has no changes. Only collections with
    /// changes since the oldest revision of the history are here.
    unchanged_since: HashMap<Str, u64>,
}

impl WatchCaches {
    fn get(&self, prefix: &str) -> Option<&Arc<WatchCache>> {
        self.by_prefix.get(prefix)
    }

    /// Adds a watch cache, unless the collection has one.
    fn add(&mut self, watch_cache: WatchCache) {
        self.by_prefix.entry(watch_cache.prefix().clone()).or_insert_with(|| Arc::new(watch_cache));
        self.generation += 1;
    }

    /// Removes the watch cache of a collection that has no changes after a revision.
    fn remove(&mut self, prefix: &str, unchanged_since: u64) {
        if let Some((prefix, _)) = self.by_prefix.remove_entry(prefix) {
            self.unchanged_since.insert(prefix, unchanged_since);
        }
        self.generation += 1;
    }
}

/// Keeps a revision readable while a long read runs.
pub struct RevisionPin {
    revision: u64,
    pins: Arc<Mutex<BTreeMap<u64, usize>>>,
}

impl Drop for RevisionPin {
    fn drop(&mut self) {
        let mut pins = self.pins.lock();
        if let Some(count) = pins.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.revision);
            }
        }
    }
}

impl fmt::Debug for RevisionPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RevisionPin").field(&self.revision).finish()
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("root", &self.shared.root).field("applied", &self.applied_revision()).finish()
    }
}

impl Cache {
    /// Adds the watch cache of a collection, loaded with the stored objects. The collection must not be written to
    /// meanwhile. Does nothing if the watch cache exists.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn open(&self, prefix: &str) -> Result<(), CacheError> {
        if self.watch_cache(prefix).is_some() {
            return Ok(());
        }
        let CacheState { store, root, indexer, progress, watch_caches, .. } = &*self.shared;
        let now = store.current_revision().await?;
        progress.wait_until_fresh(now.get()).await;
        let watch_cache = WatchCache::new(prefix.into(), now.get());
        let key_prefix = format!("{root}/{prefix}/");
        let records = store.range(KeyInterval::prefix(&key_prefix), Some(now), None).await?.records;
        if records.is_empty() {
            watch_cache.set_empty_since(self.shared.unchanged_since(prefix));
        }
        watch_cache.insert_initial(records.into_iter().filter_map(|record| {
            let rest = record.key.strip_prefix(key_prefix.as_str())?;
            let (key, revision) = (Key::at_end_of(&record.key, rest.len()), record.mod_revision.get());
            let new_state = indexer.index_change(prefix, &key, revision, Some(record.value), record.stale);
            Some(PendingChange { key, revision, new_state })
        }));
        watch_caches.write().add(watch_cache);
        Ok(())
    }

    /// Runs the indexer again for all objects of a collection, because its result has changed.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn reindex(&self, prefix: &str) -> Result<(), CacheError> {
        // Changes that are on their way may be indexed by the old rules.
        let now = self.shared.store.current_revision().await?;
        self.wait_until_fresh(now.get()).await;
        if let Some(watch_cache) = self.watch_cache(prefix) {
            watch_cache.reindex(|json| self.shared.indexer.index(prefix, json).ok());
        }
        Ok(())
    }

    /// Removes the watch cache of a deleted collection. Holders of a reference can still read it.
    pub fn close(&self, prefix: &str) {
        self.shared.watch_caches.write().remove(prefix, self.applied_revision());
    }

    /// The watch cache of a collection, found by its key prefix.
    #[must_use]
    pub fn watch_cache(&self, prefix: &str) -> Option<Arc<WatchCache>> {
        self.shared.watch_caches.read().get(prefix).cloned()
    }

    /// The revision at which the watch caches start.
    #[must_use]
    pub fn start_revision(&self) -> u64 {
        self.shared.start_revision
    }

    /// The revision up to which every watch cache is complete.
    #[must_use]
    pub fn applied_revision(&self) -> u64 {
        self.shared.progress.get()
    }

    /// True while the cache follows the store's change feed. Otherwise reads become stale until it has recovered.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.shared.feed_task.failure().is_none() && !self.feeder.is_finished()
    }

    /// The task that follows the store's change feed.
    #[must_use]
    pub fn feed_task(&self) -> &BackgroundTask {
        &self.shared.feed_task
    }

    /// The numbers of the history.
    #[must_use]
    pub fn history_stats(&self) -> HistoryStats {
        let now = self.shared.clock.now();
        let history = self.shared.history.lock();
        let oldest = history.next_to_drop().map_or(now, |(added_at, _)| added_at);
        HistoryStats {
            events: history.len(),
            retained_bytes: history.retained_bytes,
            oldest_age: Duration::from_millis(now.0.saturating_sub(oldest.0)),
        }
    }

    /// Waits until every watch cache is complete up to a revision (upstream: `waitUntilFreshAndBlock`).
    pub async fn wait_until_fresh(&self, revision: u64) {
        self.shared.progress.wait_until_fresh(revision).await;
    }

    /// Caches encodings of objects and events, or gives them up. The server gives them up while memory is short.
    pub fn set_encodings_cached(&self, cached: bool) {
        self.encoding_cache.set_enabled(cached);
        self.shared.history.lock().frame_budget.set_small(!cached);
    }

    /// Drops the older half of the history, down to a minimum size. From now on it retains no more than that, not even
    /// for reads that have pinned a revision. Returns the revision up to which events are dropped.
    pub fn halve_history(&self, min_bytes: usize) -> u64 {
        {
            let mut history = self.shared.history.lock();
            let half = history.reduced_bytes.map_or(usize::MAX, |reduced| reduced / 2).min(history.retained_bytes / 2);
            history.reduced_bytes = Some(half.max(min_bytes));
        }
        self.shared.trim();
        self.shared.history.lock().evicted_to
    }

    /// Retains history up to the configured limits again.
    pub fn restore_history(&self) {
        self.shared.history.lock().reduced_bytes = None;
    }

    /// The cache of object encodings.
    #[must_use]
    pub fn encoding_cache(&self) -> &EncodingCache {
        &self.encoding_cache
    }

    /// Keeps the state at a revision readable until the pin is dropped, if the state is readable now.
    #[must_use]
    pub fn pin(&self, revision: u64) -> RevisionPin {
        *self.shared.pins.lock().entry(revision).or_default() += 1;
        RevisionPin { revision, pins: self.shared.pins.clone() }
    }

    /// The prefix of all store keys, without a slash at the end.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.shared.root
    }

    /// The store key of an object.
    #[must_use]
    pub fn store_key(&self, prefix: &str, key: &str) -> String {
        [&self.shared.root, "/", prefix, "/", key].concat()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.feeder.abort();
    }
}

impl CacheState {
    /// The watch cache of a store key, the key prefix, and the rest of the key.
    fn locate<'k>(&self, store_key: &'k str) -> Option<(Arc<WatchCache>, &'k str, &'k str)> {
        let watch_caches = self.watch_caches.read();
        self.possible_prefixes(store_key)
            .find_map(|(prefix, rest)| Some((watch_caches.get(prefix)?.clone(), prefix, rest)))
    }

    /// The prefixes that a store key may have, each with the rest of the key. A prefix has one segment (`pods`) or two
    /// (`services/specs`).
    fn possible_prefixes<'k>(&self, store_key: &'k str) -> impl Iterator<Item = (&'k str, &'k str)> {
        let path =
            store_key.strip_prefix(self.root.as_str()).and_then(|path| path.strip_prefix('/')).unwrap_or_default();
        path.match_indices('/').take(2).map(|(end, _)| (&path[..end], &path[end + 1..]))
    }

    /// Converts a change into the form that its watch cache takes. If the key belongs to no collection, returns the
    /// change itself.
    fn pending_change(&self, change: StoredChange) -> LocatedChange {
        let Some((watch_cache, prefix, rest)) = self.locate(&change.key) else { return Err(change) };
        let (key, revision) = (Key::at_end_of(&change.key, rest.len()), change.revision.get());
        let new_state = self.indexer.index_change(prefix, &key, revision, change.value, change.stale);
        Ok((watch_cache, PendingChange { key, revision, new_state }))
    }

    /// Applies a batch of live changes and wakes waiting reads and watchers. Packs as many events as are due, but not
    /// so many that the next batch must wait. Returns whether more events may be due.
    fn apply(&self, ChangeBatch { changes, complete_to }: ChangeBatch) -> bool {
        let packed = (PACKED_PER_CHANGE * changes.len()).min(PACK_BATCH);
        let (appended, _) = self.apply_changes(changes, map_sequential);
        self.progress.advance(complete_to.get());
        // The watchers are woken after the reads that wait for progress: a write is answered before its watchers are
        // notified.
        for (watch_cache, events) in appended {
            watch_cache.wake(&events);
        }
        self.trim();
        packed > 0 && self.pack(packed) == packed
    }

    /// Packs up to `max` of the events that live watchers have received. The history retains mostly versions that
    /// differ little from the next version. Returns the number of packed events.
    fn pack(&self, max: usize) -> usize {
        let (before, events) = self.history.lock().next_to_pack(self.clock.now(), max);
        let mut sizes = Vec::with_capacity(events.len());
        for run in events.chunk_by(|(one, _), (next, _)| Arc::ptr_eq(one, next)) {
            let events: Vec<Arc<Event>> = run.iter().map(|(_, event)| event.clone()).collect();
            sizes.extend(run[0].0.pack(&events));
        }
        self.history.lock().set_packed(before, &sizes);
        events.len()
    }

    /// Applies changes to their watch caches, and returns the changes that belong to no collection. `map` runs the
    /// indexer on the changes.
    fn apply_changes(
        &self,
        changes: Vec<StoredChange>,
        map: MapFn<StoredChange, LocatedChange>,
    ) -> (Vec<AppendedEvents>, Vec<StoredChange>) {
        let now = self.clock.now();
        // Consecutive changes of one collection are appended together, so that it is locked, and its watchers are
        // woken, only once.
        let mut run: Option<(Arc<WatchCache>, Vec<PendingChange>)> = None;
        let (mut appended, mut unclaimed) = (Vec::new(), Vec::new());
        for located in map(changes, &|change| self.pending_change(change)) {
            let (watch_cache, pending_change) = match located {
                Ok(located) => located,
                Err(change) => {
                    unclaimed.push(change);
                    continue;
                }
            };
            match &mut run {
                Some((current, changes)) if Arc::ptr_eq(current, &watch_cache) && changes.len() < MAX_RUN => {
                    changes.push(pending_change)
                }
                _ => {
                    if let Some((watch_cache, changes)) = run.replace((watch_cache, vec![pending_change])) {
                        appended.push(self.append(watch_cache, changes, now));
                    }
                }
            }
        }
        if let Some((watch_cache, changes)) = run {
            appended.push(self.append(watch_cache, changes, now));
        }
        (appended, unclaimed)
    }

    fn append(&self, watch_cache: Arc<WatchCache>, changes: Vec<PendingChange>, now: Timestamp) -> AppendedEvents {
        let (log_index, events) = watch_cache.append(changes);
        self.history.lock().push(now, &watch_cache, log_index, &events);
        (watch_cache, events)
    }

    /// A revision after which a collection without a watch cache has no changes.
    fn unchanged_since(&self, prefix: &str) -> u64 {
        let known = self.watch_caches.read().unchanged_since.get(prefix).copied();
        known.unwrap_or_else(|| self.start_revision.max(self.history.lock().evicted_to))
    }

    /// Forgets the closed collections that have no changes in the history.
    fn trim_closed(&self) {
        let evicted_to = self.history.lock().evicted_to;
        let is_old = |revision: u64| revision <= evicted_to;
        if self.watch_caches.read().unchanged_since.values().any(|revision| is_old(*revision)) {
            self.watch_caches.write().unchanged_since.retain(|_, revision| !is_old(*revision));
        }
    }

    fn trim(&self) {
        let now = self.clock.now();
        let pinned = self.pins.lock().first_key_value().map_or(u64::MAX, |(revision, _)| *revision);
        let mut history = self.history.lock();
        let max_bytes = history.reduced_bytes.unwrap_or(usize::MAX);
        while let Some((added_at, revision)) = history.next_to_drop() {
            let is_within = |limits: HistoryLimits| {
                added_at.after(limits.duration) > now && history.retained_bytes <= limits.bytes.min(max_bytes)
            };
            let pinned_limits = self.history_limits.plus(PINNED_EXTRA);
            if is_within(self.history_limits) || (revision > pinned && is_within(pinned_limits)) {
                return;
            }
            history.pop();
        }
    }
}

/// The events that were appended to a watch cache.
type AppendedEvents = (Arc<WatchCache>, Vec<Arc<Event>>);

/// A change with its watch cache, or a change that belongs to no collection.
type LocatedChange = Result<(Arc<WatchCache>, PendingChange), StoredChange>;

/// Maps items, sequentially or in parallel.
type MapFn<T, R> = fn(Vec<T>, &(dyn Fn(T) -> R + Sync)) -> Vec<R>;

/// Maps sequentially. It is for live changes, while requests use the other processors.
fn map_sequential<T, R>(items: Vec<T>, each: &(dyn Fn(T) -> R + Sync)) -> Vec<R> {
    items.into_iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use pintle_store::{Change, Compare, MemoryStore, SystemClock};

    use super::*;
    use crate::{FrameKey, KeyRange, WatchScope};

    struct NullIndexer;

    impl Indexer for NullIndexer {
        fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, CorruptReason> {
            Ok(ObjectIndex::default())
        }
    }

    /// A cache of a collection `things`.
    async fn load(store: &Arc<MemoryStore>) -> Cache {
        let (indexer, clock) = (Arc::new(NullIndexer), Arc::new(SystemClock));
        let load = Cache::load(store.clone(), "/registry", ["things".into()], indexer, clock, HistoryLimits::default());
        load.await.expect("a cache").follow([], EncodingCache::new(0))
    }

    #[tokio::test]
    async fn a_long_history_is_not_read_to_its_beginning() {
        let store = Arc::new(MemoryStore::new());
        let first = store.commit(Change::put("/registry/things/a", "{}")).await.expect("a commit").get();
        for _ in 0..load::MAX_REPLAYED {
            store.commit(Change::put("/registry/things/b", "{}")).await.expect("a commit");
        }
        assert!(store.oldest_revision().await.expect("a revision").get() < first);
        let cache = load(&store).await;
        let watch_cache = cache.watch_cache("things").expect("a watch cache");
        assert!(watch_cache.watch(WatchScope::All, first - 1).pending().is_err());
        let events = watch_cache.watch(WatchScope::All, first).pending().expect("a history");
        assert_eq!(events.first().map(|event| event.revision), Some(first + 1));
    }

    #[tokio::test]
    async fn events_that_are_indexed_again_keep_no_frames() {
        let store = Arc::new(MemoryStore::new());
        let cache = load(&store).await;
        let watch_cache = cache.watch_cache("things").expect("a watch cache");
        let start = cache.applied_revision();
        let revision = store.commit(Change::put("/registry/things/a", "{}")).await.expect("a commit").get();
        cache.wait_until_fresh(revision).await;
        let keeps_frames = || {
            let mut watcher = watch_cache.watch(WatchScope::All, start);
            let event = watcher.pending().expect("a history").pop().expect("an event");
            let render = |text: &'static [u8]| event.frame(FrameKey::default(), || Bytes::from_static(text));
            render(b"first") == render(b"second")
        };
        assert!(keeps_frames());
        cache.reindex("things").await.expect("the store is readable");
        assert!(!keeps_frames(), "no budget counts them");
    }

    #[tokio::test]
    async fn a_halved_history_stays_small_until_it_is_restored() {
        let store = Arc::new(MemoryStore::new());
        let cache = load(&store).await;
        let watch_cache = cache.watch_cache("things").expect("a watch cache");
        let write = async |count: usize| {
            for _ in 0..count {
                let change = Change::put("/registry/things/a", vec![b' '; 1000]);
                let revision = store.commit(change).await.expect("a commit").get();
                cache.wait_until_fresh(revision).await;
            }
            cache.shared.trim();
            cache.history_stats().retained_bytes
        };
        let all = write(64).await;
        let first = cache.applied_revision() - 63;
        // A list in progress does not keep the older half.
        let _pin = cache.pin(first);
        assert!(cache.halve_history(10_000) >= first);
        assert!((10_000..=all / 2).contains(&cache.history_stats().retained_bytes));
        assert!(watch_cache.page(&KeyRange::All, None, first, 1).is_err());
        assert!(write(10).await <= all / 2);
        for _ in 0..10 {
            cache.halve_history(10_000);
        }
        assert!((5000..=10_000).contains(&write(10).await), "the newest events stay");
        cache.restore_history();
        assert!(write(64).await > all / 2);
    }

    #[tokio::test]
    async fn closed_collections_are_forgotten_with_the_history() {
        let store = Arc::new(MemoryStore::new());
        let history_limits = HistoryLimits { bytes: 2000, ..HistoryLimits::default() };
        let load = Cache::load(
            store.clone(),
            "/registry",
            ["things".into()],
            Arc::new(NullIndexer),
            Arc::new(SystemClock),
            history_limits,
        );
        let cache = load.await.expect("a cache").follow([], EncodingCache::new(0));
        let commit = async |change: Change| {
            let revision = store.commit(change).await.expect("a commit").get();
            cache.wait_until_fresh(revision).await;
            revision
        };
        let put = |key: &str| Change::put(format!("/registry/{key}"), "{}");
        let mut last_change = 0;
        for i in 0..50 {
            let prefix = format!("things{i}");
            cache.open(&prefix).await.expect("a watch cache");
            commit(put(&format!("{prefix}/a"))).await;
            last_change = commit(Change::delete(format!("/registry/{prefix}/a"), Compare::Any)).await;
            cache.close(&prefix);
        }
        let shared = &cache.shared;
        shared.trim();
        shared.trim_closed();
        let remembered = shared.watch_caches.read().unchanged_since.len();
        assert!((1..20).contains(&remembered), "{remembered}");
        let evicted_to = shared.history.lock().evicted_to;
        assert_eq!((shared.unchanged_since("things0"), shared.unchanged_since("things49")), (evicted_to, last_change));
        // For a forgotten collection it is no longer known that it was empty.
        cache.open("things0").await.expect("a watch cache");
        let watch_cache = cache.watch_cache("things0").expect("a watch cache");
        let is_readable = |at: u64| watch_cache.page(&KeyRange::All, None, at, 1).is_ok();
        assert!(is_readable(evicted_to) && !is_readable(evicted_to - 1));
    }
}
