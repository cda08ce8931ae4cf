//! The cache's start beside a store that does not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_cache::{Cache, EncodingCache, HistoryLimits, Indexer, KeyRange, ObjectIndex};
use pintle_store::{
    Change, ChangeFeed, Committed, Key, Memory, Pending, Range, Record, Revision, Span, Store, SystemClock,
};

/// Objects of which nothing needs to be known.
struct Plain;

impl Indexer for Plain {
    fn index(&self, _: &str, _: &[u8]) -> Result<ObjectIndex, String> {
        Ok(ObjectIndex::default())
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
    let fill = Cache::fill(
        store,
        "/registry",
        ["things".into()],
        Arc::new(Plain),
        Arc::new(SystemClock),
        HistoryLimits::default(),
    );
    let cache = fill.await.unwrap_or_else(|error| panic!("{moves} moves: {error}")).follow([], EncodingCache::new(0));
    let watch_cache = cache.watch_cache("things").expect("a log");
    let page = watch_cache.page(&KeyRange::All, None, newest, 10).expect("the newest state");
    let found: Vec<_> = page.objects.iter().map(|object| String::from_utf8_lossy(&object.json)).collect();
    assert_eq!(found, ["6", "7", "5"], "{moves} moves");
}

#[tokio::test]
async fn a_window_that_moves_on_does_not_keep_it_from_starting() {
    for moves in 0..5 {
        check(moves).await;
    }
}

/// Fills a cache of `things` with writes of before and after the history's start, and takes `later` in once that is done.
#[tokio::test]
async fn collections_that_others_tell_of_are_taken_in_with_their_history() {
    let store = Arc::new(Memory::new());
    let put = async |key: &str, value: &str| {
        let committed =
            store.commit(Change::put(format!("/registry/{key}"), value.to_owned())).await.expect("a commit");
        committed.revision.get()
    };
    for key in ["later/old", "things/old", "elsewhere/old", "later/changed"] {
        put(key, "before").await;
    }
    store.compact(store.current_revision().await.expect("a revision")).await.expect("a compaction");
    let first = put("later/changed", "1").await;
    put("things/a", "2").await;
    let second = put("later/changed", "3").await;
    put("things/a", "4").await;
    let window = HistoryLimits { bytes: 1100, ..HistoryLimits::default() };
    let fill =
        Cache::fill(store.clone(), "/registry", ["things".into()], Arc::new(Plain), Arc::new(SystemClock), window);
    let filled = fill.await.expect("a cache");
    assert!(filled.watch_cache("things").is_some() && filled.watch_cache("later").is_none());
    let cache = filled.follow(["later".into()], EncodingCache::new(0));
    let watch_cache = cache.watch_cache("later").expect("a log");
    let show = |at: u64| {
        let page = watch_cache.page(&KeyRange::All, None, at, 10).ok()?;
        Some(page.objects.iter().map(|object| String::from_utf8_lossy(&object.json).into_owned()).collect::<Vec<_>>())
    };
    assert_eq!(show(second), Some(vec!["3".to_owned(), "before".to_owned()]));
    // The window holds so little that only the oldest event of all, which is one of `later`, is gone.
    assert_eq!((show(first), show(first - 1)), (Some(vec!["1".to_owned(), "before".to_owned()]), None));
    let then = put("later/new", "5").await;
    cache.reaches(then).await;
    assert_eq!(show(then).map(|objects| objects.len()), Some(3));
}
