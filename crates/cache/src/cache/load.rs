//! Loads a cache. It reads the whole store once, and reads the next part while the current part is indexed.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use pintle_locks::{Mutex, RwLock};
use pintle_store::{
    ChangeBatch, ChangeFeed, Clock, KeyInterval, Record, RecordPage, Revision, Store, StoredChange, Timestamp,
};
use pintle_supervisor::BackgroundTask;
use pintle_value::Str;
use pintle_value::threads::map_parallel_owned;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::recover::supervise;
use super::{Cache, CacheError, CacheState, FEED_TASK, HistoryLimits, Indexer};
use crate::progress::Progress;
use crate::watch_cache::PendingChange;
use crate::{EncodingCache, WatchCache};

/// The number of records per read.
const RECORDS_PER_READ: usize = 25_000;

/// The maximum number of revisions of the store's history that are read. A store that nobody compacts, such as an etcd
/// with the flag `--etcd-compaction-interval=0`, has all revisions and records the time of none.
pub(super) const MAX_REPLAYED: u64 = 100_000;

/// The number of unclaimed objects that the log names at a start.
const MAX_LOGGED_UNCLAIMED: usize = 100;

/// A cache that is loaded with all stored objects of the known collections, but does not follow the store yet.
pub struct LoadedCache {
    shared: Arc<CacheState>,
    feed: Box<dyn ChangeFeed>,
    unclaimed: UnclaimedData,
}

/// The records and changes that belong to no known collection.
#[derive(Default)]
struct UnclaimedData {
    records: Vec<StoredChange>,
    changes: Vec<StoredChange>,
}

impl UnclaimedData {
    /// The keys that exist, in order.
    fn keys(&self) -> impl Iterator<Item = &str> {
        let records = self.records.iter().map(|record| (record.key.as_str(), true));
        let changes = self.changes.iter().map(|change| (change.key.as_str(), change.value.is_some()));
        // The last change of a key counts.
        let exists: BTreeMap<&str, bool> = records.chain(changes).collect();
        exists.into_iter().filter(|(_, exists)| *exists).map(|(key, _)| key)
    }
}

impl fmt::Debug for LoadedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedCache").field("root", &self.shared.root).finish_non_exhaustive()
    }
}

