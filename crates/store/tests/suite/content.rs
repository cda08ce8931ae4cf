//! The content of a store and of its files, for tests that damage the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pintle_store::{
    Change, Compare, Durability, EmbeddedOptions, EmbeddedStore, Error, HistoryRetention, Key, KeyInterval, Revision,
    Store,
};

pub(crate) const MAIN: &str = "pintle.db";
pub(crate) const LOG: &str = "pintle.db-wal";
pub(crate) const ACKNOWLEDGED: &str = "pintle.db-acknowledged";

/// The files of a store by name.
pub(crate) type Files = BTreeMap<&'static str, Vec<u8>>;

/// The current records, the history by revision, and the revision of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) state: BTreeMap<Key, (Revision, Vec<u8>)>,
    pub(crate) history: BTreeMap<Revision, (Key, Option<Vec<u8>>)>,
    pub(crate) revision: Revision,
}

/// Nothing is synced, since no power is lost and there are many stores. The retention is longer than any test takes.
pub(crate) fn options() -> EmbeddedOptions {
    let retention = HistoryRetention { duration: Duration::from_secs(1_000_000), ..HistoryRetention::default() };
    let encryption = super::FORM.encryption();
    EmbeddedOptions { durability: Durability::Unsynced, retention, encryption, ..EmbeddedOptions::default() }
}

pub(crate) fn open(folder: &Path) -> Result<EmbeddedStore, Error> {
    EmbeddedStore::open(folder, options())
}

pub(crate) fn read_files(folder: &Path) -> Files {
    let read = |name| Some((name, fs::read(folder.join(name)).ok()?));
    [MAIN, LOG, ACKNOWLEDGED].into_iter().filter_map(read).collect()
}

/// A folder with these files.
pub(crate) fn folder_with(files: &Files) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// The files of an open store, as a kill would leave them. Waits until the store writes nothing any more.
pub(crate) fn files_after_kill(folder: &Path) -> Files {
    let mut files = read_files(folder);
    loop {
        let now = read_files(folder);
        if now == files {
            return files;
        }
        files = now;
    }
}

/// Reads the whole content of a store.
pub(crate) async fn read_everything(store: &EmbeddedStore) -> Result<Content, Error> {
    let range = store.range(KeyInterval::all(), None, None).await?;
    let state =
        range.records.into_iter().map(|record| (record.key, (record.mod_revision, record.value.to_vec()))).collect();
    let mut history = BTreeMap::new();
    let mut feed = store.changes(store.oldest_revision().await?).await?;
    while feed.complete_to() < range.revision {
        for change in feed.next_batch().await?.changes {
            history.insert(change.revision, (change.key, change.value.map(|value| value.to_vec())));
        }
    }
    Ok(Content { state, history, revision: range.revision })
}

/// Writes `count` changes and compacts some of them. Some are deletions, and some do not fit into a page.
pub(crate) async fn fill(store: &EmbeddedStore, seed: u64, count: u64) {
    for number in 0..count {
        let key = format!("/registry/things/{:02}", (seed + number) * 7 % 41);
        let size = if number % 20 == 3 { 9000 } else { 40 + number * 37 % 900 };
        let value: Vec<u8> = (0..size).map(|at| (seed * 17 + number * 31 + at * 7) as u8).collect();
        let change = match number % 9 {
            4 => Change::delete(key, Compare::Any),
            _ => Change::put(key, value),
        };
        match store.commit(change).await {
            Ok(_) | Err(Error::Conflict { current: None }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
