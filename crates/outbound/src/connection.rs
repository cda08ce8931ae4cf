//! Connections: their targets, how the client opens them, and their protocols.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::client::DialAddress;
use crate::config::Http2HealthCheck;
use crate::dialer::{Dialer, within};
use crate::error::ErrorCause;
use crate::http2::Http2Connection;
use crate::request_body::RequestBody;
use crate::tls::HTTP2_PROTOCOL;

/// Maximum time of a TLS handshake (Go: `http.DefaultTransport`).
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The scheme is neither `http` nor `https`, there is no host, or there is more than a host and a port.
    pub(crate) fn of(uri: &Uri) -> Result<Self, ErrorCause> {
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            other => return Err(ErrorCause::UnsupportedScheme(other.unwrap_or_default().to_owned())),
        };
        let host = uri.host().ok_or(ErrorCause::MissingHost)?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let port = match authority.strip_prefix(host) {
            Some("") if is_https => 443,
            Some("") => 80,
            Some(_) => uri.port_u16().ok_or(ErrorCause::InvalidPort)?,
            None => return Err(ErrorCause::UserInUri),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { is_https, host, port })
    }
}

impl PartialEq for Origin {
    /// Host names are not case-sensitive.
    fn eq(&self, other: &Self) -> bool {
        self.is_https == other.is_https && self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

/// The target of a connection. A pooled connection serves every request with the same target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionTarget {
    address: DialAddress,
    /// The name for which the server's certificate has to be valid.
    tls_name: String,
    is_https: bool,
}

impl ConnectionTarget {
    /// The target of requests to an origin. A dial address replaces the host and port, not the name in the certificate.
    pub(crate) fn new(origin: Origin, dial_address: Option<&DialAddress>) -> Self {
        let Origin { is_https, host: tls_name, port } = origin;
        let address = dial_address.cloned().unwrap_or_else(|| DialAddress { host: tls_name.clone(), port });
        Self { address, tls_name, is_https }
    }

    /// True if the connection has TLS, in which HTTP/2 is negotiated.
    pub(crate) fn is_https(&self) -> bool {
        self.is_https
    }
}

/// How connections are opened.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) dialer: Dialer,
    pub(crate) tls: TlsConnector,
    /// The health check of HTTP/2 connections, if the client offers HTTP/2.
    pub(crate) health_check: Option<Http2HealthCheck>,
}

/// A new connection, in the protocol that the server has chosen.
pub(crate) enum NewConnection {
    Http1(Http1Connection),
    Http2(Arc<Http2Connection>),
}

impl Connector {
    /// Opens a connection. Both steps have limits of their own, in addition to the deadline of the caller.
    ///
    /// # Errors
    /// The server cannot be reached in time, or is not trusted.
    pub(crate) async fn open(
        &self,
        target: ConnectionTarget,
        deadline: Option<Instant>,
    ) -> Result<NewConnection, ErrorCause> {
        let stream = self.dialer.dial(&target.address, deadline).await?;
        if !target.is_https {
            return Http1Connection::handshake(target, stream).await.map(NewConnection::Http1);
        }
        let name = ServerName::try_from(target.tls_name.clone()).map_err(|_| ErrorCause::MissingHost)?;
        let stream = within(TLS_HANDSHAKE_TIMEOUT, deadline, self.tls.connect(name, stream)).await;
        let stream = stream.ok_or(ErrorCause::TlsTimeout)?.map_err(ErrorCause::Tls)?;
        match self.health_check {
            Some(check) if stream.get_ref().1.alpn_protocol() == Some(HTTP2_PROTOCOL) => {
                Http2Connection::handshake(target, stream, check).await.map(NewConnection::Http2)
            }
            _ => Http1Connection::handshake(target, stream).await.map(NewConnection::Http1),
        }
    }
}

/// An open HTTP/1.1 connection. After its drop, hyper closes the connection properly once nothing is in flight.
pub(crate) struct Http1Connection {
    pub(crate) target: ConnectionTarget,
    pub(crate) sender: SendRequest<RequestBody>,
    task: AbortHandle,
}

impl Http1Connection {
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

/// The network error behind an error of hyper.
pub(crate) fn network_error(error: &hyper::Error) -> Option<&io::Error> {
    let source = std::error::Error::source(error)?;
    // The network error of an HTTP/2 body is inside an error of h2.
    source.downcast_ref().or_else(|| source.downcast_ref::<h2::Error>()?.get_io())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_host_and_a_port() {
        for (uri, expect) in [
            ("https://a/x", Ok((true, "a", 443))),
            ("http://a:81?x", Ok((false, "a", 81))),
            ("https://[fd00::1]", Ok((true, "fd00::1", 443))),
            ("https://[fd00::1]:8443/", Ok((true, "fd00::1", 8443))),
            ("ftp://a", Err(r#"unsupported protocol scheme "ftp""#)),
            ("/x", Err(r#"unsupported protocol scheme """#)),
            ("http://u@a", Err("a user in the request URL is not supported")),
            ("http://10.0.0.1:80@127.0.0.1", Err("a user in the request URL is not supported")),
            ("http://a:99999", Err("dial tcp: invalid port in request URL")),
        ] {
            let origin = Origin::of(&uri.parse().expect("a URI")).map_err(|error| error.to_string());
            let origin = origin.map(|origin| (origin.is_https, origin.host, origin.port));
            let expect = expect.map(|(is_https, host, port)| (is_https, host.to_owned(), port));
            assert_eq!(origin, expect.map_err(str::to_owned), "{uri}");
        }
    }
}
