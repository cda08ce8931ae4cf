//! What a watch is on the wire: one document a line, in chunks over HTTP/1.1 and in data frames over HTTP/2.

use pintle_testkit::{Options, Protocol, advance_clock_until};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{MAPS, make, now, short, timed};

/// Takes a line out of the text, without its end.
fn line<'t>(text: &mut &'t str) -> &'t str {
    let (line, rest) = text.split_once("\r\n").expect("a line");
    *text = rest;
    line
}

#[test]
fn events_are_lines_in_chunks_over_http_1() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let at = now(&cluster).await;
        for name in ["a", "b"] {
            make(&cluster, name, "red").await;
        }
        let mut socket = cluster.connect().await;
        let path = format!("{MAPS}?watch=1&resourceVersion={at}&timeoutSeconds=1");
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("the server reads");
        let mut answer = Vec::new();
        advance_clock_until(&clock, socket.read_to_end(&mut answer)).await.expect("the server answers");
        let answer = String::from_utf8(answer).expect("text");
        let mut rest = answer.as_str();
        assert_eq!(line(&mut rest), "HTTP/1.1 200 OK");
        let mut headers = Vec::new();
        loop {
            match line(&mut rest) {
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
            let size = usize::from_str_radix(line(&mut rest), 16).expect("a size");
            body.push_str(&rest[..size]);
            rest = &rest[size + 2..];
            if size == 0 {
                break;
            }
        }
        assert_eq!(rest, "");
        assert!(body.ends_with('\n'));
        let events: Vec<Value> =
            body.lines().map(|line| serde_json::from_str(line).expect("one document a line")).collect();
        let expect = [format!("ADDED a {}", at + 1), format!("ADDED b {}", at + 2)];
        assert_eq!(events.iter().map(short).collect::<Vec<_>>(), expect);
    });
}

#[test]
fn both_kinds_of_http_carry_the_same() {
    pintle_testkit::run(async {
        let (cluster, clock) = timed(Options::default()).await;
        let at = now(&cluster).await;
        for name in ["a", "b"] {
            make(&cluster, name, "red").await;
        }
        let path = format!("{MAPS}?watch=1&resourceVersion={at}&timeoutSeconds=1");
        let (old, new) = (cluster.client(Protocol::Http1), cluster.client(Protocol::Any));
        let old = advance_clock_until(&clock, old.request("GET", &path).send()).await;
        let new = advance_clock_until(&clock, new.request("GET", &path).send()).await;
        assert_eq!((old.header("transfer-encoding"), new.header("transfer-encoding")), ("chunked", ""));
        for answer in [&old, &new] {
            assert_eq!((answer.header("content-type"), answer.header("content-length")), ("application/json", ""));
        }
        assert_eq!(old.text(), new.text());
        assert_eq!(old.text().lines().count(), 2);
        // An upgrade is nothing that HTTP/2 knows.
        let ask = cluster.client(Protocol::Any);
        let plain = ask.request("GET", &path).header("origin", "http://x").send();
        let plain = advance_clock_until(&clock, plain).await.expect(200);
        assert_eq!(plain.text(), old.text());
    });
}
