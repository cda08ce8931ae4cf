//! The listener accepts connections, serves them, and drains them on shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use pintle_registry::BoxFuture;
use pintle_supervisor::BackgroundTask;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;

use super::accept::AcceptErrors;
use super::activity::ActivityTimeouts;
use super::connection::{ConnectionContext, ConnectionGuard, ConnectionState, serve_connection};
use super::{Response, TlsConfig};

/// The settings of a listener's connections.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// Maximum number of concurrent streams on one HTTP/2 connection (`--http2-max-streams-per-connection`).
    pub max_streams: u32,
    /// The share of HTTP/2 requests after which the client has to open another connection (`--goaway-chance`). So
    /// clients spread over the servers behind a load balancer.
    pub goaway_chance: f64,
    /// Maximum number of open connections. Further connections wait until one is closed.
    pub max_connections: usize,
    /// Time limit for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Time limit for the head of an HTTP/1.1 request.
    pub head_timeout: Duration,
    /// Time limit for a connection without requests. A timeout shorter than the idle timeout of Go's clients would
    /// close connections on which a client has just sent a request.
    pub idle_timeout: Duration,
    /// The time for which an HTTP/2 connection may be silent before it gets a ping. The client has to answer the ping
    /// within two thirds of this time.
    pub ping_interval: Duration,
    /// Time limit for a client that reads no data, after which its connection is closed. After the deadline of its
    /// request, it has the same time to read the response.
    pub write_timeout: Duration,
}

impl Default for ListenerOptions {
    /// kube-apiserver's defaults. It limits neither the number of connections nor the time of writes.
    fn default() -> Self {
        Self {
            max_streams: 100,
            goaway_chance: 0.0,
            max_connections: Semaphore::MAX_PERMITS,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(32),
            idle_timeout: Duration::from_secs(90),
            ping_interval: Duration::from_secs(30),
            write_timeout: Duration::from_secs(90),
        }
    }
}

/// The client's end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The client's address.
    pub address: Option<SocketAddr>,
    /// The client's certificate chain, leaf first, not yet verified.
    pub certificates: Arc<[CertificateDer<'static>]>,
    /// Keeps the connection counted as open, even after its protocol has changed.
    pub(crate) connection: Weak<ConnectionGuard>,
}

/// Handles requests.
pub trait Handler: Send + Sync + 'static {
    /// Handles one request.
    fn handle(self: Arc<Self>, peer: Peer, request: http::Request<Incoming>) -> BoxFuture<'static, Response>;

    /// Called when the listener is closed and connections are asked to finish. Ends long-running responses such as
    /// watches.
    fn drain(&self);

    /// Called when a TLS handshake has failed or was not completed in time.
    fn handshake_failed(&self) {}
}

/// A bound socket, and the TLS configuration of new connections.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: watch::Receiver<Arc<TlsConfig>>,
    options: ListenerOptions,
}

impl Listener {
    /// Binds an address; port 0 selects a free port.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn bind(
        address: SocketAddr,
        tls: watch::Receiver<Arc<TlsConfig>>,
        options: ListenerOptions,
    ) -> io::Result<Self> {
        Ok(Self { socket: TcpListener::bind(address).await?, tls, options })
    }

    /// The bound address.
    ///
    /// # Errors
    /// Returns an error if the system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until `stop` becomes true. Then the listener refuses new connections, asks open connections to finish
    /// (GOAWAY), and calls [`Handler::drain`]. It waits up to `grace`, and closes the remaining connections. `task`
    /// accepts connections.
    pub async fn serve(
        self,
        handler: Arc<dyn Handler>,
        task: BackgroundTask,
        stop: watch::Receiver<bool>,
        grace: Duration,
    ) {
        let state = watch::Sender::new(ConnectionState::Open);
        let connections = TaskTracker::new();
        let max_connections = self.options.max_connections.clamp(1, Semaphore::MAX_PERMITS);
        let acceptor = Arc::new(Acceptor {
            permits: Arc::new(Semaphore::new(max_connections)),
            max_connections,
            context: ConnectionContext {
                max_streams: self.options.max_streams,
                ping_interval: self.options.ping_interval,
                handler: handler.clone(),
                goaway_chance: self.options.goaway_chance,
                timeouts: ActivityTimeouts {
                    head: self.options.head_timeout,
                    idle: Some(self.options.idle_timeout),
                    response: self.options.write_timeout,
                },
                handshake_timeout: self.options.handshake_timeout,
                write_timeout: self.options.write_timeout,
                state: state.subscribe(),
            },
            socket: self.socket,
            tls: self.tls,
            connections: connections.clone(),
            task: task.clone(),
        });
        let start = || {
            let (acceptor, mut stop) = (acceptor.clone(), stop.clone());
            async move {
                tokio::select! {
                    () = acceptor.accept_all() => {}
                    _ = stop.wait_for(|stop| *stop) => {}
                }
                Ok(())
            }
        };
        task.supervise(start, || *stop.borrow()).await;
        // This closes the socket.
        drop(acceptor);
        // Connections have to finish before watches end. So clients do not reconnect over the same connection or to the
        // same server.
        state.send_replace(ConnectionState::Finishing);
        tokio::task::yield_now().await;
        handler.drain();
        connections.close();
        if tokio::time::timeout(grace, connections.wait()).await.is_err() {
            state.send_replace(ConnectionState::Closed);
            connections.wait().await;
        }
    }
}

/// Accepts connections and starts serving them.
struct Acceptor {
    socket: TcpListener,
    tls: watch::Receiver<Arc<TlsConfig>>,
    permits: Arc<Semaphore>,
    max_connections: usize,
    context: ConnectionContext,
    connections: TaskTracker,
    task: BackgroundTask,
}

impl Acceptor {
    async fn accept_all(&self) {
        let (mut was_full, mut errors) = (false, AcceptErrors::default());
        self.task.report_success();
        loop {
            let is_full = self.permits.available_permits() == 0;
            if is_full && !was_full {
                tracing::warn!(limit = self.max_connections, "Too many open connections, new ones have to wait");
            }
            was_full = is_full;
            let permit = self.permits.clone().acquire_owned().await.ok();
            let (stream, address) = errors.retry(&self.task, || self.socket.accept()).await;
            let tls = self.tls.borrow().clone();
            let context = self.context.clone();
            let guard = Arc::new(ConnectionGuard::new(permit, self.connections.token(), context.state.clone()));
            self.connections.spawn(serve_connection(stream, address, tls, context, guard));
        }
    }
}
