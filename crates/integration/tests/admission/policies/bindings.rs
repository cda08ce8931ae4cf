//! The selection of requests by bindings.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

use super::{BINDINGS, CONFIGMAPS, POLICIES, configmap, constraints, denied, policy};

async fn namespace(cluster: &Cluster, name: &str, labels: Value) {
    let body = json!({"metadata": {"name": name, "labels": labels}});
    let _ = cluster.post("/api/v1/namespaces", body.to_string()).await.expect(201);
}

async fn bind(cluster: &Cluster, name: &str, resources: Value) {
    let binding = json!({
        "metadata": {"name": name},
        "spec": {"policyName": "p", "validationActions": ["Deny"], "matchResources": resources},
    });
    let _ = cluster.post(BINDINGS, binding.to_string()).await.expect(201);
}

#[test]
fn bindings_select_namespaces_and_objects() {
    run(async {
        let cluster = Cluster::start().await;
        namespace(&cluster, "red", json!({"team": "red"})).await;
        namespace(&cluster, "blue", json!({"team": "blue", "env": "prod"})).await;
        namespace(&cluster, "green", json!({"team": "green"})).await;
        let _ = cluster
            .post(POLICIES, policy("p", json!({"validations": [{"expression": "false", "message": "no"}]})).to_string())
            .await
            .expect(201);
        bind(&cluster, "of-red", json!({"namespaceSelector": {"matchLabels": {"team": "red"}}})).await;
        let expressions =
            json!([{"key": "team", "operator": "In", "values": ["blue", "x"]}, {"key": "env", "operator": "Exists"}]);
        bind(&cluster, "of-blue", json!({"namespaceSelector": {"matchExpressions": expressions}})).await;
        bind(&cluster, "of-objects", json!({"objectSelector": {"matchLabels": {"checked": "yes"}}})).await;
        let names = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["*"], "resourceNames": ["special"]}]);
        bind(&cluster, "of-names", json!({"resourceRules": names})).await;
        let send = |namespace: &'static str, name: &'static str, labels: Value| {
            let body = json!({"metadata": {"name": name, "labels": labels}});
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            let cluster = &cluster;
            async move { cluster.post(&path, body.to_string()).await }
        };
        let message = |binding: &str, name: &str| {
            format!(
                "configmaps \"{name}\" is forbidden: ValidatingAdmissionPolicy 'p' with binding '{binding}' denied request: no"
            )
        };
        send("red", "c", json!({})).await.expect_error(422, "Invalid", &message("of-red", "c"));
        send("blue", "c", json!({})).await.expect_error(422, "Invalid", &message("of-blue", "c"));
        let _ = send("green", "c", json!({})).await.expect(201);
        send("green", "d", json!({"checked": "yes"})).await.expect_error(422, "Invalid", &message("of-objects", "d"));
        send("green", "special", json!({})).await.expect_error(422, "Invalid", &message("of-names", "special"));
        // The error reports the first binding by name.
        send("red", "special", json!({})).await.expect_error(422, "Invalid", &message("of-names", "special"));
        cluster.stop().await;
    });
}

#[test]
fn selectors_of_namespaces_apply_to_namespaces_themselves() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "matchConstraints": constraints("", "v1", "namespaces"),
            "validations": [{"expression": "namespaceObject != null", "message": "no"}],
        });
        let _ = cluster.post(POLICIES, policy("p", spec).to_string()).await.expect(201);
        bind(&cluster, "b", json!({"namespaceSelector": {"matchLabels": {"team": "red"}}})).await;
        let message =
            "namespaces \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        let body = |team: &str| json!({"metadata": {"name": "a", "labels": {"team": team}}}).to_string();
        cluster.post("/api/v1/namespaces", body("red")).await.expect_error(422, "Invalid", message);
        let _ = cluster.post("/api/v1/namespaces", body("blue")).await.expect(201);
        cluster.put("/api/v1/namespaces/a", body("red")).await.expect_error(422, "Invalid", message);
        cluster.stop().await;
    });
}

#[test]
fn a_policy_without_bindings_does_nothing() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({"validations": [{"expression": "false"}]});
        let _ = cluster.post(POLICIES, policy("p", spec).to_string()).await.expect(201);
        let _ = cluster.post(CONFIGMAPS, configmap("a", json!({}))).await.expect(201);
        let binding = super::binding("p", json!({}));
        let _ = cluster.post(BINDINGS, binding.to_string()).await.expect(201);
        denied(cluster.post(CONFIGMAPS, configmap("b", json!({}))).await, "b", "p", "failed expression: false");
        let _ = cluster.delete(&format!("{POLICIES}/p")).await.expect(200);
        let _ = cluster.post(CONFIGMAPS, configmap("b", json!({}))).await.expect(201);
        cluster.stop().await;
    });
}
