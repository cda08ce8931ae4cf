//! Watches over WebSockets, with a third-party client.

use futures_util::{SinkExt, StreamExt};
use http::{HeaderValue, Request, StatusCode};
use pintle_integration::{Cluster, Options, Socket, advance_clock_until, eventually, expect_waiting};
use pintle_server::http::ListenerOptions;
use serde_json::Value;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{
    CONFIGMAPS, cluster_with_manual_clock, create, current_revision, delete, set_color, start_cluster, summarize,
};

/// Builds a WebSocket request with additional headers. An empty value removes a header.
fn request(cluster: &Cluster, path: &str, headers: &[(&'static str, &str)]) -> Request<()> {
    let url = format!("{}{path}", cluster.url().replace("https", "wss"));
    let mut request = url.into_client_request().expect("a URL");
    for (name, value) in [("origin", "http://localhost")].iter().chain(headers) {
        match *value {
            "" => drop(request.headers_mut().remove(*name)),
            value => drop(request.headers_mut().insert(*name, HeaderValue::from_str(value).expect("a value"))),
        }
    }
    request
}

async fn open_websocket(cluster: &Cluster, path: &str, headers: &[(&'static str, &str)]) -> WebSocketStream<Socket> {
    let (socket, response) =
        client_async(request(cluster, path, headers), cluster.connect().await).await.expect("a WebSocket");
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    socket
}

/// Returns the next message, without control frames.
async fn next_message(socket: &mut WebSocketStream<Socket>) -> Message {
    loop {
        match socket.next().await.expect("a message").expect("a message") {
            Message::Ping(_) | Message::Pong(_) => {}
            message => return message,
        }
    }
}

/// Checks the next events, each of which is one text message.
async fn check(socket: &mut WebSocketStream<Socket>, expect: &[String]) {
    for expect in expect {
        let Message::Text(text) = next_message(socket).await else { panic!("not a text message") };
        assert!(text.ends_with('\n'), "{text}");
        let event: Value = serde_json::from_str(&text).expect("one document");
        assert_eq!(summarize(&event), *expect);
    }
}

/// Checks that the server closes the connection with a close code.
async fn check_closed(mut socket: WebSocketStream<Socket>, code: CloseCode) {
    match next_message(&mut socket).await {
        Message::Close(Some(frame)) => assert_eq!((frame.code, frame.reason.as_str()), (code, "")),
        message => panic!("{message:?}"),
    }
    assert!(matches!(socket.next().await, None | Some(Err(_))));
}

#[test]
fn each_event_is_one_message() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let at = current_revision(&cluster).await;
        let mut changes = open_websocket(&cluster, &format!("{CONFIGMAPS}?watch=1&resourceVersion={at}"), &[]).await;
        let mut path = open_websocket(&cluster, "/api/v1/watch/namespaces/n/configmaps/a", &[]).await;
        let a = create(&cluster, "a", "red").await;
        let blue = set_color(&cluster, "a", "blue").await;
        delete(&cluster, "a").await;
        let events = [format!("ADDED a {a}"), format!("MODIFIED a {blue}"), format!("DELETED a {}", blue + 1)];
        check(&mut changes, &events).await;
        check(&mut path, &events).await;

        // Events that share a write over HTTP are separate messages here.
        for name in ["b", "c", "d"] {
            create(&cluster, name, "red").await;
        }
        let end = current_revision(&cluster).await;
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut state = open_websocket(&cluster, &format!("{CONFIGMAPS}?{query}"), &[]).await;
        let state_events: Vec<String> =
            (0..3).map(|i| format!("ADDED {} {}", ["b", "c", "d"][i], end - 2 + i as u64)).collect();
        check(&mut state, &state_events).await;
        check(&mut state, &[format!("BOOKMARK {end}")]).await;
    });
}

#[test]
fn a_watch_is_counted_when_its_websocket_ends() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let counted = async || {
            let metrics = cluster.get("/metrics").await.expect(200).text();
            metrics.lines().any(|line| line.starts_with("apiserver_request_total{code=\"0\"") && line.contains("WATCH"))
        };
        let at = current_revision(&cluster).await;
        let mut socket = open_websocket(&cluster, &format!("{CONFIGMAPS}?watch=1&resourceVersion={at}"), &[]).await;
        let a = create(&cluster, "a", "red").await;
        check(&mut socket, &[format!("ADDED a {a}")]).await;
        assert!(!counted().await);
        drop(socket);
        eventually("the watch is counted", || async { counted().await }).await;
    });
}

#[test]
fn a_websocket_counts_as_an_open_connection() {
    pintle_integration::run(async {
        let listener = ListenerOptions { max_connections: 1, ..ListenerOptions::default() };
        let cluster = Cluster::with_options(Options { listener, ..Options::default() }).await;
        let socket = open_websocket(&cluster, "/api/v1/configmaps?watch=1", &[]).await;
        let mut connects = Box::pin(open_websocket(&cluster, "/api/v1/configmaps?watch=1", &[]));
        expect_waiting("the second connection", &mut connects).await;
        drop(socket);
        let mut second = connects.await;
        // The watch ends with the server.
        let ((), message) = tokio::join!(cluster.stop_server(), next_message(&mut second));
        assert!(matches!(message, Message::Close(_)), "{message:?}");
    });
}

#[test]
fn protobuf_events_are_binary_messages() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        for name in ["a", "b"] {
            create(&cluster, name, "red").await;
        }
        let accept = ("accept", "application/vnd.kubernetes.protobuf");
        let mut socket = open_websocket(&cluster, &format!("{CONFIGMAPS}?watch=1"), &[accept]).await;
        for name in ["a", "b"] {
            let Message::Binary(event) = next_message(&mut socket).await else { panic!("not a binary message") };
            let (event, kind) = super::representations::summarize_protobuf(&event);
            assert!(event.starts_with(&format!("ADDED {name} ")), "{event}");
            assert_eq!(kind, "v1 ConfigMap");
        }
    });
}

