//! Watches in CBOR: a CBOR sequence with one data item per event.

use std::time::Duration;

use pintle_codec::cbor::{self, Limits};
use pintle_integration::{Cluster, Options, ResponseStream, run};
use pintle_value::Value;

use super::{CBOR, CBOR_SEQUENCE, CONFIGMAPS, WIDGETS, cluster, cluster_with};

/// The timeout for an event.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A CBOR watch.
struct CborWatch {
    stream: ResponseStream,
    bytes: Vec<u8>,
}

impl CborWatch {
    async fn open(cluster: &Cluster, path: &str, parameters: &str) -> Self {
        let request = cluster.request("GET", path).header("accept", &format!("{CBOR}{parameters}"));
        let stream = request.stream().await.expect("a response").expect("a stream");
        assert_eq!(stream.headers["content-type"], CBOR_SEQUENCE);
        Self { stream, bytes: Vec::new() }
    }

    /// Returns the next event. Items have no length prefix, so this decodes ever longer prefixes until one is complete.
    async fn next(&mut self) -> Value {
        loop {
            for length in 1..=self.bytes.len() {
                let Ok(event) = cbor::decode(&self.bytes[..length], Limits::default()) else { continue };
                // Both the event and its object start with the self-described tag.
                let tags = self.bytes[..length].windows(3).filter(|w| *w == cbor::SELF_DESCRIBED).count();
                assert_eq!(tags, 2, "{}", cbor::diagnostic(&self.bytes[..length]));
                self.bytes.drain(..length);
                return event;
            }
            let piece = tokio::time::timeout(TIMEOUT, self.stream.next()).await.expect("an event in time");
            self.bytes.extend_from_slice(&piece.expect("no error").expect("the stream continues"));
        }
    }

    async fn expect(&mut self, kind: &str, name: &str) -> Value {
        let event = self.next().await;
        assert_eq!((event.str_at(&["type"]), event["object"].name()), (kind, name), "{event:?}");
        event["object"].clone()
    }
}

#[test]
fn events_are_data_items() {
    run(async {
        let cluster = cluster().await;
        let path = format!(
            "{CONFIGMAPS}?watch=true&resourceVersion=0&allowWatchBookmarks=true&sendInitialEvents=true\
            &resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name=m"
        );
        let mut events = CborWatch::open(&cluster, &path, "").await;
        let bookmark = events.expect("BOOKMARK", "").await;
        assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], Value::from("true"));
        let map = r#"{"metadata": {"name": "m"}, "data": {"k": "1"}, "binaryData": {"b": "AAH/"}}"#;
        let _ = cluster.post(CONFIGMAPS, map).await.expect(201);
        let added = events.expect("ADDED", "m").await;
        assert_eq!((added.kind(), added.str_at(&["binaryData", "b"])), ("ConfigMap", "AAH/"));
        let _ = cluster.patch(&format!("{CONFIGMAPS}/m"), "merge", r#"{"data": {"k": "2"}}"#).await.expect(200);
        assert_eq!(events.expect("MODIFIED", "m").await.str_at(&["data", "k"]), "2");
        let _ = cluster.delete(&format!("{CONFIGMAPS}/m")).await.expect(200);
        let _ = events.expect("DELETED", "m").await;
        cluster.stop().await;
    });
}

#[test]
fn partial_metadata_and_custom_resources_can_be_watched() {
    run(async {
        let cluster = cluster().await;
        let partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let mut full_objects = CborWatch::open(&cluster, &format!("{WIDGETS}?watch=true"), "").await;
        let mut metadata = CborWatch::open(&cluster, &format!("{WIDGETS}?watch=true"), partial).await;
        let widget =
            r#"{"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"size": 3}}"#;
        let _ = cluster.post(WIDGETS, widget).await.expect(201);
        assert_eq!(full_objects.expect("ADDED", "w").await["spec"]["size"], Value::from(3));
        let object = metadata.expect("ADDED", "w").await;
        assert_eq!((object.kind(), &object["spec"]), ("PartialObjectMetadata", &Value::Null));
        cluster.stop().await;
    });
}

#[test]
fn a_watch_of_an_expired_revision_gets_an_error_event() {
    run(async {
        let mut options = Options::default();
        options.history.duration = Duration::ZERO;
        let cluster = cluster_with(options).await;
        for _ in 0..3 {
            let _ = cluster.post(CONFIGMAPS, r#"{"metadata": {"generateName": "m"}}"#).await.expect(201);
        }
        let mut events = CborWatch::open(&cluster, &format!("{CONFIGMAPS}?watch=true&resourceVersion=1"), "").await;
        let event = events.next().await;
        assert_eq!((event.str_at(&["type"]), &event["object"]["code"]), ("ERROR", &Value::from(410)));
        cluster.stop().await;
    });
}
