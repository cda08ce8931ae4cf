//! The health of the engine: whether its threads run and whether commits succeed.

use std::sync::Mutex;

use crate::{Error, lock};

/// The names of the engine's threads.
pub(super) const COMMITTER: &str = "store-committer";
pub(super) const READER: &str = "store-reader";

/// Collects what the engine's threads report.
#[derive(Debug, Default)]
pub(super) struct EngineHealth(Mutex<HealthState>);

#[derive(Debug, Default)]
struct HealthState {
    closed: bool,
    /// The first thread that ended unexpectedly, or its error.
    thread_error: Option<Error>,
    /// The error of the last transaction, until one succeeds.
    commit_error: Option<Error>,
}

impl EngineHealth {
    /// Returns the reason if reads or writes cannot be served now.
    pub(super) fn check(&self) -> Result<(), Error> {
        let state = lock(&self.0);
        let error = if state.closed { Some(&Error::Closed) } else { None };
        match error.or(state.thread_error.as_ref()).or(state.commit_error.as_ref()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The store is being closed: its threads end as expected.
    pub(super) fn set_closed(&self) {
        lock(&self.0).closed = true;
    }

    /// Reports the result of the last transaction.
    pub(super) fn set_commit_error(&self, error: Option<Error>) {
        lock(&self.0).commit_error = error;
    }

    /// Reports that a thread has ended. The first report counts, since the other thread ends because of it.
    fn set_thread_error(&self, error: Error) {
        lock(&self.0).thread_error.get_or_insert(error);
    }
}

/// Reports the end of a thread when dropped, also if the thread panics.
pub(super) struct ThreadEndGuard<'h> {
    pub(super) health: &'h EngineHealth,
    pub(super) thread: &'static str,
}

impl ThreadEndGuard<'_> {
    /// Reports an error that ends the thread.
    pub(super) fn fail(&self, error: Error) {
        self.health.set_thread_error(error);
    }
}

impl Drop for ThreadEndGuard<'_> {
    fn drop(&mut self) {
        self.health.set_thread_error(Error::ThreadEnded { thread: self.thread });
    }
}
