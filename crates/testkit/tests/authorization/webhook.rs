//! An authorization webhook in the test's process: an HTTPS server with a self-signed certificate that wants a token.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What the webhook answers to the spec of a review: a status code and, for 200, the status of the review. With 429, it
/// asks for a retry after a very long time.
type Answer = fn(&Value) -> (u16, Value);

/// A running webhook.
pub(crate) struct AuthorizationWebhook {
    port: u16,
    /// The name that its certificate is for, unless that is its address.
    name: Option<&'static str>,
    /// Its certificate in base64.
    authority: String,
    state: Arc<WebhookState>,
}

struct WebhookState {
    answer: Mutex<Answer>,
    reviews: Mutex<Vec<Value>>,
}

impl AuthorizationWebhook {
    /// Starts a webhook.
    pub(crate) async fn start(answer: Answer) -> Self {
        Self::start_with_name(answer, None).await
    }

    /// Starts a webhook whose certificate is for a name.
    pub(crate) async fn start_with_name(answer: Answer, name: Option<&'static str>) -> Self {
        let certificate = rcgen::generate_simple_self_signed([name.unwrap_or("127.0.0.1").to_owned()]);
        let certificate = certificate.expect("a certificate");
        let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).expect("a key");
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("supported TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key)
            .expect("a certificate that matches its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let state = Arc::new(WebhookState { answer: Mutex::new(answer), reviews: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let authority = pintle_schema::base64::encode(certificate.cert.pem().as_bytes());
        let webhook = Self { port, name, authority, state: state.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), state.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = state.serve(stream).await;
                    }
                });
            }
        });
        webhook
    }

    /// A kubeconfig for the webhook.
    pub(crate) fn kubeconfig(&self) -> String {
        let name = self.name.map(|name| format!(", tls-server-name: {name}")).unwrap_or_default();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:{}/authorize', certificate-authority-data: {}{name}}}}}]\n\
             users: [{{name: u, user: {{token: hook-token}}}}]\n",
            self.port, self.authority
        )
    }

    /// Changes the answer.
    pub(crate) fn set_answer(&self, answer: Answer) {
        *self.state.answer.lock() = answer;
    }

    /// The reviews since the last call.
    pub(crate) fn take_reviews(&self) -> Vec<Value> {
        std::mem::take(&mut *self.state.reviews.lock())
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
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).await?;
            let review: Value = serde_json::from_slice(&body).unwrap_or_default();
            let is_expected = head.starts_with("post /authorize?timeout=")
                && head.contains("\r\nauthorization: bearer hook-token\r\n");
            let (code, status) = if is_expected { (*self.answer.lock())(&review["spec"]) } else { (401, Value::Null) };
            let answer = json!({"apiVersion": review["apiVersion"], "kind": "SubjectAccessReview", "status": status});
            self.reviews.lock().push(review);
            let body = if code == 200 { answer.to_string() } else { String::new() };
            let delay = if code == 429 { "Retry-After: 18446744073709551615\r\n" } else { "" };
            let head = format!(
                "HTTP/1.1 {code} Whatever\r\n{delay}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
            stream.flush().await?;
        }
    }
}
