//! A small language for stores: one operation a line, `operation => what comes of it`. Every script runs on both
//! engines, and on the embedded one once more with a restart after every line.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pintle_store::{
    Change, Embedded, Error, Expect, Key, ManualClock, Memory, Options, Record, Revision, Span, Store, StoredChange,
    Timestamp, Window,
};

/// A store under test that can be closed and opened again.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) folder: Option<tempfile::TempDir>,
    window: Window,
}

impl Bench {
    pub(crate) fn memory(window: Window) -> Bench {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        Bench { store: Arc::new(Memory::with(window, clock.clone())), clock, folder: None, window }
    }

    pub(crate) fn embedded(window: Window) -> Bench {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(open(folder.path(), window, clock.clone()).unwrap());
        Bench { store, clock, folder: Some(folder), window }
    }

    /// Closes and opens the store, if it is one that remembers.
    pub(crate) async fn reopen(&mut self) {
        if let Some(folder) = &self.folder {
            self.store.close().await.unwrap();
            self.store = Arc::new(open(folder.path(), self.window, self.clock.clone()).unwrap());
        }
    }
}

fn open(folder: &Path, window: Window, clock: Arc<ManualClock>) -> Result<Embedded, Error> {
    Embedded::open(folder, Options { window, clock, ..Options::default() })
}

/// Runs a script with the default window.
pub(crate) async fn check(script: &str) {
    check_in(Window::default(), script).await;
}

/// Runs a script on every engine.
pub(crate) async fn check_in(window: Window, script: &str) {
    run("memory", Bench::memory(window), false, script).await;
    run("embedded", Bench::embedded(window), false, script).await;
    run("embedded, reopened", Bench::embedded(window), true, script).await;
}

async fn run(engine: &str, mut bench: Bench, restless: bool, script: &str) {
    for (number, line) in script.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let (operation, expected) = line.split_once("=>").unwrap_or((line, ""));
        let outcome = operate(&mut bench, operation.trim()).await.unwrap_or_else(|error| short(&error));
        assert_eq!(outcome, expected.trim(), "{engine}, line {}: {line}", number + 1);
        if restless {
            bench.reopen().await;
        }
    }
    bench.store.close().await.unwrap();
    assert!(matches!(bench.store.current_revision().await, Err(Error::Closed)), "{engine}");
}

async fn operate(bench: &mut Bench, operation: &str) -> Result<String, Error> {
    let words: Vec<&str> = operation.split_whitespace().collect();
    let option = |name: &str| words.iter().position(|word| *word == name).map(|at| words[at + 1].parse().unwrap());
    let at = option("at").map(Revision);
    let ttl = option("ttl").map(Duration::from_millis);
    let store = &bench.store;
    let change = match words[..] {
        ["create", key, value, ..] => Change::create(key, value.to_owned()),
        ["put", key, value, ..] => Change::put(key, value.to_owned()),
        ["update", key, value, ..] => Change::update(key, at.unwrap(), value.to_owned()),
        ["delete", key, "absent"] => Change::delete(key, Expect::Absent),
        ["delete", key, ..] => Change::delete(key, at.map_or(Expect::Any, Expect::At)),
        ["get", key, ..] => {
            let record = store.get(Key::from(key), at).await?;
            return Ok(record.as_ref().map_or("nothing".to_owned(), print));
        }
        ["range", start, end, ..] => {
            let span =
                if end == "end" { Span { start: Key::from(start), end: None } } else { Span::between(start, end) };
            let range = store.range(span, at, option("limit").map(|limit| limit as usize)).await?;
            let mut printed: Vec<String> = range.records.iter().map(print).collect();
            if range.remaining > 0 {
                printed.push(format!("and {} more", range.remaining));
            }
            printed.push(format!("at {}", range.revision));
            return Ok(printed.join(" "));
        }
        ["feed", from] => return feed(&**store, Revision(from.parse().unwrap())).await,
        ["compact", before] => {
            return store.compact(Revision(before.parse().unwrap())).await.map(|()| "done".to_owned());
        }
        ["oldest"] => return Ok(store.oldest_revision().await?.to_string()),
        ["current"] => return Ok(store.current_revision().await?.to_string()),
        ["advance", millis] => {
            bench.clock.advance(Duration::from_millis(millis.parse().unwrap()));
            return Ok(String::new());
        }
        // Waits until the store has got there by itself.
        ["until", what, revision] => {
            let revision = Revision(revision.parse().unwrap());
            loop {
                let reached = match what {
                    "current" => store.current_revision().await?,
                    "oldest" => store.oldest_revision().await?,
                    other => panic!("nothing is called {other}"),
                };
                if reached >= revision {
                    return Ok(reached.to_string());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        ["reopen"] => {
            bench.reopen().await;
            return Ok(String::new());
        }
        _ => panic!("what is {operation:?}?"),
    };
    let change = match ttl {
        Some(ttl) => change.with_ttl(ttl),
        None => change,
    };
    let committed = store.commit(change).await?;
    let previous = committed.previous.as_ref().map_or(String::new(), |record| format!(" was {}", print(record)));
    Ok(format!("{}{previous}", committed.revision))
}

/// Everything that a new feed tells up to the present.
async fn feed(store: &dyn Store, from: Revision) -> Result<String, Error> {
    let mut feed = store.changes(from).await?;
    let current = store.current_revision().await?;
    let mut printed = Vec::new();
    while feed.complete_to() < current {
        let batch = feed.next_batch().await?;
        assert_eq!(batch.complete_to, feed.complete_to());
        printed.extend(batch.changes.iter().map(print_change));
    }
    Ok(printed.join(" "))
}

/// `key=value@changed/created`
pub(crate) fn print(record: &Record) -> String {
    let value = String::from_utf8_lossy(&record.value);
    format!("{}={value}@{}/{}", record.key, record.mod_revision, record.create_revision)
}

/// `revision:key=value/created` or `revision:key-/created`
pub(crate) fn print_change(change: &StoredChange) -> String {
    let StoredChange { revision, key, value, create_revision } = change;
    let value = value.as_ref().map_or("-".to_owned(), |value| format!("={}", String::from_utf8_lossy(value)));
    format!("{revision}:{key}{value}/{create_revision}")
}

fn short(error: &Error) -> String {
    match error {
        Error::Conflict { current: Some(record) } => format!("conflict {}", print(record)),
        Error::Conflict { current: None } => "conflict".to_owned(),
        Error::Compacted { oldest } => format!("compacted {oldest}"),
        Error::Future { current } => format!("future {current}"),
        other => panic!("unexpected: {other}"),
    }
}
