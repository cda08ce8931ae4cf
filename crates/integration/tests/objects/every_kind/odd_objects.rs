//! Start-up over odd objects. Every object that the API accepts is the same after a restart, in JSON and in Protobuf,
//! and can be listed and watched. The objects of each kind are variants of its sample: with odd metadata, and with
//! fields from the generator of the fuzz targets. Others have the largest and the deepest managed fields, or are
//! terminating.

use std::time::Duration;

use pintle_codec::json;
use pintle_fuzz::{Random, sample};
use pintle_integration::{Cluster, Options};
use pintle_schema::{Problems, normalise};
use serde_json::{Value, json};

use super::runner::discover_without_crds;
use super::served_kind::{NAMESPACE, ServedKind, name};

/// The time limit for a server to become ready on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);

/// The number of generated objects of each kind from which fields are taken.
const GENERATED: u64 = 2;

/// The nesting depth of the managed fields of the deepest objects.
const DEPTH: usize = 4_900;

/// The namespaces of generated objects come first, then one namespace for each kind of change.
const FIRST_CHANGED: usize = 8;
const NAMESPACES: usize = FIRST_CHANGED + 3;

/// A placeholder for the deep part of an object, because `serde_json` supports only 128 levels.
const DEEP: &str = "\"DEEP\"";

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// An object before the restart.
struct StoredObject {
    path: String,
    json: String,
    protobuf: Option<Vec<u8>>,
}

/// Fills metadata up to its limits.
fn odd_metadata(object: &mut Value) {
    let subdomain = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
    let metadata = &mut object["metadata"];
    for at in 0..40 {
        metadata["labels"][format!("{subdomain}/{at:063}")] = json!("v".repeat(63));
    }
    let texts =
        ["", "\u{0}\u{7f}\u{85}\u{2028}", "日本😀\u{10ffff}", "\"\\</script>&", "null", "{\"a\":[", "\u{feff}%s"];
    for (at, text) in texts.iter().enumerate() {
        metadata["annotations"][format!("example.com/{at}")] = json!(text);
    }
    // The limit is 256 KiB.
    metadata["annotations"]["example.com/long"] = json!("é".repeat(120_000));
    let owner = |at: usize| {
        json!({"apiVersion": format!("g{at}.example.com/v1"), "kind": "Gone", "name": format!("o{at}"),
               "uid": format!("u{at}"), "controller": at == 0, "blockOwnerDeletion": at.is_multiple_of(2)})
    };
    metadata["ownerReferences"] = (0..100).map(owner).collect();
    metadata["finalizers"] = (0..100).map(|at| json!(format!("example.com/finalizer-{at}"))).collect();
}

/// Sets many managers, whose total size is close to the limit of a request.
fn large_managed_fields(object: &mut Value, kind: &ServedKind) {
    let fields = |at: usize| {
        (0..150)
            .map(|field| (format!("f:field-{at}-{field}-{}", "x".repeat(80)), json!({})))
            .collect::<serde_json::Map<_, _>>()
    };
    let entry = |at: usize| {
        json!({"manager": format!("manager-{at}"), "operation": if at.is_multiple_of(2) { "Apply" } else { "Update" },
               "apiVersion": kind.api_version(), "time": "2001-02-03T04:05:06Z", "fieldsType": "FieldsV1",
               "fieldsV1": {"f:metadata": {"f:annotations": fields(at)}}})
    };
    object["metadata"]["managedFields"] = (0..60).map(entry).collect();
}

/// Adds a manager whose fields have the maximum nesting depth.
fn deep_managed_fields(object: &mut Value, kind: &ServedKind) {
    let mut entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.push(json!({
        "manager": "deep", "operation": "Update", "apiVersion": kind.api_version(), "fieldsType": "FieldsV1",
        "fieldsV1": "DEEP",
    }));
    object["metadata"]["managedFields"] = Value::Array(entries);
}

fn everything_odd(object: &mut Value, kind: &ServedKind) {
    odd_metadata(object);
    large_managed_fields(object, kind);
    deep_managed_fields(object, kind);
}

/// The text of an object, in which the deep part replaces the placeholder.
fn text_of(object: &Value) -> String {
    let deep = format!("{}{{}}{}", "{\"f:a\":".repeat(DEPTH), "}".repeat(DEPTH));
    object.to_string().replace(DEEP, &deep)
}

