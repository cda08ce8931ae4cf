//! The connections of a client that take requests (Go: `http.Transport`): idle HTTP/1.1 connections, and HTTP/2
//! connections, which several requests share.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_locks::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, interval_at, timeout};

use crate::connection::{ConnectionTarget, Http1Connection};
use crate::http2::{Http2Connection, StreamPermit};

/// How long an idle connection is kept (Go: `IdleConnTimeout`).
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of idle HTTP/1.1 connections of a client (client-go: `idleConnsPerHost`).
const MAX_IDLE_CONNECTIONS: usize = 25;
/// How long a pooled connection may take to accept the next request. Its task needs one turn after the last response; a
/// connection that takes longer is stuck.
const READY_TIMEOUT: Duration = Duration::from_millis(100);
/// The assumed number of streams of a server before its settings have arrived (Go: `http2initialMaxConcurrentStreams`).
const INITIAL_STREAM_LIMIT: usize = 100;
/// Maximum number of remembered targets that speak HTTP/1.1.
const MAX_HTTP1_TARGETS: usize = 25;

/// The connections of a client. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ConnectionPool(Arc<SharedPool>);

#[derive(Default)]
struct SharedPool {
    state: Mutex<PoolState>,
    /// Wakes the callers that wait for another caller's connection.
    dial_ended: Notify,
}

#[derive(Default)]
struct PoolState {
    /// Idle HTTP/1.1 connections, the least recently used first.
    idle_http1: Vec<IdleConnection>,
    http2: Vec<Arc<Http2Connection>>,
    dials: Vec<Dials>,
    /// Targets that have chosen HTTP/1.1. No caller waits for another caller's connection to them.
    http1_targets: Vec<ConnectionTarget>,
}

struct IdleConnection {
    connection: Http1Connection,
    idle_since: Instant,
}

/// The dials in progress to a target, and the callers that wait for them.
struct Dials {
    target: ConnectionTarget,
    /// The number of dials in progress.
    in_progress: usize,
    /// The number of waiting callers.
    waiting: usize,
    /// The assumed number of requests that the next connection can serve at once.
    stream_limit: usize,
    /// The number of ended dials, and whether the last dial gave an HTTP/2 connection.
    ended: usize,
    is_http2: bool,
}

/// The answer of the pool to a request for a connection.
pub(crate) enum Pooled {
    /// An idle connection.
    Http1(Http1Connection),
    /// A stream of a shared connection.
    Http2(Arc<StreamPermit>),
    /// No connection. The caller has to open a connection, and to report the result to the guard.
    Nothing(DialGuard),
}

/// A connection that a caller opens. The drop of the guard reports a failure.
pub(crate) struct DialGuard {
    pool: ConnectionPool,
    target: Option<ConnectionTarget>,
}

/// A caller that waits for a connection.
struct WaitGuard<'a> {
    pool: &'a SharedPool,
    target: &'a ConnectionTarget,
}

impl ConnectionPool {
    /// Takes the most recently used HTTP/1.1 connection to a target, or a stream of an HTTP/2 connection. If HTTP/2 is
    /// offered, a caller waits for dials of other callers as long as it can expect a stream from them. So many
    /// simultaneous callers share one connection. After a failed dial, each waiting caller dials by itself, so callers
    /// do not queue for failures.
    pub(crate) async fn take(&self, target: &ConnectionTarget, offers_http2: bool) -> Pooled {
        if let Some(connection) = self.take_http1(target).await {
            return Pooled::Http1(connection);
        }
        let mut may_wait = offers_http2;
        loop {
            let mut dial_ended = pin!(self.0.dial_ended.notified());
            dial_ended.as_mut().enable();
            let (_guard, ended) = {
                let mut state = self.0.state.lock();
                if let Some(permit) = state.take_stream(target) {
                    return Pooled::Http2(permit);
                }
                match state.wait(target, may_wait) {
                    Some(ended) => (WaitGuard { pool: &self.0, target }, ended),
                    None => {
                        state.begin_dial(target);
                        return Pooled::Nothing(DialGuard { pool: self.clone(), target: Some(target.clone()) });
                    }
                }
            };
            loop {
                dial_ended.as_mut().await;
                dial_ended.set(self.0.dial_ended.notified());
                dial_ended.as_mut().enable();
                let mut state = self.0.state.lock();
                if let Some(permit) = state.take_stream(target) {
                    return Pooled::Http2(permit);
                }
                // The entry exists while callers wait.
                match state.dials.iter().find(|dials| dials.target == *target) {
                    Some(dials) if dials.ended == ended => {}
                    Some(dials) if dials.is_http2 => break,
                    _ => {
                        may_wait = false;
                        break;
                    }
                }
            }
        }
    }

    async fn take_http1(&self, target: &ConnectionTarget) -> Option<Http1Connection> {
        loop {
            let mut connection = {
                let idle = &mut self.0.state.lock().idle_http1;
                idle.retain(|idle| {
                    !idle.connection.sender.is_closed() && idle.idle_since.elapsed() < IDLE_CONNECTION_TIMEOUT
                });
                let newest = idle.iter().rposition(|idle| idle.connection.target == *target)?;
                idle.remove(newest).connection
            };
            if connection.sender.is_ready() {
                return Some(connection);
            }
            // The task of the connection is still busy with the last response, or has ended because the server closed
            // the connection.
            match timeout(READY_TIMEOUT, connection.sender.ready()).await {
                Ok(Ok(())) => return Some(connection),
                Ok(Err(_)) => {}
                Err(_) => connection.abort(),
            }
        }
    }

