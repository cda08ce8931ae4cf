//! Minimal webhooks in the benchmark's process. The conversion webhook sets the `apiVersion` of the received objects.
//! The admission webhook admits every request.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::Result;

/// A running webhook.
pub(crate) struct Webhook {
    /// The `clientConfig` for a configuration.
    pub(crate) client_config: Value,
    converted: Arc<AtomicU64>,
    server_task: tokio::task::JoinHandle<()>,
}

impl Webhook {
    /// Starts a conversion webhook on a local port.
    pub(crate) async fn start_conversion() -> Result<Self> {
        Self::start(convert, Duration::ZERO).await
    }

    /// Starts an admission webhook on a local port. It changes nothing.
    pub(crate) async fn start_admission() -> Result<Self> {
        Self::start_slow_admission(Duration::ZERO).await
    }

    /// Starts an admission webhook on a local port that answers after a delay. It changes nothing.
    pub(crate) async fn start_slow_admission(delay: Duration) -> Result<Self> {
        Self::start(admit, delay).await
    }

    async fn start(respond: Respond, delay: Duration) -> Result<Self> {
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der())?;
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let socket = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("https://{}/review", socket.local_addr()?);
        let converted = Arc::new(AtomicU64::new(0));
        let counter = converted.clone();
        let server_task = tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                let (acceptor, counter) = (acceptor.clone(), counter.clone());
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let counter = counter.clone();
                        async move {
                            // Even a sleep of no time may wait for the next millisecond.
                            if !delay.is_zero() {
                                tokio::time::sleep(delay).await;
                            }
                            answer(request, respond, counter).await
                        }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let client_config = json!({ "url": url, "caBundle": STANDARD.encode(certified.cert.pem()) });
        Ok(Self { client_config, converted, server_task })
    }

    /// The number of objects converted so far.
    pub(crate) fn converted(&self) -> u64 {
        self.converted.load(Ordering::Relaxed)
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.server_task.abort();
    }
}

/// Makes the response to a request of a review. Counts converted objects.
type Respond = fn(&mut Value, &AtomicU64) -> Value;

async fn answer(
    request: Request<Incoming>,
    respond: Respond,
    converted: Arc<AtomicU64>,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut response = respond(&mut review["request"], &converted);
    response["uid"] = review["request"]["uid"].take();
    let answer = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
    let answer = Response::builder().header("Content-Type", "application/json").body(answer.to_string().into());
    Ok(answer.unwrap_or_default())
}

fn convert(request: &mut Value, converted: &AtomicU64) -> Value {
    let desired = request["desiredAPIVersion"].clone();
    let mut objects = request["objects"].take();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["apiVersion"] = desired.clone();
        converted.fetch_add(1, Ordering::Relaxed);
    }
    json!({"result": {"status": "Success"}, "convertedObjects": objects})
}

fn admit(_: &mut Value, _: &AtomicU64) -> Value {
    json!({"allowed": true})
}
