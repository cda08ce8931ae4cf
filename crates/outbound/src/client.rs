//! The client: bounded calls, streamed requests and upgrades over one pool of connections.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::uri::Scheme;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::attempt::{Attempt, Responding, http2_retry_delay, send_http1, send_http2, to_http1};
use crate::config::{ClientConfig, ClientConfigError, Protocols, RequestCredentials};
use crate::connection::{ConnectionTarget, Connector, Http1Connection, NewConnection, Origin};
use crate::error::{ErrorCause, RequestError};
use crate::exchange::Exchange;
use crate::http2::StreamPermit;
use crate::idle_timer::IdleTimer;
use crate::pool::{ConnectionPool, Pooled};
use crate::request_body::{BoxError, RequestBody};
use crate::response_body::ResponseBody;
use crate::tls::{self, HTTP1_PROTOCOL, HTTP2_PROTOCOL};
use crate::upgrade::{UpgradeResponse, UpgradedStream};

/// The limits of a bounded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum time from the start of the call to the end of the response.
    pub timeout: Duration,
    /// The maximum number of bytes of the response body that are read.
    pub max_body_bytes: usize,
}

/// The body of a bounded call's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedBody {
    /// The bytes, up to the limit.
    pub bytes: Bytes,
    /// True if the body was longer than the limit.
    pub truncated: bool,
}

/// An address to connect to instead of the host in the URI, such as an endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialAddress {
    /// The host name or IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for DialAddress {
    /// The host and port, with brackets around an IPv6 address (Go: `net.JoinHostPort`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The options of a streamed request or an upgrade. By default, only the time to connect is limited.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamOptions<'a> {
    /// Where to connect to; the host in the URI by default. The server's certificate must always be valid for the host
    /// in the URI.
    pub dial_address: Option<&'a DialAddress>,
    /// Maximum time until the response head has arrived. It includes the time to connect, and the time to send the part
    /// of the request body that the server reads before it responds. Connecting takes at most 30 s, and the TLS
    /// handshake at most 10 s.
    pub head_timeout: Option<Duration>,
    /// Maximum time in which nothing arrives while the client waits and no frame of the request body is sent.
    /// Connecting counts as one wait.
    pub idle_timeout: Option<Duration>,
    /// Maximum size of the response body. A longer body ends with an error after that many bytes.
    pub max_body_bytes: Option<u64>,
}

/// An HTTP client, with or without TLS. It keeps connections: idle HTTP/1.1 connections are reused, HTTP/2 connections
/// are shared. All of them are opened by the client's dialer. It never follows redirects. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    connector: Connector,
    /// A connector that offers only HTTP/1.1.
    http1_connector: Connector,
    pool: ConnectionPool,
    credentials: Option<Arc<RequestCredentials>>,
}

impl Client {
    /// A client with a configuration.
    ///
    /// # Errors
    /// The certificates cannot be used, or the credentials cannot be sent safely.
    pub fn new(config: &ClientConfig<'_>) -> Result<Self, ClientConfigError> {
        let credentials = config.credentials.as_ref();
        let tls = tls::tls_client_config(config.server_trust, credentials.and_then(|it| it.client_certificate))?;
        let credentials = credentials.map(|it| RequestCredentials::new(it, config.server_trust)).transpose()?;
        let credentials = credentials.map(Arc::new);
        let connector = |health_check, protocols: &[&[u8]]| {
            let tls = TlsConnector::from(tls::with_protocols(&tls, protocols));
            Connector { dialer: config.dialer.clone(), tls, health_check }
        };
        let http1_connector = connector(None, &[HTTP1_PROTOCOL]);
        let connector = match config.protocols {
            Protocols::Http1 => http1_connector.clone(),
            Protocols::Http2(check) => connector(Some(check), &[HTTP2_PROTOCOL, HTTP1_PROTOCOL]),
        };
        Ok(Self { connector, http1_connector, pool: ConnectionPool::default(), credentials })
    }