/// Variants of the sample. In each, a field at the top or in the spec is replaced with a generated field.
fn generated_objects(kind: &ServedKind, base: &Value) -> Vec<Value> {
    let (types, type_id) = kind.type_of(&kind.kind);
    let mut objects = Vec::new();
    for seed in 0..GENERATED {
        let mut value = sample(&mut Random::new(seed), types, type_id);
        normalise(types, type_id, &mut value, &mut Problems::default());
        let value: Value = serde_json::from_slice(&json::encode(&value)).expect("JSON");
        for (field, generated) in value.as_object().into_iter().flatten() {
            match field.as_str() {
                "apiVersion" | "kind" | "metadata" => {}
                "spec" => {
                    for (inner, generated) in generated.as_object().into_iter().flatten() {
                        let mut object = base.clone();
                        object["spec"][inner] = generated.clone();
                        objects.push(object);
                    }
                }
                _ => {
                    let mut object = base.clone();
                    object[field] = generated.clone();
                    objects.push(object);
                }
            }
        }
    }
    objects
}

/// A store that is filled with odd objects.
struct OddObjects {
    cluster: Cluster,
    stored: Vec<StoredObject>,
}

/// The collection of a kind in a namespace of these tests.
fn collection(kind: &ServedKind, number: usize) -> String {
    kind.collection().replace(&format!("/namespaces/{NAMESPACE}/"), &format!("/namespaces/odd-{number}/"))
}

fn path(kind: &ServedKind, object: &Value, number: usize) -> String {
    format!("{}/{}", collection(kind, number), name(object))
}

impl OddObjects {
    /// Stores an object and remembers it. Objects of one namespaced kind have the same name, in different namespaces.
    /// Each object of a cluster-scoped kind replaces the previous object.
    ///
    /// # Errors
    /// The server refuses the object.
    async fn store(&mut self, kind: &ServedKind, object: &Value, number: usize) -> Result<(), String> {
        let (collection, path) = (collection(kind, number), path(kind, object, number));
        let mut text = text_of(object);
        if kind.namespaced {
            text = text.replace(&format!("\"{NAMESPACE}\""), &format!("\"odd-{number}\""));
        }
        let mut response = self.cluster.post(&collection, text.clone()).await;
        if response.status == 409 {
            // The text is not decoded, because serde_json accepts only 128 levels.
            let found = self.cluster.get(&path).await.text();
            let revision = found.split("\"resourceVersion\":").nth(1).and_then(|rest| rest.split('"').nth(1));
            let metadata = format!("\"metadata\":{{\"resourceVersion\":\"{}\",", revision.unwrap_or_default());
            response = self.cluster.put(&path, text.replacen("\"metadata\":{", &metadata, 1)).await;
            if response.status == 422 {
                // An update cannot make this change, so the object is created again.
                let _ = self.cluster.delete(&format!("{path}?gracePeriodSeconds=0")).await;
                response = self.cluster.post(&collection, text).await;
            }
        }
        let status = response.status.as_u16();
        if status >= 300 {
            assert!(matches!(status, 400 | 403 | 422), "{path}: {status} {:.300}", response.text());
            return Err(format!("{path}: {:.300}", response.text()));
        }
        if !self.stored.iter().any(|stored| stored.path == path) {
            self.stored.push(StoredObject { path, json: String::new(), protobuf: None });
        }
        Ok(())
    }

    /// Reads the stored objects after the last change.
    async fn read(&mut self) {
        for stored in &mut self.stored {
            stored.json = self.cluster.get(&stored.path).await.expect(200).text();
            let protobuf = self.cluster.request("GET", &stored.path).header("accept", PROTOBUF).send().await;
            stored.protobuf = (protobuf.status == 200).then(|| protobuf.body.to_vec());
        }
    }

    async fn check(&self) {
        for stored in &self.stored {
            let found = self.cluster.get(&stored.path).await.expect(200).text();
            assert!(found == stored.json, "{}: {:.500}\n{:.500}", stored.path, found, stored.json);
            if let Some(expected) = &stored.protobuf {
                let found =
                    self.cluster.request("GET", &stored.path).header("accept", PROTOBUF).send().await.expect(200);
                assert!(found.body == *expected, "{} in Protobuf", stored.path);
            }
        }
    }

    /// Lists and watches a collection that contains `count` of the objects.
    async fn check_collection(&self, path: &str) {
        let list = self.cluster.get(path).await.expect(200).text();
        let _ = self
            .cluster
            .request("GET", path)
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .send()
            .await
            .expect(200);
        assert!(list.contains("\"items\":[{"), "{path}: {list:.300}");
        let watch = self.cluster.request("GET", &format!("{path}?watch=1&resourceVersion=0")).stream().await;
        let mut events = watch.expect("a connection").expect("a watch");
        let event = events.next().await.expect("a connection").expect("an event");
        assert!(event.starts_with(br#"{"type":"ADDED""#), "{path}");
    }
}

/// A CRD with two versions. The second version lacks a field of the first.
fn crd() -> Value {
    let version = |name: &str, storage: bool, spec: Value| {
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
               "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a[*].b"}],
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let typed = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                       "properties": {"d": {"type": "string", "default": "é\u{0}"}}});
    json!({
        "metadata": {"name": "odds.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "odds", "kind": "Odd"},
                 "versions": [version("v1", true, open), version("v2", false, typed)]},
    })
}

