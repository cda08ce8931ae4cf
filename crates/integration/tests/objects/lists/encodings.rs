//! Lists in every encoding: a list that is written item by item equals the list encoded as a whole.

use std::path::Path;

use futures_util::future::join_all;
use pintle_codec::{json, protobuf, yaml};
use pintle_integration::{Cluster, Options, manual_clock};
use pintle_store::{Change, EmbeddedOptions, EmbeddedStore, Store};
use pintle_value::{Object, Value};
use serde_json::json as literal;

use super::{CONFIGMAPS, cluster, create};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/widgets";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A transformation of a list.
#[derive(Clone, Copy)]
struct ListTransform {
    /// The parameters of the media type.
    parameters: &'static str,
    /// The type of the transformed list, or `None` for the kind's own list type.
    list: Option<&'static str>,
}

const NO_TRANSFORM: ListTransform = ListTransform { parameters: "", list: None };
const TABLE: ListTransform = ListTransform { parameters: ";as=Table;v=v1;g=meta.k8s.io", list: Some("meta/v1.Table") };
const PARTIAL: ListTransform = ListTransform {
    parameters: ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    list: Some("meta/v1.PartialObjectMetadataList"),
};

async fn get(cluster: &Cluster, path: &str, accept: &str) -> Vec<u8> {
    let response = cluster.request("GET", path).header("accept", accept).send().await.expect(200);
    assert_eq!(response.header("content-type"), accept.split(';').next().unwrap_or_default(), "{path} as {accept}");
    response.body.to_vec()
}

fn decode_json(text: &[u8]) -> Value {
    json::decode(text, json::DecodeOptions::default()).expect("JSON").value
}

/// Checks that a list is the same in every encoding. `kind` is its built-in type, if it has one.
async fn check(cluster: &Cluster, path: &str, transform: ListTransform, kind: Option<&str>) {
    let catalog = pintle_catalog::shared();
    let types = catalog.types();
    let id = match transform.list {
        Some(list) => catalog.struct_type(list),
        None => kind.and_then(|kind| catalog.kind_type("", "v1", kind)),
    };
    let accept = |media_type: &str| format!("{media_type}{}", transform.parameters);
    let text = get(cluster, path, &accept("application/json")).await;
    let list = decode_json(&text);
    let mut full_list = Vec::new();
    match id {
        Some(id) => json::encode_typed(&list, types, id, &mut full_list),
        None => json::encode_into(&list, &mut full_list),
    }
    full_list.push(b'\n');
    let context = format!("{path} as {}", transform.parameters);
    // Table rows contain objects whose fields are in the order of their own types, so their order is not compared.
    let equal = transform.list == TABLE.list || text == full_list;
    assert!(equal, "{context}: {}", String::from_utf8_lossy(&text[..text.len().min(2000)]));

    let pretty = format!("{path}{}pretty=true", if path.contains('?') { '&' } else { '?' });
    let pretty = get(cluster, &pretty, &accept("application/json")).await;
    let lines = json::indent(&text);
    assert!(pretty == lines, "{context}, pretty: {}", String::from_utf8_lossy(&pretty[..pretty.len().min(2000)]));

    let text = get(cluster, path, &accept("application/yaml")).await;
    let expect = yaml::encode(&list);
    assert!(text == expect, "{context}, YAML: {}", String::from_utf8_lossy(&text[..text.len().min(2000)]));

    if let (Some(id), false) = (id, transform.list == TABLE.list) {
        let mut expect = Vec::new();
        protobuf::encode_object(&list, types, id, &mut expect);
        // The second time, the response comes from the encoding cache.
        for round in ["first", "second"] {
            let message = get(cluster, path, &accept(PROTOBUF)).await;
            assert!(message == expect, "{context}, Protobuf, {round} time");
        }
    }
}

#[test]
fn lists_are_the_same_in_every_encoding() {
    pintle_integration::run(async {
        for encoding_cache in [64 << 20, 20_000, 0] {
            // With a manual clock, ages in tables do not change.
            let options = Options { encoding_cache, clock: manual_clock(), ..Options::default() };
            let cluster = cluster(options).await;
            for (count, query) in [(0, ""), (1, ""), (2, "?limit=1"), (300, ""), (300, "?limit=200")] {
                for i in 0..count {
                    let text = format!("{} <&>\u{2028} \"{i}\"\nline: two\n", "some text ".repeat(i % 200));
                    let map = literal!({"metadata": {"name": format!("m{i:04}"), "labels": {"i": i.to_string()}},
                        "data": {"text": text, "i": i.to_string()}, "binaryData": {"b": "AAEC"}});
                    let _ = cluster.post(CONFIGMAPS, map.to_string()).await;
                }
                for transform in [NO_TRANSFORM, TABLE, PARTIAL] {
                    check(&cluster, &format!("{CONFIGMAPS}{query}"), transform, Some("ConfigMapList")).await;
                }
                if count == 300 {
                    break;
                }
            }
        }
    });
}

