//! An encrypted store: attacks on its files, changes of its keys while it is open, and the conversion of a plain store.
//! The suites of `encrypted` test everything else.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pintle_store::{
    Change, EmbeddedOptions, EmbeddedStore, EncryptionStatus, Error, Revision, Store, StoreEncryption, StoreKeyFile,
    UnencryptedStore,
};
use rusqlite::Connection;

use crate::encrypted::content as encrypted;
use crate::encrypted::content::{
    ACKNOWLEDGED, Content, Files, LOG, MAIN, files_after_kill, fill, folder_with, read_everything, read_files,
};
use crate::unencrypted::content as unencrypted;
use crate::until;

/// The environment variable with the data directory of a store to convert. It makes this process the child.
const DATA_DIR_VARIABLE: &str = "PINTLE_STORE_CONVERT_FOLDER";

/// The compact revision of a sample, and the number of its records afterwards.
const COMPACTED: Revision = Revision(40);
const RECORDS: u64 = 30;

const INCONSISTENT: &str = "records are missing, or are there twice, or are older than its meta record";

fn open(folder: &Path) -> Result<EmbeddedStore, Error> {
    encrypted::open(folder)
}

fn status(store: &EmbeddedStore) -> EncryptionStatus {
    store.encryption_status().unwrap()
}

/// The numbers of the data keys.
fn data_keys(store: &EmbeddedStore) -> Vec<u32> {
    status(store).data_keys.iter().map(|key| key.id).collect()
}

fn database(folder: &Path) -> Connection {
    Connection::open(folder.join(MAIN)).unwrap()
}

/// Ten keys with values of the same size, before and after compaction.
struct Sample {
    before: Files,
    after: Files,
    content: Content,
}

impl Sample {
    async fn new() -> Sample {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).unwrap();
        for number in 0..58 {
            store.commit(Change::put(format!("/things/{}", number % 10), format!("value {number:04}"))).await.unwrap();
        }
        store.close().await.unwrap();
        drop(store);
        let before = read_files(folder.path());
        let store = open(folder.path()).unwrap();
        store.compact(COMPACTED).await.unwrap();
        until(|| (status(&store).data_keys[0].records == RECORDS - 1).then_some(())).await;
        store.commit(Change::put("/things/0", "value 9999")).await.unwrap();
        let content = read_everything(&store).await.unwrap();
        store.close().await.unwrap();
        drop(store);
        Sample { before, after: read_files(folder.path()), content }
    }

    /// Changes the file, and expects the error at the start, or when everything is read.
    async fn check(&self, tamper: impl FnOnce(&Connection), expected: &str) {
        let folder = folder_with(&self.after);
        let connection = database(folder.path());
        tamper(&connection);
        assert!(connection.total_changes() > 0, "{expected}: nothing was changed");
        connection.close().unwrap();
        let error = match open(folder.path()) {
            Ok(store) => read_everything(&store).await.expect_err(expected),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Corrupted { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains("pintle.db is corrupted: ") && error.contains(expected), "{error:?}, not {expected:?}");
    }

    async fn check_sql(&self, statements: &str, expected: &str) {
        self.check(|connection| connection.execute_batch(statements).unwrap(), expected).await;
    }
}

/// Makes the file of another state available as `other`.
fn attach(connection: &Connection, folder: &tempfile::TempDir) {
    let path = folder.path().join(MAIN);
    connection.execute("ATTACH ?1 AS other", [path.to_str().unwrap()]).unwrap();
}

fn swap(column: &str) -> String {
    format!(
        "CREATE TEMP TABLE held AS SELECT {column} AS held FROM log WHERE revision = 50;
         UPDATE log SET {column} = (SELECT {column} FROM log WHERE revision = 51) WHERE revision = 50;
         UPDATE log SET {column} = (SELECT held FROM held) WHERE revision = 51;"
    )
}

