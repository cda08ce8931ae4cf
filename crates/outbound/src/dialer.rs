//! How connections are opened: directly, or in a tunnel through a proxy (upstream: apiserver's
//! `pkg/server/egressselector`).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pintle_metrics::{Buckets, Counter, Histogram};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::client::DialAddress;
use crate::config::{ClientCertificate, ClientConfigError};
use crate::error::ErrorCause;
use crate::http_connect::request_tunnel;
use crate::keep_alive::enable_keep_alive;
use crate::tls::{ServerTrust, tls_client_config};

/// Maximum time to connect (Go: the dialer of `http.DefaultTransport`). It includes the time in which a proxy connects.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection is silent before the system probes it (Go: the dialer of `http.DefaultTransport`).
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(30);
/// The buckets of the duration of dials through proxies (upstream: `latencyBuckets`).
const DIAL_BUCKETS: Buckets = Buckets::seconds(&[0.005, 0.025, 0.1, 0.5, 2.5, 12.5]);

/// A stream of bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// An open connection, before TLS with its host.
pub type Transport = Box<dyn ByteStream>;

/// How a client opens connections.
#[derive(Clone, Debug, Default)]
pub enum Dialer {
    /// Connects to the host itself.
    #[default]
    Direct,
    /// Asks a proxy for a tunnel to the host.
    HttpConnect(Arc<HttpConnectProxy>),
}

impl Dialer {
    /// Opens a connection. If the caller's deadline comes before the time limit of dials, the caller reports it.
    ///
    /// # Errors
    /// The host or the proxy cannot be reached in time, or the proxy refuses the tunnel.
    pub(crate) async fn dial(&self, address: &DialAddress, deadline: Option<Instant>) -> Result<Transport, ErrorCause> {
        match self {
            Self::Direct => {
                let connected = within(DIAL_TIMEOUT, deadline, connect_tcp(address)).await;
                let tcp = connected.unwrap_or_else(|| Err(ErrorCause::DialTimeout { address: address.to_string() }))?;
                Ok(Box::new(tcp))
            }
            Self::HttpConnect(proxy) => proxy.dial(address, deadline).await,
        }
    }
}

/// A proxy that makes tunnels to hosts, with the method CONNECT of HTTP/1.1 (RFC 9110, section 9.3.6).
pub struct HttpConnectProxy {
    endpoint: ProxyEndpoint,
    metrics: DialMetrics,
}

/// Where a proxy listens.
enum ProxyEndpoint {
    Tcp(DialAddress),
    Tls { address: DialAddress, name: ServerName<'static>, tls: TlsConnector },
    Unix(PathBuf),
}

impl fmt::Debug for HttpConnectProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpConnectProxy").field(&self.address()).finish()
    }
}

impl HttpConnectProxy {
    fn new(endpoint: ProxyEndpoint) -> Self {
        Self { endpoint, metrics: DialMetrics::default() }
    }

    /// A proxy at a TCP address, without TLS.
    #[must_use]
    pub fn tcp(address: DialAddress) -> Self {
        Self::new(ProxyEndpoint::Tcp(address))
    }

    /// A proxy at a TCP address, with TLS and a client certificate. The proxy's certificate has to be valid for
    /// `server_name`, or else for the host of the address.
    ///
    /// # Errors
    /// The authorities, the client certificate or the name cannot be used.
    pub fn tls(
        address: DialAddress,
        server_name: Option<&str>,
        trust: ServerTrust<'_>,
        certificate: ClientCertificate<'_>,
    ) -> Result<Self, ClientConfigError> {
        let name = server_name.unwrap_or(&address.host);
        let name = ServerName::try_from(name.to_owned());
        let name = name.map_err(|_| ClientConfigError::ServerName(server_name.unwrap_or(&address.host).to_owned()))?;
        let tls = TlsConnector::from(Arc::new(tls_client_config(trust, Some(certificate))?));
        Ok(Self::new(ProxyEndpoint::Tls { address, name, tls }))
    }

    /// A proxy at a Unix socket.
    #[must_use]
    pub fn unix(path: PathBuf) -> Self {
        Self::new(ProxyEndpoint::Unix(path))
    }