    /// Sends a request and reads the whole response, up to a limit. A request that fails on a reused HTTP/1.1
    /// connection is sent again on another connection, so the server may receive it twice. On HTTP/2, only requests
    /// that the server has not processed are sent again. A timed-out call is cancelled at the server.
    ///
    /// # Errors
    /// The server cannot be reached, is not trusted, does not speak HTTP, or takes too long.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        limits: CallLimits,
    ) -> Result<Response<BoundedBody>, RequestError> {
        self.send_to(None, request, limits).await
    }

    /// Like [`Client::send`], but connects to a given address. The server's certificate must still be valid for the
    /// host in the URI.
    ///
    /// # Errors
    /// Like [`Client::send`].
    pub async fn send_to(
        &self,
        dial_address: Option<&DialAddress>,
        request: Request<Bytes>,
        limits: CallLimits,
    ) -> Result<Response<BoundedBody>, RequestError> {
        let deadline = Instant::now() + limits.timeout;
        let outgoing = OutgoingRequest {
            request: request.map(RequestBody::full),
            is_replayable: true,
            new_connection: false,
            dial_address,
            deadline: Some(deadline),
            idle_timeout: None,
        };
        let (response, exchange) = self.start(outgoing).await?;
        let (head, mut body) = response.into_response(exchange, Some(limits.max_body_bytes as u64)).into_parts();
        let collected = timeout_at(deadline, collect(&mut body)).await;
        let collected = collected.unwrap_or_else(|_| Err(body.error(ErrorCause::BodyTimeout)))?;
        Ok(Response::from_parts(head, collected))
    }

    /// Sends a request whose body is a stream, and returns the response with its body as a stream. A slow reader slows
    /// the sender down. For each body, one frame and hyper's buffer are in memory: about 400 KiB, or 4 MiB on HTTP/2.
    /// The response may arrive before the request body was sent. Dropping the future or the response body cancels the
    /// request.
    ///
    /// # Errors
    /// The server cannot be reached, is not trusted, does not speak HTTP, or takes too long; or the request body fails.
    pub async fn stream<B>(
        &self,
        request: Request<B>,
        options: StreamOptions<'_>,
    ) -> Result<Response<ResponseBody>, RequestError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let outgoing = OutgoingRequest::streamed(request.map(RequestBody::stream), options);
        let (response, exchange) = self.start(outgoing).await?;
        Ok(response.into_response(exchange, options.max_body_bytes))
    }

    /// Sends a request for an upgrade, whose headers `Connection` and `Upgrade` the caller has set, on a connection of
    /// its own. The limits do not apply after the upgrade. The upgraded connection begins when the request body was
    /// sent.
    ///
    /// # Errors
    /// Like [`Client::stream`].
    pub async fn upgrade<B>(
        &self,
        request: Request<B>,
        options: StreamOptions<'_>,
    ) -> Result<UpgradeResponse, RequestError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let request = request.map(RequestBody::stream);
        let outgoing = OutgoingRequest { new_connection: true, ..OutgoingRequest::streamed(request, options) };
        let deadline = outgoing.deadline;
        let (mut response, exchange) = self.start(outgoing).await?;
        if response.response.status() != StatusCode::SWITCHING_PROTOCOLS {
            // An idle HTTP/1.1 connection would attract the next requests, which may be sent over HTTP/2.
            let is_https = response.uri.scheme() == Some(&Scheme::HTTPS);
            let exchange = if is_https && self.connector.health_check.is_some() { exchange.only() } else { exchange };
            let response = response.into_response(exchange, options.max_body_bytes);
            return Ok(UpgradeResponse::NotUpgraded(Box::new(response)));
        }
        let upgraded = until(deadline, hyper::upgrade::on(&mut response.response)).await;
        let upgraded = upgraded.and_then(|upgraded| upgraded.map_err(ErrorCause::Http));
        let upgraded = upgraded.map_err(|cause| response.error(cause))?;
        Ok(UpgradeResponse::Upgraded(response.response.map(|_| UpgradedStream::new(upgraded))))
    }

    /// Sends a request, and returns when the response head has arrived.
    async fn start(&self, mut outgoing: OutgoingRequest<'_>) -> Result<(IncomingResponse, Exchange), RequestError> {
        let (method, uri) = (outgoing.request.method().clone(), outgoing.request.uri().clone());
        let started = match self.prepare(&mut outgoing, &uri) {
            Ok(target) => {
                let deadline = outgoing.deadline;
                // The future is boxed, because it is large, and part of the futures of all requests that may need a
                // call.
                until(deadline, Box::pin(self.exchange(outgoing, target))).await.flatten()
            }
            Err(cause) => Err(cause),
        };
        match started {
            Ok(Responding { response, exchange, idle_timer }) => {
                Ok((IncomingResponse { response, idle_timer, method, uri }, exchange))
            }
            Err(cause) => Err(RequestError { method, uri, cause }),
        }
    }

    /// Adds the client's credentials and the `Host` header to a request, and gives it the form of HTTP/1.1. Returns the
    /// target of the connection.
    fn prepare(&self, outgoing: &mut OutgoingRequest<'_>, uri: &Uri) -> Result<ConnectionTarget, ErrorCause> {
        let origin = Origin::of(uri)?;
        let request = &mut outgoing.request;
        if let Some(credentials) = &self.credentials {
            if credentials.origin != origin {
                return Err(ErrorCause::ForeignOrigin);
            }
            if let Some(authorization) = &credentials.authorization {
                // A header of the request has precedence (client-go: `bearerAuthRoundTripper`).
                request.headers_mut().entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
            }
        }
        if !request.headers().contains_key(HOST) {
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            let host = HeaderValue::from_str(authority).map_err(|_| ErrorCause::MissingHost)?;
            request.headers_mut().insert(HOST, host);
        }
        to_http1(request)?;
        Ok(ConnectionTarget::new(origin, outgoing.dial_address))
    }

    /// Sends a request on a connection of the pool or on a new connection. Sends it again on another connection if the
    /// server has not processed it or may receive it twice. Returns when the response head has arrived.
    async fn exchange(
        &self,
        outgoing: OutgoingRequest<'_>,
        target: ConnectionTarget,
    ) -> Result<Responding, ErrorCause> {
        let OutgoingRequest { mut request, is_replayable, new_connection, idle_timeout, deadline, .. } = outgoing;
        let mut http2_retries = 0;
        loop {
            let attempt = match self.connect(&target, new_connection, deadline, idle_timeout).await? {
                ReadyConnection::Http1 { connection, is_reused } => {
                    let may_replay = is_reused && is_replayable;
                    send_http1(connection, &self.pool, request, idle_timeout, is_reused, may_replay).await?
                }
                ReadyConnection::Http2(permit) => send_http2(permit, &self.pool, request, idle_timeout).await?,
            };
            request = match attempt {
                Attempt::Responding(responding) => return Ok(responding),
                Attempt::Unsent(request) => request,
                Attempt::Unprocessed { request, cause } => {
                    let Some(delay) = http2_retry_delay(http2_retries) else { return Err(cause) };
                    http2_retries += 1;
                    sleep(delay).await;
                    request
                }
            };
        }
    }

    /// A connection that takes a request now. Upgrades need an HTTP/1.1 connection of their own.
    async fn connect(
        &self,
        target: &ConnectionTarget,
        is_upgrade: bool,
        deadline: Option<Instant>,
        idle_timeout: Option<Duration>,
    ) -> Result<ReadyConnection, ErrorCause> {
        let connecting = async {
            if is_upgrade {
                let opening = self.http1_connector.open(target.clone(), deadline);
                let NewConnection::Http1(connection) = Box::pin(opening).await? else {
                    return Err(ErrorCause::UnexpectedProtocol);
                };
                return Ok(ReadyConnection::Http1 { connection, is_reused: false });
            }
            let offers_http2 = target.is_https() && self.connector.health_check.is_some();
            // The handshake needs much memory, and most requests need no handshake.
            let dial = match self.pool.take(target, offers_http2).await {
                Pooled::Http1(connection) => return Ok(ReadyConnection::Http1 { connection, is_reused: true }),
                Pooled::Http2(permit) => return Ok(ReadyConnection::Http2(permit)),
                Pooled::Nothing(dial) => dial,
            };
            match Box::pin(self.connector.open(target.clone(), deadline)).await? {
                NewConnection::Http1(connection) => {
                    dial.end_with_http1();
                    Ok(ReadyConnection::Http1 { connection, is_reused: false })
                }
                NewConnection::Http2(connection) => {
                    let permit = dial.end_with_http2(connection).ok_or(ErrorCause::Http2NotEstablished)?;
                    Ok(ReadyConnection::Http2(permit))
                }
            }
        };
        match idle_timeout {
            Some(limit) => timeout(limit, connecting).await.map_err(|_| ErrorCause::HeadIdleTimeout)?,
            None => connecting.await,
        }
    }
}

