//! What clients get who accept this and that: objects, errors, documents and streams, of built-in and of custom kinds
//! (upstream: `endpoints/handlers/negotiation` and `responsewriters`).

use pintle_codec::{json, protobuf, yaml};
use pintle_testkit::{Cluster, Response};
use pintle_value::Value as Tree;
use serde_json::{Value, json as literal};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PARTIAL: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/m";
const WIDGETS: &str = "/apis/example.com/v1/widgets";
const WIDGET: &str = "/apis/example.com/v1/widgets/w";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A cluster with a ConfigMap and a custom object.
async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    let map = literal!({"metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"k": "v"}});
    let _ = cluster.post(MAPS, map.to_string()).await.expect(201);
    let schema = literal!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = literal!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
        }
    });
    let mut watch = cluster.watch(&format!("{CRDS}?watch=1")).await;
    let _ = cluster.post(CRDS, definition.to_string()).await.expect(201);
    let is_served = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    while let Some(event) = watch.next().await {
        if event["object"]["status"]["conditions"].as_array().into_iter().flatten().any(is_served) {
            break;
        }
    }
    let widget =
        literal!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}}});
    let _ = cluster.post(WIDGETS, widget.to_string()).await.expect(201);
    cluster
}

/// The tree of a Protobuf body.
fn message(body: &[u8]) -> Tree {
    let catalog = pintle_catalog::shared();
    let envelope = protobuf::open_envelope(body).expect("an envelope");
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    let named = || catalog.struct_type(&format!("meta/v1.{}", envelope.kind));
    let id = catalog.kind_type(group, version, &envelope.kind).or_else(named);
    let id = id.unwrap_or_else(|| panic!("the type of {} {}", envelope.api_version, envelope.kind));
    protobuf::decode_object(&envelope, catalog.types(), id).expect("a message")
}

/// An answer in short: its code, its encoding, and what it is, or the message of an error.
fn short(answer: &Response) -> String {
    let (encoding, tree) = match answer.header("content-type") {
        "application/json" => {
            let tree = json::decode(&answer.body, json::Options::default()).expect("JSON").value;
            let pretty = if answer.body.starts_with(b"{\n") { "JSON of many lines" } else { "JSON" };
            (pretty, tree)
        }
        "application/yaml" => ("YAML", yaml::decode(&answer.body).expect("YAML").value),
        PROTOBUF => ("Protobuf", message(&answer.body)),
        other => return format!("{} {other}", answer.status.as_u16()),
    };
    let what = match tree.kind() {
        "Status" if tree.str_at(&["status"]) == "Failure" => tree.str_at(&["message"]),
        kind => kind,
    };
    format!("{} {encoding}: {what}", answer.status.as_u16())
}

async fn check(cluster: &Cluster, method: &str, rows: &[(&str, &str, &str)]) {
    for (path, accept, expect) in rows {
        let answer = cluster.request(method, path).header("accept", accept).send().await;
        assert_eq!(short(&answer), *expect, "{method} {path} as {accept}");
    }
}

const ALL: &str = "only the following media types are accepted: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf";

#[test]
fn objects_lists_and_documents_come_as_they_are_accepted() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        let refused = format!("406 Protobuf: {ALL}");
        check(
            &cluster,
            "GET",
            &[
                (MAP, PROTOBUF, "200 Protobuf: ConfigMap"),
                (MAP, PARTIAL, "200 Protobuf: PartialObjectMetadata"),
                (MAPS, PROTOBUF, "200 Protobuf: ConfigMapList"),
                (MAPS, PARTIAL_LIST, "200 Protobuf: PartialObjectMetadataList"),
                (WIDGET, PROTOBUF, &refused),
                (WIDGETS, PROTOBUF, &refused),
                (WIDGET, PARTIAL, "200 Protobuf: PartialObjectMetadata"),
                (WIDGETS, PARTIAL_LIST, "200 Protobuf: PartialObjectMetadataList"),
                (WIDGETS, "application/vnd.kubernetes.protobuf,application/json", "200 JSON: WidgetList"),
                ("/api", PROTOBUF, "200 Protobuf: APIVersions"),
                ("/apis", PROTOBUF, "200 Protobuf: APIGroupList"),
                ("/apis/apps", PROTOBUF, "200 Protobuf: APIGroup"),
                ("/api/v1", PROTOBUF, "200 Protobuf: APIResourceList"),
                ("/apis/example.com/v1", PROTOBUF, "200 Protobuf: APIResourceList"),
            ],
        )
        .await;
        // What is shown of both is the same.
        for (path, partial) in [(MAP, PARTIAL), (WIDGET, PARTIAL)] {
            let whole = cluster.get(path).await.expect(200);
            let whole = json::decode(&whole.body, json::Options::default()).expect("JSON").value;
            let shown = cluster.request("GET", path).header("accept", partial).send().await.expect(200);
            assert_eq!(message(&shown.body)["metadata"], whole["metadata"], "{path}");
        }
    });
}

