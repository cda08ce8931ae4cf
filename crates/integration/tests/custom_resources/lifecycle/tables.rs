//! Tables of custom resources, as `kubectl get` requests them.

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::{CRDS, WIDGETS, start_with_widgets, wait_for_condition, widget, widget_crd};

#[test]
fn tables_have_the_columns_of_the_crd() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let _ = cluster.post(WIDGETS, widget("a", &json!({"colour": "red"})).to_string()).await.expect(201);
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let table = cluster.request("GET", WIDGETS).header("accept", accept).send().await.expect(200).json();
        let columns: Vec<_> = table["columnDefinitions"].as_array().expect("columns").iter().collect();
        let names: Vec<_> = columns.iter().map(|column| &column["name"]).collect();
        assert_eq!(names, ["Name", "Colour", "Replicas"]);
        let description = "Custom resource definition column (in JSONPath format): .spec.colour";
        assert_eq!(columns[1]["description"], description);
        assert_eq!(table["rows"][0]["cells"], json!(["a", "red", 1]));
        cluster.stop().await;
    });
}

/// Requests a table in a version of `meta.k8s.io`.
async fn table(cluster: &Cluster, path: &str, version: &str) -> Value {
    let accept = format!("application/json;as=Table;v={version};g=meta.k8s.io,application/json");
    cluster.request("GET", path).header("accept", &accept).send().await.expect(200).json()
}

#[test]
fn a_column_of_strings_shows_every_value() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut crd = widget_crd();
        let version = &mut crd["spec"]["versions"][1];
        version["schema"]["openAPIV3Schema"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        version["subresources"] = Value::Null;
        let mut columns = Vec::new();
        for kind in ["string", "integer", "number", "boolean", "date"] {
            columns.push(json!({"name": kind, "type": kind, "jsonPath": ".spec.value"}));
        }
        version["additionalPrinterColumns"] = json!(columns);
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        let none = Value::Null;
        for (name, spec, expect) in [
            ("a", json!({"value": [1, 2, 3]}), json!(["[1,2,3]", none, none, none, none])),
            (
                "b",
                json!({"value": {"b": 1, "a": "<x>", "c": [null, 1.5]}}),
                json!(["{\"a\":\"\\u003cx\\u003e\",\"b\":1,\"c\":[null,1.5]}", none, none, none, none]),
            ),
            ("c", json!({"value": null}), json!(["<no value>", none, none, none, none])),
            ("d", json!({}), json!([none, none, none, none, none])),
            ("e", json!({"value": 7}), json!(["7", 7, 7, none, none])),
            ("f", json!({"value": 1.5}), json!(["1.5", 1, 1.5, none, none])),
            ("g", json!({"value": true}), json!(["true", none, none, true, none])),
            ("h", json!({"value": "<x>"}), json!(["<x>", none, none, none, "<invalid>"])),
        ] {
            let _ = cluster.post(WIDGETS, widget(name, &spec).to_string()).await.expect(201);
            let found = table(&cluster, &format!("{WIDGETS}/{name}"), "v1").await;
            let mut cells = vec![json!(name)];
            cells.extend(expect.as_array().cloned().unwrap_or_default());
            assert_eq!(found["rows"][0]["cells"], json!(cells), "{spec}");
        }
        cluster.stop().await;
    });
}

#[test]
fn without_columns_a_table_has_the_age_as_a_date() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut crd = widget_crd();
        crd["spec"]["versions"][1]["additionalPrinterColumns"] = Value::Null;
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        let found = table(&cluster, WIDGETS, "v1").await;
        let columns = found["columnDefinitions"].as_array().cloned().unwrap_or_default();
        let columns: Vec<_> = columns.iter().map(|c| ["name", "type", "format"].map(|key| c[key].clone())).collect();
        assert_eq!(columns, [["Name", "string", "name"], ["Age", "date", ""]].map(|c| c.map(Value::from)));
        cluster.stop().await;
    });
}

#[test]
fn rows_include_what_the_client_asks_for() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let _ = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(201);
        let maps = "/api/v1/namespaces/default/configmaps";
        let _ = cluster.post(maps, r#"{"metadata": {"name": "a"}}"#).await.expect(201);
        for version in ["v1", "v1beta1"] {
            for (collection, kind, own_version) in [(WIDGETS, "Widget", "example.com/v1"), (maps, "ConfigMap", "v1")] {
                for path in [collection.to_owned(), format!("{collection}/a")] {
                    let none = table(&cluster, &format!("{path}?includeObject=None"), version).await;
                    assert_eq!(none["rows"][0].get("object"), Some(&Value::Null), "{path} {version}");
                    let metadata = table(&cluster, &path, version).await;
                    assert_eq!(metadata["apiVersion"], format!("meta.k8s.io/{version}"));
                    let object = &metadata["rows"][0]["object"];
                    let found = (&object["kind"], &object["apiVersion"], &object["metadata"]["name"]);
                    let expect = format!("meta.k8s.io/{version}");
                    assert_eq!(found, (&json!("PartialObjectMetadata"), &json!(expect), &json!("a")), "{path}");
                    let object = table(&cluster, &format!("{path}?includeObject=Object"), version).await;
                    let object = &object["rows"][0]["object"];
                    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!(kind), &json!(own_version)), "{path}");
                }
            }
        }
        // The bookmark after the initial events has its annotation even without objects.
        let query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
        let path = format!("{maps}?{query}&includeObject=None&fieldSelector=metadata.name%3Da");
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let mut watch = cluster.request("GET", &path).header("accept", accept).watch().await;
        let added = watch.next().await.expect("an event");
        assert_eq!((&added["type"], added["object"]["rows"][0].get("object")), (&json!("ADDED"), Some(&Value::Null)));
        let end = watch.next().await.expect("an event");
        let annotations = &end["object"]["rows"][0]["object"]["metadata"]["annotations"];
        assert_eq!((&end["type"], annotations), (&json!("BOOKMARK"), &json!({"k8s.io/initial-events-end": "true"})));
        cluster.stop().await;
    });
}
