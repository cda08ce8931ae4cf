//! Errors of requests, with the texts of Go's `net/http` and `net`.

use std::fmt;
use std::io;

use http::{Method, Uri};
use rustls::CertificateError;
use rustls::pki_types::ServerName;

use crate::connection::network_error;
use crate::request_body::RequestProgress;
use crate::tls::LegacyCommonName;

/// A failed request. It prints like Go's `url.Error`: `Get "https://...": dial tcp ...`.
#[derive(Debug, thiserror::Error)]
pub struct RequestError {
    /// The method of the request.
    pub method: Method,
    /// The URI of the request.
    pub uri: Uri,
    /// The cause of the failure.
    pub cause: ErrorCause,
}

impl RequestError {
    /// True if the response head arrived, and reading the body failed.
    #[must_use]
    pub fn is_body_error(&self) -> bool {
        use ErrorCause::{Body, BodyIdleTimeout, BodyTimeout, BodyTooLarge, BodyTooShort};
        matches!(self.cause, Body(_) | BodyTimeout | BodyIdleTimeout | BodyTooLarge | BodyTooShort)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Go reports an error while it reads the body without the request.
        if self.is_body_error() {
            return self.cause.fmt(f);
        }
        let method = self.method.as_str();
        let (first, rest) = method.split_at_checked(1).unwrap_or((method, ""));
        write!(f, "{first}{} \"{}\": {}", rest.to_ascii_lowercase(), self.uri, self.cause)
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ErrorCause {
    /// The scheme of the URI is neither `http` nor `https`.
    #[error("unsupported protocol scheme \"{0}\"")]
    UnsupportedScheme(String),
    /// The URI has no usable host.
    #[error("http: no Host in request URL")]
    MissingHost,
    /// The URI has other text before the host, such as a user, whose password would have to be sent.
    #[error("a user in the request URL is not supported")]
    UserInUri,
    /// The port of the URI is not a number below 65536.
    #[error("dial tcp: invalid port in request URL")]
    InvalidPort,
    /// The client has credentials for another origin than the URI's.
    #[error("the client's credentials are for another origin")]
    ForeignOrigin,
    /// The connection cannot be opened.
    #[error("dial {network} {address}: connect: {}", go_io_error(.error))]
    Dial {
        /// Go's name of the network: `tcp` or `unix`.
        network: &'static str,
        /// The host and port, or the path of the socket.
        address: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Connecting takes too long.
    #[error("dial tcp {address}: i/o timeout")]
    DialTimeout {
        /// The host and port.
        address: String,
    },
    /// The answer of a proxy to the request for a tunnel is not HTTP, or does not arrive.
    #[error("reading HTTP response from CONNECT to {target} via proxy {proxy} failed: {error}")]
    ProxyAnswer {
        /// The host and port to which the tunnel leads.
        target: String,
        /// The address of the proxy.
        proxy: String,
        /// Go's text of the error.
        error: String,
    },
    /// A proxy refuses a tunnel.
    #[error("proxy error from {proxy} while dialing {target}, code {code}: {status}")]
    ProxyRefusal {
        /// The host and port to which the tunnel leads.
        target: String,
        /// The address of the proxy.
        proxy: String,
        /// The code of the answer.
        code: u16,
        /// The code and the reason.
        status: String,
    },
    /// The TLS handshake failed.
    #[error("{}", go_tls_error(.0))]
    Tls(io::Error),
    /// The TLS handshake takes too long.
    #[error("net/http: TLS handshake timeout")]
    TlsTimeout,
    /// The connection broke before the response head arrived, or the response is not HTTP.
    #[error("{}", go_http_error(.0))]
    Http(hyper::Error),
    /// The HTTP/2 stream or its connection broke before the response head arrived.
    #[error("{}", go_http2_error(.0))]
    Http2(hyper::Error),
    /// The streamed request body failed.
    #[error("{0}")]
    RequestBody(String),
    /// The server has chosen a protocol that it was not offered.
    #[error("net/http: unexpected application protocol")]
    UnexpectedProtocol,
    /// A new HTTP/2 connection was closed before it could be used.
    #[error("http2: client conn could not be established")]
    Http2NotEstablished,
    /// An HTTP/2 connection was closed before the request was sent.
    #[error("http2: client conn not usable")]
    Http2Unusable,
    /// The server has refused the first request of an HTTP/2 connection, and closes the connection.
    #[error("http2: Transport received GOAWAY from server ErrCode:{}", go_error_code(*.0))]
    Http2GoAway(h2::Reason),
    /// The server has not processed the request, whose body was a stream and cannot be sent again.
    #[error(
        "http2: Transport: cannot retry err [{0}] after Request.Body was written; define Request.GetBody to avoid this \
         error"
    )]
    Http2CannotRetry(Box<Self>),
    /// The connection broke in the middle of the response body.
    #[error("{}", go_body_error(.0))]
    Body(hyper::Error),
    /// The time limit passed before the response head arrived.
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    HeadTimeout,
    /// The time limit passed in the middle of the response body.
    #[error("context deadline exceeded (Client.Timeout or context cancellation while reading body)")]
    BodyTimeout,
    /// The connection was idle for too long before the response head arrived.
    #[error("idle timeout exceeded while awaiting headers")]
    HeadIdleTimeout,
    /// The connection was idle for too long in the middle of the response body.
    #[error("idle timeout exceeded while reading body")]
    BodyIdleTimeout,
    /// The response body is longer than the limit.
    #[error("response body too large")]
    BodyTooLarge,
    /// The response body is shorter than its head says.
    #[error("unexpected EOF")]
    BodyTooShort,
}

impl ErrorCause {
    /// True if the server's certificate has its name only as common name, and no subject alternative names.
    #[must_use]
    pub fn relies_on_common_name(&self) -> bool {
        let Self::Tls(error) = self else { return false };
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(CertificateError::Other(other))) => other.0.is::<LegacyCommonName>(),
            _ => false,
        }
    }

    /// The cause of a failure before the response head arrived. If the request body has failed, this is the body's
    /// error.
    pub(crate) fn of_request(cause: Self, progress: &RequestProgress) -> Self {
        progress.failure().map_or(cause, |text| Self::RequestBody(text.to_owned()))
    }
}

