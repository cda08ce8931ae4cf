//! Servers, bodies and certificates for the tests.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_outbound::{CallLimits, Client, ClientConfig, Http2HealthCheck, Protocols, ServerTrust};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// Limits that no call reaches, except for the size of the body.
pub(crate) const GENEROUS: CallLimits = CallLimits { timeout: Duration::from_secs(60), max_body_bytes: 10 };

/// The bytes of one frame of a [`TestBody`].
pub(crate) static FRAME: [u8; 64 << 10] = [7; 64 << 10];

/// A body of a server's response.
pub(crate) type ServerBody = UnsyncBoxBody<Bytes, io::Error>;

pub(crate) fn text(text: &str) -> ServerBody {
    Full::new(Bytes::copy_from_slice(text.as_bytes())).map_err(|never: Infallible| match never {}).boxed_unsync()
}

pub(crate) fn empty() -> ServerBody {
    Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A request body without bytes.
pub(crate) fn no_body() -> Empty<Bytes> {
    Empty::new()
}

pub(crate) fn get(url: &str) -> Request<Empty<Bytes>> {
    Request::get(url).body(no_body()).expect("a request")
}

/// A client that trusts every server.
pub(crate) fn insecure_client() -> Client {
    client(ServerTrust::InsecureSkipVerify)
}

pub(crate) fn client(server_trust: ServerTrust<'_>) -> Client {
    Client::new(&ClientConfig { server_trust, ..ClientConfig::default() }).expect("a client")
}

/// HTTP/2 with a health check that never triggers in a test.
pub(crate) const HTTP2: Protocols = Protocols::Http2(Http2HealthCheck {
    read_idle_timeout: Some(Duration::from_secs(30)),
    ping_timeout: Duration::from_secs(15),
});

/// A client that trusts every server and offers these protocols.
pub(crate) fn client_with(protocols: Protocols) -> Client {
    let config = ClientConfig { server_trust: ServerTrust::InsecureSkipVerify, protocols, ..ClientConfig::default() };
    Client::new(&config).expect("a client")
}

/// Fails a test that hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("the test finishes")
}

/// Serves HTTP with a handler, which gets the number of the connection, counted from 1. Returns `HOST:PORT`.
pub(crate) async fn serve<F, R>(tls: Option<TlsAcceptor>, handler: F) -> String
where
    F: Fn(usize, Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<ServerBody>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let connections = AtomicUsize::new(0);
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (tls, handler) = (tls.clone(), handler.clone());
            let number = connections.fetch_add(1, Ordering::Relaxed) + 1;
            tokio::spawn(async move {
                match tls {
                    None => serve_connection(stream, false, number, handler).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                            serve_connection(stream, is_http2, number, handler).await;
                        }
                    }
                }
            });
        }
    });
    address
}

async fn serve_connection<F, R>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    is_http2: bool,
    number: usize,
    handler: F,
) where
    F: Fn(usize, Request<Incoming>) -> R + Send + 'static,
    R: Future<Output = Response<ServerBody>> + Send + 'static,
{
    let service = service_fn(|request| {
        let response = handler(number, request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    if is_http2 {
        let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        return;
    }
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

/// The behaviour of a [`TestBody`] after its frames.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFrames {
    End,
    /// Never yields anything again.
    Stall,
    Fail,
}

/// A body of a number of frames.
pub(crate) struct TestBody {
    frames: u64,
    after: AfterFrames,
    /// Counts the bytes that the body has yielded.
    pub(crate) produced: Arc<AtomicU64>,
    /// The receiver learns from this sender when the body is dropped.
    _dropped: oneshot::Sender<()>,
}

impl TestBody {
    /// A body, and a receiver that completes when the body is dropped.
    pub(crate) fn new(frames: u64, after: AfterFrames) -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self { frames, after, produced: Arc::default(), _dropped: sender }, receiver)
    }
}

impl Body for TestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.frames > 0 {
            self.frames -= 1;
            self.produced.fetch_add(FRAME.len() as u64, Ordering::Relaxed);
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&FRAME)))));
        }
        match self.after {
            AfterFrames::End => Poll::Ready(None),
            AfterFrames::Stall => Poll::Pending,
            AfterFrames::Fail => Poll::Ready(Some(Err(io::Error::other("the body failed")))),
        }
    }
}

/// Reads the head of a request.
///
/// # Errors
/// The connection ends before.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(())
}

/// A certificate for 127.0.0.1 in PEM, and an acceptor that serves with it.
pub(crate) fn serving_certificate() -> (String, TlsAcceptor) {
    self_signed(CertificateParams::new(["127.0.0.1".to_owned()]).expect("names"))
}

/// An acceptor with a certificate for 127.0.0.1 that offers these protocols (ALPN).
pub(crate) fn acceptor(protocols: &[&str]) -> TlsAcceptor {
    let (_, acceptor) = serving_certificate();
    let mut config = rustls::ServerConfig::clone(acceptor.config());
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// A self-signed certificate in PEM, and an acceptor that serves with it.
pub(crate) fn self_signed(params: CertificateParams) -> (String, TlsAcceptor) {
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    let (der, pem) = (certificate.der().clone(), certificate.pem());
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = server_config().with_no_client_auth().with_single_cert(vec![der], key);
    (pem, TlsAcceptor::from(Arc::new(config.expect("a certificate that fits its key"))))
}

pub(crate) fn server_config() -> rustls::ConfigBuilder<rustls::ServerConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    builder.with_safe_default_protocol_versions().expect("TLS versions")
}
