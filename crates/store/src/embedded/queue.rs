//! The queue in front of the committing thread. Callers never wait for it; the thread takes all that is there at once,
//! which is how concurrent writers come to share a durable commit.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{Committed, Error, Expect, Key, Timestamp, lock};

/// A change on its way to the file.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) key: Key,
    pub(super) expect: Expect,
    pub(super) write: Write,
    pub(super) reply: oneshot::Sender<Result<Committed, Error>>,
}

/// What a submission writes.
#[derive(Debug)]
pub(super) enum Write {
    Put {
        /// As the caller gave it, for the feed.
        value: Bytes,
        /// As the transformer made it, for the file.
        stored: Bytes,
        expires: Option<Timestamp>,
    },
    Delete,
}

impl Submission {
    /// The bytes that this adds to a transaction.
    pub(super) fn size(&self) -> usize {
        match &self.write {
            Write::Put { stored, .. } => self.key.len() + stored.len(),
            Write::Delete => self.key.len(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Submission>,
    /// The committing thread sleeps, so an arrival must wake it. While it works it looks for itself.
    asleep: bool,
    /// Something other than a submission changed that the committing thread should look at.
    nudged: bool,
    stopped: bool,
}

/// What the committing thread found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) submissions: VecDeque<Submission>,
    /// No more will come.
    pub(super) stopped: bool,
}

impl Queue {
    pub(super) fn submit(&self, submission: Submission) -> Result<(), Error> {
        let mut state = lock(&self.state);
        if state.stopped {
            return Err(Error::Closed);
        }
        state.waiting.push_back(submission);
        self.wake(state.asleep);
        Ok(())
    }

    /// Makes the committing thread look at what is due.
    pub(super) fn nudge(&self) {
        let mut state = lock(&self.state);
        state.nudged = true;
        self.wake(state.asleep);
    }

    /// Takes no more submissions; the thread ends when it has committed those that wait.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopped = true;
        self.wake(state.asleep);
    }

    pub(super) fn is_stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    fn wake(&self, asleep: bool) {
        if asleep {
            self.arrived.notify_one();
        }
    }

    /// Waits for submissions, at most `patience` (`None` is for ever), and takes up to `limit` of them.
    pub(super) fn wait(&self, patience: Option<Duration>, limit: usize) -> Found {
        let mut state = lock(&self.state);
        while state.waiting.is_empty() && !state.stopped && !state.nudged && patience != Some(Duration::ZERO) {
            state.asleep = true;
            let timed_out;
            (state, timed_out) = match patience {
                None => (self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner), false),
                Some(patience) => {
                    let woken = self.arrived.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
                    (woken.0, woken.1.timed_out())
                }
            };
            state.asleep = false;
            if timed_out {
                break;
            }
        }
        state.nudged = false;
        let stopped = state.stopped;
        Found { submissions: take(&mut state.waiting, limit), stopped }
    }

    /// Takes up to `limit` of what is there now.
    pub(super) fn drain(&self, limit: usize) -> VecDeque<Submission> {
        take(&mut lock(&self.state).waiting, limit)
    }
}

fn take(waiting: &mut VecDeque<Submission>, limit: usize) -> VecDeque<Submission> {
    if waiting.len() <= limit { std::mem::take(waiting) } else { waiting.drain(..limit).collect() }
}
