//! Moving the write-ahead log into the file without making writers wait: the reading thread moves the bulk while commits
//! go on, then the committing thread moves what came meanwhile, after which SQLite begins the log anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, Statement};

use super::Requests;
use super::file::Fault;

/// About how many pages of log call for a checkpoint (4 MiB): enough to write hot pages once, too few to clog a disk.
const PAGES: usize = 1000;

/// When no more than this came meanwhile, the committing thread moves it (2 MiB); otherwise the reading thread goes again.
const REST: usize = 500;

/// When to move the log; lives on the committing thread.
pub(super) struct Checkpointer<'c> {
    requests: Arc<Requests>,
    passive: Statement<'c>,
    /// Pages written since the log last began anew, roughly.
    pages: usize,
    under_way: Option<Arc<AtomicBool>>,
}

impl<'c> Checkpointer<'c> {
    pub(super) fn new(requests: Arc<Requests>, connection: &'c Connection) -> Result<Checkpointer<'c>, Fault> {
        Ok(Checkpointer { requests, passive: prepare(connection)?, pages: 0, under_way: None })
    }

    /// Takes note of a committed transaction and of the pages that it wrote, roughly.
    pub(super) fn note(&mut self, pages: usize) {
        self.pages += pages;
        if self.pages >= PAGES && self.under_way.is_none() {
            self.ask();
        }
    }

    /// Has the reading thread move what is there now.
    fn ask(&mut self) {
        let done = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&done);
        let asked = self.requests.send(Box::new(move |reader| {
            if let Err(error) = reader.checkpoint() {
                // The committing thread meets the same trouble and tells those who wait.
                tracing::warn!(%error, "a checkpoint failed");
            }
            told.store(true, Ordering::Release);
        }));
        self.pages = 0;
        self.under_way = asked.is_ok().then_some(done);
    }

    /// Moves the rest when the bulk has been moved. Called between transactions.
    pub(super) fn finish(&mut self) -> Result<(), Fault> {
        if self.under_way.as_ref().is_some_and(|done| done.load(Ordering::Acquire)) {
            self.under_way = None;
            if self.pages > REST {
                self.ask();
            } else {
                self.pages = 0;
                run(&mut self.passive)?;
            }
        }
        Ok(())
    }

    /// Moves everything now, for when there is nothing else to do.
    pub(super) fn run(&mut self) -> Result<(), Fault> {
        if self.under_way.is_none() {
            self.pages = 0;
            run(&mut self.passive)?;
        }
        Ok(())
    }
}

/// The statement that moves as much as can be moved without waiting for anybody.
pub(super) fn prepare(connection: &Connection) -> Result<Statement<'_>, Fault> {
    Ok(connection.prepare("PRAGMA wal_checkpoint(PASSIVE)")?)
}

pub(super) fn run(passive: &mut Statement<'_>) -> Result<(), Fault> {
    let mut rows = passive.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
