//! The reviews that webhooks get.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

use super::webhook::{Behavior, MUTATING, VALIDATING, Webhook, allow, configure, rule};
use super::{CONFIGMAPS, config_map};

const CONFIGMAP_RULE: (&[&str], &[&str]) = (&["*"], &["configmaps"]);

/// A cluster with a mutating and a validating webhook for config maps.
async fn start() -> (Cluster, Webhook, Webhook) {
    let cluster = Cluster::start().await;
    let (mutating, validating) =
        (Webhook::start(Behavior::Respond(allow)).await, Webhook::start(Behavior::Respond(allow)).await);
    let rules = [rule(CONFIGMAP_RULE.0, CONFIGMAP_RULE.1)];
    configure(&cluster, MUTATING, "m", &[mutating.configured("m.example.com", &rules, &json!({}))]).await;
    configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
    (cluster, mutating, validating)
}

#[test]
fn a_review_has_what_upstream_sends() {
    run(async {
        let (cluster, mutating, validating) = start().await;
        let _ = cluster.post(&format!("{CONFIGMAPS}?fieldManager=m"), config_map("c")).await.expect(201);
        let (request, mut review) = mutating.last();
        assert_eq!(request.path, "/review?timeout=10s");
        assert_eq!(request.header("user-agent"), Some("kube-apiserver-admission"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        let uid = review["request"]["uid"].take();
        let expect = json!({
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": null,
                "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "resource": {"group": "", "version": "v1", "resource": "configmaps"},
                "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
                "name": "c",
                "namespace": "default",
                "operation": "CREATE",
                "userInfo": review["request"]["userInfo"],
                "object": {
                    "kind": "ConfigMap",
                    "apiVersion": "v1",
                    "metadata": {
                        "name": "c",
                        "namespace": "default",
                        "managedFields": review["request"]["object"]["metadata"]["managedFields"],
                    },
                    "data": {"a": "1"},
                },
                "oldObject": null,
                "dryRun": false,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "m"},
            },
        });
        assert_eq!(review, expect);
        assert_eq!(review["request"]["object"]["metadata"]["managedFields"][0]["manager"], "m");
        // The members have the order of the Go types.
        let text = String::from_utf8(request.body).expect("text");
        let positions = [
            "\"uid\":",
            "\"requestKind\":",
            "\"name\":\"c\"",
            "\"userInfo\":",
            "\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\"",
            "\"oldObject\":null,\"dryRun\":false,\"options\":{\"kind\"",
        ];
        let positions = positions.map(|part| text.find(part).unwrap_or_else(|| panic!("{part} in {text}")));
        assert!(positions.is_sorted(), "{text}");
        // The validating webhook sees the stored object, in another review.
        let seen = validating.last().1["request"].clone();
        assert_ne!(seen["uid"], uid);
        assert!(seen["object"]["metadata"]["uid"].is_string(), "{seen}");
        cluster.stop().await;
    });
}

/// A webhook's view of a write: operation, name, options, and whether there are objects.
fn describe(request: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{} {} {} {} new={} old={} dry={}",
        text(&request["operation"]),
        text(&request["resource"]["resource"])
            + &request["subResource"].as_str().map(|s| format!("/{s}")).unwrap_or_default(),
        if request["name"].is_null() { "-".to_owned() } else { text(&request["name"]) },
        text(&request["options"]["kind"]),
        !request["object"].is_null(),
        !request["oldObject"].is_null(),
        request["dryRun"],
    )
}

#[test]
fn every_write_is_reviewed_once_in_each_phase() {
    run(async {
        let (cluster, mutating, validating) = start().await;
        let path = format!("{CONFIGMAPS}/c");
        let apply = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}}"#;
        let check = |expect: &str| {
            for webhook in [&mutating, &validating] {
                let found: Vec<String> = webhook.take().iter().map(describe).collect();
                assert_eq!(found, [expect]);
            }
        };
        let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        check("CREATE configmaps c CreateOptions new=true old=false dry=false");
        let _ = cluster.put(&path, config_map("c")).await.expect(200);
        check("UPDATE configmaps c UpdateOptions new=true old=true dry=false");
        let _ = cluster.patch(&format!("{path}?dryRun=All"), "merge", r#"{"data": {"b": "2"}}"#).await.expect(200);
        check("UPDATE configmaps c UpdateOptions new=true old=true dry=true");
        let applied = format!("{CONFIGMAPS}/applied?fieldManager=a");
        let apply = cluster.request("PATCH", &applied).body("application/apply-patch+yaml", apply);
        let _ = apply.send().await.expect(201);
        check("CREATE configmaps applied CreateOptions new=true old=false dry=false");
        let _ = cluster.delete(&path).await.expect(200);
        check("DELETE configmaps c DeleteOptions new=false old=true dry=false");
        let _ = cluster.delete(&format!("{CONFIGMAPS}?fieldSelector=metadata.name%3Dapplied")).await.expect(200);
        check("DELETE configmaps - DeleteOptions new=false old=true dry=false");
        cluster.stop().await;
    });
}

