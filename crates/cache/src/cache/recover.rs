//! Follows the store, and recovers from failures. A feed that cannot be read is read again. Watch caches that have
//! missed changes are brought up to date from the store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_store::{ChangeFeed, Error, Revision, StoredChange};
use pintle_value::Str;
use tokio::sync::mpsc;

use super::CacheState;
use super::history::PACK_BATCH;
use super::load::{join, read_pages};
use super::undecrypted::Undecrypted;
use crate::watch_cache::PendingChange;
use crate::{EncodingCache, Key, WatchCache};

/// How long to wait after the first failure. Each further failure doubles the wait.
const MIN_BACKOFF: Duration = Duration::from_millis(50);
/// The longest wait.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// How long a request for the store's revision may keep the feed from being read.
const REVISION_TIMEOUT: Duration = Duration::from_secs(1);

fn next_backoff(backoff: Duration) -> Duration {
    (backoff * 2).min(MAX_BACKOFF)
}

/// Follows the store until the store is closed, whatever fails.
pub(super) async fn supervise(shared: Arc<CacheState>, encoding_cache: Arc<EncodingCache>, feed: Box<dyn ChangeFeed>) {
    let mut feed = Some(feed);
    let is_closed = Arc::new(AtomicBool::new(false));
    let start = || {
        let (shared, encoding_cache, is_closed) = (shared.clone(), encoding_cache.clone(), is_closed.clone());
        let feed = feed.take();
        async move {
            match run(&shared, &encoding_cache, feed).await {
                Err(Error::Closed) => {
                    is_closed.store(true, Ordering::Relaxed);
                    Ok(())
                }
                result => result.map_err(|error| error.to_string()),
            }
        }
    };
    shared.feed_task.supervise(start, || is_closed.load(Ordering::Relaxed)).await;
}

/// Follows the feed. Without a feed, first brings the watch caches up to date. Ends with an error if the store is
/// closed or the feed has lost changes.
async fn run(
    shared: &CacheState,
    encoding_cache: &EncodingCache,
    feed: Option<Box<dyn ChangeFeed>>,
) -> Result<(), Error> {
    let feed = match feed {
        Some(feed) => feed,
        None => shared.rebuild().await?,
    };
    follow(shared, encoding_cache, feed).await
}

/// Applies the changes of a feed.
///
/// # Errors
/// The store is closed, or the feed has lost changes.
async fn follow(
    shared: &CacheState,
    encoding_cache: &EncodingCache,
    mut feed: Box<dyn ChangeFeed>,
) -> Result<(), Error> {
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    let mut backoff = MIN_BACKOFF;
    // Due events are packed while there are no changes. The first of them are the history that the start has read.
    let mut has_due_events = true;
    let mut undecrypted = Undecrypted::default();
    loop {
        let complete_to = feed.complete_to();
        // The future is kept while events are packed, because it may be reading from the store.
        let mut next_batch = feed.next_batch();
        let batch = loop {
            tokio::select! {
                biased;
                _ = tick.tick() => {
                    shared.trim();
                    has_due_events = true;
                    shared.trim_closed();
                    encoding_cache.tick();
                    shared.read_undecrypted(&mut undecrypted);
                    if shared.feed_task.failure().is_some() && shared.is_current(complete_to).await {
                        shared.feed_task.report_success();
                    }
                }
                batch = &mut next_batch => break batch,
                records = undecrypted.next_records() => shared.add_decrypted(records),
                () = tokio::task::yield_now(), if has_due_events => has_due_events = shared.pack(PACK_BATCH) > 0,
            }
        };
        match batch {
            Ok(batch) => {
                has_due_events |= shared.apply(batch);
                shared.feed_task.report_success();
                backoff = MIN_BACKOFF;
            }
            Err(error @ (Error::Closed | Error::Compacted { .. })) => return Err(error),
            Err(error) => {
                shared.feed_task.report_failure(&error.to_string());
                tracing::error!(%error, "Failed to read the change feed of the store, will retry");
                tokio::time::sleep(backoff).await;
                backoff = next_backoff(backoff);
            }
        }
    }
}

impl CacheState {
    /// True if the store can be read and has no changes after a revision. After a failure this shows that the feed has
    /// nothing to return and no longer fails.
    async fn is_current(&self, complete_to: Revision) -> bool {
        let current = tokio::time::timeout(REVISION_TIMEOUT, self.store.current_revision()).await;
        matches!(current, Ok(Ok(current)) if current <= complete_to)
    }

    /// Brings the watch caches up to the store's current revision, and returns the feed of the changes after it. The
    /// missed changes are not known, so the history begins anew and every watch must list again.
    async fn rebuild(&self) -> Result<Box<dyn ChangeFeed>, Error> {
        let now = self.store.current_revision().await?;
        let feed = self.store.changes(now).await?;
        let (sender, mut pages) = mpsc::channel(1);
        let reader = tokio::spawn(read_pages(self.store.clone(), format!("{}/", self.root), now, sender));
        let mut changes = Vec::new();
        let mut stored: HashMap<Str, HashSet<Key>> = HashMap::new();
        while let Some(page) = pages.recv().await {
            for record in page.records {
                let Some((watch_cache, prefix, rest)) = self.locate(&record.key) else { continue };
                stored.entry(prefix.into()).or_default().insert(Key::at_end_of(&record.key, rest.len()));
                if watch_cache.last_change_of(rest) < record.mod_revision.get() {
                    changes.push(StoredChange {
                        revision: record.mod_revision,
                        key: record.key,
                        value: Some(record.value),
                        stale: record.stale,
                    });
                }
            }
        }
        join(reader).await?;
        let watch_caches: Vec<Arc<WatchCache>> = self.watch_caches.read().by_prefix.values().cloned().collect();
        for watch_cache in &watch_caches {
            let stored = stored.remove(watch_cache.prefix()).unwrap_or_default();
            changes.extend(watch_cache.keys_missing_in(&stored).into_iter().map(|key| StoredChange {
                revision: now,
                key: format!("{}/{}/{key}", self.root, watch_cache.prefix()).into(),
                value: None,
                stale: false,
            }));
        }
        changes.sort_by_key(|change| change.revision);
        let applied = changes.len();
        let mut pending: HashMap<Str, Vec<PendingChange>> = HashMap::new();
        for change in changes {
            // The collections are among the ones found above.
            let Ok((watch_cache, change)) = self.pending_change(change) else { continue };
            pending.entry(watch_cache.prefix().clone()).or_default().push(change);
        }
        for watch_cache in &watch_caches {
            watch_cache.rebuild(pending.remove(watch_cache.prefix()).unwrap_or_default(), now.get());
        }
        self.history.lock().expire();
        self.progress.advance(now.get());
        self.feed_task.report_success();
        tracing::info!(revision = now.get(), changes = applied, "Rebuilt the watch caches");
        Ok(feed)
    }
}
