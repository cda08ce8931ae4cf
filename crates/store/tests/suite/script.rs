//! A small script language for stores: one operation per line, `operation => expected result`. Every script runs on all
//! engines. On durable engines it also runs with a restart after every line.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::etcd::EtcdServer;
use crate::form::Form;
use pintle_store::{
    Change, Compare, Condition, EmbeddedOptions, EmbeddedStore, Error, HistoryRetention, Key, KeyInterval, ManualClock,
    MemoryStore, Record, Revision, Store, StoredChange, Timestamp,
};

/// A store that can be closed and opened again.
pub(crate) struct EngineUnderTest {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) folder: Option<tempfile::TempDir>,
    etcd: Option<EtcdServer>,
    retention: HistoryRetention,
    form: Form,
}

impl EngineUnderTest {
    pub(crate) fn memory(retention: HistoryRetention) -> EngineUnderTest {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        EngineUnderTest {
            store: Arc::new(MemoryStore::with(retention, clock.clone())),
            clock,
            folder: None,
            etcd: None,
            retention,
            form: Form::Plain,
        }
    }

    pub(crate) fn embedded(retention: HistoryRetention) -> EngineUnderTest {
        EngineUnderTest::with_form(Form::Plain, retention)
    }

    pub(crate) fn encrypted(retention: HistoryRetention) -> EngineUnderTest {
        EngineUnderTest::with_form(Form::Encrypted, retention)
    }

    fn with_form(form: Form, retention: HistoryRetention) -> EngineUnderTest {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(open(folder.path(), form, retention, clock.clone()).unwrap());
        EngineUnderTest { store, clock, folder: Some(folder), etcd: None, retention, form }
    }

    /// A store in an empty etcd. etcd uses its own clock.
    pub(crate) fn etcd() -> EngineUnderTest {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        let server = EtcdServer::start();
        let store = Arc::new(server.open());
        let (retention, form) = (HistoryRetention::default(), Form::Plain);
        EngineUnderTest { store, clock, folder: None, etcd: Some(server), retention, form }
    }

    /// Closes and opens the store again if it is durable.
    pub(crate) async fn reopen(&mut self) {
        if let Some(folder) = &self.folder {
            self.store.close().await.unwrap();
            self.store = Arc::new(open(folder.path(), self.form, self.retention, self.clock.clone()).unwrap());
        }
        if let Some(server) = &self.etcd {
            self.store.close().await.unwrap();
            self.store = Arc::new(server.open());
        }
    }
}

fn open(
    folder: &Path,
    form: Form,
    retention: HistoryRetention,
    clock: Arc<ManualClock>,
) -> Result<EmbeddedStore, Error> {
    let encryption = form.encryption();
    EmbeddedStore::open(folder, EmbeddedOptions { retention, clock, encryption, ..EmbeddedOptions::default() })
}

/// Runs a script on every engine.
pub(crate) async fn check(script: &str) {
    check_with_clock(script).await;
    run("etcd", EngineUnderTest::etcd(), false, script).await;
    run("etcd, reopened", EngineUnderTest::etcd(), true, script).await;
}

/// Runs a script on every engine that follows the clock of the test.
pub(crate) async fn check_with_clock(script: &str) {
    check_with_retention(HistoryRetention::default(), script).await;
}

/// Runs a script on every engine that follows the clock of the test and compacts its history itself.
pub(crate) async fn check_with_retention(retention: HistoryRetention, script: &str) {
    run("memory", EngineUnderTest::memory(retention), false, script).await;
    run("embedded", EngineUnderTest::embedded(retention), false, script).await;
    run("embedded, reopened", EngineUnderTest::embedded(retention), true, script).await;
    run("encrypted", EngineUnderTest::encrypted(retention), false, script).await;
    run("encrypted, reopened", EngineUnderTest::encrypted(retention), true, script).await;
}

async fn run(name: &str, mut engine: EngineUnderTest, reopen_after_each_line: bool, script: &str) {
    for (number, line) in script.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let (operation, expected) = line.split_once("=>").unwrap_or((line, ""));
        let outcome = execute(&mut engine, operation.trim()).await.unwrap_or_else(|error| describe_error(&error));
        assert_eq!(outcome, expected.trim(), "{name}, line {}: {line}", number + 1);
        if reopen_after_each_line {
            engine.reopen().await;
        }
    }
    engine.store.close().await.unwrap();
    assert!(matches!(engine.store.current_revision().await, Err(Error::Closed)), "{name}");
}

