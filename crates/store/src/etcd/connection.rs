//! A connection with a member of etcd over HTTP/2. It is made when it is first needed, and again when it has ended.
//!
//! Calls go from their own task to the connection, and responses go back. The data that several calls send at the same
//! time is written at once.

use pintle_locks::Mutex;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason, SendStream};
use http::uri::Scheme;
use http::{Request, Uri};
use pintle_gathered_writes::{GatheredWrites, OpenRequests};
use pintle_outbound::{DialAddress, Dialer, HttpConnectProxy};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long connecting to a member may take, including the TLS handshake. Calls that are not sent by then go to another
/// member.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How many bytes of a response may be on their way. Pages and histories are large.
const STREAM_WINDOW: u32 = 2 << 20;
/// How often a ping checks whether the other end of a connection still answers, and how long the answer may take.
/// (Upstream: `keepaliveTime`, `keepaliveTimeout`.) etcd refuses pings on connections without calls, but the probe of
/// the health calls more often.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// The error of a connection that takes too long.
const NOT_IN_TIME: &str = "no connection was accepted in time";

/// Why a request got no response.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    /// The member has not received the request, so it has not executed it.
    #[error("{0}")]
    NotSent(String),
    /// The connection or the call failed after the request may have been sent.
    #[error("{0}")]
    Lost(String),
}

impl ConnectionError {
    /// The error of a request without a response.
    pub(super) fn of_request(error: &h2::Error) -> Self {
        match error.reason() {
            // The other end says that it has not processed the stream (RFC 9113, section 8.7).
            Some(Reason::REFUSED_STREAM) => Self::NotSent(error.to_string()),
            // The other end names the last stream that it processes when it goes away (section 6.8). h2 returns this
            // error only for later streams.
            _ if error.is_go_away() && error.is_remote() => Self::NotSent(error.to_string()),
            _ => Self::Lost(error.to_string()),
        }
    }

    /// The error of a response that has begun.
    pub(super) fn of_response(error: &h2::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

/// A connection with a member. Clones share it.
#[derive(Clone)]
pub(super) struct MemberConnection {
    /// The scheme and the authority of its URL.
    origin: Uri,
    shared: Arc<SharedConnection>,
}

type Connecting = Shared<BoxFuture<'static, Result<OpenConnection, ConnectionError>>>;

struct SharedConnection {
    target: Target,
    /// The attempt to connect that is in progress, or the last attempt. All callers wait for the same attempt.
    current: Mutex<Option<Connecting>>,
}

/// A connection that has been made. It may have ended meanwhile.
#[derive(Clone)]
pub(super) struct OpenConnection {
    sender: SendRequest<Bytes>,
    calls: OpenCalls,
}

/// The number of calls with one message each way that have no response yet on a connection.
#[derive(Clone, Debug, Default)]
struct OpenCalls(Arc<AtomicUsize>);

impl OpenRequests for OpenCalls {
    fn open_requests(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A call that is counted until it is dropped.
#[derive(Debug)]
pub(super) struct OpenCallGuard(OpenCalls);

impl OpenCallGuard {
    fn begin(calls: OpenCalls) -> Self {
        calls.0.fetch_add(1, Ordering::Relaxed);
        Self(calls)
    }
}

impl Drop for OpenCallGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The address of a member.
#[derive(Clone)]
struct Target {
    host: String,
    port: u16,
    dialer: Dialer,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

impl fmt::Debug for MemberConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberConnection").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl MemberConnection {
    /// A connection with the member at a URL, opened by a dialer. `tls` makes the TLS configuration for a URL with the
    /// scheme `https`.
    ///
    /// # Errors
    /// The URL is not valid, or `tls` returns an error.
    pub(super) fn new(
        url: &Uri,
        dialer: Dialer,
        tls: impl FnOnce() -> Result<rustls::ClientConfig, String>,
    ) -> Result<Self, String> {
        let is_tls = match url.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("only URLs with the schemes http and https are supported".to_owned()),
        };
        let authority = url.authority().ok_or("the URL has no host")?;
        let host = authority.host();
        // A URL has brackets around an IPv6 address.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tls = match is_tls {
            true => {
                let mut config = tls()?;
                config.alpn_protocols = vec![b"h2".to_vec()];
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                Some((Arc::new(config), name))
            }
            false => None,
        };
        // A path in this URL would come before the methods' paths.
        let scheme = if is_tls { Scheme::HTTPS } else { Scheme::HTTP };
        let origin = Uri::builder().scheme(scheme).authority(authority.clone()).path_and_query("/").build();
        let origin = origin.map_err(|error| error.to_string())?;
        let shared = SharedConnection { target: Target { host, port, dialer, tls }, current: Mutex::default() };
        Ok(Self { origin, shared: Arc::new(shared) })
    }

    /// The URL of the member, without a path.
    pub(super) fn origin(&self) -> &Uri {
        &self.origin
    }

    /// The open connection, or a new one.
    ///
    /// # Errors
    /// [`ConnectionError::NotSent`].
    pub(super) async fn open(&self) -> Result<OpenConnection, ConnectionError> {
        loop {
            let (connecting, is_new) = self.shared.connecting();
            let OpenConnection { sender, calls } = connecting.clone().await?;
            match sender.ready().await {
                Ok(sender) => return Ok(OpenConnection { sender, calls }),
                Err(error) if is_new => return Err(ConnectionError::NotSent(error.to_string())),
                // The connection has ended meanwhile. A new one is made, unless another caller has begun to make one.
                Err(_) => self.shared.forget(&connecting),
            }
        }
    }
}

impl OpenConnection {
    /// Counts a call with one message each way until it has ended.
    pub(super) fn begin_call(&self) -> OpenCallGuard {
        OpenCallGuard::begin(self.calls.clone())
    }

    /// Begins a request. The caller sends the body and waits for the response.
    ///
    /// # Errors
    /// [`ConnectionError::NotSent`].
    pub(super) fn send(mut self, head: Request<()>) -> Result<SentRequest, ConnectionError> {
        let sent = self.sender.send_request(head, false);
        let (response, body) = sent.map_err(|error| ConnectionError::NotSent(error.to_string()))?;
        Ok(SentRequest { body, response })
    }
}

/// A request that has begun.
#[derive(Debug)]
pub(super) struct SentRequest {
    pub(super) body: SendStream<Bytes>,
    pub(super) response: ResponseFuture,
}

impl SharedConnection {
    /// The attempt to connect that is in progress or has succeeded, or else a new attempt. The flag tells whether the
    /// attempt is new.
    fn connecting(&self) -> (Connecting, bool) {
        let mut current = self.current.lock();
        match &*current {
            Some(connecting) if !matches!(connecting.peek(), Some(Err(_))) => (connecting.clone(), false),
            _ => {
                // The connection is made in its own task, so that it goes on if nobody waits for it any more.
                let connecting = tokio::spawn(connect(self.target.clone()));
                let connecting = connecting
                    .map(|ended| ended.unwrap_or_else(|error| Err(ConnectionError::NotSent(error.to_string()))))
                    .boxed()
                    .shared();
                *current = Some(connecting.clone());
                (connecting, true)
            }
        }
    }

    /// Forgets a connection that has ended.
    fn forget(&self, ended: &Connecting) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|current| current.ptr_eq(ended)) {
            *current = None;
        }
    }
}

