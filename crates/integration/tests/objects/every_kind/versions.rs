//! Resources that are served at several versions, and create-only resources.

use std::sync::Arc;

use pintle_integration::{Cluster, Response};
use serde_json::{Value, json};

use super::runner::discover;
use super::served_kind::{
    SELECTOR, ServedKind, apply_merge_patch, contains, name, resource_version, without_volatile_fields,
};

/// The other versions of a kind whose objects are stored.
async fn other_versions(cluster: &Cluster, kind: &ServedKind) -> Vec<Arc<ServedKind>> {
    let hub = |kind: &ServedKind| kind.facts().storage().map(|s| (s.prefix, s.hub_group, s.hub_version));
    let Some(stored_as) = hub(kind) else { return Vec::new() };
    let mut others = discover(cluster).await;
    others.retain(|other| hub(other) == Some(stored_as) && other.api_version() != kind.api_version());
    others
}

/// An object without the managed fields that a write at another version drops. A write outside the core group drops
/// entries of the core group. A write in the core group drops entries of other groups.
fn without_dropped_managers(object: Value, kind: &ServedKind, other: &ServedKind) -> Value {
    if kind.group.is_empty() == other.group.is_empty() {
        return object;
    }
    apply_merge_patch(&object, &json!({ "metadata": { "managedFields": null, "resourceVersion": null } }))
}

/// Checks that an object that is created at one version can be listed, watched and patched at every other version.
pub(crate) async fn check_versions(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    let sample = kind.sample();
    for other in other_versions(&cluster, &kind).await {
        let object = kind.create(&cluster, &sample.object).await.json();
        let path = other.path(&sample.object);
        let view = cluster.get(&path).await.expect(200).json();
        let listed = cluster.get(&format!("{}?{SELECTOR}", other.collection())).await.expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
        check_watch(&cluster, &other, &view).await;
        let patch = r#"{"metadata": {"labels": {"step": "1"}}}"#;
        let patched = cluster.patch(&path, "merge", patch).await.expect(200).json();
        let mut back = cluster.get(&kind.path(&sample.object)).await.expect(200).json();
        assert_eq!(resource_version(&back), resource_version(&patched));
        back["metadata"]["labels"].as_object_mut().expect("labels").remove("step");
        assert_eq!(
            without_volatile_fields(back),
            without_volatile_fields(object),
            "after a patch at {}",
            other.api_version()
        );
        kind.remove(&cluster, &sample.object).await;
    }
}

