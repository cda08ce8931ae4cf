//! Watches whose clients do not read: response bodies of writers. A connection asks for no more while its client reads nothing, so nobody
//! else would end such a writer and release what it holds (upstream's watch cache: "forcing watcher close due to
//! unresponsiveness").

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use pintle_locks::Mutex;

use super::push_body::PushState;

/// The watches that may have to be ended.
#[derive(Default)]
pub struct UnresponsiveWatches(Mutex<Vec<TrackedBody>>);

struct TrackedBody {
    body: Weak<PushState>,
    /// The number of polls at the last check.
    polls: u32,
    /// How long the writer has had something to send that nobody asked for.
    unread: Duration,
}

impl UnresponsiveWatches {
    /// Adds a body.
    pub(super) fn add(&self, body: Weak<PushState>) {
        self.0.lock().push(TrackedBody { body, polls: 0, unread: Duration::ZERO });
    }

    /// Ends the writers that have had something to send for `limit` while nobody asked for it. `elapsed` is the time
    /// since the last call.
    pub fn end_unread(&self, elapsed: Duration, limit: Duration) {
        // Bodies are added meanwhile.
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