    /// How the proxy is reached, as metrics show it: `tcp` or `uds`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self.endpoint {
            ProxyEndpoint::Tcp(_) | ProxyEndpoint::Tls { .. } => "tcp",
            ProxyEndpoint::Unix(_) => "uds",
        }
    }

    /// The metrics of dials through the proxy.
    #[must_use]
    pub fn metrics(&self) -> &DialMetrics {
        &self.metrics
    }

    /// Opens a tunnel to a host, whose name the proxy resolves. If the caller's deadline comes before the time limit of
    /// dials, the caller reports it.
    ///
    /// # Errors
    /// The proxy cannot be reached, is not trusted, refuses the tunnel, or takes too long.
    pub async fn dial(&self, address: &DialAddress, deadline: Option<Instant>) -> Result<Transport, ErrorCause> {
        let started = Instant::now();
        self.metrics.starts.inc();
        let mut failure = FailureGuard(Some(&self.metrics.connect_failures));
        let connected = within(DIAL_TIMEOUT, deadline, self.connect()).await;
        let stream = connected.unwrap_or_else(|| Err(ErrorCause::DialTimeout { address: self.address() }))?;
        failure.0 = Some(&self.metrics.proxy_failures);
        let left = DIAL_TIMEOUT.saturating_sub(started.elapsed());
        let answered = within(left, deadline, request_tunnel(stream, address, &self.address())).await;
        let tunnel = answered.unwrap_or_else(|| Err(ErrorCause::DialTimeout { address: address.to_string() }))?;
        failure.0 = None;
        self.metrics.durations.observe(started.elapsed());
        Ok(tunnel)
    }

    /// Connects to the proxy.
    async fn connect(&self) -> Result<Transport, ErrorCause> {
        match &self.endpoint {
            ProxyEndpoint::Tcp(address) => Ok(Box::new(connect_tcp(address).await?)),
            ProxyEndpoint::Tls { address, name, tls } => {
                let tcp = connect_tcp(address).await?;
                Ok(Box::new(tls.connect(name.clone(), tcp).await.map_err(ErrorCause::Tls)?))
            }
            ProxyEndpoint::Unix(path) => {
                let dialed = |error| ErrorCause::Dial { network: "unix", address: self.address(), error };
                Ok(Box::new(UnixStream::connect(path).await.map_err(dialed)?))
            }
        }
    }

    /// The address of the proxy in errors.
    fn address(&self) -> String {
        match &self.endpoint {
            ProxyEndpoint::Tcp(address) | ProxyEndpoint::Tls { address, .. } => address.to_string(),
            ProxyEndpoint::Unix(path) => path.display().to_string(),
        }
    }
}

/// The metrics of dials through a proxy.
#[derive(Debug)]
pub struct DialMetrics {
    /// The dials that have started.
    pub starts: Counter,
    /// The dials that have not reached the proxy.
    pub connect_failures: Counter,
    /// The dials for which the proxy has made no tunnel.
    pub proxy_failures: Counter,
    /// The durations of successful dials.
    pub durations: Histogram,
}

impl DialMetrics {
    /// The buckets of the durations.
    pub const BUCKETS: Buckets = DIAL_BUCKETS;
}

impl Default for DialMetrics {
    fn default() -> Self {
        Self {
            starts: Counter::default(),
            connect_failures: Counter::default(),
            proxy_failures: Counter::default(),
            durations: Histogram::new(DIAL_BUCKETS),
        }
    }
}

/// Counts a failure when it is dropped, unless it is disarmed. A cancelled dial counts as failed.
struct FailureGuard<'a>(Option<&'a Counter>);

impl Drop for FailureGuard<'_> {
    fn drop(&mut self) {
        if let Some(counter) = self.0 {
            counter.inc();
        }
    }
}

/// Connects to a TCP address.
async fn connect_tcp(address: &DialAddress) -> Result<TcpStream, ErrorCause> {
    let connected = TcpStream::connect((address.host.as_str(), address.port)).await;
    let dialed = |error| ErrorCause::Dial { network: "tcp", address: address.to_string(), error };
    let tcp = connected.map_err(dialed)?;
    // A small request is a single write, which must not wait for an acknowledgement.
    let _ = tcp.set_nodelay(true);
    // A connection without keep-alive works, too.
    let _ = enable_keep_alive(&tcp, KEEP_ALIVE_IDLE);
    Ok(tcp)
}

/// The output of a future, unless it takes too long. If the deadline comes first, the caller reports it.
pub(crate) async fn within<T>(
    limit: Duration,
    deadline: Option<Instant>,
    future: impl Future<Output = T>,
) -> Option<T> {
    if deadline.is_some_and(|deadline| deadline <= Instant::now() + limit) {
        return Some(future.await);
    }
    timeout(limit, future).await.ok()
}
