//! The limits of requests and connections: time, requests in flight, streams, and how a server stops.

use std::time::Duration;

use pintle::{AccessOptions, Options};
use pintle_integration::{Cluster, Watch, eventually, expect_waiting, run};
use pintle_server::RequestLimits;
use pintle_server::http::ListenerOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = r#"{"metadata":{"name":"a"},"data":{"a":"1"}}"#;

/// The head of a create over HTTP/1.1 whose body is not sent.
fn head_of_create(query: &str) -> String {
    let length = MAP.len();
    format!(
        "POST {MAPS}{query} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[test]
fn a_timeout_that_is_no_duration_is_an_error() {
    run(async {
        let cluster = Cluster::start().await;
        let message = "invalid timeout specified in the request URL - time: invalid duration \"soon\"";
        cluster.get(&format!("{MAPS}?timeout=soon")).await.expect_error(400, "BadRequest", message);
        // The server reads the parameter before it authenticates the client.
        let anonymous = cluster.request("GET", &format!("{MAPS}?timeout=soon")).anonymous().send().await;
        anonymous.expect_error(400, "BadRequest", message);
        for query in ["timeout=", "timeout=0s", "timeout=-1s", "timeout=5m"] {
            let _ = cluster.get(&format!("{MAPS}?{query}")).await.expect(200);
        }
        // Watches have their own timeout.
        let _ = cluster.get(&format!("{MAPS}?watch=1&timeout=soon&timeoutSeconds=1")).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn a_body_that_does_not_arrive_in_time_is_answered_with_a_timeout() {
    run(async {
        let cluster = Cluster::start().await;
        let mut socket = cluster.connect().await;
        socket.write_all(head_of_create("?timeout=100ms").as_bytes()).await.expect("the head is sent");
        socket.write_all(&MAP.as_bytes()[..10]).await.expect("a part of the body is sent");
        let mut response = Vec::new();
        while !response.ends_with(b"\n") {
            assert_ne!(socket.read_buf(&mut response).await.expect("a response"), 0);
        }
        let response = String::from_utf8(response).expect("text");
        assert!(response.starts_with("HTTP/1.1 504 "), "{response}");
        assert!(response.contains("content-type: text/plain; charset=utf-8\r\n"), "{response}");
        let body = "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete within the allotted \
                    timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n";
        assert!(response.ends_with(body), "{response}");
        // A body that arrives later is not stored.
        let _ = socket.write_all(&MAP.as_bytes()[10..]).await;
        let _ = cluster.get(&format!("{MAPS}/a")).await.expect(404);
        cluster.stop().await;
    });
}

#[test]
fn requests_beyond_the_limit_are_refused_except_those_of_administrators() {
    run(async {
        let limits = RequestLimits {
            max_mutating_requests_in_flight: 1,
            priority_and_fairness: false,
            ..RequestLimits::default()
        };
        let access = AccessOptions { tokens: Some("secret,user,1".to_owned()), ..AccessOptions::default() };
        let cluster = Cluster::with_options(Options { limits, access, ..Options::default() }).await;
        let create = async |name: &str| {
            let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            let request = cluster.request("POST", MAPS).anonymous().header("Authorization", "Bearer secret");
            request.json(body).send().await
        };
        // The first write waits for its body. It takes the only slot if no other write is in flight when it arrives.
        let mut names = (0..).map(|n| format!("before-{n}"));
        let (mut socket, refused) = loop {
            let mut socket = cluster.connect().await;
            socket.write_all(head_of_create("").as_bytes()).await.expect("the head is sent");
            let _ = cluster.get(MAPS).await.expect(200);
            let response = create(&names.next().expect("a name")).await;
            if response.status != 201 {
                break (socket, response.expect(429));
            }
        };
        assert_eq!(refused.text(), "Too many requests, please try again later.\n");
        assert_eq!((refused.header("retry-after"), refused.header("x-content-type-options")), ("1", "nosniff"));
        assert_eq!(refused.header("content-type"), "text/plain; charset=utf-8");
        // Reads have their own limit.
        let read = cluster.request("GET", MAPS).anonymous().header("Authorization", "Bearer secret");
        let _ = read.send().await.expect(200);
        let _ = cluster.post(MAPS, r#"{"metadata":{"name":"of-administrator"}}"#).await.expect(201);
        // If an earlier connection still had the slot, the server refused this connection, too.
        let _ = socket.write_all(MAP.as_bytes()).await;
        drop(socket);
        eventually("the slot is free", || async { create("after").await.status == 201 }).await;
        cluster.stop().await;
    });
}

#[test]
fn bodies_beyond_the_limit_are_refused_and_only_bytes_that_arrived_count() {
    run(async {
        let limits = RequestLimits { max_body_bytes_in_flight: 4 << 20, ..RequestLimits::default() };
        let cluster = Cluster::with_options(Options { limits, ..Options::default() }).await;
        let head = |length: usize| {
            format!(
                "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            )
        };
        // The clients announce bodies of three times the limit, but do not send them.
        let mut announced = Vec::new();
        for _ in 0..4 {
            let mut socket = cluster.connect().await;
            socket.write_all(head(3 << 20).as_bytes()).await.expect("the head is sent");
            announced.push(socket);
        }
        let body = |name: &str, size: usize| {
            format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"a":"{}"}}}}"#, "x".repeat(size))
        };
        let _ = cluster.post(MAPS, body("large", 900_000)).await.expect(201);
        // The server receives most of two bodies.
        for socket in &mut announced[..2] {
            socket.write_all(&vec![b' '; 1 << 20]).await.expect("a part of the body is sent");
            socket.write_all(&vec![b' '; 700_000]).await.expect("a part of the body is sent");
        }
        let held = async || {
            let metrics = cluster.get("/metrics").await.expect(200).text();
            let held = metrics.lines().find_map(|line| line.strip_prefix("pintle_request_body_bytes "));
            held.expect("the metric").parse::<f64>().expect("a number")
        };
        eventually("the bodies are received", || async { held().await >= 3_400_000.0 }).await;
        let large = body("refused", 900_000);
        let refused = cluster.post(MAPS, large.clone()).await.expect(429);
        assert_eq!(refused.text(), "Too many requests, please try again later.\n");
        assert_eq!(refused.header("retry-after"), "1");
        // Small bodies are still accepted.
        let _ = cluster.post(MAPS, body("small", 10_000)).await.expect(201);
        drop(announced);
        let accepted = || async { cluster.post(MAPS, large.clone()).await.status == 201 };
        eventually("large bodies are accepted", accepted).await;
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let dropped = metrics.lines().find(|line| {
            line.starts_with("apiserver_request_terminations_total{code=\"429\"") && line.contains("configmaps")
        });
        assert!(dropped.is_some(), "{metrics}");
        cluster.stop().await;
    });
}

#[test]
fn selectors_as_long_as_a_request_can_be_select_and_end_in_time() {
    run(async {
        let cluster = Cluster::start().await;
        for n in 0..20 {
            let map = format!(r#"{{"metadata":{{"name":"m{n}","labels":{{"app":"a{n}","zone":"z"}}}}}}"#);
            let _ = cluster.post(MAPS, map).await.expect(201);
        }
        // Every object meets all requirements except the last.
        let without: String = (0..8_000).map(|n| format!("!x{n},")).collect();
        let list = |query: &str| format!("{MAPS}?labelSelector={without}{query}");
        for (query, expect) in
            [("app=a7", 1), ("zone=z", 20), ("zone=none", 0), ("zone=z&limit=3", 3), ("zone=z,x7", 0)]
        {
            let found = cluster.get(&list(query)).await.expect(200).json();
            assert_eq!(found["items"].as_array().map(Vec::len), Some(expect), "{query}");
        }
        let mut watch = cluster.watch(&format!("{}&watch=1", list("app=a7"))).await;
        watch.expect("ADDED", "m7").await;
        let _ = cluster.delete(&format!("{MAPS}/m6")).await.expect(200);
        let _ = cluster.delete(&format!("{MAPS}/m7")).await.expect(200);
        watch.expect("DELETED", "m7").await;
        cluster.stop().await;
    });
}

#[test]
fn the_head_of_a_request_has_less_time_than_an_idle_connection() {
    run(async {
        let head_timeout = Duration::from_secs(2);
        let listener = ListenerOptions { head_timeout, ..ListenerOptions::default() };
        let cluster = Cluster::with_options(Options { listener, ..Options::default() }).await;
        // The client sends no part of a head, or only a part.
        let unfinished = async |part: &str| {
            let mut socket = cluster.connect().await;
            socket.write_all(part.as_bytes()).await.expect("a part of the head is sent");
            let mut answer = Vec::new();
            let _ = socket.read_to_end(&mut answer).await;
            assert_eq!(String::from_utf8_lossy(&answer), "", "{part:?}");
        };
        let idle = async {
            let request = "GET /version HTTP/1.1\r\nhost: x\r\n\r\n";
            let mut socket = cluster.connect().await;
            // The connection is idle for longer than a head may take.
            for wait in [head_timeout * 2, Duration::ZERO] {
                socket.write_all(request.as_bytes()).await.expect("the request is sent");
                let mut answer = Vec::new();
                while !answer.ends_with(b"}") {
                    assert_ne!(socket.read_buf(&mut answer).await.expect("an answer"), 0);
                }
                tokio::time::sleep(wait).await;
            }
            // The head of the next request does not arrive.
            socket.write_all(b"GET ").await.expect("a part of the head is sent");
            let mut answer = Vec::new();
            let _ = socket.read_to_end(&mut answer).await;
            assert_eq!(String::from_utf8_lossy(&answer), "");
        };
        tokio::join!(unfinished(""), unfinished("GET /version HTTP/1.1\r\nhost: "), idle);
        cluster.stop().await;
    });
}

#[test]
fn requests_succeed_while_connections_are_told_to_go_away() {
    run(async {
        let listener = ListenerOptions { goaway_chance: 1.0, ..ListenerOptions::default() };
        let cluster = Cluster::with_options(Options { listener, ..Options::default() }).await;
        // The client may choose a connection at the moment when GOAWAY arrives on it. Then it sends nothing.
        for name in 0..20 {
            let created = loop {
                let request = cluster.request("POST", MAPS).json(format!(r#"{{"metadata":{{"name":"m{name}"}}}}"#));
                if let Ok(response) = request.try_send().await {
                    break response;
                }
            };
            let _ = created.expect(201);
        }
        let stream = loop {
            let request = cluster.request("GET", &format!("{MAPS}?watch=1&resourceVersion=0"));
            if let Ok(response) = request.stream().await {
                break response.expect("a watch");
            }
        };
        let mut watch = Watch::from(stream);
        for name in ["m0", "m1"] {
            watch.expect("ADDED", name).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn connections_beyond_the_limit_wait_until_one_is_closed() {
    run(async {
        let listener = ListenerOptions { max_connections: 2, ..ListenerOptions::default() };
        let cluster = Cluster::with_options(Options { listener, ..Options::default() }).await;
        let (first, second) = (cluster.connect().await, cluster.connect().await);
        let mut third = Box::pin(cluster.connect());
        expect_waiting("the third connection", &mut third).await;
        drop(first);
        drop((second, third.await));
        let _ = cluster.get(MAPS).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn a_server_that_stops_is_not_ready_and_still_serves() {
    run(async {
        let options = Options { shutdown_delay: Duration::from_secs(3600), ..Options::default() };
        let cluster = Cluster::with_options(options).await;
        let _ = cluster.get("/readyz").await.expect(200);
        tokio::select! {
            () = cluster.stop_server() => panic!("the server stops although its delay is not over"),
            () = async {
                cluster.get_until_status("/readyz", 500).await;
                let readiness = cluster.get("/readyz").await.expect(500).text();
                assert!(readiness.contains("[-]shutdown failed: reason withheld\n"), "{readiness}");
                let _ = cluster.get("/livez").await.expect(200);
                let _ = cluster.post(MAPS, MAP).await.expect(201);
                let mut watch = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion=0")).await;
                watch.expect("ADDED", "a").await;
            } => {}
        }
    });
}

#[test]
fn watches_end_with_a_bookmark_when_the_server_stops() {
    run(async {
        let cluster = Cluster::start().await;
        let mut watch = cluster.watch(&format!("{MAPS}?watch=1&allowWatchBookmarks=1&resourceVersion=0")).await;
        assert_eq!(watch.next().await.expect("the end of the initial events")["type"], "BOOKMARK");
        let mut without = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion=0")).await;
        let created = cluster.post(MAPS, MAP).await.expect(201).json();
        watch.expect("ADDED", "a").await;
        // The revision advances without an event for this watch.
        let secret = cluster.post("/api/v1/namespaces/default/secrets", r#"{"metadata":{"name":"a"}}"#).await;
        let secret = secret.expect(201).json();
        cluster.stop_server().await;
        let bookmark = watch.next().await.expect("a bookmark");
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], secret["metadata"]["resourceVersion"]);
        assert_eq!(watch.next().await, None);
        let added = without.next().await.expect("an event");
        assert_eq!(added["object"]["metadata"]["uid"], created["metadata"]["uid"]);
        assert_eq!(without.next().await, None);
    });
}
