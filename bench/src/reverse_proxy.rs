//! A bare reverse proxy with hyper and rustls: the upper bound for requests that an API server passes on to another one.
//! It passes on GETs with their headers, over one HTTP/2 connection, and does nothing else.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use http::header::HOST;
use http::{Request, Response, StatusCode};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use tokio_rustls::TlsAcceptor;

use crate::Result;
use crate::baseline::{self, start_process, tls_config};
use crate::certificates;
use crate::client::{Connection, ConnectionConfig, Endpoint, Protocol, get};
use crate::target::ServerProcess;

/// The command of the proxy's process.
pub(crate) const COMMAND: &str = "reverse-proxy";

/// Starts the proxy as a separate process, before the baseline server whose certificates are in `scratch`.
pub(crate) async fn start(scratch: &Path, backend: &str) -> Result<ServerProcess> {
    let arguments = [OsStr::new(COMMAND), scratch.as_os_str(), OsStr::new(backend)];
    start_process(&arguments, &certificates::client(scratch)?).await
}

/// Runs the proxy until the process is terminated. `arguments` are the directory of the certificates and the URL of the
/// server behind it.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [certificates, backend] = arguments else {
        return Err("usage: pintle-bench reverse-proxy CERTIFICATES URL".into());
    };
    let folder = Path::new(certificates);
    let acceptor = TlsAcceptor::from(Arc::new(tls_config(folder)?));
    let endpoint = Endpoint::new(&ConnectionConfig { url: backend.clone(), ..certificates::client(folder)? })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let backend = Arc::new(endpoint.connect(Protocol::Http2).await?);
        baseline::serve(acceptor, move |request| pass_on(backend.clone(), request)).await
    })
}

/// The response of the server, whose body is streamed.
type Answer = Response<Either<Incoming, Empty<bytes::Bytes>>>;

async fn pass_on(backend: Arc<Connection>, request: Request<Incoming>) -> std::result::Result<Answer, Infallible> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut passed = get(path);
    passed.headers_mut().extend(request.headers().clone());
    passed.headers_mut().remove(HOST);
    let answer = match backend.share() {
        Some(mut connection) => connection.send(passed).await,
        None => Err("the connection to the server is not shared".into()),
    };
    Ok(answer.map(|answer| answer.map(Either::Left)).unwrap_or_else(|_| {
        let mut failed = Response::new(Either::Right(Empty::new()));
        *failed.status_mut() = StatusCode::BAD_GATEWAY;
        failed
    }))
}
