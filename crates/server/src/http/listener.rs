//! The listener: accepts connections, shakes hands, serves HTTP/1.1 or HTTP/2, and drains on request.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Response;
use pintle_registry::BoxFuture;

/// How long a client may take for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long an HTTP/1.1 connection may wait for the next request, up to the end of its head (kube-apiserver's and Go's
/// clients' time for idle connections: who ends them earlier ends some on which a request is under way).
const IDLE: Duration = Duration::from_secs(90);
/// Streams that a client may have open on one HTTP/2 connection (kube-apiserver: 100, Go's own default 250).
const STREAMS: u32 = 250;

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Its address.
    pub address: Option<SocketAddr>,
    /// Its certificate chain, leaf first, not yet verified.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// What answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one.
    fn handle(self: Arc<Self>, peer: Peer, request: http::Request<Incoming>) -> BoxFuture<'static, Response>;

    /// The listener is gone and connections were told to finish: answers without an end of their own end now.
    fn drain(&self);
}

/// A bound socket that is ready to serve.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Arc<rustls::ServerConfig>,
}

impl Listener {
    /// Binds an address; port 0 is any that is free.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(address: SocketAddr, tls: Arc<rustls::ServerConfig>) -> io::Result<Self> {
        Ok(Self { socket: TcpListener::bind(address).await?, tls })
    }

    /// The address that was bound.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` turns true; then refuses new connections, tells the open ones to finish (GOAWAY), lets the
    /// handler [drain](Handler::drain) and gives them `grace`.
    pub async fn serve(self, handler: Arc<dyn Handler>, mut stop: watch::Receiver<bool>, grace: Duration) {
        let acceptor = TlsAcceptor::from(self.tls.clone());
        let graceful = Arc::new(GracefulShutdown::new());
        let mut server = auto::Builder::new(TokioExecutor::new());
        // No `pipeline_flush`: it would keep back the 400 or 431 of a request that cannot be parsed.
        server.http1().timer(TokioTimer::new()).header_read_timeout(IDLE);
        server
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .adaptive_window(false)
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(256 * 1024 * 4)
            .max_header_list_size(1 << 20)
            .max_send_buf_size(512 * 1024)
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(20));
        let server = Arc::new(server);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    tokio::spawn(connection(
                        stream,
                        address,
                        acceptor.clone(),
                        server.clone(),
                        graceful.watcher(),
                        handler.clone(),
                    ));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: the ones that are open will be closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.socket);
        if let Some(graceful) = Arc::into_inner(graceful) {
            // Whose watch ends shall find neither this connection nor another one to the same server open.
            let mut shutdown = std::pin::pin!(graceful.shutdown());
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = std::future::ready(()) => handler.drain(),
            }
            let _ = tokio::time::timeout(grace, shutdown).await;
        }
    }
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    server: Arc<auto::Builder<TokioExecutor>>,
    watcher: hyper_util::server::graceful::Watcher,
    handler: Arc<dyn Handler>,
) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    let certificates: Arc<[CertificateDer<'static>]> = stream
        .get_ref()
        .1
        .peer_certificates()
        .map(|c| c.iter().map(|c| c.clone().into_owned()).collect())
        .unwrap_or_default();
    let peer = Peer { address: Some(address), certificates };
    let service = service_fn(move |request| {
        let answer = handler.clone().handle(peer.clone(), request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%address, %error, "connection ended");
    }
}
