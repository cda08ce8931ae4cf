//! The load generator's HTTP client: HTTP/1.1 over TLS on a connection that is kept, as the administrator of a
//! kubeconfig. It knows hyper and nothing of Kubernetes, so that what it costs stays small and the same for every server.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Result;

/// The media type of what is sent unless a request says otherwise.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request to send.
pub(crate) type Outgoing = Request<Full<Bytes>>;

/// Where a server is and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    tls: TlsConnector,
    host: HeaderValue,
}

impl Endpoint {
    /// The server at `url`, with the credentials of a kubeconfig.
    pub(crate) fn new(url: &str, kubeconfig: &str) -> Result<Self> {
        let address: SocketAddr = url.trim_start_matches("https://").parse()?;
        let pem = |key: &str| -> Result<Vec<u8>> {
            let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
            let line = line.ok_or_else(|| format!("the kubeconfig has no {key}"))?;
            Ok(STANDARD.decode(line.trim())?)
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem("certificate-authority-data")?)?)?;
        let certificate = CertificateDer::from_pem_slice(&pem("client-certificate-data")?)?;
        let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data")?)?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let host = HeaderValue::from_str(&address.to_string())?;
        Ok(Self { address, tls: TlsConnector::from(Arc::new(config)), host })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(ServerName::from(self.address.ip()), stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender, host: self.host.clone() })
    }

    /// Opens many.
    pub(crate) async fn connect_all(&self, count: usize) -> Result<Vec<Connection>> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(self.connect().await?);
        }
        Ok(connections)
    }
}

/// A connection that one request at a time uses.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    host: HeaderValue,
}

impl Connection {
    /// Sends a request; the answer's body comes later.
    pub(crate) async fn send(&mut self, mut request: Outgoing) -> Result<Response<Incoming>> {
        request.headers_mut().insert(HOST, self.host.clone());
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and takes the whole answer in, keeping only its code and length.
    pub(crate) async fn exchange(&mut self, request: Outgoing, expect: StatusCode) -> Result<u64> {
        let line = format!("{} {}", request.method(), request.uri());
        let response = self.send(request).await?;
        if response.status() != expect {
            return Err(unexpected(&line, response).await);
        }
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(length)
    }

    /// Sends a request and keeps the answer's body.
    pub(crate) async fn fetch(&mut self, request: Outgoing, expect: StatusCode) -> Result<Bytes> {
        let line = format!("{} {}", request.method(), request.uri());
        let response = self.send(request).await?;
        if response.status() != expect {
            return Err(unexpected(&line, response).await);
        }
        Ok(response.into_body().collect().await?.to_bytes())
    }
}

/// An answer that a measurement cannot go on with: numbers of failing requests would mean nothing.
async fn unexpected(line: &str, response: Response<Incoming>) -> Box<dyn std::error::Error + Send + Sync> {
    let code = response.status();
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    format!("{line}: {code}: {}", String::from_utf8_lossy(&body[..body.len().min(400)])).into()
}

/// A request without a body.
pub(crate) fn plain(method: Method, path: impl Into<String>) -> Outgoing {
    with_body(method, path, Bytes::new())
}

/// A request with a body of JSON.
pub(crate) fn with_body(method: Method, path: impl Into<String>, body: impl Into<Bytes>) -> Outgoing {
    let body = body.into();
    let has_body = !body.is_empty();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    // A path that is none is asked for at the root, where the answer's code will tell.
    *request.uri_mut() = Uri::try_from(path.into()).unwrap_or_default();
    if has_body {
        request.headers_mut().insert(CONTENT_TYPE, JSON);
    }
    request
}
