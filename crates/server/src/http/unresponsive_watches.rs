//! Watches whose clients do not read: response bodies with writers. A connection does not poll the body while its
//! client reads nothing. So only this module ends such a writer and releases its resources (upstream's watch cache:
//! "forcing watcher close due to unresponsiveness").

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use pintle_locks::Mutex;

use super::push_body::PushState;

/// The bodies of watches that may have to be ended.
#[derive(Default)]
pub struct UnresponsiveWatches(Mutex<Vec<TrackedBody>>);

struct TrackedBody {
    body: Weak<PushState>,
    /// The number of polls at the last check.
    polls: u32,
    /// The time for which the writer has had something to send without a poll of the connection.
    unread: Duration,
}

impl UnresponsiveWatches {
    /// Adds a body.
    pub(super) fn add(&self, body: Weak<PushState>) {
        self.0.lock().push(TrackedBody { body, polls: 0, unread: Duration::ZERO });
    }

    /// Ends writers that have had something to send for `limit` without a poll of the connection. `elapsed` is the time
    /// since the last call.
    pub fn end_unread(&self, elapsed: Duration, limit: Duration) {
        // New bodies may be added during this check.
        let mut tracked = std::mem::take(&mut *self.0.lock());
        tracked.retain_mut(|tracked| {
            let Some(body) = tracked.body.upgrade() else { return false };
            let polls = body.polls();
            if std::mem::replace(&mut tracked.polls, polls) != polls || !body.has_more() {
                tracked.unread = Duration::ZERO;
                return true;
            }
            tracked.unread += elapsed;
            tracked.unread < limit || !body.end()
        });
        self.0.lock().append(&mut tracked);
    }
}

impl fmt::Debug for UnresponsiveWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnresponsiveWatches").field("count", &self.0.lock().len()).finish()
    }
}