/// Connects within [`CONNECT_TIMEOUT`].
async fn connect(target: Target) -> Result<OpenConnection, ConnectionError> {
    let opened = match &target.dialer {
        Dialer::Direct => connect_directly(&target).await,
        Dialer::HttpConnect(proxy) => connect_through(proxy, &target).await,
    };
    let Target { host, port, .. } = &target;
    opened.map_err(|error| ConnectionError::NotSent(format!("failed to connect to {host}:{port}: {error}")))
}

/// Connects to an address of the member's name. Each address gets a share of the time.
async fn connect_directly(target: &Target) -> Result<OpenConnection, String> {
    let found = timeout(CONNECT_TIMEOUT, lookup_host((target.host.as_str(), target.port))).await;
    let found = found.map_err(|_| "the name was not resolved in time")?;
    let addresses: Vec<SocketAddr> = found.map_err(|error| error.to_string())?.collect();
    let share = CONNECT_TIMEOUT / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last_error = "the name has no address".to_owned();
    for address in addresses {
        match timeout(share, open(address, target)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => last_error = error,
            Err(_) => last_error = NOT_IN_TIME.to_owned(),
        }
    }
    Err(last_error)
}

/// Connects through a proxy, which resolves the name itself.
async fn connect_through(proxy: &HttpConnectProxy, target: &Target) -> Result<OpenConnection, String> {
    let address = DialAddress { host: target.host.clone(), port: target.port };
    let opening = async {
        let tunnel = proxy.dial(&address, None).await.map_err(|error| error.to_string())?;
        secure(tunnel, target).await
    };
    timeout(CONNECT_TIMEOUT, opening).await.unwrap_or_else(|_| Err(NOT_IN_TIME.to_owned()))
}

async fn open(address: SocketAddr, target: &Target) -> Result<OpenConnection, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    secure(stream, target).await
}

/// Starts HTTP/2 on a stream, inside TLS if the member has it.
async fn secure<T>(stream: T, target: &Target) -> Result<OpenConnection, String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let opened = match &target.tls {
        Some((config, name)) => {
            let connector = TlsConnector::from(config.clone());
            let stream = connector.connect(name.clone(), stream).await.map_err(|error| error.to_string())?;
            shake_hands(stream).await
        }
        None => shake_hands(stream).await,
    };
    opened.map_err(|error| error.to_string())
}