#[tokio::test]
async fn a_record_that_is_changed_or_moved_is_noticed() {
    let sample = Sample::new().await;
    sample.check_sql(&swap("value"), "the value of revision 50 is not authentic").await;
    sample.check_sql(&swap("header"), "the record of revision 50 is not authentic").await;
    sample.check_sql(&(swap("header") + &swap("value").replace("held", "other")), "the record of revision 50").await;
    for column in ["header", "value"] {
        let what = if column == "header" { "record" } else { "value" };
        let expected = format!("the {what} of revision 50 is not authentic");
        for changed in [
            "x'00'".to_owned(),
            format!("substr({column}, 1, length({column}) - 1)"),
            format!("CAST({column} || x'00' AS BLOB)"),
            format!("CAST(substr({column}, 1, 14) || x'00' || substr({column}, 16) AS BLOB)"),
        ] {
            sample.check_sql(&format!("UPDATE log SET {column} = {changed} WHERE revision = 50"), &expected).await;
        }
    }
    let expected = "the value of revision 50 is not authentic";
    sample.check_sql("UPDATE log SET value = NULL WHERE revision = 50", expected).await;
    // An older row of the same key takes the place of its newest row.
    let moved = "DELETE FROM log WHERE revision = 58; UPDATE log SET revision = 58 WHERE revision = 48;";
    sample.check_sql(moved, "the record of revision 58 is not authentic").await;
    let copied =
        "UPDATE log SET (header, value) = (SELECT header, value FROM log WHERE revision = 48) WHERE revision = 58";
    sample.check_sql(copied, "the record of revision 58 is not authentic").await;
    let expected = "the record of revision 50 has the data key 2, which is missing";
    sample.check_sql("UPDATE log SET data_key = 2 WHERE revision = 50", expected).await;
}

#[tokio::test]
async fn a_record_that_is_removed_or_put_back_is_noticed() {
    let sample = Sample::new().await;
    let expected = "records up to revision 40 are missing, or are there twice";
    sample.check_sql("DELETE FROM log WHERE revision = 35", expected).await;
    sample.check_sql("DELETE FROM log WHERE revision = 50", "the record of revision 50 is missing").await;
    sample.check_sql("DELETE FROM log WHERE revision = 60", INCONSISTENT).await;
    sample.check_sql("DELETE FROM log WHERE revision > 55", INCONSISTENT).await;
    // A row that compaction has removed.
    let before = folder_with(&sample.before);
    let put_back = |connection: &Connection| {
        attach(connection, &before);
        connection.execute_batch("INSERT INTO log SELECT * FROM other.log WHERE revision = 20").unwrap();
    };
    sample.check(put_back, expected).await;
}

#[tokio::test]
async fn an_older_record_with_the_same_revision_is_noticed() {
    let sample = Sample::new().await;
    // As after a failed transaction, the data key has sealed two records with the revision 61.
    let other = folder_with(&sample.after);
    let store = open(other.path()).unwrap();
    store.commit(Change::put("/things/1", "value 0000")).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let folder = folder_with(&sample.after);
    let store = open(folder.path()).unwrap();
    store.commit(Change::put("/things/1", "value 1111")).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let newer = Sample { after: read_files(folder.path()), ..sample };
    let replaced = |what: &'static str| {
        let other = &other;
        move |connection: &Connection| {
            attach(connection, other);
            let row = format!("(SELECT {what} FROM other.log WHERE revision = 61)");
            connection.execute_batch(&format!("UPDATE log SET ({what}) = {row} WHERE revision = 61")).unwrap();
        }
    };
    newer.check(replaced("header, value"), INCONSISTENT).await;
    newer.check(replaced("value"), "the value of revision 61 is not authentic").await;
    newer.check(replaced("header"), INCONSISTENT).await;
}

