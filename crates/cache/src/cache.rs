//! The cache of a logical cluster: its logs, fed in order from the store, trimmed to the window.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use pintle_store::{Batch, ChangeFeed, Clock, Record, Revision, Span, Store, StoredChange, Timestamp};
use pintle_value::Str;
use tokio::task::JoinHandle;

use crate::frames::Framed;
use crate::log::Log;
use crate::progress::Progress;
use crate::{Event, Object, Outline};

/// How many records are read at once when the cache is filled.
const FILL: usize = 10_000;

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
                Ok(batch) => shared.apply(batch),
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

    fn object(&self, prefix: &str, key: &str, revision: u64, value: Bytes) -> Option<Arc<Object>> {
        match self.describe.outline(prefix, &value) {
            Ok(outline) => Some(Arc::new(Object { key: Str::from(key), revision, json: value, outline })),
            Err(error) => {
                tracing::error!(prefix, key, revision, error, "a stored object cannot be read");
                None
            }
        }
    }

    /// Puts an object that was there before the history starts.
    fn seed(&self, record: &Record) {
        if let Some((log, prefix, rest)) = self.place(&record.key)
            && let Some(object) = self.object(prefix, rest, record.mod_revision.get(), record.value.clone())
        {
            log.seed(object);
        }
    }

    /// Comes up to the newest revision from the oldest one that the store can show, and gives the feed from there on.
    async fn catch_up(&self, store: &dyn Store, oldest: Revision) -> Result<ChangeFeed, pintle_store::Error> {
        let now = store.current_revision().await?;
        self.fill(store, oldest).await?;
        let mut feed = store.changes(oldest).await?;
        while self.progress.get() < now.get() {
            self.apply(feed.next_batch().await?);
        }
        Ok(feed)
    }

    async fn fill(&self, store: &dyn Store, at: Revision) -> Result<(), pintle_store::Error> {
        let mut span = Span::prefix(&format!("{}/", self.root));
        loop {
            let range = store.range(span.clone(), Some(at), Some(FILL)).await?;
            // Describing objects is what takes the time, so all processors do it.
            let workers = std::thread::available_parallelism().map_or(1, usize::from);
            std::thread::scope(|scope| {
                for records in range.records.chunks(range.records.len().div_ceil(workers).max(1)) {
                    scope.spawn(|| records.iter().for_each(|record| self.seed(record)));
                }
            });
            match range.records.last() {
                // The least key above a key is the key and a zero byte.
                Some(last) if range.remaining > 0 => span.start = format!("{}\0", last.key).into(),
                _ => return Ok(()),
            }
        }
    }

    fn apply(&self, batch: Batch) {
        let now = self.clock.now();
        // Runs of changes of one collection go in together, so that its lock is taken and its watchers are woken once.
        let mut run: Option<(Arc<Log>, Vec<Arc<Event>>)> = None;
        for change in batch.changes {
            let Some((log, prefix, rest)) = self.place(&change.key) else { continue };
            if let Some((current, events)) = run.take() {
                if Arc::ptr_eq(&current, &log) && events.len() < 64 && !events.iter().any(|e| e.key == rest) {
                    run = Some((current, events));
                } else {
                    self.append(&current, &events, now);
                }
            }
            let event = self.event(&log, prefix, rest, &change);
            run.get_or_insert_with(|| (log, Vec::new())).1.push(Arc::new(event));
        }
        if let Some((log, events)) = run {
            self.append(&log, &events, now);
        }
        self.progress.advance(batch.complete_to.get());
        self.trim();
    }

    fn event(&self, log: &Log, prefix: &str, rest: &str, change: &StoredChange) -> Event {
        let revision = change.revision.get();
        let object = change.value.clone().and_then(|value| self.object(prefix, rest, revision, value));
        Event::new(Str::from(rest), revision, object, log.newest(rest))
    }

    fn append(&self, log: &Arc<Log>, events: &[Arc<Event>], now: Timestamp) {
        log.append(events);
        let mut history = self.history.lock();
        for event in events {
            let weight = event.weight();
            history.weight += weight;
            history.events.push_back((now, weight, log.clone(), event.revision));
            history.framed.push(event);
        }
    }

    fn trim(&self) {
        let now = self.clock.now();
        let pinned = self.pins.lock().first_key_value().map_or(u64::MAX, |(revision, _)| *revision);
        let mut history = self.history.lock();
        while let Some((time, weight, _, revision)) = history.events.front() {
            let (weight, keep) = (
                *weight,
                *revision > pinned || (time.after(self.window.duration) > now && history.weight <= self.window.bytes),
            );
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