/// Checks every kind of write at one version. After each write, every other version returns the same object, and an
/// update at that version loses nothing.
pub(crate) async fn check_writes(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    let others = other_versions(&cluster, &kind).await;
    if others.is_empty() {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let check = async |write: &str| check_same(&cluster, &kind, &others, &sample.object, write).await;
    let _ = kind.create(&cluster, &sample.object).await;
    check("a create").await;
    let current = cluster.get(&path).await.expect(200).json();
    let _ = cluster.put(&path, apply_merge_patch(&current, &sample.change).to_string()).await.expect(200);
    check("an update").await;
    for (patch, body) in [
        ("merge", json!({ "metadata": { "labels": { "merge": "1" } } })),
        ("json", json!([{ "op": "add", "path": "/metadata/labels/json", "value": "1" }])),
        ("strategic-merge", json!({ "metadata": { "labels": { "strategic": "1" } } })),
    ] {
        let _ = cluster.patch(&path, patch, body.to_string()).await.expect(200);
        check(&format!("a {patch} patch")).await;
    }
    let applied = json!({ "kind": kind.kind, "apiVersion": kind.api_version(),
        "metadata": { "name": name(&sample.object), "labels": { "applied": "1" } } });
    let apply = cluster.request("PATCH", &format!("{path}?fieldManager=applier"));
    let _ = apply.body("application/apply-patch+yaml", applied.to_string()).send().await.expect(200);
    check("an apply").await;
    if let Some(status) = &sample.status {
        let body = json!({ "status": status }).to_string();
        let after = cluster.patch(&format!("{path}/status"), "merge", body).await.expect(200).json();
        assert!(contains(&after["status"], status), "{} does not contain {status}", after["status"]);
        check("a write of the status").await;
    }
    kind.remove(&cluster, &sample.object).await;
    for other in &others {
        let _ = cluster.get(&other.path(&sample.object)).await.expect(404);
    }
}

/// Checks an apply at one version, followed by an apply of the same manager at another version. The manager gives up
/// every field that the second configuration lacks. The result equals an object that the second configuration alone
/// makes. So no conversion sets a default, which would bring the field back. Fields without which the object is invalid
/// are skipped. Autoscalers are skipped, too: their versions keep unsupported fields in annotations
/// ([`check_pruning_of_autoscalers`]).
pub(crate) async fn check_pruning(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    let sample = kind.sample().object;
    for other in other_versions(&cluster, &kind).await {
        // Managers of the core group are dropped in all other groups, so the server cannot know which fields to prune.
        if kind.group.is_empty() != other.group.is_empty() || kind.group == "autoscaling" {
            continue;
        }
        // Both configurations name the same object.
        let named = json!({ "metadata": { "name": name(&sample) } });
        let first = apply_merge_patch(&config(&other, &other.sample().object), &named);
        let full = apply_merge_patch(&config(&kind, &sample), &named);
        for field in fields(&full, "") {
            let second = without(full.clone(), &field);
            let alone = apply(&cluster, &kind, &second).await;
            kind.remove(&cluster, &sample).await;
            if alone.status != 201 {
                continue;
            }
            let expect = alone.json();
            // A field whose zero value is encoded is not pruned: conversions always write it.
            if expect.pointer(&field).is_some_and(is_zero) {
                continue;
            }
            let _ = apply(&cluster, &other, &first).await.expect(201);
            let after = apply(&cluster, &kind, &second).await;
            // Some fields are immutable.
            if after.status != 422 {
                let (after, version) = (after.expect(200).json(), other.api_version());
                assert_eq!(spec_of(after), spec_of(expect), "without {field}, after an apply at {version}");
            }
            kind.remove(&cluster, &sample).await;
        }
    }
}

/// Checks that an autoscaler loses its minimum when its manager applies it without a minimum at another version. The
/// same happens at the same version.
pub(crate) async fn check_pruning_of_autoscalers(cluster: &Cluster) {
    let config = |version: &str, name: &str| {
        json!({ "kind": "HorizontalPodAutoscaler", "apiVersion": format!("autoscaling/{version}"), "metadata": { "name": name },
            "spec": { "maxReplicas": 5, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } } })
    };
    for (first, second) in [("v1", "v1"), ("v1", "v2"), ("v2", "v1"), ("v2", "v2")] {
        let name = format!("from-{first}-to-{second}");
        let apply = async |version: &str, config: Value| {
            let collection = format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
            let request = cluster.request("PATCH", &format!("{collection}/{name}?fieldManager=m"));
            request.body("application/apply-patch+yaml", config.to_string()).send().await
        };
        let full = apply_merge_patch(&config(first, &name), &json!({ "spec": { "minReplicas": 3 } }));
        assert_eq!(apply(first, full).await.expect(201).json()["spec"]["minReplicas"], 3);
        let after = apply(second, config(second, &name)).await.expect(200).json();
        assert_eq!(after["spec"]["minReplicas"], 1, "{name}: {after}");
    }
}

/// True for the values of fields that are not set.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().all(is_zero),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(value) => !value,
        Value::Null => true,
    }
}

/// The parts of an object that clients set: without the status, the time of a taint and the metadata. The annotations
/// stay, because they hold fields that a version does not have.
fn spec_of(mut object: Value) -> Value {
    let annotations = object["metadata"]["annotations"].take();
    if let Some(taint) = object.pointer_mut("/spec/taint") {
        taint["timeAdded"].take();
    }
    let mut object = apply_merge_patch(&object, &json!({ "status": null, "metadata": null }));
    object["annotations"] = annotations;
    object
}

