//! Patches of `status` and `scale`.

use serde_json::json;

use super::{DEPLOYMENT, cluster, get};

#[test]
fn status_and_spec_are_patched_separately() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        let both =
            |replicas: i64| json!({"spec": {"replicas": replicas}, "status": {"replicas": replicas}}).to_string();
        for kind in ["merge", "strategic-merge"] {
            let patched_status = cluster.patch(&format!("{DEPLOYMENT}/status"), kind, both(7)).await.expect(200).json();
            assert_eq!(
                (&patched_status["spec"]["replicas"], &patched_status["status"]["replicas"]),
                (&json!(2), &json!(7))
            );
            let patched_spec = cluster.patch(DEPLOYMENT, kind, both(9)).await.expect(200).json();
            assert_eq!(
                (&patched_spec["spec"]["replicas"], &patched_spec["status"]["replicas"]),
                (&json!(9), &json!(7))
            );
            let _ = cluster.patch(DEPLOYMENT, kind, r#"{"spec": {"replicas": 2}}"#).await.expect(200);
        }
        // Conditions are merged by type.
        let conditions = |items: serde_json::Value| json!({"status": {"conditions": items}}).to_string();
        let first = conditions(json!([{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]));
        let _ = cluster.patch(&format!("{DEPLOYMENT}/status"), "strategic-merge", first).await.expect(200);
        let second = conditions(json!([{"type": "B", "status": "False"}]));
        let patched =
            cluster.patch(&format!("{DEPLOYMENT}/status"), "strategic-merge", second).await.expect(200).json();
        let found = patched["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found: Vec<_> = found.iter().map(|c| (c["type"].as_str(), c["status"].as_str())).collect();
        assert_eq!(found, [(Some("A"), Some("True")), (Some("B"), Some("False"))]);
    });
}

#[test]
fn a_scale_can_be_patched() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        let path = format!("{DEPLOYMENT}/scale");
        for (kind, patch, expect) in [
            ("merge", json!({"spec": {"replicas": 3}}), 3),
            ("strategic-merge", json!({"spec": {"replicas": 4}}), 4),
            ("json", json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]), 5),
            (
                "json",
                json!([{"op": "test", "path": "/kind", "value": "Scale"}, {"op": "remove", "path": "/spec/replicas"}]),
                0,
            ),
        ] {
            let scale = cluster.patch(&path, kind, patch.to_string()).await.expect(200).json();
            assert_eq!(scale["kind"], "Scale", "{kind} {patch}");
            assert_eq!(
                scale["spec"].get("replicas").and_then(serde_json::Value::as_i64).unwrap_or(0),
                expect,
                "{patch}"
            );
            assert_eq!(get(&cluster, DEPLOYMENT).await["spec"]["replicas"], expect, "{kind} {patch}");
        }
        for (kind, patch, code, reason) in [
            ("merge", json!({"spec": {"replicas": -1}}), 422, "Invalid"),
            ("merge", json!({"spec": {"replicas": "many"}}), 422, "Invalid"),
            ("merge", json!({"metadata": {"name": "other"}}), 400, "BadRequest"),
            ("merge", json!({"metadata": {"resourceVersion": "1"}}), 409, "Conflict"),
            ("json", json!([{"op": "test", "path": "/kind", "value": "Deployment"}]), 422, "Invalid"),
        ] {
            let response = cluster.patch(&path, kind, patch.to_string()).await.expect(code).json();
            assert_eq!(response["reason"], reason, "{kind} {patch}");
        }
        assert_eq!(get(&cluster, DEPLOYMENT).await["spec"]["replicas"], 0);
    });
}