#[tokio::test]
async fn a_changed_or_older_meta_record_is_noticed() {
    let sample = Sample::new().await;
    let expected = "its meta record is not authentic";
    let changed = "UPDATE meta SET sealed = CAST(substr(sealed, 1, 30) || x'00' || substr(sealed, 32) AS BLOB)";
    sample.check_sql(changed, expected).await;
    sample.check_sql("UPDATE meta SET sealed = x''", expected).await;
    sample.check_sql("UPDATE meta SET data_key = 2", expected).await;
    sample.check_sql("UPDATE meta SET sealed = (SELECT header FROM log WHERE revision = 50)", expected).await;
    sample.check_sql("DELETE FROM meta", "Query returned no rows").await;
    sample.check_sql("DELETE FROM data_keys", "it has no data key").await;
    let before = folder_with(&sample.before);
    let older = |connection: &Connection| {
        attach(connection, &before);
        connection.execute_batch("UPDATE meta SET sealed = (SELECT sealed FROM other.meta)").unwrap();
    };
    sample.check(older, "the record of revision 2 is missing").await;
    // The meta record of the transaction before the last one.
    let before = folder_with(&sample.after);
    let folder = folder_with(&sample.after);
    let store = open(folder.path()).unwrap();
    store.commit(Change::put("/things/1", "value 1111")).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let newer = Sample { after: read_files(folder.path()), ..Sample::new().await };
    let older = |connection: &Connection| {
        attach(connection, &before);
        connection.execute_batch("UPDATE meta SET sealed = (SELECT sealed FROM other.meta)").unwrap();
    };
    newer.check(older, INCONSISTENT).await;
    // The untouched file has everything.
    let store = open(folder_with(&sample.after).path()).unwrap();
    assert!(read_everything(&store).await.unwrap() == sample.content);
}

/// A record of an acknowledged revision without a code.
fn acknowledged(revision: u64) -> Vec<u8> {
    let revision = revision.to_le_bytes();
    let mut content = vec![0; 3 * 512];
    for place in content.chunks_exact_mut(512) {
        place[..8].copy_from_slice(&revision);
        place[8..12].copy_from_slice(&crc32fast::hash(&revision).to_le_bytes());
    }
    content
}

#[tokio::test]
async fn a_log_that_is_cut_off_is_noticed_even_if_the_acknowledged_revision_is_lowered() {
    for encrypted in [true, false] {
        let (open, folder) =
            (if encrypted { encrypted::open } else { unencrypted::open }, tempfile::tempdir().unwrap());
        let store = open(folder.path()).unwrap();
        let mut ends = Vec::new();
        for number in 0..20 {
            store.commit(Change::put(format!("/things/{number}"), "1")).await.unwrap();
            ends.push(files_after_kill(folder.path())[LOG].len());
        }
        let files = files_after_kill(folder.path());
        drop(store);
        let cut = |acknowledged: Option<Vec<u8>>| {
            let mut cut = files.clone();
            cut.get_mut(LOG).unwrap().truncate(ends[9]);
            acknowledged.map(|content| cut.insert(ACKNOWLEDGED, content));
            open(folder_with(&cut).path())
        };
        let error = cut(None).unwrap_err();
        assert!(matches!(error, Error::LostChanges { after: Revision(11), until: Some(Revision(21)), .. }), "{error}");
        let lowered = cut(Some(acknowledged(11)));
        if encrypted {
            let error = lowered.unwrap_err();
            assert!(matches!(error, Error::LostChanges { after: Revision(11), until: None, .. }), "{error}");
            let error = error.to_string();
            assert!(error.contains("its newest acknowledged revision is missing or not authentic"), "{error}");
        } else {
            lowered.expect("a checksum is no protection from an attacker");
        }
    }
}

/// A key file with these keys, which are bytes that fill a key.
fn key_file(folder: &Path, keys: &[u8]) -> PathBuf {
    use base64::Engine as _;
    let path = folder.join("store.key");
    let line = |key: &u8| base64::prelude::BASE64_STANDARD.encode([*key; 32]) + "\n";
    fs::write(&path, format!("# Keys of the store\n{}", keys.iter().map(line).collect::<String>())).unwrap();
    #[cfg(unix)]
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path
}