/// An object as an apply configuration.
fn config(kind: &ServedKind, object: &Value) -> Value {
    apply_merge_patch(object, &json!({ "kind": kind.kind, "apiVersion": kind.api_version() }))
}

async fn apply(cluster: &Cluster, kind: &ServedKind, config: &Value) -> Response {
    let path = format!("{}?fieldManager=m", kind.path(config));
    cluster.request("PATCH", &path).body("application/apply-patch+yaml", config.to_string()).send().await
}

/// The JSON pointers of the fields that a configuration may lack. All versions share the metadata, so it is omitted.
fn fields(value: &Value, path: &str) -> Vec<String> {
    let of = |key: &str, value: &Value| {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        let mut found = fields(value, &path);
        found.push(path);
        found
    };
    let found: Vec<String> = match value {
        Value::Object(members) => members.iter().flat_map(|(key, value)| of(key, value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(index, value)| of(&index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let is_shared =
        |path: &str| matches!(path, "/kind" | "/apiVersion" | "/metadata") || path.starts_with("/metadata/");
    found.into_iter().filter(|path| !is_shared(path)).collect()
}

/// An object without a field, or without an item of a list.
fn without(mut object: Value, field: &str) -> Value {
    let (parent, key) = field.rsplit_once('/').expect("a pointer");
    match object.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.remove(&key.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(items)) => drop(items.remove(key.parse().expect("an index"))),
        _ => {}
    }
    object
}

/// Checks that an object has the same metadata at other versions, and that an update without changes at these versions
/// loses nothing.
async fn check_same(cluster: &Cluster, kind: &ServedKind, others: &[Arc<ServedKind>], object: &Value, write: &str) {
    for other in others {
        let written = cluster.get(&kind.path(object)).await.expect(200).json();
        let path = other.path(object);
        let found = cluster.get(&path).await.expect(200);
        let view = found.json();
        let version = other.api_version();
        assert_eq!((&view["kind"], &view["apiVersion"]), (&json!(other.kind), &json!(version)), "after {write}");
        // Annotations can hold fields that a version does not have.
        let metadata = |object: &Value| apply_merge_patch(&object["metadata"], &json!({ "annotations": null }));
        assert_eq!(metadata(&view), metadata(&written), "at {version} after {write}");
        let unchanged = cluster.put(&path, found.text()).await.expect(200).json();
        assert_eq!(
            without_dropped_managers(unchanged, kind, other),
            without_dropped_managers(view, kind, other),
            "after an update without a change at {version} after {write}"
        );
        let back = cluster.get(&kind.path(object)).await.expect(200).json();
        assert_eq!(
            without_dropped_managers(back, kind, other),
            without_dropped_managers(written, kind, other),
            "after an update without a change at {version} after {write}"
        );
    }
}

/// Checks that a watch at the other version returns the same object as a GET.
async fn check_watch(cluster: &Cluster, other: &ServedKind, view: &Value) {
    let mut watch = cluster.watch(&format!("{}?watch=true&{SELECTOR}", other.collection())).await;
    assert_eq!(&watch.expect("ADDED", name(view)).await, view);
}

/// Checks that a create of a create-only resource succeeds and stores nothing.
pub(crate) async fn check_create_only(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if kind.has_verb("get") {
        return;
    }
    assert_eq!(kind.verbs, ["create"]);
    let sample = kind.sample();
    for (path, object) in &sample.prerequisites {
        let _ = cluster.post(path, object.to_string()).await.expect(201);
    }
    let response = cluster.post(&kind.collection(), sample.object.to_string()).await.expect(201).json();
    assert!(response["kind"] == json!(kind.kind) || response["status"] == "Success", "{response}");
    let _ = cluster.get(&kind.collection()).await.expect(405);
}
