//! Content negotiation: the encoding of objects, errors, discovery documents and watches for a given `Accept` header.
//! The tests cover built-in kinds and custom resources (upstream: `endpoints/handlers/negotiation` and
//! `responsewriters`).

use pintle_codec::{json, protobuf, yaml};
use pintle_integration::{Cluster, Response};
use pintle_value::Value as PintleValue;
use serde_json::{Value, json as literal};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PARTIAL: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGMAP: &str = "/api/v1/namespaces/default/configmaps/m";
const WIDGETS: &str = "/apis/example.com/v1/widgets";
const WIDGET: &str = "/apis/example.com/v1/widgets/w";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Starts a cluster that has a ConfigMap and a custom resource.
async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    let map = literal!({"metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"k": "v"}});
    let _ = cluster.post(CONFIGMAPS, map.to_string()).await.expect(201);
    let schema = literal!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = literal!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
        }
    });
    let mut watch = cluster.watch(&format!("{CRDS}?watch=1")).await;
    let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
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

/// Decodes a Protobuf body.
fn decode_protobuf(body: &[u8]) -> PintleValue {
    let catalog = pintle_catalog::shared();
    let envelope = protobuf::open_envelope(body).expect("an envelope");
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    let named = || catalog.struct_type(&format!("meta/v1.{}", envelope.kind));
    let id = catalog.kind_type(group, version, &envelope.kind).or_else(named);
    let id = id.unwrap_or_else(|| panic!("the type of {} {}", envelope.api_version, envelope.kind));
    protobuf::decode_object(&envelope, catalog.types(), id).expect("a valid message")
}

/// Summarizes a response: status code, encoding, and kind, or the message of an error.
fn summarize(response: &Response) -> String {
    let (encoding, tree) = match response.header("content-type") {
        "application/json" => {
            let tree = json::decode(&response.body, json::DecodeOptions::default()).expect("JSON").value;
            let pretty = if response.body.starts_with(b"{\n") { "pretty JSON" } else { "JSON" };
            (pretty, tree)
        }
        "application/yaml" => ("YAML", yaml::decode(&response.body).expect("YAML").value),
        PROTOBUF => ("Protobuf", decode_protobuf(&response.body)),
        other => return format!("{} {other}", response.status.as_u16()),
    };
    let what = match tree.kind() {
        "Status" if tree.str_at(&["status"]) == "Failure" => tree.str_at(&["message"]),
        kind => kind,
    };
    format!("{} {encoding}: {what}", response.status.as_u16())
}

async fn check(cluster: &Cluster, method: &str, cases: &[(&str, &str, &str)]) {
    for (path, accept, expect) in cases {
        let response = cluster.request(method, path).header("accept", accept).send().await;
        assert_eq!(summarize(&response), *expect, "{method} {path} as {accept}");
    }
}

const ACCEPTED_MEDIA_TYPES: &str = "only the following media types are accepted: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf";

#[test]
fn objects_lists_and_discovery_use_the_accepted_encoding() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        let not_acceptable = format!("406 Protobuf: {ACCEPTED_MEDIA_TYPES}");
        check(
            &cluster,
            "GET",
            &[
                (CONFIGMAP, PROTOBUF, "200 Protobuf: ConfigMap"),
                (CONFIGMAP, PARTIAL, "200 Protobuf: PartialObjectMetadata"),
                (CONFIGMAPS, PROTOBUF, "200 Protobuf: ConfigMapList"),
                (CONFIGMAPS, PARTIAL_LIST, "200 Protobuf: PartialObjectMetadataList"),
                (WIDGET, PROTOBUF, &not_acceptable),
                (WIDGETS, PROTOBUF, &not_acceptable),
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
        // The partial object has the same metadata as the full object.
        for (path, partial) in [(CONFIGMAP, PARTIAL), (WIDGET, PARTIAL)] {
            let full_object = cluster.get(path).await.expect(200);
            let full_object = json::decode(&full_object.body, json::DecodeOptions::default()).expect("JSON").value;
            let partial_object = cluster.request("GET", path).header("accept", partial).send().await.expect(200);
            assert_eq!(decode_protobuf(&partial_object.body)["metadata"], full_object["metadata"], "{path}");
        }
    });
}

