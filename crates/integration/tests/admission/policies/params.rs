//! Parameters of policies: config maps and custom resources, by name, selector and namespace.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

use super::{BINDINGS, POLICIES, binding, configmap, constraints, create, policy};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn secret(name: &str, size: usize) -> String {
    json!({"metadata": {"name": name}, "stringData": {"text": "x".repeat(size)}}).to_string()
}

/// A policy for secrets with parameters.
fn sized(kind: Value) -> Value {
    let spec = json!({
        "paramKind": kind,
        "matchConstraints": constraints("", "v1", "secrets"),
        "validations": [{
            "expression": "params == null || object.data.text.size() <= int(params.data.max)",
            "messageExpression": "params.metadata.name + ' allows ' + params.data.max + ' in ' + params.kind",
        }],
    });
    policy("p", spec)
}

fn message(name: &str, why: &str) -> String {
    format!(
        "secrets \"{name}\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: {why}"
    )
}

#[test]
fn params_are_found_by_name_in_the_namespace_of_the_request() {
    run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}}).to_string()).await.expect(201);
        let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let reference = json!({"name": "limits", "parameterNotFoundAction": "Deny"});
        create(&cluster, sized(kind), binding("p", json!({"paramRef": reference}))).await;
        let missing =
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
        cluster.post(SECRETS, secret("s", 1)).await.expect_error(422, "Invalid", &message("s", missing));
        let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
        let _ = cluster.post(&maps("n"), configmap("limits", json!({"max": "100"}))).await.expect(201);
        cluster.post(SECRETS, secret("s", 1)).await.expect_error(422, "Invalid", &message("s", missing));
        let _ = cluster.post(&maps("default"), configmap("limits", json!({"max": "8"}))).await.expect(201);
        let _ = cluster.post(SECRETS, secret("s", 3)).await.expect(201);
        let why = "limits allows 8 in ConfigMap";
        cluster.post(SECRETS, secret("t", 30)).await.expect_error(422, "Invalid", &message("t", why));
        let _ = cluster.post("/api/v1/namespaces/n/secrets", secret("t", 30)).await.expect(201);
        let _ = cluster
            .put(&format!("{}/limits", maps("default")), configmap("limits", json!({"max": "80"})))
            .await
            .expect(200);
        let _ = cluster.post(SECRETS, secret("t", 30)).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn params_are_found_by_selector() {
    run(async {
        let cluster = Cluster::start().await;
        let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let reference = json!({
            "selector": {"matchLabels": {"limits": "yes"}}, "namespace": "default", "parameterNotFoundAction": "Allow",
        });
        create(&cluster, sized(kind), binding("p", json!({"paramRef": reference}))).await;
        let _ = cluster.post(SECRETS, secret("s", 100)).await.expect(201);
        for (name, max, label) in [("a", "80", "yes"), ("b", "40", "yes"), ("c", "1", "no")] {
            let map = json!({"metadata": {"name": name, "labels": {"limits": label}}, "data": {"max": max}});
            let _ = cluster.post("/api/v1/namespaces/default/configmaps", map.to_string()).await.expect(201);
        }
        let _ = cluster.post(SECRETS, secret("t", 20)).await.expect(201);
        let why = "b allows 40 in ConfigMap";
        cluster.post(SECRETS, secret("u", 45)).await.expect_error(422, "Invalid", &message("u", why));
        cluster.stop().await;
    });
}

#[test]
fn params_can_be_custom_resources() {
    run(async {
        let cluster = Cluster::start().await;
        let schema = json!({"type": "object", "properties": {
            "data": {"type": "object", "properties": {"max": {"type": "string"}}},
        }});
        let crd = json!({
            "metadata": {"name": "limits.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster",
                "names": {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let kind = json!({"apiVersion": "example.com/v1", "kind": "Limit"});
        let reference = json!({"name": "strict", "parameterNotFoundAction": "Deny"});
        create(&cluster, sized(kind), binding("p", json!({"paramRef": reference}))).await;
        let why = "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'";
        let unknown = format!(
            "secrets \"s\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: {why}"
        );
        cluster.post(SECRETS, secret("s", 1)).await.expect_error(422, "Invalid", &unknown);
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let _ = cluster.post(crds, crd.to_string()).await.expect(201);
        let limit = json!({"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "strict"}, "data": {"max": "8"}});
        let path = "/apis/example.com/v1/limits";
        cluster.get_until_status(path, 200).await;
        let _ = cluster.post(path, limit.to_string()).await.expect(201);
        let _ = cluster.post(SECRETS, secret("s", 3)).await.expect(201);
        let why = "strict allows 8 in Limit";
        cluster.post(SECRETS, secret("t", 30)).await.expect_error(422, "Invalid", &message("t", why));
        cluster.stop().await;
    });
}

#[test]
fn params_must_fit_the_scope_of_their_kind() {
    run(async {
        let cluster = Cluster::start().await;
        let spec = json!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": constraints("", "v1", "nodes"),
            "validations": [{"expression": "params == null"}],
        });
        let reference = json!({"name": "x", "parameterNotFoundAction": "Allow"});
        create(&cluster, policy("p", spec), binding("p", json!({"paramRef": reference}))).await;
        let node = json!({"metadata": {"name": "a"}}).to_string();
        let denied = |why: &str| {
            format!(
                "nodes \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: failed to \
                 configure binding: {why}"
            )
        };
        let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
        cluster.post("/api/v1/nodes", node.as_str()).await.expect_error(422, "Invalid", &denied(why));
        let path = format!("{POLICIES}/p");
        let patch = r#"{"spec":{"paramKind":{"apiVersion":"v1","kind":"Node"}}}"#;
        let _ = cluster.patch(&path, "merge", patch).await.expect(200);
        let patch = r#"{"spec":{"paramRef":{"namespace":"default"}}}"#;
        let binding = format!("{BINDINGS}/p-binding");
        let _ = cluster.patch(&binding, "merge", patch).await.expect(200);
        let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
        cluster.post("/api/v1/nodes", node.as_str()).await.expect_error(422, "Invalid", &denied(why));
        let patch = r#"{"spec":{"paramRef":{"namespace":null}}}"#;
        let _ = cluster.patch(&binding, "merge", patch).await.expect(200);
        // Without parameters that may be missing, nothing is evaluated.
        let _ = cluster.post("/api/v1/nodes", node.as_str()).await.expect(201);
        cluster.stop().await;
    });
}
