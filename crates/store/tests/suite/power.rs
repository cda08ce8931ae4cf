//! Power failures and failing disks, on a file layer that records what was synced (see `pintle-store-powerloss`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pintle_store::{Change, Embedded, Error, Expect, Key, Options, Revision, Span, Store, StoredChange, Window};
use pintle_store_powerloss::{Disk, Failure};

/// Small enough for compaction to be at work all the time.
const WINDOW: Window = Window { duration: std::time::Duration::from_secs(3600), bytes: 200_000 };

/// What was committed, by revision: the key and its new value.
type Log = BTreeMap<Revision, (Key, Option<Vec<u8>>)>;

fn open(folder: &Path, disk: &str) -> Embedded {
    let vfs = (!disk.is_empty()).then(|| disk.to_owned());
    Embedded::open(folder, Options { window: WINDOW, vfs, ..Options::default() }).unwrap()
}

/// Has writers change a few keys, marking on the disk what they were told; returns what they committed.
async fn write(store: &Arc<Embedded>, disk: &Disk, changes: u64) -> Log {
    let log = Arc::new(Mutex::new(Log::new()));
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
                    // Now and then a value that does not fit into a page.
                    let size = if number % 50 == 0 { 9000 } else { 100 + number % 900 };
                    let value: Vec<u8> = (0..size).map(|at| (number * 31 + at * 7) as u8).collect();
                    let (change, value) = match number % 5 {
                        4 => (Change::delete(key.clone(), Expect::Any), None),
                        _ => (Change::put(key.clone(), value.clone()), Some(value)),
                    };
                    match store.commit(change).await {
                        Ok(committed) => {
                            disk.mark(committed.revision.0);
                            log.lock().unwrap().insert(committed.revision, (key, value));
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

/// Expects the store to hold what the log says up to the store's revision, which is returned, in state and in history.
async fn check(store: &Embedded, log: &Log, what: &str) -> Revision {
    let current = store.current_revision().await.unwrap();
    let mut state: BTreeMap<Key, (Revision, Vec<u8>)> = BTreeMap::new();
    for (revision, (key, value)) in log.range(..=current) {
        match value {
            Some(value) => drop(state.insert(key.clone(), (*revision, value.clone()))),
            None => drop(state.remove(key)),
        }
    }
    let range = store.range(Span::all(), None, None).await.unwrap();
    let found: BTreeMap<_, _> =
        range.records.into_iter().map(|record| (record.key, (record.mod_revision, record.value.to_vec()))).collect();
    assert!(found == state, "{what}: the state at {current} differs");

    let oldest = store.oldest_revision().await.unwrap();
    let mut feed = store.changes(oldest).await.unwrap();
    while feed.complete_to() < current {
        let batch = match feed.next_batch().await {
            // The window moved on meanwhile.
            Err(Error::Compacted { oldest }) => {
                feed = store.changes(oldest).await.unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_power_failure() {
    let cuts: u64 = std::env::var("PINTLE_POWER_CUTS").map_or(60, |cuts| cuts.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::register("powerloss").unwrap();
    let store = Arc::new(open(folder.path(), "powerloss"));
    let log = write(&store, &disk, 2500).await;
    assert_eq!(check(&store, &log, "before").await, *log.last_key_value().unwrap().0);
    assert!(store.oldest_revision().await.unwrap() > Revision(1000), "compaction was at work");
    store.close().await.unwrap();

    let mut lost = 0;
    for cut in 0..cuts {
        let steps = (disk.steps() as u64 * (cut + 1) / cuts) as usize;
        let what = format!("after {steps} steps, chance {cut}");
        let after = tempfile::tempdir().unwrap();
        for (path, content) in disk.cut(steps, cut) {
            fs::write(after.path().join(path.file_name().unwrap()), content).unwrap();
        }
        let store = open(after.path(), "");
        let current = check(&store, &log, &what).await;
        let told = disk.told(steps).into_iter().max().unwrap_or(1);
        assert!(current.0 >= told, "{what}: {told} was acknowledged, and {current} is left");
        lost += u64::from(current < *log.last_key_value().unwrap().0);
        // It goes on from there.
        let committed = store.commit(Change::put("/next", "1")).await.unwrap();
        assert_eq!(committed.revision, current.next(), "{what}");
        store.close().await.unwrap();
    }
    assert!(lost > cuts / 2, "the failures lost nothing that was not acknowledged either: is the record of any use?");
}

/// Lets the disk fail while writers are at work; returns the error that a later writer meets and the store.
async fn failing(name: &str, failure: Failure) -> (tempfile::TempDir, Disk, Arc<Embedded>, Log, Error) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::register(name).unwrap();
    let store = Arc::new(open(folder.path(), name));
    let mut log = write(&store, &disk, 300).await;
    let (writing, failing) = tokio::join!(write(&store, &disk, 1_000_000), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        disk.fail(failure);
    });
    let () = failing;
    log.extend(writing);
    let error = store.commit(Change::put("/more", "1")).await.unwrap_err();
    // Reads go on.
    let current = check(&store, &log, name).await;
    assert_eq!(current, *log.last_key_value().unwrap().0);
    (folder, disk, store, log, error)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_and_recovers() {
    let (folder, disk, store, mut log, error) = failing("full", Failure::Full).await;
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("no space left for"), "{error}");
    disk.fail(Failure::None);
    log.extend(write(&store, &disk, 200).await);
    store.close().await.unwrap();
    let store = open(folder.path(), "");
    assert_eq!(check(&store, &log, "reopened").await, *log.last_key_value().unwrap().0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_writes_are_told() {
    let (folder, disk, store, log, error) = failing("refused", Failure::Write).await;
    assert!(matches!(error, Error::Io { .. }), "{error}");
    disk.fail(Failure::None);
    store.close().await.unwrap();
    let store = open(folder.path(), "");
    assert_eq!(check(&store, &log, "reopened").await, *log.last_key_value().unwrap().0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_ends_writing() {
    let (folder, disk, store, log, error) = failing("unsynced", Failure::Sync).await;
    assert!(matches!(error, Error::Failed { .. }), "{error}");
    disk.fail(Failure::None);
    let error = store.commit(Change::put("/more", "1")).await.unwrap_err();
    assert!(matches!(error, Error::Failed { .. }), "it cannot be believed any more: {error}");
    store.close().await.unwrap();
    let store = open(folder.path(), "");
    let current = store.current_revision().await.unwrap();
    // What was refused may be there, as after any lost answer; what was acknowledged is.
    let acknowledged = *log.last_key_value().unwrap().0;
    assert!(current >= acknowledged);
    if current == acknowledged {
        check(&store, &log, "reopened").await;
    }
}
