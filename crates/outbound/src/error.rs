//! Why a call came to nothing, in the words of Go's `net/http` and `net`.

use std::fmt;
use std::io;

use http::{Method, Uri};
use rustls::CertificateError;
use rustls::pki_types::ServerName;

/// A call that came to nothing. Prints as Go's `url.Error`: `Get "https://…": dial tcp …`.
#[derive(Debug, thiserror::Error)]
pub struct Error {
    /// The method of the request.
    pub method: Method,
    /// Whom it was for.
    pub uri: Uri,
    /// What went wrong.
    pub cause: Cause,
}

impl Error {
    /// True if there was an answer, which broke in the middle of its body.
    #[must_use]
    pub fn is_of_body(&self) -> bool {
        matches!(self.cause, Cause::Body(_) | Cause::NoEnd)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What happens while the body is read is told without the request.
        if self.is_of_body() {
            return self.cause.fmt(f);
        }
        let method = self.method.as_str();
        let (first, rest) = method.split_at_checked(1).unwrap_or((method, ""));
        write!(f, "{first}{} \"{}\": {}", rest.to_ascii_lowercase(), self.uri, self.cause)
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The URI is neither `http` nor `https`.
    #[error("unsupported protocol scheme \"{0}\"")]
    Scheme(String),
    /// The URI names no host that could be asked.
    #[error("http: no Host in request URL")]
    NoHost,
    /// There is no connection.
    #[error("dial tcp {address}: connect: {}", plain(.error))]
    Dial {
        /// Whom it was for.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// There is a connection, but no TLS on it.
    #[error("{}", tls(.0))]
    Tls(io::Error),
    /// The connection broke, or what came was no HTTP.
    #[error("{}", http(.0))]
    Http(hyper::Error),
    /// The same, in the middle of the answer's body.
    #[error("{}", body(.0))]
    Body(hyper::Error),
    /// Time is up, and there is no answer.
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    NoAnswer,
    /// Time is up in the middle of the answer.
    #[error("context deadline exceeded (Client.Timeout or context cancellation while reading body)")]
    NoEnd,
}

/// The system's words for an error, in small letters and without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let (first, rest) = text.split_at_checked(1).unwrap_or((text, ""));
    first.to_ascii_lowercase() + rest
}

fn tls(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => "tls: first record does not look like a TLS handshake".to_owned(),
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: x509: {}", certificate(why))
        }
        Some(other) => format!("remote error: tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => plain(error),
    }
}

fn certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        // An authority that is none of ours.
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

fn body(error: &hyper::Error) -> String {
    match std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => "unexpected EOF".to_owned(),
        _ => http(error),
    }
}

fn http(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "EOF".to_owned();
    }
    match std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(error) => plain(error),
        None => format!("net/http: HTTP/1.x transport connection broken: {error}"),
    }
}
