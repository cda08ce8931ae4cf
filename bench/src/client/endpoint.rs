//! The address of a server and how to open connections to it.

use std::sync::Arc;

use http::HeaderValue;
use http::uri::{Authority, Uri};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_integration::AttackTarget;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Connection, EndpointInfo, Protocol, Sender};
use crate::Result;

/// The maximum number of concurrent handshakes while many connections are opened.
const MAX_CONCURRENT_OPENS: usize = 32;
/// The HTTP/2 flow control windows of client-go for a stream and a connection, in bytes.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// A client's credentials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    /// A client certificate and its private key, in PEM.
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// A bearer token.
    pub(crate) token: Option<String>,
}

/// The address, CA and credentials for a server, like client-go's `rest.Config`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionConfig {
    /// The base URL: `https://HOST[:PORT][/PREFIX]`.
    pub(crate) url: String,
    /// The expected name in the server's certificate, if it differs from the URL's host.
    pub(crate) server_name: Option<String>,
    /// The CA bundle for the server's certificate, in PEM.
    pub(crate) authorities: Vec<u8>,
    /// The client's credentials.
    pub(crate) credentials: Credentials,
}

/// A server's address and its TLS connectors.
#[derive(Clone)]
pub(crate) struct Endpoint {
    host: String,
    port: u16,
    tls: Tls,
    info: Arc<EndpointInfo>,
}

/// The TLS connectors for both HTTP versions.
#[derive(Clone)]
struct Tls {
    name: ServerName<'static>,
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Tls {
    /// Builds the connectors for `host` from the configuration.
    fn new(config: &ConnectionConfig, host: &str) -> Result<Self> {
        let name = ServerName::try_from(config.server_name.clone().unwrap_or_else(|| host.to_owned()))?;
        let tls_config = tls_client_config(config)?;
        let with = |protocol: &str| {
            let mut config = tls_config.clone();
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        Ok(Self { name, http1: with("http/1.1"), http2: with("h2") })
    }
}

impl Endpoint {
    /// Creates the endpoint for a configuration.
    pub(crate) fn new(config: &ConnectionConfig) -> Result<Self> {
        let uri: Uri = config.url.parse()?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("{}: only https is supported", config.url).into());
        }
        let authority: Authority = uri.authority().ok_or("the server's URL has no host")?.clone();
        // An IPv6 address is in brackets only in a URL.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = Tls::new(config, &host)?;
        let info = EndpointInfo {
            host: HeaderValue::from_str(authority.as_str())?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            bearer: match &config.credentials.token {
                Some(token) => Some(HeaderValue::from_str(&format!("Bearer {token}"))?),
                None => None,
            },
            authority: authority.clone(),
        };
        let port = authority.port_u16().unwrap_or(443);
        Ok(Self { host, port, tls, info: Arc::new(info) })
    }

    /// The URL of the server, without a prefix.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.info.authority)
    }

    /// The port of the server.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self, protocol: Protocol) -> Result<Connection> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let connector = match protocol {
            Protocol::Http1 => &self.tls.http1,
            Protocol::Http2 => &self.tls.http2,
        };
        let stream = connector.connect(self.tls.name.clone(), stream).await?;
        let sender = http_handshake(stream, protocol).await?;
        Ok(Connection { sender, info: self.info.clone() })
    }

    /// The server as a target of attacks. `list` is the path of a large list, and `object` is the path of a large
    /// object.
    pub(crate) fn attack_target(&self, list: &str, object: &str) -> AttackTarget {
        let mut config = ClientConfig::clone(self.tls.http1.config());
        config.alpn_protocols.clear();
        let address = format!("{}:{}", self.host, self.port);
        AttackTarget::new(&address, &self.tls.name.to_str(), config, list, object)
    }

    /// Opens the connections for `count` clients: a connection for each client with HTTP/1.1, one shared connection
    /// with HTTP/2.
    pub(crate) async fn connect_all(&self, count: usize, protocol: Protocol) -> Result<Vec<Connection>> {
        if protocol == Protocol::Http2 {
            let connection = self.connect(protocol).await?;
            return Ok((0..count).filter_map(|_| connection.share()).collect());
        }
        let (mut connections, mut opening) = (Vec::with_capacity(count), JoinSet::new());
        for _ in 0..count {
            if opening.len() == MAX_CONCURRENT_OPENS
                && let Some(opened) = opening.join_next().await
            {
                connections.push(opened??);
            }
            let endpoint = self.clone();
            opening.spawn(async move { endpoint.connect(protocol).await });
        }
        while let Some(opened) = opening.join_next().await {
            connections.push(opened??);
        }
        Ok(connections)
    }
}

/// Performs the HTTP handshake and spawns the connection's task.
async fn http_handshake(stream: TlsStream<TcpStream>, protocol: Protocol) -> Result<Sender> {
    let stream = TokioIo::new(stream);
    Ok(match protocol {
        Protocol::Http1 => {
            let (sender, connection) = http1::handshake(stream).await?;
            tokio::spawn(connection);
            Sender::Http1(sender)
        }
        Protocol::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
            let (sender, connection) = builder.handshake(stream).await?;
            tokio::spawn(connection);
            Sender::Http2(sender)
        }
    })
}

impl Connection {
    /// Returns another handle of the same connection, if the protocol supports concurrent requests.
    pub(crate) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self { sender: Sender::Http2(sender.clone()), info: self.info.clone() }),
        }
    }
}

fn tls_client_config(config: &ConnectionConfig) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.authorities) {
        roots.add(certificate?)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match &config.credentials.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<std::result::Result<_, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
        }
    })
}
