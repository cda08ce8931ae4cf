//! One connection: the TLS handshake, then HTTP/1.1 or HTTP/2 until it is idle for too long or told to finish.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use pintle_gathered_writes::GatheredWrites;
use pintle_outbound::enable_keep_alive;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, SetOnce, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::activity::{Activity, ActivityLayer, ActivityTimeouts, Expiry};
use super::layer::Layered;
use super::lingering_close::LingeringClose;
use super::open_body::{LastResponse, open_response};
use super::plain_http::PlainHttpCheck;
use super::request_head::check_head;
use super::stream_executor::StreamExecutor;
use super::write_timeout::WriteTimeout;
use super::{Handler, Peer, TlsConfig};

/// The time for which a connection is silent before the system probes the client (upstream's `tcpKeepAliveListener`).
/// The server does not ping clients of HTTP/1.1 watches and of connections that have left HTTP. So without this probe,
/// it would not notice that they have disconnected.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(3 * 60);

/// Maximum number of headers of an HTTP/1.1 request. This is enough to impersonate several hundred groups, each with a
/// header of its own.
const MAX_HEADERS: usize = 1024;

/// The settings that the connections of a listener share.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    /// See [`ListenerOptions`](super::ListenerOptions).
    pub(super) max_streams: u32,
    pub(super) ping_interval: Duration,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) goaway_chance: f64,
    pub(super) timeouts: ActivityTimeouts,
    pub(super) handshake_timeout: Duration,
    pub(super) write_timeout: Duration,
    pub(super) state: watch::Receiver<ConnectionState>,
}

/// The state that the listener requests of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionState {
    Open,
    /// Finish the open requests, and accept no more.
    Finishing,
    Closed,
}

/// A connection that counts as open until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    _permit: Option<OwnedSemaphorePermit>,
    _tracked: TaskTrackerToken,
    state: watch::Receiver<ConnectionState>,
    /// Set if the connection has to be closed before `state` says so.
    aborted: SetOnce<()>,
}

impl ConnectionGuard {
    pub(super) fn new(
        permit: Option<OwnedSemaphorePermit>,
        tracked: TaskTrackerToken,
        state: watch::Receiver<ConnectionState>,
    ) -> Self {
        Self { _permit: permit, _tracked: tracked, state, aborted: SetOnce::new() }
    }

    /// Completes when the connection has to be closed, regardless of its activity.
    pub(crate) async fn closed(&self) {
        let mut state = self.state.clone();
        tokio::select! {
            _ = state.wait_for(|state| *state == ConnectionState::Closed) => {}
            () = self.aborted() => {}
        }
    }

    /// Closes the connection at once, regardless of its activity. Returns false if this was done before.
    pub(crate) fn abort(&self) -> bool {
        self.aborted.set(()).is_ok()
    }

