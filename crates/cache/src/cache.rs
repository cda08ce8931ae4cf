//! The cache of a logical cluster: its logs, fed in order from the store, trimmed to the window.

mod event_stream;
mod fill;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use pintle_store::{Batch, ChangeFeed, Clock, Revision, Span, Store, StoredChange, Timestamp};
use pintle_value::Str;
use tokio::task::JoinHandle;

pub use self::event_stream::{EventStream, StreamedEvent};
pub use self::fill::LoadedCache;
use crate::encoding_cache::EncodingCache;
use crate::frames::Framed;
use crate::progress::Progress;
use crate::watch_cache::{After, WatchCache, Written};
use crate::{Event, Key, Object, ObjectIndex};

/// How many changes go into a log under one hold of its lock.
const RUN: usize = 64;
/// What a pin may keep beyond the window: a list that takes longer, or during which more is written, is cut off.
const PINNED: HistoryLimits = HistoryLimits { duration: Duration::from_secs(300), bytes: 256 << 20 };

/// What the cache needs to be told of stored values. Runs for each change, off the commit path.
pub trait Indexer: Send + Sync + 'static {
    /// What selection and splicing need of a stored object, or why it cannot be read.
    ///
    /// # Errors
    /// The bytes are not an object that can be served: reads of it fail with this text.
    fn index(&self, prefix: &str, value: &[u8]) -> Result<ObjectIndex, String>;
}

impl dyn Indexer {
    /// What a change to a value leaves behind.
    fn after(&self, prefix: &str, key: &Key, revision: u64, value: Option<&Bytes>) -> After {
        let Some(value) = value else { return After::Gone };
        match self.index(prefix, value) {
            Ok(index) => After::Object(Object::new(key.clone(), revision, value.clone(), index)),
            Err(error) => {
                tracing::error!(prefix, key = &**key, revision, error, "a stored object cannot be read");
                After::CorruptObject(error.into())
            }
        }
    }
}

/// How much history is kept in memory: whichever of the two is reached first.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Events older than this go.
    pub duration: Duration,
    /// Events beyond this many bytes of objects that only they hold go, the oldest first.
    pub bytes: usize,
}

impl HistoryLimits {
    /// A window that reaches as far as both together.
    fn and(self, more: HistoryLimits) -> HistoryLimits {
        HistoryLimits {
            duration: self.duration.saturating_add(more.duration),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { duration: Duration::from_secs(300), bytes: 256 << 20 }
    }
}

/// The cache could not be filled.
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

/// The logs of a logical cluster.
pub struct Cache {
    shared: Arc<Shared>,
    encoding_cache: Arc<EncodingCache>,
    feeder: JoinHandle<()>,
}

struct Shared {
    store: Arc<dyn Store>,
    root: String,
    describe: Arc<dyn Indexer>,
    clock: Arc<dyn Clock>,
    window: HistoryLimits,
    progress: Progress,
    watch_caches: RwLock<WatchCaches>,
    start: u64,
    history: Mutex<History>,
    pins: Arc<Mutex<BTreeMap<u64, usize>>>,
}

/// The logs by their key prefixes.
#[derive(Default)]
struct WatchCaches {
    by_prefix: HashMap<Str, Arc<WatchCache>>,
    /// How many times a log has come or gone.
    changes: u64,
}

impl WatchCaches {
    fn get(&self, prefix: &str) -> Option<&Arc<WatchCache>> {
        self.by_prefix.get(prefix)
    }

    /// Adds a log, unless the collection has one.
    fn add(&mut self, watch_cache: WatchCache) {
        self.by_prefix.entry(watch_cache.prefix().clone()).or_insert_with(|| Arc::new(watch_cache));
        self.changes += 1;
    }

    fn remove(&mut self, prefix: &str) {
        self.by_prefix.remove(prefix);
        self.changes += 1;
    }
}

/// The events of the window over all logs, in the order of their revisions.
#[derive(Default)]
struct History {
    events: VecDeque<Kept>,
    /// How many have left it.
    left: u64,
    weight: usize,
    framed: Framed,
}

/// An event of the window.
struct Kept {
    since: Timestamp,
    weight: usize,
    watch_cache: Arc<WatchCache>,
    event: Arc<Event>,
}

impl History {
    fn push(&mut self, since: Timestamp, watch_cache: Arc<WatchCache>, event: Arc<Event>) {
        let weight = event.weight();
        self.weight += weight;
        self.framed.push(&event);
        self.events.push_back(Kept { since, weight, watch_cache, event });
    }

