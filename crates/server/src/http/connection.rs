//! One connection: the TLS handshake, then HTTP/1.1 or HTTP/2 until it is idle for too long or told to finish.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use super::lingering_close::LingeringClose;
use super::{Body, Chunk, Handler, Peer};

/// Time limit for the TLS handshake.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be idle, and time limit for the head of an HTTP/1.1 request. It is the idle timeout of
/// kube-apiserver and of Go's clients; a shorter one would close connections on which a client has just sent a request.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// What the connections of a listener share.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    pub(super) protocol: Arc<auto::Builder<TokioExecutor>>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) goaway_chance: f64,
    pub(super) state: watch::Receiver<ConnectionState>,
}

/// What the listener asks of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionState {
    Open,
    /// Finish the requests that are open, and accept no more.
    Finishing,
    Closed,
}

/// Serves a connection until it ends.
pub(super) async fn serve_connection(
    stream: TcpStream,
    address: SocketAddr,
    tls: Arc<rustls::ServerConfig>,
    context: ConnectionContext,
) {
    let ConnectionContext { protocol, handler, goaway_chance, mut state } = context;
    let _ = stream.set_nodelay(true);
    let handshake = TlsAcceptor::from(tls).accept(LingeringClose::new(stream));
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(TLS_HANDSHAKE_TIMEOUT, handshake) => handshake,
        _ = state.wait_for(|state| *state >= ConnectionState::Finishing) => return,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake error");
            return handler.handshake_failed();
        }
        Err(_) => {
            tracing::debug!(%address, error = "timed out", "TLS handshake error");
            return handler.handshake_failed();
        }
    };
    let certificates: Arc<[CertificateDer<'static>]> = stream
        .get_ref()
        .1
        .peer_certificates()
        .map(|c| c.iter().map(|c| c.clone().into_owned()).collect())
        .unwrap_or_default();
    let peer = Peer { address: Some(address), certificates };
    let (requests, finish) = (OpenRequests::default(), Arc::new(Notify::new()));
    let service = service_fn(|request: http::Request<Incoming>| {
        if goaway_chance > 0.0 && request.version() == Version::HTTP_2 && random_share() < goaway_chance {
            finish.notify_one();
        }
        let open = requests.begin();
        let response = handler.clone().handle(peer.clone(), request);
        async move { Ok::<_, Infallible>(response.await.map(|body| OpenBody { body, _open: open })) }
    });
    let connection = protocol.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut closed = state.clone();
    let mut must_finish = std::pin::pin!(async {
        tokio::select! {
            _ = state.wait_for(|state| *state >= ConnectionState::Finishing) => {}
            () = finish.notified() => {}
            () = requests.wait_until_idle(IDLE_TIMEOUT) => {}
        }
    });
    let ended = tokio::select! {
        biased;
        // First, so that the client is told before it gets its response and chooses a connection for its next request.
        () = &mut must_finish => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                _ = closed.wait_for(|state| *state == ConnectionState::Closed) => return,
            }
        }
        ended = &mut connection => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "Connection ended with an error");
    }
}

/// A random number from 0 to 1.
pub(crate) fn random_share() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

/// Counts the requests of a connection that are not completely answered.
#[derive(Clone, Default)]
struct OpenRequests(Arc<RequestCount>);

#[derive(Default)]
struct RequestCount {
    open: AtomicUsize,
    begun: AtomicUsize,
}

impl OpenRequests {
    fn begin(&self) -> OpenRequest {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self.0.clone())
    }

    /// Completes when no request was open for one to two periods of this duration.
    async fn wait_until_idle(&self, period: Duration) {
        let mut begun = None;
        loop {
            tokio::time::sleep(period).await;
            let now = Some(self.0.begun.load(Ordering::Relaxed));
            let is_idle = self.0.open.load(Ordering::Relaxed) == 0;
            if is_idle && begun == now {
                return;
            }
            begun = now.filter(|_| is_idle);
        }
    }
}

/// An open request, until this is dropped.
struct OpenRequest(Arc<RequestCount>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a response, and the request that is open until it has ended.
struct OpenBody {
    body: Body,
    _open: OpenRequest,
}

impl http_body::Body for OpenBody {
    type Data = Chunk;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, std::io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_no_request_was_open_for_a_while() {
        let requests = OpenRequests::default();
        let period = Duration::from_secs(90);
        let is_idle_within = async |periods: u32| {
            tokio::time::timeout(period * periods + Duration::from_secs(1), requests.wait_until_idle(period))
                .await
                .is_ok()
        };
        assert!(is_idle_within(2).await);
        let watch = requests.begin();
        assert!(!is_idle_within(100).await);
        drop(watch);
        let mut idle = std::pin::pin!(requests.wait_until_idle(period));
        for _ in 0..10 {
            // A request now and then.
            drop(requests.begin());
            assert!(tokio::time::timeout(period, &mut idle).await.is_err());
        }
        assert!(tokio::time::timeout(period * 2, &mut idle).await.is_ok());
    }
}
