//! Lost acknowledged changes: the error says which changes are lost. The loss can be accepted, and no revision is given
//! out twice.

use std::path::Path;

use pintle_store::{Change, EmbeddedOptions, EmbeddedStore, Error, Revision, Store};

use super::content::{
    ACKNOWLEDGED, Content, Files, LOG, MAIN, files_after_kill, fill, folder_with, open, options, read_everything,
    read_files,
};

fn open_accepting(folder: &Path, after: Revision) -> Result<EmbeddedStore, Error> {
    EmbeddedStore::open(folder, EmbeddedOptions { accepted_loss: Some(after), ..options() })
}

/// A store that was killed, and its content. Its log has the changes since it was opened.
async fn killed() -> (Files, Content) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    fill(&store, 1, 100).await;
    store.compact(Revision(50)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let store = open(folder.path()).unwrap();
    fill(&store, 2, 200).await;
    let content = read_everything(&store).await.unwrap();
    (files_after_kill(folder.path()), content)
}

/// The content at an earlier revision that is not compacted.
async fn state_at(files: &Files, at: Revision) -> Vec<(String, Revision, Vec<u8>)> {
    let folder = folder_with(files);
    let store = open(folder.path()).unwrap();
    let range = store.range(pintle_store::KeyInterval::all(), Some(at), None).await.unwrap();
    range
        .records
        .into_iter()
        .map(|record| (record.key.to_string(), record.mod_revision, record.value.to_vec()))
        .collect()
}

fn lost(error: &Error) -> (Revision, Option<Revision>) {
    match error {
        Error::LostChanges { after, until, .. } => (*after, *until),
        error => panic!("{error}"),
    }
}

/// Opens damaged files of a store, expects the error, accepts the loss, and expects the state before it.
async fn check(files: &Files, undamaged: &Files, content: &Content, what: &str) -> String {
    let folder = folder_with(files);
    let error = open(folder.path()).expect_err(what);
    let (after, until) = lost(&error);
    let text = error.to_string();
    assert!(text.contains(&format!("--accept-data-loss-after {after} ")), "{text}");
    assert!(after < content.revision, "{what}: {after}");
    assert!(until.is_none_or(|until| until == content.revision), "{what}: {until:?}");
    let unmodified = || {
        let mut found = read_files(folder.path());
        // SQLite creates an empty log.
        found.retain(|name, content| files.contains_key(name) || !content.is_empty());
        found == *files
    };
    assert!(unmodified(), "{what}: an error modifies nothing");
    let other = Revision(after.get() - 1);
    assert_eq!(lost(&open_accepting(folder.path(), other).expect_err(what)), (after, until), "{what}");
    assert!(unmodified(), "{what}: another revision is not accepted");

    let store = open_accepting(folder.path(), after).unwrap_or_else(|error| panic!("{what}: {error}"));
    let expected = state_at(undamaged, after).await;
    let mut first = None;
    for _ in 0..3 {
        let found = read_everything(&store).await.unwrap();
        let state: Vec<_> = found
            .state
            .into_iter()
            .map(|(key, (at, value))| (key.to_string(), at, value))
            .filter(|(key, ..)| key != "/next")
            .collect();
        assert!(state == expected, "{what}: the state differs");
        let revision = store.commit(Change::put("/next", "1")).await.unwrap();
        assert!(revision > content.revision, "{what}: revision {revision} is given out twice");
        let first = *first.get_or_insert(revision);
        assert_eq!(store.oldest_revision().await.unwrap(), Revision(first.get() - 1), "{what}");
        let error = store.get("/next".into(), Some(after)).await.unwrap_err();
        assert!(matches!(error, Error::Compacted { .. }), "{what}: {error}");
    }
    store.close().await.unwrap();
    drop(store);
    // Afterwards the store behaves like any other, with the flag or without.
    for accepted in [true, false] {
        let store = if accepted { open_accepting(folder.path(), after) } else { open(folder.path()) }.unwrap();
        let before = store.current_revision().await.unwrap();
        fill(&store, 5, 50).await;
        store.compact(Revision(before.get() + 20)).await.unwrap();
        fill(&store, 6, 50).await;
        let content = read_everything(&store).await.unwrap();
        store.close().await.unwrap();
        drop(store);
        let store = open(folder.path()).unwrap();
        assert!(read_everything(&store).await.unwrap() == content, "{what}");
        store.close().await.unwrap();
    }
    text
}

