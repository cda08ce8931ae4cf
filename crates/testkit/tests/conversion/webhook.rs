//! A conversion webhook in the test's process: HTTPS with an authority of its own, and manners as a test wants them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// What a webhook does with a question.
#[derive(Clone)]
pub(crate) enum Manner {
    /// Converts every object by itself.
    Converts(fn(Value, &str) -> Value),
    /// Converts one object, and refuses more as too large.
    Small(fn(Value, &str) -> Value),
    /// Converts the first object, and forgets the others.
    First(fn(Value, &str) -> Value),
    /// Answers with this text, in which `$UID` is the question's uid.
    Says { code: u16, media_type: String, body: String },
    /// The same, with a line more in its head.
    Adds(u16, &'static str, &'static str),
    /// Sends bytes without an end.
    Floods,
    /// Ends the connection in the middle of an answer.
    Breaks,
    /// Waits until it is told to go on, and converts.
    Waits(Arc<Semaphore>, fn(Value, &str) -> Value),
}

/// A webhook.
pub(crate) struct Hook {
    pub(crate) port: u16,
    /// Its certificate, in base64 as definitions want it.
    pub(crate) bundle: String,
    heard: Arc<Heard>,
}

struct Heard {
    manner: Mutex<Manner>,
    questions: Mutex<Vec<Value>>,
    heads: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

impl Hook {
    /// Starts a webhook.
    pub(crate) async fn start(manner: Manner) -> Self {
        let names = ["127.0.0.1", "localhost", "hooks.default.svc"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate that fits its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let heard = Arc::new(Heard {
            manner: Mutex::new(manner),
            questions: Mutex::default(),
            heads: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let hook =
            Self { port, bundle: pintle_schema::base64::encode(made.cert.pem().as_bytes()), heard: heard.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, heard) = (acceptor.clone(), heard.clone());
                heard.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = heard.serve(stream).await;
                    }
                });
            }
        });
        hook
    }

    /// How a definition names it by its address.
    pub(crate) fn by_url(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/convert", self.port), "caBundle": self.bundle})
    }

    /// Changes its manners.
    pub(crate) fn set(&self, manner: Manner) {
        *self.heard.manner.lock() = manner;
    }

    /// The questions since the last time, with how many objects each was about and the version that was wanted.
    pub(crate) fn asked(&self) -> Vec<(usize, String)> {
        let questions = std::mem::take(&mut *self.heard.questions.lock());
        let about = |question: &Value| {
            let request = &question["request"];
            let count = request["objects"].as_array().map_or(0, Vec::len);
            (count, request["desiredAPIVersion"].as_str().unwrap_or_default().to_owned())
        };
        questions.iter().map(about).collect()
    }

    /// How many questions there have been since then.
    pub(crate) fn count(&self) -> usize {
        self.heard.questions.lock().len()
    }

    /// The last question and the head that it came with.
    pub(crate) fn last(&self) -> (String, Value) {
        let head = self.heard.heads.lock().last().cloned();
        (head.unwrap_or_default(), self.heard.questions.lock().last().cloned().unwrap_or_default())
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.heard.connections.load(Ordering::Relaxed)
    }
}

impl Heard {
    /// Answers the questions on a connection.
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
            let question: Value = serde_json::from_slice(&body).unwrap_or_default();
            self.heads.lock().push(head);
            self.questions.lock().push(question.clone());
            let manner = self.manner.lock().clone();
            let converted = |convert: fn(Value, &str) -> Value| (200, String::new(), answer(&question, convert));
            let (code, head, body) = match manner {
                Manner::Converts(convert) => converted(convert),
                Manner::Small(convert) if question["request"]["objects"].as_array().is_none_or(|o| o.len() == 1) => {
                    converted(convert)
                }
                Manner::Small(_) => (413, String::new(), "too large".to_owned()),
                Manner::First(convert) => {
                    let mut question = question.clone();
                    if let Some(objects) = question["request"]["objects"].as_array_mut() {
                        objects.truncate(1);
                    }
                    (200, String::new(), answer(&question, convert))
                }
                Manner::Waits(go_on, convert) => {
                    let _ = go_on.acquire().await;
                    converted(convert)
                }
                Manner::Says { code, media_type, body } => {
                    let uid = question["request"]["uid"].as_str().unwrap_or_default();
                    let head =
                        if media_type.is_empty() { String::new() } else { format!("Content-Type: {media_type}\r\n") };
                    (code, head, body.replace("$UID", uid))
                }
                Manner::Adds(code, line, body) => (code, format!("{line}\r\n"), body.to_owned()),
                Manner::Floods => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                    loop {
                        stream.write_all(&[b' '; 65536]).await?;
                    }
                }
                Manner::Breaks => {
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

/// The answer to a question.
fn answer(question: &Value, convert: fn(Value, &str) -> Value) -> String {
    let request = &question["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Vec<Value> = objects.into_iter().map(|object| convert(object, desired)).collect();
    json!({
        "apiVersion": question["apiVersion"],
        "kind": "ConversionReview",
        "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted},
    })
    .to_string()
}
