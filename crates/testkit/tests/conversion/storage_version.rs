//! What was stored at another version than the one that objects are stored at now, or under another definition.

use pintle_testkit::{Cluster, Watch};
use serde_json::{Value, json};

use super::hook::{Hook, Manner};
use super::{DEFINITION, convert, define, definition, path, v1, v2, webhook, widgets};

/// Makes v2 the version that objects are stored at, and waits until it is.
async fn store_at_v2(cluster: &Cluster) {
    let swap = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    let changed = cluster.patch(DEFINITION, "json", swap.to_string()).await.expect(200).json();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn the_version_to_store_may_change() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable().await;
        let hook = Hook::start(Manner::Converts(convert)).await;
        define(&cluster, &definition("v1", &webhook(&hook.by_url()))).await;
        let old = cluster.post(&widgets("v1"), v1("old", "red").to_string()).await.expect(201).json();
        let mut watch: Watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets("v1"))).await;
        watch.expect("ADDED", "old").await;
        store_at_v2(&cluster).await;
        // Until the change is followed, what is written is stored as before; either is right.
        while watch.next().await.is_some() {}
        let _ = cluster.post(&widgets("v1"), v1("new", "green").to_string()).await.expect(201);
        let check = async |cluster: &Cluster| {
            for (version, field) in [("v1", "colour"), ("v2", "hue")] {
                let list = cluster.get(&widgets(version)).await.expect(200).json();
                let shown = |item: &Value| (item["metadata"]["name"].clone(), item["spec"][field].clone());
                let shown: Vec<_> = list["items"].as_array().expect("items").iter().map(shown).collect();
                assert_eq!(shown, [(json!("new"), json!("green")), (json!("old"), json!("red"))], "{version}");
                let got = cluster.get(&path(version, "old")).await.expect(200).json();
                assert_eq!(got["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]);
            }
        };
        check(&cluster).await;
        // What is stored at the old version is asked about for the new one only.
        let _ = hook.asked();
        let _ = cluster.get(&path("v1", "old")).await.expect(200);
        assert_eq!(hook.asked(), []);
        let _ = cluster.get(&path("v1", "new")).await.expect(200);
        assert_eq!(hook.asked(), [(1, "example.com/v1".to_owned())]);
        let cluster = cluster.restart().await;
        check(&cluster).await;
        // Writing what is there stores it at the new version: so are objects moved.
        let shown = cluster.get(&path("v1", "old")).await.expect(200).json();
        let moved = cluster.put(&path("v1", "old"), shown.to_string()).await.expect(200).json();
        assert_ne!(moved["metadata"]["resourceVersion"], shown["metadata"]["resourceVersion"]);
        let _ = hook.asked();
        assert_eq!(cluster.get(&path("v2", "old")).await.expect(200).json()["spec"]["hue"], "red");
        assert_eq!(hook.asked(), []);
        cluster.stop().await;
    });
}

#[test]
fn versions_may_differ_in_name_alone() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, &definition("v1", &json!({"strategy": "None"}))).await;
        let made = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201).json();
        assert_eq!(made["spec"], json!({"colour": "red", "size": 1, "replicas": 1}));
        // What the other version does not know is not shown, and its defaults are not those of what is there.
        let shown = cluster.get(&path("v2", "a")).await.expect(200).json();
        assert_eq!(shown["spec"], json!({"size": 1, "replicas": 1}));
        // What is written at the other version is pruned for the store.
        let made = cluster.post(&widgets("v2"), v2("b", "red").to_string()).await.expect(201).json();
        assert_eq!(made["spec"], json!({"size": 2, "replicas": 1}));
        let list = cluster.get(&widgets("v1")).await.expect(200).json();
        assert_eq!(list["items"][0]["spec"], json!({"colour": "red", "size": 1, "replicas": 1}));
        assert_eq!(list["items"][1]["apiVersion"], "example.com/v1");
        cluster.stop().await;
    });
}

#[test]
fn versions_of_one_schema_are_shown_alike() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let mut twins = definition("v1", &json!({"strategy": "None"}));
        let mut v2 = twins["spec"]["versions"][0].clone();
        (v2["name"], v2["storage"]) = (json!("v2alpha1"), json!(false));
        v2["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
        twins["spec"]["versions"] = json!([v2, twins["spec"]["versions"][0].clone()]);
        twins["spec"]["versions"][1]["selectableFields"] = twins["spec"]["versions"][0]["selectableFields"].clone();
        define(&cluster, &twins).await;
        let mut labelled = v1("a", "red");
        labelled["metadata"]["labels"] = json!({"l": "1"});
        let _ = cluster.post(&widgets("v1"), labelled.to_string()).await.expect(201);
        let _ = cluster.post(&widgets("v1"), v1("b", "green").to_string()).await.expect(201);
        for name in ["a", "b"] {
            let stored = cluster.get(&path("v1", name)).await.expect(200).text();
            let expect = stored.replacen("example.com/v1", "example.com/v2alpha1", 1);
            assert_eq!(cluster.get(&path("v2alpha1", name)).await.expect(200).text(), expect);
        }
        for selector in ["labelSelector=l%3D1", "fieldSelector=spec.colour%3Dred", "labelSelector=!m&limit=1"] {
            let list = cluster.get(&format!("{}?{selector}", widgets("v2alpha1"))).await.expect(200).json();
            let names: Vec<_> =
                list["items"].as_array().expect("items").iter().map(|i| &i["metadata"]["name"]).collect();
            assert_eq!(names, ["a"], "{selector}");
            assert_eq!(list["items"][0]["apiVersion"], "example.com/v2alpha1");
        }
        let mut watch: Watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets("v2alpha1"))).await;
        watch.expect("ADDED", "a").await;
        assert_eq!(watch.expect("ADDED", "b").await["apiVersion"], "example.com/v2alpha1");
        cluster.stop().await;
    });
}

