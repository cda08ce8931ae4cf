//! Values in etcd that other programs have written. The server accepts any spelling that upstream reads, and serves the
//! values as if a server had written them. Its own writes have the same bytes as upstream's.

use bytes::Bytes;
use pintle_integration::{Cluster, Etcd};
use pintle_store::{Change, EtcdOptions, EtcdStore, Store as _};
use serde_json::{Value, json};

use super::{CRDS, crd, replica};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGMAP_KEY: &str = "/registry/configmaps/default/a";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const THING_KEY: &str = "/registry/example.com/things/default/a";

fn open(etcd: &Etcd) -> EtcdStore {
    let options = EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() };
    EtcdStore::open(options).expect("a connection")
}

async fn stored(raw: &EtcdStore, key: &str) -> Bytes {
    raw.get(key.into(), None).await.expect("etcd answers").expect("an object").value
}

async fn put(raw: &EtcdStore, key: &str, value: impl Into<Bytes>) -> String {
    raw.commit(Change::put(key, value)).await.expect("it is stored").get().to_string()
}

/// A CRD of things whose schema has a default, a nullable field and a status.
fn things() -> Value {
    let mut crd = crd("things", "Thing");
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "n": {"type": "integer", "nullable": true}, "d": {"type": "string", "default": "x"}}});
    let status = json!({"type": "object", "default": {"s": 1}, "properties": {"s": {"type": "integer"}}});
    let version = &mut crd["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": spec, "status": status});
    version["subresources"] = json!({"status": {}});
    crd
}

/// A server with the CRD of things.
async fn server_with_things(etcd: &Etcd, number: u8) -> Cluster {
    let server = replica(etcd, number).await;
    let created = server.post(CRDS, things().to_string()).await;
    assert!(matches!(created.status.as_u16(), 201 | 409), "{}", created.text());
    server.get_until_status(THINGS, 200).await;
    server
}

fn thing(name: &str, spec: Value) -> String {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": spec,
        "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"e": "<&>\u{2028}"}}})
    .to_string()
}

/// The body of an object without its resourceVersion.
fn without_revision(body: &str) -> String {
    let start = body.find("\"resourceVersion\":\"").expect("a resourceVersion");
    let end = start + body[start..].find("\",").expect("an end") + 2;
    [&body[..start], &body[end..]].concat()
}

/// Stores `value` under a key. Returns the object of a get, and checks that lists and watches show the same object.
async fn check_served(server: &Cluster, raw: &EtcdStore, (path, key): (&str, &str), value: Bytes, expect: &str) {
    let text = value.escape_ascii().to_string();
    let list = server.get(path).await.expect(200).json();
    let from = list["metadata"]["resourceVersion"].as_str().expect("a resourceVersion");
    let mut watch = server.watch(&format!("{path}?watch=1&resourceVersion={from}&labelSelector=a%3Db")).await;
    let revision = put(raw, key, value).await;
    let object = format!("{path}/a");
    let found = server.get(&object).await.expect(200);
    assert_eq!(found.json()["metadata"]["resourceVersion"], json!(revision), "{text}");
    assert_eq!(without_revision(&found.text()), expect, "{text}");
    let found = found.json();
    for query in ["", "?resourceVersion=0", "?labelSelector=a%3Db", "?limit=1", "?fieldSelector=metadata.name%3Da"] {
        let list = server.get(&format!("{path}{query}")).await.expect(200).json();
        let named = |item: &&Value| item["metadata"]["name"] == "a";
        let mut item = list["items"].as_array().expect("items").iter().find(named).expect("the object").clone();
        item["kind"] = found["kind"].clone();
        item["apiVersion"] = found["apiVersion"].clone();
        assert_eq!(item, found, "{query}: {text}");
    }
    let event = watch.next().await.expect("an event");
    assert_eq!((&event["type"], &event["object"]), (&json!("MODIFIED"), &found), "{text}");
}

