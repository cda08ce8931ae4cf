//! The health of the engine: whether its threads run and whether commits succeed.

use pintle_locks::Mutex;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Error;

/// The names of the engine's threads.
pub(super) const COMMITTER: &str = "store-committer";
pub(super) const READER: &str = "store-reader";

/// How long the committing thread may work on one transaction before the store counts as stalled. The work takes
/// milliseconds, so the rest is time on the disk.
const MAX_TRANSACTION_TIME: Duration = Duration::from_secs(1);

/// Collects the reports of the engine's threads.
#[derive(Debug, Default)]
pub(super) struct EngineHealth(Mutex<HealthState>);

#[derive(Debug, Default)]
struct HealthState {
    closed: bool,
    /// The error of the first thread that failed or ended unexpectedly.
    thread_error: Option<Error>,
    /// The error of the last transaction, until one succeeds.
    commit_error: Option<Error>,
    /// When the committing thread began its current transaction.
    transaction_began: Option<Instant>,
}

impl EngineHealth {
    /// Returns the reason if reads or writes cannot be served now. `path` is the store file.
    pub(super) fn check(&self, path: &Path) -> Result<(), Error> {
        let state = self.0.lock();
        let error = if state.closed { Some(&Error::Closed) } else { None };
        if let Some(error) = error.or(state.thread_error.as_ref()).or(state.commit_error.as_ref()) {
            return Err(error.clone());
        }
        // The caller measures the time, because a thread that waits for the disk reports nothing.
        match state.transaction_began.map(|began| began.elapsed()) {
            Some(elapsed) if elapsed >= MAX_TRANSACTION_TIME => {
                Err(Error::Stalled { path: path.to_owned(), seconds: elapsed.as_secs() })
            }
            _ => Ok(()),
        }
    }

    /// Records that the committing thread begins a transaction or has ended it.
    pub(super) fn set_in_transaction(&self, in_transaction: bool) {
        self.0.lock().transaction_began = in_transaction.then(Instant::now);
    }

    /// Records that the store is being closed, so its threads end as expected.
    pub(super) fn set_closed(&self) {
        self.0.lock().closed = true;
    }

    /// Reports the result of the last transaction.
    pub(super) fn set_commit_error(&self, error: Option<Error>) {
        self.0.lock().commit_error = error;
    }

    /// Reports that a thread has ended. The first report counts, since the other thread ends because of it.
    fn set_thread_error(&self, error: Error) {
        self.0.lock().thread_error.get_or_insert(error);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::clock::Sleep;
    use crate::{Change, Clock, EmbeddedOptions, EmbeddedStore, Key, Revision, Store, SystemClock, Timestamp};

    /// A clock that panics on the committing thread once it is armed.
    #[derive(Debug, Default)]
    struct PanickingClock(AtomicBool);

    impl Clock for PanickingClock {
        fn now(&self) -> Timestamp {
            let is_committer = std::thread::current().name() == Some(COMMITTER);
            assert!(!(self.0.load(Ordering::Relaxed) && is_committer), "the clock panics, as the test wants");
            SystemClock.now()
        }

        fn sleep(&self, duration: Duration) -> Sleep {
            SystemClock.sleep(duration)
        }
    }

    /// Waits until the store reports that a thread has ended, and returns the name of the thread.
    async fn ended_thread(store: &EmbeddedStore) -> &'static str {
        loop {
            match store.health() {
                Err(Error::ThreadEnded { thread }) => return thread,
                Err(error) => panic!("{error}"),
                Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    #[tokio::test]
    async fn an_ended_committing_thread_is_reported() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(PanickingClock::default()));
        let options = EmbeddedOptions { clock: clock.clone(), ..EmbeddedOptions::default() };
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        store.commit(Change::create("/a", "1")).await.unwrap();
        store.health().unwrap();
        clock.0.store(true, Ordering::Relaxed);
        assert!(store.commit(Change::create("/b", "2")).await.is_err());
        assert_eq!(ended_thread(&store).await, COMMITTER);
        store.close().await.unwrap();
        assert!(matches!(store.health(), Err(Error::Closed)));
    }

    #[tokio::test]
    async fn an_ended_reading_thread_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        store.commit(Change::create("/a", "1")).await.unwrap();
        store.reader.send(Box::new(|_| panic!("the reading thread panics, as the test wants"))).unwrap();
        assert_eq!(ended_thread(&store).await, READER);
        assert!(store.get(Key::from("/a"), None).await.is_err());
        // Commits still work.
        assert_eq!(store.commit(Change::create("/b", "1")).await.unwrap(), Revision(3));
    }
}