/// Checks that a list of a kind (its group and name, at `v1`) is the same in JSON and in Protobuf. Returns its length.
async fn check_protobuf(cluster: &Cluster, path: &str, (group, kind): (&str, &str)) -> usize {
    let catalog = pintle_catalog::shared();
    let id = catalog.kind_type(group, "v1", kind).expect("a kind");
    let list = decode_json(&get(cluster, path, "application/json").await);
    let mut expect = Vec::new();
    protobuf::encode_object(&list, catalog.types(), id, &mut expect);
    assert!(get(cluster, path, PROTOBUF).await == expect, "{path}");
    list.items_at(&["items"]).len()
}

/// Writes small ConfigMaps into the store of a stopped durable cluster.
async fn write_configmaps(folder: &Path, count: usize) {
    let store = EmbeddedStore::open(folder, EmbeddedOptions::default()).expect("the cluster's store");
    let put = |i: usize| {
        let map = literal!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": format!("m{i:05}"), "namespace": "n", "uid": format!("{i}")}, "data": {"i": i.to_string()}});
        store.commit(Change::put(format!("/registry/configmaps/n/m{i:05}"), map.to_string()))
    };
    for commit in join_all((0..count).map(put)).await {
        commit.expect("a commit");
    }
    store.close().await.expect("the store closes");
}

#[test]
fn long_lists_can_be_encoded_in_protobuf() {
    pintle_integration::run(async {
        // More objects than the encoder buffers when it computes the size, so it iterates over the list twice.
        let cluster = Cluster::durable().await;
        cluster.stop_server().await;
        write_configmaps(cluster.data_dir().expect("a folder"), 17_000).await;
        cluster.start_server().await;
        assert!(check_protobuf(&cluster, "/api/v1/configmaps", ("", "ConfigMapList")).await >= 17_000);
        cluster.stop().await;
    });
}

#[test]
fn changed_objects_are_not_served_from_the_encoding_cache() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for round in 0..3 {
            let map = literal!({"metadata": {"name": "m"}, "data": {"round": round.to_string()}}).to_string();
            match round {
                0 => drop(cluster.post(CONFIGMAPS, map).await.expect(201)),
                _ => drop(cluster.put(&format!("{CONFIGMAPS}/m"), map).await.expect(200)),
            }
            check(&cluster, CONFIGMAPS, NO_TRANSFORM, Some("ConfigMapList")).await;
            check(&cluster, &format!("{CONFIGMAPS}/m"), NO_TRANSFORM, Some("ConfigMap")).await;
        }
        let _ = cluster.delete(&format!("{CONFIGMAPS}/m")).await.expect(200);
        check(&cluster, CONFIGMAPS, NO_TRANSFORM, Some("ConfigMapList")).await;
    });
}

#[test]
fn lists_of_other_versions_and_of_deleted_objects_are_complete() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for i in 0..3 {
            create(&cluster, CONFIGMAPS, literal!({"metadata": {"name": format!("m{i}")}, "data": {"i": "1"}})).await;
        }
        let before = get(&cluster, CONFIGMAPS, PROTOBUF).await;
        let deleted = cluster.request("DELETE", CONFIGMAPS).header("accept", PROTOBUF).send().await.expect(200);
        // The response is the list before the deletion.
        assert!(before == deleted.body);
        let events = "/apis/events.k8s.io/v1/namespaces/n/events";
        for i in 0..2 {
            let event = literal!({"metadata": {"name": format!("e{i}")}, "action": "a", "reason": "r", "type": "Normal",
                "reportingController": "example.com/c", "reportingInstance": "c-1", "eventTime": "2030-01-01T00:00:00.000001Z",
                "regarding": {"namespace": "n"}});
            let _ = cluster.post(events, event.to_string()).await.expect(201);
        }
        for (path, group) in [(events, "events.k8s.io"), ("/api/v1/namespaces/n/events", "")] {
            check_protobuf(&cluster, path, (group, "EventList")).await;
        }
    });
}

#[test]
fn lists_of_custom_resources_are_the_same_in_every_encoding() {
    pintle_integration::run(async {
        let cluster = cluster(Options { clock: manual_clock(), ..Options::default() }).await;
        let schema = literal!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = literal!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
            }
        });
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        let mut watch = cluster.watch(&format!("{CRDS}?watch=1")).await;
        while let Some(event) = watch.next().await {
            let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
                break;
            }
        }
        for transform in [NO_TRANSFORM, TABLE, PARTIAL] {
            check(&cluster, WIDGETS, transform, None).await;
        }
        for i in 0..400 {
            let widget = literal!({"apiVersion": "example.com/v1", "kind": "Widget", "data": ["sorts before kind"],
                "metadata": {"name": format!("w{i}"), "labels": {"i": i.to_string()}}, "spec": {"z": i, "a": "b".repeat(500)}});
            let _ = cluster.post(WIDGETS, widget.to_string()).await.expect(201);
        }
        for transform in [NO_TRANSFORM, TABLE, PARTIAL] {
            check(&cluster, WIDGETS, transform, None).await;
            check(&cluster, &format!("{WIDGETS}?limit=7"), transform, None).await;
        }
        let list = decode_json(&get(&cluster, WIDGETS, "application/json").await);
        let members: Vec<&str> = list.as_object().map(Object::keys).into_iter().flatten().collect();
        assert_eq!(members, ["apiVersion", "items", "kind", "metadata"]);
    });
}
