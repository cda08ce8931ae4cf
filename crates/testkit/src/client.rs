//! The connection to a cluster: requests, answers, and watches that are read event by event.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pintle::certificates::Certificates;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

type Pool = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Which HTTP a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 alone: a connection for each request that is open.
    Http1,
    /// What client and server agree on, which is HTTP/2: one connection for all.
    Any,
}

/// Connections to a cluster, with the administrator's certificate and with none.
pub struct Client {
    url: String,
    admin: Pool,
    nobody: Pool,
}

impl Client {
    pub(crate) fn new(url: &str, certificates: &Certificates, protocol: Protocol) -> Self {
        let pool = |admin| pool(certificates, admin, protocol);
        Self { url: url.to_owned(), admin: pool(true), nobody: pool(false) }
    }

    /// Asks anything.
    ///
    /// # Panics
    /// It is no method.
    #[must_use]
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder<'_> {
        RequestBuilder {
            client: self,
            method: Method::from_bytes(method.as_bytes()).expect("a method"),
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            anonymous: false,
        }
    }
}

/// What a client trusts, and the administrator's certificate.
pub(crate) fn tls(certificates: &Certificates, admin: bool) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(certificates.authority.certificate.as_bytes());
    roots.add(authority.expect("a certificate")).expect("an authority");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots);
    if admin {
        let leaf = CertificateDer::from_pem_slice(certificates.admin.certificate.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(certificates.admin.key.as_bytes()).expect("a key");
        config.with_client_auth_cert(vec![leaf], key).expect("a certificate that fits its key")
    } else {
        config.with_no_client_auth()
    }
}

fn pool(certificates: &Certificates, admin: bool, protocol: Protocol) -> Pool {
    let config = tls(certificates, admin);
    // A body would wait some 40 ms for the answer to its headers, which comes only after the body.
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only();
    let connector = match protocol {
        Protocol::Http1 => connector.enable_http1().wrap_connector(tcp),
        Protocol::Any => connector.enable_all_versions().wrap_connector(tcp),
    };
    let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
    // Who leaves a watch may still be sent events of it. A thousand such watches are no fault of the server.
    builder.http2_max_local_error_reset_streams(None);
    builder.build(connector)
}

/// A request that is being put together.
pub struct RequestBuilder<'a> {
    client: &'a Client,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    anonymous: bool,
}

impl RequestBuilder<'_> {
    /// Adds a header.
    ///
    /// # Panics
    /// It is no header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: http::HeaderName = name.parse().expect("a header's name");
        self.headers.append(name, value.parse().expect("a header's value"));
        self
    }

    /// Adds a header whose value may be no text.
    ///
    /// # Panics
    /// It is no header.
    #[must_use]
    pub fn header_bytes(mut self, name: &str, value: &[u8]) -> Self {
        let name: http::HeaderName = name.parse().expect("a header's name");
        self.headers.append(name, http::HeaderValue::from_bytes(value).expect("a header's value"));
        self
    }

    /// Sets the body and its media type.
    #[must_use]
    pub fn body(self, media_type: &str, body: impl Into<Bytes>) -> Self {
        let mut ask = self.header("content-type", media_type);
        ask.body = body.into();
        ask
    }

    /// Sets a body of JSON.
    #[must_use]
    pub fn json(self, body: impl Into<String>) -> Self {
        self.body("application/json", body.into())
    }

    /// Sets a body without saying what it is.
    #[must_use]
    pub fn raw(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Asks without the administrator's certificate.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.anonymous = true;
        self
    }

    async fn start(self) -> Result<(String, http::Response<Incoming>), ConnectionError> {
        let what = format!("{} {}", self.method, self.path);
        let mut request = Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = format!("{}{}", self.client.url, self.path).parse().expect("a path");
        *request.headers_mut() = self.headers;
        let pool = if self.anonymous { &self.client.nobody } else { &self.client.admin };
        match tokio::time::timeout(PATIENCE, pool.request(request)).await {
            Ok(Ok(response)) => Ok((what, response)),
            Ok(Err(error)) => Err(ConnectionError(format!("{what}: {error:?}"))),
            Err(_) => panic!("{what}: no answer in {PATIENCE:?}"),
        }
    }

    /// Sends the request and reads the whole answer.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn send(self) -> Response {
        self.try_send().await.unwrap_or_else(|broken| panic!("{broken}"))
    }

    /// Sends the request and reads the whole answer.
    ///
    /// # Errors
    /// The server went away meanwhile, or is not there.
    ///
    /// # Panics
    /// The answer takes too long.
    pub async fn try_send(self) -> Result<Response, ConnectionError> {
        let (what, response) = self.start().await?;
        whole(what, response).await
    }

    /// Sends the request as a watch.
    ///
    /// # Panics
    /// The watch is refused.
    pub async fn watch(self) -> Watch {
        match self.try_watch().await {
            Ok(watch) => watch,
            Err(answer) => panic!("{}: {}: {}", answer.what, answer.status, answer.text()),
        }
    }

    /// Sends the request as a watch.
    ///
    /// # Errors
    /// The answer, if the watch is refused.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn try_watch(self) -> Result<Watch, Response> {
        match self.stream().await.unwrap_or_else(|broken| panic!("{broken}")) {
            Ok(stream) => Ok(Watch { stream, buffer: Vec::new(), lines: VecDeque::new() }),
            Err(answer) => Err(answer),
        }
    }

    /// Sends the request and leaves the body to be read piece by piece.
    ///
    /// # Errors
    /// The server is not there; or, within, the answer that is not 200.
    ///
    /// # Panics
    /// There is no answer for too long.
    pub async fn stream(self) -> Result<Result<ResponseStream, Response>, ConnectionError> {
        let (what, response) = self.start().await?;
        if response.status() == StatusCode::OK {
            let (head, body) = response.into_parts();
            return Ok(Ok(ResponseStream { what, headers: head.headers, body }));
        }
        whole(what, response).await.map(Err)
    }
}

