//! Feature gates as clients see them: fields of features that are off are dropped from new objects, and stay with those that
//! have them; with the gate open they are fields like others.

use pintle::Options;
use pintle_gates::Gates;
use pintle_testkit::{Cluster, run};
use serde_json::{Value, json};

/// Where an object is made, the object with a field of a feature, and where that is.
struct Row {
    gate: &'static str,
    path: &'static str,
    object: Value,
    field: &'static str,
}

fn rows() -> Vec<Row> {
    let pod = json!({"containers": [{"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGHUP"}}], "os": {"name": "linux"}});
    let workload = json!({"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}});
    let mut stateful = workload.clone();
    stateful["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}});
    let row = |gate, path, spec: Value, field| {
        let object = json!({"metadata": {"name": "o"}, "spec": spec});
        Row { gate, path, object, field }
    };
    vec![
        row(
            "CoordinatedLeaderElection",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"strategy": "OldestEmulationVersion"}),
            "/spec/strategy",
        ),
        row(
            "MaxUnavailableStatefulSet",
            "/apis/apps/v1/namespaces/default/statefulsets",
            stateful,
            "/spec/updateStrategy/rollingUpdate/maxUnavailable",
        ),
        row(
            "ContainerStopSignals",
            "/apis/apps/v1/namespaces/default/deployments",
            workload,
            "/spec/template/spec/containers/0/lifecycle/stopSignal",
        ),
        row(
            "VolumeLimitScaling",
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"preventPodSchedulingIfMissing": true}),
            "/spec/preventPodSchedulingIfMissing",
        ),
    ]
}

async fn cluster(gates: &[&str]) -> Cluster {
    let settings = gates.iter().map(|gate| ((*gate).to_owned(), true)).collect();
    let (gates, _) = Gates::with(&settings).expect("gates that can be set");
    Cluster::with_options(Options { gates, ..Options::default() }).await
}

#[test]
fn fields_come_with_their_gates() {
    run(async {
        let rows = rows();
        let gates: Vec<_> = rows.iter().map(|row| row.gate).collect();
        let (open, shut) = (cluster(&gates).await, cluster(&[]).await);
        for Row { gate, path, object, field } in &rows {
            for (cluster, there) in [(&open, true), (&shut, false)] {
                let made = cluster.post(path, object.to_string()).await.expect(201).json();
                assert_eq!(made.pointer(field).is_some(), there, "{gate}: {made}");
                let changed = cluster.patch(&format!("{path}/o"), "merge", object.to_string()).await.expect(200).json();
                assert_eq!(changed.pointer(field).is_some(), there, "{gate}: {changed}");
            }
        }
        open.stop().await;
        shut.stop().await;
    });
}

#[test]
fn scaling_to_zero_is_a_feature() {
    run(async {
        let scaler = json!({"metadata": {"name": "h"}, "spec": {"minReplicas": 0, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "metrics": [{"type": "External",
            "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}}]}})
        .to_string();
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let (open, shut) = (cluster(&["HPAScaleToZero"]).await, cluster(&[]).await);
        let _ = open.post(path, scaler.clone()).await.expect(201);
        let refused = shut.post(path, scaler).await.expect(422).json();
        assert_eq!(refused["details"]["causes"][0]["field"], "spec.minReplicas");
        open.stop().await;
        shut.stop().await;
    });
}
