//! What a delete answers with: the object, or a `Status` about it, in whatever encoding and form.

use serde_json::{Value, json};

use crate::{NONE, Scene, any, gone, held, map};

#[test]
fn kinds_answer_with_themselves_or_a_status() {
    let account =
        |name: &str| json!({"kind": "ServiceAccount", "metadata": {"name": name, "uid": format!("${name}.uid")}});
    let class = json!({"metadata": {"name": "c"}, "provisioner": "p"});
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let endpoints = json!({"metadata": {"name": "e"}});
    let node = json!({"metadata": {"name": "n"}});
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST configmaps", map("a"), 201, any()),
                ("DELETE configmaps/a", NONE, 200, gone("configmaps", "a")),
                ("POST serviceaccounts", map("s"), 201, any()),
                ("DELETE serviceaccounts/s", NONE, 200, account("s")),
                (&format!("POST {classes}"), class, 201, any()),
                (&format!("DELETE {classes}/c"), NONE, 200, json!({"kind": "StorageClass"})),
                // Where keys are named otherwise than paths, answers are not.
                ("POST endpoints", endpoints, 201, any()),
                ("DELETE endpoints/e", NONE, 200, gone("endpoints", "e")),
                ("POST /api/v1/nodes", node, 201, any()),
                ("DELETE /api/v1/nodes/n", NONE, 200, gone("nodes", "n")),
                ("POST coordination.k8s.io/v1/leases", map("l"), 201, any()),
                ("DELETE coordination.k8s.io/v1/leases/l", NONE, 200, gone("coordination.k8s.io/leases", "l")),
                (
                    "DELETE configmaps/a",
                    NONE,
                    404,
                    json!({"details": {"name": "a", "kind": "configmaps", "uid": null}}),
                ),
                ("DELETE configmaps/A%2Fb", NONE, 404, any()),
            ])
            .await;
        scene.end().await;
    });
}

/// The last state of what is gone is of the revision of its end.
#[test]
fn the_last_state_is_of_the_last_revision() {
    pintle_testkit::run(async move {
        let scene = Scene::begin().await;
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let mut watch = scene.cluster.watch(&format!("{accounts}?watch=1&fieldSelector=metadata.name%3Ds")).await;
        let _ = scene.cluster.post(accounts, map("s").to_string()).await.expect(201);
        watch.expect("ADDED", "s").await;
        let answer = scene.cluster.delete(&format!("{accounts}/s")).await.expect(200).json();
        let last = watch.expect("DELETED", "s").await;
        assert_eq!(answer, last);
        scene.end().await;
    });
}

#[test]
fn a_status_is_never_a_table() {
    pintle_testkit::run(async move {
        let scene = Scene::begin().await;
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
            let made = scene.cluster.post(maps, object.to_string()).await.expect(201).json();
            let path = format!("{maps}/{}", made["metadata"]["name"].as_str().expect("a name"));
            let answer = scene.cluster.request("DELETE", &path).header("accept", accept).send().await.expect(200);
            assert_eq!(answer.json()["kind"], kind, "{accept} {finalizers}");
        }
        for (accept, content_type) in [
            ("application/yaml", "application/yaml"),
            ("application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"),
            ("*/*", "application/json"),
        ] {
            let _ = scene.cluster.post(maps, map("a").to_string()).await.expect(201);
            let answer = scene.cluster.request("DELETE", &format!("{maps}/a")).header("accept", accept).send().await;
            assert_eq!(answer.expect(200).header("content-type"), content_type);
        }
        let _ = scene.cluster.post(maps, map("a").to_string()).await.expect(201);
        let refused = scene.cluster.request("DELETE", &format!("{maps}/a")).header("accept", "text/plain").send().await;
        let _ = refused.expect(406);
        let _ = scene.cluster.get(&format!("{maps}/a")).await.expect(200);
        scene.end().await;
    });
}

/// Two that delete at a time: one of them does it.
#[test]
fn one_of_many_deletes_it() {
    pintle_testkit::run(async move {
        let scene = Scene::begin().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        for (object, expect) in [(map("a"), 1), (held("a", &["example.com/a"]), 16)] {
            let _ = scene.cluster.post(maps, object.to_string()).await.expect(201);
            let path = format!("{maps}/a");
            let deletes = (0..16).map(|_| scene.cluster.delete(&path));
            let answers = futures_util::future::join_all(deletes).await;
            let codes: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
            assert!(codes.iter().all(|code| [200, 404].contains(code)), "{codes:?}");
            assert_eq!(codes.iter().filter(|code| **code == 200).count(), expect, "{codes:?}");
        }
        let marked: Value = scene.cluster.get(&format!("{maps}/a")).await.expect(200).json();
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        scene.end().await;
    });
}