async fn shake_hands<T>(stream: T) -> Result<OpenConnection, h2::Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(2 * STREAM_WINDOW).enable_push(false);
    let calls = OpenCalls::default();
    let (sender, connection) = builder.handshake(GatheredWrites::new(stream, calls.clone(), true)).await?;
    tokio::spawn(serve(connection));
    Ok(OpenConnection { sender, calls })
}

/// Serves a connection until it ends or its other end does not answer. Then all calls in progress fail.
async fn serve<T>(mut connection: Connection<T, Bytes>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let ping_pong = connection.ping_pong();
    tokio::select! {
        // The calls in progress report why the connection has ended.
        _ = connection => {}
        () = until_silent(ping_pong) => {}
    }
}

/// Returns when a ping is not answered.
async fn until_silent(ping_pong: Option<PingPong>) {
    let Some(mut ping_pong) = ping_pong else { return std::future::pending().await };
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        if !matches!(timeout(PING_TIMEOUT, ping_pong.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn origin(url: &str) -> Result<String, String> {
        let url: Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        let no_tls = || Err("there are no certificates".to_owned());
        MemberConnection::new(&url, Dialer::Direct, no_tls).map(|connection| connection.origin().to_string())
    }

    #[test]
    fn urls_have_a_scheme_and_a_host() {
        assert_eq!(origin("http://etcd-0:2379/path"), Ok("http://etcd-0:2379/".to_owned()));
        assert_eq!(origin("http://[::1]:2379"), Ok("http://[::1]:2379/".to_owned()));
        assert_eq!(origin("https://etcd-0:2379"), Err("there are no certificates".to_owned()));
        for url in ["etcd-0:2379", "unix://etcd", "/etcd"] {
            assert_eq!(origin(url), Err("only URLs with the schemes http and https are supported".to_owned()), "{url}");
        }
    }

    #[tokio::test]
    async fn each_connection_counts_its_own_calls() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let member = tokio::spawn(async move {
            // The first connection ends at once.
            let (stream, _) = listener.accept().await.expect("a connection");
            drop(h2::server::handshake(stream).await.expect("HTTP/2"));
            let (stream, _) = listener.accept().await.expect("another connection");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            while connection.accept().await.is_some() {}
        });
        let url: Uri = format!("http://{address}").parse().expect("a URL");
        let connection = MemberConnection::new(&url, Dialer::Direct, || Err(String::new())).expect("a connection");
        let first = connection.open().await.expect("the first connection");
        let call = first.begin_call();
        let second = loop {
            match connection.open().await {
                Ok(open) if !Arc::ptr_eq(&open.calls.0, &first.calls.0) => break open,
                _ => tokio::task::yield_now().await,
            }
        };
        assert_eq!((first.calls.open_requests(), second.calls.open_requests()), (1, 0));
        drop(call);
        assert_eq!(first.calls.open_requests(), 0);
        member.abort();
    }

    #[tokio::test]
    async fn members_are_reached_through_a_proxy() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a head"));
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("a client");
            // From here on, the proxy is the member.
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            tokio::spawn(async move { while connection.accept().await.is_some() {} });
            String::from_utf8(head).expect("text")
        });
        let proxy_address = DialAddress { host: "127.0.0.1".to_owned(), port };
        let dialer = Dialer::HttpConnect(Arc::new(HttpConnectProxy::tcp(proxy_address.clone())));
        let url: Uri = "http://etcd.invalid:2379".parse().expect("a URL");
        let connection = MemberConnection::new(&url, dialer, || Err(String::new())).expect("a connection");
        let _open = connection.open().await.expect("a member");
        let head = proxy.await.expect("a tunnel");
        assert_eq!(head, "CONNECT etcd.invalid:2379 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let dialer = Dialer::HttpConnect(Arc::new(HttpConnectProxy::tcp(proxy_address.clone())));
        let connection = MemberConnection::new(&url, dialer, || Err(String::new())).expect("a connection");
        let error = connection.open().await.err().expect("the proxy has stopped").to_string();
        let cause = format!("dial tcp {proxy_address}: connect: connection refused");
        assert_eq!(error, format!("failed to connect to etcd.invalid:2379: {cause}"));
    }

    #[tokio::test]
    async fn who_cannot_connect_has_sent_nothing() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let url: Uri = format!("http://{address}").parse().expect("a URL");
        let connection = MemberConnection::new(&url, Dialer::Direct, || Err(String::new())).expect("a connection");
        for _ in 0..2 {
            let error = connection.open().await.err().expect("nobody is there");
            assert!(
                matches!(&error, ConnectionError::NotSent(text) if text.contains("failed to connect to")),
                "{error}"
            );
        }
    }
}
