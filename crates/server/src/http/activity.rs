//! The activity of a connection, for its timeouts. The head of a request that has begun to arrive has a timeout (Go's
//! `ReadHeaderTimeout`). A connection without requests (Go's `IdleTimeout`) and a response that its client does not read
//! have timeouts, too.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use pintle_gathered_writes::OpenRequests;
use pintle_locks::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

use super::layer::Layer;

/// The first bytes of every client over HTTP/2 (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Maximum number of bytes that are received before other tasks run. A flood of small frames would otherwise occupy a
/// thread for as long as tokio lets a task read.
const MAX_READ_AT_ONCE: usize = 16 * 1024;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActivityTimeouts {
    /// Time limit for the head of a request over HTTP/1.1, from its first byte on; for the first request, from the
    /// handshake on. Over HTTP/2 the head of a request arrives in frames between the frames of other streams, so there
    /// is no such limit.
    pub(super) head: Duration,
    /// Time limit for a connection without requests. `None` for no limit.
    pub(super) idle: Option<Duration>,
    /// Time limit after a response's deadline for sending it completely. Over HTTP/2, a client that does not read a
    /// response gives its stream no window. So no write of the connection waits, and the write timeout does not apply.
    pub(super) response: Duration,
}

impl ActivityTimeouts {
    /// The same timeouts without the timeout of an idle connection.
    pub(super) fn without_idle(self) -> Self {
        Self { idle: None, ..self }
    }
}

/// A timeout that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The head of a request did not arrive in time.
    Head,
    /// There was no request for too long.
    Idle,
    /// A response was not read in time.
    Response,
}

impl Expiry {
    /// The reason why the connection is closed at once. `None` if it may finish its requests first.
    pub(super) fn close_reason(self) -> Option<&'static str> {
        match self {
            // Like Go's server, the server closes the connection without an answer.
            Expiry::Head => Some("the head of a request did not arrive in time"),
            Expiry::Idle => None,
            Expiry::Response => Some("the client does not read a response"),
        }
    }
}

/// The requests of a connection.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<ActivityState>>);

/// The protocol of a connection, determined from its first bytes. ALPN does not determine it, because clients may begin
/// HTTP/2 without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionProtocol {
    /// The client has sent this many bytes of the preface of HTTP/2, and nothing else.
    Unknown(usize),
    Http1,
    Http2,
}

impl ConnectionProtocol {
    /// The protocol after more bytes have arrived.
    fn after(self, bytes: &[u8]) -> Self {
        let Self::Unknown(sent) = self else { return self };
        let left = &HTTP2_PREFACE[sent..];
        if bytes.starts_with(left) {
            Self::Http2
        } else if left.starts_with(bytes) {
            Self::Unknown(sent + bytes.len())
        } else {
            Self::Http1
        }
    }
}

#[derive(Debug)]
struct ActivityState {
    /// The number of requests whose responses are not completely sent.
    open: usize,
    /// The deadlines of open requests, each with the number of the request.
    deadlines: BTreeSet<(Instant, u64)>,
    /// The number of the next request.
    next_request: u64,
    protocol: ConnectionProtocol,
    /// The time at which the head of a request began to arrive. Always `None` over HTTP/2.
    head_since: Option<Instant>,
    /// The time at which the last request ended. Only meaningful if there is no open request.
    idle_since: Instant,
}

impl ActivityState {
    /// The time at which a timeout passes, unless there is activity before.
    fn due(&self, timeouts: ActivityTimeouts) -> Option<(Instant, Expiry)> {
        if self.open > 0 {
            return self.deadlines.first().map(|(deadline, _)| (*deadline + timeouts.response, Expiry::Response));
        }
        match self.head_since {
            Some(since) => Some((since + timeouts.head, Expiry::Head)),
            None => timeouts.idle.map(|idle| (self.idle_since + idle, Expiry::Idle)),
        }
    }
}

/// Counts requests whose responses are not completely sent, including watches.
impl OpenRequests for Activity {
    fn open_requests(&self) -> usize {
        self.0.lock().open
    }
}