fn open_with_key_file(folder: &Path, path: &Path) -> Result<EmbeddedStore, Error> {
    let encryption = StoreEncryption::new(Arc::new(StoreKeyFile::new(path)));
    EmbeddedStore::open(folder, EmbeddedOptions { encryption: Some(encryption), ..encrypted::options() })
}

#[tokio::test]
async fn a_missing_or_wrong_key_is_named_and_nothing_is_written() {
    let (folder, keys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let error = open_with_key_file(folder.path(), &keys.path().join("missing")).unwrap_err();
    assert!(matches!(error, Error::Encryption { .. }), "{error}");
    assert!(error.to_string().contains("pintle.db: a data key cannot be wrapped: the key file "), "{error}");
    let path = key_file(keys.path(), &[1]);
    let store = open_with_key_file(folder.path(), &path).unwrap();
    store.commit(Change::put("/a", "1")).await.unwrap();
    let killed = files_after_kill(folder.path());
    let wrapped_with = status(&store).data_keys[0].wrapped_with.clone();
    store.close().await.unwrap();
    drop(store);
    for files in [killed, read_files(folder.path())] {
        let refused = |error: Error, expected: &str| {
            let Error::Encryption { path, detail } = &error else { panic!("{error}") };
            assert!(path.ends_with(MAIN) && detail.starts_with(expected), "{error}");
        };
        let folder = folder_with(&files);
        refused(
            unencrypted::open(folder.path()).unwrap_err(),
            "it is encrypted, and needs --encrypt-store with its keys",
        );
        let path = key_file(keys.path(), &[2, 3]);
        let expected = format!(
            "it is encrypted, and its data key 1 cannot be unwrapped: the key file {}: it lacks the key with the id \
             {wrapped_with}; the ids of its keys are ",
            path.display()
        );
        refused(open_with_key_file(folder.path(), &path).unwrap_err(), &expected);
        let missing = keys.path().join("missing");
        let expected = "it is encrypted, and its data key 1 cannot be unwrapped: the key file ";
        refused(open_with_key_file(folder.path(), &missing).unwrap_err(), expected);
        let mut found = read_files(folder.path());
        // SQLite creates an empty log.
        found.retain(|name, content| files.contains_key(name) || !content.is_empty());
        assert!(found == files, "nothing is written");
        let store = open_with_key_file(folder.path(), &key_file(keys.path(), &[2, 1])).unwrap();
        assert_eq!(store.get("/a".into(), None).await.unwrap().unwrap().value, "1");
    }
    let wrong = folder_with(&read_files(folder.path()));
    database(wrong.path()).execute_batch("UPDATE data_keys SET wrapped = zeroblob(length(wrapped))").unwrap();
    let error = open_with_key_file(wrong.path(), &path).unwrap_err().to_string();
    assert!(error.contains("data key 1 cannot be unwrapped: ") && error.contains("is not authentic"), "{error}");
}

#[tokio::test]
async fn a_new_key_encryption_key_replaces_the_old_one_while_the_store_is_open() {
    let (folder, keys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = key_file(keys.path(), &[1]);
    let store = open_with_key_file(folder.path(), &path).unwrap();
    fill(&store, 1, 20).await;
    let content = read_everything(&store).await.unwrap();
    let old = status(&store).data_keys[0].wrapped_with.clone();
    key_file(keys.path(), &[2, 1]);
    store.rewrap().await.unwrap();
    let new = status(&store).data_keys[0].wrapped_with.clone();
    assert_ne!(new, old);
    fs::remove_file(&path).unwrap();
    let error = store.rewrap().await.unwrap_err().to_string();
    assert!(error.contains("its data key 1 cannot be wrapped: the key file"), "{error}");
    let error = store.rotate_key().await.unwrap_err().to_string();
    assert!(error.contains("a data key cannot be wrapped: the key file"), "{error}");
    assert_eq!(data_keys(&store), [1]);
    let killed = files_after_kill(folder.path());
    store.close().await.unwrap();
    drop(store);
    for files in [killed, read_files(folder.path())] {
        let folder = folder_with(&files);
        open_with_key_file(folder.path(), &key_file(keys.path(), &[1])).unwrap_err();
        let store = open_with_key_file(folder.path(), &key_file(keys.path(), &[2])).unwrap();
        assert!(read_everything(&store).await.unwrap() == content);
    }
}

/// Waits until the newest data key seals everything.
async fn wait_until_rotated(store: &EmbeddedStore, newest: u32) {
    until(|| (data_keys(store) == [newest]).then_some(())).await;
}

#[tokio::test]
async fn a_data_key_is_replaced_while_the_store_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    fill(&store, 1, 700).await;
    assert_eq!(data_keys(&store), [1]);
    store.rotate_key().await.unwrap();
    assert!(data_keys(&store).ends_with(&[2]), "new records have the new key");
    fill(&store, 2, 20).await;
    let content = read_everything(&store).await.unwrap();
    wait_until_rotated(&store, 2).await;
    assert_eq!(
        status(&store).data_keys[0].records + 1,
        content.revision.0,
        "each revision after the first has a record"
    );
    let killed = files_after_kill(folder.path());
    store.close().await.unwrap();
    drop(store);
    for files in [killed, read_files(folder.path())] {
        let folder = folder_with(&files);
        let store = open(folder.path()).unwrap();
        assert_eq!(data_keys(&store), [2]);
        assert!(read_everything(&store).await.unwrap() == content);
        store.close().await.unwrap();
        drop(store);
        let connection = database(folder.path());
        let count = |what: &str| connection.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0));
        assert_eq!((count("data_keys"), count("log WHERE data_key <> 2")), (Ok(1_i64), Ok(0_i64)));
    }
}

