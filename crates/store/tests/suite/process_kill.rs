//! Kills a child process that runs 64 writers, and expects every acknowledged change to be in the store, in order.
//! `PINTLE_KILLS` sets the number of kills (default 50). The data key of an encrypted store is replaced all the time.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::form::Form;
use crate::until;
use pintle_store::{Change, EmbeddedOptions, EmbeddedStore, Key, Revision, Store};

/// The environment variable with the data directory. It makes this process the child.
const DATA_DIR_VARIABLE: &str = "PINTLE_STORE_KILL_FOLDER";

/// The number of kills before the test starts over with an empty store.
const KILLS_PER_STORE: u32 = 10;

fn open(folder: &Path) -> EmbeddedStore {
    let options = EmbeddedOptions { encryption: super::FORM.encryption(), ..EmbeddedOptions::default() };
    EmbeddedStore::open(folder, options).unwrap()
}

fn value(key: u64, seed: u64) -> String {
    format!("{key} {seed} {}", "x".repeat((seed % 700) as usize))
}

/// Writes until this process is killed. Does nothing unless it runs in the child.
#[test]
fn write_until_killed() {
    let Some(folder) = std::env::var_os(DATA_DIR_VARIABLE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let store = Arc::new(open(Path::new(&folder)));
    runtime.block_on(async move {
        if super::FORM == Form::Encrypted {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                loop {
                    store.rotate_key().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
        let writers: Vec<_> = (0..64_u64)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for round in 0.. {
                        // Two writers share each key.
                        let (key, seed) = (writer / 2 + round % 3 * 32, writer * 1_000_000 + round);
                        let change = Change::put(format!("/registry/things/{key}"), value(key, seed));
                        let revision = store.commit(change).await.unwrap();
                        let line = format!("acknowledged {revision} {key} {seed}\n");
                        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// Starts the child and kills it after about `delay`. Returns the acknowledged changes: key and seed by revision.
fn run_child_and_kill(folder: &Path, delay: Duration) -> BTreeMap<Revision, (u64, u64)> {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("{module}::write_until_killed"), "--exact", "--nocapture"])
        .env(DATA_DIR_VARIABLE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged_changes = BTreeMap::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut first_line_at = None;
    let mut line = String::new();
    loop {
        line.clear();
        if output.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // The last line may be cut off, and the test harness prints its own lines.
        if let Some(numbers) = line.strip_prefix("acknowledged ").and_then(|rest| rest.strip_suffix('\n')) {
            let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
            acknowledged_changes.insert(Revision(numbers[0]), (numbers[1], numbers[2]));
            let first_line_at = first_line_at.get_or_insert_with(Instant::now);
            if first_line_at.elapsed() >= delay {
                // Sends SIGKILL on Unix. Repeating it until the pipe is empty is harmless.
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    acknowledged_changes
}

/// Replaces the data key, and waits until it is the only one. Returns its number.
async fn rotate(store: &EmbeddedStore) -> u32 {
    store.rotate_key().await.unwrap();
    let keys = until(|| Some(store.encryption_status()?.data_keys).filter(|keys| keys.len() == 1)).await;
    keys[0].id
}

#[tokio::test]
async fn acknowledged_changes_survive_a_kill() {
    let kills: u32 = std::env::var("PINTLE_KILLS").map_or(50, |kills| kills.parse().unwrap());
    let mut folder = tempfile::tempdir().unwrap();
    let (mut before, mut acknowledged, mut rotations) = (Revision::EMPTY, 0, 0);
    for kill in 0..kills {
        if kill % KILLS_PER_STORE == 0 {
            folder = tempfile::tempdir().unwrap();
            before = Revision::EMPTY;
        }
        let delay = Duration::from_micros(u64::from(kill) * 7919 % 97 * 1500);
        let acknowledged_changes = run_child_and_kill(folder.path(), delay);
        acknowledged += acknowledged_changes.len();

        let store = open(folder.path());
        let current = store.current_revision().await.unwrap();
        assert!(acknowledged_changes.keys().next_back().is_none_or(|last| *last <= current), "kill {kill}");
        assert!(acknowledged_changes.keys().next().is_none_or(|first| *first > before), "kill {kill}");
        let mut feed = store.changes(before).await.unwrap();
        let mut found = BTreeMap::new();
        while feed.complete_to() < current {
            for change in feed.next_batch().await.unwrap().changes {
                found.insert(change.revision, (change.key, change.value.unwrap()));
            }
        }
        assert_eq!(found.len() as u64, current.0 - before.0, "kill {kill}: no revision is missing");
        for (revision, (key, seed)) in acknowledged_changes {
            let (found_key, found_value) = &found[&revision];
            assert_eq!(*found_key, Key::from(format!("/registry/things/{key}")), "kill {kill}, revision {revision}");
            assert_eq!(found_value[..], *value(key, seed).as_bytes(), "kill {kill}, revision {revision}");
        }
        before = current;
        let is_last = (kill + 1) % KILLS_PER_STORE == 0 || kill + 1 == kills;
        if super::FORM == Form::Encrypted && is_last {
            rotations += rotate(&store).await;
        }
        store.close().await.unwrap();
    }
    assert!(rotations >= u32::from(super::FORM == Form::Encrypted) * kills, "{rotations} data keys were made");
    assert!(acknowledged > kills as usize * 10, "the children wrote enough");
}