impl Cache {
    /// Loads the watch caches of these collections (key prefixes such as `pods` and `services/specs`) from the store,
    /// with the retained history. Store keys are `root/prefix/…`.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn load(
        store: Arc<dyn Store>,
        root: &str,
        prefixes: impl IntoIterator<Item = Str>,
        indexer: Arc<dyn Indexer>,
        clock: Arc<dyn Clock>,
        history_limits: HistoryLimits,
    ) -> Result<LoadedCache, CacheError> {
        let prefixes: Vec<Str> = prefixes.into_iter().collect();
        loop {
            let newest = store.current_revision().await?;
            let oldest = store.oldest_revision().await?.max(Revision(newest.get().saturating_sub(MAX_REPLAYED)));
            let shared = Arc::new(CacheState {
                store: store.clone(),
                root: root.trim_end_matches('/').to_owned(),
                indexer: indexer.clone(),
                clock: clock.clone(),
                history_limits,
                progress: Progress::new(oldest.get()),
                watch_caches: RwLock::default(),
                start_revision: oldest.get(),
                history: Mutex::default(),
                pins: Arc::default(),
                feed_task: BackgroundTask::new(FEED_TASK),
            });
            shared.add_watch_caches(prefixes.iter().cloned());
            match shared.catch_up(oldest).await {
                Ok((feed, unclaimed)) => return Ok(LoadedCache { shared, feed, unclaimed }),
                // The store has compacted its history meanwhile. This happens once, for changes from before the start.
                Err(pintle_store::Error::Compacted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl LoadedCache {
    /// The watch cache of a collection, found by its key prefix.
    #[must_use]
    pub fn watch_cache(&self, prefix: &str) -> Option<Arc<WatchCache>> {
        self.shared.watch_caches.read().get(prefix).cloned()
    }

    /// The revision up to which every watch cache is complete.
    #[must_use]
    pub fn applied_revision(&self) -> u64 {
        self.shared.progress.get()
    }

    /// Ignores the keys under these prefixes: they belong to no resource, and this is no error.
    #[must_use]
    pub fn without(mut self, prefixes: &[&str]) -> Self {
        let prefixes: Vec<String> = prefixes.iter().map(|prefix| format!("{}/{prefix}/", self.shared.root)).collect();
        let is_kept = |key: &str| !prefixes.iter().any(|prefix| key.starts_with(prefix));
        self.unclaimed.records.retain(|record| is_kept(&record.key));
        self.unclaimed.changes.retain(|change| is_kept(&change.key));
        self
    }

    /// The number of stored objects of a collection that was not loaded, by its key prefix.
    #[must_use]
    pub fn count_unclaimed(&self, prefix: &str) -> usize {
        let prefix = format!("{}/{prefix}/", self.shared.root);
        self.unclaimed.keys().filter(|key| key.starts_with(&prefix)).count()
    }

    /// Adds these collections, which were discovered from objects of other collections, and follows the store from now
    /// on.
    #[must_use]
    pub fn follow(self, more: impl IntoIterator<Item = Str>, encoding_cache: EncodingCache) -> Cache {
        let Self { shared, feed, unclaimed } = self;
        shared.add_watch_caches(more);
        let records = shared.insert_initial(unclaimed.records);
        let (_, changes) = shared.apply_changes(unclaimed.changes, map_parallel_owned);
        let unclaimed = UnclaimedData { records, changes };
        shared.remember_unclaimed(&unclaimed.changes);
        shared.log_unclaimed(&unclaimed);
        // Events are dropped in the order of their revisions over all collections.
        shared.history.lock().sort();
        shared.trim();
        let encoding_cache = Arc::new(encoding_cache);
        let feeder = tokio::spawn(supervise(shared.clone(), encoding_cache.clone(), feed));
        Cache { shared, encoding_cache, feeder }
    }
}

impl CacheState {
    /// Adds the watch caches of these collections. They begin at the start of the history.
    fn add_watch_caches(&self, prefixes: impl IntoIterator<Item = Str>) {
        let mut watch_caches = self.watch_caches.write();
        for prefix in prefixes {
            watch_caches.add(WatchCache::new(prefix, self.start_revision));
        }
    }

    /// Records which collections have a history, because they may be added later.
    fn remember_unclaimed(&self, changes: &[StoredChange]) {
        for change in changes {
            let prefixes: Vec<Str> = self.possible_prefixes(&change.key).map(|(prefix, _)| prefix.into()).collect();
            let revision = change.revision.get();
            self.watch_caches.write().unchanged_since.extend(prefixes.into_iter().map(|prefix| (prefix, revision)));
        }
    }

    /// Logs the keys of the stored objects that belong to no collection. For example, their CRD is gone or cannot be
    /// read.
    fn log_unclaimed(&self, unclaimed: &UnclaimedData) {
        let keys: Vec<&str> = unclaimed.keys().collect();
        for key in keys.iter().take(MAX_LOGGED_UNCLAIMED) {
            tracing::error!(key, "A stored object belongs to no resource, so it is not served");
        }
        if keys.len() > MAX_LOGGED_UNCLAIMED {
            tracing::error!(count = keys.len(), "Stored objects belong to no resource, and are not served");
        }
    }

    /// Reads from the oldest retained revision to the newest, and returns the feed of the changes after it.
    async fn catch_up(&self, oldest: Revision) -> Result<(Box<dyn ChangeFeed>, UnclaimedData), pintle_store::Error> {
        let now = self.store.current_revision().await?;
        let mut progress_logger = LoadProgressLogger { clock: self.clock.clone(), last_logged: self.clock.now() };
        let mut unclaimed = UnclaimedData::default();
        let (sender, mut pages) = mpsc::channel(1);
        let reader = tokio::spawn(read_pages(self.store.clone(), format!("{}/", self.root), oldest, sender));
        let mut read = 0;
        while let Some(RecordPage { records, .. }) = pages.recv().await {
            read += records.len() as u64;
            let records = records.into_iter().map(|Record { key, value, mod_revision, stale, .. }| StoredChange {
                revision: mod_revision,
                key,
                value: Some(value),
                stale,
            });
            unclaimed.records.extend(self.insert_initial(records.collect()));
            progress_logger.log("objects", read, None);
        }
        join(reader).await?;
        let (sender, mut batches) = mpsc::channel(1);
        let reader = tokio::spawn(read_history(self.store.changes(oldest).await?, now, sender));
        while let Some(batch) = batches.recv().await {
            let (_, mut changes) = self.apply_changes(batch.changes, map_parallel_owned);
            self.progress.advance(batch.complete_to.get());
            self.trim();
            progress_logger.log("history", self.progress.get() - oldest.get(), Some(now.get() - oldest.get()));
            unclaimed.changes.append(&mut changes);
        }
        Ok((join(reader).await?, unclaimed))
    }

    /// Inserts the records at the start of the history, and returns the records that belong to no collection.
    fn insert_initial(&self, records: Vec<StoredChange>) -> Vec<StoredChange> {
        let mut unclaimed = Vec::new();
        let mut run: Option<(Arc<WatchCache>, Vec<PendingChange>)> = None;
        for located in map_parallel_owned(records, &|record| self.pending_change(record)) {
            match (located, &mut run) {
                (Ok((watch_cache, record)), Some((current, records))) if Arc::ptr_eq(current, &watch_cache) => {
                    records.push(record);
                }
                (Ok((watch_cache, record)), run) => {
                    if let Some((before, records)) = run.replace((watch_cache, vec![record])) {
                        before.insert_initial(records);
                    }
                }
                (Err(record), _) => unclaimed.push(record),
            }
        }
        if let Some((watch_cache, records)) = run {
            watch_cache.insert_initial(records);
        }
        unclaimed
    }
}

/// Reads all records with a key prefix at a revision, part by part.
pub(super) async fn read_pages(
    store: Arc<dyn Store>,
    key_prefix: String,
    at: Revision,
    sender: mpsc::Sender<RecordPage>,
) -> Result<(), pintle_store::Error> {
    let mut interval = KeyInterval::prefix(&key_prefix);
    loop {
        let page = store.page(interval.clone(), Some(at), RECORDS_PER_READ).await?;
        let last = page.records.last().filter(|_| !page.is_last).map(|record| record.key.clone());
        // The receiver is dropped if the load has failed.
        let receiver_alive = sender.send(page).await.is_ok();
        match last {
            Some(last) if receiver_alive => interval.continue_after(&last),
            _ => return Ok(()),
        }
    }
}

/// Reads the retained changes up to a revision, and returns the feed of the changes after it.
async fn read_history(
    mut feed: Box<dyn ChangeFeed>,
    until: Revision,
    sender: mpsc::Sender<ChangeBatch>,
) -> Result<Box<dyn ChangeFeed>, pintle_store::Error> {
    while feed.complete_to() < until {
        if sender.send(feed.next_batch().await?).await.is_err() {
            break;
        }
    }
    Ok(feed)
}

/// Returns the result of a task and propagates its panic.
pub(super) async fn join<T>(task: JoinHandle<Result<T, pintle_store::Error>>) -> Result<T, pintle_store::Error> {
    task.await.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Err(pintle_store::Error::Closed),
    })
}

/// Logs the progress of a long load, once a second.
struct LoadProgressLogger {
    clock: Arc<dyn Clock>,
    last_logged: Timestamp,
}

impl LoadProgressLogger {
    fn log(&mut self, what: &str, done: u64, total: Option<u64>) {
        let now = self.clock.now();
        if self.last_logged.after(Duration::from_secs(1)) <= now {
            self.last_logged = now;
            tracing::info!(target: "pintle::start", what, done, total, "Loading the store");
        }
    }
}
