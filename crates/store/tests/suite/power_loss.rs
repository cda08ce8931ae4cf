//! Power loss and failing disks, simulated by the VFS of `pintle-store-powerloss`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pintle_store::{
    Change, ChangeFeed, Compare, EmbeddedOptions, EmbeddedStore, Error, HistoryRetention, Key, KeyInterval, Revision,
    Store, StoredChange, Vfs,
};
use pintle_store_powerloss::{Disk, DiskFailure};

use crate::until;

/// The retention is so small that compaction runs all the time.
const RETENTION: HistoryRetention = HistoryRetention { duration: std::time::Duration::from_secs(3600), bytes: 200_000 };

/// The committed changes by revision: the key and its new value.
type CommitLog = BTreeMap<Revision, (Key, Option<Vec<u8>>)>;

fn open(folder: &Path, disk: &str) -> EmbeddedStore {
    let vfs =
        (!disk.is_empty()).then(|| Vfs { name: super::FORM.name(disk), rewrite: Disk::rewrite, write: Disk::write });
    let encryption = super::FORM.encryption();
    let options = EmbeddedOptions { retention: RETENTION, vfs, encryption, ..EmbeddedOptions::default() };
    EmbeddedStore::open(folder, options).unwrap()
}

fn register(disk: &str) -> Disk {
    Disk::register(&super::FORM.name(disk)).unwrap()
}

