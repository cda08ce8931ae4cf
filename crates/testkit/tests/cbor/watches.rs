//! Watches in CBOR are sequences of events, each an item of its own.

use std::time::Duration;

use pintle_codec::cbor::{self, Limits};
use pintle_testkit::{Cluster, Options, ResponseStream, run};
use pintle_value::Value;

use crate::{CBOR, MAPS, SEQUENCE, WIDGETS, cluster, cluster_with};

/// How long a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream of events.
struct Events {
    stream: ResponseStream,
    bytes: Vec<u8>,
}

impl Events {
    async fn open(cluster: &Cluster, path: &str, parameters: &str) -> Self {
        let ask = cluster.request("GET", path).header("accept", &format!("{CBOR}{parameters}"));
        let stream = ask.stream().await.expect("an answer").expect("a stream");
        assert_eq!(stream.headers["content-type"], SEQUENCE);
        Self { stream, bytes: Vec::new() }
    }

    /// The next event. How long it is shows when it is there.
    async fn next(&mut self) -> Value {
        loop {
            for length in 1..=self.bytes.len() {
                let Ok(event) = cbor::decode(&self.bytes[..length], Limits::default()) else { continue };
                // Both the event and its object say what they are.
                let marks = self.bytes[..length].windows(3).filter(|w| *w == cbor::SELF_DESCRIBED).count();
                assert_eq!(marks, 2, "{}", cbor::diagnostic(&self.bytes[..length]));
                self.bytes.drain(..length);
                return event;
            }
            let piece = tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("an event in time");
            self.bytes.extend_from_slice(&piece.expect("the stream goes on").expect("an event"));
        }
    }

    async fn expect(&mut self, kind: &str, name: &str) -> Value {
        let event = self.next().await;
        assert_eq!((event.str_at(&["type"]), event["object"].name()), (kind, name), "{event:?}");
        event["object"].clone()
    }
}

#[test]
fn events_are_items() {
    run(async {
        let cluster = cluster().await;
        let path = format!(
            "{MAPS}?watch=true&resourceVersion=0&allowWatchBookmarks=true&sendInitialEvents=true\
            &resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=m"
        );
        let mut events = Events::open(&cluster, &path, "").await;
        let bookmark = events.expect("BOOKMARK", "").await;
        assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], Value::from("true"));
        let map = r#"{"metadata": {"name": "m"}, "data": {"k": "1"}, "binaryData": {"b": "AAH/"}}"#;
        let _ = cluster.post(MAPS, map).await.expect(201);
        let added = events.expect("ADDED", "m").await;
        assert_eq!((added.kind(), added.str_at(&["binaryData", "b"])), ("ConfigMap", "AAH/"));
        let _ = cluster.patch(&format!("{MAPS}/m"), "merge", r#"{"data": {"k": "2"}}"#).await.expect(200);
        assert_eq!(events.expect("MODIFIED", "m").await.str_at(&["data", "k"]), "2");
        let _ = cluster.delete(&format!("{MAPS}/m")).await.expect(200);
        let _ = events.expect("DELETED", "m").await;
        cluster.stop().await;
    });
}

#[test]
fn metadata_and_custom_objects_are_watched() {
    run(async {
        let cluster = cluster().await;
        let partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let mut whole = Events::open(&cluster, &format!("{WIDGETS}?watch=true"), "").await;
        let mut metadata = Events::open(&cluster, &format!("{WIDGETS}?watch=true"), partial).await;
        let widget =
            r#"{"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"size": 3}}"#;
        let _ = cluster.post(WIDGETS, widget).await.expect(201);
        assert_eq!(whole.expect("ADDED", "w").await["spec"]["size"], Value::from(3));
        let object = metadata.expect("ADDED", "w").await;
        assert_eq!((object.kind(), &object["spec"]), ("PartialObjectMetadata", &Value::Null));
        cluster.stop().await;
    });
}

#[test]
fn a_watch_that_is_too_old_is_told_so_in_an_event() {
    run(async {
        let mut options = Options::default();
        options.window.duration = Duration::ZERO;
        let cluster = cluster_with(options).await;
        for _ in 0..3 {
            let _ = cluster.post(MAPS, r#"{"metadata": {"generateName": "m"}}"#).await.expect(201);
        }
        let mut events = Events::open(&cluster, &format!("{MAPS}?watch=true&resourceVersion=1"), "").await;
        let event = events.next().await;
        assert_eq!((event.str_at(&["type"]), &event["object"]["code"]), ("ERROR", &Value::from(410)));
        cluster.stop().await;
    });
}
