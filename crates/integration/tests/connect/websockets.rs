//! WebSockets of clients, message by message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use pintle_integration::{Cluster, HttpsServer, Kubelet, Options, Socket, eventually, run};
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};

const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec";

type WebSocket = WebSocketStream<Socket>;

/// Opens a WebSocket with a subprotocol.
async fn open(cluster: &Cluster, path: &str, protocol: &str) -> Result<(WebSocket, Response), Error> {
    let mut request = format!("wss://localhost{path}").into_client_request().expect("a request");
    let protocol = HeaderValue::from_str(protocol).expect("a protocol");
    request.headers_mut().insert("sec-websocket-protocol", protocol);
    tokio_tungstenite::client_async(request, cluster.connect().await).await
}

async fn exec(cluster: &Cluster, query: &str) -> WebSocket {
    let (socket, response) = open(cluster, &format!("{EXEC}?{query}"), "v5.channel.k8s.io").await.expect("a WebSocket");
    assert_eq!(response.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
    socket
}

/// The bytes of each channel until the end of the connection.
async fn receive(socket: &mut WebSocket) -> [Vec<u8>; 5] {
    let received = receive_until_close(socket).await;
    assert!(socket.next().await.is_none(), "nothing follows the close");
    received
}

/// The bytes of each channel before the close frame.
async fn receive_until_close(socket: &mut WebSocket) -> [Vec<u8>; 5] {
    let mut received = [const { Vec::new() }; 5];
    while let Some(message) = socket.next().await {
        match message.expect("a message") {
            Message::Binary(bytes) => received[usize::from(bytes[0])].extend_from_slice(&bytes[1..]),
            Message::Close(frame) => {
                assert_eq!(u16::from(frame.expect("a reason").code), 1000);
                return received;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the connection ended without a close");
}

fn status(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("a status")
}

async fn send(socket: &mut WebSocket, channel: u8, bytes: &[u8]) {
    let message = [&[channel], bytes].concat();
    socket.send(Message::Binary(message.into())).await.expect("sent");
}

#[test]
fn channels_are_translated_to_streams() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let mut socket = exec(&cluster, "command=cat&stdin=true&stdout=true&stderr=true").await;
        // The first message reports that the connection is established.
        assert_eq!(socket.next().await.expect("a message").expect("no error"), Message::Binary(vec![1].into()));
        send(&mut socket, 0, b"hello").await;
        // The server ignores messages on channels that clients do not write, or that do not exist.
        send(&mut socket, 1, b"ignored").await;
        send(&mut socket, 9, b"ignored").await;
        send(&mut socket, 255, &[0]).await;
        send(&mut socket, 0, b"too late").await;
        let received = receive(&mut socket).await;
        assert_eq!(received[1], b"hello");
        assert_eq!(status(&received[3]), json!({"metadata": {}, "status": "Success"}));
        let mut socket = exec(&cluster, "command=sh&command=-c&command=echo%20e%20%3E%262%3Bexit%203&stderr=1").await;
        let received = receive(&mut socket).await;
        assert_eq!(received[2], b"e\n");
        let expect = json!({
            "metadata": {},
            "status": "Failure",
            "message": "command terminated with non-zero exit code: command terminated with exit code 3",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
        });
        assert_eq!(status(&received[3]), expect);
        cluster.stop().await;
    });
}

#[test]
fn terminals_have_a_size() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let mut socket = exec(&cluster, "command=size&stdin=true&stdout=true&tty=true").await;
        send(&mut socket, 4, br#"{"Width":80,"Height":24}"#).await;
        let received = receive(&mut socket).await;
        assert_eq!(String::from_utf8_lossy(&received[1]), "80x24 tty=true\n");
        cluster.stop().await;
    });
}

#[test]
fn older_protocols_are_passed_on() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let path = format!("{EXEC}?command=echo&command=hello&stdout=true");
        let (mut socket, response) = open(&cluster, &path, "v4.channel.k8s.io").await.expect("a WebSocket");
        assert_eq!(response.headers()["sec-websocket-protocol"], "v4.channel.k8s.io");
        // The kubelet's library may still write to a stream after it has closed the connection.
        let received = receive_until_close(&mut socket).await;
        assert_eq!(received[1], b"hello\n");
        assert_eq!(status(&received[3])["status"], "Success");
        cluster.stop().await;
    });
}

