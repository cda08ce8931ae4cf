//! WAL checkpoints that do not block writers: the reading thread checkpoints most pages while commits go on, then the
//! committing thread checkpoints the rest, after which SQLite restarts the WAL from the beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, Statement};

use super::ReaderHandle;
use super::file::FileError;

/// The approximate number of WAL pages that triggers a checkpoint (4 MiB): enough to write hot pages only once, too few
/// to congest a disk.
const CHECKPOINT_PAGES: usize = 1000;

/// If no more than this arrived meanwhile (2 MiB), the committing thread checkpoints it. Otherwise the reading thread
/// runs again.
const MAX_REMAINING_PAGES: usize = 500;

/// Decides when to checkpoint. The committing thread owns it.
pub(super) struct Checkpointer<'c> {
    reader: Arc<ReaderHandle>,
    passive: Statement<'c>,
    /// The approximate number of pages written since the WAL was last restarted.
    pages: usize,
    running: Option<Arc<AtomicBool>>,
}

impl<'c> Checkpointer<'c> {
    pub(super) fn new(reader: Arc<ReaderHandle>, connection: &'c Connection) -> Result<Checkpointer<'c>, FileError> {
        Ok(Checkpointer { reader, passive: prepare(connection)?, pages: 0, running: None })
    }

    /// Records a committed transaction and the approximate number of pages that it wrote.
    pub(super) fn record_commit(&mut self, pages: usize) {
        self.pages += pages;
        if self.pages >= CHECKPOINT_PAGES && self.running.is_none() {
            self.request();
        }
    }

    /// Asks the reading thread for a checkpoint of the present WAL.
    fn request(&mut self) {
        let done = Arc::new(AtomicBool::new(false));
        let done_by_reader = Arc::clone(&done);
        let sent = self.reader.send(Box::new(move |reader| {
            if let Err(error) = reader.checkpoint() {
                // The committing thread gets the same error and reports it to the callers.
                tracing::warn!(%error, "Failed to checkpoint the write-ahead log");
            }
            done_by_reader.store(true, Ordering::Release);
        }));
        self.pages = 0;
        self.running = sent.is_ok().then_some(done);
    }

    /// Checkpoints the remaining pages once the reading thread is done. Called between transactions.
    pub(super) fn finish(&mut self) -> Result<(), FileError> {
        if self.running.as_ref().is_some_and(|done| done.load(Ordering::Acquire)) {
            self.running = None;
            if self.pages > MAX_REMAINING_PAGES {
                self.request();
            } else {
                self.pages = 0;
                run(&mut self.passive)?;
            }
        }
        Ok(())
    }

    /// Checkpoints everything now. Called when there is nothing else to do.
    pub(super) fn run(&mut self) -> Result<(), FileError> {
        if self.running.is_none() {
            self.pages = 0;
            run(&mut self.passive)?;
        }
        Ok(())
    }
}

/// The statement that checkpoints as much as possible without waiting for readers or writers.
pub(super) fn prepare(connection: &Connection) -> Result<Statement<'_>, FileError> {
    Ok(connection.prepare("PRAGMA wal_checkpoint(PASSIVE)")?)
}

pub(super) fn run(passive: &mut Statement<'_>) -> Result<(), FileError> {
    let mut rows = passive.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
