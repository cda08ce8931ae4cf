//! Objects that were stored at an earlier storage version, or under an earlier version of the CRD.

use pintle_integration::{Cluster, Watch};
use serde_json::{Value, json};

use super::webhook::{ConversionWebhook, WebhookBehavior};
use super::{CRD, convert, crd, define, webhook_conversion, widget_path, widget_v1, widget_v2, widgets_path};

/// Changes the storage version to v2.
async fn change_storage_version_to_v2(cluster: &Cluster) {
    let swap = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    let changed = cluster.patch(CRD, "json", swap.to_string()).await.expect(200).json();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn the_storage_version_can_change() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        let webhook = ConversionWebhook::start(WebhookBehavior::ConvertAll(convert)).await;
        define(&cluster, &crd("v1", &webhook_conversion(&webhook.client_config()))).await;
        let old = cluster.post(&widgets_path("v1"), widget_v1("old", "red").to_string()).await.expect(201).json();
        let mut watch: Watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets_path("v1"))).await;
        watch.expect("ADDED", "old").await;
        change_storage_version_to_v2(&cluster).await;
        // The watch ends when the changed CRD is in effect. Until then, objects are stored at the old version.
        while watch.next().await.is_some() {}
        let _ = cluster.post(&widgets_path("v1"), widget_v1("new", "green").to_string()).await.expect(201);
        let check = async |cluster: &Cluster| {
            for (version, field) in [("v1", "colour"), ("v2", "hue")] {
                let list = cluster.get(&widgets_path(version)).await.expect(200).json();
                let shown = |item: &Value| (item["metadata"]["name"].clone(), item["spec"][field].clone());
                let shown: Vec<_> = list["items"].as_array().expect("items").iter().map(shown).collect();
                assert_eq!(shown, [(json!("new"), json!("green")), (json!("old"), json!("red"))], "{version}");
                let got = cluster.get(&widget_path(version, "old")).await.expect(200).json();
                assert_eq!(got["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]);
            }
        };
        check(&cluster).await;
        // A get at the version of the stored object does not call the webhook.
        let _ = webhook.take_requests();
        let _ = cluster.get(&widget_path("v1", "old")).await.expect(200);
        assert_eq!(webhook.take_requests(), []);
        let _ = cluster.get(&widget_path("v1", "new")).await.expect(200);
        assert_eq!(webhook.take_requests(), [(1, "example.com/v1".to_owned())]);
        let cluster = cluster.restart().await;
        check(&cluster).await;
        // Writing an unchanged object migrates it to the new storage version.
        let shown = cluster.get(&widget_path("v1", "old")).await.expect(200).json();
        let moved = cluster.put(&widget_path("v1", "old"), shown.to_string()).await.expect(200).json();
        assert_ne!(moved["metadata"]["resourceVersion"], shown["metadata"]["resourceVersion"]);
        let _ = webhook.take_requests();
        assert_eq!(cluster.get(&widget_path("v2", "old")).await.expect(200).json()["spec"]["hue"], "red");
        assert_eq!(webhook.take_requests(), []);
        cluster.stop().await;
    });
}

#[test]
fn strategy_none_changes_only_the_api_version() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, &crd("v1", &json!({"strategy": "None"}))).await;
        let created = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201).json();
        assert_eq!(created["spec"], json!({"colour": "red", "size": 1, "replicas": 1}));
        // Fields that the other version does not have are pruned. Its defaults do not apply to existing values.
        let shown = cluster.get(&widget_path("v2", "a")).await.expect(200).json();
        assert_eq!(shown["spec"], json!({"size": 1, "replicas": 1}));
        // An object that is written at another version is pruned with the schema of the storage version.
        let created = cluster.post(&widgets_path("v2"), widget_v2("b", "red").to_string()).await.expect(201).json();
        assert_eq!(created["spec"], json!({"size": 2, "replicas": 1}));
        let list = cluster.get(&widgets_path("v1")).await.expect(200).json();
        assert_eq!(list["items"][0]["spec"], json!({"colour": "red", "size": 1, "replicas": 1}));
        assert_eq!(list["items"][1]["apiVersion"], "example.com/v1");
        cluster.stop().await;
    });
}

