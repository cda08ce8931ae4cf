//! Connections through proxies with the method CONNECT.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use pintle_outbound::{
    CallLimits, Client, ClientCertificate, ClientConfig, DialAddress, Dialer, HttpConnectProxy, Protocols, ServerTrust,
    StreamOptions, UpgradeResponse,
};
use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::support::{GENEROUS, HTTP2, ServerBody, acceptor, serve, server_config, text, within};

/// The host of all requests. Only the proxy knows its address.
const HOST: &str = "backend.invalid:443";

/// How a proxy answers.
#[derive(Clone, Debug)]
enum Answer {
    /// Makes a tunnel to this address.
    Tunnel(String),
    /// Sends this text, and closes the connection.
    Text(&'static str),
    /// Sends this text again and again.
    Endless(&'static str),
    /// Sends nothing.
    Silence,
}

/// A proxy, which records the heads of requests.
#[derive(Clone)]
struct TestProxy {
    answer: Answer,
    heads: Arc<Mutex<Vec<String>>>,
}

impl TestProxy {
    fn new(answer: Answer) -> Self {
        Self { answer, heads: Arc::default() }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("the heads").clone()
    }

    async fn serve(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        self.heads.lock().expect("the heads").push(String::from_utf8_lossy(&head).into_owned());
        match self.answer {
            Answer::Tunnel(target) => {
                let mut backend = TcpStream::connect(target).await.expect("the backend");
                let _ = stream.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n").await;
                let _ = copy_bidirectional(&mut stream, &mut backend).await;
            }
            Answer::Text(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
            Answer::Endless(text) => while stream.write_all(text.as_bytes()).await.is_ok() {},
            Answer::Silence => while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {},
        }
    }

    /// Listens on a TCP port, with or without TLS.
    async fn listen(&self, tls: Option<TlsAcceptor>) -> DialAddress {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let proxy = self.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (proxy, tls) = (proxy.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => proxy.serve(stream).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                proxy.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        DialAddress { host: "127.0.0.1".to_owned(), port }
    }

    fn listen_at(&self, path: &Path) {
        let listener = UnixListener::bind(path).expect("a socket");
        let proxy = self.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(proxy.clone().serve(stream));
            }
        });
    }
}

/// A client that trusts every server, and reaches servers through a proxy.
fn client(proxy: &Arc<HttpConnectProxy>, protocols: Protocols) -> Client {
    let dialer = Dialer::HttpConnect(proxy.clone());
    let server_trust = ServerTrust::InsecureSkipVerify;
    Client::new(&ClientConfig { server_trust, protocols, dialer, ..ClientConfig::default() }).expect("a client")
}

fn request() -> Request<Bytes> {
    Request::get(format!("https://{HOST}/")).body(Bytes::new()).expect("a request")
}

async fn answer_ok(_: usize, mut request: Request<Incoming>) -> Response<ServerBody> {
    if !request.headers().contains_key(UPGRADE) {
        return Response::new(text("ok"));
    }
    tokio::spawn(async move {
        let stream = hyper::upgrade::on(&mut request).await.expect("an upgrade");
        let (mut read, mut write) = tokio::io::split(hyper_util::rt::TokioIo::new(stream));
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    response.header(CONNECTION, "Upgrade").header(UPGRADE, "x").body(text("")).expect("a response")
}

/// Sends two requests and an upgrade through a proxy, which makes a tunnel for the requests and another for the
/// upgrade.
async fn check_tunnels(test: &TestProxy, proxy: HttpConnectProxy, protocols: Protocols) {
    let proxy = Arc::new(proxy);
    let client = client(&proxy, protocols);
    for _ in 0..2 {
        let response = client.send(request(), GENEROUS).await.expect("a response");
        assert_eq!(response.into_body().bytes, "ok");
    }
    let request = Request::get(format!("https://{HOST}/")).header(CONNECTION, "Upgrade").header(UPGRADE, "x");
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    match client.upgrade(request, StreamOptions::default()).await.expect("a response") {
        UpgradeResponse::Upgraded(response) => {
            let mut stream = response.into_body();
            stream.write_all(b"bytes").await.expect("an open connection");
            let mut echoed = [0; 5];
            let _ = stream.read_exact(&mut echoed).await.expect("an echo");
            assert_eq!(&echoed, b"bytes");
        }
        UpgradeResponse::NotUpgraded(response) => panic!("{response:?}"),
    }
    let head = format!("CONNECT {HOST} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_eq!(test.heads(), [head.clone(), head]);
    let metrics = proxy.metrics();
    assert_eq!((metrics.starts.get(), metrics.durations.count()), (2, 2));
    assert_eq!((metrics.connect_failures.get(), metrics.proxy_failures.get()), (0, 0));
}

#[tokio::test]
async fn requests_go_through_tunnels() {
    within(async {
        let backend = serve(Some(acceptor(&["h2", "http/1.1"])), answer_ok).await;
        for protocols in [Protocols::Http1, HTTP2] {
            let test = TestProxy::new(Answer::Tunnel(backend.clone()));
            check_tunnels(&test, HttpConnectProxy::tcp(test.listen(None).await), protocols).await;
            let test = TestProxy::new(Answer::Tunnel(backend.clone()));
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("proxy.sock");
            test.listen_at(&path);
            check_tunnels(&test, HttpConnectProxy::unix(path), protocols).await;
        }
    })
    .await;
}

/// A self-signed certificate for a name, and its key, in PEM.
fn certificate(name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new([name.to_owned()]).expect("names");
    (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
}

#[tokio::test]
async fn proxies_with_tls_verify_the_client() {
    within(async {
        let backend = serve(Some(acceptor(&["http/1.1"])), answer_ok).await;
        let (proxy, own) = (certificate("proxy.example"), certificate("client"));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(own.0.as_bytes()).expect("PEM")).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let chain = vec![CertificateDer::from_pem_slice(proxy.0.as_bytes()).expect("PEM")];
        let key = PrivateKeyDer::from_pem_slice(proxy.1.as_bytes()).expect("PEM");
        let config = server_config().with_client_cert_verifier(verifier.expect("a verifier"));
        let config = config.with_single_cert(chain, key).expect("a certificate");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let trust = ServerTrust::Authorities(proxy.0.as_bytes());
        let identity = ClientCertificate { chain: own.0.as_bytes(), key: own.1.as_bytes() };

        let test = TestProxy::new(Answer::Tunnel(backend.clone()));
        let address = test.listen(Some(acceptor.clone())).await;
        let tls = HttpConnectProxy::tls(address.clone(), Some("proxy.example"), trust, identity);
        check_tunnels(&test, tls.expect("a proxy"), Protocols::Http1).await;

        // Without the other name, the host of the address counts.
        let tls = Arc::new(HttpConnectProxy::tls(address.clone(), None, trust, identity).expect("a proxy"));
        let error = client(&tls, Protocols::Http1).send(request(), GENEROUS).await.expect_err("another name");
        assert!(error.to_string().contains("tls: failed to verify certificate: x509: "), "{error}");
        assert_eq!((tls.metrics().connect_failures.get(), tls.metrics().proxy_failures.get()), (1, 0));

        // The proxy refuses another client.
        let other = certificate("client");
        let identity = ClientCertificate { chain: other.0.as_bytes(), key: other.1.as_bytes() };
        let tls = HttpConnectProxy::tls(address.clone(), Some("proxy.example"), trust, identity).expect("a proxy");
        let error = client(&Arc::new(tls), Protocols::Http1).send(request(), GENEROUS).await.expect_err("a stranger");
        let prefix =
            format!("Get \"https://{HOST}/\": reading HTTP response from CONNECT to {HOST} via proxy {address}");
        assert!(error.to_string().starts_with(&prefix), "{error}");
        assert_eq!(test.heads().len(), 2);
    })
    .await;
}

/// Checks the error of a request, in which `PROXY` stands for the address of the proxy. Returns the failed stages.
async fn check_failure(answer: Answer, limits: CallLimits, expect: &str) -> (u64, u64) {
    let test = TestProxy::new(answer.clone());
    let address = test.listen(None).await;
    let proxy = Arc::new(HttpConnectProxy::tcp(address.clone()));
    let error = within(client(&proxy, Protocols::Http1).send(request(), limits)).await.expect_err("no tunnel");
    let found = error.cause.to_string().replace(&address.to_string(), "PROXY");
    assert_eq!(found, expect, "{answer:?}");
    (proxy.metrics().connect_failures.get(), proxy.metrics().proxy_failures.get())
}

#[tokio::test]
async fn refusals_and_malformed_answers_are_errors() {
    for (answer, expect) in [
        (
            Answer::Text("HTTP/1.1 403 Not for you\r\nContent-Length: 0\r\n\r\n"),
            "proxy error from PROXY while dialing backend.invalid:443, code 403: 403 Not for you",
        ),
        (
            Answer::Text("HTTP/1.1 204 No Content\r\n\r\n"),
            "proxy error from PROXY while dialing backend.invalid:443, code 204: 204 No Content",
        ),
        (Answer::Text("garbage\r\n\r\n"), "UNREADABLE malformed HTTP response \"garbage\""),
        (Answer::Text(""), "UNREADABLE unexpected EOF"),
        (Answer::Text("HTTP/1.1 200 OK\r\nA: b"), "UNREADABLE unexpected EOF"),
        // The heads of these answers have no end. The second begins with a status line.
        (Answer::Endless("x"), "UNREADABLE unexpected EOF"),
        (Answer::Endless("HTTP/1.1 200 A: b\r\n"), "UNREADABLE unexpected EOF"),
    ] {
        let unreadable = "reading HTTP response from CONNECT to backend.invalid:443 via proxy PROXY failed:";
        let expect = expect.replace("UNREADABLE", unreadable);
        assert_eq!(check_failure(answer, GENEROUS, &expect).await, (0, 1), "{expect}");
    }
}

#[tokio::test]
async fn the_time_limit_of_the_call_covers_the_tunnel() {
    let limits = CallLimits { timeout: Duration::from_millis(100), ..GENEROUS };
    let expect = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(check_failure(Answer::Silence, limits, expect).await, (0, 1));
}

#[tokio::test]
async fn proxies_that_cannot_be_reached_are_named() {
    let check = async |proxy: HttpConnectProxy, expect: &str| {
        let proxy = Arc::new(proxy);
        let error = within(client(&proxy, Protocols::Http1).send(request(), GENEROUS)).await.expect_err("no proxy");
        assert_eq!(error.cause.to_string(), expect);
        assert_eq!((proxy.metrics().connect_failures.get(), proxy.metrics().proxy_failures.get()), (1, 0));
    };
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        DialAddress { host: "127.0.0.1".to_owned(), port }
    };
    let expect = format!("dial tcp {address}: connect: connection refused");
    check(HttpConnectProxy::tcp(address), &expect).await;
    let expect = "dial unix /nowhere/proxy.sock: connect: no such file or directory";
    check(HttpConnectProxy::unix("/nowhere/proxy.sock".into()), expect).await;
}

#[tokio::test]
async fn a_host_cannot_add_lines_to_the_request() {
    let test = TestProxy::new(Answer::Silence);
    let proxy = Arc::new(HttpConnectProxy::tcp(test.listen(None).await));
    let address = DialAddress { host: "a HTTP/1.1\r\nX: y\r\n\r\n".to_owned(), port: 1 };
    let client = client(&proxy, Protocols::Http1);
    let error = within(client.send_to(Some(&address), request(), GENEROUS)).await.expect_err("no host");
    assert_eq!(error.cause.to_string(), "http: no Host in request URL");
    assert!(test.heads().is_empty());
}
