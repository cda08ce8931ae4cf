//! Requests for API servers that end early: the client goes away, or the time limit passes.

use bytes::Bytes;
use pintle_integration::{Cluster, HttpsServer, Protocol, SERVICE_HOST, SentBody, SentResponse, expect_waiting, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel, unbounded_channel};

const THINGS: &str = "/apis/x.example.com/v1/things";

/// An API server that never answers requests for `/hang`, and passes the pieces of a test on to the clients of watches.
struct SlowServer {
    server: HttpsServer,
    /// For each of these requests, a channel that is closed when the request ends.
    requests: UnboundedReceiver<Sender<Bytes>>,
}

impl SlowServer {
    async fn start(protocol: Protocol) -> Self {
        let (sender, requests) = unbounded_channel();
        let answer = move |path: String, sender: tokio::sync::mpsc::UnboundedSender<Sender<Bytes>>| async move {
            let (pieces, received): (_, Receiver<Bytes>) = channel(1);
            if path.starts_with(&format!("{THINGS}/hang")) {
                let _ = sender.send(pieces);
                std::future::pending::<()>().await;
                drop(received);
            } else if path.contains("watch=1") {
                let _ = sender.send(pieces);
                return SentResponse { body: SentBody::Pieces(received), ..SentResponse::json(200, "") };
            }
            SentResponse::json(200, "{}")
        };
        let answer = move |request: pintle_integration::ReceivedRequest| answer(request.path, sender.clone());
        let server = match protocol {
            Protocol::Http1 => HttpsServer::start_with_names(&[SERVICE_HOST], answer).await,
            Protocol::Any => HttpsServer::start_with_http2(&[SERVICE_HOST], answer).await,
        };
        Self { server, requests }
    }

    /// The channel of the next request.
    async fn next(&mut self) -> Sender<Bytes> {
        self.requests.recv().await.expect("a request")
    }
}

#[test]
fn a_client_that_goes_away_ends_its_request() {
    run(async {
        for to_server in [Protocol::Http1, Protocol::Any] {
            let cluster = Cluster::with_api_services().await;
            let mut server = SlowServer::start(to_server).await;
            cluster.register_available(&server.server).await;
            for from_client in [Protocol::Http1, Protocol::Any] {
                let client = cluster.client(from_client);
                let mut hung = Box::pin(client.request("GET", &format!("{THINGS}/hang")).send());
                expect_waiting("the API server does not answer", &mut hung).await;
                let request = server.next().await;
                assert!(!request.is_closed());
                drop(hung);
                request.closed().await;
                let mut watch = client.request("GET", &format!("{THINGS}?watch=1")).watch().await;
                let request = server.next().await;
                let event = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
                request.send(format!("{event}\n").into()).await.expect("the watch is open");
                let _ = watch.expect("ADDED", "a").await;
                assert!(!request.is_closed());
                drop(watch);
                request.closed().await;
            }
            cluster.stop().await;
        }
    });
}

#[test]
fn an_api_server_that_ends_a_watch_ends_it_for_the_client() {
    run(async {
        for protocol in [Protocol::Http1, Protocol::Any] {
            let cluster = Cluster::with_api_services().await;
            let mut server = SlowServer::start(protocol).await;
            cluster.register_available(&server.server).await;
            let mut watch = cluster.watch(&format!("{THINGS}?watch=1")).await;
            drop(server.next().await);
            assert_eq!(watch.next().await, None);
            cluster.stop().await;
        }
    });
}

#[test]
fn time_limits_end_requests_and_upgrades() {
    run(async {
        let cluster = Cluster::with_api_services().await;
        let mut server = SlowServer::start(Protocol::Http1).await;
        cluster.register_available(&server.server).await;
        let expect = "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete within the \
                      allotted timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n";
        let path = format!("{THINGS}/hang?timeout=100ms");
        for method in ["GET", "POST"] {
            let answer = cluster.request(method, &path).send().await.expect(504);
            assert_eq!(answer.text(), expect);
            assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
            server.next().await.closed().await;
        }
        let message = "invalid timeout specified in the request URL - time: invalid duration \"abc\"";
        cluster.get(&format!("{THINGS}/hang?timeout=abc")).await.expect_error(400, "BadRequest", message);
        let mut socket = cluster.connect().await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("the request is sent");
        let mut answer = Vec::new();
        while !answer.ends_with(expect.as_bytes()) {
            assert_ne!(socket.read_buf(&mut answer).await.expect("bytes"), 0, "{}", String::from_utf8_lossy(&answer));
        }
        assert!(answer.starts_with(b"HTTP/1.1 504 "), "{}", String::from_utf8_lossy(&answer));
        server.next().await.closed().await;
        cluster.stop().await;
    });
}