    /// Lets the oldest event go.
    fn pop(&mut self) {
        if let Some(Kept { weight, watch_cache, .. }) = self.events.pop_front() {
            self.weight -= weight;
            self.left += 1;
            watch_cache.drop_oldest();
        }
    }

    /// How many events there have been.
    fn end(&self) -> u64 {
        self.left + self.events.len() as u64
    }
}

/// Keeps the window from passing a revision while a long read is under way.
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
        f.debug_tuple("Pin").field(&self.revision).finish()
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("root", &self.shared.root).field("applied", &self.applied()).finish()
    }
}

impl Cache {
    /// Begins the log of one more collection, to which nobody writes yet; what is stored of it already is read. One that
    /// is there is left alone.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(&self, prefix: &str) -> Result<(), CacheError> {
        if self.watch_cache(prefix).is_some() {
            return Ok(());
        }
        let Shared { store, root, describe, progress, watch_caches, .. } = &*self.shared;
        let now = store.current_revision().await?;
        progress.reaches(now.get()).await;
        let watch_cache = WatchCache::new(prefix.into(), now.get());
        let folder = format!("{root}/{prefix}/");
        for record in store.range(Span::prefix(&folder), Some(now), None).await?.records {
            let Some(key) = record.key.strip_prefix(folder.as_str()) else { continue };
            let (key, revision) = (Key::from(key), record.mod_revision.get());
            let after = describe.after(prefix, &key, revision, Some(&record.value));
            watch_cache.seed(Written { key, revision, after });
        }
        watch_caches.write().add(watch_cache);
        Ok(())
    }

    /// Describes the objects of a collection anew, once other things are asked of them than before.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn reindex(&self, prefix: &str) -> Result<(), CacheError> {
        // What was on its way into the log may have been described by the old rules.
        let now = self.shared.store.current_revision().await?;
        self.reaches(now.get()).await;
        if let Some(watch_cache) = self.watch_cache(prefix) {
            watch_cache.reindex(|json| self.shared.describe.index(prefix, json).ok());
        }
        Ok(())
    }

    /// Forgets the log of a collection that is gone. Who holds it can still read it.
    pub fn close(&self, prefix: &str) {
        self.shared.watch_caches.write().remove(prefix);
    }

    /// The log of a collection, by its key prefix.
    #[must_use]
    pub fn watch_cache(&self, prefix: &str) -> Option<Arc<WatchCache>> {
        self.shared.watch_caches.read().get(prefix).cloned()
    }

    /// The revision from which the logs start.
    #[must_use]
    pub fn start_revision(&self) -> u64 {
        self.shared.start
    }

    /// The revision up to which every log is complete.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.shared.progress.get()
    }

    /// True while the store's feed is followed. Once it has ended, reads would grow old.
    #[must_use]
    pub fn follows(&self) -> bool {
        !self.feeder.is_finished()
    }

    /// Waits until every log is complete up to a revision.
    pub async fn reaches(&self, revision: u64) {
        self.shared.progress.reaches(revision).await;
    }

    /// The budget of the encodings of all objects.
    #[must_use]
    pub fn encoding_cache(&self) -> &EncodingCache {
        &self.encoding_cache
    }

    /// Keeps states at a revision readable for as long as the pin lives, if they are now.
    #[must_use]
    pub fn pin(&self, revision: u64) -> RevisionPin {
        *self.shared.pins.lock().entry(revision).or_default() += 1;
        RevisionPin { revision, pins: self.shared.pins.clone() }
    }

    /// The full key of an object of a collection.
    #[must_use]
    pub fn store_key(&self, prefix: &str, key: &str) -> String {
        format!("{}/{prefix}/{key}", self.shared.root)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.feeder.abort();
    }
}

async fn follow(shared: Arc<Shared>, encoding_cache: Arc<EncodingCache>, mut feed: ChangeFeed) {
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tokio::select! {
            batch = feed.next_batch() => match batch {
                Ok(batch) => shared.apply(&batch),
                Err(pintle_store::Error::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "the store's feed ended");
                    return;
                }
            },
            _ = tick.tick() => {
                shared.trim();
                encoding_cache.tick();
            }
        }
    }
}

