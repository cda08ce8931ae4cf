//! The wire format of watches: one JSON document per line, in chunks over HTTP/1.1 and in data frames over HTTP/2.

use pintle_integration::{Options, Protocol, advance_clock_until};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{CONFIGMAPS, cluster_with_manual_clock, create, current_revision, summarize};

/// Removes the first line from the text and returns it without its line ending.
fn take_line<'t>(text: &mut &'t str) -> &'t str {
    let (take_line, rest) = text.split_once("\r\n").expect("a line");
    *text = rest;
    take_line
}

#[test]
fn events_are_lines_in_chunks_over_http_1() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let at = current_revision(&cluster).await;
        for name in ["a", "b"] {
            create(&cluster, name, "red").await;
        }
        let mut socket = cluster.connect().await;
        let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={at}&timeoutSeconds=1");
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("the server reads");
        let mut response = Vec::new();
        advance_clock_until(&clock, socket.read_to_end(&mut response)).await.expect("the server answers");
        let response = String::from_utf8(response).expect("text");
        let mut rest = response.as_str();
        assert_eq!(take_line(&mut rest), "HTTP/1.1 200 OK");
        let mut headers = Vec::new();
        loop {
            match take_line(&mut rest) {
                "" => break,
                header => headers.push(header.to_ascii_lowercase()),
            }
        }
        for header in ["content-type: application/json", "transfer-encoding: chunked"] {
            assert!(headers.iter().any(|found| found == header), "{headers:?}");
        }
        assert!(!headers.iter().any(|header| header.starts_with("content-length")), "{headers:?}");
        let mut body = String::new();
        loop {
            let size = usize::from_str_radix(take_line(&mut rest), 16).expect("a size");
            body.push_str(&rest[..size]);
            rest = &rest[size + 2..];
            if size == 0 {
                break;
            }
        }
        assert_eq!(rest, "");
        assert!(body.ends_with('\n'));
        let events: Vec<Value> =
            body.lines().map(|take_line| serde_json::from_str(take_line).expect("one document per line")).collect();
        let expect = [format!("ADDED a {}", at + 1), format!("ADDED b {}", at + 2)];
        assert_eq!(events.iter().map(summarize).collect::<Vec<_>>(), expect);
    });
}

#[test]
fn http_1_and_http_2_carry_the_same_events() {
    pintle_integration::run(async {
        let (cluster, clock) = cluster_with_manual_clock(Options::default()).await;
        let at = current_revision(&cluster).await;
        for name in ["a", "b"] {
            create(&cluster, name, "red").await;
        }
        let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={at}&timeoutSeconds=1");
        let (http1, http2) = (cluster.client(Protocol::Http1), cluster.client(Protocol::Any));
        let http1 = advance_clock_until(&clock, http1.request("GET", &path).send()).await;
        let http2 = advance_clock_until(&clock, http2.request("GET", &path).send()).await;
        assert_eq!((http1.header("transfer-encoding"), http2.header("transfer-encoding")), ("chunked", ""));
        for response in [&http1, &http2] {
            assert_eq!((response.header("content-type"), response.header("content-length")), ("application/json", ""));
        }
        assert_eq!(http1.text(), http2.text());
        assert_eq!(http1.text().lines().count(), 2);
        // HTTP/2 has no upgrades.
        let request = cluster.client(Protocol::Any);
        let plain = request.request("GET", &path).header("origin", "http://x").send();
        let plain = advance_clock_until(&clock, plain).await.expect(200);
        assert_eq!(plain.text(), http1.text());
    });
}
