//! Migrations between stores in memory. The stores fail, or change during the migration.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use pintle_layered_store::{LayeredStore, StoreLayer};
use pintle_store::{Change, Compare, MemoryStore, Op, Record, StoreFuture, Timestamp};

use super::*;

/// Lets commits fail after a number of commits.
#[derive(Clone, Debug)]
struct FailingCommits {
    commits_left: Arc<AtomicUsize>,
    failure: Failure,
}

/// How commits fail.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// Commits are not executed.
    Refused,
    /// Another migration writes its mark before each commit.
    AnotherMigration,
    /// Values of this size are too large.
    TooLarge(usize),
}

impl FailingCommits {
    fn after(commits: usize, failure: Failure) -> Arc<LayeredStore<Self>> {
        Arc::new(LayeredStore::new(Self { commits_left: Arc::new(commits.into()), failure }))
    }

    fn recover(&self) {
        self.commits_left.store(usize::MAX, Ordering::Relaxed);
    }
}

impl StoreLayer for FailingCommits {
    fn commit<'s>(&'s self, store: &'s MemoryStore, change: Change) -> StoreFuture<'s, Revision> {
        let take = |left: usize| left.checked_sub(1);
        match self.commits_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => store.commit(change),
            Err(_) => Box::pin(async move {
                match self.failure {
                    Failure::TooLarge(limit) => {
                        if let Op::Put { value, .. } = &change.op
                            && value.len() >= limit
                        {
                            return Err(Error::TooLarge { key: change.key, size: value.len(), limit });
                        }
                    }
                    Failure::Refused => return Err(Error::Unavailable { detail: "it fails".to_owned() }),
                    Failure::AnotherMigration => {
                        let marker = Marker { source: "another".to_owned(), revision: Revision(7) };
                        store.commit(Change::put(marker_key("/registry"), marker.encode())).await?;
                    }
                }
                store.commit(change).await
            }),
        }
    }
}

fn side(name: &str, prefix: &str, store: Arc<dyn Store>) -> Side {
    Side { name: name.to_owned(), store, prefix: prefix.to_owned(), ordered_changes: 4 }
}

async fn put(store: &dyn Store, key: &str, value: &str) {
    store.commit(Change::put(key, value.to_owned())).await.expect("a put");
}

/// A store whose keys were changed in an order other than the order of their names.
async fn source() -> Side {
    let store = MemoryStore::new();
    for round in 0..3 {
        for number in (0..9).rev() {
            put(&store, &format!("/registry/things/{}", (number * 4 + round) % 9), &round.to_string()).await;
        }
    }
    let event = Change::put("/registry/events/a", "expires").with_ttl(Duration::from_secs(1000));
    store.commit(event).await.expect("a put");
    store.commit(Change::delete("/registry/things/3", Compare::Any)).await.expect("a delete");
    put(&store, "/registryother/a", "another prefix").await;
    side("the source", "/registry", Arc::new(store))
}

async fn run(source: &Side, target: &Side) -> Result<MigrationReport, MigrationError> {
    let known = check_target(target).await?;
    let inventory = Inventory::read(source, &target.prefix, None).await?;
    copy(source, target, inventory, known).await
}

/// The keys below the prefix and their values, in the order of their changes.
async fn content(side: &Side) -> Vec<(String, Bytes)> {
    let found = side.store.range(side.interval(), None, None).await.expect("a range");
    let mut records = found.records;
    records.sort_by_key(|record| record.mod_revision);
    records.into_iter().map(|record| (side.path(&record.key).expect("a path").to_owned(), record.value)).collect()
}