async fn execute(engine: &mut EngineUnderTest, operation: &str) -> Result<String, Error> {
    let words: Vec<&str> = operation.split_whitespace().collect();
    let option = |name: &str| words.iter().position(|word| *word == name).map(|at| words[at + 1].parse().unwrap());
    let at = option("at").map(Revision);
    let ttl = option("ttl").map(Duration::from_millis);
    let store = &engine.store;
    let change = match words[..] {
        ["create", key, value, ..] => Change::create(key, value.to_owned()),
        ["put", key, value, ..] => Change::put(key, value.to_owned()),
        ["update", key, value, ..] => Change::update(key, at.unwrap(), value.to_owned()),
        ["delete", key, "absent"] => Change::delete(key, Compare::Absent),
        ["delete", key, ..] => Change::delete(key, at.map_or(Compare::Any, Compare::ModRevision)),
        ["get", key, ..] => {
            let record = store.get(Key::from(key), at).await?;
            return Ok(record.as_ref().map_or("nothing".to_owned(), format_record));
        }
        ["range", start, end, ..] => {
            let interval = if end == "end" {
                KeyInterval { start: Key::from(start), end: None }
            } else {
                KeyInterval::between(start, end)
            };
            let range = store.range(interval, at, option("limit").map(|limit| limit as usize)).await?;
            let mut output: Vec<String> = range.records.iter().map(format_record).collect();
            if range.remaining > 0 {
                output.push(format!("and {} more", range.remaining));
            }
            output.push(format!("at {}", range.revision));
            return Ok(output.join(" "));
        }
        ["feed", from] => return read_feed(&**store, Revision(from.parse().unwrap())).await,
        ["compact", before] => {
            return store.compact(Revision(before.parse().unwrap())).await.map(|()| "done".to_owned());
        }
        ["oldest"] => return Ok(store.oldest_revision().await?.to_string()),
        ["current"] => return Ok(store.current_revision().await?.to_string()),
        ["advance", millis] => {
            engine.clock.advance(Duration::from_millis(millis.parse().unwrap()));
            return Ok(String::new());
        }
        // Waits until the store reaches the revision without further requests.
        ["until", what, revision] => {
            let revision = Revision(revision.parse().unwrap());
            loop {
                let reached = match what {
                    "current" => store.current_revision().await?,
                    "oldest" => store.oldest_revision().await?,
                    other => panic!("unknown revision {other}"),
                };
                if reached >= revision {
                    return Ok(reached.to_string());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        ["reopen"] => {
            engine.reopen().await;
            return Ok(String::new());
        }
        _ => panic!("unknown operation {operation:?}"),
    };
    let change = match ttl {
        Some(ttl) => change.with_ttl(ttl),
        None => change,
    };
    // `where KEY REVISION` and `unwritten START END REVISION` are conditions.
    let mut conditions = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let revision = |at: usize| Revision(words[at].parse().unwrap());
        match *word {
            "where" => conditions.push(Condition::Unchanged(Key::from(words[at + 1]), revision(at + 2))),
            "unwritten" => {
                let interval = KeyInterval::between(words[at + 1], words[at + 2]);
                conditions.push(Condition::NotWrittenSince(interval, revision(at + 3)));
            }
            _ => {}
        }
    }
    Ok(store.commit(change.under(conditions)).await?.to_string())
}

/// Formats all changes that a new feed delivers up to the current revision.
async fn read_feed(store: &dyn Store, from: Revision) -> Result<String, Error> {
    let mut read_feed = store.changes(from).await?;
    let current = store.current_revision().await?;
    let mut output = Vec::new();
    while read_feed.complete_to() < current {
        let batch = read_feed.next_batch().await?;
        assert_eq!(batch.complete_to, read_feed.complete_to());
        output.extend(batch.changes.iter().map(format_change));
    }
    Ok(output.join(" "))
}

/// `key=value@mod_revision/create_revision`
pub(crate) fn format_record(record: &Record) -> String {
    let value = String::from_utf8_lossy(&record.value);
    format!("{}={value}@{}/{}", record.key, record.mod_revision, record.create_revision)
}

/// `revision:key=value` or `revision:key-`
pub(crate) fn format_change(change: &StoredChange) -> String {
    let StoredChange { revision, key, value, .. } = change;
    let value = value.as_ref().map_or("-".to_owned(), |value| format!("={}", String::from_utf8_lossy(value)));
    format!("{revision}:{key}{value}")
}

fn describe_error(error: &Error) -> String {
    match error {
        Error::Conflict { current: Some(record) } => format!("conflict {}", format_record(record)),
        Error::Conflict { current: None } => "conflict".to_owned(),
        Error::ConditionFailed => "condition failed".to_owned(),
        Error::Compacted { oldest } => format!("compacted {oldest}"),
        Error::FutureRevision { current } => format!("future {current}"),
        other => panic!("unexpected: {other}"),
    }
}