    /// Adds an HTTP/1.1 connection whose last response was read completely.
    pub(crate) fn put(&self, connection: Http1Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let idle = &mut self.0.state.lock().idle_http1;
        if idle.len() == MAX_IDLE_CONNECTIONS {
            idle.remove(0);
        }
        idle.push(IdleConnection { connection, idle_since: Instant::now() });
    }

    /// Removes an HTTP/2 connection from the pool. Its exchanges go on.
    pub(crate) fn remove(&self, connection: &Arc<Http2Connection>) {
        self.0.state.lock().http2.retain(|other| !Arc::ptr_eq(other, connection));
    }

    /// Closes an HTTP/2 connection when it was idle for long enough.
    fn close_when_idle(&self, connection: &Arc<Http2Connection>) {
        let (pool, connection) = (Arc::downgrade(&self.0), Arc::downgrade(connection));
        tokio::spawn(async move {
            let mut ticks = interval_at(Instant::now() + IDLE_CONNECTION_TIMEOUT, IDLE_CONNECTION_TIMEOUT);
            loop {
                ticks.tick().await;
                let (Some(pool), Some(connection)) = (pool.upgrade(), connection.upgrade()) else { return };
                // Streams are taken under the lock.
                let http2 = &mut pool.state.lock().http2;
                if connection.is_closed() || connection.is_idle_for(IDLE_CONNECTION_TIMEOUT) {
                    http2.retain(|other| !Arc::ptr_eq(other, &connection));
                    return;
                }
            }
        });
    }
}

impl PoolState {
    /// Takes a stream of the first connection with a free stream.
    fn take_stream(&mut self, target: &ConnectionTarget) -> Option<Arc<StreamPermit>> {
        self.http2.retain(|connection| !connection.is_closed());
        self.http2.iter().filter(|connection| connection.target == *target).find_map(Http2Connection::take_stream)
    }

    /// Begins to wait for the dials of other callers, if the caller can expect a stream from them. Returns the number
    /// of ended dials.
    fn wait(&mut self, target: &ConnectionTarget, may_wait: bool) -> Option<usize> {
        if !may_wait || self.http1_targets.contains(target) {
            return None;
        }
        let dials = self.dials.iter_mut().find(|dials| dials.target == *target)?;
        // Each dial uses one stream for its own caller.
        let expected = dials.in_progress.saturating_mul(dials.stream_limit.saturating_sub(1));
        if dials.waiting >= expected {
            return None;
        }
        dials.waiting += 1;
        Some(dials.ended)
    }

    fn begin_dial(&mut self, target: &ConnectionTarget) {
        if let Some(dials) = self.dials.iter_mut().find(|dials| dials.target == *target) {
            dials.in_progress += 1;
            return;
        }
        let known = self.http2.iter().filter(|connection| connection.target == *target);
        let stream_limit = known.map(|connection| connection.stream_limit()).min().unwrap_or(INITIAL_STREAM_LIMIT);
        let target = target.clone();
        self.dials.push(Dials { target, in_progress: 1, waiting: 0, stream_limit, ended: 0, is_http2: false });
    }

    /// Changes the entry of a target, and removes the entry if it has neither dials nor waiting callers.
    fn update_dials(&mut self, target: &ConnectionTarget, change: impl FnOnce(&mut Dials)) {
        let Some(index) = self.dials.iter().position(|dials| dials.target == *target) else { return };
        change(&mut self.dials[index]);
        if self.dials[index].in_progress == 0 && self.dials[index].waiting == 0 {
            self.dials.swap_remove(index);
        }
    }

    fn end_dial(&mut self, target: &ConnectionTarget, stream_limit: Option<usize>) {
        self.update_dials(target, |dials| {
            dials.in_progress -= 1;
            dials.ended += 1;
            dials.is_http2 = stream_limit.is_some();
            dials.stream_limit = stream_limit.unwrap_or(dials.stream_limit);
        });
    }
}

impl DialGuard {
    /// Reports that the server has chosen HTTP/1.1.
    pub(crate) fn end_with_http1(mut self) {
        let Some(target) = self.target.take() else { return };
        let mut state = self.pool.0.state.lock();
        state.end_dial(&target, None);
        if target.is_https() && !state.http1_targets.contains(&target) {
            if state.http1_targets.len() == MAX_HTTP1_TARGETS {
                state.http1_targets.remove(0);
            }
            state.http1_targets.push(target);
        }
        drop(state);
        self.pool.0.dial_ended.notify_waiters();
    }

    /// Adds an HTTP/2 connection, and takes a stream of it for the caller.
    pub(crate) fn end_with_http2(mut self, connection: Arc<Http2Connection>) -> Option<Arc<StreamPermit>> {
        let target = self.target.take()?;
        let mut state = self.pool.0.state.lock();
        let permit = connection.take_stream();
        state.end_dial(&target, Some(connection.stream_limit()));
        state.http1_targets.retain(|other| *other != target);
        state.http2.push(connection.clone());
        drop(state);
        self.pool.0.dial_ended.notify_waiters();
        self.pool.close_when_idle(&connection);
        permit
    }
}

impl Drop for DialGuard {
    fn drop(&mut self) {
        if let Some(target) = self.target.take() {
            self.pool.0.state.lock().end_dial(&target, None);
            self.pool.0.dial_ended.notify_waiters();
        }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.pool.state.lock().update_dials(self.target, |dials| dials.waiting -= 1);
    }
}