impl Activity {
    /// A connection that was just opened. The timeout for the head of its first request has started.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let (open, deadlines, next_request) = (0, BTreeSet::new(), 0);
        let (protocol, head_since) = (ConnectionProtocol::Unknown(0), Some(now));
        let state = ActivityState { open, deadlines, next_request, protocol, head_since, idle_since: now };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Called when the head of a request has arrived.
    pub(super) fn begin(&self) -> OpenRequest {
        let mut state = self.0.lock();
        state.open += 1;
        state.head_since = None;
        let number = state.next_request;
        state.next_request += 1;
        OpenRequest { activity: self.clone(), number, deadline: OnceLock::new() }
    }

    /// Called when bytes have arrived. Over HTTP/1.1, they belong to the head of the next request if there is no open
    /// request.
    fn received(&self, bytes: &[u8]) {
        let mut state = self.0.lock();
        state.protocol = state.protocol.after(bytes);
        if state.protocol == ConnectionProtocol::Http2 {
            state.head_since = None;
        } else if state.open == 0 && state.head_since.is_none() {
            state.head_since = Some(Instant::now());
        }
    }

    /// Completes when a timeout has passed.
    pub(super) async fn expired(&self, timeouts: ActivityTimeouts) -> Expiry {
        let shortest = timeouts.idle.into_iter().fold(timeouts.head.min(timeouts.response), Duration::min);
        loop {
            let (now, due) = (Instant::now(), self.0.lock().due(timeouts));
            match due {
                Some((at, expiry)) if at <= now => return expiry,
                // Timeouts that begin during this sleep end after it.
                _ => sleep_until(due.map_or(now + shortest, |(at, _)| at.min(now + shortest))).await,
            }
        }
    }
}

/// An open request. Dropping this ends it.
#[derive(Debug)]
pub(super) struct OpenRequest {
    activity: Activity,
    number: u64,
    deadline: OnceLock<Instant>,
}

