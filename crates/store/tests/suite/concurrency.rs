//! Many writers and readers at once: nobody overwrites unseen, and whoever was answered finds the change in the feed.

use std::sync::Arc;

use pintle_store::{Change, ChangeFeed, Error, Expect, Key, Revision, Span, Store, StoredChange, Window};

use crate::script::Bench;

const WRITERS: u64 = 16;
const ROUNDS: u64 = 40;

/// Adds one to a counter that others add to as well.
async fn increment(store: &dyn Store, key: &Key) -> Revision {
    loop {
        let (expect, count) = match store.get(key.clone(), None).await.unwrap() {
            Some(record) => {
                let count: u64 = std::str::from_utf8(&record.value).unwrap().parse().unwrap();
                (Expect::At(record.mod_revision), count)
            }
            None => (Expect::Absent, 0),
        };
        let change = Change { expect, ..Change::put(key.clone(), (count + 1).to_string()) };
        match store.commit(change).await {
            Ok(committed) => return committed.revision,
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn collect(mut feed: ChangeFeed) -> Vec<StoredChange> {
    let mut changes = Vec::new();
    loop {
        match feed.next_batch().await {
            Ok(batch) => changes.extend(batch.changes),
            Err(Error::Closed) => return changes,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn check(bench: Bench) {
    let store = Arc::clone(&bench.store);
    let early = tokio::spawn(collect(store.changes(Revision::EMPTY).await.unwrap()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut own = Vec::new();
                for round in 0..ROUNDS {
                    let key = Key::from(format!("/counters/{}", (writer + round) % 3));
                    let revision = increment(&*store, &key).await;
                    assert!(store.current_revision().await.unwrap() >= revision);
                    // What a feed from just before tells first is this change, without waiting for another.
                    let mut feed = store.changes(Revision(revision.get() - 1)).await.unwrap();
                    let first = feed.next_batch().await.unwrap().changes.remove(0);
                    assert_eq!((first.revision, &first.key), (revision, &key));
                    own.push(revision);
                }
                own
            })
        })
        .collect();
    let late = tokio::spawn(collect(store.changes(store.current_revision().await.unwrap()).await.unwrap()));
    let mut acknowledged = Vec::new();
    for writer in writers {
        let own = writer.await.unwrap();
        assert!(own.is_sorted(), "one writer's changes are in its order");
        acknowledged.extend(own);
    }
    acknowledged.sort_unstable();
    let last = 1 + WRITERS * ROUNDS;
    assert_eq!(acknowledged, (2..=last).map(Revision).collect::<Vec<_>>());
    let counters = store.range(Span::prefix("/counters/"), None, None).await.unwrap().records;
    let sum: u64 =
        counters.iter().map(|record| std::str::from_utf8(&record.value).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, WRITERS * ROUNDS, "no increment was lost");
    store.close().await.unwrap();

    let (early, late) = (early.await.unwrap(), late.await.unwrap());
    assert_eq!(early.iter().map(|change| change.revision).collect::<Vec<_>>(), acknowledged);
    assert_eq!(late, early[early.len() - late.len()..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_among_many() {
    check(Bench::memory(Window::default())).await;
    check(Bench::embedded(Window::default())).await;
}
