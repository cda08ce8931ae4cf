//! The queue in front of the committing thread. Callers never wait for it. The thread takes all queued requests at
//! once, so that concurrent writers share a durable commit.

use pintle_locks::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{Compare, Condition, Error, Key, Revision, Timestamp};

/// A change that waits to be committed.
#[derive(Debug)]
pub(super) struct CommitRequest {
    pub(super) key: Key,
    pub(super) compare: Compare,
    pub(super) op: PreparedOp,
    pub(super) conditions: Vec<Condition>,
    pub(super) reply: oneshot::Sender<Result<Revision, Error>>,
}

/// The operation of a request, with the value already transformed.
#[derive(Debug)]
pub(super) enum PreparedOp {
    Put {
        /// The value from the caller, for the change feed.
        value: Bytes,
        /// The transformed value, for the file.
        stored: Bytes,
        expires: Option<Timestamp>,
    },
    Delete,
}

impl CommitRequest {
    /// The number of bytes that this request adds to a transaction.
    pub(super) fn size(&self) -> usize {
        match &self.op {
            PreparedOp::Put { stored, .. } => self.key.len() + stored.len(),
            PreparedOp::Delete => self.key.len(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct CommitQueue {
    state: Mutex<QueueState>,
    wakeup: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    requests: VecDeque<CommitRequest>,
    /// True while the committing thread waits, so a new request must wake it. While it works it checks the queue
    /// itself.
    is_waiting: bool,
    /// True if maintenance (compaction, expiry) may be due although no request has arrived.
    maintenance_requested: bool,
    stopped: bool,
}

/// The requests that [`CommitQueue::wait`] returns.
#[derive(Debug)]
pub(super) struct QueueBatch {
    pub(super) requests: VecDeque<CommitRequest>,
    /// True if no more requests will arrive.
    pub(super) stopped: bool,
}

impl CommitQueue {
    pub(super) fn submit(&self, request: CommitRequest) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Closed);
        }
        state.requests.push_back(request);
        self.wake(state.is_waiting);
        Ok(())
    }

    /// Makes the committing thread check for due maintenance.
    pub(super) fn request_maintenance(&self) {
        let mut state = self.state.lock();
        state.maintenance_requested = true;
        self.wake(state.is_waiting);
    }

    /// Rejects further requests. The committing thread ends after it has committed the queued requests.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        self.wake(state.is_waiting);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    fn wake(&self, is_waiting: bool) {
        if is_waiting {
            self.wakeup.notify_one();
        }
    }

    /// Waits for requests, at most `idle_timeout` (`None` is forever), and takes up to `limit` of them.
    pub(super) fn wait(&self, idle_timeout: Option<Duration>, limit: usize) -> QueueBatch {
        let mut state = self.state.lock();
        while state.requests.is_empty()
            && !state.stopped
            && !state.maintenance_requested
            && idle_timeout != Some(Duration::ZERO)
        {
            state.is_waiting = true;
            let timed_out = match idle_timeout {
                None => {
                    self.wakeup.wait(&mut state);
                    false
                }
                Some(idle_timeout) => self.wakeup.wait_for(&mut state, idle_timeout).timed_out(),
            };
            state.is_waiting = false;
            if timed_out {
                break;
            }
        }
        state.maintenance_requested = false;
        let stopped = state.stopped;
        QueueBatch { requests: take(&mut state.requests, limit), stopped }
    }

    /// Takes up to `limit` of the queued requests without waiting.
    pub(super) fn take_up_to(&self, limit: usize) -> VecDeque<CommitRequest> {
        take(&mut self.state.lock().requests, limit)
    }
}

fn take(requests: &mut VecDeque<CommitRequest>, limit: usize) -> VecDeque<CommitRequest> {
    if requests.len() <= limit { std::mem::take(requests) } else { requests.drain(..limit).collect() }
}