/// Runs concurrent writers on a few keys and records each acknowledgement on the disk. Returns the committed changes.
async fn write(store: &Arc<EmbeddedStore>, disk: &Disk, changes: u64) -> CommitLog {
    let log = Arc::new(Mutex::new(CommitLog::new()));
    let next = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (store, disk, log, next) = (store.clone(), disk.clone(), log.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= changes {
                        break;
                    }
                    let key = Key::from(format!("/registry/things/{:03}", number * 7919 % 211));
                    // Some values do not fit into one page.
                    let size = if number % 50 == 0 { 9000 } else { 100 + number % 900 };
                    let value: Vec<u8> = (0..size).map(|at| (number * 31 + at * 7) as u8).collect();
                    let (change, value) = match number % 5 {
                        4 => (Change::delete(key.clone(), Compare::Any), None),
                        _ => (Change::put(key.clone(), value.clone()), Some(value)),
                    };
                    match store.commit(change).await {
                        Ok(committed) => {
                            disk.acknowledge(committed.0);
                            log.lock().unwrap().insert(committed, (key, value));
                        }
                        Err(Error::Conflict { current: None }) => {}
                        Err(_) => break,
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let log = log.lock().unwrap();
    log.clone()
}

/// A feed of all retained changes. Compaction may go on meanwhile.
async fn oldest_changes(store: &EmbeddedStore) -> Box<dyn ChangeFeed> {
    loop {
        let oldest = store.oldest_revision().await.unwrap();
        match store.changes(oldest).await {
            Err(Error::Compacted { .. }) => {}
            feed => return feed.unwrap(),
        }
    }
}

/// Expects the state and the history of the store to match the log up to the store's current revision, which is
/// returned.
async fn check(store: &EmbeddedStore, log: &CommitLog, what: &str) -> Revision {
    let current = store.current_revision().await.unwrap();
    let mut state: BTreeMap<Key, (Revision, Vec<u8>)> = BTreeMap::new();
    for (revision, (key, value)) in log.range(..=current) {
        match value {
            Some(value) => drop(state.insert(key.clone(), (*revision, value.clone()))),
            None => drop(state.remove(key)),
        }
    }
    let range = store.range(KeyInterval::all(), None, None).await.unwrap();
    let actual: BTreeMap<_, _> =
        range.records.into_iter().map(|record| (record.key, (record.mod_revision, record.value.to_vec()))).collect();
    assert!(actual == state, "{what}: the state at {current} differs");

    let mut feed = oldest_changes(store).await;
    while feed.complete_to() < current {
        let batch = match feed.next_batch().await {
            // Compaction has overtaken the feed.
            Err(Error::Compacted { .. }) => {
                feed = oldest_changes(store).await;
                continue;
            }
            batch => batch.unwrap(),
        };
        for StoredChange { revision, key, value, .. } in batch.changes {
            let expected = log.get(&revision).map(|(key, value)| (key, value.as_deref()));
            assert!(expected == Some((&key, value.as_deref())), "{what}: change {revision} differs");
        }
    }
    current
}

/// A folder with the files that a power loss after so many operations leaves.
fn folder_after_power_loss(disk: &Disk, operations: usize, seed: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in disk.image_after_power_loss(operations, seed) {
        fs::write(folder.path().join(path.file_name().unwrap()), content).unwrap();
    }
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_survive_a_power_loss() {
    let cuts: u64 = std::env::var("PINTLE_POWER_CUTS").map_or(60, |cuts| cuts.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let disk = register("powerloss");
    let store = Arc::new(open(folder.path(), "powerloss"));
    let log = write(&store, &disk, 2500).await;
    assert_eq!(check(&store, &log, "before").await, *log.last_key_value().unwrap().0);
    assert!(store.oldest_revision().await.unwrap() > Revision(1000), "compaction ran meanwhile");
    store.close().await.unwrap();
    assert!(!folder.path().join("pintle.db-wal").exists(), "a store that is closed leaves no log");

    let mut lost = 0;
    for cut in 0..cuts {
        let operations = (disk.operation_count() as u64 * (cut + 1) / cuts) as usize;
        let what = format!("after {operations} operations, seed {cut}");
        let after = folder_after_power_loss(&disk, operations, cut);
        let store = open(after.path(), "");
        let current = check(&store, &log, &what).await;
        let acknowledged = disk.acknowledged(operations).into_iter().max().unwrap_or(1);
        assert!(current.0 >= acknowledged, "{what}: {acknowledged} was acknowledged, and {current} is left");
        lost += u64::from(current < *log.last_key_value().unwrap().0);
        // The store accepts new changes.
        let committed = store.commit(Change::put("/next", "1")).await.unwrap();
        assert_eq!(committed, current.next(), "{what}");
        store.close().await.unwrap();
    }
    assert!(lost > cuts / 2, "no power loss lost an unacknowledged change, so the test proves nothing");
}

/// Makes the disk fail while writers run. Returns, among other results, the error of a later commit.
async fn run_until_failure(
    name: &str,
    failure: DiskFailure,
) -> (tempfile::TempDir, Disk, Arc<EmbeddedStore>, CommitLog, Error) {
    let folder = tempfile::tempdir().unwrap();
    let disk = register(name);
    let store = Arc::new(open(folder.path(), name));
    let mut log = write(&store, &disk, 300).await;
    store.health().unwrap();
    log.extend(write_until_failure(&store, &disk, failure).await);
    let error = store.commit(Change::put("/more", "1")).await.unwrap_err();
    // Reads still work.
    let current = check(&store, &log, name).await;
    assert_eq!(current, *log.last_key_value().unwrap().0);
    (folder, disk, store, log, error)
}

/// The store finds out by itself that the disk works again, without a request.
async fn wait_until_healthy(store: &EmbeddedStore) {
    until(|| store.health().ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_on_a_full_disk_and_recover() {
    let (folder, disk, store, mut log, error) = run_until_failure("full", DiskFailure::Full).await;
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("no space left on device for"), "{error}");
    assert!(matches!(store.health(), Err(Error::DiskFull { .. })), "{:?}", store.health());
    // A recovery attempt does not succeed by writing nothing.
    let failed = store.metrics().unwrap().commit_errors.get();
    while store.metrics().unwrap().commit_errors.get() < failed + 2 {
        assert!(store.health().is_err());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    disk.fail(DiskFailure::None);
    wait_until_healthy(&store).await;
    log.extend(write(&store, &disk, 200).await);
    store.close().await.unwrap();
    let store = open(folder.path(), "");
    assert_eq!(check(&store, &log, "reopened").await, *log.last_key_value().unwrap().0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_write_is_reported() {
    let (folder, disk, store, log, error) = run_until_failure("refused", DiskFailure::Write).await;
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(matches!(store.health(), Err(Error::Io { .. })), "{:?}", store.health());
    disk.fail(DiskFailure::None);
    wait_until_healthy(&store).await;
    store.close().await.unwrap();
    let store = open(folder.path(), "");
    assert_eq!(check(&store, &log, "reopened").await, *log.last_key_value().unwrap().0);
}

/// Waits until `more` further syncs have failed. They are attempts to recover, since nobody writes.
async fn wait_for_failed_syncs(disk: &Disk, more: usize) {
    let expected = disk.failed_syncs() + more;
    until(|| (disk.failed_syncs() >= expected).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_rejects_writes_while_syncs_fail_and_recovers() {
    let (folder, disk, store, mut log, error) = run_until_failure("unsynced", DiskFailure::Sync).await;
    for failure in [DiskFailure::Sync, DiskFailure::CheckpointSync, DiskFailure::Sync] {
        assert!(matches!(error, Error::SyncFailed { .. }), "{error}");
        wait_for_failed_syncs(&disk, 2).await;
        assert!(matches!(store.health(), Err(Error::SyncFailed { .. })), "{:?}", store.health());
        let error = store.commit(Change::put("/more", "1")).await.unwrap_err();
        assert!(matches!(error, Error::SyncFailed { .. }), "{error}");
        disk.fail(DiskFailure::None);
        wait_until_healthy(&store).await;
        // Rejected changes do not appear later.
        assert_eq!(check(&store, &log, "recovered").await, *log.last_key_value().unwrap().0);
        log.extend(write(&store, &disk, 200).await);
        disk.fail(failure);
        log.extend(write(&store, &disk, 1_000_000).await);
        assert_eq!(check(&store, &log, "failed again").await, *log.last_key_value().unwrap().0);
    }
    disk.fail(DiskFailure::None);
    wait_until_healthy(&store).await;
    store.close().await.unwrap();
    let store = open(folder.path(), "");
    assert_eq!(check(&store, &log, "reopened").await, *log.last_key_value().unwrap().0);
}

/// After a failed sync the disk fails in another way, so that the recovery fails with the other error.
async fn check_recovery_with_other_failure(name: &str, sync_failure: DiskFailure, other: DiskFailure, cause: &str) {
    let (folder, disk, store, mut log, error) = run_until_failure(name, sync_failure).await;
    assert!(matches!(error, Error::SyncFailed { .. }), "{error}");
    disk.fail(other);
    // Both errors are reported, without the path: clients do not get paths.
    let expected = format!("disk I/O error; recovery failed: {cause}");
    let reported = |error: &Error| matches!(error, Error::SyncFailed { detail, .. } if *detail == expected);
    until(|| store.health().err().filter(|error| reported(error))).await;
    let error = store.commit(Change::put("/more", "1")).await.unwrap_err();
    assert!(reported(&error), "{error}");
    disk.fail(DiskFailure::None);
    wait_until_healthy(&store).await;
    assert_eq!(check(&store, &log, "recovered").await, *log.last_key_value().unwrap().0);
    log.extend(write(&store, &disk, 200).await);
    store.close().await.unwrap();
    let store = open(folder.path(), "");
    assert_eq!(check(&store, &log, "reopened").await, *log.last_key_value().unwrap().0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_that_fails_with_another_error_reports_it_and_goes_on() {
    let (full, refused) = ("no space left on device", "disk I/O error");
    tokio::join!(
        check_recovery_with_other_failure("sync-full", DiskFailure::Sync, DiskFailure::Full, full),
        check_recovery_with_other_failure("sync-write", DiskFailure::Sync, DiskFailure::Write, refused),
        check_recovery_with_other_failure("checkpoint-full", DiskFailure::CheckpointSync, DiskFailure::Full, full),
        check_recovery_with_other_failure("checkpoint-write", DiskFailure::CheckpointSync, DiskFailure::Write, refused),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_that_fails_with_another_error_is_not_retried_without_a_pause() {
    for (name, sync_failure, other) in [
        ("sync-full-pause", DiskFailure::Sync, DiskFailure::Full),
        ("sync-write-pause", DiskFailure::Sync, DiskFailure::Write),
        ("checkpoint-full-pause", DiskFailure::CheckpointSync, DiskFailure::Full),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let disk = register(name);
        let store = Arc::new(open(folder.path(), name));
        // These changes are too few for a checkpoint, so that only a commit fails, or only a checkpoint.
        write(&store, &disk, 10).await;
        disk.fail(sync_failure);
        write(&store, &disk, 1_000_000).await;
        disk.fail(other);
        let errors = || store.metrics().unwrap().commit_errors.get();
        let wait_for_errors = async |more: u64| {
            let expected = errors() + more;
            until(|| (errors() >= expected).then_some(())).await;
        };
        wait_for_errors(1).await;
        let started = std::time::Instant::now();
        wait_for_errors(2).await;
        // A slow machine only makes the pause longer.
        let paused = started.elapsed();
        assert!(paused > std::time::Duration::from_millis(250), "{name}: two attempts in {paused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_has_lost_acknowledged_changes_does_not_recover() {
    let folder = tempfile::tempdir().unwrap();
    let disk = register("damaged");
    let store = Arc::new(open(folder.path(), "damaged"));
    let file = folder.path().join("pintle.db");
    let old = fs::read(&file).unwrap();
    disk.fail(DiskFailure::CheckpointSync);
    write(&store, &disk, 1_000_000).await;
    fs::write(&file, old).unwrap();
    fs::write(file.with_extension("db-wal"), "").unwrap();
    disk.fail(DiskFailure::None);
    let error = until(|| store.health().err().filter(|error| !matches!(error, Error::SyncFailed { .. }))).await;
    assert!(matches!(error, Error::LostChanges { .. }), "{error}");
    assert!(store.commit(Change::put("/more", "1")).await.is_err());
}

/// Adds the changes that the store has and nobody acknowledged, as after a lost response.
async fn add_unacknowledged(store: &EmbeddedStore, log: &mut CommitLog) {
    let acknowledged = log.last_key_value().map_or(Revision::EMPTY, |(revision, _)| *revision);
    let current = store.current_revision().await.unwrap();
    let mut feed = store.changes(acknowledged).await.unwrap();
    while feed.complete_to() < current {
        for StoredChange { revision, key, value, .. } in feed.next_batch().await.unwrap().changes {
            log.insert(revision, (key, value.map(|value| value.to_vec())));
        }
    }
}

/// Expects the acknowledged state in the files that power losses after `start` or more operations leave.
async fn check_power_losses(disk: &Disk, log: &CommitLog, start: usize, cuts: u64) {
    for cut in 0..cuts {
        let operations = start + ((disk.operation_count() - start) as u64 * (cut + 1) / cuts) as usize;
        let what = format!("after {operations} operations, seed {cut}");
        let after = folder_after_power_loss(disk, operations, cut);
        let store = open(after.path(), "");
        let current = store.current_revision().await.unwrap();
        let acknowledged = Revision(disk.acknowledged(operations).into_iter().max().unwrap_or(1));
        assert!(current >= acknowledged, "{what}: {acknowledged} was acknowledged, and {current} is left");
        // Changes whose sync has failed may appear after a power loss, if the store had not yet recovered from the
        // failure.
        let mut log = log.range(..=acknowledged).map(|(at, change)| (*at, change.clone())).collect();
        add_unacknowledged(&store, &mut log).await;
        check(&store, &log, &what).await;
        store.close().await.unwrap();
    }
}

/// After a failed sync, the file system shows data that the disk does not have, and a later sync succeeds without it.
/// The store must not build on such data, whether it is opened again or recovers by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_survive_a_power_loss_after_failed_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let disk = register("fsyncgate");
    let mut log = CommitLog::new();
    for round in 0..6 {
        let store = Arc::new(open(folder.path(), "fsyncgate"));
        add_unacknowledged(&store, &mut log).await;
        // The store is open, so it must keep all the changes that it shows now.
        let current = store.current_revision().await.unwrap();
        disk.acknowledge(current.0);
        check(&store, &log, &format!("round {round}")).await;
        log.extend(write(&store, &disk, 100 + 150 * round).await);
        for failure in [DiskFailure::CheckpointSync, DiskFailure::Sync].into_iter().cycle().take(round as usize % 3) {
            log.extend(write_until_failure(&store, &disk, failure).await);
            wait_for_failed_syncs(&disk, usize::from(round == 2)).await;
            disk.fail(DiskFailure::None);
            wait_until_healthy(&store).await;
            check(&store, &log, &format!("round {round}, recovered")).await;
            log.extend(write(&store, &disk, 100).await);
        }
        log.extend(write_until_failure(&store, &disk, DiskFailure::Sync).await);
        assert!(matches!(store.health(), Err(Error::SyncFailed { .. })), "{:?}", store.health());
        store.close().await.unwrap();
        disk.fail(DiskFailure::None);
    }
    let store = open(folder.path(), "fsyncgate");
    add_unacknowledged(&store, &mut log).await;
    store.close().await.unwrap();
    check_power_losses(&disk, &log, 0, 60).await;
}

/// The log ends with a transaction that the file system shows and the disk does not have. The next start copies the
/// transaction to the file, and the power fails meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_survive_a_power_loss_at_the_start_after_a_failed_sync() {
    for round in 0..4 {
        let name = format!("start-{round}");
        let folder = tempfile::tempdir().unwrap();
        let disk = register(&name);
        let store = Arc::new(open(folder.path(), &name));
        // There are enough changes that each transaction compacts, and so changes pages that are not in the log.
        let mut log = write(&store, &disk, 1000).await;
        store.close().await.unwrap();
        // Besides the pages of the transaction that fails, the log has only a few pages.
        let store = Arc::new(open(folder.path(), &name));
        log.extend(write(&store, &disk, 5 * round).await);
        disk.fail(DiskFailure::Sync);
        write(&store, &disk, 1_000_000).await;
        store.close().await.unwrap();
        disk.fail(DiskFailure::None);
        let closed = disk.operation_count();
        let store = open(folder.path(), &name);
        add_unacknowledged(&store, &mut log).await;
        store.close().await.unwrap();
        check_power_losses(&disk, &log, closed, 40).await;
    }
}

/// Makes the disk fail while writers run, and returns the changes that they have committed until then.
async fn write_until_failure(store: &Arc<EmbeddedStore>, disk: &Disk, failure: DiskFailure) -> CommitLog {
    let (log, ()) = tokio::join!(write(store, disk, 1_000_000), async {
        let written = disk.operation_count() + 100;
        until(|| (disk.operation_count() >= written).then_some(())).await;
        disk.fail(failure);
    });
    log
}

/// The disk is full when the store is opened. Nothing is written after the log, whose last sync may have failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_opened_on_a_full_disk_recovers_before_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    let disk = register("opened-full");
    let store = Arc::new(open(folder.path(), "opened-full"));
    let mut log = write(&store, &disk, 300).await;
    log.extend(write_until_failure(&store, &disk, DiskFailure::Sync).await);
    disk.fail(DiskFailure::Full);
    store.close().await.unwrap();
    drop(store);

    let store = Arc::new(open(folder.path(), "opened-full"));
    add_unacknowledged(&store, &mut log).await;
    check(&store, &log, "opened").await;
    until(|| store.health().err()).await;
    let error = store.commit(Change::put("/more", "1")).await.unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    disk.fail(DiskFailure::None);
    wait_until_healthy(&store).await;
    log.extend(write(&store, &disk, 200).await);
    let operations = disk.operation_count();
    store.close().await.unwrap();
    for cut in 0..20 {
        let after = folder_after_power_loss(&disk, operations, cut);
        let store = open(after.path(), "");
        let current = check(&store, &log, &format!("seed {cut}")).await;
        assert!(current >= *log.last_key_value().unwrap().0, "seed {cut}: {current} is left");
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_disk_is_reported_while_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = register("stalled");
    let store = Arc::new(open(folder.path(), "stalled"));
    let mut log = write(&store, &disk, 300).await;
    disk.fail(DiskFailure::Stall);
    let writing = tokio::spawn({
        let (store, disk) = (store.clone(), disk.clone());
        async move { write(&store, &disk, 200).await }
    });
    let error = until(|| store.health().err()).await;
    assert!(matches!(error, Error::Stalled { seconds: 1, .. }), "{error}");
    assert!(error.to_string().contains("has not returned for 1 s; check the disk"), "{error}");
    check(&store, &log, "stalled").await;
    assert!(!writing.is_finished());
    disk.fail(DiskFailure::None);
    log.extend(writing.await.unwrap());
    wait_until_healthy(&store).await;
    assert_eq!(check(&store, &log, "afterwards").await, *log.last_key_value().unwrap().0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_error_fails_what_needs_the_read() {
    let folder = tempfile::tempdir().unwrap();
    let disk = register("unreadable");
    let store = Arc::new(open(folder.path(), "unreadable"));
    let mut log = write(&store, &disk, 300).await;
    disk.fail(DiskFailure::Read);
    let error = store.range(KeyInterval::all(), None, None).await.unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    disk.fail(DiskFailure::None);
    wait_until_healthy(&store).await;
    log.extend(write(&store, &disk, 100).await);
    assert_eq!(check(&store, &log, "afterwards").await, *log.last_key_value().unwrap().0);
}
