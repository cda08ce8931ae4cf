//! Concurrent writers and readers: no write is lost, and a change is in the feed once its commit returns.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pintle_store::{
    Change, ChangeFeed, Clock, Compare, Error, HistoryRetention, Key, KeyInterval, Revision, Store, StoredChange,
};

use crate::script::EngineUnderTest;

const WRITERS: u64 = 16;
const ROUNDS: u64 = 40;

/// Increments a counter that other writers increment too.
async fn increment(store: &dyn Store, key: &Key) -> Revision {
    loop {
        let (compare, count) = match store.get(key.clone(), None).await.unwrap() {
            Some(record) => {
                let count: u64 = std::str::from_utf8(&record.value).unwrap().parse().unwrap();
                (Compare::ModRevision(record.mod_revision), count)
            }
            None => (Compare::Absent, 0),
        };
        let change = Change { compare, ..Change::put(key.clone(), (count + 1).to_string()) };
        match store.commit(change).await {
            Ok(committed) => return committed,
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn collect(mut feed: Box<dyn ChangeFeed>) -> Vec<StoredChange> {
    let mut changes = Vec::new();
    loop {
        match feed.next_batch().await {
            Ok(batch) => changes.extend(batch.changes),
            Err(Error::Closed) => return changes,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn check(engine: EngineUnderTest) {
    let store = Arc::clone(&engine.store);
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
                    // A feed from the previous revision delivers this change first, without waiting for another change.
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
        assert!(own.is_sorted(), "the changes of one writer are in its order");
        acknowledged.extend(own);
    }
    acknowledged.sort_unstable();
    let last = 1 + WRITERS * ROUNDS;
    assert_eq!(acknowledged, (2..=last).map(Revision).collect::<Vec<_>>());
    let counters = store.range(KeyInterval::prefix("/counters/"), None, None).await.unwrap().records;
    let sum: u64 =
        counters.iter().map(|record| std::str::from_utf8(&record.value).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, WRITERS * ROUNDS, "no increment was lost");
    store.close().await.unwrap();

    let (early, late) = (early.await.unwrap(), late.await.unwrap());
    assert_eq!(early.iter().map(|change| change.revision).collect::<Vec<_>>(), acknowledged);
    assert_eq!(late, early[early.len() - late.len()..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_lose_no_change() {
    check(EngineUnderTest::memory(HistoryRetention::default())).await;
    check(EngineUnderTest::embedded(HistoryRetention::default())).await;
    check(EngineUnderTest::encrypted(HistoryRetention::default())).await;
    check(EngineUnderTest::etcd()).await;
}

/// Commits changes at the same time, most of them in one transaction. The last change of a key decides whether and when
/// the key expires, at once and after a restart.
async fn check_expiries(mut engine: EngineUnderTest) {
    let writes = (0..30).map(|number| {
        let change = Change::put(format!("/keys/{}", number % 3), number.to_string());
        engine.store.commit(match number {
            27 => change,
            _ => change.with_ttl(Duration::from_millis(100 + number)),
        })
    });
    assert!(join_all(writes).await.iter().all(Result::is_ok));
    engine.store.commit(Change::delete("/keys/1", Compare::Any)).await.unwrap();
    let due = engine.clock.now().after(Duration::from_millis(129));
    for _ in 0..2 {
        assert_eq!(engine.store.expiries().await.unwrap(), [("/keys/2".into(), due)]);
        engine.reopen().await;
    }
    let mut feed = engine.store.changes(engine.store.current_revision().await.unwrap()).await.unwrap();
    engine.clock.advance(Duration::from_secs(10));
    let expired = feed.next_batch().await.unwrap().changes;
    assert_eq!(expired.iter().map(|change| (&*change.key, &change.value)).collect::<Vec<_>>(), [("/keys/2", &None)]);
    engine.store.close().await.unwrap();
}

#[tokio::test]
async fn the_last_change_of_a_transaction_decides_when_a_key_expires() {
    check_expiries(EngineUnderTest::memory(HistoryRetention::default())).await;
    check_expiries(EngineUnderTest::embedded(HistoryRetention::default())).await;
    check_expiries(EngineUnderTest::encrypted(HistoryRetention::default())).await;
}
