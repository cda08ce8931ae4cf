//! Stored objects that could not be decrypted are read again from time to time. The plugin of a key management service
//! may be available again, or the server may have other keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_store::{Error, KeyInterval, Record, Store, StoredChange};
use pintle_value::Str;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::CacheState;
use crate::watch_cache::{NewState, PendingChange};
use crate::{Key, WatchCache};

/// The interval between two reads of a collection, after the first one and at most.
const MIN_INTERVAL: Duration = Duration::from_secs(5);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// Up to so many objects of a collection are read one by one, at the shortest interval. Otherwise the whole collection is
/// read.
const MAX_SINGLE_READS: usize = 64;
/// The number of records of a collection that are read at once.
const RECORDS_PER_READ: usize = 1000;
/// The size of the objects that are kept before they are added.
const MAX_KEPT_BYTES: usize = 256 << 20;

/// When collections are read again, and the read that is running.
#[derive(Debug, Default)]
pub(super) struct Undecrypted {
    /// The next read of each collection, and the interval to the read after it.
    schedule: HashMap<Str, (Instant, Duration)>,
    read: Option<oneshot::Receiver<Vec<Record>>>,
}

/// The objects of a collection that could not be decrypted: their keys, and the revisions that wrote them.
type EncryptedObjects = HashMap<Key, u64>;

impl Undecrypted {
    /// Waits for the end of the running read, and returns the records that can be decrypted now. Never returns while
    /// nothing is being read.
    pub(super) async fn next_records(&mut self) -> Vec<Record> {
        let Some(read) = &mut self.read else { return std::future::pending().await };
        let records = read.await.unwrap_or_default();
        self.read = None;
        records
    }

    /// True if it is time to read a collection again.
    fn is_due(&mut self, collection: &Str, objects: usize) -> bool {
        let now = Instant::now();
        let (next, interval) = self.schedule.entry(collection.clone()).or_insert((now, MIN_INTERVAL));
        if now < *next {
            return false;
        }
        *next = now + *interval;
        *interval = if objects <= MAX_SINGLE_READS { MIN_INTERVAL } else { (*interval * 2).min(MAX_INTERVAL) };
        true
    }
}

impl CacheState {
    /// Begins to read the objects that could not be decrypted, if it is time.
    pub(super) fn read_undecrypted(&self, undecrypted: &mut Undecrypted) {
        if undecrypted.read.is_some() {
            return;
        }
        let watch_caches: Vec<Arc<WatchCache>> = self.watch_caches.read().by_prefix.values().cloned().collect();
        let mut due = Vec::new();
        for watch_cache in watch_caches {
            let objects: EncryptedObjects = watch_cache.encrypted().into_iter().collect();
            if objects.is_empty() {
                undecrypted.schedule.remove(watch_cache.prefix());
            } else if undecrypted.is_due(watch_cache.prefix(), objects.len()) {
                due.push((format!("{}/{}/", self.root, watch_cache.prefix()), objects));
            }
        }
        if due.is_empty() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        undecrypted.read = Some(receiver);
        let store = self.store.clone();
        tokio::spawn(async move {
            let mut found = Vec::new();
            for (key_prefix, objects) in due {
                if let Err(error) = read_again(&*store, &key_prefix, &objects, &mut found).await {
                    tracing::warn!(%error, key_prefix, "Failed to read encrypted objects again, will retry");
                }
            }
            // The receiver is dropped when the cache is.
            let _ = sender.send(found);
        });
    }

    /// Adds objects that can be decrypted now. The history begins anew, because it does not have them.
    pub(super) fn add_decrypted(&self, records: Vec<Record>) {
        let mut by_collection: HashMap<Str, (Arc<WatchCache>, Vec<PendingChange>)> = HashMap::new();
        for Record { key, value, mod_revision, stale, .. } in records {
            let change = StoredChange { revision: mod_revision, key, value: Some(value), stale };
            let Ok((watch_cache, change)) = self.pending_change(change) else { continue };
            let prefix = watch_cache.prefix().clone();
            by_collection.entry(prefix).or_insert_with(|| (watch_cache, Vec::new())).1.push(change);
        }
        let applied = self.progress.get();
        let mut added = 0;
        for (watch_cache, mut changes) in by_collection.into_values() {
            let encrypted: EncryptedObjects = watch_cache.encrypted().into_iter().collect();
            // An object may have changed again. Then the feed has the change, or will have it.
            changes.retain(|change| {
                encrypted.get(&change.key) == Some(&change.revision) && matches!(change.new_state, NewState::Object(_))
            });
            if !changes.is_empty() {
                added += changes.len();
                watch_cache.rebuild(changes, applied);
            }
        }
        if added > 0 {
            self.history.lock().expire();
            tracing::info!(objects = added, "Objects that could not be decrypted can be read now");
        }
    }
}

/// Reads objects of a collection again. Adds to `found` the records that can be decrypted now.
async fn read_again(
    store: &dyn Store,
    key_prefix: &str,
    objects: &EncryptedObjects,
    found: &mut Vec<Record>,
) -> Result<(), Error> {
    let mut kept_bytes: usize = found.iter().map(|record| record.value.len()).sum();
    let mut keep = |record: Record| {
        let known = record.key.strip_prefix(key_prefix).and_then(|key| objects.get(key));
        let is_wanted = known == Some(&record.mod_revision.get());
        if is_wanted && pintle_store::unreadable_reason(&record.value).is_none() {
            kept_bytes += record.value.len();
            found.push(record);
        }
        kept_bytes < MAX_KEPT_BYTES
    };
    if objects.len() <= MAX_SINGLE_READS {
        for key in objects.keys() {
            match store.get(format!("{key_prefix}{key}").into(), None).await {
                Err(Error::Transform { .. }) | Ok(None) => {}
                Ok(Some(record)) => {
                    keep(record);
                }
                Err(error) => return Err(error),
            }
        }
        return Ok(());
    }
    let mut interval = KeyInterval::prefix(key_prefix);
    loop {
        let page = store.page(interval.clone(), None, RECORDS_PER_READ).await?;
        let last = page.records.last().filter(|_| !page.is_last).map(|record| record.key.clone());
        let mut has_room = true;
        for record in page.records {
            has_room = keep(record);
        }
        match last {
            Some(last) if has_room => interval.continue_after(&last),
            _ => return Ok(()),
        }
    }
}
