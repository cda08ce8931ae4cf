//! How a cache starts: everything that the store holds is read once, the next part while this one is described.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use pintle_store::{Batch, ChangeFeed, Clock, Range, Record, Revision, Span, Store, StoredChange, Timestamp};
use pintle_value::Str;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Cache, CacheError, HistoryLimits, Indexer, Shared, follow};
use crate::progress::Progress;
use crate::{EncodingCache, WatchCache};

/// How many records are read at once.
const FILL: usize = 25_000;

/// A cache that holds all that is stored of the collections that are known so far, but does not follow the store yet.
pub struct LoadedCache {
    shared: Arc<Shared>,
    feed: ChangeFeed,
    apart: Apart,
}

/// What belongs to none of the known collections.
#[derive(Default)]
struct Apart {
    records: Vec<Record>,
    changes: Vec<StoredChange>,
}

impl fmt::Debug for LoadedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filled").field("root", &self.shared.root).finish_non_exhaustive()
    }
}

impl Cache {
    /// Fills the logs of these collections (their key prefixes, `pods`, `services/specs`) from the store, with the
    /// history that the store kept. Keys are `root/prefix/…`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn fill(
        store: Arc<dyn Store>,
        root: &str,
        prefixes: impl IntoIterator<Item = Str>,
        describe: Arc<dyn Indexer>,
        clock: Arc<dyn Clock>,
        window: HistoryLimits,
    ) -> Result<LoadedCache, CacheError> {
        let prefixes: Vec<Str> = prefixes.into_iter().collect();
        loop {
            let oldest = store.oldest_revision().await?;
            let shared = Arc::new(Shared {
                store: store.clone(),
                root: root.trim_end_matches('/').to_owned(),
                describe: describe.clone(),
                clock: clock.clone(),
                window,
                progress: Progress::new(oldest.get()),
                watch_caches: RwLock::default(),
                start: oldest.get(),
                history: Mutex::default(),
                pins: Arc::default(),
            });
            shared.begin(prefixes.iter().cloned());
            match shared.catch_up(oldest).await {
                Ok((feed, apart)) => return Ok(LoadedCache { shared, feed, apart }),
                // The store's own window moved on meanwhile; it does so once for what was written before the start.
                Err(pintle_store::Error::Compacted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl LoadedCache {
    /// The log of a collection, by its key prefix.
    #[must_use]
    pub fn watch_cache(&self, prefix: &str) -> Option<Arc<WatchCache>> {
        self.shared.watch_caches.read().get(prefix).cloned()
    }

    /// The revision up to which every log is complete.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.shared.progress.get()
    }

    /// Takes these collections in as well, which objects of the others have told of, and follows the store from now on.
    /// Encodings of objects are kept within this budget.
    #[must_use]
    pub fn follow(self, more: impl IntoIterator<Item = Str>, encoding_cache: EncodingCache) -> Cache {
        let Self { shared, feed, apart } = self;
        shared.begin(more);
        shared.seed(&apart.records);
        shared.take(&apart.changes, at_once);
        // Events leave the window in their order over all logs.
        shared.history.lock().events.make_contiguous().sort_by_key(|kept| kept.event.revision);
        shared.trim();
        let encoding_cache = Arc::new(encoding_cache);
        let feeder = tokio::spawn(follow(shared.clone(), encoding_cache.clone(), feed));
        Cache { shared, encoding_cache, feeder }
    }
}

impl Shared {
    /// Begins the logs of these collections, as old as the history.
    fn begin(&self, prefixes: impl IntoIterator<Item = Str>) {
        let mut watch_caches = self.watch_caches.write();
        for prefix in prefixes {
            watch_caches.add(WatchCache::new(prefix, self.start));
        }
    }

    /// Comes up to the newest revision from the oldest one that the store can show, and gives the feed from there on.
    async fn catch_up(&self, oldest: Revision) -> Result<(ChangeFeed, Apart), pintle_store::Error> {
        let now = self.store.current_revision().await?;
        let mut pace = Pace { clock: self.clock.clone(), said: self.clock.now() };
        let mut apart = Apart::default();
        let (parts, mut ranges) = mpsc::channel(1);
        let reading = tokio::spawn(read_ranges(self.store.clone(), format!("{}/", self.root), oldest, parts));
        let mut read = 0;
        while let Some(Range { records, remaining, .. }) = ranges.recv().await {
            self.seed(&records);
            read += records.len() as u64;
            pace.say("objects", read, read + remaining);
            apart.records.extend(records.into_iter().filter(|record| self.place(&record.key).is_none()));
        }
        ended(reading).await?;
        let (parts, mut batches) = mpsc::channel(1);
        let reading = tokio::spawn(read_history(self.store.changes(oldest).await?, now, parts));
        while let Some(mut batch) = batches.recv().await {
            self.take(&batch.changes, at_once);
            self.progress.advance(batch.complete_to.get());
            self.trim();
            pace.say("history", self.progress.get() - oldest.get(), now.get() - oldest.get());
            batch.changes.retain(|change| self.place(&change.key).is_none());
            apart.changes.append(&mut batch.changes);
        }
        Ok((ended(reading).await?, apart))
    }

    /// Puts what was there before the history starts.
    fn seed(&self, records: &[Record]) {
        let written = at_once(records, &|r: &Record| self.written(&r.key, r.mod_revision, Some(&r.value)));
        for (watch_cache, written) in written.into_iter().flatten() {
            watch_cache.seed(written);
        }
    }
}

/// Reads all records below a folder at a revision, part by part.
async fn read_ranges(
    store: Arc<dyn Store>,
    folder: String,
    at: Revision,
    parts: mpsc::Sender<Range>,
) -> Result<(), pintle_store::Error> {
    let mut span = Span::prefix(&folder);
    loop {
        let range = store.range(span.clone(), Some(at), Some(FILL)).await?;
        let last = range.records.last().filter(|_| range.remaining > 0).map(|record| record.key.clone());
        // Nobody takes them once the start is given up.
        let taken = parts.send(range).await.is_ok();
        match last {
            // The least key above a key is the key and a zero byte.
            Some(last) if taken => span.start = format!("{last}\0").into(),
            _ => return Ok(()),
        }
    }
}

/// Reads what was kept of the changes up to a revision, and gives the feed of what comes after them.
async fn read_history(
    mut feed: ChangeFeed,
    until: Revision,
    parts: mpsc::Sender<Batch>,
) -> Result<ChangeFeed, pintle_store::Error> {
    while feed.complete_to() < until {
        if parts.send(feed.next_batch().await?).await.is_err() {
            break;
        }
    }
    Ok(feed)
}

/// What a task came to.
async fn ended<T>(task: JoinHandle<Result<T, pintle_store::Error>>) -> Result<T, pintle_store::Error> {
    task.await.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Err(pintle_store::Error::Closed),
    })
}

/// The same for many, on all processors: nothing else is done meanwhile, and describing objects is what takes the time.
fn at_once<T: Sync, R: Send>(items: &[T], each: &(dyn Fn(&T) -> R + Sync)) -> Vec<R> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let parts = items.chunks(items.len().div_ceil(workers).max(1));
        let parts: Vec<_> = parts.map(|part| scope.spawn(|| part.iter().map(each).collect::<Vec<_>>())).collect();
        let join = |part: ScopedJoinHandle<'_, Vec<R>>| part.join().unwrap_or_else(|panic| resume_unwind(panic));
        parts.into_iter().flat_map(join).collect()
    })
}

/// Says how far a long start has come, a line a second.
struct Pace {
    clock: Arc<dyn Clock>,
    said: Timestamp,
}

impl Pace {
    fn say(&mut self, what: &str, done: u64, of: u64) {
        let now = self.clock.now();
        if self.said.after(Duration::from_secs(1)) <= now {
            self.said = now;
            tracing::info!(target: "pintle::start", what, done, of, "reading the store");
        }
    }
}
