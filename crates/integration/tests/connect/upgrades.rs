//! Connections that switch to another protocol.

use pintle_integration::{Cluster, Kubelet, Options, Socket, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const UPGRADE: &str = "/api/v1/namespaces/default/pods/p/proxy/upgrade";

/// Sends a request for another protocol, and reads the head of the answer.
async fn ask(cluster: &Cluster, method: &str, path: &str, headers: &str) -> (Socket, String) {
    let mut socket = cluster.connect().await;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n{headers}\r\n");
    socket.write_all(head.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let byte = socket.read_u8().await.expect("more of the head");
        answer.push(byte);
    }
    (socket, String::from_utf8(answer).expect("text").to_lowercase())
}

#[test]
fn bytes_are_copied_both_ways_until_a_side_ends() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let (mut socket, head) = ask(&cluster, "GET", UPGRADE, "Upgrade: shout\r\n").await;
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        assert!(head.contains("upgrade: shout\r\n") && head.contains("x-own: 1\r\n"), "{head}");
        for text in ["hello", "again"] {
            socket.write_all(text.as_bytes()).await.expect("written");
            let mut answer = vec![0; text.len()];
            socket.read_exact(&mut answer).await.expect("read");
            assert_eq!(answer, text.to_uppercase().as_bytes());
        }
        socket.shutdown().await.expect("ended");
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
        cluster.stop().await;
    });
}

#[test]
fn the_body_of_a_request_for_another_protocol_reaches_the_backend() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        for (body, expect) in [
            // The line break at the end is part of the body.
            ("Content-Length: 7\r\n\r\nhello", r#"x-body: "hello\r\n""#),
            ("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", r#"x-body: "hello""#),
        ] {
            let (mut socket, head) = ask(&cluster, "POST", UPGRADE, &format!("Upgrade: shout\r\n{body}")).await;
            assert!(head.starts_with("http/1.1 101 ") && head.contains(expect), "{head}");
            socket.write_all(b"bytes").await.expect("written");
            let mut answer = [0; 5];
            socket.read_exact(&mut answer).await.expect("read");
            assert_eq!(&answer, b"BYTES");
        }
        cluster.stop().await;
    });
}

#[test]
fn an_open_connection_does_not_delay_the_end_of_the_server() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let (mut socket, head) = ask(&cluster, "GET", UPGRADE, "Upgrade: shout\r\n").await;
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        cluster.stop().await;
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
    });
}

#[test]
fn refusals_of_backends_are_passed_on() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let (mut socket, head) = ask(&cluster, "GET", UPGRADE, "Upgrade: whisper\r\n").await;
        assert!(head.starts_with("http/1.1 426 ") && head.contains("connection: close\r\n"), "{head}");
        let mut body = Vec::new();
        let _ = socket.read_to_end(&mut body).await;
        assert!(String::from_utf8_lossy(&body).contains("only shouting"));
        kubelet.create_pod(&cluster, "b", &["broken"]).await;
        let exec = "/api/v1/namespaces/default/pods/b/exec?command=x&stdout=true";
        let headers = "Upgrade: SPDY/3.1\r\nContent-Length: 0\r\n";
        let (_socket, head) = ask(&cluster, "POST", exec, headers).await;
        assert!(head.starts_with("http/1.1 409 "), "{head}");
        cluster.stop().await;
    });
}

#[test]
fn a_backend_that_does_not_switch_protocols_is_an_error() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        let proxy = "/api/v1/namespaces/default/pods/p/proxy/echo";
        let (mut socket, head) = ask(&cluster, "GET", proxy, "Upgrade: shout\r\nAccept: */*\r\n").await;
        assert!(head.starts_with("http/1.1 500 "), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        socket.read_exact(&mut body).await.expect("read");
        let status: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(status["message"], "invalid upgrade response: status code 200");
        let unreachable = "/api/v1/namespaces/default/pods/p:1/proxy/upgrade";
        let (mut socket, head) = ask(&cluster, "GET", unreachable, "Upgrade: shout\r\nAccept: */*\r\n").await;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        socket.read_exact(&mut body).await.expect("read");
        let status: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(status["message"], "error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused");
        cluster.stop().await;
    });
}

#[test]
fn redirects_of_kubelets_are_not_followed() {
    run(async {
        let kubelet = Kubelet::start();
        let cluster = kubelet.cluster(Options::default()).await;
        kubelet.create_pod(&cluster, "r", &["redirecting"]).await;
        let exec = "/api/v1/namespaces/default/pods/r/exec?command=x&stdout=true";
        let headers = "Upgrade: SPDY/3.1\r\nContent-Length: 0\r\nAccept: */*\r\n";
        let (mut socket, head) = ask(&cluster, "POST", exec, headers).await;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        socket.read_exact(&mut body).await.expect("read");
        let status: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(status["message"], "invalid upgrade response: status code 302");
        cluster.stop().await;
    });
}
