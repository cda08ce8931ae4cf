//! A conversion webhook in the test's process: an HTTPS server with a self-signed certificate and configurable
//! behavior.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// How the webhook responds to a ConversionReview.
#[derive(Clone)]
pub(crate) enum WebhookBehavior {
    /// Converts all objects.
    ConvertAll(fn(Value, &str) -> Value),
    /// Converts a single object, and responds with 413 to more than one.
    ConvertSingle(fn(Value, &str) -> Value),
    /// Converts the first object, and omits the others from the response.
    ConvertFirst(fn(Value, &str) -> Value),
    /// Responds with this body, in which `$UID` is replaced with the request's uid.
    Respond { code: u16, media_type: String, body: String },
    /// Responds with a status code, a header line and a body.
    RespondWithHeader(u16, &'static str, &'static str),
    /// Sends an infinite body.
    SendForever,
    /// Closes the connection in the middle of a response.
    Disconnect,
    /// Converts all objects after it has acquired a permit.
    ConvertWhenAllowed(Arc<Semaphore>, fn(Value, &str) -> Value),
}

/// A running conversion webhook.
pub(crate) struct ConversionWebhook {
    pub(crate) port: u16,
    /// Its certificate in base64, for `caBundle`.
    pub(crate) ca_bundle: String,
    state: Arc<WebhookState>,
}

struct WebhookState {
    behavior: Mutex<WebhookBehavior>,
    requests: Mutex<Vec<Value>>,
    request_heads: Mutex<Vec<String>>,
    connection_count: AtomicUsize,
}

impl ConversionWebhook {
    /// Starts a webhook.
    pub(crate) async fn start(behavior: WebhookBehavior) -> Self {
        let names = ["127.0.0.1", "localhost", "hooks.default.svc"].map(str::to_owned);
        let certificate = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("supported TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key)
            .expect("a certificate that matches its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let state = Arc::new(WebhookState {
            behavior: Mutex::new(behavior),
            requests: Mutex::default(),
            request_heads: Mutex::default(),
            connection_count: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let webhook = Self {
            port,
            ca_bundle: pintle_schema::base64::encode(certificate.cert.pem().as_bytes()),
            state: state.clone(),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), state.clone());
                state.connection_count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = state.serve(stream).await;
                    }
                });
            }
        });
        webhook
    }

    /// The `clientConfig` with the webhook's URL.
    pub(crate) fn client_config(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/convert", self.port), "caBundle": self.ca_bundle})
    }

    /// Changes the behavior.
    pub(crate) fn set_behavior(&self, behavior: WebhookBehavior) {
        *self.state.behavior.lock() = behavior;
    }

    /// The number of objects and the desired version of each request since the last call.
    pub(crate) fn take_requests(&self) -> Vec<(usize, String)> {
        let requests = std::mem::take(&mut *self.state.requests.lock());
        let describe = |request: &Value| {
            let review_request = &request["request"];
            let count = review_request["objects"].as_array().map_or(0, Vec::len);
            (count, review_request["desiredAPIVersion"].as_str().unwrap_or_default().to_owned())
        };
        requests.iter().map(describe).collect()
    }

    /// The number of requests since the last call of [`Self::take_requests`].
    pub(crate) fn request_count(&self) -> usize {
        self.state.requests.lock().len()
    }

    /// The HTTP head and the body of the last request.
    pub(crate) fn last_request(&self) -> (String, Value) {
        let head = self.state.request_heads.lock().last().cloned();
        (head.unwrap_or_default(), self.state.requests.lock().last().cloned().unwrap_or_default())
    }

    /// The number of accepted connections.
    pub(crate) fn connection_count(&self) -> usize {
        self.state.connection_count.load(Ordering::Relaxed)
    }
}

impl WebhookState {
    /// Serves the requests of a connection.
    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if stream.read_line(&mut head).await? == 0 {
                    return Ok(());
                }
            }
            let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok();
            let length: usize = head.lines().find_map(length).unwrap_or(0);
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            let request: Value = serde_json::from_slice(&body).unwrap_or_default();
            self.request_heads.lock().push(head);
            self.requests.lock().push(request.clone());
            let behavior = self.behavior.lock().clone();
            let converted =
                |convert: fn(Value, &str) -> Value| (200, String::new(), conversion_response(&request, convert));
            let (code, head, body) = match behavior {
                WebhookBehavior::ConvertAll(convert) => converted(convert),
                WebhookBehavior::ConvertSingle(convert)
                    if request["request"]["objects"].as_array().is_none_or(|o| o.len() == 1) =>
                {
                    converted(convert)
                }
                WebhookBehavior::ConvertSingle(_) => (413, String::new(), "too large".to_owned()),
                WebhookBehavior::ConvertFirst(convert) => {
                    let mut request = request.clone();
                    if let Some(objects) = request["request"]["objects"].as_array_mut() {
                        objects.truncate(1);
                    }
                    (200, String::new(), conversion_response(&request, convert))
                }
                WebhookBehavior::ConvertWhenAllowed(permits, convert) => {
                    let _ = permits.acquire().await;
                    converted(convert)
                }
                WebhookBehavior::Respond { code, media_type, body } => {
                    let uid = request["request"]["uid"].as_str().unwrap_or_default();
                    let head =
                        if media_type.is_empty() { String::new() } else { format!("Content-Type: {media_type}\r\n") };
                    (code, head, body.replace("$UID", uid))
                }
                WebhookBehavior::RespondWithHeader(code, line, body) => (code, format!("{line}\r\n"), body.to_owned()),
                WebhookBehavior::SendForever => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                    loop {
                        stream.write_all(&[b' '; 65536]).await?;
                    }
                }
                WebhookBehavior::Disconnect => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{").await?;
                    return stream.shutdown().await;
                }
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {code} Whatever\r\n{head}Content-Length: {length}\r\n\r\n");
            stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
            stream.flush().await?;
        }
    }
}

/// The response to a ConversionReview whose objects are all converted.
fn conversion_response(request: &Value, convert: fn(Value, &str) -> Value) -> String {
    let review_request = &request["request"];
    let desired = review_request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = review_request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Vec<Value> = objects.into_iter().map(|object| convert(object, desired)).collect();
    json!({
        "apiVersion": request["apiVersion"],
        "kind": "ConversionReview",
        "response": {"uid": review_request["uid"], "result": {"status": "Success"}, "convertedObjects": converted},
    })
    .to_string()
}
