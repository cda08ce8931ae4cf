//! The configuration of a client: which servers it trusts and which credentials it presents (client-go: `rest.Config`).

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, Uri};
use rustls::pki_types::pem;

use crate::connection::Origin;
use crate::dialer::Dialer;
use crate::tls::ServerTrust;

/// The configuration of a [`crate::Client`]. The default trusts the system's certificate authorities and has no
/// credentials.
#[derive(Clone, Debug, Default)]
pub struct ClientConfig<'a> {
    /// The TLS servers that the client trusts.
    pub server_trust: ServerTrust<'a>,
    /// The credentials of the client.
    pub credentials: Option<Credentials<'a>>,
    /// The protocols that the client offers to TLS servers.
    pub protocols: Protocols,
    /// How the client opens connections.
    pub dialer: Dialer,
}

/// The protocols that a client offers to TLS servers (ALPN). Servers without TLS get HTTP/1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// Only HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2, and HTTP/1.1 for servers that do not speak it. Upgrades use HTTP/1.1.
    Http2(Http2HealthCheck),
}

/// How a client detects a dead HTTP/2 connection. It pings the server when the connection was silent for a time, and
/// closes the connection without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2HealthCheck {
    /// The time without a frame after which the client pings the server (Go: `ReadIdleTimeout`). `None` disables the
    /// check.
    pub read_idle_timeout: Option<Duration>,
    /// The time in which the server has to answer (Go: `PingTimeout`).
    pub ping_timeout: Duration,
}

/// Credentials and the only origin that receives them. The client refuses requests for any other origin.
#[derive(Clone, Debug)]
pub struct Credentials<'a> {
    /// The scheme, host and port, such as `https://10.0.0.1:10250`. The scheme is `https`.
    pub origin: Uri,
    /// The certificate that the client presents in the TLS handshake.
    pub client_certificate: Option<ClientCertificate<'a>>,
    /// The token for requests without an `Authorization` header of their own. It requires a verified server.
    pub bearer_token: Option<BearerToken<'a>>,
}

/// A client certificate with its key, both in PEM.
#[derive(Clone, Copy)]
pub struct ClientCertificate<'a> {
    /// The certificate and its intermediates, leaf first.
    pub chain: &'a [u8],
    /// The private key.
    pub key: &'a [u8],
}

impl fmt::Debug for ClientCertificate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// A bearer token.
#[derive(Clone, Copy)]
pub struct BearerToken<'a>(pub &'a str);

impl fmt::Debug for BearerToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken").finish_non_exhaustive()
    }
}

/// Why a [`ClientConfig`] cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientConfigError {
    /// The certificate authorities are not PEM.
    #[error("the certificate authorities cannot be read: {0}")]
    AuthoritiesPem(pem::Error),
    /// The certificate authorities are not certificates.
    #[error("the certificate authorities cannot be used: {0}")]
    Authorities(rustls::Error),
    /// The client certificate or its key is not PEM.
    #[error("the client certificate cannot be read: {0}")]
    ClientCertificatePem(pem::Error),
    /// The client certificate and its key do not belong together.
    #[error("the client certificate cannot be used: {0}")]
    ClientCertificate(rustls::Error),
    /// The certificate of a server cannot be valid for this name.
    #[error("the server name \"{0}\" is neither a host name nor an IP address")]
    ServerName(String),
    /// The origin of the credentials is not an `https` URL with a host.
    #[error("credentials need an https origin, got \"{0}\"")]
    Origin(Uri),
    /// The bearer token cannot be sent in a header.
    #[error("the bearer token is not a valid header value")]
    BearerToken,
    /// A bearer token would go to a server whose identity is not verified.
    #[error("a bearer token needs a server whose certificate is verified")]
    BearerTokenForUnverifiedServer,
}

/// The credentials of a client, ready for requests. The client certificate is part of the TLS configuration.
pub(crate) struct RequestCredentials {
    /// The only origin that receives the credentials.
    pub(crate) origin: Origin,
    /// The `Authorization` header.
    pub(crate) authorization: Option<HeaderValue>,
}

impl RequestCredentials {
    pub(crate) fn new(credentials: &Credentials<'_>, trust: ServerTrust<'_>) -> Result<Self, ClientConfigError> {
        let origin = Origin::of(&credentials.origin).ok().filter(|origin| origin.is_https);
        let origin = origin.ok_or_else(|| ClientConfigError::Origin(credentials.origin.clone()))?;
        let Some(BearerToken(token)) = credentials.bearer_token else {
            return Ok(Self { origin, authorization: None });
        };
        if trust == ServerTrust::InsecureSkipVerify {
            return Err(ClientConfigError::BearerTokenForUnverifiedServer);
        }
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut header = header.map_err(|_| ClientConfigError::BearerToken)?;
        header.set_sensitive(true);
        Ok(Self { origin, authorization: Some(header) })
    }
}
