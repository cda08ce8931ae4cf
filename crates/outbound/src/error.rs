//! Errors of requests, with the texts of Go's `net/http` and `net`.

use std::fmt;
use std::io;

use http::{Method, Uri};
use rustls::CertificateError;
use rustls::pki_types::ServerName;

use crate::connection::network_error;

/// A failed request. Prints like Go's `url.Error`: `Get "https://...": dial tcp ...`.
#[derive(Debug, thiserror::Error)]
pub struct RequestError {
    /// The method of the request.
    pub method: Method,
    /// The URI of the request.
    pub uri: Uri,
    /// What went wrong.
    pub cause: ErrorCause,
}

impl RequestError {
    /// True if the response head arrived, and reading the body failed.
    #[must_use]
    pub fn is_body_error(&self) -> bool {
        use ErrorCause::{Body, BodyIdleTimeout, BodyTimeout, BodyTooLarge};
        matches!(self.cause, Body(_) | BodyTimeout | BodyIdleTimeout | BodyTooLarge)
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
    /// The client has credentials, and they are for another origin than the one in the URI.
    #[error("the client's credentials are for another origin")]
    ForeignOrigin,
    /// The connection cannot be opened.
    #[error("dial tcp {address}: connect: {}", go_io_error(.error))]
    Dial {
        /// The host and port.
        address: String,
        /// What went wrong.
        error: io::Error,
    },
    /// The TLS handshake failed.
    #[error("{}", go_tls_error(.0))]
    Tls(io::Error),
    /// The connection broke before the response head arrived, or the response is not HTTP.
    #[error("{}", go_http_error(.0))]
    Http(hyper::Error),
    /// The streamed request body failed.
    #[error("{}", source_text(.0))]
    RequestBody(hyper::Error),
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
}

impl ErrorCause {
    /// The cause of a failure before the response head arrived.
    pub(crate) fn of_request(error: hyper::Error) -> Self {
        if error.is_user() { Self::RequestBody(error) } else { Self::Http(error) }
    }
}

/// The text of the error that caused an error of hyper.
fn source_text(error: &hyper::Error) -> String {
    std::error::Error::source(error).unwrap_or(error).to_string()
}

/// The text of a system error as Go prints it: in lower case and without its number.
fn go_io_error(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let (first, rest) = text.split_at_checked(1).unwrap_or((text, ""));
    first.to_ascii_lowercase() + rest
}

fn go_tls_error(error: &io::Error) -> String {
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
        // A self-signed certificate that is not one of the authorities.
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

fn go_body_error(error: &hyper::Error) -> String {
    match network_error(error) {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => "unexpected EOF".to_owned(),
        _ => go_http_error(error),
    }
}

fn go_http_error(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "EOF".to_owned();
    }
    match network_error(error) {
        Some(error) => go_io_error(error),
        None => format!("net/http: HTTP/1.x transport connection broken: {error}"),
    }
}
