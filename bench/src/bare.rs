//! The server to compare with: hyper and rustls as Pintle uses them, client certificates verified, and finished bytes
//! for every answer. It is what is left of an API server when all the work is taken out: the ceiling on this machine.

use std::convert::Infallible;
use std::io::Write as _;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
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
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::Result;
use crate::certificates::{self, AUTHORITY, CERTIFICATE, KEY};
use crate::client::Access;
use crate::target::Process;

/// The path of the single object.
pub(crate) const OBJECT: &str = "/object";
/// The path of the list.
pub(crate) const LIST: &str = "/list";
/// The argument that leaves TLS out.
const PLAIN: &str = "plain";
/// The pieces in which the list is sent.
const PIECE: usize = 128 * 1024;

/// Starts the server as a process of its own, with certificates made in `scratch`.
pub(crate) async fn start(scratch: &Path, object: &Path, list: &Path) -> Result<Process> {
    let access = certificates::make(scratch)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare").arg(scratch).arg(object).arg(list);
    Process::start(command, |url| Ok(Access { url: url.to_owned(), ..access }), OBJECT).await
}

/// Starts the server without TLS.
pub(crate) async fn start_plain(scratch: &Path, object: &Path, list: &Path) -> Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare").arg(scratch).arg(object).arg(list).arg(PLAIN);
    Process::start(command, |url| Ok(Access { url: url.to_owned(), ..Access::default() }), OBJECT).await
}

/// Runs the server until the process is told to end. `arguments`: the folder of the certificates, the file of the
/// object's bytes and that of the list's; and `plain` for no TLS.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (certificates, object, list, is_plain) = match arguments {
        [certificates, object, list] => (certificates, object, list, false),
        [certificates, object, list, plain] if plain == PLAIN => (certificates, object, list, true),
        _ => return Err("bare CERTIFICATES OBJECT LIST [plain]".into()),
    };
    let content = Arc::new(Content { object: read(object)?, list: read(list)? });
    let acceptor = if is_plain { None } else { Some(TlsAcceptor::from(Arc::new(tls(Path::new(certificates))?))) };
    let scheme = if is_plain { "http" } else { "https" };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let socket = TcpListener::bind(("127.0.0.1", 0)).await?;
        let mut out = std::io::stdout();
        writeln!(out, "url: {scheme}://{}", socket.local_addr()?)?;
        out.flush()?;
        loop {
            let (stream, _) = socket.accept().await?;
            let (acceptor, content) = (acceptor.clone(), content.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let service = service_fn(move |request| {
                    let response = content.answer(&request);
                    async move { Ok::<_, Infallible>(response) }
                });
                let mut http1 = http1::Builder::new();
                http1.timer(TokioTimer::new()).pipeline_flush(true);
                let Some(acceptor) = acceptor else {
                    let _ = http1.serve_connection(TokioIo::new(stream), service).await;
                    return;
                };
                let Ok(stream) = acceptor.accept(stream).await else { return };
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    let server = http2::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                } else {
                    let _ = http1.serve_connection(TokioIo::new(stream), service).await;
                }
            });
        }
    })
}

fn read(path: &str) -> Result<Bytes> {
    Ok(std::fs::read(path).map_err(|error| format!("{path}: {error}"))?.into())
}

fn tls(folder: &Path) -> Result<ServerConfig> {
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

/// The finished answers.
struct Content {
    object: Bytes,
    list: Bytes,
}

impl Content {
    fn answer(&self, request: &Request<Incoming>) -> Response<Answer> {
        let body = match request.uri().path() {
            OBJECT => Answer { left: self.object.clone(), in_pieces: false, gives_way: false },
            LIST => Answer { left: self.list.clone(), in_pieces: true, gives_way: false },
            _ => {
                let mut response = Response::new(Answer { left: Bytes::new(), in_pieces: false, gives_way: false });
                *response.status_mut() = StatusCode::NOT_FOUND;
                return response;
            }
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Bytes on their way: at once and with their length, or piece by piece without, as a list comes that is made while it
/// is sent.
struct Answer {
    left: Bytes,
    in_pieces: bool,
    /// True after others had their turn: a list that is taken as fast as it comes would not let them.
    gives_way: bool,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        if self.in_pieces {
            self.gives_way = !self.gives_way;
            if self.gives_way {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let length = if self.in_pieces { PIECE.min(self.left.len()) } else { self.left.len() };
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.in_pieces { SizeHint::default() } else { SizeHint::with_exact(self.left.len() as u64) }
    }
}