#[test]
fn versions_with_the_same_schema_show_the_same_objects() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut twins = crd("v1", &json!({"strategy": "None"}));
        let mut second = twins["spec"]["versions"][0].clone();
        (second["name"], second["storage"]) = (json!("v2alpha1"), json!(false));
        second["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
        twins["spec"]["versions"] = json!([second, twins["spec"]["versions"][0].clone()]);
        twins["spec"]["versions"][1]["selectableFields"] = twins["spec"]["versions"][0]["selectableFields"].clone();
        define(&cluster, &twins).await;
        let mut labelled = widget_v1("a", "red");
        labelled["metadata"]["labels"] = json!({"l": "1"});
        let _ = cluster.post(&widgets_path("v1"), labelled.to_string()).await.expect(201);
        let _ = cluster.post(&widgets_path("v1"), widget_v1("b", "green").to_string()).await.expect(201);
        for name in ["a", "b"] {
            let stored = cluster.get(&widget_path("v1", name)).await.expect(200).text();
            let expect = stored.replacen("example.com/v1", "example.com/v2alpha1", 1);
            assert_eq!(cluster.get(&widget_path("v2alpha1", name)).await.expect(200).text(), expect);
        }
        for selector in ["labelSelector=l%3D1", "fieldSelector=spec.colour%3Dred", "labelSelector=!m&limit=1"] {
            let list = cluster.get(&format!("{}?{selector}", widgets_path("v2alpha1"))).await.expect(200).json();
            let names: Vec<_> =
                list["items"].as_array().expect("items").iter().map(|i| &i["metadata"]["name"]).collect();
            assert_eq!(names, ["a"], "{selector}");
            assert_eq!(list["items"][0]["apiVersion"], "example.com/v2alpha1");
        }
        let mut watch: Watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets_path("v2alpha1"))).await;
        watch.expect("ADDED", "a").await;
        assert_eq!(watch.expect("ADDED", "b").await["apiVersion"], "example.com/v2alpha1");
        cluster.stop().await;
    });
}

#[test]
fn new_defaults_and_pruning_apply_to_stored_objects() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, &crd("v1", &json!({"strategy": "None"}))).await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let change = json!([
            {"op": "add", "path": format!("{spec}/weight"), "value": {"type": "integer", "default": 7}},
            {"op": "remove", "path": format!("{spec}/replicas")},
            {"op": "remove", "path": "/spec/versions/0/subresources/scale"},
        ]);
        let _ = cluster.patch(CRD, "json", change.to_string()).await.expect(200);
        let expect = json!({"colour": "red", "size": 1, "weight": 7});
        while cluster.get(&widget_path("v1", "a")).await.expect(200).json()["spec"] != expect {}
        assert_eq!(cluster.get(&widgets_path("v1")).await.expect(200).json()["items"][0]["spec"], expect);
        cluster.stop().await;
    });
}

#[test]
fn malformed_embedded_metadata_is_dropped() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, &crd("v1", &json!({"strategy": "None"}))).await;
        let mut widget = widget_v1("a", "red");
        widget["spec"]["free"] =
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 5, "labels": {"a": "b"}}});
        let _ = cluster.post(&widgets_path("v1"), widget.to_string()).await.expect(201);
        let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/free";
        let embed = json!([{"op": "add", "path": format!("{field}/x-kubernetes-embedded-resource"), "value": true}]);
        let _ = cluster.patch(CRD, "json", embed.to_string()).await.expect(200);
        let expect = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"a": "b"}}});
        while cluster.get(&widget_path("v1", "a")).await.expect(200).json()["spec"]["free"] != expect {}
        let _ = cluster.patch(&widget_path("v1", "a"), "merge", r#"{"spec": {"colour": "green"}}"#).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn the_storage_version_need_not_be_served() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        let webhook = ConversionWebhook::start(WebhookBehavior::ConvertAll(convert)).await;
        let mut hidden = crd("v1", &webhook_conversion(&webhook.client_config()));
        hidden["spec"]["versions"][0]["served"] = json!(false);
        define(&cluster, &hidden).await;
        let _ = cluster.get(&widgets_path("v1")).await.expect(404);
        let _ = cluster.post(&widgets_path("v2"), widget_v2("a", "red").to_string()).await.expect(201);
        let _ = webhook.take_requests();
        let cluster = cluster.restart().await;
        assert_eq!(cluster.get(&widget_path("v2", "a")).await.expect(200).json()["spec"]["hue"], "red");
        assert_eq!(webhook.take_requests(), [(1, "example.com/v2".to_owned())]);
        // The objects still exist if no version is served.
        let none = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
        let _ = cluster.patch(CRD, "json", none.to_string()).await.expect(200);
        cluster.get_until_status(&widgets_path("v2"), 404).await;
        let again = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": true}]);
        let _ = cluster.patch(CRD, "json", again.to_string()).await.expect(200);
        cluster.get_until_status(&widgets_path("v2"), 200).await;
        assert_eq!(cluster.get(&widget_path("v2", "a")).await.expect(200).json()["spec"]["hue"], "red");
        cluster.stop().await;
    });
}

