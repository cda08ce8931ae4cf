//! Responses to deletes: the object or a `Status`, in every encoding and representation.

use serde_json::{Value, json};

use super::{NO_BODY, Scenario, any, configmap, deleted_status, with_finalizers};

#[test]
fn delete_returns_the_object_or_a_status() {
    let account =
        |name: &str| json!({"kind": "ServiceAccount", "metadata": {"name": name, "uid": format!("${name}.uid")}});
    let class = json!({"metadata": {"name": "c"}, "provisioner": "p"});
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let endpoints = json!({"metadata": {"name": "e"}});
    let node = json!({"metadata": {"name": "n"}});
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST configmaps", configmap("a"), 201, any()),
                ("DELETE configmaps/a", NO_BODY, 200, deleted_status("configmaps", "a")),
                ("POST serviceaccounts", configmap("s"), 201, any()),
                ("DELETE serviceaccounts/s", NO_BODY, 200, account("s")),
                (&format!("POST {classes}"), class, 201, any()),
                (&format!("DELETE {classes}/c"), NO_BODY, 200, json!({"kind": "StorageClass"})),
                // The resource name comes from the path, even if the storage key has a different prefix.
                ("POST endpoints", endpoints, 201, any()),
                ("DELETE endpoints/e", NO_BODY, 200, deleted_status("endpoints", "e")),
                ("POST /api/v1/nodes", node, 201, any()),
                ("DELETE /api/v1/nodes/n", NO_BODY, 200, deleted_status("nodes", "n")),
                ("POST coordination.k8s.io/v1/leases", configmap("l"), 201, any()),
                (
                    "DELETE coordination.k8s.io/v1/leases/l",
                    NO_BODY,
                    200,
                    deleted_status("coordination.k8s.io/leases", "l"),
                ),
                (
                    "DELETE configmaps/a",
                    NO_BODY,
                    404,
                    json!({"details": {"name": "a", "kind": "configmaps", "uid": null}}),
                ),
                ("DELETE configmaps/A%2Fb", NO_BODY, 404, any()),
            ])
            .await;
        scenario.stop().await;
    });
}

/// The returned object has the resourceVersion of its deletion.
#[test]
fn the_deleted_object_has_the_revision_of_the_deletion() {
    pintle_integration::run(async move {
        let scenario = Scenario::start().await;
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let mut watch = scenario.cluster.watch(&format!("{accounts}?watch=1&fieldSelector=metadata.name%3Ds")).await;
        let _ = scenario.cluster.post(accounts, configmap("s").to_string()).await.expect(201);
        watch.expect("ADDED", "s").await;
        let response = scenario.cluster.delete(&format!("{accounts}/s")).await.expect(200).json();
        let last = watch.expect("DELETED", "s").await;
        assert_eq!(response, last);
        scenario.stop().await;
    });
}

#[test]
fn a_status_is_not_transformed() {
    pintle_integration::run(async move {
        let scenario = Scenario::start().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        for (accept, finalizers, kind) in [
            (table, json!([]), "Status"),
            (partial, json!([]), "Status"),
            (table, json!(["example.com/a"]), "Table"),
            (partial, json!(["example.com/a"]), "PartialObjectMetadata"),
        ] {
            let object = json!({"metadata": {"generateName": "a-", "finalizers": finalizers}});
            let created = scenario.cluster.post(maps, object.to_string()).await.expect(201).json();
            let path = format!("{maps}/{}", created["metadata"]["name"].as_str().expect("a name"));
            let response = scenario.cluster.request("DELETE", &path).header("accept", accept).send().await.expect(200);
            assert_eq!(response.json()["kind"], kind, "{accept} {finalizers}");
        }
        for (accept, content_type) in [
            ("application/yaml", "application/yaml"),
            ("application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"),
            ("*/*", "application/json"),
        ] {
            let _ = scenario.cluster.post(maps, configmap("a").to_string()).await.expect(201);
            let response =
                scenario.cluster.request("DELETE", &format!("{maps}/a")).header("accept", accept).send().await;
            assert_eq!(response.expect(200).header("content-type"), content_type);
        }
        let _ = scenario.cluster.post(maps, configmap("a").to_string()).await.expect(201);
        let error =
            scenario.cluster.request("DELETE", &format!("{maps}/a")).header("accept", "text/plain").send().await;
        let _ = error.expect(406);
        let _ = scenario.cluster.get(&format!("{maps}/a")).await.expect(200);
        scenario.stop().await;
    });
}

/// Of several concurrent deletes of an object without finalizers, only one succeeds.
#[test]
fn only_one_of_several_concurrent_deletes_succeeds() {
    pintle_integration::run(async move {
        let scenario = Scenario::start().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        for (object, expect) in [(configmap("a"), 1), (with_finalizers("a", &["example.com/a"]), 16)] {
            let _ = scenario.cluster.post(maps, object.to_string()).await.expect(201);
            let path = format!("{maps}/a");
            let deletes = (0..16).map(|_| scenario.cluster.delete(&path));
            let responses = futures_util::future::join_all(deletes).await;
            let codes: Vec<u16> = responses.iter().map(|response| response.status.as_u16()).collect();
            assert!(codes.iter().all(|code| [200, 404].contains(code)), "{codes:?}");
            assert_eq!(codes.iter().filter(|code| **code == 200).count(), expect, "{codes:?}");
        }
        let terminating: Value = scenario.cluster.get(&format!("{maps}/a")).await.expect(200).json();
        assert!(terminating["metadata"]["deletionTimestamp"].is_string());
        scenario.stop().await;
    });
}
