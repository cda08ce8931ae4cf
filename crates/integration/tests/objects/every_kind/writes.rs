//! Writes: optimistic concurrency, patch types, dry runs, unknown fields, and bodies in every encoding.

use std::sync::Arc;

use pintle_codec::{json, protobuf, yaml};
use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::served_kind::{ServedKind, apply_merge_patch, contains, name, resource_version, without_volatile_fields};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Checks PUT: a no-op update keeps the resourceVersion, and an old resourceVersion is a conflict.
pub(crate) async fn check_updates(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.has_verb("update") {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let created = kind.create(&cluster, &sample.object).await;
    let object = created.json();
    let unchanged = cluster.put(&path, created.text()).await.expect(200);
    assert_eq!(unchanged.text(), created.text(), "an update without a change");

    let labelled = apply_merge_patch(&object, &json!({ "metadata": { "labels": { "step": "1" } } }));
    let updated = cluster.put(&path, labelled.to_string()).await.expect(200).json();
    assert_ne!(resource_version(&updated), resource_version(&object), "an update with a change");
    // Some kinds increment the generation for changes of labels.
    let without_generation = |object: &Value| {
        apply_merge_patch(&without_volatile_fields(object.clone()), &json!({ "metadata": { "generation": null } }))
    };
    assert_eq!(without_generation(&updated), without_generation(&labelled));
    assert_eq!(updated["metadata"]["uid"], object["metadata"]["uid"]);
    assert_eq!(cluster.get(&path).await.expect(200).json(), updated);

    let message = format!(
        "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest version and try again",
        kind.group_resource(),
        name(&object)
    );
    cluster.put(&path, labelled.to_string()).await.expect_error(409, "Conflict", &message);

    let changed = apply_merge_patch(&updated, &sample.change);
    let changed = cluster.put(&path, changed.to_string()).await.expect(200).json();
    assert!(contains(&changed, &sample.change), "{changed} does not contain {}", sample.change);
    assert_ne!(resource_version(&changed), resource_version(&updated), "an update with the sample's change");
    assert_eq!(cluster.get(&path).await.expect(200).json(), changed);
    kind.remove(&cluster, &sample.object).await;
}

/// Checks the three patch types, and that patching an object with itself changes nothing.
pub(crate) async fn check_patches(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.has_verb("patch") {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let created = kind.create(&cluster, &sample.object).await;
    for patch in ["merge", "strategic-merge"] {
        let unchanged = cluster.patch(&path, patch, created.text()).await;
        if let Some(message) = sample.strategic_merge_error.as_ref().filter(|_| patch == "strategic-merge") {
            unchanged.expect_error(500, "", message);
            continue;
        }
        assert_eq!(unchanged.expect(200).text(), created.text(), "a {patch} patch with the object itself");
    }
    let mut before = created.json();
    for (patch, body) in [
        ("merge", json!({ "metadata": { "labels": { "merge": "1", "sweep": "yes" } } })),
        (
            "json",
            json!([{ "op": "test", "path": "/metadata/name", "value": name(&before) }, { "op": "add", "path": "/metadata/labels/json", "value": "1" }]),
        ),
        ("strategic-merge", json!({ "metadata": { "labels": { "strategic-merge": "1" } } })),
        ("merge", sample.change.clone()),
    ] {
        let after = cluster.patch(&path, patch, body.to_string()).await.expect(200).json();
        assert_ne!(resource_version(&after), resource_version(&before), "{patch} {body}");
        if body.is_object() && patch == "merge" {
            assert!(contains(&after, &body), "{patch} {body}: {after}");
        } else {
            assert_eq!(after["metadata"]["labels"][patch], "1", "{after}");
        }
        let again = cluster.patch(&path, patch, body.to_string()).await.expect(200).json();
        assert_eq!(again, after, "{patch} {body} for the second time");
        assert_eq!(cluster.get(&path).await.expect(200).json(), after);
        before = after;
    }
    kind.remove(&cluster, &sample.object).await;
}

/// Checks that dry runs return the result of the real request and change nothing.
pub(crate) async fn check_dry_runs(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.is_stored() {
        return;
    }
    let sample = kind.sample();
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    let dry = cluster.post(&format!("{collection}?dryRun=All"), sample.object.to_string()).await.expect(201).json();
    assert!(resource_version(&dry).is_empty(), "{dry}");
    let _ = cluster.get(&path).await.expect(404);

    let created = kind.create(&cluster, &sample.object).await;
    let object = created.json();
    assert_eq!(
        without_volatile_fields(dry),
        without_volatile_fields(object.clone()),
        "a dry run must return the object that would be stored"
    );
    let changed = apply_merge_patch(&object, &sample.change);
    let put = cluster.put(&format!("{path}?dryRun=All"), changed.to_string()).await.expect(200).json();
    assert!(contains(&put, &sample.change), "{put}");
    assert_eq!(resource_version(&put), resource_version(&object));
    let patched = cluster.patch(&format!("{path}?dryRun=All"), "merge", sample.change.to_string()).await.expect(200);
    assert_eq!(
        without_volatile_fields(patched.json()),
        without_volatile_fields(put),
        "a patch and an update with the same change"
    );
    let _ = cluster.delete(&format!("{path}?dryRun=All")).await.expect(200);
    let body = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"] });
    let _ = cluster.request("DELETE", &path).json(body.to_string()).send().await.expect(200);
    if kind.has_verb("deletecollection") {
        let _ = cluster.delete(&format!("{collection}?dryRun=All")).await.expect(200);
    }
    assert_eq!(cluster.get(&path).await.expect(200).text(), created.text(), "after the dry runs");
    kind.remove(&cluster, &sample.object).await;
}

/// Checks that unknown fields are an error, a warning, or ignored.
pub(crate) async fn check_unknown_fields(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.has_verb("create") || !kind.is_stored() {
        return;
    }
    let sample = kind.sample();
    let patch = json!({ "sweepField": 1, "metadata": { "other": "x" } });
    let body = apply_merge_patch(&sample.object, &patch).to_string();
    let collection = format!("{}?dryRun=All&fieldValidation=", kind.collection());
    let problems = r#"unknown field "metadata.other", unknown field "sweepField""#;
    let message = format!(
        "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {problems}",
        kind.kind, kind.version, kind.kind
    );
    cluster.post(&format!("{collection}Strict"), body.clone()).await.expect_error(400, "BadRequest", &message);
    let warned = cluster.post(&format!("{collection}Warn"), body.clone()).await.expect(201);
    let plain = cluster.post(&format!("{collection}Ignore"), body.clone()).await.expect(201);
    assert_eq!(without_volatile_fields(warned.json()), without_volatile_fields(plain.json()));
    let warnings = |response: &pintle_integration::Response| -> Vec<String> {
        response.headers.get_all("warning").iter().filter_map(|w| w.to_str().ok().map(str::to_owned)).collect()
    };
    let mut expect: Vec<String> =
        ["metadata.other", "sweepField"].map(|field| format!(r#"299 - "unknown field \"{field}\"""#)).to_vec();
    expect.extend(warnings(&plain));
    let mut found = warnings(&warned);
    found.sort();
    expect.sort();
    assert_eq!(found, expect);

    let _ = kind.create(&cluster, &sample.object).await;
    let path = format!("{}?dryRun=All&fieldValidation=Strict", kind.path(&sample.object));
    cluster.put(&path, body).await.expect_error(400, "BadRequest", &message);
    for patch_type in ["merge", "strategic-merge"] {
        let error = cluster.patch(&path, patch_type, patch.to_string()).await;
        assert!(error.text().contains("strict decoding error: unknown field"), "{}", error.text());
        let _ = error.expect(422);
    }
    kind.remove(&cluster, &sample.object).await;
}

/// Checks that bodies in YAML and Protobuf create the same object as in JSON.
pub(crate) async fn check_encodings(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.has_verb("create") || !kind.is_stored() {
        return;
    }
    let sample = kind.sample();
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    let expect = without_volatile_fields(kind.create(&cluster, &sample.object).await.json());
    kind.remove(&cluster, &sample.object).await;

    let text = sample.object.to_string();
    let tree = json::decode(text.as_bytes(), json::DecodeOptions::default()).expect("JSON").value;
    let created = cluster.request("POST", &collection).body("application/yaml", yaml::encode(&tree)).send().await;
    assert_eq!(without_volatile_fields(created.expect(201).json()), expect, "created from YAML");
    kind.remove(&cluster, &sample.object).await;

    let (types, id) = kind.type_of(&kind.kind);
    let typed = json::decode_typed(text.as_bytes(), types, id).expect("JSON");
    assert!(typed.strict_errors.is_empty(), "{:?}", typed.strict_errors);
    let mut body = Vec::new();
    protobuf::encode_object(&typed.value, types, id, &mut body);
    let created = cluster.request("POST", &collection).body(PROTOBUF, body).send().await.expect(201).json();
    assert_eq!(without_volatile_fields(created.clone()), expect, "created from Protobuf");

    let body = cluster.request("GET", &path).header("accept", PROTOBUF).send().await.expect(200).body;
    let put =
        cluster.request("PUT", &path).header("accept", PROTOBUF).body(PROTOBUF, body.clone()).send().await.expect(200);
    assert!(put.body == body, "an update in Protobuf without a change");
    let found: Value = cluster.get(&path).await.expect(200).json();
    assert_eq!(found, created);
    kind.remove(&cluster, &sample.object).await;
}
