//! The HTTP client of a cluster: request builder, response, and watches, which tests read event by event.

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
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::task::JoinSet;

/// The timeout for a response, for its body, and for the next event of a watch.
const TIMEOUT: Duration = Duration::from_secs(20);

type ConnectionPool = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The HTTP version of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 only. Each concurrent request uses its own connection.
    Http1,
    /// Negotiated with ALPN, which selects HTTP/2. All requests share one connection.
    Any,
}

/// A client of a cluster, which sends requests with the administrator's certificate or anonymously.
pub struct Client {
    url: String,
    admin_pool: ConnectionPool,
    anonymous_pool: ConnectionPool,
}

impl Client {
    pub(crate) fn new(url: &str, certificates: &Certificates, protocol: Protocol) -> Self {
        let pool = |admin, protocol| connection_pool(tls_config(certificates, admin), protocol);
        // Over HTTP/2, the server sends GOAWAY after each answer to a client without valid credentials. The client's
        // next request may still choose the old connection.
        let anonymous_pool = pool(false, Protocol::Http1);
        Self { url: url.to_owned(), admin_pool: pool(true, protocol), anonymous_pool }
    }

    /// A client of any server, which trusts the certificates in `authorities` (PEM) and presents no certificate.
    ///
    /// # Panics
    /// Panics if a certificate is not valid.
    #[must_use]
    pub fn trusting(url: &str, authorities: &[u8], protocol: Protocol) -> Self {
        let pool = || connection_pool(client_config(authorities).with_no_client_auth(), protocol);
        Self { url: url.to_owned(), admin_pool: pool(), anonymous_pool: pool() }
    }

    /// Builds a request with any method to any path, with or without a query.
    ///
    /// # Panics
    /// Panics if `method` is not an HTTP method.
    #[must_use]
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder<'_> {
        RequestBuilder {
            client: self,
            method: Method::from_bytes(method.as_bytes()).expect("an HTTP method"),
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            anonymous: false,
        }
    }
}

/// The TLS configuration of a client. It trusts the cluster's CA. With `admin`, it presents the administrator's
/// certificate.
pub(crate) fn tls_config(certificates: &Certificates, admin: bool) -> rustls::ClientConfig {
    let config = client_config(certificates.authority.certificate.as_bytes());
    if admin {
        let leaf =
            CertificateDer::from_pem_slice(certificates.admin.certificate.as_bytes()).expect("a certificate in PEM");
        let key = PrivateKeyDer::from_pem_slice(certificates.admin.key.as_bytes()).expect("a private key in PEM");
        config.with_client_auth_cert(vec![leaf], key).expect("a certificate that matches its key")
    } else {
        config.with_no_client_auth()
    }
}

/// The start of a TLS configuration that trusts the certificates in `authorities` (PEM).
fn client_config(authorities: &[u8]) -> rustls::ConfigBuilder<rustls::ClientConfig, WantsClientCert> {
    let mut roots = rustls::RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities) {
        roots.add(authority.expect("a certificate in PEM")).expect("a CA certificate");
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("supported TLS versions")
        .with_root_certificates(roots)
}

fn connection_pool(config: rustls::ClientConfig, protocol: Protocol) -> ConnectionPool {
    // With Nagle's algorithm, a request body waits about 40 ms for the delayed ACK of the request's headers.
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only();
    let connector = match protocol {
        Protocol::Http1 => connector.enable_http1().wrap_connector(tcp),
        Protocol::Any => connector.enable_all_versions().wrap_connector(tcp),
    };
    let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
    // The server may still send events of a watch that the client has reset. The default limit of such streams would
    // break the connection after a thousand watches.
    builder.http2_max_local_error_reset_streams(None);
    // A response may have a hundred warnings, each in its own header.
    builder.http1_max_headers(300);
    builder.build(connector)
}