#[test]
fn a_mutating_webhook_sees_no_uid_and_no_generated_name() {
    run(async {
        let (cluster, mutating, validating) = start().await;
        let body = json!({"metadata": {"generateName": "g-"}}).to_string();
        let created = cluster.post(CONFIGMAPS, body).await.expect(201).json();
        let seen = mutating.last().1["request"].clone();
        assert_eq!((&seen["name"], &seen["object"]["metadata"]["name"]), (&Value::Null, &Value::Null));
        assert_eq!(seen["object"]["metadata"]["uid"], Value::Null);
        let seen = validating.last().1["request"].clone();
        let name = &created["metadata"]["name"];
        assert_eq!((&seen["name"], &seen["object"]["metadata"]["name"]), (name, name));
        assert_eq!(seen["object"]["metadata"]["uid"], created["metadata"]["uid"]);
        cluster.stop().await;
    });
}

#[test]
fn a_scale_is_reviewed_as_a_scale() {
    run(async {
        let (cluster, mutating, validating) = start().await;
        let rules = [rule(&["*"], &["deployments/scale"])];
        configure(&cluster, MUTATING, "m", &[mutating.configured("m.example.com", &rules, &json!({}))]).await;
        configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        let labels = json!({"app": "d"});
        let deployment = json!({"metadata": {"name": "d"}, "spec": {
            "replicas": 1, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let _ = cluster.post(deployments, deployment.to_string()).await.expect(201);
        let scale = format!("{deployments}/d/scale");
        let patched = cluster.patch(&scale, "merge", r#"{"spec": {"replicas": 2}}"#).await.expect(200).json();
        assert_eq!(patched["spec"]["replicas"], 2);
        for webhook in [&mutating, &validating] {
            let seen = webhook.take();
            assert_eq!(seen.len(), 1, "{seen:?}");
            let request = &seen[0];
            assert_eq!(request["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
            assert_eq!(request["resource"]["resource"], "deployments");
            assert_eq!((&request["subResource"], &request["requestSubResource"]), (&json!("scale"), &json!("scale")));
            assert_eq!((&request["object"]["kind"], &request["oldObject"]["kind"]), (&json!("Scale"), &json!("Scale")));
            assert_eq!(
                (&request["object"]["spec"]["replicas"], &request["oldObject"]["spec"]["replicas"]),
                (&json!(2), &json!(1))
            );
        }
        mutating.set(Behavior::With(super::webhook::patch(
            &json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]),
        )));
        let patched = cluster.patch(&scale, "merge", r#"{"spec": {"replicas": 3}}"#).await.expect(200).json();
        assert_eq!(patched["spec"]["replicas"], 5);
        let stored = cluster.get(&format!("{deployments}/d")).await.expect(200).json();
        assert_eq!(stored["spec"]["replicas"], 5);
        cluster.stop().await;
    });
}

#[test]
fn equivalent_requests_are_converted() {
    run(async {
        let (cluster, mutating, validating) = start().await;
        let rules = [
            json!({"operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}),
        ];
        configure(&cluster, MUTATING, "m", &[mutating.configured("m.example.com", &rules, &json!({}))]).await;
        configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
        mutating.set(Behavior::With(super::webhook::patch(&json!([
            {"op": "add", "path": "/spec/targetCPUUtilizationPercentage", "value": 42}]))));
        let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        let scaler = json!({"metadata": {"name": "h"}, "spec": {
            "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
        let created = cluster.post(path, scaler.to_string()).await.expect(201).json();
        assert_eq!(created["apiVersion"], "autoscaling/v2");
        assert_eq!(created["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 42, "{created}");
        for webhook in [&mutating, &validating] {
            let request = webhook.last().1["request"].clone();
            assert_eq!((&request["kind"]["version"], &request["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
            assert_eq!(
                (&request["resource"]["version"], &request["requestResource"]["version"]),
                (&json!("v1"), &json!("v2"))
            );
            assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");
        }
        assert_eq!(validating.last().1["request"]["object"]["spec"]["targetCPUUtilizationPercentage"], 42);
        cluster.stop().await;
    });
}

#[test]
fn configurations_are_not_reviewed() {
    run(async {
        let (cluster, mutating, validating) = start().await;
        let rules = [rule(&["*"], &["*/*"])];
        configure(&cluster, MUTATING, "m", &[mutating.configured("m.example.com", &rules, &json!({}))]).await;
        configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
        let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        mutating.take();
        validating.take();
        let deny = Behavior::With(json!({"allowed": false}));
        mutating.set(deny.clone());
        validating.set(deny);
        let _ = cluster
            .patch(&format!("{MUTATING}/m"), "merge", r#"{"metadata": {"labels": {"a": "b"}}}"#)
            .await
            .expect(200);
        let _ = cluster.delete(&format!("{MUTATING}/m")).await.expect(200);
        let _ = cluster.delete(&format!("{VALIDATING}/v")).await.expect(200);
        assert_eq!(mutating.take().len() + validating.take().len(), 0);
        let _ = cluster.post(CONFIGMAPS, config_map("d")).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn older_reviews_are_sent_to_webhooks_that_want_them() {
    run(async {
        let (cluster, mutating, _) = start().await;
        let rules = [rule(CONFIGMAP_RULE.0, CONFIGMAP_RULE.1)];
        let older = json!({"admissionReviewVersions": ["v0", "v1beta1", "v1"]});
        configure(&cluster, MUTATING, "m", &[mutating.configured("m.example.com", &rules, &older)]).await;
        // With the older version, the server checks neither the UID nor the type of the patch.
        let patch = r#"{"response": {"allowed": true, "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEvYiIsInZhbHVlIjoiMiJ9XQ=="}}"#;
        mutating.set(Behavior::Send(200, patch.to_owned()));
        let created = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201).json();
        assert_eq!(created["data"], json!({"a": "1", "b": "2"}));
        assert_eq!(mutating.last().1["apiVersion"], "admission.k8s.io/v1beta1");
        cluster.stop().await;
    });
}

/// A CRD with the versions v1 and v2, which do not differ.
fn crd() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "default": 1}, "color": {"type": "string"}}},
                "status": {"type": "object"}}}}})
    };
    json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [version("v1", true), version("v2", false)]}})
}

#[test]
fn custom_resources_are_converted_pruned_and_defaulted() {
    run(async {
        let (cluster, mutating, validating) = start().await;
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let _ = cluster.post(crds, crd().to_string()).await.expect(201);
        let things = "/apis/example.com/v2/namespaces/default/things";
        cluster.get_until_status(things, 200).await;
        let rules = [json!({
            "operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"],
            "resources": ["things", "things/status"]})];
        configure(&cluster, MUTATING, "m", &[mutating.configured("m.example.com", &rules, &json!({}))]).await;
        configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
        mutating.set(Behavior::With(super::webhook::patch(&json!([
            {"op": "add", "path": "/spec/color", "value": "red"},
            {"op": "add", "path": "/spec/unknown", "value": "x"},
            {"op": "remove", "path": "/spec/size"}]))));
        let thing = json!({
            "apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 5}});
        let created = cluster.post(things, thing.to_string()).await.expect(201).json();
        assert_eq!(created["apiVersion"], "example.com/v2");
        assert_eq!(created["spec"], json!({"size": 1, "color": "red"}));
        for webhook in [&mutating, &validating] {
            let request = webhook.last().1["request"].clone();
            assert_eq!((&request["kind"]["version"], &request["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
            assert_eq!(request["object"]["apiVersion"], "example.com/v1");
        }
        mutating.set(Behavior::Respond(allow));
        let (status, change) = (format!("{things}/t/status"), r#"{"metadata": {"labels": {"a": "b"}}}"#);
        let _ = cluster.patch(&status, "merge", change).await.expect(200);
        let request = validating.last().1["request"].clone();
        assert_eq!(
            (&request["subResource"], &request["oldObject"]["apiVersion"]),
            (&json!("status"), &json!("example.com/v1"))
        );
        cluster.stop().await;
    });
}

#[test]
fn actions_are_reviewed() {
    run(async {
        let (cluster, mutating, validating) = start().await;
        let pods = "/api/v1/namespaces/default/pods";
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let _ = cluster.post(pods, pod.to_string()).await.expect(201);
        let account = json!({"metadata": {"name": "a"}}).to_string();
        let _ = cluster.post("/api/v1/namespaces/default/serviceaccounts", account).await.expect(201);
        let rules = [rule(&["*"], &["pods/*", "serviceaccounts/token", "selfsubjectaccessreviews"])];
        configure(&cluster, MUTATING, "m", &[mutating.configured("m.example.com", &rules, &json!({}))]).await;
        configure(&cluster, VALIDATING, "v", &[validating.configured("v.example.com", &rules, &json!({}))]).await;
        let check = |expect: &str, kind: &str| {
            for webhook in [&mutating, &validating] {
                let found = webhook.take();
                assert_eq!(found.iter().map(describe).collect::<Vec<_>>(), [expect]);
                assert_eq!(found[0]["kind"]["kind"], kind);
            }
        };
        let token = json!({"spec": {"expirationSeconds": 3600}}).to_string();
        let _ = cluster.post("/api/v1/namespaces/default/serviceaccounts/a/token", token).await.expect(201);
        check("CREATE serviceaccounts/token a CreateOptions new=true old=false dry=false", "TokenRequest");
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}).to_string();
        let _ = cluster.post(&format!("{pods}/p/binding"), binding).await.expect(201);
        check("CREATE pods/binding p CreateOptions new=true old=false dry=false", "Binding");
        let eviction = json!({"metadata": {"name": "p"}}).to_string();
        let _ = cluster.post(&format!("{pods}/p/eviction"), eviction).await.expect(201);
        check("CREATE pods/eviction p CreateOptions new=true old=false dry=false", "Eviction");
        let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}).to_string();
        let _ = cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await.expect(201);
        check(
            "CREATE selfsubjectaccessreviews - CreateOptions new=true old=false dry=false",
            "SelfSubjectAccessReview",
        );
        cluster.stop().await;
    });
}
