//! Opens the file again after a failed sync of a checkpoint. The file system then shows pages that the disk may not
//! have, and the write-ahead log has all of them. So the log is read anew and copied to the file as a whole, as when the
//! store is opened, and compared with what is committed.

use std::time::Instant;

use rusqlite::Connection;

use super::committer::{SyncFailure, reject};
use super::file::{self, FileError};
use super::index::KeyIndex;
use super::log::{self, LogReader};
use super::{EngineState, ReaderHandle, reader};
use crate::{Error, HistoryRetention, Revision, lock};

/// The maximum number of requests that are rejected at once.
const MAX_REJECTED: usize = 512;

/// The connection of the committing thread.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    /// False until the log that was found is in the file.
    pub(super) is_log_copied: bool,
    /// The compact revision that is saved in the file.
    pub(super) compact_revision: Revision,
}

/// Opens the file again.
pub(super) struct Reopener<'c> {
    pub(super) shared: &'c EngineState,
    pub(super) reader: &'c ReaderHandle,
    pub(super) vfs: Option<&'c str>,
    pub(super) retention: HistoryRetention,
}

impl Reopener<'_> {
    /// Closes both connections and opens them again, as often as needed. Meanwhile requests are rejected with the
    /// failure. Returns `None` if the store closes.
    ///
    /// # Errors
    /// The file does not contain what was acknowledged, and only that.
    pub(super) fn reopen(&self, writer: Option<Writer>, failure: &mut SyncFailure) -> Result<Option<Writer>, Error> {
        // SQLite forgets how much of the log is in the file when no connection is open.
        let reopened = reader::close_connection(self.reader);
        drop(writer);
        loop {
            let error = match self.open() {
                Ok((writer, connection)) => {
                    self.shared.checkpoint_gate.open();
                    // A reading thread that has ended needs none.
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
        let path = &self.shared.path;
        let (connection, is_log_copied) = file::open_writer(path, self.vfs)?;
        let (compact_revision, purged_revision) = log::read_meta(&connection)?;
        let read = LogReader::new(&connection)
            .and_then(|mut log| KeyIndex::load(&mut log, self.retention, compact_revision, purged_revision))?;
        if let Some(difference) = lock(&self.shared.index).difference(&read) {
            return Err(FileError::Corrupted(difference));
        }
        Ok((Writer { connection, is_log_copied, compact_revision }, file::open_reader(path, self.vfs)?))
    }

    /// Rejects requests until then. Returns true if the store closes.
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
