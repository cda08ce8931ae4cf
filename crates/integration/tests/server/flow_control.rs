//! The configuration of flow control that every cluster has, and the status of flow schemas.

use pintle_integration::{Cluster, Options, advance_clock_until, manual_clock, run};
use serde_json::{Value, json};

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const AUTO_UPDATE: &str = "/metadata/annotations/apf.kubernetes.io~1autoupdate-spec";

async fn start() -> Cluster {
    Cluster::with_options(Options { flow_control: true, ..Options::default() }).await
}

/// Waits until an object meets a condition.
async fn wait_until(cluster: &Cluster, collection: &str, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut watch = cluster.watch(&format!("{collection}?watch=1&fieldSelector=metadata.name%3D{name}")).await;
    loop {
        let event = watch.next().await.expect("an event");
        if event["type"] != "DELETED" && condition(&event["object"]) {
            return event["object"].clone();
        }
    }
}

/// Waits until an object is deleted.
async fn wait_until_deleted(cluster: &Cluster, collection: &str, name: &str) {
    let mut watch = cluster.watch(&format!("{collection}?watch=1&fieldSelector=metadata.name%3D{name}")).await;
    while watch.next().await.expect("an event")["type"] != "DELETED" {}
}

fn has_condition(schema: &Value, status: &str) -> bool {
    schema["status"]["conditions"][0]["status"] == status
}

#[test]
fn every_cluster_has_the_bootstrap_configuration() {
    run(async {
        let cluster = start().await;
        // The server writes the flow schemas after the priority levels.
        let schema = wait_until(&cluster, SCHEMAS, "probes", |schema| has_condition(schema, "False")).await;
        let condition = &schema["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["reason"]), (&json!("Dangling"), &json!("Found")));
        let message = "This FlowSchema references the PriorityLevelConfiguration object named \"exempt\" and it exists";
        assert_eq!(condition["message"], message);
        let managers: Vec<(&Value, &Value)> = schema["metadata"]["managedFields"]
            .as_array()
            .expect("managed fields")
            .iter()
            .map(|entry| (&entry["manager"], &entry["operation"]))
            .collect();
        let expect = [
            (&json!("api-priority-and-fairness-config-consumer-v1"), &json!("Apply")),
            (&json!("api-priority-and-fairness-config-producer-v1"), &json!("Update")),
        ];
        assert_eq!(managers, expect);
        let names = async |collection: &str| -> Vec<Value> {
            let list = cluster.get(collection).await.expect(200).json();
            list["items"].as_array().expect("items").iter().map(|item| item["metadata"]["name"].clone()).collect()
        };
        let levels = [
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low",
        ];
        assert_eq!(names(LEVELS).await, levels);
        cluster.stop().await;
    });
}

#[test]
fn the_configuration_is_restored_every_minute() {
    run(async {
        let clock = manual_clock();
        let options = Options { flow_control: true, clock: clock.clone(), ..Options::default() };
        let cluster = Cluster::with_options(options).await;
        for (collection, name) in [(LEVELS, "catch-all"), (LEVELS, "system"), (SCHEMAS, "probes")] {
            wait_until(&cluster, collection, name, |_| true).await;
        }
        let level = async |name: &str| cluster.get(&format!("{LEVELS}/{name}")).await.expect(200).json();
        let patch = async |name: &str, patch: Value| {
            cluster.patch(&format!("{LEVELS}/{name}"), "merge", patch.to_string()).await.expect(200).json()
        };

        // One object is deleted, one is changed, and one may be changed by users.
        let shares = |level: &Value| level["spec"]["limited"]["nominalConcurrencyShares"].clone();
        let _ = cluster.delete(&format!("{LEVELS}/catch-all")).await.expect(200);
        let other_shares = json!({"spec": {"limited": {"nominalConcurrencyShares": 7}}});
        patch("system", other_shares.clone()).await;
        patch("workload-low", json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}}))
            .await;
        patch("workload-low", other_shares.clone()).await;
        // Without the annotation, a changed spec stays.
        patch("node-high", json!({"metadata": {"annotations": null}})).await;
        patch("node-high", other_shares).await;
        // This object is no longer in the configuration.
        let removed = json!({
            "metadata": {"name": "removed", "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
        });
        let _ = cluster.post(LEVELS, removed.to_string()).await.expect(201);
        advance_clock_until(&clock, wait_until_deleted(&cluster, LEVELS, "removed")).await;
        wait_until(&cluster, LEVELS, "catch-all", |_| true).await;
        assert_eq!(shares(&level("system").await), 30);
        assert_eq!(shares(&level("workload-low").await), 7);
        let changed = level("node-high").await;
        assert_eq!((shares(&changed), changed.pointer(AUTO_UPDATE)), (json!(7), Some(&json!("false"))));
        cluster.stop().await;
    });
}

#[test]
fn a_flow_schema_without_its_priority_level_is_dangling() {
    run(async {
        let cluster = start().await;
        let schema = json!({"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "b"}}});
        let _ = cluster.post(SCHEMAS, schema.to_string()).await.expect(201);
        let dangling = wait_until(&cluster, SCHEMAS, "a", |schema| has_condition(schema, "True")).await;
        let message =
            "This FlowSchema references the PriorityLevelConfiguration object named \"b\" but there is no such object";
        assert_eq!(dangling["status"]["conditions"][0]["message"], message);
        let level = json!({
            "metadata": {"name": "b"},
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
        });
        let _ = cluster.post(LEVELS, level.to_string()).await.expect(201);
        wait_until(&cluster, SCHEMAS, "a", |schema| has_condition(schema, "False")).await;
        let _ = cluster.delete(&format!("{LEVELS}/b")).await.expect(200);
        wait_until(&cluster, SCHEMAS, "a", |schema| has_condition(schema, "True")).await;
        cluster.stop().await;
    });
}