#[test]
fn values_in_any_spelling_are_served_as_if_a_server_had_written_them() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let raw = open(&etcd);
        let server = server_with_things(&etcd, 1).await;
        let config_map = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"k": "<&>"}}).to_string();
        let config_map = server.post(CONFIGMAPS, config_map).await.expect(201).text();
        let thing = server.post(THINGS, thing("a", json!({"a": "<&>", "n": null}))).await.expect(201).text();
        for (path, key, written) in [(CONFIGMAPS, CONFIGMAP_KEY, config_map), (THINGS, THING_KEY, thing)] {
            let expect = without_revision(&written);
            let as_written = stored(&raw, key).await;
            let tree: Value = serde_json::from_str(&written).expect("JSON");
            let mut with_more = tree.clone();
            with_more["metadata"]["selfLink"] = json!("/a");
            let metadata = &tree["metadata"];
            let rest = if key == THING_KEY { ("spec", &tree["spec"]) } else { ("data", &tree["data"]) };
            let (kind, version) = (&tree["kind"], &tree["apiVersion"]);
            let other_order = format!(
                " {{\n\"{}\" : {} ,\"kind\":\"Other\",\"metadata\": {metadata},\t\"kind\":{kind},\"apiVersion\" :{version}\r\n}} \n",
                rest.0, rest.1
            );
            let escaped = written
                .replace("\"kind\"", "\"\\u006bind\"")
                .replace("\"name\"", "\"n\\u0061me\"")
                .replace("\"b\"", "\"\\u0062\"");
            for value in [
                as_written,
                serde_json::to_string_pretty(&tree).expect("JSON").into(),
                with_more.to_string().into(),
                other_order.into(),
                escaped.into(),
            ] {
                check_served(&server, &raw, (path, key), value, &expect).await;
            }
        }
        // A starting server reads the last values, too.
        let bodies =
            [server.get(&format!("{CONFIGMAPS}/a")).await.text(), server.get(&format!("{THINGS}/a")).await.text()];
        let other = server_with_things(&etcd, 2).await;
        for (path, body) in [CONFIGMAPS, THINGS].into_iter().zip(&bodies) {
            assert_eq!(&other.get(&format!("{path}/a")).await.expect(200).text(), body);
            // An update that changes nothing writes the value in the server's spelling, as upstream.
            let updated = other.put(&format!("{path}/a"), body.clone()).await.expect(200);
            assert_ne!(&updated.text(), body);
            assert_eq!(without_revision(&updated.text()), without_revision(body));
            let again = other.put(&format!("{path}/a"), updated.text()).await.expect(200);
            assert_eq!(again.text(), updated.text());
        }
        other.stop().await;
        server.stop().await;
    });
}

/// Upstream serves objects without a UID, and drops malformed metadata of custom resources.
#[test]
fn objects_with_little_metadata_are_served() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let raw = open(&etcd);
        let server = server_with_things(&etcd, 1).await;
        for (path, key, value, expect) in [
            (
                CONFIGMAPS,
                CONFIGMAP_KEY,
                json!({"kind": "ConfigMap", "apiVersion": "v1"}),
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}),
            ),
            (
                CONFIGMAPS,
                CONFIGMAP_KEY,
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}),
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}),
            ),
            (
                THINGS,
                THING_KEY,
                json!({"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"labels": {"a": 1}, "finalizers": null}}),
                json!({"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"generation": 1}, "status": {"s": 1}}),
            ),
        ] {
            let revision = put(&raw, key, value.to_string()).await;
            let mut expect = expect;
            expect["metadata"]["resourceVersion"] = json!(revision);
            assert_eq!(server.get(&format!("{path}/a")).await.expect(200).json(), expect, "{value}");
            let list = server.get(path).await.expect(200).json();
            let items = list["items"].as_array().expect("items");
            assert!(items.iter().any(|item| item["metadata"] == expect["metadata"]), "{list}");
        }
        server.stop().await;
    });
}

