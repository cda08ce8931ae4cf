//! Stored objects that could not be decrypted are read again from time to time. The plugin of a key management service
//! may be available again, or the server may have other keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_store::{Error, KeyInterval, Record, Store};
use pintle_value::Str;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::CacheState;
use crate::watch_cache::{NewState, PendingChange};
use crate::{Key, WatchCache};

/// The interval between two attempts, after the first one and at most.
const MIN_INTERVAL: Duration = Duration::from_secs(5);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// Up to so many objects of a collection are read one by one, at the shortest interval. Otherwise the whole collection is
/// read.
const MAX_SINGLE_READS: usize = 64;
/// The number of records of a collection that are read at once.
const RECORDS_PER_READ: usize = 1000;

/// The schedule of the attempts, and the records that the running attempt has read.
#[derive(Debug)]
pub(super) struct Undecrypted {
    next: Instant,
    interval: Duration,
    read: Option<mpsc::Receiver<Vec<Record>>>,
}

impl Undecrypted {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), interval: MIN_INTERVAL, read: None }
    }

    /// Waits for records that can be decrypted now. Never returns while nothing is being read.
    pub(super) async fn next_records(&mut self) -> Vec<Record> {
        if let Some(read) = &mut self.read {
            if let Some(records) = read.recv().await {
                return records;
            }
            self.read = None;
        }
        std::future::pending().await
    }
}

impl CacheState {
    /// Begins to read the objects that could not be decrypted, if it is time.
    pub(super) fn read_undecrypted(&self, undecrypted: &mut Undecrypted) {
        if undecrypted.read.is_some() || Instant::now() < undecrypted.next {
            return;
        }
        let watch_caches: Vec<Arc<WatchCache>> = self.watch_caches.read().by_prefix.values().cloned().collect();
        let encrypted =
            watch_caches.into_iter().map(|watch_cache| (watch_cache.prefix().clone(), watch_cache.encrypted()));
        let encrypted: Vec<(Str, Vec<(Key, u64)>)> = encrypted.filter(|(_, objects)| !objects.is_empty()).collect();
        let are_few = encrypted.iter().all(|(_, objects)| objects.len() <= MAX_SINGLE_READS);
        undecrypted.next = Instant::now() + undecrypted.interval;
        undecrypted.interval = if are_few { MIN_INTERVAL } else { (undecrypted.interval * 2).min(MAX_INTERVAL) };
        if encrypted.is_empty() {
            return;
        }
        let (sender, receiver) = mpsc::channel(1);
        undecrypted.read = Some(receiver);
        let (store, root) = (self.store.clone(), self.root.clone());
        tokio::spawn(async move {
            for (prefix, objects) in encrypted {
                if let Err(error) = read_again(&*store, &format!("{root}/{prefix}/"), &objects, &sender).await {
                    tracing::warn!(%error, prefix = &*prefix, "Failed to read encrypted objects again, will retry");
                }
            }
        });
    }

    /// Adds objects that can be decrypted now. The history begins anew, because it does not have them.
    pub(super) fn add_decrypted(&self, records: Vec<Record>) {
        let mut by_collection: HashMap<Str, (Arc<WatchCache>, HashMap<Key, u64>, Vec<PendingChange>)> = HashMap::new();
        for record in records {
            let revision = record.mod_revision.get();
            let change = pintle_store::StoredChange {
                revision: record.mod_revision,
                key: record.key,
                value: Some(record.value),
                stale: record.stale,
            };
            let Ok((watch_cache, change)) = self.pending_change(change) else { continue };
            let (_, encrypted, changes) = by_collection.entry(watch_cache.prefix().clone()).or_insert_with(|| {
                let encrypted = watch_cache.encrypted().into_iter().collect();
                (watch_cache, encrypted, Vec::new())
            });
            // The object may have changed again. Then the feed has the change, or will have it.
            if encrypted.get(&change.key) == Some(&revision) && !matches!(change.new_state, NewState::Corrupt(_)) {
                changes.push(change);
            }
        }
        let applied = self.progress.get();
        let mut added = 0;
        for (watch_cache, _, changes) in by_collection.into_values().filter(|(.., changes)| !changes.is_empty()) {
            added += changes.len();
            watch_cache.rebuild(changes, applied);
        }
        if added > 0 {
            self.history.lock().expire();
            tracing::info!(objects = added, "Objects that could not be decrypted can be read now");
        }
    }
}

/// Reads objects of a collection again, and sends those that can be transformed.
async fn read_again(
    store: &dyn Store,
    key_prefix: &str,
    objects: &[(Key, u64)],
    sender: &mpsc::Sender<Vec<Record>>,
) -> Result<(), Error> {
    let send = async |records: Vec<Record>| {
        let is_readable = |record: &Record| pintle_store::unreadable_reason(&record.value).is_none();
        let records: Vec<Record> = records.into_iter().filter(is_readable).collect();
        // The receiver is dropped when the cache is.
        records.is_empty() || sender.send(records).await.is_ok()
    };
    if objects.len() <= MAX_SINGLE_READS {
        for (key, _) in objects {
            match store.get(format!("{key_prefix}{key}").into(), None).await {
                Err(Error::Transform { .. }) => {}
                found => {
                    if !send(found?.into_iter().collect()).await {
                        break;
                    }
                }
            }
        }
        return Ok(());
    }
    let mut interval = KeyInterval::prefix(key_prefix);
    loop {
        let page = store.page(interval.clone(), None, RECORDS_PER_READ).await?;
        let last = page.records.last().filter(|_| !page.is_last).map(|record| record.key.clone());
        if !send(page.records).await {
            return Ok(());
        }
        match last {
            // The smallest key after a key is the key with a zero byte appended.
            Some(last) => interval.start = format!("{last}\0").into(),
            None => return Ok(()),
        }
    }
}
