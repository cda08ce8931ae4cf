//! An HTTPS server in the test's process, with a self-signed certificate.

use std::pin::Pin;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A received request.
pub(crate) struct ReceivedRequest {
    /// The request line and the headers, in lower case.
    pub(crate) head: String,
    /// The path, with its query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// A response: the status code, header lines and the body.
pub(crate) struct SentResponse {
    pub(crate) code: u16,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

impl SentResponse {
    pub(crate) fn new(code: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { code, headers: String::new(), body: body.into() }
    }
}

type Answer = Pin<Box<dyn Future<Output = SentResponse> + Send>>;

/// A running server.
pub(crate) struct HttpsServer {
    pub(crate) port: u16,
    /// Its certificate, in PEM.
    pub(crate) authority: String,
}

impl HttpsServer {
    /// Starts a server that answers each request with what a function returns.
    pub(crate) async fn start(answer: impl Fn(ReceivedRequest) -> Answer + Send + Sync + 'static) -> Self {
        let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).expect("a key");
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("supported TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key)
            .expect("a certificate that matches its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = serve(stream, &*answer).await;
                    }
                });
            }
        });
        Self { port, authority: certificate.cert.pem() }
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }
}

/// Serves the requests of a connection.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &(dyn Fn(ReceivedRequest) -> Answer + Send + Sync),
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        let SentResponse { code, headers, body } = answer(ReceivedRequest { head, path, body }).await;
        let head = format!(
            "HTTP/1.1 {code} Whatever\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body].concat()).await?;
        stream.flush().await?;
    }
}
