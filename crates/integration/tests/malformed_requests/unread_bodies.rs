//! Requests whose answer needs only a part of their body or none of it. The client gets the answer while it is still
//! sending, over HTTP/1.1 and HTTP/2.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_integration::{Cluster, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SIZES: [usize; 3] = [1 << 10, 100 << 10, 5 << 20];

/// Requests that the server answers before it reads their body: method, path, content type, and the status for each
/// size.
const REQUESTS: [(&str, &str, &str, [u16; 3]); 6] = [
    ("POST", "/apis/unserved.example.com/v1/things", "application/json", [404; 3]),
    ("GET", "/api/v1/namespaces/default/configmaps/none", "application/json", [404; 3]),
    ("PUT", "/api/v1/namespaces/default/configmaps", "application/json", [405; 3]),
    ("PATCH", "/api/v1/namespaces/default/configmaps/none", "text/plain", [415; 3]),
    ("OPTIONS", "/version", "application/json", [405; 3]),
    ("POST", MAPS, "application/json", [400, 400, 413]),
];

/// Sends a request, and writes its whole body before it reads the response. Returns the response.
async fn write_first(cluster: &Cluster, request: &str, body: &[u8]) -> String {
    let mut socket = cluster.connect().await;
    let sent = async {
        socket.write_all(request.as_bytes()).await?;
        socket.write_all(body).await?;
        socket.flush().await
    };
    sent.await.unwrap_or_else(|error| panic!("{request}: the server does not take the body: {error}"));
    let mut response = Vec::new();
    let read = socket.read_to_end(&mut response).await;
    let response = String::from_utf8_lossy(&response).into_owned();
    read.unwrap_or_else(|error| panic!("{request}: {error}: {response}"));
    response
}

#[test]
fn http1_clients_that_send_first_get_the_answer() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for (method, path, media_type, codes) in REQUESTS {
            for (size, code) in SIZES.into_iter().zip(codes) {
                let head = format!(
                    "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {media_type}\r\n"
                );
                let request = format!("{head}content-length: {size}\r\n\r\n");
                let response = write_first(&cluster, &request, &vec![b'x'; size]).await;
                assert!(response.starts_with(&format!("HTTP/1.1 {code}")), "{request}: {response}");
                let request = format!("{head}transfer-encoding: chunked\r\n\r\n");
                let body = [format!("{size:x}\r\n").as_bytes(), &vec![b'x'; size], b"\r\n0\r\n\r\n"].concat();
                let response = write_first(&cluster, &request, &body).await;
                assert!(response.starts_with(&format!("HTTP/1.1 {code}")), "{request}: {response}");
            }
        }
        cluster.stop().await;
    });
}

/// A body of zeros that counts the bytes that were taken from it.
struct CountedBody {
    rest: usize,
    taken: Arc<AtomicUsize>,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let size = self.rest.min(16 << 10);
        if size == 0 {
            return Poll::Ready(None);
        }
        self.rest -= size;
        self.taken.fetch_add(size, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(vec![b'x'; size].into()))))
    }
}

#[test]
fn http2_streams_are_not_reset_while_the_client_sends() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let io = TokioIo::new(cluster.connect().await);
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("an HTTP/2 connection");
        let connection = tokio::spawn(connection);
        for (method, path, media_type, codes) in REQUESTS {
            for (size, code) in SIZES.into_iter().zip(codes) {
                let taken = Arc::new(AtomicUsize::new(0));
                let request = http::Request::builder()
                    .method(method)
                    .uri(format!("https://localhost{path}"))
                    .header("content-type", media_type)
                    .body(CountedBody { rest: size, taken: taken.clone() })
                    .expect("a request");
                let response = client.send_request(request).await.expect("an answer");
                assert_eq!(response.status(), code, "{method} {path} {size}");
                let _ = response.into_body().collect().await.expect("the whole answer");
                let what = format!("{method} {path} {size}: the stream is not reset");
                eventually(&what, || async { taken.load(Ordering::Relaxed) >= size }).await;
            }
        }
        drop(client);
        connection.await.expect("no panic").expect("the connection ends without an error");
        cluster.stop().await;
    });
}

#[test]
fn the_answer_does_not_wait_for_a_body_that_is_not_sent() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for header in ["content-length: 1000", "content-length: 10000000", "transfer-encoding: chunked"] {
            for expect in ["", "expect: 100-continue\r\n"] {
                let request = format!("GET {MAPS}/none HTTP/1.1\r\nhost: x\r\n{header}\r\n{expect}\r\n");
                let response = write_first(&cluster, &request, b"").await;
                assert!(response.starts_with("HTTP/1.1 404"), "{request}: {response}");
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn a_connection_is_kept_after_a_small_body_that_was_not_needed() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let request = format!("POST /none HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{}", "x".repeat(1000));
        let last = "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let response = write_first(&cluster, &request.repeat(3), last.as_bytes()).await;
        assert_eq!(response.matches("HTTP/1.1 404").count(), 3, "{response}");
        assert_eq!(response.matches("HTTP/1.1 200").count(), 1, "{response}");
        cluster.stop().await;
    });
}