/// A connection for one request.
enum ReadyConnection {
    Http1 {
        connection: Http1Connection,
        /// True if the connection is reused. The server may have closed it.
        is_reused: bool,
    },
    Http2(Arc<StreamPermit>),
}

/// A request before it is sent.
struct OutgoingRequest<'a> {
    request: Request<RequestBody>,
    /// True if the server may receive the request twice.
    is_replayable: bool,
    /// True if the request must not use an idle connection.
    new_connection: bool,
    dial_address: Option<&'a DialAddress>,
    /// The deadline for the response head.
    deadline: Option<Instant>,
    idle_timeout: Option<Duration>,
}

impl<'a> OutgoingRequest<'a> {
    fn streamed(request: Request<RequestBody>, options: StreamOptions<'a>) -> Self {
        Self {
            // Go: `Request.isReplayable`.
            is_replayable: matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE),
            request,
            new_connection: false,
            dial_address: options.dial_address,
            deadline: options.head_timeout.map(|timeout| Instant::now() + timeout),
            idle_timeout: options.idle_timeout,
        }
    }
}

/// A response whose head has arrived, and the data for its body and its errors.
struct IncomingResponse {
    response: Response<Incoming>,
    idle_timer: Option<IdleTimer>,
    method: Method,
    uri: Uri,
}

