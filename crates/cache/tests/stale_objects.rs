//! Objects whose stored form is stale, and a change feed that differs from the store's own.

mod common;

use std::sync::Arc;

use pintle_layered_store::{LayeredStore, StoreLayer};
use pintle_store::{Change, MemoryStore, Revision, Store};

use self::common::{NullIndexer, load};

/// The encryption key was rotated after a revision: values from before the rotation are stale.
#[derive(Clone, Debug)]
struct RotatedAfter(Revision);

impl StoreLayer for RotatedAfter {
    fn is_stale(&self, written_at: Revision) -> bool {
        written_at <= self.0
    }
}

#[tokio::test]
async fn stale_objects_are_marked_until_they_are_written_again() {
    let store = MemoryStore::new();
    for name in ["initial", "history", "current"] {
        store.commit(Change::create(format!("/registry/things/{name}"), "{}")).await.expect("a commit");
    }
    // Of the first object only the state at the start of the history is left.
    store.compact(Revision(2)).await.expect("a compaction");
    let store = Arc::new(LayeredStore { store: Arc::new(store), layer: RotatedAfter(Revision(3)) });
    let cache = load(store.clone(), &["things"], NullIndexer).await;
    let watch_cache = cache.watch_cache("things").expect("a watch cache");
    let is_stale = |name: &str, at: Option<u64>| {
        watch_cache.get(name, at).expect("the revision is retained").expect("an object").is_stale()
    };
    let all = || ["initial", "history", "current"].map(|name| is_stale(name, None));
    assert_eq!(all(), [true, true, false]);
    cache.reindex("things").await.expect("the store is readable");
    assert_eq!(all(), [true, true, false], "another index does not change the stored form");

    // Writing the same bytes again is a change too.
    for (name, revision) in [("initial", 2), ("history", 3)] {
        let change = Change::update(format!("/registry/things/{name}"), Revision(revision), "{}");
        let committed = store.commit(change).await.expect("a commit");
        assert_eq!(committed, Revision(revision + 3));
    }
    cache.wait_until_fresh(6).await;
    assert_eq!(all(), [false; 3]);
    assert!(is_stale("initial", Some(4)), "the old version stays what it was");
}
