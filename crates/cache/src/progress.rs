//! How far the cache has come, and waiting for it to come further.

use tokio::sync::watch;

/// The newest revision up to which every log is complete.
#[derive(Debug)]
pub(crate) struct Progress {
    applied: watch::Sender<u64>,
}

impl Progress {
    pub(crate) fn new(revision: u64) -> Self {
        Self { applied: watch::Sender::new(revision) }
    }

    pub(crate) fn get(&self) -> u64 {
        *self.applied.borrow()
    }

    pub(crate) fn advance(&self, revision: u64) {
        self.applied.send_if_modified(|applied| {
            let further = revision > *applied;
            if further {
                *applied = revision;
            }
            further
        });
    }

    pub(crate) async fn reaches(&self, revision: u64) {
        if self.get() >= revision {
            return;
        }
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.applied.subscribe().wait_for(|applied| *applied >= revision).await;
    }
}
