//! The content of a store at one revision. A store in memory can begin with it.

use crate::{Error, Key, KeyInterval, Record, Revision, Store, Timestamp, unreadable_reason};

/// The records of a store at one revision.
#[derive(Clone, Debug)]
pub struct StoreSnapshot {
    pub(crate) revision: Revision,
    pub(crate) records: Vec<Record>,
    /// The keys that expire, with their expiry times. Keys without a record are ignored.
    pub(crate) expiries: Vec<(Key, Timestamp)>,
}

impl Default for StoreSnapshot {
    /// The snapshot of an empty store.
    fn default() -> Self {
        Self { revision: Revision::EMPTY, records: Vec::new(), expiries: Vec::new() }
    }
}

impl StoreSnapshot {
    /// Reads all records of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn of(store: &dyn Store) -> Result<Self, Error> {
        let range = store.range(KeyInterval::all(), None, None).await?;
        let unreadable = |record: &Record| Some(unreadable_reason(&record.value)?.of(&record.key));
        if let Some(error) = range.records.iter().find_map(unreadable) {
            return Err(error);
        }
        let expiries = store.expiries().await?;
        Ok(Self { revision: range.revision, records: range.records, expiries })
    }

    /// The revision of the last change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{Change, HistoryRetention, ManualClock, MemoryStore};

    #[tokio::test]
    async fn a_store_continues_a_snapshot() {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000)));
        let store = MemoryStore::with(HistoryRetention::default(), clock.clone());
        store.commit(Change::create("a", "1")).await.expect("a create");
        store.commit(Change::create("gone", "1")).await.expect("a create");
        store.commit(Change::delete("gone", crate::Compare::Any)).await.expect("a delete");
        let expiring = Change::create("b", "2").with_ttl(Duration::from_secs(60));
        store.commit(expiring).await.expect("a create");
        let snapshot = StoreSnapshot::of(&store).await.expect("a snapshot");
        store.commit(Change::put("a", "later")).await.expect("a put");

        let fork = MemoryStore::from_snapshot(&snapshot, HistoryRetention::default(), clock.clone());
        let all = fork.range(KeyInterval::all(), None, None).await.expect("a range");
        let found: Vec<_> = all.records.iter().map(|record| (record.key.as_str(), &*record.value)).collect();
        assert_eq!(found, [("a", &b"1"[..]), ("b", b"2")]);
        assert_eq!(all.revision, Revision(5));
        assert_eq!(all.records[0].mod_revision, Revision(2));
        assert!(matches!(fork.get("a".into(), Some(Revision(4))).await, Err(Error::Compacted { .. })));

        let mut feed = fork.changes(snapshot.revision()).await.expect("a feed");
        let response = fork.commit(Change::update("a", Revision(2), "2")).await.expect("an update");
        assert_eq!(response, Revision(6));
        clock.advance(Duration::from_secs(61));
        let mut changes = Vec::new();
        while changes.len() < 2 {
            changes.extend(feed.next_batch().await.expect("a batch").changes);
        }
        let changes: Vec<_> = changes.iter().map(|change| (change.key.as_str(), change.value.is_some())).collect();
        assert_eq!(changes, [("a", true), ("b", false)]);
    }
}