/// The text of a system error as Go prints it: in lower case and without its number.
fn go_io_error(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let (first, rest) = text.split_at_checked(1).unwrap_or((text, ""));
    first.to_ascii_lowercase() + rest
}

/// The text of an error of a TLS stream.
pub(crate) fn go_tls_error(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => "tls: first record does not look like a TLS handshake".to_owned(),
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: x509: {}", go_certificate_error(why))
        }
        Some(other) => format!("remote error: tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => go_io_error(error),
    }
}

fn go_certificate_error(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::Other(other) if other.0.is::<LegacyCommonName>() => other.0.to_string(),
        // This is a self-signed certificate that is not among the authorities.
        CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity" => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let (is_ip, expected) = (matches!(expected, ServerName::IpAddress(_)), expected.to_str());
            let prefix = if is_ip { "IpAddress(" } else { "DnsName(" };
            let name = |shown: &String| {
                let name = shown.strip_prefix(prefix)?.strip_suffix(')')?;
                Some(name.trim_matches('"').to_owned())
            };
            let names: Vec<String> = presented.iter().filter_map(name).collect();
            match (names.as_slice(), is_ip) {
                ([], true) => {
                    format!("cannot validate certificate for {expected} because it doesn't contain any IP SANs")
                }
                ([], false) => format!("certificate is not valid for any names, but wanted to match {expected}"),
                (names, _) => format!("certificate is valid for {}, not {expected}", names.join(", ")),
            }
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    }
}

/// The text for an error of a response body, on HTTP/1.1 or HTTP/2.
fn go_body_error(error: &hyper::Error) -> String {
    match network_error(error) {
        Some(error) if is_end_of_connection(error) => "unexpected EOF".to_owned(),
        _ if http2_error(error).is_some() || error.is_timeout() => go_http2_error(error),
        _ => go_http_error(error),
    }
}

/// True if the server has closed the connection. For the open streams, h2 then reports a broken pipe.
fn is_end_of_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe)
}

fn go_http_error(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "EOF".to_owned();
    }
    match network_error(error) {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        Some(error) => go_io_error(error),
        None => format!("net/http: HTTP/1.x transport connection broken: {error}"),
    }
}

/// The HTTP/2 error behind an error of hyper.
pub(crate) fn http2_error(error: &hyper::Error) -> Option<&h2::Error> {
    std::error::Error::source(error).and_then(|source| source.downcast_ref())
}

fn go_http2_error(error: &hyper::Error) -> String {
    if let Some(error) = network_error(error) {
        return if is_end_of_connection(error) { "unexpected EOF".to_owned() } else { go_io_error(error) };
    }
    // The health check has failed.
    if error.is_timeout() {
        return "http2: client connection lost".to_owned();
    }
    let Some(error) = http2_error(error) else { return "http2: client conn is closed".to_owned() };
    let Some(reason) = error.reason() else { return format!("http2: {error}") };
    let code = go_error_code(reason);
    if error.is_reset() {
        let from_peer = if error.is_remote() { "; received from peer" } else { "" };
        return format!("stream error: {}{code}{from_peer}", stream_id(error));
    }
    if error.is_go_away() && error.is_remote() {
        return "http2: Transport received Server's graceful shutdown GOAWAY".to_owned();
    }
    format!("connection error: {code}")
}

/// The stream of an error, as Go shows it. h2 shows the number only in its debug text.
fn stream_id(error: &h2::Error) -> String {
    let text = format!("{error:?}");
    let id = text.split_once("StreamId(").and_then(|(_, rest)| rest.split_once(')'));
    id.map(|(id, _)| format!("stream ID {id}; ")).unwrap_or_default()
}

/// The name of an error code (RFC 9113, section 7).
fn go_error_code(reason: h2::Reason) -> String {
    match u32::from(reason) {
        0..=13 => format!("{reason:?}"),
        code => format!("unknown error code 0x{code:x}"),
    }
}
