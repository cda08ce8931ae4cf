//! Loading a cache while the store changes.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_cache::{Cache, EncodingCache, HistoryLimits, KeyRange, WatchCache};
use pintle_layered_store::{LayeredStore, StoreLayer};
use pintle_store::{Change, Compare, MemoryStore, Revision, Store, StoreFuture, SystemClock};

use self::common::{NullIndexer, load};

/// Compacts one more revision just before each read, a limited number of times.
#[derive(Clone, Debug)]
struct Compactions(Arc<AtomicUsize>);

impl StoreLayer for Compactions {
    fn before_read<'s>(&'s self, store: &'s MemoryStore) -> StoreFuture<'s, ()> {
        Box::pin(async {
            let subtract = |compactions: usize| compactions.checked_sub(1);
            if self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract).is_err() {
                return Ok(());
            }
            let oldest = store.oldest_revision().await?;
            store.compact(Revision(oldest.get() + 1)).await
        })
    }
}

async fn check(compactions: usize) {
    let store = MemoryStore::new();
    for i in 0..8 {
        store.commit(Change::put(format!("/registry/things/{}", i % 3), format!("{i}"))).await.expect("a commit");
    }
    let newest = store.current_revision().await.expect("a revision").get();
    let cache = load(
        Arc::new(LayeredStore { store: Arc::new(store), layer: Compactions(Arc::new(compactions.into())) }),
        &["things"],
        NullIndexer,
    )
    .await;
    let watch_cache = cache.watch_cache("things").expect("a watch cache");
    let page = watch_cache.page(&KeyRange::All, None, newest, 10).expect("the newest state");
    let found: Vec<_> = page.objects.iter().map(|object| String::from_utf8_lossy(&object.json)).collect();
    assert_eq!(found, ["6", "7", "5"], "{compactions} compactions");
}

#[tokio::test]
async fn loading_succeeds_while_the_store_compacts() {
    for compactions in 0..5 {
        check(compactions).await;
    }
}

/// Loads a cache of `things` with changes from before and after the start of the history, then adds `later`.
#[tokio::test]
async fn collections_discovered_during_loading_have_their_history() {
    let store = Arc::new(MemoryStore::new());
    let put = async |key: &str, value: &str| {
        let committed =
            store.commit(Change::put(format!("/registry/{key}"), value.to_owned())).await.expect("a commit");
        committed.get()
    };
    for key in ["later/old", "things/old", "elsewhere/old", "later/changed"] {
        put(key, "before").await;
    }
    store.compact(store.current_revision().await.expect("a revision")).await.expect("a compaction");
    let first = put("later/changed", "1").await;
    put("things/a", "2").await;
    let second = put("later/changed", "3").await;
    put("things/a", "4").await;
    let history_limits = HistoryLimits { bytes: 1100, ..HistoryLimits::default() };
    let load = Cache::load(
        store.clone(),
        "/registry",
        ["things".into()],
        Arc::new(NullIndexer),
        Arc::new(SystemClock),
        history_limits,
    );
    let loaded = load.await.expect("a cache");
    assert!(loaded.watch_cache("things").is_some() && loaded.watch_cache("later").is_none());
    let unclaimed = ["later", "elsewhere", "late", "things"].map(|prefix| loaded.count_unclaimed(prefix));
    assert_eq!(unclaimed, [2, 1, 0, 0]);
    let cache = loaded.follow(["later".into()], EncodingCache::new(0));
    let watch_cache = cache.watch_cache("later").expect("a watch cache");
    let show = |at: u64| {
        let page = watch_cache.page(&KeyRange::All, None, at, 10).ok()?;
        Some(page.objects.iter().map(|object| String::from_utf8_lossy(&object.json).into_owned()).collect::<Vec<_>>())
    };
    assert_eq!(show(second), Some(vec!["3".to_owned(), "before".to_owned()]));
    // The limits are so small that only the oldest event of all, which belongs to `later`, has been dropped.
    assert_eq!((show(first), show(first - 1)), (Some(vec!["1".to_owned(), "before".to_owned()]), None));
    let then = put("later/new", "5").await;
    cache.wait_until_fresh(then).await;
    assert_eq!(show(then).map(|objects| objects.len()), Some(3));
}

#[tokio::test]
async fn a_collection_that_is_opened_empty_was_so_since_its_last_change() {
    let store = Arc::new(MemoryStore::new());
    let commit = async |change: Change| store.commit(change).await.expect("a commit").get();
    let put = |key: &str| Change::put(format!("/registry/{key}"), "{}".to_owned());
    commit(put("before/a")).await;
    let deleted = commit(Change::delete("/registry/before/a", Compare::Any)).await;
    let cache = load(store.clone(), &["things"], NullIndexer).await;
    let start = cache.start_revision();
    let open = async |prefix: &str| {
        cache.open(prefix).await.expect("a watch cache");
        cache.watch_cache(prefix).expect("a watch cache")
    };
    let count = |watch_cache: &WatchCache, at: u64| {
        watch_cache.page(&KeyRange::All, None, at, 10).ok().map(|page| page.objects.len())
    };
    let last = commit(put("things/a")).await;
    let before = open("before").await;
    assert_eq!((count(&before, deleted - 1), count(&before, deleted)), (None, Some(0)));
    let new = open("new").await;
    assert_eq!((count(&new, start), new.valid_from()), (Some(0), last), "its log begins when it is opened");
    let written = commit(put("new/a")).await;
    cache.wait_until_fresh(written).await;
    assert_eq!((count(&new, start), count(&new, written)), (Some(0), Some(1)));
    let gone = commit(Change::delete("/registry/new/a", Compare::Any)).await;
    cache.wait_until_fresh(gone).await;
    cache.close("new");
    commit(put("things/b")).await;
    let again = open("new").await;
    assert_eq!((count(&again, written), count(&again, gone)), (None, Some(0)));
}