#[test]
fn logs_are_sent_as_messages() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let path = "/api/v1/namespaces/default/pods/p/log";
        let log = "query \nline 1 of c\nline 2 of c\nline 3 of c\n";
        for protocol in ["binary.k8s.io", "base64.binary.k8s.io"] {
            let (mut socket, response) = open(&cluster, path, protocol).await.expect("a WebSocket");
            assert_eq!(response.headers()["sec-websocket-protocol"], protocol);
            let mut received = Vec::new();
            let mut count = 0;
            while let Some(message) = socket.next().await {
                match message.expect("a message") {
                    Message::Binary(bytes) => received.extend_from_slice(&bytes),
                    Message::Text(text) => received.extend(STANDARD.decode(text.as_str()).expect("base64")),
                    Message::Close(frame) => assert_eq!(u16::from(frame.expect("a reason").code), 1000),
                    other => panic!("{other:?}"),
                }
                assert!(count > 0 || received.is_empty(), "the first message is empty");
                count += 1;
            }
            assert_eq!(String::from_utf8_lossy(&received), log);
        }
        let Err(Error::Http(response)) = open(&cluster, path, "other").await else { panic!("a log") };
        assert_eq!(response.status(), 403);
        cluster.stop().await;
    });
}

#[test]
fn tunnels_need_a_protocol_and_a_kubelet() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let path = "/api/v1/namespaces/default/pods/p/portforward";
        let (_socket, response) = open(&cluster, path, "SPDY/3.1+portforward.k8s.io").await.expect("a WebSocket");
        assert_eq!(response.headers()["sec-websocket-protocol"], "SPDY/3.1+portforward.k8s.io");
        // The kubelet supports no other protocol.
        let Err(Error::Http(response)) = open(&cluster, path, "SPDY/3.1+other.k8s.io").await else {
            panic!("a tunnel")
        };
        assert_eq!(response.status(), 403);
        cluster.stop().await;
    });
}

#[test]
fn a_client_that_goes_away_ends_its_connection() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let mut socket =
            exec(&cluster, "command=sh&command=-c&command=echo%20ready%3Bcat&stdin=true&stdout=true").await;
        loop {
            match socket.next().await.expect("a message").expect("no error") {
                Message::Binary(bytes) if &bytes[..] == b"\x01ready\n" => break,
                Message::Binary(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(open_connections(&cluster).await.as_deref(), Some("1"));
        drop(socket);
        wait_until_closed(&cluster).await;
        cluster.stop().await;
    });
}

#[test]
fn a_client_that_goes_away_before_the_kubelet_answers_ends_its_connection() {
    run(async {
        let silent = HttpsServer::start(|_| std::future::pending()).await;
        let cluster = Cluster::start().await;
        let node = json!({
            "metadata": {"name": "n"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": silent.port}},
            },
        });
        let _ = cluster.post("/api/v1/nodes", node.to_string()).await.expect(201);
        let _ = cluster.put("/api/v1/nodes/n/status", node.to_string()).await.expect(200);
        let containers = json!([{"name": "c", "image": "i"}]);
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": containers}});
        let _ = cluster.post("/api/v1/namespaces/default/pods", pod.to_string()).await.expect(201);
        let mut socket = exec(&cluster, "command=cat&stdin=true&stdout=true").await;
        assert_eq!(socket.next().await.expect("a message").expect("no error"), Message::Binary(vec![1].into()));
        eventually("the server connects", || async { silent.connection_count() > 0 }).await;
        drop(socket);
        wait_until_closed(&cluster).await;
        cluster.stop().await;
    });
}

async fn wait_until_closed(cluster: &Cluster) {
    let is_closed = || async { open_connections(cluster).await.as_deref() == Some("0") };
    eventually("the connection is closed", is_closed).await;
}

/// The number of connections for exec.
async fn open_connections(cluster: &Cluster) -> Option<String> {
    let metrics = cluster.get("/metrics").await.expect(200).text();
    let found = metrics
        .lines()
        .find(|line| line.starts_with("apiserver_longrunning_requests{") && line.contains("subresource=\"exec\""));
    found.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
}
