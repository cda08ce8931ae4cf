//! Patches that meet other writers: without a resourceVersion they are applied again until they are in, with one they
//! are refused.

use std::sync::Arc;

use serde_json::json;

use crate::{MAP, cluster, get, version};

/// As many clients, as many patches each, of three kinds.
const CLIENTS: usize = 8;
const PATCHES: usize = 50;

#[test]
fn every_patch_is_kept() {
    pintle_testkit::run(async {
        let cluster = Arc::new(cluster().await);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let cluster = cluster.clone();
                tokio::spawn(async move {
                    for i in 0..PATCHES {
                        let key = format!("c{client}-{i}");
                        let answer = match i % 3 {
                            0 => cluster.patch(MAP, "merge", json!({"data": {key: "x"}}).to_string()).await,
                            1 => cluster.patch(MAP, "strategic-merge", json!({"data": {key: "x"}}).to_string()).await,
                            _ => {
                                let add = json!([{"op": "add", "path": format!("/data/{key}"), "value": "x"}]);
                                cluster.patch(MAP, "json", add.to_string()).await
                            }
                        };
                        let _ = answer.expect(200);
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.expect("a client");
        }
        let data = get(&cluster, MAP).await["data"].as_object().cloned().unwrap_or_default();
        let kept = data.keys().filter(|key| key.starts_with('c')).count();
        assert_eq!(kept, CLIENTS * PATCHES);
        assert_eq!((data["a"].as_str(), data["b"].as_str()), (Some("1"), Some("2")));
    });
}

/// Lists that are patched by place count on nobody having been there before: a test operation says so.
#[test]
fn a_test_operation_guards_what_it_names() {
    pintle_testkit::run(async {
        let cluster = Arc::new(cluster().await);
        let patches: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let cluster = cluster.clone();
                tokio::spawn(async move {
                    let patch = json!([
                        {"op": "test", "path": "/data/a", "value": "1"},
                        {"op": "replace", "path": "/data/a", "value": format!("by {client}")},
                    ]);
                    cluster.patch(MAP, "json", patch.to_string()).await.status.as_u16()
                })
            })
            .collect();
        let mut codes = Vec::new();
        for patch in patches {
            codes.push(patch.await.expect("an answer"));
        }
        codes.sort_unstable();
        assert_eq!(codes, [200, 422, 422, 422, 422, 422, 422, 422]);
    });
}

#[test]
fn with_a_version_only_that_one_is_patched() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        let old = get(&cluster, MAP).await;
        let with =
            |version: &str| json!({"metadata": {"resourceVersion": version}, "data": {"v": version}}).to_string();
        let new = cluster.patch(MAP, "merge", with(version(&old))).await.expect(200).json();
        assert_ne!(version(&new), version(&old));
        for kind in ["merge", "strategic-merge"] {
            cluster.patch(MAP, kind, with(version(&old))).await.expect_error(
                409,
                "Conflict",
                "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your \
                 changes to the latest version and try again",
            );
        }
        let replace =
            json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": version(&old)}]).to_string();
        let _ = cluster.patch(MAP, "json", replace).await.expect(409);
        assert_eq!(get(&cluster, MAP).await, new);
        // An empty one is none.
        let _ = cluster.patch(MAP, "merge", with("")).await.expect(200);
    });
}
