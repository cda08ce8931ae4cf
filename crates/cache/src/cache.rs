//! The cache of a logical cluster: its logs, fed in order from the store, trimmed to the window.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use pintle_store::{Batch, ChangeFeed, Clock, Record, Revision, Span, Store, StoredChange, Timestamp};
use pintle_value::Str;
use tokio::task::JoinHandle;

use crate::frames::Framed;
use crate::log::{Log, Written};
use crate::progress::Progress;
use crate::{Event, Key, Object, Outline};

/// How many records are read at once when the cache is filled.
const FILL: usize = 25_000;
/// How many changes go into a log under one hold of its lock.
const RUN: usize = 64;
/// What a pin may keep beyond the window: a list that takes longer, or during which more is written, is cut off.
const PINNED: Window = Window { duration: Duration::from_secs(300), bytes: 256 << 20 };

/// What the cache needs to be told of stored values. Runs for each change, off the commit path.
pub trait Describe: Send + Sync + 'static {
    /// What selection and splicing need of a stored object, or why it cannot be read.
    ///
    /// # Errors
    /// The bytes are not an object that can be served; it is left out and logged.
    fn outline(&self, prefix: &str, value: &[u8]) -> Result<Outline, String>;
}

/// How much history is kept in memory: whichever of the two is reached first.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Events older than this go.
    pub duration: Duration,
    /// Events beyond this many bytes of objects that only they hold go, the oldest first.
    pub bytes: usize,
}

impl Window {
    /// A window that reaches as far as both together.
    fn and(self, more: Window) -> Window {
        Window { duration: self.duration.saturating_add(more.duration), bytes: self.bytes.saturating_add(more.bytes) }
    }
}

impl Default for Window {
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
    feeder: JoinHandle<()>,
}

struct Shared {
    store: Arc<dyn Store>,
    root: String,
    describe: Arc<dyn Describe>,
    clock: Arc<dyn Clock>,
    window: Window,
    progress: Progress,
    logs: RwLock<HashMap<Str, Arc<Log>>>,
    start: u64,
    history: Mutex<History>,
    pins: Arc<Mutex<BTreeMap<u64, usize>>>,
}

/// The order in which events leave the window, over all logs.
#[derive(Default)]
struct History {
    events: VecDeque<(Timestamp, usize, Arc<Log>, u64)>,
    weight: usize,
    framed: Framed,
}

/// Keeps the window from passing a revision while a long read is under way.
pub struct Pin {
    revision: u64,
    pins: Arc<Mutex<BTreeMap<u64, usize>>>,
}

