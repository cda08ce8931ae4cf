//! Where a server is and how connections to it are opened.

use std::sync::Arc;

use http::HeaderValue;
use http::uri::{Authority, Uri};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::{Common, Connection, Protocol, Sender};
use crate::Result;

/// Handshakes under way at a time when many connections are opened.
const OPENING: usize = 32;
/// The windows that client-go's HTTP/2 gives a stream and a connection, in bytes.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Who asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    /// A client certificate and its key, in PEM.
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// A bearer token.
    pub(crate) token: Option<String>,
}

/// What is needed to speak to a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// The base of all URLs: `https://HOST[:PORT][/PREFIX]`, or `http` for the bare server.
    pub(crate) url: String,
    /// The name that the server's certificate has to have, where that is not the URL's host.
    pub(crate) server_name: Option<String>,
    /// The authorities that may have signed the server's certificate, in PEM.
    pub(crate) authorities: Vec<u8>,
    /// Who asks.
    pub(crate) identity: Identity,
}

/// A server's address and the ways to speak to it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    host: String,
    port: u16,
    /// `None` for plain HTTP.
    tls: Option<Tls>,
    common: Arc<Common>,
}

/// The ways to shake hands with a server.
#[derive(Clone)]
struct Tls {
    name: ServerName<'static>,
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Tls {
    /// Shakes hands with the server of this host as `access` says.
    fn new(access: &Access, host: &str) -> Result<Self> {
        let name = ServerName::try_from(access.server_name.clone().unwrap_or_else(|| host.to_owned()))?;
        let config = tls(access)?;
        let with = |protocol: &str| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        Ok(Self { name, http1: with("http/1.1"), http2: with("h2") })
    }
}

impl Endpoint {
    /// The server that may be reached like this.
    pub(crate) fn new(access: &Access) -> Result<Self> {
        let uri: Uri = access.url.parse()?;
        let is_plain = match uri.scheme_str() {
            Some("https") => false,
            Some("http") => true,
            _ => return Err(format!("{}: only https and http are spoken", access.url).into()),
        };
        let authority: Authority = uri.authority().ok_or("the server's URL has no host")?.clone();
        // An IPv6 address stands in brackets in a URL, and without them everywhere else.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = if is_plain { None } else { Some(Tls::new(access, &host)?) };
        let common = Common {
            host: HeaderValue::from_str(authority.as_str())?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            bearer: match &access.identity.token {
                Some(token) => Some(HeaderValue::from_str(&format!("Bearer {token}"))?),
                None => None,
            },
            authority: authority.clone(),
        };
        let port = authority.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        Ok(Self { host, port, tls, common: Arc::new(common) })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self, protocol: Protocol) -> Result<Connection> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let sender = match &self.tls {
            None => greet(stream, protocol).await?,
            Some(tls) => {
                let connector = match protocol {
                    Protocol::Http1 => &tls.http1,
                    Protocol::Http2 => &tls.http2,
                };
                greet(connector.connect(tls.name.clone(), stream).await?, protocol).await?
            }
        };
        Ok(Connection { sender, common: self.common.clone() })
    }

    /// What `count` clients need: a connection for each, or the same for all.
    pub(crate) async fn connect_all(&self, count: usize, protocol: Protocol) -> Result<Vec<Connection>> {
        if protocol == Protocol::Http2 {
            let connection = self.connect(protocol).await?;
            return Ok((0..count).filter_map(|_| connection.share()).collect());
        }
        let (mut connections, mut opening) = (Vec::with_capacity(count), JoinSet::new());
        for _ in 0..count {
            if opening.len() == OPENING
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

/// Begins to speak HTTP.
async fn greet<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, protocol: Protocol) -> Result<Sender> {
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
    /// Another handle of the same connection, where more than one request at a time may use it.
    fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self { sender: Sender::Http2(sender.clone()), common: self.common.clone() }),
        }
    }
}

fn tls(access: &Access) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&access.authorities) {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match &access.identity.certificate {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<std::result::Result<_, _>>()?;
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
        }
    })
}
