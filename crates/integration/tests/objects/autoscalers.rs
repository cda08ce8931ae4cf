//! HorizontalPodAutoscalers: what 1.37 has changed.

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

async fn cluster(minor: u8) -> Cluster {
    let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
    Cluster::with_options(Options { gates, ..Options::default() }).await
}

fn autoscaler(spec: &Value) -> String {
    let mut object = json!({
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    });
    object["spec"].as_object_mut().expect("a spec").extend(spec.as_object().expect("fields").clone());
    object.to_string()
}

#[test]
fn specs_and_conditions_have_generations_since_1_37() {
    run(async {
        let condition = json!({
            "type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        });
        for (minor, generations) in [(36, [None; 3]), (37, [Some(1), Some(1), Some(2)])] {
            let cluster = cluster(minor).await;
            let generation = |object: &Value| object["metadata"]["generation"].as_i64();
            let created = cluster.post(V2, autoscaler(&json!({}))).await.expect(201).json();
            let status = json!({"status": {"conditions": [condition]}}).to_string();
            let with_status = cluster.patch(&format!("{V2}/h/status"), "merge", status).await.expect(200).json();
            let max = json!({"spec": {"maxReplicas": 4}}).to_string();
            let changed = cluster.patch(&format!("{V1}/h"), "merge", max).await.expect(200).json();
            assert_eq!([&created, &with_status, &changed].map(generation), generations, "{minor}");

            let annotation = changed["metadata"]["annotations"][CONDITIONS].as_str().expect("an annotation");
            let in_v1: Value = serde_json::from_str(annotation).expect("JSON");
            let in_v2 = cluster.get(&format!("{V2}/h")).await.expect(200).json()["status"]["conditions"].clone();
            let mut expect = json!([condition]);
            if minor < 37 {
                expect[0].as_object_mut().expect("a condition").remove("observedGeneration");
            }
            assert_eq!((&in_v1, &in_v2), (&expect, &expect), "{minor}");
            cluster.stop().await;
        }
    });
}

#[test]
fn autoscalers_scale_to_zero_since_1_37() {
    run(async {
        let external = json!({"minReplicas": 0, "metrics": [
            {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}}]});
        for (minor, code) in [(36, 422), (37, 201)] {
            let cluster = cluster(minor).await;
            let _ = cluster.post(V2, autoscaler(&external)).await.expect(code);
            let refused = cluster.post(V2, autoscaler(&json!({"minReplicas": 0}))).await.expect(422).json();
            let why = "must specify at least one Object or External metric to support scaling to zero replicas";
            assert!(refused["message"].as_str().unwrap_or_default().contains(why), "{refused}");
            cluster.stop().await;
        }
    });
}
