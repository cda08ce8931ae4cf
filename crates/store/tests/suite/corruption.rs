//! Corrupted and foreign files. Opening or reading them returns an actionable error and never wrong data.

use std::fs;
use std::path::{Path, PathBuf};

use pintle_store::{Change, EmbeddedOptions, EmbeddedStore, Error, KeyInterval, Revision, Store};

use crate::unencrypted::content::{Content, read_everything};
use crate::until;

fn open(folder: &Path) -> Result<EmbeddedStore, Error> {
    EmbeddedStore::open(folder, EmbeddedOptions::default())
}

fn file(folder: &Path) -> PathBuf {
    folder.join("pintle.db")
}

/// A closed store with some history, and its content.
async fn sample() -> (tempfile::TempDir, Content) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    fill(&store).await;
    wait_until_purged(folder.path(), 20).await;
    let content = read_everything(&store).await.unwrap();
    store.close().await.unwrap();
    assert!(!folder.path().join("pintle.db-wal").exists(), "close removes the WAL");
    (folder, content)
}

async fn fill(store: &EmbeddedStore) {
    for number in 0..60_usize {
        let value = vec![b'a' + (number % 26) as u8; 40 + number * 90];
        store.commit(Change::put(format!("/registry/things/{:02}", number % 40), value)).await.unwrap();
    }
    store.commit(Change::delete("/registry/things/07", pintle_store::Compare::Any)).await.unwrap();
    store.compact(Revision(20)).await.unwrap();
}

/// Waits until the rows that a compaction makes obsolete are removed from the file.
async fn wait_until_purged(folder: &Path, expected: i64) {
    let connection = rusqlite::Connection::open(file(folder)).unwrap();
    let purged_revision = || connection.query_row("SELECT swept FROM meta", (), |row| row.get::<_, i64>(0)).unwrap();
    until(|| (purged_revision() == expected).then_some(())).await;
}

/// Modifies the file of a sample and expects that opening it fails with these texts in the error.
async fn check(change: impl FnOnce(&Path), expect: &[&str]) {
    let (folder, _) = sample().await;
    change(folder.path());
    let error = open(folder.path()).expect_err(expect.last().unwrap()).to_string();
    for part in expect {
        assert!(error.contains(part), "{error:?} does not contain {part:?}");
    }
    assert!(error.contains("pintle.db"), "{error:?} does not name the file");
}

fn rewrite(folder: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut content = fs::read(file(folder)).unwrap();
    change(&mut content);
    fs::write(file(folder), content).unwrap();
}