/// Builds a request and sends it.
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
    /// Panics if the name or the value is not valid.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: http::HeaderName = name.parse().expect("a header's name");
        self.headers.append(name, value.parse().expect("a header's value"));
        self
    }

    /// Adds a header whose value may contain bytes that are not ASCII.
    ///
    /// # Panics
    /// Panics if the name or the value is not valid.
    #[must_use]
    pub fn header_bytes(mut self, name: &str, value: &[u8]) -> Self {
        let name: http::HeaderName = name.parse().expect("a header's name");
        self.headers.append(name, http::HeaderValue::from_bytes(value).expect("a header's value"));
        self
    }

    /// Sets the body and its `Content-Type`.
    #[must_use]
    pub fn body(self, media_type: &str, body: impl Into<Bytes>) -> Self {
        let mut request = self.header("content-type", media_type);
        request.body = body.into();
        request
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: impl Into<String>) -> Self {
        self.body("application/json", body.into())
    }

    /// Sets the body without a `Content-Type`.
    #[must_use]
    pub fn raw(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the request without a client certificate.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.anonymous = true;
        self
    }

    async fn start(self) -> Result<(String, http::Response<Incoming>), ConnectionError> {
        let description = format!("{} {}", self.method, self.path);
        let mut request = Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = format!("{}{}", self.client.url, self.path).parse().expect("a valid path");
        *request.headers_mut() = self.headers;
        let pool = if self.anonymous { &self.client.anonymous_pool } else { &self.client.admin_pool };
        // The request has its own task, which ends with this future: without optimizations, the client needs much
        // stack.
        let mut task = JoinSet::new();
        task.spawn(pool.request(request));
        let response = async { task.join_next().await.expect("a task").expect("the client does not panic") };
        match tokio::time::timeout(TIMEOUT, response).await {
            Ok(Ok(response)) => Ok((description, response)),
            Ok(Err(error)) => Err(ConnectionError(format!("{description}: {error:?}"))),
            Err(_) => Err(ConnectionError(format!("{description}: no response within {TIMEOUT:?}"))),
        }
    }

    /// Sends the request and reads the whole response.
    ///
    /// # Panics
    /// Panics if the connection fails or the response takes too long.
    pub async fn send(self) -> Response {
        self.try_send().await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends the request and reads the whole response.
    ///
    /// # Errors
    /// Returns an error if the server does not listen, the connection breaks, or the response takes too long.
    pub async fn try_send(self) -> Result<Response, ConnectionError> {
        let (description, response) = self.start().await?;
        read_response(description, response).await
    }

    /// Sends the request as a watch.
    ///
    /// # Panics
    /// Panics if the response is not 200 OK.
    pub async fn watch(self) -> Watch {
        match self.try_watch().await {
            Ok(watch) => watch,
            Err(response) => panic!("{}: {}: {}", response.request, response.status, response.text()),
        }
    }

    /// Sends the request as a watch.
    ///
    /// # Errors
    /// Returns the response if it is not 200 OK.
    ///
    /// # Panics
    /// Panics if the connection fails or the response takes too long.
    pub async fn try_watch(self) -> Result<Watch, Response> {
        match self.stream().await.unwrap_or_else(|error| panic!("{error}")) {
            Ok(stream) => Ok(stream.into()),
            Err(response) => Err(response),
        }
    }

    /// Sends the request and returns the response before its body is read.
    ///
    /// # Errors
    /// The outer error is a connection failure or a response that takes too long. The inner error is a response that
    /// is not 200 OK.
    pub async fn stream(self) -> Result<Result<ResponseStream, Response>, ConnectionError> {
        let (description, response) = self.start().await?;
        if response.status() == StatusCode::OK {
            let (head, body) = response.into_parts();
            return Ok(Ok(ResponseStream { request: description, headers: head.headers, body }));
        }
        read_response(description, response).await.map(Err)
    }
}

async fn read_response(request: String, response: http::Response<Incoming>) -> Result<Response, ConnectionError> {
    let (head, body) = response.into_parts();
    let body = match tokio::time::timeout(TIMEOUT, body.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return Err(ConnectionError(format!("{request}: {error}"))),
        Err(_) => return Err(ConnectionError(format!("{request}: the response body does not end within {TIMEOUT:?}"))),
    };
    Ok(Response { request, status: head.status, headers: head.headers, body })
}