#[test]
fn objects_stored_at_a_removed_version_cannot_be_read() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, &crd("v1", &json!({"strategy": "None"}))).await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        change_storage_version_to_v2(&cluster).await;
        // The client removes v1 from the stored versions without migrating the objects.
        let moved = r#"{"status": {"storedVersions": ["v2"]}}"#;
        let _ = cluster.patch(&format!("{CRD}/status"), "merge", moved).await.expect(200);
        let removed = json!([{"op": "remove", "path": "/spec/versions/0"}]);
        let _ = cluster.patch(CRD, "json", removed.to_string()).await.expect(200);
        cluster.get_until_status(&widgets_path("v1"), 404).await;
        let why = "request to convert CR from an invalid group/version: example.com/v1";
        for path in [format!("{}?limit=1", widgets_path("v2")), widget_path("v2", "a")] {
            cluster.get(&path).await.expect_error(500, "", why);
        }
        let unready = format!("storage is (re)initializing: failed to list example.com/v2, Kind=Widget: {why}");
        cluster.get(&widgets_path("v2")).await.expect_error(429, "TooManyRequests", &unready);
        cluster.delete(&widget_path("v2", "a")).await.expect_error(500, "", why);
        let _ = cluster.delete(CRD).await.expect(200);
        cluster.get_until_status(CRD, 404).await;
        cluster.stop().await;
    });
}

#[test]
fn a_crd_can_be_deleted_while_its_webhook_fails() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let webhook = ConversionWebhook::start(WebhookBehavior::ConvertAll(convert)).await;
        define(&cluster, &crd("v1", &webhook_conversion(&webhook.client_config()))).await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        let mut watch: Watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets_path("v1"))).await;
        change_storage_version_to_v2(&cluster).await;
        while watch.next().await.is_some() {}
        let _ = cluster.post(&widgets_path("v2"), widget_v2("b", "red").to_string()).await.expect(201);
        webhook.set_behavior(WebhookBehavior::RespondWithHeader(500, "Content-Type: text/plain", "broken"));
        let _ = cluster.delete(CRD).await.expect(200);
        cluster.get_until_status(CRD, 404).await;
        cluster.stop().await;
    });
}

#[test]
fn defaults_of_the_storage_version_are_not_stored_by_writes_at_another() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        let mut crd = crd("v1", &json!({"strategy": "None"}));
        let spec = "/schema/openAPIV3Schema/properties/spec/properties";
        for (version, field) in [(0, "one"), (1, "two")] {
            let properties = crd["spec"]["versions"][version].pointer_mut(spec).expect("properties");
            *properties = json!({"one": {"type": "string"}, "two": {"type": "string"}});
            properties[field]["default"] = json!(field);
            let version = crd["spec"]["versions"][version].as_object_mut().expect("a version");
            version.retain(|key, _| matches!(key.as_str(), "name" | "served" | "storage" | "schema"));
        }
        define(&cluster, &crd).await;
        let widget = |name: &str| {
            json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": name}, "spec": {}})
                .to_string()
        };
        for name in ["read", "written"] {
            let created = cluster.post(&widgets_path("v2"), widget(name)).await.expect(201).json();
            assert_eq!(created["spec"], json!({"one": "one", "two": "two"}));
        }
        // The first update stores the default that the read has set.
        let patch = async || cluster.patch(&widget_path("v2", "written"), "merge", "{}").await.expect(200).json();
        let before = cluster.get(&widget_path("v2", "written")).await.expect(200).json();
        let first = patch().await;
        assert_ne!(before["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        assert_eq!(patch().await, first);

        let default = format!("/spec/versions/0{spec}/one/default");
        let change = json!([{"op": "replace", "path": default, "value": "changed"}]);
        let _ = cluster.patch(CRD, "json", change.to_string()).await.expect(200);
        let expect = json!({"one": "changed", "two": "two"});
        while cluster.get(&widget_path("v1", "read")).await.expect(200).json()["spec"] != expect {}
        let cluster = cluster.restart().await;
        for version in ["v1", "v2"] {
            let list = cluster.get(&widgets_path(version)).await.expect(200).json();
            assert_eq!(list["items"][0]["spec"], expect, "{version}");
            assert_eq!(list["items"][1]["spec"], json!({"one": "one", "two": "two"}), "{version}");
            assert_eq!(list["items"][0]["apiVersion"], format!("example.com/{version}"));
        }
        cluster.stop().await;
    });
}
