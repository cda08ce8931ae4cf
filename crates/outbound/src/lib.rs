//! Calls that the server makes to others: one request, one answer, in bounded time and space. Its errors read as those of
//! Go's `net/http`, because clients see them. Knows nothing of Kubernetes.

mod error;
mod trust;

pub use error::{Cause, Error};
pub use trust::{Trust, TrustError};

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{HOST, HeaderValue};
use http::uri::Uri;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// How much one call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the call to the end of the answer.
    pub time: Duration,
    /// How many bytes of the answer's body are read.
    pub body: usize,
}

/// An answer's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The bytes, up to the limit.
    pub bytes: Bytes,
    /// True if there was more than the limit.
    pub truncated: bool,
}

/// Makes calls over HTTP/1.1, plain or with TLS, each on a connection of its own. Redirects are answers like others.
#[derive(Clone)]
pub struct Client {
    tls: TlsConnector,
}

impl Client {
    /// A client that trusts these servers.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub fn new(trust: Trust<'_>) -> Result<Self, TrustError> {
        Ok(Self { tls: TlsConnector::from(trust.config()?) })
    }

    /// Sends a request to the server that its URI names, and reads the answer.
    ///
    /// # Errors
    /// The server cannot be reached or trusted, does not speak HTTP, or takes too long.
    pub async fn send(&self, request: Request<Bytes>, limits: Limits) -> Result<Response<Body>, Error> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let deadline = Instant::now() + limits.time;
        let failed = |cause| Error { method: method.clone(), uri: uri.clone(), cause };
        let answer = timeout_at(deadline, self.start(request)).await;
        let (head, body) = answer.unwrap_or(Err(Cause::NoAnswer)).map_err(failed)?.into_parts();
        let body = timeout_at(deadline, read(body, limits.body)).await;
        Ok(Response::from_parts(head, body.unwrap_or(Err(Cause::NoEnd)).map_err(failed)?))
    }

    async fn start(&self, mut request: Request<Bytes>) -> Result<Response<Incoming>, Cause> {
        let uri = request.uri().clone();
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            other => return Err(Cause::Scheme(other.unwrap_or_default().to_owned())),
        };
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else { return Err(Cause::NoHost) };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        // A connection is told the path alone, and the host in a header.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>().map_err(|_| Cause::NoHost)?;
        if !request.headers().contains_key(HOST) {
            let value = HeaderValue::from_str(authority.as_str()).map_err(|_| Cause::NoHost)?;
            request.headers_mut().insert(HOST, value);
        }
        let tcp = TcpStream::connect((host.as_str(), port)).await;
        let tcp = tcp.map_err(|error| Cause::Dial { address: address(&host, port), error })?;
        if secure {
            let name = ServerName::try_from(host).map_err(|_| Cause::NoHost)?;
            let stream = self.tls.connect(name, tcp).await.map_err(Cause::Tls)?;
            exchange(stream, request).await
        } else {
            exchange(tcp, request).await
        }
    }
}

/// A host and a port as one, with brackets around what has colons.
fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// One request and the head of its answer, on a fresh connection, which ends with the answer's body.
async fn exchange<S>(stream: S, request: Request<Bytes>) -> Result<Response<Incoming>, Cause>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Cause::Http)?;
    // What fails here fails the request or its body too, and is told there.
    tokio::spawn(connection);
    sender.send_request(request.map(Full::new)).await.map_err(Cause::Http)
}

/// Reads a body up to a limit.
async fn read(mut body: Incoming, limit: usize) -> Result<Body, Cause> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Cause::Body)?.into_data() else { continue };
        let room = limit - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok(Body { bytes: bytes.freeze(), truncated: true });
        }
    }
    Ok(Body { bytes: bytes.freeze(), truncated: false })
}
