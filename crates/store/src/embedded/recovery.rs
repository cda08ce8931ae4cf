//! Opens the file again after a failed sync of a checkpoint. The file system then shows pages that the disk may not
//! have, and the write-ahead log has all of them. So the log is read again and copied to the file as a whole, as at
//! every opening of the store. Then it is compared with the committed changes.
//!
//! SQLite keeps the number of log pages that are in the file in the wal-index, and drops the wal-index with the last
//! connection. If another process had the file open, the wal-index would remain. So no other process may open the file.
//!
//! The system reports a write-back error once per file descriptor. The committing thread's descriptor may report an
//! error first, and then the reading thread's descriptor reports it again. This counts as another failed sync, from
//! which the store recovers in the same way.

use std::time::Instant;

use rusqlite::Connection;

use super::committer::{SyncFailure, reject};
use super::file::FileError;
use super::opening::{OpenedFile, Opener};
use super::{EngineState, ReaderHandle, reader};
use crate::{Error, HistoryRetention, Revision};

/// The maximum number of requests that are rejected at once.
const MAX_REJECTED: usize = 512;

/// The connection of the committing thread.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    /// False until the log that was found at opening is in the file, and the file may be written.
    pub(super) is_prepared: bool,
    /// The compact revision that is saved in the file.
    pub(super) compact_revision: Revision,
}

/// Opens the file again.
pub(super) struct Reopener<'c> {
    pub(super) shared: &'c EngineState,
    pub(super) reader: &'c ReaderHandle,
    pub(super) retention: HistoryRetention,
}