impl Drop for Pin {
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

impl fmt::Debug for Pin {
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
    /// Fills the logs of these collections (their key prefixes, `pods`, `services/specs`) from the store, with the
    /// history that the store kept, and follows its feed from then on. Keys are `root/prefix/…`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn start(
        store: Arc<dyn Store>,
        root: &str,
        prefixes: impl IntoIterator<Item = Str>,
        describe: Arc<dyn Describe>,
        clock: Arc<dyn Clock>,
        window: Window,
    ) -> Result<Self, CacheError> {
        let prefixes: Vec<Str> = prefixes.into_iter().collect();
        let (shared, feed) = loop {
            let oldest = store.oldest_revision().await?;
            let shared = Arc::new(Shared {
                store: store.clone(),
                root: root.trim_end_matches('/').to_owned(),
                describe: describe.clone(),
                clock: clock.clone(),
                window,
                progress: Progress::new(oldest.get()),
                logs: RwLock::new(prefixes.iter().map(|p| (p.clone(), Arc::new(Log::new(oldest.get())))).collect()),
                start: oldest.get(),
                history: Mutex::default(),
                pins: Arc::default(),
            });
            match shared.catch_up(&*store, oldest).await {
                Ok(feed) => break (shared, feed),
                // The store's own window moved on meanwhile; it does so once for what was written before the start.
                Err(pintle_store::Error::Compacted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let feeder = tokio::spawn(follow(shared.clone(), feed));
        Ok(Self { shared, feeder })
    }

    /// Begins the log of one more collection, to which nobody writes yet; what is stored of it already is read. One that
    /// is there is left alone.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(&self, prefix: &str) -> Result<(), CacheError> {
        if self.log(prefix).is_some() {
            return Ok(());
        }
        let Shared { store, root, describe, progress, logs, .. } = &*self.shared;
        let now = store.current_revision().await?;
        progress.reaches(now.get()).await;
        let log = Log::new(now.get());
        let folder = format!("{root}/{prefix}/");
        for record in store.range(Span::prefix(&folder), Some(now), None).await?.records {
            let Some(key) = record.key.strip_prefix(folder.as_str()) else { continue };
            let (key, revision) = (Key::from(key), record.mod_revision.get());
            let described = describe.outline(prefix, &record.value);
            let object = described.map(|outline| Object { key: key.clone(), revision, json: record.value, outline });
            log.seed(Written { key, revision, object: object.ok() });
        }
        logs.write().entry(prefix.into()).or_insert_with(|| Arc::new(log));
        Ok(())
    }

    /// Describes the objects of a collection anew, once other things are asked of them than before.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn describe_again(&self, prefix: &str) -> Result<(), CacheError> {
        // What was on its way into the log may have been described by the old rules.
        let now = self.shared.store.current_revision().await?;
        self.reaches(now.get()).await;
        if let Some(log) = self.log(prefix) {
            log.describe_again(|json| self.shared.describe.outline(prefix, json).ok());
        }
        Ok(())
    }

    /// Forgets the log of a collection that is gone. Who holds it can still read it.
    pub fn close(&self, prefix: &str) {
        self.shared.logs.write().remove(prefix);
    }

    /// The log of a collection, by its key prefix.
    #[must_use]
    pub fn log(&self, prefix: &str) -> Option<Arc<Log>> {
        self.shared.logs.read().get(prefix).cloned()
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

    /// Keeps states at a revision readable for as long as the pin lives, if they are now.
    #[must_use]
    pub fn pin(&self, revision: u64) -> Pin {
        *self.shared.pins.lock().entry(revision).or_default() += 1;
        Pin { revision, pins: self.shared.pins.clone() }
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

async fn follow(shared: Arc<Shared>, mut feed: ChangeFeed) {
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tokio::select! {
            batch = feed.next_batch() => match batch {
                Ok(batch) => shared.apply(batch, one_by_one),
                Err(pintle_store::Error::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "the store's feed ended");
                    return;
                }
            },
            _ = tick.tick() => shared.trim(),
        }
    }
}

impl Shared {
    /// The log and the rest of a full key: prefixes have one part (`pods`) or two (`services/specs`).
    fn place<'k>(&self, full: &'k str) -> Option<(Arc<Log>, &'k str, &'k str)> {
        let path = full.strip_prefix(self.root.as_str())?.strip_prefix('/')?;
        let logs = self.logs.read();
        let mut slashes = path.match_indices('/').map(|(i, _)| i);
        for _ in 0..2 {
            let end = slashes.next()?;
            if let Some(log) = logs.get(&path[..end]) {
                return Some((log.clone(), &path[..end], &path[end + 1..]));
            }
        }
        None
    }

    /// A change as its log takes it, and the log. `None` for keys that are no object's.
    fn written(&self, full: &str, revision: Revision, value: Option<&Bytes>) -> Option<(Arc<Log>, Written)> {
        let (log, prefix, rest) = self.place(full)?;
        let (key, revision) = (Key::from(rest), revision.get());
        let object = value.and_then(|value| match self.describe.outline(prefix, value) {
            Ok(outline) => Some(Object { key: key.clone(), revision, json: value.clone(), outline }),
            Err(error) => {
                tracing::error!(prefix, rest, revision, error, "a stored object cannot be read");
                None
            }
        });
        Some((log, Written { key, revision, object }))
    }

    /// Comes up to the newest revision from the oldest one that the store can show, and gives the feed from there on.
    async fn catch_up(&self, store: &dyn Store, oldest: Revision) -> Result<ChangeFeed, pintle_store::Error> {
        let now = store.current_revision().await?;
        let mut pace = Pace { clock: self.clock.clone(), said: self.clock.now() };
        self.fill(store, oldest, &mut pace).await?;
        let mut feed = store.changes(oldest).await?;
        while self.progress.get() < now.get() {
            self.apply(feed.next_batch().await?, at_once);
            pace.say("history", self.progress.get() - oldest.get(), now.get() - oldest.get());
        }
        Ok(feed)
    }

    /// Puts what was there before the history starts.
    async fn fill(&self, store: &dyn Store, at: Revision, pace: &mut Pace) -> Result<(), pintle_store::Error> {
        let mut span = Span::prefix(&format!("{}/", self.root));
        let mut read = 0;
        loop {
            let range = store.range(span.clone(), Some(at), Some(FILL)).await?;
            let records = at_once(&range.records, &|r: &Record| self.written(&r.key, r.mod_revision, Some(&r.value)));
            for (log, written) in records.into_iter().flatten() {
                log.seed(written);
            }
            read += range.records.len() as u64;
            pace.say("objects", read, read + range.remaining);
            match range.records.last() {
                // The least key above a key is the key and a zero byte.
                Some(last) if range.remaining > 0 => span.start = format!("{}\0", last.key).into(),
                _ => return Ok(()),
            }
        }
    }

    /// Takes changes in; `work` says how they are described.
    fn apply(&self, batch: Batch, work: Work<StoredChange, Option<(Arc<Log>, Written)>>) {
        let now = self.clock.now();
        // Runs of changes of one collection go in together, so that its lock is taken and its watchers are woken once.
        let mut run: Option<(Arc<Log>, Vec<Written>)> = None;
        let mut appended = Vec::new();
        let describe = |change: &StoredChange| self.written(&change.key, change.revision, change.value.as_ref());
        for (log, written) in work(&batch.changes, &describe).into_iter().flatten() {
            match &mut run {
                Some((current, changes)) if Arc::ptr_eq(current, &log) && changes.len() < RUN => changes.push(written),
                _ => {
                    if let Some((log, changes)) = run.replace((log, vec![written])) {
                        appended.push(self.append(log, changes, now));
                    }
                }
            }
        }
        if let Some((log, changes)) = run {
            appended.push(self.append(log, changes, now));
        }
        self.progress.advance(batch.complete_to.get());
        // After those who wait for progress: a write is answered before all who watch are told of it.
        for (log, events) in appended {
            log.wake(&events);
        }
        self.trim();
    }

    fn append(&self, log: Arc<Log>, changes: Vec<Written>, now: Timestamp) -> (Arc<Log>, Vec<Arc<Event>>) {
        let events = log.append(changes);
        let mut history = self.history.lock();
        for event in &events {
            let weight = event.weight();
            history.weight += weight;
            history.events.push_back((now, weight, log.clone(), event.revision));
            history.framed.push(event);
        }
        drop(history);
        (log, events)
    }

    fn trim(&self) {
        let now = self.clock.now();
        let pinned = self.pins.lock().first_key_value().map_or(u64::MAX, |(revision, _)| *revision);
        let mut history = self.history.lock();
        while let Some((time, weight, _, revision)) = history.events.front() {
            let inside = |window: Window| time.after(window.duration) > now && history.weight <= window.bytes;
            let pins = self.window.and(PINNED);
            let (weight, keep) = (*weight, inside(self.window) || (*revision > pinned && inside(pins)));
            if keep {
                return;
            }
            if let Some((_, _, log, _)) = history.events.pop_front() {
                history.weight -= weight;
                log.drop_oldest();
            }
        }
    }
}

/// A way to do the same for many.
type Work<T, R> = fn(&[T], &(dyn Fn(&T) -> R + Sync)) -> Vec<R>;

/// One after the other: for changes as they come, while others use the processors.
fn one_by_one<T, R>(items: &[T], each: &(dyn Fn(&T) -> R + Sync)) -> Vec<R> {
    items.iter().map(each).collect()
}

/// On all processors: for a start, when nothing else is done and describing objects is what takes the time.
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
