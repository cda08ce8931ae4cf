//! Compressed watches: since 1.37, the watches that replace lists (feature gate `WatchListCompression`).

use std::io::Read as _;

use flate2::read::{GzDecoder, MultiGzDecoder};
use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, ResponseStream, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::json;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const LIST: &str = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn cluster(minor: u8, overrides: &[(&str, bool)]) -> Cluster {
    let overrides = overrides.iter().map(|(gate, enabled)| ((*gate).to_owned(), *enabled)).collect();
    let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
    let (gates, _) = gates.overridden(&overrides).expect("settable feature gates");
    Cluster::with_options(Options { gates, controllers: false, ..Options::default() }).await
}

async fn watch(cluster: &Cluster, query: &str, encodings: &str) -> ResponseStream {
    let request = cluster.request("GET", &format!("{CONFIGMAPS}{query}")).header("accept-encoding", encodings);
    request.stream().await.expect("a connection").expect("a watch")
}

/// Creates an object of 1 KiB.
async fn create(cluster: &Cluster, name: &str) {
    let object = json!({"metadata": {"name": name}, "data": {"text": "text".repeat(256)}});
    let _ = cluster.post(CONFIGMAPS, object.to_string()).await.expect(201);
}

fn is_compressed(stream: &ResponseStream) -> bool {
    let header = |name: &str| stream.headers.get_all(name).iter().map(|v| v.to_str().unwrap_or_default()).collect();
    let (encoding, vary): (Vec<&str>, Vec<&str>) = (header("content-encoding"), header("vary"));
    assert_eq!(encoding.contains(&"gzip"), vary.contains(&"Accept-Encoding"), "{:?}", stream.headers);
    encoding == ["gzip"]
}

#[test]
fn each_write_of_a_compressed_watch_is_a_gzip_member() {
    run(async {
        let cluster = cluster(37, &[]).await;
        for n in 0..100 {
            create(&cluster, &format!("a{n}")).await;
        }
        let mut stream = watch(&cluster, LIST, "deflate, gzip").await;
        assert!(is_compressed(&stream));
        let (mut received, mut text) = (Vec::new(), String::new());
        while !text.contains("k8s.io/initial-events-end") {
            let chunk = stream.next().await.expect("a chunk").expect("a chunk");
            received.extend_from_slice(&chunk);
            text.clear();
            // The last member may not be complete yet.
            let _ = MultiGzDecoder::new(&*received).read_to_string(&mut text);
        }
        assert_eq!(text.matches("\"type\":\"ADDED\"").count(), 100);
        assert!(received.len() < text.len() / 10, "{} of {}", received.len(), text.len());
        for name in ["b", "c"] {
            create(&cluster, name).await;
            let chunk = stream.next().await.expect("a chunk").expect("a chunk");
            let mut event = String::new();
            let mut member = GzDecoder::new(&*chunk);
            member.read_to_string(&mut event).expect("a complete member");
            assert!(event.starts_with("{\"type\":\"ADDED\"") && event.ends_with("}\n"), "{event}");
            assert!(event.contains(&format!("\"name\":\"{name}\"")), "{event}");
        }
        cluster.stop().await;
    });
}

#[test]
fn only_watches_that_replace_lists_are_compressed() {
    run(async {
        let newer = cluster(37, &[]).await;
        let without_bookmarks = LIST.replace("Bookmarks=true", "Bookmarks=false");
        for (query, encodings, expect) in [
            (LIST, "gzip", true),
            (LIST, "identity", false),
            (&without_bookmarks, "gzip", false),
            ("?watch=1", "gzip", false),
            ("?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "gzip", false),
        ] {
            let stream = watch(&newer, query, encodings).await;
            assert_eq!(is_compressed(&stream), expect, "{query} {encodings}");
        }
        let older = cluster(36, &[]).await;
        let without_gate = cluster(37, &[("WatchListCompression", false)]).await;
        for cluster in [&older, &without_gate] {
            assert!(!is_compressed(&watch(cluster, LIST, "gzip").await));
        }
        for cluster in [newer, older, without_gate] {
            cluster.stop().await;
        }
    });
}
