//! HTTP/2 connections, which several requests share (Go: `http2Transport` and `http2ClientConn`).

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use http::Request;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use pintle_locks::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use crate::config::Http2HealthCheck;
use crate::connection::ConnectionTarget;
use crate::dialer::Transport;
use crate::error::ErrorCause;
use crate::request_body::RequestBody;
use crate::settings_observer::SettingsObserver;

/// How many bytes a server may send before the client reads them, on a connection and on a stream (Go:
/// `http2transportDefaultConnFlow`, `http2transportDefaultStreamFlow`). The window of the connection is so large that
/// it never blocks a stream.
const CONNECTION_WINDOW: u32 = 1 << 30;
const STREAM_WINDOW: u32 = 4 << 20;
/// Maximum size of a response head (Go: `maxHeaderListSize`).
const MAX_HEADER_LIST_BYTES: u32 = 10 << 20;

type HyperConnection = http2::Connection<TokioIo<SettingsObserver<TlsStream<Transport>>>, RequestBody, TaskExecutor>;

/// An open HTTP/2 connection. When the last reference is dropped, hyper closes it once nothing is in flight.
pub(crate) struct Http2Connection {
    pub(crate) target: ConnectionTarget,
    sender: SendRequest<RequestBody>,
    /// The connection of hyper; `None` once it has ended.
    connection: Arc<Mutex<Option<HyperConnection>>>,
    /// The last known number of streams that the server allows.
    known_limit: AtomicUsize,
    transport: Arc<OnceLock<AbortHandle>>,
    /// The number of streams in use.
    streams: AtomicUsize,
    /// The number of exchanges in progress. A stream stays in use after its exchange while its request is being sent.
    exchanges: AtomicUsize,
    /// True once a request was sent.
    is_used: AtomicBool,
    /// True if the connection takes no more requests.
    is_retired: AtomicBool,
    /// When the last stream ended.
    idle_since: Mutex<Instant>,
}

impl Http2Connection {
    /// Starts HTTP/2 on a TLS stream. Unlike Go, it waits for the settings of the server, which limit the number of
    /// streams. Without them, the server would refuse requests above the limit, or they would wait in hyper for a
    /// stream instead of using another connection.
    ///
    /// # Errors
    /// The server has closed the stream, or has refused the client's certificate.
    pub(crate) async fn handshake(
        target: ConnectionTarget,
        stream: TlsStream<Transport>,
        check: Http2HealthCheck,
    ) -> Result<Arc<Self>, ErrorCause> {
        let executor = TaskExecutor::default();
        let transport = executor.first.clone();
        let mut builder = http2::Builder::new(executor);
        builder
            .timer(TokioTimer::new())
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .max_header_list_size(MAX_HEADER_LIST_BYTES)
            .keep_alive_interval(check.read_idle_timeout)
            .keep_alive_timeout(check.ping_timeout)
            .keep_alive_while_idle(true);
        let (stream, settled) = SettingsObserver::new(stream);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(ErrorCause::Http)?;
        let connection = Arc::new(Mutex::new(Some(connection)));
        let driven = connection.clone();
        tokio::spawn(std::future::poll_fn(move |cx| {
            let mut slot = driven.lock();
            let Some(connection) = slot.as_mut() else { return Poll::Ready(()) };
            // An error of the connection also fails its requests and response bodies, which report it.
            let polled = Pin::new(connection).poll(cx).map(drop);
            if polled.is_ready() {
                *slot = None;
            }
            polled
        }));
        match settled.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(ErrorCause::Tls(error)),
            _ => return Err(ErrorCause::Http2NotEstablished),
        }
        let limit = connection.lock().as_ref().map_or(0, HyperConnection::current_max_send_streams);
        Ok(Arc::new(Self {
            target,
            sender,
            connection,
            known_limit: AtomicUsize::new(limit),
            transport,
            streams: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
            is_used: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
        }))
    }

    /// The number of streams that the server allows; 0 once the connection has ended. While the connection is being
    /// polled, this is the last known number: the poll may drop bodies, and their drop calls this method.
    pub(crate) fn stream_limit(&self) -> usize {
        let Some(connection) = self.connection.try_lock() else {
            return self.known_limit.load(Ordering::Relaxed);
        };
        let limit = connection.as_ref().map_or(0, HyperConnection::current_max_send_streams);
        self.known_limit.store(limit, Ordering::Relaxed);
        limit
    }

    /// True if the connection takes no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_retired.load(Ordering::Acquire) || self.sender.is_closed()
    }

    /// True if the connection had no streams for this time.
    pub(crate) fn is_idle_for(&self, time: Duration) -> bool {
        self.streams.load(Ordering::Acquire) == 0 && self.idle_since.lock().elapsed() >= time
    }

    /// Takes a stream if the server allows another one. Only the pool calls this, under its lock.
    pub(crate) fn take_stream(self: &Arc<Self>) -> Option<Arc<StreamPermit>> {
        if self.is_closed() || self.streams.load(Ordering::Acquire) >= self.stream_limit() {
            return None;
        }
        self.streams.fetch_add(1, Ordering::AcqRel);
        Some(Arc::new(StreamPermit(self.clone())))
    }

    /// Lets the connection take no more requests. The connection is closed once the exchanges in progress have ended.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::Release);
        self.close_if_retired();
    }

    /// Closes a connection that takes no more requests and has no exchange in progress.
    fn close_if_retired(&self) {
        if self.is_retired.load(Ordering::Acquire)
            && self.exchanges.load(Ordering::Acquire) == 0
            && let Some(transport) = self.transport.get()
        {
            transport.abort();
        }
    }
}

/// The right to one stream of a connection. It ends when the request was sent and the response was read.
pub(crate) struct StreamPermit(Arc<Http2Connection>);

impl StreamPermit {
    /// The connection of the stream.
    pub(crate) fn connection(&self) -> &Arc<Http2Connection> {
        &self.0
    }

    /// Begins the exchange of a request and its response. Returns true for the first exchange of the connection.
    pub(crate) fn begin_exchange(&self) -> bool {
        self.0.exchanges.fetch_add(1, Ordering::AcqRel);
        !self.0.is_used.swap(true, Ordering::AcqRel)
    }

    /// Ends an exchange.
    pub(crate) fn end_exchange(&self) {
        self.0.exchanges.fetch_sub(1, Ordering::AcqRel);
        self.0.close_if_retired();
    }

    /// Sends a request. Dropping the future resets the stream.
    pub(crate) fn send(
        &self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Result<http::Response<hyper::body::Incoming>, TrySendError<Request<RequestBody>>>> + use<>
    {
        self.0.sender.clone().try_send_request(request)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Instant::now();
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs the tasks of a connection. The first task reads and writes frames. The other tasks send bodies and receive
/// responses, and wait for the first.
#[derive(Clone, Default)]
struct TaskExecutor {
    first: Arc<OnceLock<AbortHandle>>,
}

impl<F> Executor<F> for TaskExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        let task = tokio::spawn(future).abort_handle();
        self.first.get_or_init(|| task);
    }
}