#[test]
fn new_defaults_are_shown_of_old_objects() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, &definition("v1", &json!({"strategy": "None"}))).await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let change = json!([
            {"op": "add", "path": format!("{spec}/weight"), "value": {"type": "integer", "default": 7}},
            {"op": "remove", "path": format!("{spec}/replicas")},
            {"op": "remove", "path": "/spec/versions/0/subresources/scale"},
        ]);
        let _ = cluster.patch(DEFINITION, "json", change.to_string()).await.expect(200);
        let expect = json!({"colour": "red", "size": 1, "weight": 7});
        while cluster.get(&path("v1", "a")).await.expect(200).json()["spec"] != expect {}
        assert_eq!(cluster.get(&widgets("v1")).await.expect(200).json()["items"][0]["spec"], expect);
        cluster.stop().await;
    });
}

#[test]
fn what_has_become_malformed_is_dropped() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, &definition("v1", &json!({"strategy": "None"}))).await;
        let mut widget = v1("a", "red");
        widget["spec"]["free"] =
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 5, "labels": {"a": "b"}}});
        let _ = cluster.post(&widgets("v1"), widget.to_string()).await.expect(201);
        let free = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/free";
        let embed = json!([{"op": "add", "path": format!("{free}/x-kubernetes-embedded-resource"), "value": true}]);
        let _ = cluster.patch(DEFINITION, "json", embed.to_string()).await.expect(200);
        let expect = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"a": "b"}}});
        while cluster.get(&path("v1", "a")).await.expect(200).json()["spec"]["free"] != expect {}
        let _ = cluster.patch(&path("v1", "a"), "merge", r#"{"spec": {"colour": "green"}}"#).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn versions_that_are_stored_need_not_be_served() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable().await;
        let hook = Hook::start(Manner::Converts(convert)).await;
        let mut hidden = definition("v1", &webhook(&hook.by_url()));
        hidden["spec"]["versions"][0]["served"] = json!(false);
        define(&cluster, &hidden).await;
        let _ = cluster.get(&widgets("v1")).await.expect(404);
        let _ = cluster.post(&widgets("v2"), v2("a", "red").to_string()).await.expect(201);
        let _ = hook.asked();
        let cluster = cluster.restart().await;
        assert_eq!(cluster.get(&path("v2", "a")).await.expect(200).json()["spec"]["hue"], "red");
        assert_eq!(hook.asked(), [(1, "example.com/v2".to_owned())]);
        // None need be; the objects are there nevertheless.
        let none = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
        let _ = cluster.patch(DEFINITION, "json", none.to_string()).await.expect(200);
        while cluster.get(&widgets("v2")).await.status != 404 {}
        let again = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": true}]);
        let _ = cluster.patch(DEFINITION, "json", again.to_string()).await.expect(200);
        while cluster.get(&widgets("v2")).await.status != 200 {}
        assert_eq!(cluster.get(&path("v2", "a")).await.expect(200).json()["spec"]["hue"], "red");
        cluster.stop().await;
    });
}

#[test]
fn objects_of_versions_that_are_gone_cannot_be_read() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, &definition("v1", &json!({"strategy": "None"}))).await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        store_at_v2(&cluster).await;
        // Whoever says so has to have moved the objects.
        let moved = r#"{"status": {"storedVersions": ["v2"]}}"#;
        let _ = cluster.patch(&format!("{DEFINITION}/status"), "merge", moved).await.expect(200);
        let gone = json!([{"op": "remove", "path": "/spec/versions/0"}]);
        let _ = cluster.patch(DEFINITION, "json", gone.to_string()).await.expect(200);
        while cluster.get(&widgets("v1")).await.status != 404 {}
        let why = "request to convert CR from an invalid group/version: example.com/v1";
        for path in [format!("{}?limit=1", widgets("v2")), path("v2", "a")] {
            cluster.get(&path).await.expect_error(500, "", why);
        }
        let unready = format!("storage is (re)initializing: failed to list example.com/v2, Kind=Widget: {why}");
        cluster.get(&widgets("v2")).await.expect_error(429, "TooManyRequests", &unready);
        cluster.delete(&path("v2", "a")).await.expect_error(500, "", why);
        let _ = cluster.delete(DEFINITION).await.expect(200);
        while cluster.get(DEFINITION).await.status != 404 {}
        cluster.stop().await;
    });
}

#[test]
fn definitions_go_without_their_webhook() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let hook = Hook::start(Manner::Converts(convert)).await;
        define(&cluster, &definition("v1", &webhook(&hook.by_url()))).await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        let mut watch: Watch = cluster.watch(&format!("{}?watch=1&resourceVersion=0", widgets("v1"))).await;
        store_at_v2(&cluster).await;
        while watch.next().await.is_some() {}
        let _ = cluster.post(&widgets("v2"), v2("b", "red").to_string()).await.expect(201);
        hook.set(Manner::Adds(500, "Content-Type: text/plain", "broken"));
        let _ = cluster.delete(DEFINITION).await.expect(200);
        while cluster.get(DEFINITION).await.status != 404 {}
        cluster.stop().await;
    });
}
