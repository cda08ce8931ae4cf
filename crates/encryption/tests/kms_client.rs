//! The client of KMS plugins: a plugin of upstream's library, and servers that fail.
#![cfg(unix)]

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use pintle_encryption::{EncryptedDek, KmsClient, KmsPlugin, KmsProvider, KmsStatus, decrypt_with_plugin};
use support::tool_path;
use tokio::net::UnixListener;

/// The time of a call that is expected to end.
const LONG: Duration = Duration::from_secs(60);

/// A plugin of upstream's library with a key. It ends when it is dropped.
struct Plugin(Child);

impl Plugin {
    fn start(socket: &Path, key: &str) -> Self {
        let _ = std::fs::remove_file(socket);
        let arguments = [socket.as_os_str(), key.as_ref()];
        let child = Command::new(tool_path()).arg("serve").args(arguments).stdin(Stdio::piped()).spawn();
        Self(child.expect("the program starts"))
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(socket: &Path, timeout: Duration) -> KmsClient {
    KmsClient::new(&format!("unix://{}", socket.display()), timeout).expect("a valid URL")
}

#[tokio::test]
async fn a_plugin_of_upstream_encrypts_and_decrypts() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kms.sock");
    let client = Arc::new(client(&socket, LONG));
    // The call waits until the plugin listens.
    let plugin = Plugin::start(&socket, "one");
    let expect = KmsStatus { version: "v2".to_owned(), healthz: "ok".to_owned(), key_id: "one".to_owned() };
    assert_eq!(client.status().await, Ok(expect));
    let encrypted = client.encrypt("uid", b"0123456789abcdef").await.expect("an answer");
    assert_eq!(encrypted.key_id, "one");
    assert_eq!(encrypted.annotations, [("key.example.com".to_owned(), b"one".to_vec())].into());
    let decrypted = client.decrypt("uid", &encrypted).await.expect("an answer");
    assert_eq!(decrypted.bytes(), b"0123456789abcdef");
    let large = EncryptedDek { ciphertext: vec![7; 1 << 20], ..encrypted.clone() };
    assert_eq!(client.decrypt("uid", &large).await.expect("an answer").bytes().len(), 1 << 20);
    let lost = EncryptedDek { key_id: "lost".to_owned(), ..encrypted };
    let error = client.decrypt("uid", &lost).await.expect_err("an error");
    assert_eq!(error.to_string(), "rpc error: code = Unknown desc = the key is lost");

    // After a restart with another key, the same client calls the new process.
    let provider = KmsProvider::new("kms", client.clone());
    assert_eq!(provider.check().await, Ok(()));
    let stored = provider.transformer().1.encrypt(b"value", b"key").expect("a DEK");
    drop(plugin);
    let _plugin = Plugin::start(&socket, "two");
    while client.status().await.map(|status| status.key_id) != Ok("two".to_owned()) {
        tokio::task::yield_now().await;
    }
    let reader = KmsProvider::new("kms", client);
    assert_eq!(reader.check().await, Ok(()));
    let decrypted = decrypt_with_plugin(&*reader.transformer().1, &stored, b"key").await.expect("a value");
    assert_eq!((&*decrypted.value, decrypted.stale), (b"value".as_slice(), true));
}

#[tokio::test]
async fn a_plugin_that_is_away_costs_the_time_of_a_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kms.sock");
    let expect = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    // Nobody listens, then nobody accepts.
    for listens in [false, true] {
        let _listener = listens.then(|| UnixListener::bind(&socket).expect("a listener"));
        let client = client(&socket, Duration::from_millis(200));
        let start = Instant::now();
        let (one, other) = tokio::join!(client.status(), client.status());
        assert_eq!([one, other].map(|answer| answer.expect_err("an error").to_string()), [expect; 2]);
        assert!(start.elapsed() < LONG);
    }
}