fn sql(folder: &Path, statements: &str) {
    let connection = rusqlite::Connection::open(file(folder)).unwrap();
    connection.execute_batch(statements).unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_store_is_rejected() {
    check(|folder| fs::write(file(folder), "").unwrap(), &["is not a Pintle store", "empty"]).await;
    check(|folder| fs::write(file(folder), "hello").unwrap(), &["is not a Pintle store", "header"]).await;
    let garbage: Vec<u8> = (0..100_000_u32).map(|at| (at.wrapping_mul(at) >> 3) as u8).collect();
    check(|folder| fs::write(file(folder), garbage).unwrap(), &["is not a Pintle store", "header"]).await;
    let other = |folder: &Path| {
        fs::remove_file(file(folder)).unwrap();
        sql(folder, "CREATE TABLE theirs (id INTEGER); INSERT INTO theirs VALUES (1);");
    };
    check(other, &["is not a Pintle store", "another program", "0x00000000"]).await;
}

#[tokio::test]
async fn a_newer_format_version_is_rejected() {
    check(|folder| sql(folder, "PRAGMA user_version = 4"), &["format 4", "up to 3", "newer version"]).await;
}

#[tokio::test]
async fn a_truncated_or_incomplete_store_is_rejected() {
    let half = |content: &mut Vec<u8>| content.truncate(content.len() / 2);
    check(|folder| rewrite(folder, half), &["is corrupted"]).await;
    check(|folder| rewrite(folder, |content| content.truncate(4096)), &["is corrupted"]).await;
    check(|folder| rewrite(folder, |content| content[4096..].fill(0)), &["is corrupted"]).await;
    check(|folder| sql(folder, "DELETE FROM log WHERE revision = 33"), &["is corrupted", "revision 33 is missing"])
        .await;
    let all = "DELETE FROM log";
    check(|folder| sql(folder, all), &["is corrupted", "up to revision 20 are missing"]).await;
    check(
        |folder| sql(folder, "DELETE FROM log WHERE revision = 2"),
        &["is corrupted", "up to revision 20 are missing"],
    )
    .await;
    check(|folder| sql(folder, "DELETE FROM meta"), &["is corrupted"]).await;
    check(|folder| sql(folder, "UPDATE meta SET swept = -1"), &["is corrupted"]).await;
    for column in ["compacted", "swept", "retained", "base", "open", "sum"] {
        let changed = format!("UPDATE meta SET {column} = {column} + 1");
        check(|folder| sql(folder, &changed), &["is corrupted", "checksum"]).await;
    }
    check(|folder| sql(folder, "ALTER TABLE log RENAME COLUMN created TO made"), &["is corrupted", "table log"]).await;
    check(|folder| sql(folder, "DROP TABLE log"), &["is corrupted"]).await;
    check(
        |folder| {
            fs::remove_file(file(folder)).unwrap();
            fs::write(folder.join("pintle.db-wal"), "something").unwrap();
        },
        &["is corrupted", "missing", "pintle.db-wal"],
    )
    .await;
    check(|folder| fs::remove_file(file(folder)).unwrap(), &["is corrupted", "missing", "pintle.db-acknowledged"])
        .await;
}

#[tokio::test]
async fn a_modified_row_fails_its_checksum() {
    let modified = ["is corrupted", "revision 40", "checksum"];
    check(|folder| sql(folder, "UPDATE log SET key = '/other' WHERE revision = 40"), &modified).await;
    check(|folder| sql(folder, "UPDATE log SET created = 39 WHERE revision = 40"), &modified).await;
    check(|folder| sql(folder, "UPDATE log SET expires = 1 WHERE revision = 40"), &modified).await;
    check(|folder| sql(folder, "UPDATE log SET value = NULL WHERE revision = 40"), &modified).await;

    // The checksum of a value is verified only when the value is read; other rows are not affected.
    let (folder, expected) = sample().await;
    sql(folder.path(), "UPDATE log SET value = zeroblob(length(value)) WHERE revision = 40");
    let store = open(folder.path()).unwrap();
    let key = |revision: u64| expected.history[&Revision(revision)].0.clone();
    let error = store.get(key(40), None).await.unwrap_err();
    assert!(matches!(error, Error::Corrupted { .. }), "{error}");
    assert!(error.to_string().contains("revision 40"), "{error}");
    assert!(store.range(KeyInterval::all(), None, None).await.is_err());
    assert!(store.get(key(41), None).await.unwrap().is_some());
    // A conflict returns the current value, so the commit reads it.
    let (corrupted, intact) =
        tokio::join!(store.commit(Change::create(key(40), "new")), store.commit(Change::put(key(41), "new")));
    assert!(matches!(corrupted, Err(Error::Corrupted { .. })), "{corrupted:?}");
    assert!(intact.is_ok(), "{intact:?}");
    store.commit(Change::put(key(40), "new")).await.expect("it is replaced");
    assert_eq!(store.get(key(40), None).await.unwrap().unwrap().value, "new");
}

#[tokio::test]
async fn a_data_directory_is_locked_by_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let error = open(folder.path()).unwrap_err();
    let Error::Locked { path, pid } = &error else { panic!("{error}") };
    assert_eq!((path.as_path(), *pid), (folder.path(), Some(std::process::id())));
    assert!(error.to_string().contains("in use by another process (process id"), "{error}");
    store.commit(Change::create("a", "1")).await.unwrap();
    store.close().await.unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(store.current_revision().await.unwrap(), Revision(2));
    drop(store);
    assert!(open(folder.path()).is_ok(), "dropping the store unlocks the directory");
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_readable_by_the_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("made/here");
    let store = open(&folder).unwrap();
    store.commit(Change::create("a", "1")).await.unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
}

#[tokio::test]
async fn an_interrupted_first_start_is_cleaned_up() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pintle.db.new"), "half").unwrap();
    fs::write(folder.path().join("pintle.db.new-journal"), "half").unwrap();
    let store = open(folder.path()).unwrap();
    store.commit(Change::create("a", "1")).await.unwrap();
    assert!(!folder.path().join("pintle.db.new").exists());
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_created_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("taken"), "a file").unwrap();
    let error = open(&folder.path().join("taken")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("taken"), "{error}");
}