/// A connection that failed or closed too early, for example because the server stopped. The message names the request.
#[derive(Debug)]
pub struct ConnectionError(String);

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A response with its whole body.
#[derive(Debug)]
pub struct Response {
    /// Method and path of the request, for messages.
    request: String,
    /// The status code.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// Asserts the status code.
    ///
    /// # Panics
    /// Panics if the response has another status code.
    #[must_use]
    #[track_caller]
    pub fn expect(self, code: u16) -> Self {
        assert_eq!(self.status.as_u16(), code, "{}: {}", self.request, self.text());
        self
    }

    /// Asserts that the response is a `Status` with this code, reason and message.
    ///
    /// # Panics
    /// Panics if the response differs.
    #[track_caller]
    pub fn expect_error(self, code: u16, reason: &str, message: &str) {
        let request = self.request.clone();
        let status = self.expect(code).json();
        assert_eq!(status["kind"], "Status", "{request}");
        assert_eq!(status["reason"].as_str().unwrap_or_default(), reason, "{request}");
        assert_eq!(status["message"].as_str().unwrap_or_default(), message, "{request}");
    }

    /// The body as text. Invalid UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// Panics if the body is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{}: {error}: {}", self.request, self.text()),
        }
    }

    /// The value of a header, or `""` if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

/// A response whose body is still being received.
#[derive(Debug)]
pub struct ResponseStream {
    /// Method and path of the request, for messages.
    request: String,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
}

impl ResponseStream {
    /// Waits for the next chunk of the body, without a timeout. `None` is the end of the body.
    ///
    /// # Errors
    /// Returns an error if the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        while let Some(frame) = self.body.frame().await {
            match frame {
                Ok(frame) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
                Err(error) => return Err(ConnectionError(format!("{}: {error}", self.request))),
            }
        }
        Ok(None)
    }
}

/// An open watch whose events are JSON.
#[derive(Debug)]
pub struct Watch {
    stream: ResponseStream,
    /// The received bytes that are not a complete line yet.
    buffer: Vec<u8>,
    /// The received events that were not returned yet.
    events: VecDeque<Value>,
}

impl From<ResponseStream> for Watch {
    fn from(stream: ResponseStream) -> Self {
        Self { stream, buffer: Vec::new(), events: VecDeque::new() }
    }
}

impl Watch {
    /// Waits for the next event. `None` is the end of the stream.
    ///
    /// # Panics
    /// Panics if no event arrives in time or a line is not JSON.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let Ok(chunk) = tokio::time::timeout(TIMEOUT, self.stream.next()).await else {
                panic!("{}: no event within {TIMEOUT:?}", self.stream.request);
            };
            let chunk = chunk.unwrap_or_else(|error| panic!("{error}"))?;
            // The search for a line break covers only new bytes, because events may be large.
            for part in chunk.split_inclusive(|b| *b == b'\n') {
                self.buffer.extend_from_slice(part);
                if !part.ends_with(b"\n") {
                    break;
                }
                let line = std::mem::take(&mut self.buffer);
                match serde_json::from_slice(&line) {
                    Ok(event) => self.events.push_back(event),
                    Err(error) => panic!("{}: {error}: {}", self.stream.request, String::from_utf8_lossy(&line)),
                }
            }
        }
    }

    /// Asserts the type of the next event and the name of its object, and returns the object.
    ///
    /// # Panics
    /// Panics if the next event is another one or the stream ends.
    pub async fn expect(&mut self, event_type: &str, name: &str) -> Value {
        let event = self.next().await.unwrap_or_else(|| panic!("{}: the watch ended", self.stream.request));
        assert_eq!(event["type"], event_type, "{}: {event}", self.stream.request);
        assert_eq!(
            event["object"]["metadata"]["name"].as_str().unwrap_or_default(),
            name,
            "{}: {event}",
            self.stream.request
        );
        event["object"].clone()
    }
}
