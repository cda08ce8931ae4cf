//! The baseline server. It uses hyper and rustls with Pintle's configuration, verifies client certificates, and has
//! precomputed bytes for every response. It does the HTTP and TLS work of an API server and nothing else, so it is the
//! upper bound on this machine.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;

use crate::Result;
use crate::certificates::{self, AUTHORITY, CERTIFICATE, KEY};
use crate::client::ConnectionConfig;
use crate::target::{ReadyServer, ServerProcess};

/// The path of the single object.
pub(crate) const OBJECT: &str = "/object";
/// The path of the list.
pub(crate) const LIST: &str = "/list";
/// The path of the watch. Each request to [`EVENTS`] sends one event to it.
pub(crate) const WATCH: &str = "/watch";
/// The path of requests that send an event to all watches. The response is the object.
pub(crate) const EVENTS: &str = "/events";
/// The path of the discovery document of an aggregated version. The response is the object, which nobody reads.
const VERSION: &str = "/v1";
/// The start of the line that the server prints when it is ready.
const URL_PREFIX: &str = "url:";
/// The size of the chunks in which the list is sent, in bytes.
const CHUNK_SIZE: usize = 128 * 1024;

/// Starts the server as a separate process, with certificates generated in `scratch`.
pub(crate) async fn start(scratch: &Path, object: &Path, list: &Path) -> Result<ServerProcess> {
    let config = certificates::generate(scratch)?;
    start_process(&[OsStr::new("baseline"), scratch.as_os_str(), object.as_os_str(), list.as_os_str()], &config).await
}

/// Starts this program with a command that serves [`OBJECT`].
pub(crate) async fn start_process(arguments: &[&OsStr], config: &ConnectionConfig) -> Result<ServerProcess> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null());
    let ready = |line: &str| {
        let url = line.strip_prefix(URL_PREFIX)?.trim().to_owned();
        Some(Ok(ReadyServer { config: ConnectionConfig { url, ..config.clone() }, children: Vec::new() }))
    };
    ServerProcess::start(command, ready, OBJECT).await
}

/// Runs the server until the process is terminated. `arguments` are the directory of the certificates, the file with
/// the object, and the file with the list.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [certificates, object, list] = arguments else {
        return Err("usage: pintle-bench baseline CERTIFICATES OBJECT LIST".into());
    };
    let content = Arc::new(Responses::new(read(object)?, read(list)?));
    let acceptor = TlsAcceptor::from(Arc::new(tls_config(Path::new(certificates))?));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(acceptor, move |request: Request<Incoming>| {
        let response = content.respond(&request);
        async move { Ok(response) }
    }))
}

/// Serves HTTP over TLS on a local port, which it prints.
pub(crate) async fn serve<Respond, Answer, B>(acceptor: TlsAcceptor, respond: Respond) -> Result<()>
where
    Respond: Fn(Request<Incoming>) -> Answer + Clone + Send + 'static,
    Answer: Future<Output = std::result::Result<Response<B>, Infallible>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let socket = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{URL_PREFIX} https://{}", socket.local_addr()?)?;
    out.flush()?;
    loop {
        let (stream, _) = socket.accept().await?;
        let (acceptor, service) = (acceptor.clone(), service_fn(respond.clone()));
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let mut http1 = http1::Builder::new();
            http1.timer(TokioTimer::new()).pipeline_flush(true);
            let Ok(stream) = acceptor.accept(stream).await else { return };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                let server = http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            } else {
                let _ = http1.serve_connection(TokioIo::new(stream), service).await;
            }
        });
    }
}

fn read(path: &str) -> Result<Bytes> {
    Ok(std::fs::read(path).map_err(|error| format!("{path}: {error}"))?.into())
}

/// The TLS configuration of a server whose certificates are in `folder`.
pub(crate) fn tls_config(folder: &Path) -> Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join(AUTHORITY))?)?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let chain = vec![CertificateDer::from_pem_file(folder.join(CERTIFICATE))?];
    let key = PrivateKeyDer::from_pem_file(folder.join(KEY))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The precomputed response bodies, and the watchers.
struct Responses {
    object: Bytes,
    list: Bytes,
    event: Bytes,
    watchers: Mutex<Vec<UnboundedSender<Bytes>>>,
}

impl Responses {
    fn new(object: Bytes, list: Bytes) -> Self {
        // A line has one event, and the object ends with a line break.
        let event = [br#"{"type":"ADDED","object":"#, object.trim_ascii_end(), b"}\n"].concat().into();
        Self { object, list, event, watchers: Mutex::default() }
    }

    fn respond(&self, request: &Request<Incoming>) -> Response<Body> {
        let whole = |bytes: &Bytes, is_chunked| {
            Body::Static(StaticBody { remaining: bytes.clone(), is_chunked, has_yielded: false })
        };
        // The paths may be below a version, as an aggregated API server has them.
        let path = request.uri().path();
        let (status, body) = match path.rfind('/').map_or(path, |slash| &path[slash..]) {
            VERSION | OBJECT => (StatusCode::OK, whole(&self.object, false)),
            LIST => (StatusCode::OK, whole(&self.list, true)),
            WATCH => {
                let (sender, events) = unbounded_channel();
                self.watchers.lock().push(sender);
                (StatusCode::OK, Body::Events(events))
            }
            EVENTS => {
                self.watchers.lock().retain(|watcher| watcher.send(self.event.clone()).is_ok());
                (StatusCode::CREATED, whole(&self.object, false))
            }
            _ => (StatusCode::NOT_FOUND, whole(&Bytes::new(), false)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// A response body.
enum Body {
    Static(StaticBody),
    Events(UnboundedReceiver<Bytes>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PolledFrame>> {
        match self.get_mut() {
            Self::Static(body) => body.poll_frame(cx),
            Self::Events(events) => events.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Static(body) if body.remaining.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Static(body) if !body.is_chunked => SizeHint::with_exact(body.remaining.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

type PolledFrame = std::result::Result<Frame<Bytes>, Infallible>;

/// A precomputed response body. The object is sent at once with its length. The list is sent in chunks without a
/// length, like a list that is encoded while it is sent.
struct StaticBody {
    remaining: Bytes,
    is_chunked: bool,
    /// True if the last poll yielded. Without yielding, a client that reads the list as fast as it is sent would starve
    /// other tasks.
    has_yielded: bool,
}

impl StaticBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<PolledFrame>> {
        if self.remaining.is_empty() {
            return Poll::Ready(None);
        }
        if self.is_chunked {
            self.has_yielded = !self.has_yielded;
            if self.has_yielded {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let length = if self.is_chunked { CHUNK_SIZE.min(self.remaining.len()) } else { self.remaining.len() };
        Poll::Ready(Some(Ok(Frame::data(self.remaining.split_to(length)))))
    }
}
