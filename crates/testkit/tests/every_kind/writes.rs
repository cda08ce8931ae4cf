//! Writes: optimistic concurrency, the types of patches, dry runs, unknown fields, and bodies in every encoding.

use std::sync::Arc;

use pintle_codec::{json, protobuf, yaml};
use pintle_testkit::Cluster;
use serde_json::{Value, json};

use crate::kind::{Kind, blanked, contains, merged, name, version};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// PUT: what changes nothing keeps its version, what is old is refused.
pub(crate) async fn updates(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.can("update") {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let created = kind.create(&cluster, &sample.object).await;
    let object = created.json();
    let same = cluster.put(&path, created.text()).await.expect(200);
    assert_eq!(same.text(), created.text(), "an update without a change");

    let labelled = merged(&object, &json!({ "metadata": { "labels": { "step": "1" } } }));
    let updated = cluster.put(&path, labelled.to_string()).await.expect(200).json();
    assert_ne!(version(&updated), version(&object), "an update with a change");
    // Generations count changes of some kinds' labels too.
    let but_generation =
        |object: &Value| merged(&blanked(object.clone()), &json!({ "metadata": { "generation": null } }));
    assert_eq!(but_generation(&updated), but_generation(&labelled));
    assert_eq!(updated["metadata"]["uid"], object["metadata"]["uid"]);
    assert_eq!(cluster.get(&path).await.expect(200).json(), updated);

    let message = format!(
        "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest version and try again",
        kind.group_resource(),
        name(&object)
    );
    cluster.put(&path, labelled.to_string()).await.expect_error(409, "Conflict", &message);

    let changed = merged(&updated, &sample.change);
    let changed = cluster.put(&path, changed.to_string()).await.expect(200).json();
    assert!(contains(&changed, &sample.change), "{} is not in {changed}", sample.change);
    assert_ne!(version(&changed), version(&updated), "the sample's change");
    assert_eq!(cluster.get(&path).await.expect(200).json(), changed);
    kind.remove(&cluster, &sample.object).await;
}

/// PATCH in its three types, and that an object's patch with itself is nothing.
pub(crate) async fn patches(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.can("patch") {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let created = kind.create(&cluster, &sample.object).await;
    for patch in ["merge", "strategic-merge"] {
        let same = cluster.patch(&path, patch, created.text()).await;
        if let Some(message) = sample.strategic.as_ref().filter(|_| patch == "strategic-merge") {
            same.expect_error(500, "", message);
            continue;
        }
        assert_eq!(same.expect(200).text(), created.text(), "a {patch} patch with the object itself");
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
        assert_ne!(version(&after), version(&before), "{patch} {body}");
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

/// Dry runs answer as the real thing and leave everything as it was.
pub(crate) async fn dry_runs(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.stored() {
        return;
    }
    let sample = kind.sample();
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    let dry = cluster.post(&format!("{collection}?dryRun=All"), sample.object.to_string()).await.expect(201).json();
    assert!(version(&dry).is_empty(), "{dry}");
    let _ = cluster.get(&path).await.expect(404);

    let created = kind.create(&cluster, &sample.object).await;
    let object = created.json();
    assert_eq!(blanked(dry), blanked(object.clone()), "a dry run's object is the one that would be stored");
    let changed = merged(&object, &sample.change);
    let put = cluster.put(&format!("{path}?dryRun=All"), changed.to_string()).await.expect(200).json();
    assert!(contains(&put, &sample.change), "{put}");
    assert_eq!(version(&put), version(&object));
    let patched = cluster.patch(&format!("{path}?dryRun=All"), "merge", sample.change.to_string()).await.expect(200);
    assert_eq!(blanked(patched.json()), blanked(put), "a patch and an update with the same change");
    let _ = cluster.delete(&format!("{path}?dryRun=All")).await.expect(200);
    let body = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"] });
    let _ = cluster.request("DELETE", &path).json(body.to_string()).send().await.expect(200);
    if kind.can("deletecollection") {
        let _ = cluster.delete(&format!("{collection}?dryRun=All")).await.expect(200);
    }
    assert_eq!(cluster.get(&path).await.expect(200).text(), created.text(), "after the dry runs");
    kind.remove(&cluster, &sample.object).await;
}

/// Unknown fields: an error, a warning, or nothing.
pub(crate) async fn unknown_fields(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.can("create") || !kind.stored() {
        return;
    }
    let sample = kind.sample();
    let patch = json!({ "sweepField": 1, "metadata": { "other": "x" } });
    let body = merged(&sample.object, &patch).to_string();
    let collection = format!("{}?dryRun=All&fieldValidation=", kind.collection());
    let problems = r#"unknown field "metadata.other", unknown field "sweepField""#;
    let message = format!(
        "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {problems}",
        kind.kind, kind.version, kind.kind
    );
    cluster.post(&format!("{collection}Strict"), body.clone()).await.expect_error(400, "BadRequest", &message);
    let warned = cluster.post(&format!("{collection}Warn"), body.clone()).await.expect(201);
    let plain = cluster.post(&format!("{collection}Ignore"), body.clone()).await.expect(201);
    assert_eq!(blanked(warned.json()), blanked(plain.json()));
    let warnings = |answer: &pintle_testkit::Response| -> Vec<String> {
        answer.headers.get_all("warning").iter().filter_map(|w| w.to_str().ok().map(str::to_owned)).collect()
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
        let refused = cluster.patch(&path, patch_type, patch.to_string()).await;
        assert!(refused.text().contains("strict decoding error: unknown field"), "{}", refused.text());
        let _ = refused.expect(422);
    }
    kind.remove(&cluster, &sample.object).await;
}

/// Bodies in YAML and Protobuf make the same object as one in JSON.
pub(crate) async fn encodings(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.can("create") || !kind.stored() {
        return;
    }
    let sample = kind.sample();
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    let expect = blanked(kind.create(&cluster, &sample.object).await.json());
    kind.remove(&cluster, &sample.object).await;

    let text = sample.object.to_string();
    let tree = json::decode(text.as_bytes(), json::Options::default()).expect("JSON").value;
    let created = cluster.request("POST", &collection).body("application/yaml", yaml::encode(&tree)).send().await;
    assert_eq!(blanked(created.expect(201).json()), expect, "made of YAML");
    kind.remove(&cluster, &sample.object).await;

    let (types, id) = kind.type_of(&kind.kind);
    let typed = json::decode_typed(text.as_bytes(), types, id).expect("JSON");
    assert!(typed.strict.is_empty(), "{:?}", typed.strict);
    let mut body = Vec::new();
    protobuf::encode_object(&typed.value, types, id, &mut body);
    let created = cluster.request("POST", &collection).body(PROTOBUF, body).send().await.expect(201).json();
    assert_eq!(blanked(created.clone()), expect, "made of Protobuf");

    let body = cluster.request("GET", &path).header("accept", PROTOBUF).send().await.expect(200).body;
    let put =
        cluster.request("PUT", &path).header("accept", PROTOBUF).body(PROTOBUF, body.clone()).send().await.expect(200);
    assert!(put.body == body, "an update in Protobuf without a change");
    let found: Value = cluster.get(&path).await.expect(200).json();
    assert_eq!(found, created);
    kind.remove(&cluster, &sample.object).await;
}
