//! Concurrent patches: without a resourceVersion, the server retries them on conflict. With a resourceVersion, they
//! fail.

use std::sync::Arc;

use serde_json::json;

use super::{CONFIGMAP, cluster, get, resource_version};

/// The number of clients, and the number of patches per client. There are three types of patches.
const CLIENTS: usize = 8;
const PATCHES: usize = 50;

#[test]
fn no_concurrent_patch_is_lost() {
    pintle_integration::run(async {
        let cluster = Arc::new(cluster().await);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let cluster = cluster.clone();
                tokio::spawn(async move {
                    for i in 0..PATCHES {
                        let key = format!("c{client}-{i}");
                        let response = match i % 3 {
                            0 => cluster.patch(CONFIGMAP, "merge", json!({"data": {key: "x"}}).to_string()).await,
                            1 => {
                                cluster
                                    .patch(CONFIGMAP, "strategic-merge", json!({"data": {key: "x"}}).to_string())
                                    .await
                            }
                            _ => {
                                let add = json!([{"op": "add", "path": format!("/data/{key}"), "value": "x"}]);
                                cluster.patch(CONFIGMAP, "json", add.to_string()).await
                            }
                        };
                        let _ = response.expect(200);
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.expect("a client");
        }
        let data = get(&cluster, CONFIGMAP).await["data"].as_object().cloned().unwrap_or_default();
        let count = data.keys().filter(|key| key.starts_with('c')).count();
        assert_eq!(count, CLIENTS * PATCHES);
        assert_eq!((data["a"].as_str(), data["b"].as_str()), (Some("1"), Some("2")));
    });
}

/// JSON patches use `test` operations to detect concurrent changes.
#[test]
fn a_test_operation_detects_a_concurrent_change() {
    pintle_integration::run(async {
        let cluster = Arc::new(cluster().await);
        let patches: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let cluster = cluster.clone();
                tokio::spawn(async move {
                    let patch = json!([
                        {"op": "test", "path": "/data/a", "value": "1"},
                        {"op": "replace", "path": "/data/a", "value": format!("by {client}")},
                    ]);
                    cluster.patch(CONFIGMAP, "json", patch.to_string()).await.status.as_u16()
                })
            })
            .collect();
        let mut codes = Vec::new();
        for patch in patches {
            codes.push(patch.await.expect("a response"));
        }
        codes.sort_unstable();
        assert_eq!(codes, [200, 422, 422, 422, 422, 422, 422, 422]);
    });
}

#[test]
fn a_patch_with_an_old_resource_version_is_a_conflict() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        let before = get(&cluster, CONFIGMAP).await;
        let with = |resource_version: &str| {
            json!({"metadata": {"resourceVersion": resource_version}, "data": {"v": resource_version}}).to_string()
        };
        let after = cluster.patch(CONFIGMAP, "merge", with(resource_version(&before))).await.expect(200).json();
        assert_ne!(resource_version(&after), resource_version(&before));
        for kind in ["merge", "strategic-merge"] {
            cluster.patch(CONFIGMAP, kind, with(resource_version(&before))).await.expect_error(
                409,
                "Conflict",
                "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your \
                 changes to the latest version and try again",
            );
        }
        let replace =
            json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version(&before)}])
                .to_string();
        let _ = cluster.patch(CONFIGMAP, "json", replace).await.expect(409);
        assert_eq!(get(&cluster, CONFIGMAP).await, after);
        // An empty resourceVersion is ignored.
        let _ = cluster.patch(CONFIGMAP, "merge", with("")).await.expect(200);
    });
}