async fn check_copy(source: &Side, target: &Side) {
    assert_eq!(content(target).await, content(source).await);
    let last = source.store.current_revision().await.expect("a revision");
    let found = target.store.range(target.interval(), None, None).await.expect("a range");
    assert!(found.records.iter().all(|record| record.mod_revision > last), "{:?}", found.records);
    assert!(target.store.oldest_revision().await.expect("a revision") > last, "old versions are gone");
    let due = |expiries: Vec<(Key, Timestamp)>| expiries.into_iter().map(|(_, due)| due.0).collect::<Vec<u64>>();
    let [before, after] = [source, target].map(|side| side.store.expiries());
    let (before, after) = (due(before.await.expect("expiries")), due(after.await.expect("expiries")));
    assert_eq!((before.len(), after.len()), (1, 1));
    assert!(after[0].abs_diff(before[0]) < 10_000, "{before:?} {after:?}");
    assert_eq!(unfinished(&*target.store, &target.prefix).await.expect("a read"), None);
}

#[tokio::test]
async fn a_copy_has_the_same_values_in_the_same_order() {
    let (source, target) = (source().await, side("the target", "/a/b", Arc::new(MemoryStore::new())));
    put(&*target.store, "/a/other", "another prefix").await;
    let report = run(&source, &target).await.expect("a migration");
    check_copy(&source, &target).await;
    assert_eq!((report.keys, report.expired, report.source_revision), (9, 0, 31));
    assert_eq!(target.store.current_revision().await.expect("a revision").get(), report.target_revision);
    let again = run(&source, &target).await.expect_err("it has objects").to_string();
    assert_eq!(again, "the target has objects already: choose another target, or delete them");
}

#[tokio::test]
async fn values_that_are_too_large_for_the_target_are_named_before_anything_is_written() {
    let source = source().await;
    for (key, size) in [("big", 100), ("bigger", 200), ("ok", 99)] {
        put(&*source.store, &format!("/registry/things/{key}"), &"x".repeat(size)).await;
    }
    let store = FailingCommits::after(0, Failure::TooLarge(100));
    let target = side("the target", "/registry", store.clone());
    let error = run(&source, &target).await.expect_err("they are too large").to_string();
    assert!(error.starts_with("2 values cannot be copied, and nothing was copied."), "{error}");
    for line in ["/registry/things/big: key and value have 100", "/registry/things/bigger: key and value have 200"] {
        assert!(error.contains(line), "{error}");
    }
    assert_eq!(store.current_revision().await.expect("a revision"), Revision::EMPTY);
    store.layer.recover();
    run(&source, &target).await.expect("a migration");
    check_copy(&source, &target).await;
}

#[tokio::test]
async fn a_migration_can_be_interrupted_at_every_change() {
    for changes_meanwhile in [false, true] {
        let mut commits = 0;
        loop {
            let (source, store) = (source().await, FailingCommits::after(commits, Failure::Refused));
            let target = side("the target", "/registry", store.clone());
            let Err(error) = run(&source, &target).await else { break };
            assert!(error.to_string().contains("it fails"), "{error}");
            let mark = unfinished(&*target.store, "/registry").await.expect("a read");
            // The first commit only checks that the target accepts the largest value.
            assert_eq!(mark.is_some(), commits > 1, "{commits}: {mark:?}");
            if changes_meanwhile {
                put(&*source.store, "/registry/things/5", "new").await;
                let gone = Change::delete("/registry/things/1", Compare::Any);
                source.store.commit(gone).await.expect("a delete");
            }
            store.layer.recover();
            run(&source, &target).await.expect("a migration");
            check_copy(&source, &target).await;
            commits += 1;
        }
        assert!(commits > 30, "{commits}");
    }
}

#[tokio::test]
async fn another_migration_into_the_target_is_noticed_at_every_change() {
    let mut commits = 0;
    loop {
        let (source, store) = (source().await, FailingCommits::after(commits, Failure::AnotherMigration));
        let target = side("the target", "/registry", store.clone());
        let Err(error) = run(&source, &target).await else { break };
        let error = error.to_string();
        let is_noticed = error.contains("the target was written to during the migration (/registry/pintle-migration)")
            || (commits <= 1 && error.contains("the target has objects already"));
        assert!(is_noticed, "{commits}: {error}");
        let (marker, _) = marker::read(&*store, "/registry").await.expect("a read").expect("the other's mark");
        assert_eq!(marker.expect("a mark").source, "another");
        commits += 1;
    }
    assert!(commits > 30, "{commits}");
}

