//! An HTTPS server in the test's process, with a self-signed certificate. The webhooks and issuers of tests use it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;
use tokio_rustls::TlsAcceptor;

/// A received request.
#[derive(Clone)]
pub struct ReceivedRequest {
    /// The request line and the headers as they were sent, with the empty line.
    pub head: String,
    /// The path, with its query.
    pub path: String,
    /// The whole body.
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    /// Reads a request; `None` if the client has closed the connection.
    async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<Option<Self>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_until(b'\n', &mut head).await? == 0 {
                return Ok(None);
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut request = Self { head, path, body: Vec::new() };
        if request.header("transfer-encoding") == Some("chunked") {
            request.body = read_chunks(stream).await?;
            return Ok(Some(request));
        }
        request.body = vec![0; request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
        stream.read_exact(&mut request.body).await?;
        Ok(Some(request))
    }

    /// Reads a request of an HTTP/2 stream, and gives its head the form of HTTP/1.1.
    async fn collect(request: Request<Incoming>) -> Result<Self, hyper::Error> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let mut head = format!("{} {path} {:?}\r\n", parts.method, parts.version);
        if let Some(authority) = parts.uri.authority() {
            head += &format!("host: {authority}\r\n");
        }
        for (name, value) in &parts.headers {
            head += &format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()));
        }
        head += "\r\n";
        Ok(Self { head, path, body: body.collect().await?.to_bytes().into() })
    }

    /// The version of HTTP, such as `HTTP/1.1`.
    pub fn protocol(&self) -> &str {
        self.head.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default()
    }

    /// The value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.into_iter().find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }
}

/// A response.
pub struct SentResponse {
    /// The status code.
    pub code: u16,
    /// The lines of the headers, each with its line break.
    pub headers: String,
    /// The body.
    pub body: SentBody,
}

/// The body of a response.
pub enum SentBody {
    /// These bytes, with a `Content-Length`.
    Whole(Vec<u8>),
    /// Endless spaces.
    Endless,
    /// The pieces that arrive in this channel. The channel is closed when the client no longer receives the body.
    Pieces(Receiver<Bytes>),
    /// A body that is shorter than its `Content-Length`. Then the server closes the connection.
    CutOff,
    /// These bytes instead of the whole response, head included. The connection is closed unless it can serve another
    /// request. Only for HTTP/1.1.
    Verbatim {
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether the bytes are a whole response, after which another request may follow.
        is_whole: bool,
    },
}

impl SentResponse {
    /// A response in JSON.
    pub fn json(code: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(code, body).header("Content-Type: application/json")
    }

    /// A response without a content type.
    pub fn new(code: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { code, headers: String::new(), body: SentBody::Whole(body.into()) }
    }

    /// Adds the line of a header.
    #[must_use]
    pub fn header(mut self, line: &str) -> Self {
        self.headers += line;
        self.headers += "\r\n";
        self
    }

    /// Converts the response for an HTTP/2 stream.
    fn into_http2(self) -> Response<BoxBody<Bytes, io::Error>> {
        let Self { code, headers, body } = self;
        let mut response = Response::builder().status(code);
        for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
            response = response.header(name, value);
        }
        let body = match body {
            SentBody::Whole(body) => Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed(),
            SentBody::Endless => PiecewiseBody { piece: &[b' '; 65536], is_endless: true }.boxed(),
            SentBody::Pieces(pieces) => ReceivedBody(pieces).boxed(),
            SentBody::CutOff | SentBody::Verbatim { .. } => PiecewiseBody { piece: b"{", is_endless: false }.boxed(),
        };
        response.body(body).expect("valid headers")
    }

    /// Writes the response. Returns whether the connection can serve another request.
    async fn write(self, stream: &mut (impl AsyncBufRead + AsyncWrite + Unpin)) -> std::io::Result<bool> {
        let Self { code, headers, body } = self;
        let head = format!("HTTP/1.1 {code} Whatever\r\n{headers}");
        match body {
            SentBody::Whole(body) => {
                let length = format!("Content-Length: {}\r\n\r\n", body.len());
                stream.write_all(&[head.as_bytes(), length.as_bytes(), &body].concat()).await?;
                stream.flush().await?;
                Ok(true)
            }
            SentBody::Endless => {
                stream.write_all(format!("{head}\r\n").as_bytes()).await?;
                loop {
                    stream.write_all(&[b' '; 65536]).await?;
                }
            }
            SentBody::Pieces(mut pieces) => {
                stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await?;
                stream.flush().await?;
                loop {
                    let piece = tokio::select! {
                        piece = pieces.recv() => piece.unwrap_or_default(),
                        () = is_closed(stream) => return Ok(false),
                    };
                    stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
                    stream.write_all(&piece).await?;
                    stream.write_all(b"\r\n").await?;
                    stream.flush().await?;
                    if piece.is_empty() {
                        return Ok(true);
                    }
                }
            }
            SentBody::CutOff => {
                stream.write_all(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()).await?;
                stream.shutdown().await?;
                Ok(false)
            }
            SentBody::Verbatim { bytes, is_whole } => {
                stream.write_all(&bytes).await?;
                match is_whole {
                    true => stream.flush().await?,
                    false => stream.shutdown().await?,
                }
                Ok(is_whole)
            }
        }
    }
}

