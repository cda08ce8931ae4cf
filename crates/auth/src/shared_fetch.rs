//! Lets requests with the same token wait for one answer (upstream: the `singleflight` of
//! `authentication/token/cache`). Only the leading request asks the authenticator. If it ends before the answer,
//! another request leads.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use pintle_locks::Mutex;
use pintle_value::Str;

use crate::authenticate::AuthenticationResult;

/// The fetches that are running, by the hash of token and audiences.
#[derive(Default)]
pub(crate) struct SharedFetches(Mutex<HashMap<u64, Arc<SharedFetch>>>);

/// A fetch that requests may wait for.
pub(crate) struct SharedFetch {
    token: Box<str>,
    audiences: Box<[Str]>,
    state: Mutex<FetchState>,
}

enum FetchState {
    /// The wakers of the requests that wait.
    Running(Vec<Waker>),
    Answered(AuthenticationResult),
    /// The leader has ended before the answer.
    Abandoned,
}

/// The role of a request in a fetch.
pub(crate) enum FetchRole<'s> {
    /// The request asks the authenticator, and passes the answer on.
    Leader(FetchLeader<'s>),
    /// The request waits.
    Follower(Arc<SharedFetch>),
}

/// Passes the answer on to other requests. Dropping it before the answer makes another request the leader.
pub(crate) struct FetchLeader<'s> {
    fetches: &'s SharedFetches,
    key: u64,
    /// `None` if another token with the same hash is being fetched. Then nobody waits for this fetch.
    fetch: Option<Arc<SharedFetch>>,
}

impl SharedFetches {
    pub(crate) fn join(&self, key: u64, token: &str, audiences: &[Str]) -> FetchRole<'_> {
        let fetch = match self.0.lock().entry(key) {
            Entry::Occupied(running) => {
                let running = running.get();
                if *running.token == *token && *running.audiences == *audiences {
                    return FetchRole::Follower(running.clone());
                }
                None
            }
            Entry::Vacant(vacant) => {
                let state = Mutex::new(FetchState::Running(Vec::new()));
                let fetch = Arc::new(SharedFetch { token: token.into(), audiences: audiences.into(), state });
                Some(vacant.insert(fetch).clone())
            }
        };
        FetchRole::Leader(FetchLeader { fetches: self, key, fetch })
    }
}

impl FetchLeader<'_> {
    /// Gives the answer to all requests that wait.
    pub(crate) fn answer(mut self, result: &AuthenticationResult) {
        self.end(|| FetchState::Answered(result.clone()));
    }

    fn end(&mut self, state: impl FnOnce() -> FetchState) {
        let Some(fetch) = self.fetch.take() else { return };
        // Requests that come from now on do not wait for this fetch.
        self.fetches.0.lock().remove(&self.key);
        let previous = std::mem::replace(&mut *fetch.state.lock(), state());
        if let FetchState::Running(wakers) = previous {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for FetchLeader<'_> {
    fn drop(&mut self) {
        self.end(|| FetchState::Abandoned);
    }
}

impl SharedFetch {
    /// Waits for the answer; `None` if the leader ends before the answer.
    pub(crate) async fn wait(&self) -> Option<AuthenticationResult> {
        poll_fn(|cx| match &mut *self.state.lock() {
            FetchState::Answered(result) => Poll::Ready(Some(result.clone())),
            FetchState::Abandoned => Poll::Ready(None),
            FetchState::Running(wakers) => {
                if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    wakers.push(cx.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }
}
