//! Concurrent writes of one object and of large objects: no write is lost, and each answer belongs to its write.

use futures_util::future::join_all;
use pintle_integration::{Cluster, run};
use serde_json::json;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn writers_of_one_object_lose_no_update() {
    run(async {
        let cluster = &Cluster::start().await;
        let map = json!({"metadata": {"name": "a"}, "data": {}});
        let _ = cluster.post(CONFIG_MAPS, map.to_string()).await.expect(201);
        let path = format!("{CONFIG_MAPS}/a");
        let patches = (0..40).map(|number| {
            let patch = json!({"data": {(format!("key-{number}")): "value"}}).to_string();
            let path = &path;
            async move { cluster.patch(path, "merge", patch).await.expect(200).json() }
        });
        let answers = join_all(patches).await;
        for (number, answer) in answers.iter().enumerate() {
            assert_eq!(answer["data"][format!("key-{number}")], "value");
        }
        let stored = cluster.get(&path).await.expect(200).json();
        assert_eq!(stored["data"].as_object().map(serde_json::Map::len), Some(40));
        let mut revisions: Vec<_> =
            answers.iter().map(|answer| answer["metadata"]["resourceVersion"].to_string()).collect();
        revisions.sort();
        revisions.dedup();
        assert_eq!(revisions.len(), 40);
    });
}

/// A write that waits for its turn does not keep its precondition valid: the newest object decides.
#[test]
fn of_writers_with_the_same_precondition_one_succeeds() {
    run(async {
        let cluster = &Cluster::start().await;
        let map = json!({"metadata": {"name": "a"}});
        let created = cluster.post(CONFIG_MAPS, map.to_string()).await.expect(201).json();
        let path = format!("{CONFIG_MAPS}/a");
        let updates = (0..20).map(|number| {
            let version = created["metadata"]["resourceVersion"].clone();
            let map =
                json!({"metadata": {"name": "a", "resourceVersion": version}, "data": {"by": number.to_string()}});
            let path = &path;
            async move { cluster.put(path, map.to_string()).await.status.as_u16() }
        });
        let mut codes = join_all(updates).await;
        codes.sort_unstable();
        assert_eq!(codes[..2], [200, 409]);
        assert_eq!(codes[19], 409);
    });
}

#[test]
fn large_objects_are_written_at_the_same_time() {
    run(async {
        let cluster = &Cluster::start().await;
        let writes = (0..8).map(|number| async move {
            let name = format!("large-{number}");
            let text = number.to_string().repeat(200_000);
            let map = json!({"metadata": {"name": name}, "data": {"text": text}});
            let _ = cluster.post(CONFIG_MAPS, map.to_string()).await.expect(201);
            // The body is small, and the object is large.
            let path = format!("{CONFIG_MAPS}/{name}");
            let patched =
                cluster.patch(&path, "merge", r#"{"metadata": {"labels": {"a": "b"}}}"#).await.expect(200).json();
            assert_eq!(patched["metadata"]["labels"], json!({"a": "b"}));
            assert!(patched["data"]["text"] == *text);
            let _ = cluster.delete(&path).await.expect(200);
        });
        join_all(writes).await;
    });
}
