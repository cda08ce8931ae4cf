//! Heads of HTTP/1 requests. The server refuses the same heads as Go's `net/http`, unless the row gives a reason.

use std::sync::Arc;

use pintle_integration::Cluster;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// The rows, with Go's statuses as `tools/http-heads` has recorded them.
const ROWS: &str = include_str!("heads.jsonl");

/// Sends bytes, and returns the answer.
async fn exchange(cluster: &Cluster, request: &[u8]) -> String {
    let mut socket = cluster.connect().await;
    // The server may close the connection before it has received everything.
    if socket.write_all(request).await.is_ok() {
        let _ = socket.flush().await;
    }
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Checks a row. Returns the failure, if any.
async fn check(cluster: &Cluster, row: &Value) -> Option<String> {
    let status = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{row}: no {key}"));
    let (go, expect) = (status("go"), status("expect"));
    if go != expect && row.get("why").is_none() {
        return Some(format!("{row}: differs from Go without a reason"));
    }
    let head = row["head"].as_str().expect("a head");
    let bytes: Vec<u8> = head.chars().map(|c| u8::try_from(c).expect("a byte")).collect();
    let answer = exchange(cluster, &bytes).await;
    let found = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    (found != Some(expect)).then(|| format!("{row}: {answer}"))
}

#[test]
fn heads_are_refused_as_go_does() {
    pintle_integration::run(async {
        let cluster = Arc::new(Cluster::start().await);
        let mut checks = JoinSet::new();
        for line in ROWS.lines() {
            let row: Value = serde_json::from_str(line).expect("a row");
            let cluster = cluster.clone();
            checks.spawn(async move { check(&cluster, &row).await });
        }
        let failures: Vec<_> = checks.join_all().await.into_iter().flatten().collect();
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    });
}

#[test]
fn refused_heads_are_answered_with_the_texts_of_go() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for (lines, status, text) in [
            ("", "400 Bad Request", "400 Bad Request: missing required Host header"),
            ("Host: a b\r\n", "400 Bad Request", "400 Bad Request: malformed Host header"),
            ("Host: a\r\nHost: a\r\n", "400 Bad Request", "400 Bad Request"),
            ("Host: a\r\nTransfer-Encoding: gzip, chunked\r\n", "501 Not Implemented", "Unsupported transfer encoding"),
            ("Host: a\r\nExpect: more\r\n", "417 Expectation Failed", ""),
        ] {
            // A proxy may take the second request for the body of the first.
            let request = format!("GET /healthz HTTP/1.1\r\n{lines}\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = exchange(&cluster, request.as_bytes()).await;
            let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}: {answer}"));
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
            assert!(head.contains("connection: close"), "{request}: {answer}");
            assert_eq!(body, text, "{request}: {answer}");
        }
        cluster.stop().await;
    });
}
