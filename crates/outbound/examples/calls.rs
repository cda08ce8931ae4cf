//! Measures the processor time of a call with TLS in HTTP/1.1 and HTTP/2, one after the other and 64 at a time. The
//! server's processor time is not included. Usage: `cargo run --release -p pintle-outbound --example calls`. Linux
//! only.

#![allow(clippy::print_stdout)] // the output is a report

use std::convert::Infallible;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_outbound::{CallLimits, Client, ClientConfig, Http2HealthCheck, Protocols, ServerTrust};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Sizes of a review and of an answer that allows it.
const REQUEST_BYTES: usize = 1800;
const RESPONSE_BYTES: usize = 180;
const CALLS: u32 = 20_000;

/// Serves on the current thread, in the protocol that the client prefers.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let _ = stream.set_nodelay(true);
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request: Request<Incoming>| async {
                let _ = request.into_body().collect().await;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&[b' '; RESPONSE_BYTES]))))
            });
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                let builder = http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            } else {
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            }
        });
    }
}

/// The processor time of this thread.
fn thread_time() -> Duration {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = statistics.split(' ').next().and_then(|text| text.parse().ok()).expect("a number");
    Duration::from_nanos(nanoseconds)
}

async fn call(client: &Client, url: &str) {
    let request = Request::post(url).header(CONTENT_TYPE, "application/json");
    let request = request.body(Bytes::from_static(&[b' '; REQUEST_BYTES])).expect("a request");
    let limits = CallLimits { timeout: Duration::from_secs(60), max_body_bytes: 1 << 20 };
    let response = client.send(request, limits).await.expect("a response");
    assert_eq!(response.body().bytes.len(), RESPONSE_BYTES);
}

async fn measure(name: &str, client: &Client, url: &str, concurrent: u32) {
    let rounds = async |calls: u32| {
        let callers = (0..concurrent).map(|_| {
            let (client, url) = (client.clone(), url.to_owned());
            tokio::spawn(async move {
                for _ in 0..calls / concurrent {
                    call(&client, &url).await;
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("a caller");
        }
    };
    rounds(concurrent * 10).await;
    let start = thread_time();
    rounds(CALLS).await;
    let per_call = (thread_time() - start) / CALLS;
    println!("{name}, {concurrent} at a time: {:.1} µs", per_call.as_secs_f64() * 1e6);
}

fn main() {
    let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("TLS versions").with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate.cert.der().clone()], key).expect("a configuration");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let url = format!("https://{}/review?timeout=10s", listener.local_addr().expect("an address"));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    std::thread::spawn(move || {
        runtime().block_on(async { serve(TcpListener::from_std(listener).expect("a socket"), acceptor).await });
    });
    let check =
        Http2HealthCheck { read_idle_timeout: Some(Duration::from_secs(30)), ping_timeout: Duration::from_secs(15) };
    runtime().block_on(async {
        for (name, protocols) in [("HTTP/1.1", Protocols::Http1), ("HTTP/2", Protocols::Http2(check))] {
            let server_trust = ServerTrust::Authorities(certificate.cert.pem().leak().as_bytes());
            let config = ClientConfig { server_trust, protocols, ..ClientConfig::default() };
            let client = Client::new(&config).expect("a client");
            for concurrent in [1, 64] {
                measure(name, &client, &url, concurrent).await;
            }
        }
    });
}