/// Reads a body in chunks, with its trailers.
async fn read_chunks(stream: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let length = line.split(';').next().map(|length| usize::from_str_radix(length.trim(), 16));
        let Some(Ok(length)) = length else { return Err(io::Error::other("no length of a chunk")) };
        if length == 0 {
            break;
        }
        let start = body.len();
        body.resize(start + length, 0);
        stream.read_exact(&mut body[start..]).await?;
        stream.read_line(&mut line).await?;
    }
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 || line.trim().is_empty() {
            return Ok(body);
        }
    }
}

/// A body that repeats a piece endlessly, or fails after the piece.
struct PiecewiseBody {
    piece: &'static [u8],
    is_endless: bool,
}

impl Body for PiecewiseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = if self.is_endless { self.piece } else { std::mem::take(&mut self.piece) };
        Poll::Ready(Some(match piece {
            [] => Err(io::Error::other("the response is cut off")),
            piece => Ok(Frame::data(Bytes::from_static(piece))),
        }))
    }
}

/// Waits until the client has closed the connection.
async fn is_closed(stream: &mut (impl AsyncBufRead + Unpin)) {
    if stream.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
        // The next request of the client.
        std::future::pending::<()>().await;
    }
}

/// A body of the pieces that arrive in a channel.
struct ReceivedBody(Receiver<Bytes>);

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A running server. It runs until the runtime ends.
pub struct HttpsServer {
    /// The port of the server on 127.0.0.1.
    pub port: u16,
    /// The certificate of the server, in PEM.
    pub authority: String,
    /// The name in the certificate; `None` if the certificate is for the address.
    name: Option<String>,
    connections: Arc<AtomicUsize>,
}

impl HttpsServer {
    /// Starts a server whose certificate is for its address. The function `answer` computes the response to each
    /// request.
    pub async fn start<A>(answer: impl Fn(ReceivedRequest) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = SentResponse> + Send + 'static,
    {
        Self::start_with_names(&["127.0.0.1"], answer).await
    }

    /// Starts a server whose certificate is for some names.
    pub async fn start_with_names<A>(
        names: &[&str],
        answer: impl Fn(ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = SentResponse> + Send + 'static,
    {
        Self::start_with_validity(names, None, &[], answer).await
    }

    /// Starts a server that also supports HTTP/2, and prefers it.
    pub async fn start_with_http2<A>(
        names: &[&str],
        answer: impl Fn(ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = SentResponse> + Send + 'static,
    {
        Self::start_with_validity(names, None, &["h2", "http/1.1"], answer).await
    }

    /// Starts a server whose certificate expired long ago.
    pub async fn start_expired<A>(answer: impl Fn(ReceivedRequest) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = SentResponse> + Send + 'static,
    {
        Self::start_with_validity(&["127.0.0.1"], Some(2001), &[], answer).await
    }

    /// Starts a server whose certificate is for some names and expired long ago.
    pub async fn start_expired_with_names<A>(
        names: &[&str],
        answer: impl Fn(ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = SentResponse> + Send + 'static,
    {
        Self::start_with_validity(names, Some(2001), &[], answer).await
    }

    /// Starts a server whose certificate is valid until the beginning of a year, if a year is given. It negotiates
    /// these protocols, or uses HTTP/1.1 if there are none.
    async fn start_with_validity<A>(
        names: &[&str],
        until: Option<i32>,
        protocols: &[&str],
        answer: impl Fn(ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = SentResponse> + Send + 'static,
    {
        let subject_names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = rcgen::CertificateParams::new(subject_names).expect("names");
        if let Some(year) = until {
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        }
        let signing_key = rcgen::KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&signing_key).expect("a certificate");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("supported TLS versions")
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], key)
                .expect("a certificate that matches its key");
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (answer, connections) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
        let counter = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    // A client may close its connection at any time.
                    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                        let service = service_fn(move |request| {
                            let answer = answer.clone();
                            async move {
                                let request = ReceivedRequest::collect(request).await?;
                                Ok::<_, hyper::Error>(answer(request).await.into_http2())
                            }
                        });
                        let builder = http2::Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                    } else {
                        let _ = serve(stream, &*answer).await;
                    }
                });
            }
        });
        let name = (!names.contains(&"127.0.0.1")).then(|| names.first().map(|name| (*name).to_owned()));
        Self { port, authority: certificate.pem(), name: name.flatten(), connections }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// A kubeconfig for the URL of a path, with the token `hook-token`.
    pub fn kubeconfig(&self, path: &str) -> String {
        let name = self.name.as_ref().map(|name| format!(", tls-server-name: {name}")).unwrap_or_default();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: '{}', certificate-authority-data: {}{name}}}}}]\n\
             users: [{{name: u, user: {{token: hook-token}}}}]\n",
            self.url(path),
            self.ca_bundle(),
        )
    }

    /// The certificate as PEM in base64, for `caBundle`.
    pub fn ca_bundle(&self) -> String {
        pintle_schema::base64::encode(self.authority.as_bytes())
    }

    /// The number of accepted connections.
    pub fn connection_count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Serves the requests of a connection.
async fn serve<A: Future<Output = SentResponse>>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &impl Fn(ReceivedRequest) -> A,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = ReceivedRequest::read(&mut stream).await? {
        let response = tokio::select! {
            response = answer(request) => response,
            () = is_closed(&mut stream) => break,
        };
        if !response.write(&mut stream).await? {
            break;
        }
    }
    Ok(())
}