/// As upstream, requests that do not read the value succeed, and lists of its collection report the reason.
#[test]
fn a_value_that_cannot_be_decoded_leaves_other_objects_alone() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let raw = open(&etcd);
        let server = server_with_things(&etcd, 1).await;
        for name in ["a", "c"] {
            let _ = server.post(CONFIGMAPS, json!({"metadata": {"name": name}}).to_string()).await.expect(201);
            let _ = server.post(THINGS, thing(name, json!({}))).await.expect(201);
        }
        let unknown_kind = "no kind \"Nothing\" is registered for version \"v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"";
        let nothing = r#"{"kind":"Nothing","apiVersion":"v1","metadata":{"name":"b","uid":"1"}}"#;
        let end = "unexpected end of JSON input";
        let broken = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"b","uid":"1"},"spec":{]}}"#;
        for (path, key, value, why) in [
            (CONFIGMAPS, "/registry/configmaps/default/b", nothing, unknown_kind),
            (
                CONFIGMAPS,
                "/registry/configmaps/default/b",
                "{",
                &*format!("couldn't get version/kind; json parse error: {end}"),
            ),
            (THINGS, "/registry/example.com/things/default/b", "{", end),
            (
                THINGS,
                "/registry/example.com/things/default/b",
                broken,
                "invalid character ']' looking for beginning of object key string",
            ),
        ] {
            put(&raw, key, value).await;
            assert_eq!(server.get(&format!("{path}/b")).await.expect(500).json()["message"], why);
            let list = server.get(path).await.expect(429).json();
            assert!(list["message"].as_str().is_some_and(|message| message.ends_with(why)), "{list}");
            for name in ["a", "c"] {
                let patch = json!({"metadata": {"annotations": {"changed": value}}}).to_string();
                let patched = server.patch(&format!("{path}/{name}"), "merge", patch).await.expect(200).json();
                assert_eq!(server.get(&format!("{path}/{name}")).await.expect(200).json(), patched);
            }
            let _ = server.get(&format!("{path}?limit=1")).await.expect(200);
            let _ = server.get("/api/v1/namespaces/default/secrets").await.expect(200);
            raw.commit(Change::delete(key, pintle_store::Compare::Any)).await.expect("it is deleted");
            let _ = server.get(&format!("{path}/b")).await.expect(404);
            let _ = server.get(path).await.expect(200);
        }
        server.stop().await;
    });
}

/// Upstream's JSON of an unstructured object: members sorted, the characters of HTML escaped, a line break at the end.
#[test]
fn custom_resources_have_upstreams_bytes() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let raw = open(&etcd);
        let server = server_with_things(&etcd, 1).await;
        let path = format!("{THINGS}/a");
        let check = async |write: &str| {
            let body = server.get(&path).await.expect(200).text();
            let stored = String::from_utf8(stored(&raw, THING_KEY).await.to_vec()).expect("JSON");
            // The default of the status is set when an object is read.
            let expect = without_revision(&body);
            let expect =
                if stored.contains("\"status\"") { expect } else { expect.replace(",\"status\":{\"s\":1}", "") };
            // The store keeps nulls. A read drops them.
            assert_eq!(stored.replace("\"a\":null,", ""), format!("{}\n", expect.trim_end()), "{write}");
        };
        let _ = server.post(THINGS, thing("a", json!({"a": "<&>\u{2028}", "n": null}))).await.expect(201);
        check("a create").await;
        let _ = server.patch(&path, "merge", r#"{"spec":{"n":2.0}}"#).await.expect(200);
        check("a merge patch").await;
        let patch = server.request("PATCH", &format!("{path}?fieldManager=m"));
        let config = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"d":"y"}}"#;
        let _ = patch.body("application/apply-patch+yaml", config).send().await;
        check("an apply").await;
        let _ = server.patch(&format!("{path}/status"), "merge", r#"{"status":{"s":3}}"#).await.expect(200);
        check("a write of the status").await;
        let body = server.get(&path).await.expect(200).text().replace("\"d\":\"x\",", "");
        let _ = server.put(&path, body).await.expect(200);
        check("an update").await;
        // CRDs have the order of their Go type.
        let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com";
        let crd = String::from_utf8(stored(&raw, key).await.to_vec()).expect("JSON");
        let head = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"things.example.com","uid":""#;
        assert!(crd.starts_with(head) && crd.ends_with("\"storedVersions\":[\"v1\"]}}\n"), "{crd}");
        server.stop().await;
    });
}
