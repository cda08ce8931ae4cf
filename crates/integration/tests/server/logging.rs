//! The log of requests: a line for each request, and the steps of slow requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use pintle_integration::{Cluster, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The fields of an event.
#[derive(Clone, Debug, Default)]
struct Line {
    level: String,
    fields: BTreeMap<String, String>,
}

impl Line {
    fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// Collects the messages about requests.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Line>>>);

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG && metadata.target().starts_with("pintle_server::pipeline")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { level: event.metadata().level().to_string(), ..Line::default() };
        event.record(&mut line);
        self.0.lock().push(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Collector {
    /// Waits for the first message with these fields.
    async fn wait_for(&self, fields: &[(&str, &str)]) -> Line {
        let found = async {
            loop {
                let matches = |line: &&Line| fields.iter().all(|(name, value)| line.get(name) == *value);
                if let Some(line) = self.0.lock().iter().find(matches) {
                    return line.clone();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(30), found).await;
        found.unwrap_or_else(|_| panic!("no {fields:?} in {:#?}", self.0.lock()))
    }
}

/// The collector of the process's messages about requests.
fn collector() -> Collector {
    static COLLECTOR: LazyLock<Collector> = LazyLock::new(|| {
        let log = Collector::default();
        tracing::subscriber::set_global_default(log.clone()).expect("no other subscriber");
        log
    });
    COLLECTOR.clone()
}

#[test]
fn rejected_credentials_are_logged_without_them() {
    let log = collector();
    run(async move {
        let cluster = Cluster::start().await;
        for (path, headers) in [
            ("/version?one", &[("authorization", "Bearer s3cret")][..]),
            ("/version?two", &[("authorization", "Bearer s3cret.s3cret.s3cret")]),
            ("/version?three", &[("authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJzM2NyZXQifQ.s3cret")]),
            (
                "/version?four",
                &[
                    ("connection", "upgrade"),
                    ("upgrade", "websocket"),
                    ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.czNjcmV0,v4.channel.k8s.io"),
                ],
            ),
        ] {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let mut socket = cluster.connect_anonymously().await;
            let address = socket.get_ref().0.local_addr().expect("an address").to_string();
            let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
            socket.write_all(request.as_bytes()).await.expect("the request is sent");
            let mut response = Vec::new();
            let _ = socket.read_to_end(&mut response).await;
            assert!(response.starts_with(b"HTTP/1.1 401"), "{path}: {}", String::from_utf8_lossy(&response));
            let line = log.wait_for(&[("message", "Unable to authenticate the request"), ("srcIP", &address)]).await;
            assert_eq!((line.level.as_str(), line.get("verb")), ("ERROR", "get"));
            assert_eq!((line.get("path"), line.get("error")), ("\"/version\"", "\"invalid bearer token\""));
            let line = log.wait_for(&[("message", "HTTP"), ("URI", path)]).await;
            assert_eq!((line.get("resp"), line.get("user")), ("401", ""));
        }
        let lines = log.0.lock().iter().map(|line| format!("{line:?}")).collect::<String>();
        assert!(["s3cret", "czNjcmV0", "eyJpc3"].iter().all(|secret| !lines.contains(secret)), "{lines}");
        cluster.stop().await;
    });
}

#[test]
fn requests_are_logged_and_slow_ones_with_their_steps() {
    let log = collector();
    run(async move {
        let cluster = Cluster::start().await;
        let long_id = "x".repeat(80);
        let request = cluster.request("GET", &format!("{MAPS}?limit=5")).header("user-agent", "a \"quoted\" agent");
        let response = request.header("audit-id", &long_id).send().await.expect(200);
        assert_eq!(response.header("audit-id"), long_id);
        let line = log.wait_for(&[("message", "HTTP"), ("verb", "LIST")]).await;
        assert_eq!((line.level.as_str(), line.get("resp")), ("DEBUG", "200"));
        assert_eq!((line.get("URI"), line.get("userAgent")), (&*format!("{MAPS}?limit=5"), "a \"quoted\" agent"));
        assert_eq!(line.get("audit-ID"), &long_id[..64]);
        assert!(line.get("srcIP").starts_with("127.0.0.1:") && !line.get("latency").is_empty());
        assert_eq!((line.get("user"), line.get("hijacked")), ("kubernetes-admin", ""));
        let request = cluster.request("GET", "/version?impersonated").header("impersonate-user", "jane");
        let _ = request.send().await.expect(200);
        let line = log.wait_for(&[("message", "HTTP"), ("URI", "/version?impersonated")]).await;
        assert_eq!(line.get("user"), "jane");

        // A watch is logged when it ends.
        let mut watch = cluster.watch(&format!("{MAPS}?watch=1")).await;
        let _ = cluster.post(MAPS, r#"{"metadata":{"name":"a"}}"#).await.expect(201);
        watch.expect("ADDED", "a").await;
        log.wait_for(&[("message", "HTTP"), ("verb", "POST"), ("resp", "201")]).await;
        assert!(!log.0.lock().iter().any(|line| line.get("verb") == "WATCH"));
        drop(watch);
        log.wait_for(&[("message", "HTTP"), ("verb", "WATCH"), ("resp", "200")]).await;

        // This client sends its body slowly: requests of more than half a second are logged as slow.
        let body = r#"{"metadata":{"name":"slow"}}"#;
        let mut socket = cluster.connect().await;
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).await.expect("the head is sent");
        tokio::time::sleep(Duration::from_millis(600)).await;
        socket.write_all(body.as_bytes()).await.expect("the body is sent");
        let mut response = Vec::new();
        let _ = socket.read_to_end(&mut response).await;
        assert!(response.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&response));
        let line = log.wait_for(&[("message", "Slow request"), ("userAgent", "")]).await;
        assert_eq!((line.level.as_str(), line.get("verb"), line.get("resource")), ("INFO", "POST", "configmaps"));
        let steps: Vec<&str> =
            line.get("steps").split(", ").filter_map(|step| step.rsplit_once(' ')).map(|s| s.0).collect();
        assert_eq!(
            steps,
            [
                "authentication",
                "authorization",
                "request body received",
                "decoding",
                "mutating admission",
                "validation and validating admission",
                "write to storage",
                "response prepared",
                "response sent",
            ]
        );
        cluster.stop().await;
    });
}
