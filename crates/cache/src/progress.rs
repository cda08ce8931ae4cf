//! The progress of the cache, and waiting for it.

use tokio::sync::watch;

/// The revision up to which every watch cache is complete.
#[derive(Debug)]
pub(crate) struct Progress {
    applied_revision: watch::Sender<u64>,
}

impl Progress {
    pub(crate) fn new(revision: u64) -> Self {
        Self { applied_revision: watch::Sender::new(revision) }
    }

    pub(crate) fn get(&self) -> u64 {
        *self.applied_revision.borrow()
    }

    pub(crate) fn advance(&self, revision: u64) {
        self.applied_revision.send_if_modified(|applied_revision| {
            let advanced = revision > *applied_revision;
            if advanced {
                *applied_revision = revision;
            }
            advanced
        });
    }

    pub(crate) async fn wait_until_fresh(&self, revision: u64) {
        if self.get() >= revision {
            return;
        }
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.applied_revision.subscribe().wait_for(|applied_revision| *applied_revision >= revision).await;
    }
}