async fn whole(what: String, response: http::Response<Incoming>) -> Result<Response, ConnectionError> {
    let (head, body) = response.into_parts();
    let body = match tokio::time::timeout(PATIENCE, body.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return Err(ConnectionError(format!("{what}: {error}"))),
        Err(_) => panic!("{what}: the answer does not end"),
    };
    Ok(Response { what, status: head.status, headers: head.headers, body })
}

/// A connection that could not be made or ended too early, as when a server is stopped; says what was asked.
#[derive(Debug)]
pub struct ConnectionError(String);

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    what: String,
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// Sees to it that the answer has this status.
    ///
    /// # Panics
    /// It has another.
    #[must_use]
    #[track_caller]
    pub fn expect(self, code: u16) -> Self {
        assert_eq!(self.status.as_u16(), code, "{}: {}", self.what, self.text());
        self
    }

    /// Sees to it that the answer is a `Status` with this code, reason and message.
    ///
    /// # Panics
    /// It is not.
    #[track_caller]
    pub fn expect_error(self, code: u16, reason: &str, message: &str) {
        let what = self.what.clone();
        let status = self.expect(code).json();
        assert_eq!(status["kind"], "Status", "{what}");
        assert_eq!(status["reason"].as_str().unwrap_or_default(), reason, "{what}");
        assert_eq!(status["message"].as_str().unwrap_or_default(), message, "{what}");
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// It is none.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{}: {error}: {}", self.what, self.text()),
        }
    }

    /// A header, or `""`.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

/// An answer of which pieces are still to come.
#[derive(Debug)]
pub struct ResponseStream {
    what: String,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
}

impl ResponseStream {
    /// The next piece, whenever it comes; `None` at the end.
    ///
    /// # Errors
    /// The connection was cut.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        while let Some(frame) = self.body.frame().await {
            match frame {
                Ok(frame) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
                Err(error) => return Err(ConnectionError(format!("{}: {error}", self.what))),
            }
        }
        Ok(None)
    }
}

/// A watch that is open, in JSON.
#[derive(Debug)]
pub struct Watch {
    stream: ResponseStream,
    buffer: Vec<u8>,
    lines: VecDeque<Value>,
}

impl Watch {
    /// The next event, or `None` when the stream has ended.
    ///
    /// # Panics
    /// Nothing comes for too long, or something that is no event.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.lines.pop_front() {
                return Some(event);
            }
            let Ok(piece) = tokio::time::timeout(PATIENCE, self.stream.next()).await else {
                panic!("{}: no event in {PATIENCE:?}", self.stream.what);
            };
            self.buffer.extend_from_slice(&piece.unwrap_or_else(|broken| panic!("{broken}"))?);
            while let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(event) => self.lines.push_back(event),
                    Err(error) => panic!("{}: {error}: {}", self.stream.what, String::from_utf8_lossy(&line)),
                }
            }
        }
    }

    /// Sees to it that the next event is of this type and about an object of this name.
    ///
    /// # Panics
    /// It is not.
    pub async fn expect(&mut self, kind: &str, name: &str) -> Value {
        let event = self.next().await.unwrap_or_else(|| panic!("{}: the stream ended", self.stream.what));
        assert_eq!(event["type"], kind, "{}: {event}", self.stream.what);
        assert_eq!(
            event["object"]["metadata"]["name"].as_str().unwrap_or_default(),
            name,
            "{}: {event}",
            self.stream.what
        );
        event["object"].clone()
    }
}
