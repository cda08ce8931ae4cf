//! Store files that an earlier version has written.

use std::fs;

use pintle_store::{Revision, Store};

use crate::unencrypted::content::{ACKNOWLEDGED, LOG, MAIN, fill, folder_with, open, read_everything, read_files};

/// Converts the file of a closed store to format 1.
const TO_FORMAT_1: &str = "
    CREATE TABLE old (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        compacted INTEGER NOT NULL,
        swept INTEGER NOT NULL
    ) STRICT;
    INSERT INTO old SELECT id, compacted, swept FROM meta;
    DROP TABLE meta;
    ALTER TABLE old RENAME TO meta;
    UPDATE sqlite_schema SET sql = replace(sql, '\"meta\"', 'meta');
    PRAGMA user_version = 1;
";

#[tokio::test]
async fn a_store_of_format_1_is_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    fill(&store, 1, 100).await;
    store.compact(Revision(40)).await.unwrap();
    fill(&store, 2, 20).await;
    let content = read_everything(&store).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    fs::remove_file(folder.path().join(ACKNOWLEDGED)).unwrap();
    let connection = rusqlite::Connection::open(folder.path().join(MAIN)).unwrap();
    connection.execute_batch(&format!("PRAGMA writable_schema = ON; BEGIN; {TO_FORMAT_1} COMMIT")).unwrap();
    // A store that was killed has its last changes in the log, and here also its format.
    let killed = read_files(folder.path());
    assert!(killed[LOG].len() > 4096);
    drop(connection);
    let closed = read_files(folder.path());
    assert!(!closed.contains_key(LOG));
    for files in [killed, closed] {
        let folder = folder_with(&files);
        for _ in 0..2 {
            let store = open(folder.path()).unwrap();
            assert!(read_everything(&store).await.unwrap() == content);
            store.close().await.unwrap();
        }
        let connection = rusqlite::Connection::open(folder.path().join(MAIN)).unwrap();
        let format: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(format, 2);
        drop(connection);
        let store = open(folder.path()).unwrap();
        fill(&store, 3, 50).await;
        store.compact(Revision(130)).await.unwrap();
        fill(&store, 4, 20).await;
        let content = read_everything(&store).await.unwrap();
        store.close().await.unwrap();
        drop(store);
        assert!(read_everything(&open(folder.path()).unwrap()).await.unwrap() == content);
    }
}
