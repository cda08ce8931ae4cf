//! Objects of built-in kinds that are written at a version other than the storage version.

use pintle_integration::{Cluster, run};
use serde_json::json;

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

/// The annotations of autoscaling/v1 hold fields of v2 as JSON. Upstream decodes them into structs.
#[test]
fn members_of_annotations_that_no_type_has_are_not_stored() {
    run(async {
        let cluster = Cluster::start().await;
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [], "unknown": 1});
        let metrics = json!([{"type": "Pods", "unknown": 1, "pods":
            {"metricName": "m", "targetAverageValue": "1", "unknown": 1, "selector": selector}}]);
        let autoscaler = json!({
            "metadata": {"name": "a", "annotations": {"autoscaling.alpha.kubernetes.io/metrics": metrics.to_string()}},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3},
        });
        let _ = cluster.post(V1, autoscaler.to_string()).await.expect(201);
        let path = format!("{V2}/a");
        let expect = json!({"type": "Pods", "pods": {
            "metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": "1"},
        }});
        let stored = cluster.get(&path).await.expect(200).json();
        assert_eq!(stored["spec"]["metrics"], json!([expect]));
        // A patch that does not change the spec gets no warnings about the spec.
        let patch = r#"{"metadata": {"labels": {"a": "b"}}}"#;
        for kind in ["merge", "strategic-merge"] {
            let patched =
                cluster.patch(&format!("{path}?fieldValidation=Strict"), kind, patch).await.expect(200).json();
            assert_eq!(patched["spec"], stored["spec"], "{kind}");
        }
        let _ = cluster.patch(&format!("{V1}/a"), "merge", r#"{"spec": {"maxReplicas": 4}}"#).await.expect(200);
        let stored = cluster.get(&path).await.expect(200).json();
        assert_eq!((&stored["spec"]["metrics"], &stored["spec"]["maxReplicas"]), (&json!([expect]), &json!(4)));
    });
}
