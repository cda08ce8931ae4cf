//! Watches over WebSockets, with a client that knows nothing of this server.

use futures_util::{SinkExt, StreamExt};
use http::{HeaderValue, Request, StatusCode};
use pintle_testkit::{Cluster, Options, Socket, advance_clock_until};
use serde_json::Value;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::{MAPS, make, now, paint, remove, short, start, timed};

/// A request for a WebSocket with headers of its own; an empty value takes a header away.
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

async fn open(cluster: &Cluster, path: &str, headers: &[(&'static str, &str)]) -> WebSocketStream<Socket> {
    let (socket, answer) =
        client_async(request(cluster, path, headers), cluster.connect().await).await.expect("a WebSocket");
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    socket
}

/// The next message; control frames are passed over.
async fn next(socket: &mut WebSocketStream<Socket>) -> Message {
    loop {
        match socket.next().await.expect("a message").expect("a message") {
            Message::Ping(_) | Message::Pong(_) => {}
            message => return message,
        }
    }
}

/// Sees to it that events come, each as one message of text.
async fn check(socket: &mut WebSocketStream<Socket>, expect: &[String]) {
    for expect in expect {
        let Message::Text(text) = next(socket).await else { panic!("no text") };
        assert!(text.ends_with('\n'), "{text}");
        let event: Value = serde_json::from_str(&text).expect("one document");
        assert_eq!(short(&event), *expect);
    }
}

/// Sees to it that the server closes, and how.
async fn closed(mut socket: WebSocketStream<Socket>, code: CloseCode) {
    match next(&mut socket).await {
        Message::Close(Some(frame)) => assert_eq!((frame.code, frame.reason.as_str()), (code, "")),
        message => panic!("{message:?}"),
    }
    assert!(matches!(socket.next().await, None | Some(Err(_))));
}

#[test]
fn events_are_messages() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let at = now(&cluster).await;
        let mut changes = open(&cluster, &format!("{MAPS}?watch=1&resourceVersion={at}"), &[]).await;
        let mut path = open(&cluster, "/api/v1/watch/namespaces/n/configmaps/a", &[]).await;
        let a = make(&cluster, "a", "red").await;
        let blue = paint(&cluster, "a", "blue").await;
        remove(&cluster, "a").await;
        let events = [format!("ADDED a {a}"), format!("MODIFIED a {blue}"), format!("DELETED a {}", blue + 1)];
        check(&mut changes, &events).await;
        check(&mut path, &events).await;

        // What is joined in one write over HTTP comes apart here.
        for name in ["b", "c", "d"] {
            make(&cluster, name, "red").await;
        }
        let end = now(&cluster).await;
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut state = open(&cluster, &format!("{MAPS}?{query}"), &[]).await;
        let state_events: Vec<String> =
            (0..3).map(|i| format!("ADDED {} {}", ["b", "c", "d"][i], end - 2 + i as u64)).collect();
        check(&mut state, &state_events).await;
        check(&mut state, &[format!("BOOKMARK {end}")]).await;
    });
}

#[test]
fn protobuf_comes_in_binary_messages() {
    pintle_testkit::run(async {
        let cluster = start().await;
        for name in ["a", "b"] {
            make(&cluster, name, "red").await;
        }
        let accept = ("accept", "application/vnd.kubernetes.protobuf");
        let mut socket = open(&cluster, &format!("{MAPS}?watch=1"), &[accept]).await;
        for name in ["a", "b"] {
            let Message::Binary(event) = next(&mut socket).await else { panic!("no bytes") };
            let (event, kind) = crate::forms::short(&event);
            assert!(event.starts_with(&format!("ADDED {name} ")), "{event}");
            assert_eq!(kind, "v1 ConfigMap");
        }
    });
}

#[test]
fn errors_are_events_or_plain_answers() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999";
        let path = format!("{MAPS}?watch=1&{query}");
        let mut socket = advance_clock_until(&clock, open(&cluster, &path, &[])).await;
        check(&mut socket, &["ERROR".to_owned()]).await;
        closed(socket, CloseCode::Normal).await;

        let origin = [("origin", "")];
        let bad_origin = [("origin", "null")];
        let protocols = [("sec-websocket-protocol", "a, b")];
        let version = [("sec-websocket-version", "8")];
        for (query, headers, code, body) in [
            ("resourceVersion=x", &[][..], 500, None),
            ("labelSelector=!", &[], 400, None),
            ("sendInitialEvents=true", &[], 422, None),
            // As x/net/websocket has it: an origin is wanted, whichever; of subprotocols there is one or none.
            ("", &origin, 403, Some("")),
            ("", &bad_origin, 403, Some("")),
            ("", &protocols, 400, Some("")),
            ("", &version, 400, Some("missing or bad WebSocket Version")),
        ] {
            let request = request(&cluster, &format!("{MAPS}?watch=1&{query}"), headers);
            match client_async(request, cluster.connect().await).await {
                Err(Error::Http(answer)) => {
                    assert_eq!(answer.status(), code, "{query} {headers:?}");
                    let found = String::from_utf8_lossy(answer.body().as_deref().unwrap_or_default()).into_owned();
                    match body {
                        Some(body) => assert_eq!(found, body),
                        None => assert!(found.contains("\"kind\":\"Status\""), "{found}"),
                    }
                }
                other => panic!("{query} {headers:?}: {other:?}"),
            }
        }
        // A list is answered as ever: only watches are served over WebSockets.
        match client_async(request(&cluster, MAPS, &[]), cluster.connect().await).await {
            Err(Error::Http(answer)) => assert_eq!(answer.status(), 200),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_subprotocol_is_taken_over() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let path = format!("{MAPS}?watch=1");
        let asked = request(&cluster, &path, &[("sec-websocket-protocol", "channel.example")]);
        let (_, answer) = client_async(asked, cluster.connect().await).await.expect("a WebSocket");
        assert_eq!(answer.headers()["sec-websocket-protocol"], "channel.example");
        let (_, answer) =
            client_async(request(&cluster, &path, &[]), cluster.connect().await).await.expect("a WebSocket");
        assert_eq!(answer.headers().get("sec-websocket-protocol"), None);
    });
}

#[test]
fn what_the_client_says_is_not_listened_to() {
    pintle_testkit::run(async {
        let cluster = start().await;
        let path = format!("{MAPS}?watch=1&resourceVersion={}", now(&cluster).await);
        let mut socket = open(&cluster, &path, &[]).await;
        for said in [Message::text("hello"), Message::binary(vec![0; 1000]), Message::Pong("x".into())] {
            socket.send(said).await.expect("the server reads");
        }
        socket.send(Message::Ping("are you there".into())).await.expect("the server reads");
        assert_eq!(socket.next().await.expect("a message").expect("a message"), Message::Pong("are you there".into()));
        let a = make(&cluster, "a", "red").await;
        check(&mut socket, &[format!("ADDED a {a}")]).await;
        // A goodbye is answered.
        socket.close(None).await.expect("the server reads");
        assert!(matches!(next(&mut socket).await, Message::Close(_)));
    });
}

#[test]
fn the_server_says_goodbye() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let at = now(&cluster).await;
        let short = open(&cluster, &format!("{MAPS}?watch=1&resourceVersion={at}&timeoutSeconds=1"), &[]).await;
        advance_clock_until(&clock, closed(short, CloseCode::Normal)).await;
        let long = open(&cluster, &format!("{MAPS}?watch=1&resourceVersion={at}"), &[]).await;
        let ((), ()) = tokio::join!(cluster.stop(), closed(long, CloseCode::Normal));
    });
}
