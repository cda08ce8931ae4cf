//! A store behind a bad network: changes arrive late, and answers get lost.

use std::sync::Arc;
use std::time::Duration;

use pintle_store::{
    Change, ChangeBatch, ChangeFeed, Error, Key, KeyInterval, MemoryStore, RangeResponse, Record, Revision, Store,
    StoreFuture, Timestamp,
};
use tokio::time::Instant;

/// A server's access to a store that it shares with others.
#[derive(Debug)]
pub(crate) struct SlowStore {
    pub(crate) store: Arc<MemoryStore>,
    /// The delay of changes.
    pub(crate) lag: Duration,
    /// The prefix of keys whose changes are committed but whose answers are lost.
    pub(crate) unanswered: Option<&'static str>,
}

impl Store for SlowStore {
    fn current_revision(&self) -> StoreFuture<'_, Revision> {
        self.store.current_revision()
    }

    fn get(&self, key: Key, at: Option<Revision>) -> StoreFuture<'_, Option<Record>> {
        self.store.get(key, at)
    }

    fn range(
        &self,
        interval: KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> StoreFuture<'_, RangeResponse> {
        self.store.range(interval, at, limit)
    }

    fn commit(&self, change: Change) -> StoreFuture<'_, Revision> {
        let is_lost = self.unanswered.is_some_and(|prefix| change.key.starts_with(prefix));
        let answer = self.store.commit(change);
        Box::pin(async move {
            match (answer.await, is_lost) {
                (Ok(_), true) => Err(Error::OutcomeUnknown { detail: "the answer is lost".to_owned() }),
                (answer, _) => answer,
            }
        })
    }

    fn changes(&self, from: Revision) -> StoreFuture<'_, Box<dyn ChangeFeed>> {
        Box::pin(async move {
            let feed = self.store.changes(from).await?;
            let complete_to = feed.complete_to();
            Ok(Box::new(SlowFeed { feed, lag: self.lag, complete_to, next: None }) as Box<dyn ChangeFeed>)
        })
    }

    fn compact(&self, before: Revision) -> StoreFuture<'_, ()> {
        self.store.compact(before)
    }

    fn oldest_revision(&self) -> StoreFuture<'_, Revision> {
        self.store.oldest_revision()
    }

    fn expiries(&self) -> StoreFuture<'_, Vec<(Key, Timestamp)>> {
        self.store.expiries()
    }

    fn health(&self) -> Result<(), Error> {
        self.store.health()
    }

    fn readiness(&self) -> Result<(), Error> {
        self.store.readiness()
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.store.close()
    }
}

#[derive(Debug)]
struct SlowFeed {
    feed: Box<dyn ChangeFeed>,
    lag: Duration,
    complete_to: Revision,
    /// The delayed changes, and the time until which they are delayed.
    next: Option<(ChangeBatch, Instant)>,
}

impl ChangeFeed for SlowFeed {
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch> {
        Box::pin(async {
            if self.next.is_none() {
                let batch = self.feed.next_batch().await?;
                self.next = Some((batch, Instant::now() + self.lag));
            }
            if let Some((_, due)) = &self.next {
                tokio::time::sleep_until(*due).await;
            }
            let Some((batch, _)) = self.next.take() else { return Err(Error::Closed) };
            self.complete_to = batch.complete_to;
            Ok(batch)
        })
    }

    fn complete_to(&self) -> Revision {
        self.complete_to
    }
}