    async fn aborted(&self) {
        self.aborted.wait().await;
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve_connection(
    stream: TcpStream,
    address: SocketAddr,
    tls: Arc<TlsConfig>,
    context: ConnectionContext,
    guard: Arc<ConnectionGuard>,
) {
    let ConnectionContext { handler, goaway_chance, timeouts, handshake_timeout, write_timeout, .. } = context;
    let (stream_executor, mut state) = (StreamExecutor::default(), context.state);
    let protocol = protocol(context.max_streams, context.ping_interval, stream_executor.clone());
    let _ = stream.set_nodelay(true);
    if let Err(error) = enable_keep_alive(&stream, KEEP_ALIVE_IDLE) {
        tracing::debug!(%address, %error, "Failed to enable TCP keep-alive");
    }
    // The address is unknown only if the client has disconnected.
    let own_address = stream.local_addr().map_or(Ipv6Addr::UNSPECIFIED.into(), |own| own.ip());
    let stream = Layered(WriteTimeout::new(Layered(LingeringClose::new(stream)), write_timeout));
    let stream = Layered(PlainHttpCheck::new(stream));
    let handshake = TlsAcceptor::from(tls.of_address(own_address)).accept(stream).into_fallible();
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(handshake_timeout, handshake) => handshake,
        _ = state.wait_for(|state| *state >= ConnectionState::Finishing) => return,
    };
    let mut stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err((error, stream))) => {
            tracing::debug!(%address, %error, "TLS handshake error");
            handler.handshake_failed();
            return stream.answer_plain_http().await;
        }
        Err(_) => {
            tracing::debug!(%address, error = "timed out", "TLS handshake error");
            return handler.handshake_failed();
        }
    };
    stream.get_mut().0.0.stream_mut().0.opened();
    let certificates: Arc<[CertificateDer<'static>]> = stream
        .get_ref()
        .1
        .peer_certificates()
        .map(|c| c.iter().map(|c| c.clone().into_owned()).collect())
        .unwrap_or_default();
    let peer = Peer { address: Some(address), certificates, connection: Arc::downgrade(&guard) };
    let (activity, finish) = (Activity::new(), Arc::new(Notify::new()));
    let service = service_fn(|request: http::Request<Incoming>| {
        if goaway_chance > 0.0 && request.version() == Version::HTTP_2 && random_share() < goaway_chance {
            finish.notify_one();
        }
        let open = activity.begin();
        let may_be_last = request.version() == Version::HTTP_2;
        let response = check_head(&request).map(|()| handler.clone().handle(peer.clone(), request));
        let finish = finish.clone();
        async move {
            let response = match response {
                Ok(response) => response.await,
                Err(refused) => {
                    tracing::debug!(%address, ?refused, "Refused the head of a request");
                    refused.response()
                }
            };
            if may_be_last && response.extensions().get::<LastResponse>().is_some() {
                finish.notify_one();
            }
            Ok::<_, Infallible>(open_response(response, open))
        }
    });
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = Layered(ActivityLayer::new(stream, activity.clone()));
    let stream = TokioIo::new(GatheredWrites::new(stream, activity.clone(), is_http2));
    let connection = protocol.serve_connection_with_upgrades(stream, service);
    let mut connection = std::pin::pin!(connection);
    let mut must_finish = std::pin::pin!(async {
        tokio::select! {
            _ = state.wait_for(|state| *state >= ConnectionState::Finishing) => {}
            () = finish.notified() => {}
            expiry = activity.expired(timeouts) => return expiry,
        }
        Expiry::Idle
    });
    let ended = tokio::select! {
        biased;
        // This branch comes first, so that the GOAWAY precedes the response. Then the client knows it when it chooses a
        // connection for its next request.
        expiry = &mut must_finish => {
            if let Some(reason) = expiry.close_reason() {
                tracing::debug!(%address, reason, "Connection closed");
                return;
            }
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = ConnectionDriver { connection: connection.as_mut(), streams: &stream_executor } => ended,
                expiry = activity.expired(timeouts.without_idle()) => {
                    tracing::debug!(%address, reason = expiry.close_reason(), "Connection closed");
                    return;
                }
                () = guard.closed() => return,
            }
        }
        ended = ConnectionDriver { connection: connection.as_mut(), streams: &stream_executor } => ended,
        () = guard.aborted() => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "Connection ended with an error");
    }
}

/// The protocol settings of a connection.
fn protocol(max_streams: u32, ping_interval: Duration, streams: StreamExecutor) -> auto::Builder<StreamExecutor> {
    let mut server = auto::Builder::new(streams);
    // No `pipeline_flush`: it would withhold the 400 or 431 response to a request that cannot be parsed.
    // No `header_read_timeout`: it also runs while a connection is idle.
    server.http1().timer(TokioTimer::new()).header_read_timeout(None).max_headers(MAX_HEADERS);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(max_streams)
        .adaptive_window(false)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(256 * 1024 * 4)
        .max_header_list_size(1 << 20)
        .max_send_buf_size(512 * 1024)
        .keep_alive_interval(Some(ping_interval))
        .keep_alive_timeout(ping_interval * 2 / 3);
    server
}

/// Serves a connection until it ends, and runs its new streams.
struct ConnectionDriver<'a, C> {
    connection: Pin<&'a mut C>,
    streams: &'a StreamExecutor,
}

impl<C: Future> Future for ConnectionDriver<'_, C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let polled = self.connection.as_mut().poll(cx);
        self.streams.run();
        polled
    }
}

/// A random number from 0 to 1.
pub(crate) fn random_share() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}