#[tokio::test]
async fn an_interrupted_replacement_of_a_data_key_goes_on_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path()).unwrap();
    fill(&store, 1, 2500).await;
    let content = read_everything(&store).await.unwrap();
    let mut newest = 1;
    loop {
        assert!(newest < 20, "each replacement has ended before the store was closed");
        store.rotate_key().await.unwrap();
        newest += 1;
        // The store closes within a few steps.
        store.close().await.unwrap();
        drop(store);
        let keys: i64 =
            database(folder.path()).query_row("SELECT count(*) FROM data_keys", [], |row| row.get(0)).unwrap();
        store = open(folder.path()).unwrap();
        if keys > 1 {
            break;
        }
    }
    wait_until_rotated(&store, newest).await;
    assert!(read_everything(&store).await.unwrap() == content);
}

#[tokio::test]
async fn a_damaged_record_keeps_its_data_key_and_blocks_nothing() {
    let sample = Sample::new().await;
    let folder = folder_with(&sample.after);
    database(folder.path()).execute_batch("UPDATE log SET value = x'00' WHERE revision = 50").unwrap();
    // The size of the value is checked when the value is read.
    let store = open(folder.path()).unwrap();
    store.rotate_key().await.unwrap();
    let left = |records: u64| status(&store).data_keys.first().is_some_and(|key| (key.id, key.records) == (1, records));
    until(|| left(1).then_some(())).await;
    store.commit(Change::put("/things/1", "new")).await.unwrap();
    assert_eq!(store.get("/things/1".into(), None).await.unwrap().unwrap().value, "new");
    assert!(left(1));
    let problem = status(&store).problem.expect("a problem");
    assert!(problem.starts_with("1 damaged records keep an older data key (revisions 50): "), "{problem}");
}

