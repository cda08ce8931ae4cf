//! WAL checkpoints that do not block writers. The reading thread checkpoints most pages while commits go on. Then the
//! committing thread checkpoints the remaining pages, and SQLite restarts the WAL from the beginning.

use pintle_locks::Mutex;
use std::sync::Arc;

use rusqlite::{Connection, Statement};

use super::ReaderHandle;
use super::file::FileError;

/// The approximate number of WAL pages that triggers a checkpoint (4 MiB). It is large enough to write hot pages only
/// once, and too small to congest a disk.
const CHECKPOINT_PAGES: usize = 1000;

/// If at most this many pages (2 MiB) arrive meanwhile, the committing thread checkpoints them. Otherwise the reading
/// thread runs again.
const MAX_REMAINING_PAGES: usize = 500;

/// If this many pages (64 MiB) arrive while the reading thread is busy, the committing thread checkpoints them itself.
const MAX_WAITING_PAGES: usize = 16_000;

/// The result of a checkpoint by the reading thread, until the committing thread has taken it. `None` while the
/// checkpoint runs.
type CheckpointResult = Mutex<Option<Result<(), FileError>>>;

/// Lets one checkpoint run at a time, and none after a failed sync. The next checkpoint might succeed without the pages
/// of the failed one, and SQLite would overwrite the WAL that has them.
#[derive(Debug, Default)]
pub(super) struct CheckpointGate(Mutex<bool>);

impl CheckpointGate {
    /// Allows checkpoints again, after the whole WAL was copied to the file.
    pub(super) fn open(&self) {
        *self.0.lock() = false;
    }

    /// True if a sync has failed and the WAL has not been copied since.
    pub(super) fn has_failed(&self) -> bool {
        *self.0.lock()
    }

    /// Runs a checkpoint, unless another one runs or a sync has failed.
    pub(super) fn run(&self, passive: &mut Statement<'_>) -> Result<(), FileError> {
        let Some(mut has_failed) = self.0.try_lock() else { return Ok(()) };
        if *has_failed {
            return Ok(());
        }
        let result = run(passive);
        *has_failed = result.as_ref().is_err_and(FileError::is_failed_sync);
        result
    }
}

/// Decides when to checkpoint. The committing thread owns it.
pub(super) struct Checkpointer<'c> {
    gate: &'c CheckpointGate,
    reader: Arc<ReaderHandle>,
    passive: Statement<'c>,
    /// The approximate number of pages written since the WAL was last restarted.
    pages: usize,
    running: Option<Arc<CheckpointResult>>,
}

impl<'c> Checkpointer<'c> {
    pub(super) fn new(
        gate: &'c CheckpointGate,
        reader: Arc<ReaderHandle>,
        connection: &'c Connection,
    ) -> Result<Checkpointer<'c>, FileError> {
        Ok(Checkpointer { gate, reader, passive: prepare(connection)?, pages: 0, running: None })
    }

    /// Records a committed transaction and the approximate number of pages that it wrote.
    pub(super) fn record_commit(&mut self, pages: usize) -> Result<(), FileError> {
        self.pages += pages;
        if self.pages >= CHECKPOINT_PAGES && self.running.is_none() {
            self.request();
        } else if self.pages >= MAX_WAITING_PAGES {
            self.pages = 0;
            self.gate.run(&mut self.passive)?;
        }
        Ok(())
    }

    /// Asks the reading thread for a checkpoint of the present WAL.
    fn request(&mut self) {
        let result = Arc::new(CheckpointResult::default());
        let result_of_reader = Arc::clone(&result);
        let sent = self.reader.send(Box::new(move |reader| {
            let result = reader.checkpoint();
            *result_of_reader.lock() = Some(result);
        }));
        self.pages = 0;
        self.running = sent.is_ok().then_some(result);
    }

    /// Checkpoints the remaining pages once the reading thread is done. The caller calls it between transactions.
    /// Returns the error of the reading thread, if it has failed.
    pub(super) fn finish(&mut self) -> Result<(), FileError> {
        let result = self.running.as_ref().and_then(|running| running.lock().take());
        if let Some(result) = result {
            self.running = None;
            // After a failed sync no other sync may follow.
            result?;
            if self.pages > MAX_REMAINING_PAGES {
                self.request();
            } else {
                self.pages = 0;
                self.gate.run(&mut self.passive)?;
            }
        }
        Ok(())
    }

    /// Checkpoints all pages now. The caller calls it when nothing else is due.
    pub(super) fn run(&mut self) -> Result<(), FileError> {
        if self.running.is_none() {
            self.pages = 0;
            self.gate.run(&mut self.passive)?;
        }
        Ok(())
    }
}

/// The statement that checkpoints as much as possible without waiting for readers or writers.
pub(super) fn prepare(connection: &Connection) -> Result<Statement<'_>, FileError> {
    Ok(connection.prepare("PRAGMA wal_checkpoint(PASSIVE)")?)
}

fn run(passive: &mut Statement<'_>) -> Result<(), FileError> {
    let mut rows = passive.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
