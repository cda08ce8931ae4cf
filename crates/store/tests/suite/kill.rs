//! Killed processes: a child writes with 64 writers and tells what was acknowledged; it is killed at some moment, and
//! everything that it told must be there, in order. `PINTLE_KILLS` sets how often (50 by default).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_store::{Change, Embedded, Key, Options, Revision, Store};

/// Set for the child: the folder in which to write.
const FOLDER: &str = "PINTLE_STORE_KILL_FOLDER";

/// How many kills one folder lives through before the next begins with an empty one.
const LIVES: u32 = 10;

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, Options::default()).unwrap()
}

fn value(key: u64, seed: u64) -> String {
    format!("{key} {seed} {}", "x".repeat((seed % 700) as usize))
}

/// Does nothing unless it is the child.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let store = Arc::new(open(Path::new(&folder)));
    runtime.block_on(async move {
        let writers: Vec<_> = (0..64_u64)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for round in 0.. {
                        // Two writers share each key.
                        let (key, seed) = (writer / 2 + round % 3 * 32, writer * 1_000_000 + round);
                        let change = Change::put(format!("/registry/things/{key}"), value(key, seed));
                        let revision = store.commit(change).await.unwrap().revision;
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

/// Starts the child, kills it after about `life`, and returns what it told: revision to key and seed.
fn live_and_die(folder: &Path, life: Duration) -> BTreeMap<Revision, (u64, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["kill::writes_until_it_is_killed", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BTreeMap::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut born = None;
    let mut line = String::new();
    loop {
        line.clear();
        if output.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // The last line may be cut off, and the test harness says something of its own.
        if let Some(numbers) = line.strip_prefix("acknowledged ").and_then(|rest| rest.strip_suffix('\n')) {
            let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
            told.insert(Revision(numbers[0]), (numbers[1], numbers[2]));
            let born = born.get_or_insert_with(Instant::now);
            if born.elapsed() >= life {
                // SIGKILL on Unix. Harmless when repeated until the pipe is empty.
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    told
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let kills: u32 = std::env::var("PINTLE_KILLS").map_or(50, |kills| kills.parse().unwrap());
    let mut folder = tempfile::tempdir().unwrap();
    let (mut before, mut acknowledged) = (Revision::EMPTY, 0);
    for kill in 0..kills {
        if kill % LIVES == 0 {
            folder = tempfile::tempdir().unwrap();
            before = Revision::EMPTY;
        }
        let life = Duration::from_micros(u64::from(kill) * 7919 % 97 * 1500);
        let told = live_and_die(folder.path(), life);
        acknowledged += told.len();

        let store = open(folder.path());
        let current = store.current_revision().await.unwrap();
        assert!(told.keys().next_back().is_none_or(|last| *last <= current), "kill {kill}");
        assert!(told.keys().next().is_none_or(|first| *first > before), "kill {kill}");
        let mut feed = store.changes(before).await.unwrap();
        let mut found = BTreeMap::new();
        while feed.complete_to() < current {
            for change in feed.next_batch().await.unwrap().changes {
                found.insert(change.revision, (change.key, change.value.unwrap()));
            }
        }
        assert_eq!(found.len() as u64, current.0 - before.0, "kill {kill}: no revision is missing");
        for (revision, (key, seed)) in told {
            let (found_key, found_value) = &found[&revision];
            assert_eq!(*found_key, Key::from(format!("/registry/things/{key}")), "kill {kill}, revision {revision}");
            assert_eq!(found_value[..], *value(key, seed).as_bytes(), "kill {kill}, revision {revision}");
        }
        before = current;
        store.close().await.unwrap();
    }
    assert!(acknowledged > kills as usize * 10, "the children got to write");
}
