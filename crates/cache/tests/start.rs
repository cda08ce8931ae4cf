//! The cache's start beside a store that does not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_cache::{Cache, Describe, KeyRange, Outline, Window};
use pintle_store::{
    Change, ChangeFeed, Committed, Key, Memory, Pending, Range, Record, Revision, Span, Store, SystemClock,
};

/// Objects of which nothing needs to be known.
struct Plain;

impl Describe for Plain {
    fn outline(&self, _: &str, _: &[u8]) -> Result<Outline, String> {
        Ok(Outline::default())
    }
}

/// A store whose window moves on just before something is read, so many times.
#[derive(Debug)]
struct Moving {
    store: Memory,
    moves: AtomicUsize,
}

impl Moving {
    async fn shift(&self) -> Result<(), pintle_store::Error> {
        let left = self.moves.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |moves| moves.checked_sub(1));
        if left.is_err() {
            return Ok(());
        }
        let oldest = self.store.oldest_revision().await?;
        self.store.compact(Revision(oldest.get() + 1)).await
    }
}

impl Store for Moving {
    fn current_revision(&self) -> Pending<'_, Revision> {
        self.store.current_revision()
    }

    fn get(&self, key: Key, at: Option<Revision>) -> Pending<'_, Option<Record>> {
        self.store.get(key, at)
    }

    fn range(&self, span: Span, at: Option<Revision>, limit: Option<usize>) -> Pending<'_, Range> {
        Box::pin(async move {
            self.shift().await?;
            self.store.range(span, at, limit).await
        })
    }

    fn commit(&self, change: Change) -> Pending<'_, Committed> {
        self.store.commit(change)
    }

    fn changes(&self, from: Revision) -> Pending<'_, ChangeFeed> {
        Box::pin(async move {
            self.shift().await?;
            self.store.changes(from).await
        })
    }

    fn compact(&self, before: Revision) -> Pending<'_, ()> {
        self.store.compact(before)
    }

    fn oldest_revision(&self) -> Pending<'_, Revision> {
        self.store.oldest_revision()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.store.close()
    }
}

async fn check(moves: usize) {
    let store = Memory::new();
    for i in 0..8 {
        store.commit(Change::put(format!("/registry/things/{}", i % 3), format!("{i}"))).await.expect("a commit");
    }
    let newest = store.current_revision().await.expect("a revision").get();
    let store = Arc::new(Moving { store, moves: AtomicUsize::new(moves) });
    let start =
        Cache::start(store, "/registry", ["things".into()], Arc::new(Plain), Arc::new(SystemClock), Window::default());
    let cache = start.await.unwrap_or_else(|error| panic!("{moves} moves: {error}"));
    let log = cache.log("things").expect("a log");
    let page = log.page(&KeyRange::All, None, newest, 10).expect("the newest state");
    let found: Vec<_> = page.objects.iter().map(|object| String::from_utf8_lossy(&object.json)).collect();
    assert_eq!(found, ["6", "7", "5"], "{moves} moves");
}

#[tokio::test]
async fn a_window_that_moves_on_does_not_keep_it_from_starting() {
    for moves in 0..5 {
        check(moves).await;
    }
}