impl IncomingResponse {
    fn into_response(self, exchange: Exchange, limit: Option<u64>) -> Response<ResponseBody> {
        let Self { response, idle_timer, method, uri } = self;
        response.map(|incoming| ResponseBody::new(incoming, exchange, idle_timer, limit, (method, uri)))
    }

    fn error(&self, cause: ErrorCause) -> RequestError {
        RequestError { method: self.method.clone(), uri: self.uri.clone(), cause }
    }
}

/// The output of a future that waits for a response head.
async fn until<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Result<T, ErrorCause> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future).await.map_err(|_| ErrorCause::HeadTimeout),
        None => Ok(future.await),
    }
}

/// Reads a body up to its limit.
async fn collect(body: &mut ResponseBody) -> Result<BoundedBody, RequestError> {
    let mut bytes = BytesMut::new();
    let mut frames = Pin::new(body);
    while let Some(frame) = std::future::poll_fn(|cx| frames.as_mut().poll_frame(cx)).await {
        match frame {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    bytes.extend_from_slice(&data);
                }
            }
            Err(error) if matches!(error.cause, ErrorCause::BodyTooLarge) => {
                return Ok(BoundedBody { bytes: bytes.freeze(), truncated: true });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(BoundedBody { bytes: bytes.freeze(), truncated: false })
}
