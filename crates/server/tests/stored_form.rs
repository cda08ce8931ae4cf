//! Objects in etcd have the bytes that kube-apiserver would write. The tests read upstream's fixtures, one fully
//! populated object of every kind, from their stored form, and write them again.

#[path = "../../codec/tests/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};

use pintle_codec::json::{self, DecodeOptions};
use pintle_codec::protobuf;
use pintle_gates::Gates;
use pintle_schema::Schema;
use pintle_server::{StoredForm, TreeEncoder as _};
use pintle_store::{StoredValue, ValueTransformer as _};
use pintle_value::Value;
use pintle_versions::EffectiveVersion;

use self::support::{Fixture, fixtures, module_folder};

/// The kinds for which upstream has no fixture of the stored version, because they are stored as JSON.
const STORED_AS_JSON: [&str; 2] = ["APIService", "CustomResourceDefinition"];

/// The kinds whose fully populated objects are not known to be read as they were written. Some kinds are stored at
/// another version. One kind has a null in a map. Another kind has claims whose types are not stored.
const INEXACT: [&str; 5] = [
    "DeviceTaintRule",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "PodDisruptionBudget",
    "StatefulSet",
];

/// The stored Protobuf of a fixture, without the fields that the storage layer removes.
fn stored(fixture: &Fixture) -> Vec<u8> {
    let bytes = fixture.bytes("pb");
    let envelope = protobuf::open_envelope(&bytes).expect("an envelope");
    let Schema { types, root } = pintle_catalog::complete().schema(fixture.type_id);
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

/// Fields that are stored in another form than they were read. The reason is that internal versions have one field for
/// two, or that defaults are set. As in upstream, the older field wins for nodes and pods, and the newer field for
/// service accounts.
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

/// The differences between two stored objects of a kind: the paths, with their values in the second object.
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

/// Checks that the stored form from a tree equals the stored form from the tree's JSON.
fn check_tree(form: &StoredForm, key: &str, json: &[u8], stored: &StoredValue) {
    let tree = json::decode(json, DecodeOptions::STORED).expect("JSON").value;
    let of_tree = form.encode_tree(key, &tree);
    assert_eq!(of_tree.as_ref(), stored.bytes.starts_with(&protobuf::PREFIX).then_some(stored), "{key}");
}

#[test]
fn every_kind_is_stored_as_kube_apiserver_stores_it() {
    let form = StoredForm::new("/registry", true, &Gates::default()).expect("a form");
    let (catalog, fixtures) = (pintle_catalog::complete(), fixtures());
    let (mut without, mut inexact) = (BTreeSet::new(), BTreeSet::new());
    for facts in catalog.resources().iter().filter(|facts| facts.served) {
        let Some(storage) = facts.storage() else { continue };
        let written = catalog.storage_version(facts, EffectiveVersion::default());
        let ((group, version), kind) = (written.expect("a stored resource"), facts.kind);
        let Some(fixture) = fixtures.iter().find(|f| (f.group, f.version, f.kind) == (group, version, kind)) else {
            without.insert(kind);
            continue;
        };
        let key = format!("/registry/{}/namespace/name", storage.prefix);
        let read = |bytes: Vec<u8>| form.transform_from_storage(&key, bytes.into()).expect("an object").value;
        let expect = stored(fixture);
        let object = read(expect.clone());
        let written = form.transform_to_storage(&key, object.clone()).expect("an object");
        check_tree(&form, &key, &object, &written);
        let StoredValue { bytes: written, is_exact } = written;
        if !is_exact {
            inexact.insert(kind);
        }
        let schema = catalog.schema(fixture.type_id);
        let expected = CHANGED.iter().find(|changed| changed.0 == kind).map_or(&[][..], |changed| changed.1);
        assert_eq!(changes(&schema, [&expect, &written]), expected, "{group}/{version} {kind}");
        if expected.is_empty() {
            assert!(written == expect, "{group}/{version} {kind}: the same object has other bytes");
        }
        // The value in JSON is read as the same object.
        assert_eq!(tree(&read(fixture.bytes("json"))), tree(&object), "{key}");
        // The stored object keeps all fields that the server knows.
        let again = form.transform_from_storage(&key, written).expect("an object").value;
        assert_eq!(again, object, "{key}");
    }
    assert_eq!(without, BTreeSet::from(STORED_AS_JSON));
    assert_eq!(inexact, BTreeSet::from(INEXACT));
}

/// The paths of fields that differ between versions that are not served and the object after a read: paths before and
/// after. A field without a second path is gone.
const MOVED: [(&str, &[(&str, &str)]); 15] = [
    ("apps.v1beta1.Deployment", ROLLBACK),
    ("discovery.k8s.io.v1beta1.EndpointSlice", &[("endpoints.0.topology", "endpoints.0.deprecatedTopology")]),
    (
        "events.k8s.io.v1beta1.Event",
        &[
            ("deprecatedCount", "count"),
            ("deprecatedFirstTimestamp", "firstTimestamp"),
            ("deprecatedLastTimestamp", "lastTimestamp"),
            ("deprecatedSource", "source"),
            ("note", "message"),
            ("regarding", "involvedObject"),
            ("reportingController", "reportingComponent"),
        ],
    ),
    (
        "extensions.v1beta1.DaemonSet",
        &[("spec.templateGeneration", "metadata.annotations.deprecated.daemonset.template.generation")],
    ),
    ("extensions.v1beta1.Deployment", ROLLBACK),
    ("extensions.v1beta1.Ingress", BACKENDS),
    ("flowcontrol.apiserver.k8s.io.v1beta1.PriorityLevelConfiguration", SHARES),
    ("flowcontrol.apiserver.k8s.io.v1beta2.PriorityLevelConfiguration", SHARES),
    ("networking.k8s.io.v1beta1.Ingress", BACKENDS),
    (
        "node.k8s.io.v1alpha1.RuntimeClass",
        &[("spec.runtimeHandler", "handler"), ("spec.overhead", "overhead"), ("spec.scheduling", "scheduling")],
    ),
    ("rbac.authorization.k8s.io.v1alpha1.ClusterRoleBinding", &[("subjects.0.apiVersion", "")]),
    ("rbac.authorization.k8s.io.v1alpha1.RoleBinding", &[("subjects.0.apiVersion", "")]),
    (
        "resource.k8s.io.v1beta1.ResourceClaim",
        &[
            ("spec.devices.requests.0.adminAccess", "spec.devices.requests.0.exactly.adminAccess"),
            ("spec.devices.requests.0.allocationMode", "spec.devices.requests.0.exactly.allocationMode"),
            ("spec.devices.requests.0.capacity", "spec.devices.requests.0.exactly.capacity"),
            ("spec.devices.requests.0.count", "spec.devices.requests.0.exactly.count"),
            ("spec.devices.requests.0.deviceClassName", "spec.devices.requests.0.exactly.deviceClassName"),
            ("spec.devices.requests.0.selectors", "spec.devices.requests.0.exactly.selectors"),
            ("spec.devices.requests.0.tolerations", "spec.devices.requests.0.exactly.tolerations"),
        ],
    ),
    (
        "resource.k8s.io.v1beta1.ResourceClaimTemplate",
        &[
            ("spec.spec.devices.requests.0.adminAccess", "spec.spec.devices.requests.0.exactly.adminAccess"),
            ("spec.spec.devices.requests.0.allocationMode", "spec.spec.devices.requests.0.exactly.allocationMode"),
            ("spec.spec.devices.requests.0.capacity", "spec.spec.devices.requests.0.exactly.capacity"),
            ("spec.spec.devices.requests.0.count", "spec.spec.devices.requests.0.exactly.count"),
            ("spec.spec.devices.requests.0.deviceClassName", "spec.spec.devices.requests.0.exactly.deviceClassName"),
            ("spec.spec.devices.requests.0.selectors", "spec.spec.devices.requests.0.exactly.selectors"),
            ("spec.spec.devices.requests.0.tolerations", "spec.spec.devices.requests.0.exactly.tolerations"),
        ],
    ),
    ("resource.k8s.io.v1beta1.ResourceSlice", &[("spec.devices.0.basic", "spec.devices.0")]),
];
const BACKENDS: &[(&str, &str)] = &[
    ("spec.backend.resource", "spec.defaultBackend.resource"),
    ("spec.backend.serviceName", "spec.defaultBackend.service.name"),
    ("spec.backend.servicePort", "spec.defaultBackend.service.port.name"),
    ("spec.rules.0.http.paths.0.backend.serviceName", "spec.rules.0.http.paths.0.backend.service.name"),
    ("spec.rules.0.http.paths.0.backend.servicePort", "spec.rules.0.http.paths.0.backend.service.port.name"),
];
const ROLLBACK: &[(&str, &str)] =
    &[("spec.rollbackTo.revision", "metadata.annotations.deprecated.deployment.rollback.to")];
const SHARES: &[(&str, &str)] = &[("spec.limited.assuredConcurrencyShares", "spec.limited.nominalConcurrencyShares")];

/// The fields that a read adds to the written object.
const ADDED: [(&str, &str, &str); 1] =
    [("apps.v1beta2.DaemonSet", "metadata.annotations.deprecated.daemonset.template.generation", "0")];

/// The leaves of an object at their new paths, except leaves that no version keeps. These are the type, fields that are
/// not stored (`resourceVersion`, `selfLink`), and the older name of the service account. They also include the types
/// of nested objects, which are set.
fn moved_leaves(object: &[u8], moved: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    leaves(&serde_json::from_slice(object).expect("JSON"), "", &mut found);
    found.retain(|path, _| {
        !["apiVersion", "metadata.resourceVersion", "metadata.selfLink"].contains(&path.as_str())
            && !path.ends_with(".spec.serviceAccount")
            && !["apiVersion", "kind"].map(|field| format!("spec.volumeClaimTemplates.0.{field}")).contains(path)
    });
    let new_path = |path: &str| {
        let rest = |old: &str| path.strip_prefix(old).filter(|rest| rest.is_empty() || rest.starts_with('.'));
        let to = moved.iter().find_map(|(old, new)| Some((*new, rest(old)?)));
        to.map_or_else(
            || path.to_owned(),
            |(new, rest)| if new.is_empty() { String::new() } else { format!("{new}{rest}") },
        )
    };
    found.into_iter().map(|(path, value)| (new_path(&path), value)).filter(|(path, _)| !path.is_empty()).collect()
}

#[test]
fn what_other_versions_have_written_is_read() {
    let form = StoredForm::new("/registry", true, &Gates::default()).expect("a form");
    let catalog = pintle_catalog::complete();
    let mut read = BTreeSet::new();
    let folder = module_folder(pintle_versions::Minor::DEFAULT).join("testdata/HEAD");
    for entry in std::fs::read_dir(&folder).expect("fixtures").map(|entry| entry.expect("a fixture").path()) {
        let name = entry.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let names = name.rsplit_once('.').and_then(|(api, kind)| Some((api.rsplit_once('.')?, kind)));
        let ((group, version), kind) = names.expect("group, version and kind");
        let group = if group == "core" { "" } else { group };
        // The collection belongs to the resource with the kind. The resource is in the fixture's group, or has moved
        // from it.
        let has_kind = |facts: &&pintle_catalog::ResourceFacts| {
            let moved = |(moved, _): &(&str, &str)| *moved == group;
            facts.served
                && facts.kind == kind
                && facts.storage().is_some_and(|s| facts.group == group || s.stored_versions.iter().any(moved))
        };
        if entry.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        let found = catalog.resources().iter().find(has_kind);
        let Some((facts, storage)) = found.and_then(|facts| Some((facts, facts.storage()?))) else { continue };
        let key = format!("/registry/{}/namespace/name", storage.prefix);
        let bytes = ["pb", "json"]
            .map(|extension| std::fs::read(format!("{}/{name}.{extension}", folder.display())).expect("a fixture"));
        let objects = bytes.clone().map(|bytes| {
            let read = form.transform_from_storage(&key, bytes.into());
            read.unwrap_or_else(|error| panic!("{name}: {}", error.detail)).value
        });
        assert_eq!(tree(&objects[0]), tree(&objects[1]), "{name}");
        // The object is written as the stored version, and a second read returns the same object.
        let written = form.transform_to_storage(&key, objects[0].clone()).expect("an object");
        check_tree(&form, &key, &objects[0], &written);
        let StoredValue { bytes: written, is_exact } = written;
        let envelope = protobuf::open_envelope(&written).expect("an envelope");
        let upstream = catalog.storage_version(facts, EffectiveVersion::default()).expect("a stored resource");
        let stored_version = envelope.api_version.rsplit_once('/').unwrap_or(("", &envelope.api_version));
        assert_eq!((stored_version, &*envelope.kind), (upstream, kind), "{name}");
        let again = form.transform_from_storage(&key, written).expect("an object").value;
        assert_eq!(tree(&again), tree(&objects[0]), "{name}");
        assert!(!is_exact || again == objects[0], "{name}");
        let is_served = catalog.kind_type(group, version, kind).is_some();
        let moved = MOVED.iter().find(|moved| moved.0 == name).map(|moved| moved.1);
        if !is_served || moved.is_some() {
            let mut expect = moved_leaves(&bytes[1], moved.unwrap_or_default());
            let added = ADDED.iter().filter(|added| added.0 == name);
            expect.extend(added.map(|(_, path, value)| ((*path).to_owned(), (*value).to_owned())));
            assert_eq!(expect, moved_leaves(&objects[1], &[]), "{name}");
        }
        if !is_served {
            read.insert(name);
        }
    }
    // Every version that is not served has a fixture, except versions that are stored as JSON.
    let stored_versions = catalog.resources().iter().filter_map(|facts| Some((facts.kind, facts.storage()?)));
    let of_kind = |kind: &'static str| move |(group, version): &(&str, &str)| format!("{group}.{version}.{kind}");
    let expect: BTreeSet<String> = stored_versions
        .filter(|(kind, _)| !STORED_AS_JSON.contains(kind))
        .flat_map(|(kind, storage)| storage.stored_versions.iter().map(of_kind(kind)))
        .collect();
    assert_eq!(read, expect);
}
