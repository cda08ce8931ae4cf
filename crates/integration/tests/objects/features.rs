//! Feature gates: fields of disabled features are dropped from new objects and stay in objects that already have them.
//! Fields of enabled features are stored like any other fields.

use pintle::Options;
use pintle_gates::Gates;
use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

/// A feature gate, the path of a collection, an object that sets a field of the feature, and a JSON pointer to that
/// field.
struct FeatureCase {
    gate: &'static str,
    path: &'static str,
    object: Value,
    field: &'static str,
}

fn feature_cases() -> Vec<FeatureCase> {
    let pod = json!({"containers": [{"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGHUP"}}], "os": {"name": "linux"}});
    let workload = json!({"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}});
    let mut stateful = workload.clone();
    stateful["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}});
    let feature_case = |gate, path, spec: Value, field| {
        let object = json!({"metadata": {"name": "o"}, "spec": spec});
        FeatureCase { gate, path, object, field }
    };
    vec![
        feature_case(
            "CoordinatedLeaderElection",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"strategy": "OldestEmulationVersion"}),
            "/spec/strategy",
        ),
        feature_case(
            "MaxUnavailableStatefulSet",
            "/apis/apps/v1/namespaces/default/statefulsets",
            stateful,
            "/spec/updateStrategy/rollingUpdate/maxUnavailable",
        ),
        feature_case(
            "ContainerStopSignals",
            "/apis/apps/v1/namespaces/default/deployments",
            workload,
            "/spec/template/spec/containers/0/lifecycle/stopSignal",
        ),
        feature_case(
            "VolumeLimitScaling",
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"preventPodSchedulingIfMissing": true}),
            "/spec/preventPodSchedulingIfMissing",
        ),
    ]
}

async fn cluster_with_gates(gates: &[&str]) -> Cluster {
    let settings = gates.iter().map(|gate| ((*gate).to_owned(), true)).collect();
    let (gates, _) = Gates::with_overrides(&settings).expect("settable feature gates");
    Cluster::with_options(Options { gates, ..Options::default() }).await
}

#[test]
fn fields_are_dropped_when_their_gate_is_disabled() {
    run(async {
        let cases = feature_cases();
        let gates: Vec<_> = cases.iter().map(|case| case.gate).collect();
        let (enabled, disabled) = (cluster_with_gates(&gates).await, cluster_with_gates(&[]).await);
        for FeatureCase { gate, path, object, field } in &cases {
            for (cluster, there) in [(&enabled, true), (&disabled, false)] {
                let created = cluster.post(path, object.to_string()).await.expect(201).json();
                assert_eq!(created.pointer(field).is_some(), there, "{gate}: {created}");
                let patched = cluster.patch(&format!("{path}/o"), "merge", object.to_string()).await.expect(200).json();
                assert_eq!(patched.pointer(field).is_some(), there, "{gate}: {patched}");
            }
        }
        enabled.stop().await;
        disabled.stop().await;
    });
}

#[test]
fn min_replicas_of_zero_requires_hpa_scale_to_zero() {
    run(async {
        let scaler = json!({"metadata": {"name": "h"}, "spec": {"minReplicas": 0, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "metrics": [{"type": "External",
            "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}}]}})
        .to_string();
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let (enabled, disabled) = (cluster_with_gates(&["HPAScaleToZero"]).await, cluster_with_gates(&[]).await);
        let _ = enabled.post(path, scaler.clone()).await.expect(201);
        let error = disabled.post(path, scaler).await.expect(422).json();
        assert_eq!(error["details"]["causes"][0]["field"], "spec.minReplicas");
        enabled.stop().await;
        disabled.stop().await;
    });
}
