//! HTTP/1.1 connections, and the exchange of one request and its response on one of them.

use std::io;
use std::sync::Arc;

use http::Uri;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use crate::client::DialAddress;
use crate::error::ErrorCause;
use crate::pool::ConnectionPool;
use crate::request_body::{RequestBody, RequestProgress};

/// The scheme, host and port of a URI.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// True for `https`.
    pub(crate) is_https: bool,
    /// The host, without brackets.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
}

impl Origin {
    /// The origin of a URI.
    ///
    /// # Errors
    /// The scheme is neither `http` nor `https`, or there is no host.
    pub(crate) fn of(uri: &Uri) -> Result<Self, ErrorCause> {
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            other => return Err(ErrorCause::UnsupportedScheme(other.unwrap_or_default().to_owned())),
        };
        let host = uri.host().ok_or(ErrorCause::MissingHost)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        Ok(Self { is_https, host, port })
    }
}

impl PartialEq for Origin {
    /// Host names are not case-sensitive.
    fn eq(&self, other: &Self) -> bool {
        self.is_https == other.is_https && self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

/// What a connection is made to. A pooled connection serves every request with the same target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionTarget {
    host: String,
    port: u16,
    /// The name that the server's certificate has to be valid for.
    tls_name: String,
    is_https: bool,
}

impl ConnectionTarget {
    /// The target of requests to an origin. A dial address replaces the host and port, not the name in the certificate.
    pub(crate) fn new(origin: Origin, dial_address: Option<&DialAddress>) -> Self {
        let Origin { is_https, host: tls_name, port } = origin;
        let (host, port) = match dial_address {
            Some(address) => (address.host.clone(), address.port),
            None => (tls_name.clone(), port),
        };
        Self { host, port, tls_name, is_https }
    }

    /// The host and port, with brackets around an IPv6 address.
    fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// An open connection. Dropping it lets hyper close it properly once nothing is in flight.
pub(crate) struct Connection {
    pub(crate) target: ConnectionTarget,
    pub(crate) sender: SendRequest<RequestBody>,
    task: AbortHandle,
}

impl Connection {
    /// Opens a connection.
    ///
    /// # Errors
    /// The server cannot be reached or is not trusted.
    pub(crate) async fn open(target: ConnectionTarget, tls: &TlsConnector) -> Result<Self, ErrorCause> {
        let tcp = TcpStream::connect((target.host.as_str(), target.port)).await;
        let tcp = tcp.map_err(|error| ErrorCause::Dial { address: target.address(), error })?;
        // A small request is one write, which must not wait for an acknowledgement.
        let _ = tcp.set_nodelay(true);
        if !target.is_https {
            return Self::handshake(target, tcp).await;
        }
        let name = ServerName::try_from(target.tls_name.clone()).map_err(|_| ErrorCause::MissingHost)?;
        let stream = tls.connect(name, tcp).await.map_err(ErrorCause::Tls)?;
        Self::handshake(target, stream).await
    }

    async fn handshake<S>(target: ConnectionTarget, stream: S) -> Result<Self, ErrorCause>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(ErrorCause::Http)?;
        // An error of the connection also fails its request or response body, which report it.
        let task = tokio::spawn(connection.with_upgrades()).abort_handle();
        Ok(Self { target, sender, task })
    }

    /// Closes the connection at once, whatever is in flight.
    pub(crate) fn abort(self) {
        self.task.abort();
    }
}

/// A connection with a request in flight. Dropping it closes the connection, so that a cancelled request stops at the
/// server too.
pub(crate) struct Exchange {
    /// `None` after the exchange.
    connection: Option<Connection>,
    pool: ConnectionPool,
    /// How far the request body was sent.
    progress: Arc<RequestProgress>,
}

impl Exchange {
    pub(crate) fn new(connection: Connection, pool: ConnectionPool, progress: Arc<RequestProgress>) -> Self {
        Self { connection: Some(connection), pool, progress }
    }

    /// Ends the exchange after the whole response was read. The connection returns to the pool if the request was sent
    /// completely; otherwise it is closed, as it cannot take another request.
    pub(crate) fn finish(mut self) {
        if self.progress.is_finished()
            && let Some(connection) = self.connection.take()
        {
            self.pool.put(connection);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.abort();
        }
    }
}

/// The network error behind an error of hyper.
pub(crate) fn network_error(error: &hyper::Error) -> Option<&io::Error> {
    std::error::Error::source(error).and_then(|source| source.downcast_ref())
}