#[tokio::test]
async fn what_was_copied_is_not_copied_again() {
    let (source, store) = (source().await, FailingCommits::after(37, Failure::Refused));
    let target = side("the target", "/registry", store.clone());
    run(&source, &target).await.expect_err("it fails");
    let copied = content(&target).await;
    assert!(copied.len() > 2, "{copied:?}");
    let before = store.range(target.interval(), None, None).await.expect("a range").records;
    store.layer.recover();
    run(&source, &target).await.expect("a migration");
    let after = store.range(target.interval(), None, None).await.expect("a range").records;
    let is_kept = |record: &&Record| after.contains(record);
    let mark = marker_key("/registry");
    assert!(before.iter().filter(|record| record.key != mark).all(|record| is_kept(&record)), "{before:?} {after:?}");
}

#[tokio::test]
async fn values_that_cannot_be_converted_are_named_before_anything_is_written() {
    let (source, target) = (source().await, side("the target", "/registry", Arc::new(MemoryStore::new())));
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#;
    for (key, value) in [("pods/n/a", pod), ("pods/n/broken", "{"), ("secrets/n/broken", "")] {
        put(&*source.store, &format!("/registry/{key}"), value).await;
    }
    let form = Arc::new(pintle_server::StoredForm::new("/registry", true, &Gates::default()).expect("a form"));
    let error = Inventory::read(&source, &target.prefix, Some(form)).await.expect_err("it cannot be read").to_string();
    assert!(error.starts_with("3 values cannot be copied, and nothing was copied."), "{error}");
    for key in ["/registry/events/a: ", "/registry/pods/n/broken: ", "/registry/secrets/n/broken: "] {
        assert!(error.contains(key), "{error}");
    }
    assert_eq!(target.store.current_revision().await.expect("a revision"), Revision::EMPTY);
}

#[tokio::test]
async fn a_store_that_others_write_to_is_noticed() {
    let (source, target) = (source().await, side("the target", "/registry", Arc::new(MemoryStore::new())));
    let inventory = Inventory::read(&source, &target.prefix, None).await.expect("an inventory");
    put(&*source.store, "/registry/things/5", "late").await;
    let error = copy(&source, &target, inventory, None).await.expect_err("it was changed").to_string();
    assert!(error.contains("the source was written to during the migration (/registry/things/5)"), "{error}");
    assert!(unfinished(&*target.store, "/registry").await.expect("a read").is_some());

    let inventory = Inventory::read(&source, &target.prefix, None).await.expect("an inventory");
    put(&*target.store, "/registry/foreign", "x").await;
    let known = check_target(&target).await.expect("a target");
    // The copy replaces keys that another process wrote before.
    copy(&source, &target, inventory, known).await.expect("a migration");
    check_copy(&source, &target).await;

    let target = side("the target", "/registry", Arc::new(MemoryStore::new()));
    let inventory = Inventory::read(&source, &target.prefix, None).await.expect("an inventory");
    put(&*target.store, "/registry/foreign", "x").await;
    let error = copy(&source, &target, inventory, None).await.expect_err("it is not empty").to_string();
    assert!(error.contains("the target has objects already"), "{error}");
}

#[tokio::test]
async fn keys_that_have_expired_are_not_copied() {
    let store = MemoryStore::new();
    put(&store, "/registry/things/a", "1").await;
    let source = side("the source", "/registry", Arc::new(store));
    let event = Change::put("/registry/events/a", "expires").with_ttl(Duration::from_secs(1000));
    source.store.commit(event).await.expect("a put");
    let mut inventory = Inventory::read(&source, "/registry", None).await.expect("an inventory");
    inventory.items[1].expires = Some(Timestamp(1));
    let target = side("the target", "/registry", Arc::new(MemoryStore::new()));
    let report = copy(&source, &target, inventory, None).await.expect("a migration");
    assert_eq!((report.keys, report.expired), (1, 1));
}