impl OpenRequest {
    /// Sets the deadline of the response, if it is not set yet. A time in the past counts as now.
    pub(super) fn set_deadline(&self, deadline: Instant) {
        let deadline = deadline.max(Instant::now());
        if self.deadline.set(deadline).is_ok() {
            self.activity.0.lock().deadlines.insert((deadline, self.number));
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut state = self.activity.0.lock();
        state.open -= 1;
        if let Some(deadline) = self.deadline.get() {
            state.deadlines.remove(&(*deadline, self.number));
        }
        state.idle_since = Instant::now();
    }
}

/// Reports when bytes arrive, and lets other tasks run after a number of bytes. The layer is above TLS. If the stream
/// below is pending, a TLS stream returns the bytes that it has read, so a pause below TLS has no effect.
#[derive(Debug)]
pub(super) struct ActivityLayer<S> {
    stream: S,
    activity: Activity,
    /// The number of bytes that were received since other tasks could run.
    received: usize,
}

impl<S> ActivityLayer<S> {
    pub(super) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity, received: 0 }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Layer for ActivityLayer<S> {
    type Below = S;

    fn below(&self) -> &S {
        &self.stream
    }

    fn below_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.received >= MAX_READ_AT_ONCE {
            self.received = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let received = &buffer.filled()[before..];
        if !received.is_empty() {
            self.activity.received(received);
        }
        self.received = if polled.is_pending() { 0 } else { self.received + received.len() };
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const HEAD: Duration = Duration::from_secs(32);
    const IDLE: Duration = Duration::from_secs(90);
    const RESPONSE: Duration = Duration::from_secs(100);
    const TIMEOUTS: ActivityTimeouts = ActivityTimeouts { head: HEAD, idle: Some(IDLE), response: RESPONSE };

    /// The timeout that expires, and the time after which it does.
    async fn expiry(activity: &Activity, timeouts: ActivityTimeouts) -> (Expiry, Duration) {
        let started = Instant::now();
        (activity.expired(timeouts).await, Duration::from_secs(started.elapsed().as_secs()))
    }

    /// A stream that can be read without end. It counts the reads.
    struct Endless(usize);

    impl AsyncRead for Endless {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.0 += 1;
            let free = buffer.remaining();
            buffer.put_slice(&vec![b'x'; free]);
            Poll::Ready(Ok(()))
        }
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stream_that_always_has_bytes_lets_other_tasks_run() {
        let mut stream = ActivityLayer::new(tokio::io::join(Endless(0), tokio::io::sink()), Activity::new());
        let wakes = Arc::new(Wakes::default());
        let waker = wakes.clone().into();
        let mut cx = Context::from_waker(&waker);
        let mut read = || {
            let mut buffer = [0; MAX_READ_AT_ONCE / 2];
            stream.poll_read(&mut cx, &mut ReadBuf::new(&mut buffer)).is_ready()
        };
        for paused in 1..4 {
            assert_eq!([read(), read(), read()], [true, true, false]);
            assert_eq!(wakes.0.load(Ordering::Relaxed), paused);
        }
        assert_eq!(stream.stream.reader().0, 6, "a stream that waits is not read");
    }

    #[tokio::test(start_paused = true)]
    async fn the_head_of_a_request_has_a_time_limit_from_its_first_byte_on() {
        let activity = Activity::new();
        assert_eq!(expiry(&activity, TIMEOUTS).await, (Expiry::Head, HEAD));
        drop(activity.begin());
        let late = async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            activity.received(b"GET");
            tokio::time::sleep(Duration::from_secs(20)).await;
            activity.received(b"GET");
        };
        let (expired, ()) = tokio::join!(expiry(&activity, TIMEOUTS), late);
        assert_eq!(expired, (Expiry::Head, Duration::from_secs(82)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_it_had_no_request_for_a_while() {
        let activity = Activity::new();
        let watch = activity.begin();
        assert!(tokio::time::timeout(IDLE * 100, activity.expired(TIMEOUTS)).await.is_err());
        // These bytes belong to the body of a request.
        activity.received(b"GET");
        drop(watch);
        assert_eq!(expiry(&activity, TIMEOUTS).await, (Expiry::Idle, IDLE));
        drop(activity.begin());
        let requests = async {
            for _ in 0..10 {
                tokio::time::sleep(IDLE - Duration::from_secs(1)).await;
                activity.received(b"GET");
                drop(activity.begin());
            }
        };
        let (expired, ()) = tokio::join!(expiry(&activity, TIMEOUTS), requests);
        assert_eq!(expired, (Expiry::Idle, (IDLE - Duration::from_secs(1)) * 10 + IDLE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_has_to_be_read_some_time_after_its_deadline() {
        let activity = Activity::new();
        let (watch, list, object) = (activity.begin(), activity.begin(), activity.begin());
        let minute = Duration::from_secs(60);
        list.set_deadline(Instant::now() + minute);
        object.set_deadline(Instant::now() + minute);
        drop(list);
        assert_eq!(expiry(&activity, TIMEOUTS).await, (Expiry::Response, minute + RESPONSE));
        drop(object);
        assert!(tokio::time::timeout(IDLE * 100, activity.expired(TIMEOUTS)).await.is_err());
        // From now on, the watch has a deadline, which has passed.
        watch.set_deadline(Instant::now() - minute);
        assert_eq!(expiry(&activity, TIMEOUTS.without_idle()).await, (Expiry::Response, RESPONSE));
        drop(watch);
        assert_eq!(expiry(&activity, TIMEOUTS).await, (Expiry::Idle, IDLE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_http2_is_idle_until_its_first_request() {
        for size in [1, 7, HTTP2_PREFACE.len()] {
            let activity = Activity::new();
            HTTP2_PREFACE.chunks(size).for_each(|piece| activity.received(piece));
            // These bytes belong to the answer to a ping.
            activity.received(b"PONG");
            assert_eq!(expiry(&activity, TIMEOUTS).await, (Expiry::Idle, IDLE));
            drop(activity.begin());
            activity.received(b"PONG");
            assert_eq!(expiry(&activity, TIMEOUTS).await, (Expiry::Idle, IDLE));
            assert!(tokio::time::timeout(IDLE * 100, activity.expired(TIMEOUTS.without_idle())).await.is_err());
        }
        let activity = Activity::new();
        activity.received(b"PRI * HTTP/1");
        assert_eq!(expiry(&activity, TIMEOUTS).await, (Expiry::Head, HEAD));
    }
}