impl Shared {
    /// The log and the rest of a full key: prefixes have one part (`pods`) or two (`services/specs`).
    fn place<'k>(&self, full: &'k str) -> Option<(Arc<WatchCache>, &'k str, &'k str)> {
        let path = full.strip_prefix(self.root.as_str())?.strip_prefix('/')?;
        let watch_caches = self.watch_caches.read();
        let mut slashes = path.match_indices('/').map(|(i, _)| i);
        for _ in 0..2 {
            let end = slashes.next()?;
            if let Some(watch_cache) = watch_caches.get(&path[..end]) {
                return Some((watch_cache.clone(), &path[..end], &path[end + 1..]));
            }
        }
        None
    }

    /// A change as its log takes it, and the log. `None` for keys that are no object's.
    fn written(&self, full: &str, revision: Revision, value: Option<&Bytes>) -> Option<(Arc<WatchCache>, Written)> {
        let (watch_cache, prefix, rest) = self.place(full)?;
        let (key, revision) = (Key::from(rest), revision.get());
        let after = self.describe.after(prefix, &key, revision, value);
        Some((watch_cache, Written { key, revision, after }))
    }

    /// Takes changes in as they come, and tells those who wait and watch.
    fn apply(&self, batch: &Batch) {
        let appended = self.take(&batch.changes, one_by_one);
        self.progress.advance(batch.complete_to.get());
        // After those who wait for progress: a write is answered before all who watch are told of it.
        for (watch_cache, events) in appended {
            watch_cache.wake(&events);
        }
        self.trim();
    }

    /// Puts changes into their logs; `work` says how they are described.
    fn take(
        &self,
        changes: &[StoredChange],
        work: Work<StoredChange, Option<(Arc<WatchCache>, Written)>>,
    ) -> Vec<Appended> {
        let now = self.clock.now();
        // Runs of changes of one collection go in together, so that its lock is taken and its watchers are woken once.
        let mut run: Option<(Arc<WatchCache>, Vec<Written>)> = None;
        let mut appended = Vec::new();
        let describe = |change: &StoredChange| self.written(&change.key, change.revision, change.value.as_ref());
        for (watch_cache, written) in work(changes, &describe).into_iter().flatten() {
            match &mut run {
                Some((current, changes)) if Arc::ptr_eq(current, &watch_cache) && changes.len() < RUN => {
                    changes.push(written)
                }
                _ => {
                    if let Some((watch_cache, changes)) = run.replace((watch_cache, vec![written])) {
                        appended.push(self.append(watch_cache, changes, now));
                    }
                }
            }
        }
        if let Some((watch_cache, changes)) = run {
            appended.push(self.append(watch_cache, changes, now));
        }
        appended
    }

    fn append(&self, watch_cache: Arc<WatchCache>, changes: Vec<Written>, now: Timestamp) -> Appended {
        let events = watch_cache.append(changes);
        let mut history = self.history.lock();
        for event in &events {
            history.push(now, watch_cache.clone(), event.clone());
        }
        drop(history);
        (watch_cache, events)
    }

    fn trim(&self) {
        let now = self.clock.now();
        let pinned = self.pins.lock().first_key_value().map_or(u64::MAX, |(revision, _)| *revision);
        let mut history = self.history.lock();
        while let Some(Kept { since, event, .. }) = history.events.front() {
            let inside = |window: HistoryLimits| since.after(window.duration) > now && history.weight <= window.bytes;
            let pins = self.window.and(PINNED);
            if inside(self.window) || (event.revision > pinned && inside(pins)) {
                return;
            }
            history.pop();
        }
    }
}

/// Events that have come into a log.
type Appended = (Arc<WatchCache>, Vec<Arc<Event>>);

/// A way to do the same for many.
type Work<T, R> = fn(&[T], &(dyn Fn(&T) -> R + Sync)) -> Vec<R>;

/// One after the other: for changes as they come, while others use the processors.
fn one_by_one<T, R>(items: &[T], each: &(dyn Fn(&T) -> R + Sync)) -> Vec<R> {
    items.iter().map(each).collect()
}