#[test]
fn errors_come_in_what_is_accepted_of_objects_that_are_not_transformed() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        let none = format!("{MAPS}/none");
        let missing = "configmaps \"none\" not found";
        let expect = |form: &str| format!("404 {form}: {missing}");
        let both = format!("{PARTIAL},application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
        let lists = "you requested PartialObjectMetadata, but the requested object is a list (*v1.ConfigMapList)";
        check(
            &cluster,
            "GET",
            &[
                (&none, PROTOBUF, &expect("Protobuf")),
                (&none, "application/yaml", &expect("YAML")),
                (&none, "application/json;pretty=1", &expect("JSON of many lines")),
                (&none, &both, &expect("JSON")),
                // Who accepts no such thing gets it in Go's own way.
                (&none, PARTIAL, &expect("JSON of many lines")),
                (WIDGET, "text/plain", &format!("406 JSON of many lines: {ALL}")),
                (MAPS, PARTIAL, &format!("406 JSON of many lines: {lists}")),
            ],
        )
        .await;
        let answer = cluster.request("GET", &none).header("accept", PARTIAL).send().await;
        assert!(answer.body.ends_with(b"\n}"), "{}", answer.text());
    });
}

#[test]
fn a_head_is_a_get_without_its_body() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        for (path, accept, code) in [(MAP, PROTOBUF, 200), (MAPS, PARTIAL_LIST, 200), (WIDGET, PROTOBUF, 406)] {
            let answer = cluster.request("HEAD", path).header("accept", accept).send().await.expect(code);
            assert_eq!((answer.header("content-type"), &answer.body[..]), (PROTOBUF, &b""[..]), "{path}");
        }
    });
}

/// DeleteOptions in Protobuf with a precondition.
fn options(uid: &str) -> Vec<u8> {
    let catalog = pintle_catalog::shared();
    let id = catalog.struct_type("meta/v1.DeleteOptions").expect("a type");
    let options = json::decode_typed(
        literal!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}).to_string().as_bytes(),
        catalog.types(),
        id,
    );
    let mut body = Vec::new();
    protobuf::encode_object(&options.expect("options").value, catalog.types(), id, &mut body);
    body
}

#[test]
fn deletions_take_their_options_in_protobuf_and_say_so_too() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        for (path, done) in [(MAP, "200 Protobuf: Status"), (WIDGET, "200 JSON: Status")] {
            let accept = "application/vnd.kubernetes.protobuf,application/json";
            let delete =
                |uid: &str| cluster.request("DELETE", path).header("accept", accept).body(PROTOBUF, options(uid));
            let other = delete("other").send().await;
            assert_eq!(other.status.as_u16(), 409, "{}", short(&other));
            let uid =
                cluster.get(path).await.expect(200).json()["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            assert_eq!(short(&delete(&uid).send().await), done, "{path}");
        }
    });
}

#[test]
fn metadata_is_watched_in_protobuf() {
    pintle_testkit::run(async {
        let cluster = cluster().await;
        for path in [MAPS, WIDGETS] {
            let stream = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
            let ask = cluster.request("GET", &format!("{path}?{stream}")).header("accept", PARTIAL);
            let mut stream = ask.stream().await.expect("a connection").expect("a stream");
            let mut bytes = Vec::new();
            let mut kinds = Vec::new();
            while kinds.last().is_none_or(|kind| *kind != "BOOKMARK") {
                bytes.extend_from_slice(&stream.next().await.expect("more").expect("more"));
                while let Some((size, rest)) = bytes.split_first_chunk::<4>()
                    && let Some((frame, rest)) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)
                {
                    let name = ["ADDED", "BOOKMARK"].into_iter().find(|kind| frame[2..].starts_with(kind.as_bytes()));
                    kinds.push(name.unwrap_or_else(|| panic!("{}", frame.escape_ascii())));
                    let place = frame.windows(4).position(|window| window == protobuf::PREFIX).expect("an object");
                    assert_eq!(message(&frame[place..]).kind(), "PartialObjectMetadata");
                    bytes = rest.to_vec();
                }
            }
            let others = kinds.len() - 2;
            assert_eq!(kinds[others..], ["ADDED", "BOOKMARK"], "{path}");
        }
        let refused = format!("406 Protobuf: {ALL}");
        check(&cluster, "GET", &[(&format!("{WIDGETS}?watch=1"), PROTOBUF, &refused)]).await;
        let streams = "406 YAML: only the following media types are accepted: application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
        check(&cluster, "GET", &[(&format!("{MAPS}?watch=1"), "application/yaml,application/json;q=0.5", streams)])
            .await;
    });
}
