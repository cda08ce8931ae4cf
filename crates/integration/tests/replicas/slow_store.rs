//! A store behind a bad network: changes arrive late, and answers get lost.

use std::time::Duration;

use pintle_layered_store::StoreLayer;
use pintle_store::{Change, ChangeBatch, ChangeFeed, Error, MemoryStore, Revision, Store as _, StoreFuture};
use tokio::time::Instant;

/// The network between a server and a store that it shares with others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadNetwork {
    /// The delay of changes.
    pub(crate) lag: Duration,
    /// The prefix of keys whose changes are committed but whose answers are lost.
    pub(crate) unanswered: Option<&'static str>,
}

impl StoreLayer for BadNetwork {
    fn commit<'s>(&'s self, store: &'s MemoryStore, change: Change) -> StoreFuture<'s, Revision> {
        let is_lost = self.unanswered.is_some_and(|prefix| change.key.starts_with(prefix));
        let answer = store.commit(change);
        Box::pin(async move {
            match (answer.await, is_lost) {
                (Ok(_), true) => Err(Error::OutcomeUnknown { detail: "the answer is lost".to_owned() }),
                (answer, _) => answer,
            }
        })
    }

    fn feed(&self, feed: Box<dyn ChangeFeed>) -> Box<dyn ChangeFeed> {
        let complete_to = feed.complete_to();
        Box::new(SlowFeed { feed, lag: self.lag, complete_to, next: None })
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