impl Reopener<'_> {
    /// Closes both connections and opens them again, as often as necessary. Meanwhile requests are rejected with the
    /// failure. Returns `None` if the store closes.
    ///
    /// # Errors
    /// The content of the file differs from the acknowledged changes.
    pub(super) fn reopen(&self, writer: Option<Writer>, failure: &mut SyncFailure) -> Result<Option<Writer>, Error> {
        // Both connections are closed before one is opened, so that SQLite drops the wal-index.
        let Some(reopened) = reader::close_connection(self.reader) else { return Ok(None) };
        drop(writer);
        loop {
            let error = match self.open() {
                Ok((writer, connection)) => {
                    self.shared.checkpoint_gate.open();
                    // A reading thread that has ended needs no connection.
                    let _ = reopened.send(connection);
                    return Ok(Some(writer));
                }
                Err(error) if error.is_corruption() => return Err(error.into_error(&self.shared.path)),
                Err(error) => error.into_error(&self.shared.path),
            };
            tracing::warn!(%error, "Failed to open the store again after a failed sync, will retry");
            let retry_at = failure.retry_after(error);
            let rejection = failure.to_error(&self.shared.path);
            self.shared.health.set_commit_error(Some(rejection.clone()));
            if self.reject_until(retry_at, &rejection) {
                return Ok(None);
            }
        }
    }

    fn open(&self) -> Result<(Writer, Connection), FileError> {
        let EngineState { path, access, acknowledged, .. } = self.shared;
        let opener = Opener { path, access, acknowledged, retention: self.retention, accepted_loss: None };
        let OpenedFile { writer: connection, reader, index: read, is_prepared } = opener.open()?;
        if let Some(difference) = self.shared.index.lock().difference(&read) {
            return Err(FileError::Corrupted(difference));
        }
        Ok((Writer { connection, is_prepared, compact_revision: read.compact_revision }, reader))
    }

    /// Rejects requests until this time. Returns true if the store closes.
    fn reject_until(&self, until: Instant, failure: &Error) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let batch = self.shared.queue.wait(Some(left), MAX_REJECTED);
            let is_stopped = batch.stopped && batch.requests.is_empty();
            reject(batch.requests, failure);
            if is_stopped || left.is_zero() {
                return is_stopped;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

    use pintle_locks::Mutex;
    use std::path::PathBuf;
    use std::sync::mpsc;

    use pintle_store_powerloss::{Disk, DiskFailure};

    use super::*;
    use crate::embedded::{file, log};
    use crate::{Change, Durability, EmbeddedOptions, EmbeddedStore, KeyInterval, Store, Vfs};

    /// A store with one change in its log.
    async fn open_store(folder: &tempfile::TempDir, vfs: Option<&str>) -> EmbeddedStore {
        let vfs = vfs.map(|name| Vfs { name: name.to_owned(), rewrite: Disk::rewrite, write: Disk::write });
        let options = EmbeddedOptions { vfs, ..EmbeddedOptions::default() };
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        store.commit(Change::put("/a", "1")).await.unwrap();
        store
    }

    fn log_size(store: &EmbeddedStore) -> Option<u64> {
        std::fs::metadata(store.shared.path.with_extension("db-wal")).ok().map(|log| log.len())
    }

    /// Opens the file again beside the connections of the store, with this handle.
    fn reopen(store: &EmbeddedStore, reader: &ReaderHandle) -> Option<Writer> {
        let retention = HistoryRetention::default();
        let reopener = Reopener { shared: &store.shared, reader, retention };
        let sync_error = Error::Io { path: PathBuf::new(), detail: "disk I/O error".to_owned() };
        reopener.reopen(None, &mut SyncFailure::new(sync_error)).unwrap()
    }

    #[tokio::test]
    async fn a_store_that_closes_is_not_opened_again_while_its_reading_thread_has_a_connection() {
        let folder = tempfile::tempdir().unwrap();
        let store = open_store(&folder, None).await;
        let log = log_size(&store);
        assert!(reopen(&store, &ReaderHandle(Mutex::new(None))).is_none());
        assert_eq!(log_size(&store), log, "the log is not copied");
        // A reading thread that has ended has no connection.
        let (ended, _) = mpsc::channel();
        let reopened = reopen(&store, &ReaderHandle(Mutex::new(Some(ended))));
        assert!(reopened.is_some_and(|writer| writer.is_prepared), "the log is copied");
    }

    #[tokio::test]
    async fn a_store_that_closes_keeps_its_log_after_a_failed_checkpoint_that_nobody_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::register("unnoticed").unwrap();
        let store = open_store(&folder, Some("unnoticed")).await;
        disk.fail(DiskFailure::CheckpointSync);
        store.reader.read(|reader| Ok(reader.checkpoint())).await.unwrap().unwrap_err();
        disk.fail(DiskFailure::None);
        store.health().unwrap();
        store.close().await.unwrap();
        assert!(log_size(&store).is_some_and(|size| size > 0));

        let store = open_store(&folder, Some("unnoticed")).await;
        store.close().await.unwrap();
        assert_eq!(log_size(&store), None, "the log of a store that works is copied and deleted");
    }

    #[tokio::test]
    async fn an_unsynced_store_keeps_its_changes_on_a_disk_that_cannot_sync() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::register("unsynced").unwrap();
        disk.fail(DiskFailure::Sync);
        let vfs = Vfs { name: "unsynced".to_owned(), rewrite: Disk::rewrite, write: Disk::write };
        let durability = Durability::Unsynced;
        for revision in 1..=3 {
            let options = EmbeddedOptions { vfs: Some(vfs.clone()), durability, ..EmbeddedOptions::default() };
            let store = EmbeddedStore::open(folder.path(), options).unwrap();
            let key = format!("/{revision}");
            store.commit(Change::put(key.as_str(), "1")).await.unwrap();
            store.reader.read(|reader| Ok(reader.checkpoint())).await.unwrap().unwrap();
            store.health().unwrap();
            assert_eq!(store.range(KeyInterval::all(), None, None).await.unwrap().records.len(), revision);
            store.close().await.unwrap();
        }
        assert_eq!(disk.failed_syncs(), 0);
    }

    #[test]
    fn no_connection_copies_the_log_because_it_is_the_last_one() {
        for reader_is_last in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let data_dir = file::DataDir::lock(folder.path()).unwrap();
            data_dir.ensure_store_file(&file::FileAccess::default()).unwrap();
            let path = data_dir.store_file();
            let writer = file::open_writer(&path, &file::FileAccess::default()).unwrap();
            let reader = file::open_reader(&path, &file::FileAccess::default()).unwrap();
            writer.execute("UPDATE meta SET compacted = 2", []).unwrap();
            log::extent(&reader).unwrap();
            if reader_is_last {
                drop((writer, reader));
            } else {
                drop((reader, writer));
            }
            assert!(std::fs::metadata(path.with_extension("db-wal")).unwrap().len() > 0);
        }
    }
}