#[tokio::test]
async fn changes_after_a_damaged_frame_are_named_and_can_be_given_up() {
    let (files, content) = killed().await;
    let frames = (files[LOG].len() - 32) / 4120;
    assert!(frames > 200, "{frames}");
    for frame in [1, frames / 3, frames / 2, frames - 1] {
        let mut damaged = files.clone();
        let at = 32 + frame * 4120 + 1000;
        damaged.get_mut(LOG).unwrap()[at] ^= 4;
        let text = check(&damaged, &files, &content, &format!("frame {frame}")).await;
        let is_last = text.contains("ends too early");
        assert!(
            is_last || text.contains(&format!("is damaged at byte {} and goes on after that", at - 1000)),
            "{text}"
        );
    }
    let mut damaged = files.clone();
    damaged.get_mut(LOG).unwrap()[17] ^= 4;
    let text = check(&damaged, &files, &content, "the header").await;
    assert!(text.contains("the header of its write-ahead log"), "{text}");
}

#[tokio::test]
async fn changes_in_a_log_that_is_left_out_are_named_and_can_be_given_up() {
    let (files, content) = killed().await;
    let mut without = files.clone();
    without.remove(LOG);
    let text = check(&without, &files, &content, "without the log").await;
    assert!(text.contains("is missing or empty"), "{text}");
    assert!(text.contains(&format!(" to {} are lost", content.revision)), "{text}");
    without.remove(ACKNOWLEDGED);
    let text = check(&without, &files, &content, "only the file").await;
    assert!(text.contains("if there were any, are lost"), "{text}");
    assert_eq!(without.keys().copied().collect::<Vec<_>>(), [MAIN]);
}

/// If accepting a loss is interrupted, the next start never gives a revision out twice.
#[tokio::test]
async fn a_loss_that_was_accepted_by_halves_is_still_a_loss() {
    let (files, content) = killed().await;
    let mut damaged = files.clone();
    damaged.get_mut(LOG).unwrap()[32 + 100 * 4120 + 50] ^= 4;
    let folder = folder_with(&damaged);
    let (after, _) = lost(&open(folder.path()).unwrap_err());
    let store = open_accepting(folder.path(), after).unwrap();
    let first = store.commit(Change::put("/next", "1")).await.unwrap();
    // The acknowledged revision is written first.
    let mut halves = damaged.clone();
    halves.insert(ACKNOWLEDGED, read_files(folder.path())[ACKNOWLEDGED].clone());
    let folder = folder_with(&halves);
    let (again, until) = lost(&open(folder.path()).unwrap_err());
    assert_eq!(again, after);
    assert!(until >= Some(content.revision));
    let store = open_accepting(folder.path(), after).unwrap();
    assert!(store.commit(Change::put("/next", "1")).await.unwrap() > first);
}

/// Some pages of the log are already in the file, so that only the file without the log is consistent.
#[tokio::test]
async fn a_damaged_log_that_is_in_the_file_already_is_put_aside() {
    let (files, content) = killed().await;
    let folder = folder_with(&files);
    let connection = rusqlite::Connection::open(folder.path().join(MAIN)).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    let mut files = read_files(folder.path());
    drop(connection);
    files.get_mut(LOG).unwrap()[32 + 50 * 4120 + 500] ^= 4;
    let folder = folder_with(&files);
    let error = open(folder.path()).unwrap_err();
    assert_eq!(lost(&error), (content.revision, None), "{error}");
    let store = open_accepting(folder.path(), content.revision).unwrap();
    assert!(read_everything(&store).await.unwrap().state == content.state);
    assert!(store.commit(Change::put("/next", "1")).await.unwrap() > content.revision);
    assert_eq!(std::fs::read(folder.path().join("pintle.db-wal.damaged")).unwrap(), files[LOG]);
}
