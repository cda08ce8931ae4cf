//! The listener: accepts connections, does the TLS handshake, serves HTTP/1.1 or HTTP/2, and drains on shutdown.

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
use pintle_registry::BoxFuture;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Response;
use super::lingering_close::LingeringClose;

/// Time limit for the TLS handshake.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the next request's head on an idle HTTP/1.1 connection. It is the idle timeout of kube-apiserver and
/// of Go's clients; a shorter one would close connections on which a client has just sent a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of concurrent streams on one HTTP/2 connection (kube-apiserver: 100, Go's default: 250).
const MAX_CONCURRENT_STREAMS: u32 = 250;

/// The client's end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The client's address.
    pub address: Option<SocketAddr>,
    /// The client's certificate chain, leaf first, not yet verified.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// Handles requests.
pub trait Handler: Send + Sync + 'static {
    /// Handles one request.
    fn handle(self: Arc<Self>, peer: Peer, request: http::Request<Incoming>) -> BoxFuture<'static, Response>;

    /// Called when the listener is closed and connections were asked to finish. Ends long-running responses such as
    /// watches.
    fn drain(&self);
}

/// A bound socket with its TLS configuration.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Arc<rustls::ServerConfig>,
}

impl Listener {
    /// Binds an address; port 0 selects a free port.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn bind(address: SocketAddr, tls: Arc<rustls::ServerConfig>) -> io::Result<Self> {
        Ok(Self { socket: TcpListener::bind(address).await?, tls })
    }

    /// The bound address.
    ///
    /// # Errors
    /// Returns an error if the system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` becomes true. Then refuses new connections, asks open ones to finish (GOAWAY), calls
    /// [`Handler::drain`], and waits up to `grace`.
    pub async fn serve(self, handler: Arc<dyn Handler>, mut stop: watch::Receiver<bool>, grace: Duration) {
        let acceptor = TlsAcceptor::from(self.tls.clone());
        let graceful = Arc::new(GracefulShutdown::new());
        let mut server = auto::Builder::new(TokioExecutor::new());
        // No `pipeline_flush`: it would withhold the 400 or 431 response to a request that cannot be parsed.
        server.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
        server
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
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
                    tokio::spawn(serve_connection(
                        stream,
                        address,
                        acceptor.clone(),
                        server.clone(),
                        graceful.watcher(),
                        handler.clone(),
                    ));
                }
                Err(error) => {
                    // Usually the process is out of file descriptors; open connections will release theirs.
                    tracing::warn!(%error, "Failed to accept a connection, will retry");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.socket);
        if let Some(graceful) = Arc::into_inner(graceful) {
            // Connections are told to finish before watches end, so that clients do not reconnect on the same
            // connection or to the same server.
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

async fn serve_connection(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    server: Arc<auto::Builder<TokioExecutor>>,
    watcher: hyper_util::server::graceful::Watcher,
    handler: Arc<dyn Handler>,
) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(TLS_HANDSHAKE_TIMEOUT, acceptor.accept(LingeringClose::new(stream))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake error");
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
        let response = handler.clone().handle(peer.clone(), request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%address, %error, "Connection ended with an error");
    }
}
