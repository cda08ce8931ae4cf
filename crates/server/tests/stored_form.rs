//! Objects in etcd have the bytes that kube-apiserver would write: upstream's fixtures, one fully populated object of every
//! kind, are read from their stored form and written again.

#[path = "../../codec/tests/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};

use pintle_codec::json::{self, DecodeOptions};
use pintle_codec::protobuf;
use pintle_schema::Schema;
use pintle_server::StoredForm;
use pintle_store::ValueTransformer as _;
use pintle_value::Value;

use self::support::{Fixture, fixtures};

/// The kinds of which upstream has no fixture of the stored version, because they are stored as JSON.
const STORED_AS_JSON: [&str; 2] = ["APIService", "CustomResourceDefinition"];

/// The Protobuf of a fixture as it is stored: without what the storage layer removes.
fn stored(fixture: &Fixture) -> Vec<u8> {
    let bytes = fixture.bytes("pb");
    let envelope = protobuf::open_envelope(&bytes).expect("an envelope");
    let Schema { types, root } = pintle_catalog::shared().schema(fixture.type_id);
    let mut object = protobuf::decode_object(&envelope, &types, root).expect("an object");
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata");
    metadata.remove("resourceVersion").expect("it is populated");
    metadata.remove("selfLink").expect("it is populated");
    let mut stored = Vec::new();
    protobuf::encode_object(&object, &types, root, &mut stored);
    stored
}

fn tree(json: &[u8]) -> Value {
    json::decode(json, DecodeOptions::STORED).expect("JSON").value
}

/// What is not stored as it was read, since internal versions have one field for two, and defaults are set: as upstream, the
/// older field wins for nodes and pods, and the newer one for service accounts.
const CHANGED: [(&str, &[&str]); 12] = [
    ("CronJob", &["spec.jobTemplate.spec.template.spec.serviceAccount: serviceAccountNameValue"]),
    ("DaemonSet", &[TEMPLATE]),
    ("Deployment", &[TEMPLATE]),
    ("Job", &[TEMPLATE]),
    ("Namespace", &["metadata.labels.kubernetes.io/metadata.name: nameValue"]),
    ("Node", &["spec.podCIDRs.0: podCIDRValue"]),
    (
        "Pod",
        &[
            "spec.containers.0.resources.requests.limitsKey: 0",
            "spec.initContainers.0.resources.requests.limitsKey: 0",
            "spec.serviceAccount: serviceAccountNameValue",
            "status.podIPs.0.ip: podIPValue",
        ],
    ),
    ("PodTemplate", &["template.spec.serviceAccount: serviceAccountNameValue"]),
    ("ReplicaSet", &[TEMPLATE]),
    ("ReplicationController", &[TEMPLATE]),
    ("Secret", &["data.stringDataKey: c3RyaW5nRGF0YVZhbHVl", "stringData.stringDataKey: "]),
    ("StatefulSet", &[TEMPLATE]),
];
const TEMPLATE: &str = "spec.template.spec.serviceAccount: serviceAccountNameValue";

/// The leaves of an object with their paths.
fn leaves(value: &serde_json::Value, path: &str, found: &mut BTreeMap<String, String>) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        serde_json::Value::Object(fields) => fields.iter().for_each(|(key, value)| leaves(value, &join(key), found)),
        serde_json::Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| leaves(value, &join(&index.to_string()), found));
        }
        serde_json::Value::String(text) => drop(found.insert(path.to_owned(), text.clone())),
        other => drop(found.insert(path.to_owned(), other.to_string())),
    }
}

/// What differs between two stored objects of a kind: the paths with their values in the second one.
fn changes(schema: &Schema, stored: [&[u8]; 2]) -> Vec<String> {
    let [one, other] = stored.map(|bytes| {
        let envelope = protobuf::open_envelope(bytes).expect("an envelope");
        let object = protobuf::decode_object(&envelope, &schema.types, schema.root).expect("an object");
        let object: serde_json::Value = serde_json::from_slice(&json::encode(&object)).expect("JSON");
        let mut found = BTreeMap::new();
        leaves(&object, "", &mut found);
        found
    });
    let paths: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let changed = paths.into_iter().filter(|path| one.get(*path) != other.get(*path));
    changed.map(|path| format!("{path}: {}", other.get(path).map_or("", |value| value))).collect()
}

#[test]
fn every_kind_is_stored_as_kube_apiserver_stores_it() {
    let form = StoredForm::new("/registry", true).expect("a form");
    let (catalog, fixtures) = (pintle_catalog::shared(), fixtures());
    let mut without = BTreeSet::new();
    for facts in catalog.resources() {
        let Some(storage) = facts.storage() else { continue };
        let (group, version, kind) = (storage.upstream_group, storage.upstream_version, facts.kind);
        let Some(fixture) = fixtures.iter().find(|f| (f.group, f.version, f.kind) == (group, version, kind)) else {
            without.insert(kind);
            continue;
        };
        let key = format!("/registry/{}/namespace/name", storage.prefix);
        let read = |bytes: Vec<u8>| form.transform_from_storage(&key, bytes.into()).expect("an object").value;
        let expect = stored(fixture);
        let object = read(expect.clone());
        let written = form.transform_to_storage(&key, object.clone()).expect("an object");
        let schema = catalog.schema(fixture.type_id);
        let expected = CHANGED.iter().find(|changed| changed.0 == kind).map_or(&[][..], |changed| changed.1);
        assert_eq!(changes(&schema, [&expect, &written]), expected, "{group}/{version} {kind}");
        if expected.is_empty() {
            assert!(written == expect, "{group}/{version} {kind}: the same object has other bytes");
        }
        // What was stored as JSON is the same object.
        assert_eq!(tree(&read(fixture.bytes("json"))), tree(&object), "{key}");
        // The object is stored with all that the server knows of it.
        let again = form.transform_from_storage(&key, written).expect("an object").value;
        assert_eq!(again, object, "{key}");
    }
    assert_eq!(without, BTreeSet::from(STORED_AS_JSON));
}

#[test]
fn what_other_versions_have_written_is_read() {
    let form = StoredForm::new("/registry", true).expect("a form");
    let catalog = pintle_catalog::shared();
    let mut read = 0;
    for fixture in fixtures() {
        // The collection is that of the resource at the version of the fixture.
        let is_it = |facts: &&pintle_catalog::ResourceFacts| {
            (facts.group, facts.version, facts.kind) == (fixture.group, fixture.version, fixture.kind)
        };
        let Some(storage) = catalog.resources().iter().find(is_it).and_then(|facts| facts.storage()) else { continue };
        let key = format!("/registry/{}/namespace/name", storage.prefix);
        let objects = [fixture.bytes("pb"), fixture.bytes("json")].map(|bytes| {
            let read = form.transform_from_storage(&key, bytes.into());
            read.unwrap_or_else(|error| panic!("{key}: {}", error.0)).value
        });
        assert_eq!(tree(&objects[0]), tree(&objects[1]), "{key}");
        // It is written as the stored version, and is the same when it is read again.
        let written = form.transform_to_storage(&key, objects[0].clone()).expect("an object");
        let again = form.transform_from_storage(&key, written).expect("an object").value;
        assert_eq!(tree(&again), tree(&objects[0]), "{key}");
        read += 1;
    }
    assert!(read > 50, "{read}");
}