#[test]
fn errors_are_events_or_http_responses() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999";
        let path = format!("{CONFIGMAPS}?watch=1&{query}");
        let mut socket = advance_clock_until(&clock, open_websocket(&cluster, &path, &[])).await;
        check(&mut socket, &["ERROR".to_owned()]).await;
        check_closed(socket, CloseCode::Normal).await;

        let origin = [("origin", "")];
        let bad_origin = [("origin", "null")];
        let protocols = [("sec-websocket-protocol", "a, b")];
        let version = [("sec-websocket-version", "8")];
        for (query, headers, code, body) in [
            ("resourceVersion=x", &[][..], 500, None),
            ("labelSelector=!", &[], 400, None),
            ("sendInitialEvents=true", &[], 422, None),
            // As in x/net/websocket: an `Origin` other than `null` is required, and at most one subprotocol is allowed.
            ("", &origin, 403, Some("")),
            ("", &bad_origin, 403, Some("")),
            ("", &protocols, 400, Some("")),
            ("", &version, 400, Some("missing or bad WebSocket Version")),
        ] {
            let request = request(&cluster, &format!("{CONFIGMAPS}?watch=1&{query}"), headers);
            match client_async(request, cluster.connect().await).await {
                Err(Error::Http(response)) => {
                    assert_eq!(response.status(), code, "{query} {headers:?}");
                    let found = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
                    match body {
                        Some(body) => assert_eq!(found, body),
                        None => assert!(found.contains("\"kind\":\"Status\""), "{found}"),
                    }
                }
                other => panic!("{query} {headers:?}: {other:?}"),
            }
        }
        // A list gets an HTTP response: only watches are served over WebSockets.
        match client_async(request(&cluster, CONFIGMAPS, &[]), cluster.connect().await).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), 200),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_single_subprotocol_is_accepted() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let path = format!("{CONFIGMAPS}?watch=1");
        let asked = request(&cluster, &path, &[("sec-websocket-protocol", "channel.example")]);
        let (_, response) = client_async(asked, cluster.connect().await).await.expect("a WebSocket");
        assert_eq!(response.headers()["sec-websocket-protocol"], "channel.example");
        let (_, response) =
            client_async(request(&cluster, &path, &[]), cluster.connect().await).await.expect("a WebSocket");
        assert_eq!(response.headers().get("sec-websocket-protocol"), None);
    });
}

#[test]
fn messages_of_the_client_are_ignored() {
    pintle_integration::run(async {
        let cluster = start_cluster().await;
        let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={}", current_revision(&cluster).await);
        let mut socket = open_websocket(&cluster, &path, &[]).await;
        for message in [Message::text("hello"), Message::binary(vec![0; 1000]), Message::Pong("x".into())] {
            socket.send(message).await.expect("the server reads");
        }
        socket.send(Message::Ping("are you there".into())).await.expect("the server reads");
        assert_eq!(socket.next().await.expect("a message").expect("a message"), Message::Pong("are you there".into()));
        let a = create(&cluster, "a", "red").await;
        check(&mut socket, &[format!("ADDED a {a}")]).await;
        // The server answers a close frame.
        socket.close(None).await.expect("the server reads");
        assert!(matches!(next_message(&mut socket).await, Message::Close(_)));
    });
}

#[test]
fn the_server_sends_a_close_frame() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let at = current_revision(&cluster).await;
        let short =
            open_websocket(&cluster, &format!("{CONFIGMAPS}?watch=1&resourceVersion={at}&timeoutSeconds=1"), &[]).await;
        advance_clock_until(&clock, check_closed(short, CloseCode::Normal)).await;
        let long = open_websocket(&cluster, &format!("{CONFIGMAPS}?watch=1&resourceVersion={at}"), &[]).await;
        let ((), ()) = tokio::join!(cluster.stop(), check_closed(long, CloseCode::Normal));
    });
}

/// A request of a browser, which cannot send the header `Authorization`.
#[test]
fn a_subprotocol_can_be_the_bearer_token() {
    pintle_integration::run(async {
        let cluster = Cluster::with_tokens("secret,alice,1").await;
        let base = "base64url.bearer.authorization.k8s.io.";
        let path = "/api/v1/namespaces/default/configmaps?watch=1";
        for (protocols, expect) in [
            (format!("{base}c2VjcmV0, v4.channel.k8s.io"), Ok("v4.channel.k8s.io")),
            (format!("v4.channel.k8s.io, {base}c2VjcmV0"), Ok("v4.channel.k8s.io")),
            (format!("{base}c2VjcmV0"), Err(StatusCode::UNAUTHORIZED)),
            (format!("{base}c2VjcmV, v4.channel.k8s.io"), Err(StatusCode::UNAUTHORIZED)),
            ("v4.channel.k8s.io".to_owned(), Err(StatusCode::UNAUTHORIZED)),
        ] {
            let request = request(&cluster, path, &[("sec-websocket-protocol", &protocols)]);
            match (client_async(request, cluster.connect_anonymously().await).await, expect) {
                (Ok((_, response)), Ok(expect)) => {
                    assert_eq!(response.headers()["sec-websocket-protocol"], expect, "{protocols}");
                }
                (Err(Error::Http(response)), Err(code)) => assert_eq!(response.status(), code, "{protocols}"),
                (found, expect) => panic!("{protocols}: {expect:?} {:?}", found.map(|(_, response)| response)),
            }
        }
        cluster.stop().await;
    });
}