/// Somebody who knows an old data key cannot make the store use it again.
#[tokio::test]
async fn a_data_key_that_is_put_into_the_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    fill(&store, 1, 20).await;
    store.close().await.unwrap();
    drop(store);
    let row = "SELECT wrapped_with, wrapped FROM data_keys WHERE id = 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let leaked: (String, Vec<u8>) = database(folder.path()).query_row(row, [], read).unwrap();
    let store = open(folder.path()).unwrap();
    store.rotate_key().await.unwrap();
    wait_until_rotated(&store, 2).await;
    store.close().await.unwrap();
    drop(store);
    for id in [1, 99] {
        let other = folder_with(&read_files(folder.path()));
        let insert = "INSERT INTO data_keys (id, wrapped_with, wrapped) VALUES (?1, ?2, ?3)";
        database(other.path()).execute(insert, rusqlite::params![id, leaked.0, leaked.1]).unwrap();
        let error = open(other.path()).unwrap_err().to_string();
        assert!(error.contains("its data keys are not those of its meta record"), "{error}");
    }
    let store = open(folder.path()).unwrap();
    assert_eq!(data_keys(&store), [2]);
}

#[tokio::test]
async fn a_data_key_that_has_sealed_many_texts_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = encrypted::options();
    options.encryption.as_mut().unwrap().max_sealings = 500;
    let store = EmbeddedStore::open(folder.path(), options.clone()).unwrap();
    fill(&store, 1, 100).await;
    assert_eq!(data_keys(&store), [1]);
    let before = status(&store).data_keys[0].sealings;
    assert!((200..=500).contains(&before), "{before}");
    store.close().await.unwrap();
    drop(store);
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    assert!(status(&store).data_keys[0].sealings > before, "the number survives a restart");
    fill(&store, 2, 100).await;
    until(|| (*data_keys(&store).last().unwrap() > 1).then_some(())).await;
    assert_eq!(store.health().ok(), Some(()));
}

#[tokio::test]
async fn a_store_that_is_not_encrypted_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let store = unencrypted::open(folder.path()).unwrap();
    fill(&store, 1, 300).await;
    store.compact(Revision(200)).await.unwrap();
    fill(&store, 2, 20).await;
    let content = read_everything(&store).await.unwrap();
    let killed = files_after_kill(folder.path());
    let error = store.rotate_key().await.unwrap_err().to_string();
    assert!(error.contains("it is not encrypted"), "{error}");
    assert_eq!(store.encryption_status(), None);
    store.close().await.unwrap();
    drop(store);
    for files in [killed, read_files(folder.path())] {
        let folder = folder_with(&files);
        let mut options = encrypted::options();
        options.encryption.as_mut().unwrap().unencrypted = UnencryptedStore::Refuse;
        let error = EmbeddedStore::open(folder.path(), options.clone()).unwrap_err().to_string();
        assert!(
            error.contains("it is not encrypted; start once with --encrypt-existing-store to encrypt it"),
            "{error}"
        );
        // An earlier conversion was interrupted.
        fs::write(folder.path().join("pintle.db.new"), "half").unwrap();
        let store = open(folder.path()).unwrap();
        assert!(read_everything(&store).await.unwrap() == content);
        store.close().await.unwrap();
        drop(store);
        // A crash may leave the acknowledged revision of the old store.
        fs::write(folder.path().join(ACKNOWLEDGED), &files[ACKNOWLEDGED]).unwrap();
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        // The changes after the compaction store its revision.
        store.compact(Revision(310)).await.unwrap();
        fill(&store, 3, 20).await;
        let content = read_everything(&store).await.unwrap();
        let killed = files_after_kill(folder.path());
        drop(store);
        assert!(read_everything(&open(folder_with(&killed).path()).unwrap()).await.unwrap() == content);
        assert!(!folder.path().join("pintle.db.new").exists());
    }
}

/// Converts until this process is killed. Does nothing unless it runs in the child.
#[tokio::test]
async fn convert_until_killed() {
    let Some(folder) = std::env::var_os(DATA_DIR_VARIABLE) else { return };
    use std::io::Write as _;
    std::io::stdout().lock().write_all(b"started\n").unwrap();
    drop(open(Path::new(&folder)).unwrap());
}

