//! Calls that the server makes to others: one request, one answer, in bounded time and space. Its errors read as those of
//! Go's `net/http`, because clients see them. Knows nothing of Kubernetes.

mod error;
mod idle;
mod trust;

pub use error::{Cause, Error};
pub use trust::{Trust, TrustError};

use std::io;
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

use crate::idle::{Idle, Sender};

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

/// How a server is reached that its URI names by a name which means nothing to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The host to connect to, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Makes calls over HTTP/1.1, plain or with TLS. Connections that servers keep open are used again; a request that finds
/// one broken goes over another one, so that a server may see it twice. Redirects are answers like others.
#[derive(Clone)]
pub struct Client {
    tls: TlsConnector,
    idle: Idle,
}

impl Client {
    /// A client that trusts these servers.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub fn new(trust: Trust<'_>) -> Result<Self, TrustError> {
        Ok(Self { tls: TlsConnector::from(trust.config()?), idle: Idle::default() })
    }

    /// Sends a request to the server that its URI names, and reads the answer.
    ///
    /// # Errors
    /// The server cannot be reached or trusted, does not speak HTTP, or takes too long.
    pub async fn send(&self, request: Request<Bytes>, limits: Limits) -> Result<Response<Body>, Error> {
        self.send_by(request, None, limits).await
    }

    /// The same by a route. The server has to prove that it is the one that the URI names nevertheless.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn send_by(
        &self,
        request: Request<Bytes>,
        route: Option<&Route>,
        limits: Limits,
    ) -> Result<Response<Body>, Error> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let deadline = Instant::now() + limits.time;
        let failed = |cause| Error { method: method.clone(), uri: uri.clone(), cause };
        let answer = timeout_at(deadline, self.start(request, route)).await;
        let (answer, server, sender) = answer.unwrap_or(Err(Cause::NoAnswer)).map_err(failed)?;
        let (head, body) = answer.into_parts();
        let body = timeout_at(deadline, read(body, limits.body)).await;
        let body = body.unwrap_or(Err(Cause::NoEnd)).map_err(failed)?;
        if !body.truncated {
            self.idle.put(server, sender);
        }
        Ok(Response::from_parts(head, body))
    }

    /// Sends a request. Returns the head of the answer, and the connection for its server.
    async fn start(
        &self,
        mut request: Request<Bytes>,
        route: Option<&Route>,
    ) -> Result<(Response<Incoming>, Server, Sender), Cause> {
        let server = Server::of(request.uri(), route)?;
        let uri = request.uri().clone();
        // A connection is told the path alone, and the host in a header.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>().map_err(|_| Cause::NoHost)?;
        if !request.headers().contains_key(HOST) {
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            request.headers_mut().insert(HOST, HeaderValue::from_str(authority).map_err(|_| Cause::NoHost)?);
        }
        let request = request.map(Full::new);
        while let Some(mut sender) = self.idle.take(&server).await {
            match sender.send_request(request.clone()).await {
                Ok(answer) => return Ok((answer, server, sender)),
                // The server has closed the connection meanwhile: it gave up waiting for a request.
                Err(error) if error.is_incomplete_message() || error.is_canceled() || error.is_closed() => {}
                Err(error) if source(&error).is_some() => {}
                Err(error) => return Err(Cause::Http(error)),
            }
        }
        let mut sender = self.connect(&server).await?;
        let answer = sender.send_request(request).await.map_err(Cause::Http)?;
        Ok((answer, server, sender))
    }

    async fn connect(&self, server: &Server) -> Result<Sender, Cause> {
        let Server { host, port, name, secure } = server;
        let tcp = TcpStream::connect((host.as_str(), *port)).await;
        let tcp = tcp.map_err(|error| Cause::Dial { address: address(host, *port), error })?;
        // A request is one write, which is not to wait for anything.
        let _ = tcp.set_nodelay(true);
        if !secure {
            return handshake(tcp).await;
        }
        let name = ServerName::try_from(name.clone()).map_err(|_| Cause::NoHost)?;
        handshake(self.tls.connect(name, tcp).await.map_err(Cause::Tls)?).await
    }
}

/// Whom a connection is to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    host: String,
    port: u16,
    /// What its certificate is for.
    name: String,
    secure: bool,
}

impl Server {
    fn of(uri: &Uri, route: Option<&Route>) -> Result<Self, Cause> {
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            other => return Err(Cause::Scheme(other.unwrap_or_default().to_owned())),
        };
        let name = uri.host().ok_or(Cause::NoHost)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let (host, port) = route.map_or_else(|| (name.clone(), port), |route| (route.host.clone(), route.port));
        Ok(Self { host, port, name, secure })
    }
}

/// The fault of the network that is behind an error.
fn source(error: &hyper::Error) -> Option<&io::Error> {
    std::error::Error::source(error).and_then(|source| source.downcast_ref())
}

/// A host and a port as one, with brackets around what has colons.
fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Begins to speak HTTP on a connection.
async fn handshake<S>(stream: S) -> Result<Sender, Cause>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Cause::Http)?;
    // What fails here fails the request or its body too, and is told there.
    tokio::spawn(connection);
    Ok(sender)
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
