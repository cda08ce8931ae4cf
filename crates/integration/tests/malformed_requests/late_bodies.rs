//! Bodies that arrive so slowly that the deadline of their requests passes: the client gets a `Status` with code 504.
//! The server does not reset the connection or the stream before the client has the answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_integration::{Cluster, eventually};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Interval, interval};

/// The requests that are sent: method, path, content type.
const REQUESTS: [(&str, &str, &str); 4] = [
    ("POST", "/api/v1/namespaces/default/configmaps", "application/json"),
    ("PUT", "/api/v1/namespaces/default/configmaps/a", "application/json"),
    ("PATCH", "/api/v1/namespaces/default/configmaps/a", "application/merge-patch+json"),
    ("DELETE", "/api/v1/namespaces/default/configmaps/a", "application/json"),
];
/// The declared length of a body.
const LENGTH: usize = 100_000;
/// The pauses between the bytes of bodies, in milliseconds.
const PAUSES: [u64; 3] = [1, 7, 50];
/// The number of times that each request is sent.
const ROUNDS: usize = 3;

fn check_answer(body: &[u8], what: &str) {
    let status: Value = serde_json::from_slice(body).unwrap_or_else(|error| panic!("{what}: {error}: {body:?}"));
    assert_eq!((&status["reason"], &status["code"]), (&"Timeout".into(), &504.into()), "{what}: {status}");
}

/// An endless body of single bytes. It counts the bytes that the connection takes after the answer.
struct SlowBody {
    pause: Interval,
    answered: Arc<AtomicBool>,
    taken_after: Arc<AtomicUsize>,
}

impl Body for SlowBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        ready!(self.pause.poll_tick(cx));
        if self.answered.load(Ordering::Relaxed) {
            self.taken_after.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b" ")))))
    }
}

/// Sends a request over HTTP/2, and continues its body after the answer: the server does not stop the client at once.
async fn send_over_http2(
    cluster: &Cluster,
    (method, path, media_type): (&str, &str, &str),
    pause: u64,
    declared: bool,
) {
    let what = format!("{method} {path}, {pause} ms, declared: {declared}");
    let io = TokioIo::new(cluster.connect().await);
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("an HTTP/2 connection");
    let connection = tokio::spawn(connection);
    let (answered, taken_after) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let body = SlowBody {
        pause: interval(Duration::from_millis(pause)),
        answered: answered.clone(),
        taken_after: taken_after.clone(),
    };
    let mut request = http::Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}?timeout=100ms"))
        .header("content-type", media_type);
    if declared {
        request = request.header("content-length", LENGTH);
    }
    let response = client.send_request(request.body(body).expect("a request")).await;
    let response = response.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(response.status(), 504, "{what}");
    let body = response.into_body().collect().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    check_answer(&body.to_bytes(), &what);
    answered.store(true, Ordering::Relaxed);
    // A stopped client would take no more bytes of the body.
    let goes_on = || async { taken_after.load(Ordering::Relaxed) >= 3 };
    eventually(&format!("{what}: the stream is not reset"), goes_on).await;
    drop(client);
    connection.abort();
}

/// Sends a request over HTTP/1.1, and reads until the server closes the connection.
async fn send_over_http1(
    cluster: &Cluster,
    (method, path, media_type): (&str, &str, &str),
    pause: u64,
    declared: bool,
) {
    let what = format!("{method} {path}, {pause} ms, declared: {declared}");
    let length = if declared { format!("content-length: {LENGTH}") } else { "transfer-encoding: chunked".to_owned() };
    let piece: &[u8] = if declared { b" " } else { b"1\r\n \r\n" };
    let (mut reader, mut writer) = tokio::io::split(cluster.connect().await);
    let head =
        format!("{method} {path}?timeout=100ms HTTP/1.1\r\nhost: x\r\ncontent-type: {media_type}\r\n{length}\r\n\r\n");
    writer.write_all(head.as_bytes()).await.expect("the server reads");
    let send = async {
        // The client sends until the server has closed the connection.
        while writer.write_all(piece).await.is_ok() && writer.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        std::future::pending::<()>().await;
    };
    let mut response = Vec::new();
    tokio::select! {
        read = reader.read_to_end(&mut response) => {
            let _ = read.unwrap_or_else(|error| panic!("{what}: {error}: {response:?}"));
        }
        () = send => {}
    }
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_else(|| panic!("{what}: no head"));
    let head = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 504 ") && head.contains("connection: close"), "{what}: {head}");
    check_answer(&response[end + 4..], &what);
}

#[test]
fn a_body_that_is_late_is_answered() {
    pintle_integration::run(async {
        let cluster = Arc::new(Cluster::start().await);
        let object = r#"{"metadata": {"name": "a"}}"#;
        let _ = cluster.post("/api/v1/namespaces/default/configmaps", object).await.expect(201);
        let mut clients = JoinSet::new();
        for (number, pause) in (0..ROUNDS).flat_map(|round| PAUSES.map(|pause| (round, pause))) {
            for request in REQUESTS {
                let (cluster, declared) = (cluster.clone(), number % 2 == 0);
                clients.spawn(async move {
                    send_over_http2(&cluster, request, pause, declared).await;
                    send_over_http2(&cluster, request, pause, !declared).await;
                    send_over_http1(&cluster, request, pause, declared).await;
                    send_over_http1(&cluster, request, pause, !declared).await;
                });
            }
        }
        while let Some(ended) = clients.join_next().await {
            ended.expect("no failure");
        }
    });
}