#[test]
fn errors_use_the_first_accepted_encoding_without_a_transformation() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        let none = format!("{CONFIGMAPS}/none");
        let missing = "configmaps \"none\" not found";
        let expect = |form: &str| format!("404 {form}: {missing}");
        let both = format!("{PARTIAL},application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
        let object =
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)";
        let json_list = PARTIAL_LIST.replace("vnd.kubernetes.protobuf", "json");
        let lists = "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)";
        check(
            &cluster,
            "GET",
            &[
                (&none, PROTOBUF, &expect("Protobuf")),
                (&none, "application/yaml", &expect("YAML")),
                (&none, "application/json;pretty=1", &expect("pretty JSON")),
                (&none, &both, &expect("JSON")),
                // Without an acceptable encoding, errors are written as `json.MarshalIndent` does.
                (&none, PARTIAL, &expect("pretty JSON")),
                (WIDGET, "text/plain", &format!("406 pretty JSON: {ACCEPTED_MEDIA_TYPES}")),
                (CONFIGMAPS, PARTIAL, &format!("406 pretty JSON: {lists}")),
                (CONFIGMAP, PARTIAL_LIST, &format!("406 pretty JSON: {object}")),
                // Upstream takes every unstructured object for a list.
                (WIDGET, &json_list, "500 pretty JSON: content is not a list"),
            ],
        )
        .await;
        let response = cluster.request("GET", &none).header("accept", PARTIAL).send().await;
        assert!(response.body.ends_with(b"\n}"), "{}", response.text());
    });
}

#[test]
fn only_custom_resources_have_a_head() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        let status = format!("{CONFIGMAP}/status");
        for (path, accept, code, media_type) in [
            (CONFIGMAP, PROTOBUF, 405, PROTOBUF),
            (CONFIGMAPS, PARTIAL_LIST, 405, "application/json"),
            (&status, PROTOBUF, 404, PROTOBUF),
            (WIDGET, "application/json", 200, "application/json"),
            (WIDGET, PROTOBUF, 406, PROTOBUF),
        ] {
            let response = cluster.request("HEAD", path).header("accept", accept).send().await.expect(code);
            assert_eq!((response.header("content-type"), &response.body[..]), (media_type, &b""[..]), "{path}");
        }
    });
}

/// Encodes DeleteOptions with a UID precondition in Protobuf.
fn delete_options(uid: &str) -> Vec<u8> {
    let catalog = pintle_catalog::shared();
    let id = catalog.struct_type("meta/v1.DeleteOptions").expect("a type");
    let delete_options = json::decode_typed(
        literal!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}).to_string().as_bytes(),
        catalog.types(),
        id,
    );
    let mut body = Vec::new();
    protobuf::encode_object(&delete_options.expect("options").value, catalog.types(), id, &mut body);
    body
}

#[test]
fn delete_accepts_options_and_returns_a_status_in_protobuf() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        for (path, done) in [(CONFIGMAP, "200 Protobuf: Status"), (WIDGET, "200 JSON: Status")] {
            let accept = "application/vnd.kubernetes.protobuf,application/json";
            let delete = |uid: &str| {
                cluster.request("DELETE", path).header("accept", accept).body(PROTOBUF, delete_options(uid))
            };
            let other = delete("other").send().await;
            assert_eq!(other.status.as_u16(), 409, "{}", summarize(&other));
            let uid =
                cluster.get(path).await.expect(200).json()["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            assert_eq!(summarize(&delete(&uid).send().await), done, "{path}");
        }
    });
}

#[test]
fn partial_metadata_can_be_watched_in_protobuf() {
    pintle_integration::run(async {
        let cluster = cluster().await;
        for path in [CONFIGMAPS, WIDGETS] {
            let stream = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
            let request = cluster.request("GET", &format!("{path}?{stream}")).header("accept", PARTIAL);
            let mut stream = request.stream().await.expect("a connection").expect("a stream");
            let mut bytes = Vec::new();
            let mut kinds = Vec::new();
            while kinds.last().is_none_or(|kind| *kind != "BOOKMARK") {
                bytes.extend_from_slice(&stream.next().await.expect("no error").expect("the stream continues"));
                while let Some((size, rest)) = bytes.split_first_chunk::<4>()
                    && let Some((frame, rest)) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)
                {
                    let name = ["ADDED", "BOOKMARK"].into_iter().find(|kind| frame[2..].starts_with(kind.as_bytes()));
                    kinds.push(name.unwrap_or_else(|| panic!("{}", frame.escape_ascii())));
                    let offset = frame.windows(4).position(|window| window == protobuf::PREFIX).expect("an object");
                    assert_eq!(decode_protobuf(&frame[offset..]).kind(), "PartialObjectMetadata");
                    bytes = rest.to_vec();
                }
            }
            let others = kinds.len() - 2;
            assert_eq!(kinds[others..], ["ADDED", "BOOKMARK"], "{path}");
        }
        let not_acceptable = format!("406 Protobuf: {ACCEPTED_MEDIA_TYPES}");
        check(&cluster, "GET", &[(&format!("{WIDGETS}?watch=1"), PROTOBUF, &not_acceptable)]).await;
        let streams = "406 YAML: only the following media types are accepted: application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
        check(
            &cluster,
            "GET",
            &[(&format!("{CONFIGMAPS}?watch=1"), "application/yaml,application/json;q=0.5", streams)],
        )
        .await;
    });
}