/// The response of a server to a call.
#[derive(Clone, Copy)]
enum FakeResponse {
    /// Pieces of the body, and a status unless it is empty.
    Body(&'static [&'static [u8]], &'static str),
    /// A status without a body.
    Status(&'static str),
    NotGrpc,
    Reset(Reason),
}

fn send(response: FakeResponse, respond: &mut SendResponse<Bytes>) {
    let grpc = || Response::builder().header("content-type", "application/grpc");
    match response {
        FakeResponse::Body(pieces, status) => {
            let mut body = respond.send_response(grpc().body(()).expect("a head"), false).expect("an open call");
            for piece in pieces {
                body.send_data(Bytes::from_static(piece), false).expect("an open call");
            }
            let mut trailers = HeaderMap::new();
            if !status.is_empty() {
                trailers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static(status));
                trailers.insert("grpc-message", HeaderValue::from_static("100%25 wrong"));
            }
            body.send_trailers(trailers).expect("an open call");
        }
        FakeResponse::Status(code) => {
            let head = grpc().header("grpc-status", code).header("grpc-message", "no").body(()).expect("a head");
            respond.send_response(head, true).expect("an open call");
        }
        FakeResponse::NotGrpc => {
            let head = Response::builder().status(404).header("content-type", "text/html").body(()).expect("a head");
            respond.send_response(head, true).expect("an open call");
        }
        FakeResponse::Reset(reason) => respond.send_reset(reason),
    }
}

#[tokio::test]
async fn broken_answers_are_errors_and_refused_calls_are_repeated() {
    /// The status with the version `v2`, in a message.
    const V2: &[u8] = &[0, 0, 0, 0, 4, 10, 2, b'v', b'2'];
    const RESPONSES: &[FakeResponse] = &[
        FakeResponse::Body(&[V2], "0"),
        FakeResponse::Body(&[&[0, 0], &[0, 0, 4, 10], &[2, b'v'], b"2"], "0"),
        FakeResponse::Reset(Reason::REFUSED_STREAM),
        FakeResponse::Body(&[V2], "0"),
        FakeResponse::Status("14"),
        FakeResponse::Status("99"),
        FakeResponse::Status("x"),
        FakeResponse::Body(&[V2], "9"),
        FakeResponse::Body(&[V2], ""),
        FakeResponse::Body(&[], "0"),
        FakeResponse::Body(&[V2, V2], "0"),
        FakeResponse::Body(&[&[1, 0, 0, 0, 0]], "0"),
        FakeResponse::Body(&[&[0, 0, 0, 0, 1, 10]], "0"),
        FakeResponse::Body(&[&[0, 0, 0, 0, 3, 10, 1, 255]], "0"),
        FakeResponse::NotGrpc,
        FakeResponse::Reset(Reason::INTERNAL_ERROR),
        FakeResponse::Body(&[V2], "0"),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kms.sock");
    let listener = UnixListener::bind(&socket).expect("a listener");
    let serve = async move {
        let mut responses = RESPONSES.iter();
        while let Ok((stream, _)) = listener.accept().await {
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                send(*responses.next().expect("a response for each call"), &mut respond);
            }
        }
    };
    let server = tokio::spawn(serve);
    let client = client(&socket, LONG);
    let mut answers = Vec::new();
    // One call is repeated.
    for _ in 1..RESPONSES.len() {
        answers.push(match client.status().await {
            Ok(status) => status.version,
            Err(error) => error.to_string().trim_start_matches("rpc error: code = ").to_owned(),
        });
    }
    let expect = [
        "v2",
        "v2",
        "v2",
        "Unavailable desc = no",
        "Code(99) desc = no",
        "Unknown desc = no",
        "FailedPrecondition desc = 100% wrong",
        "Internal desc = server closed the stream without sending trailers",
        "Internal desc = the server has sent no message",
        "Internal desc = the server has not sent exactly one message without compression",
        "Internal desc = the server has not sent exactly one message without compression",
        "proto: cannot parse invalid wire-format data",
        "string field contains invalid UTF-8",
        "Unknown desc = unexpected HTTP status 404 Not Found; content-type \"text/html\"",
        "Unavailable desc = error reading from server: stream error received: unexpected internal error encountered",
        "v2",
    ];
    assert_eq!(answers, expect);
    server.abort();
}