#[tokio::test]
async fn a_kill_during_the_conversion_leaves_the_old_store_or_the_new_one() {
    let plain = tempfile::tempdir().unwrap();
    let store = unencrypted::open(plain.path()).unwrap();
    fill(&store, 1, 3000).await;
    let content = read_everything(&store).await.unwrap();
    let files = files_after_kill(plain.path());
    let (mut converted, mut kill) = (0, 0);
    // On a busy machine, later kills are needed until one comes after the conversion.
    while kill < 12 || (converted == 0 && kill < 50) {
        let folder = folder_with(&files);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["encryption::convert_until_killed", "--exact", "--nocapture"])
            .env(DATA_DIR_VARIABLE, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("started\n") {
            assert!(output.read_line(&mut line).unwrap() > 0, "{line}");
        }
        std::thread::sleep(Duration::from_millis(kill * kill * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        let is_converted = unencrypted::open(folder_with(&read_files(folder.path())).path()).is_err();
        converted += u64::from(is_converted);
        let store = open(folder.path()).unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        assert!(read_everything(&store).await.unwrap() == content, "kill {kill}");
        kill += 1;
    }
    assert!(converted > 0, "no conversion has ended");
    assert!(converted < kill, "each kill came after the conversion, so the test proves nothing");
}

/// Random texts that must not be in a file.
struct Markers {
    texts: Vec<[u8; 16]>,
    found: HashSet<[u8; 16]>,
}

impl Markers {
    fn new() -> Markers {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut letter = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b'a' + (state % 26) as u8
        };
        let texts: Vec<[u8; 16]> = (0..400).map(|_| std::array::from_fn(|_| letter())).collect();
        Markers { found: texts.iter().copied().collect(), texts }
    }

    /// A key and a value with a marker each.
    fn change(&self, number: usize) -> (String, String) {
        let text = |marker: usize| String::from_utf8(self.texts[marker].to_vec()).unwrap();
        let value = format!("{{\"data\":\"{}\"}}", text(2 * number + 1).repeat(1 + number % 400));
        (format!("/registry/secrets/{}", text(2 * number)), value)
    }

    /// The number of markers in the files of a folder.
    fn count(&self, folder: &Path) -> usize {
        let mut found = HashSet::new();
        for entry in fs::read_dir(folder).unwrap() {
            let content = fs::read(entry.unwrap().path()).unwrap();
            let letters = content.windows(16).filter(|window| window.iter().all(u8::is_ascii_lowercase));
            found.extend(letters.filter(|window| self.found.contains(*window)).map(<[u8]>::to_vec));
        }
        found.len()
    }
}

#[tokio::test]
async fn no_file_has_a_key_or_a_value() {
    let markers = Markers::new();
    for is_encrypted in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let open = if is_encrypted { encrypted::open } else { unencrypted::open };
        let store = open(folder.path()).unwrap();
        let check = |what: &str| {
            let found = markers.count(folder.path());
            assert_eq!(found == 0, is_encrypted, "{what}: {found} markers");
        };
        for round in 0..2 {
            for number in 0..200 {
                let (key, value) = markers.change(number);
                store.commit(Change::put(key, value)).await.unwrap();
            }
            check(&format!("written, round {round}"));
            let current = store.current_revision().await.unwrap();
            store.compact(Revision(current.0 - 50)).await.unwrap();
            if is_encrypted {
                store.rotate_key().await.unwrap();
                check("while records are sealed again");
                wait_until_rotated(&store, 2 + round).await;
            }
        }
        // As after a kill: the log is still there.
        files_after_kill(folder.path());
        check("killed");
        store.close().await.unwrap();
        drop(store);
        check("closed");
        // The same with the file of a store that was converted.
        drop(encrypted::open(folder.path()).unwrap());
        assert_eq!(markers.count(folder.path()), 0, "converted");
    }
}