async fn store_custom_resources(odd: &mut OddObjects) {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let _ = odd.cluster.post(crds, crd().to_string()).await.expect(201);
    odd.cluster.get_until_status("/apis/example.com/v2/odds", 200).await;
    let kind = ServedKind {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        plural: "odds".to_owned(),
        kind: "Odd".to_owned(),
        namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
    };
    let object =
        |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "odd"}, "spec": spec});
    let wide: serde_json::Map<_, _> = (0..20_000).map(|at| (format!("k{at}"), json!(null))).collect();
    let specs = [
        json!({}),
        json!({"": {"": [[], {}, null, 1e300, -0.0, i64::MIN, 9007199254740993_i64, "\u{0}"]}}),
        json!({"large": "x".repeat(2 << 20)}),
        json!({"list": vec![1; 300_000], "a": [{"b": "é"}, null, {"b": {}}]}),
        json!({"wide": wide}),
    ];
    for (number, spec) in specs.into_iter().enumerate() {
        odd.store(&kind, &object(spec), number).await.expect("it is accepted");
    }
    for stored in
        odd.stored.iter().filter(|stored| stored.path.contains("/odds/")).map(|s| s.path.clone()).collect::<Vec<_>>()
    {
        odd.stored.push(StoredObject { path: stored.replace("/v1/", "/v2/"), json: String::new(), protobuf: None });
    }
}

/// Stores the objects, restarts, and compares.
pub(crate) async fn check_odd_objects() {
    // Without controllers, only this test changes the objects.
    let cluster = Cluster::durable_with_options(Options { controllers: false, ..Options::default() }).await;
    let kinds: Vec<_> = discover_without_crds(&cluster).await.into_iter().filter(|kind| kind.is_stored()).collect();
    let mut odd = OddObjects { cluster, stored: Vec::new() };
    for number in 0..NAMESPACES {
        let body = json!({"metadata": {"name": format!("odd-{number}")}}).to_string();
        let _ = odd.cluster.post("/api/v1/namespaces", body).await.expect(201);
    }
    let (mut generated, mut accepted, mut refused) = (0, 0, Vec::new());
    for kind in &kinds {
        let sample = kind.sample();
        for (path, object) in &sample.prerequisites {
            for number in 0..NAMESPACES {
                let path = path.replace(&format!("/{NAMESPACE}/"), &format!("/odd-{number}/"));
                let _ = odd.cluster.post(&path, object.to_string()).await;
            }
        }
        let mut base = sample.object;
        if let Some(metadata) = base["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        for (number, object) in generated_objects(kind, &base).iter().enumerate() {
            generated += 1;
            accepted += usize::from(odd.store(kind, object, number % FIRST_CHANGED).await.is_ok());
        }
        type Change = fn(&mut Value, &ServedKind);
        let all: [Change; 3] = [deep_managed_fields, large_managed_fields, |object, _| odd_metadata(object)];
        let changes = if kind.namespaced { &all[..] } else { &[everything_odd as Change] };
        for (number, change) in changes.iter().enumerate() {
            let mut object = base.clone();
            change(&mut object, kind);
            refused.extend(odd.store(kind, &object, FIRST_CHANGED + number).await.err());
        }
        // The object with finalizers terminates.
        if kind.namespaced && kind.has_verb("delete") {
            let path = path(kind, &base, NAMESPACES - 1);
            let deleted = odd.cluster.delete(&format!("{path}?gracePeriodSeconds=0")).await;
            assert!(deleted.status.is_success() || deleted.status == 404, "{path}: {:.300}", deleted.text());
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(accepted * 5 > generated, "only {accepted} of {generated} generated objects are accepted");
    store_custom_resources(&mut odd).await;
    odd.read().await;
    let restarted = tokio::time::timeout(START_LIMIT, odd.cluster.restart()).await;
    odd.cluster = restarted.expect("the server is ready in bounded time");
    odd.check().await;
    for kind in kinds.iter().filter(|kind| kind.has_verb("watch")) {
        odd.check_collection(&kind.collection().replace(&format!("/namespaces/{NAMESPACE}/"), "/")).await;
    }
    for version in ["v1", "v2"] {
        odd.check_collection(&format!("/apis/example.com/{version}/odds")).await;
    }
    odd.cluster.stop().await;
}
