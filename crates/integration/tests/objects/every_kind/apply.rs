//! Server-side apply of objects, with two managers, and of the `status` and `scale` subresources.

use std::sync::Arc;

use pintle_integration::{Cluster, Response};
use serde_json::{Value, json};

use super::served_kind::{ServedKind, apply_merge_patch, contains, without_volatile_fields};

async fn apply(cluster: &Cluster, path: &str, manager: &str, config: &Value) -> Response {
    let path = format!("{path}?fieldManager={manager}");
    cluster.request("PATCH", &path).body("application/apply-patch+yaml", config.to_string()).send().await
}

/// Returns the fields that an apply manager owns.
fn owned_fields<'o>(object: &'o Value, manager: &str, subresource: &str) -> Option<&'o Value> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut entries = entries.filter(|e| {
        let through = e["subresource"].as_str().unwrap_or_default();
        (&e["manager"], &e["operation"], through) == (&json!(manager), &json!("Apply"), subresource)
    });
    entries.next().map(|entry| &entry["fieldsV1"])
}

/// The fields that the manager of each applied sample owns, as recorded from upstream's field manager. There is a line
/// for each kind whose schema client-go has. `tools/managed-fields` writes the file.
const RECORDED_OWNED_FIELDS: &str = include_str!("owned.txt");

/// Returns the recorded fields of the manager that applies the sample and some labels.
fn recorded_owned_fields(kind: &ServedKind, labels: &[&str]) -> Option<Value> {
    let prefix = format!("{kind} ");
    let fields = RECORDED_OWNED_FIELDS.lines().find_map(|line| line.strip_prefix(&prefix))?;
    let mut fields: Value = serde_json::from_str(fields).expect("a set");
    if kind.kind == "CertificateSigningRequest" {
        // The strategy of signing requests resets the spec.
        fields["f:spec"].take();
        fields = apply_merge_patch(&json!({}), &fields);
    }
    let labels: serde_json::Map<_, _> = labels.iter().map(|label| (format!("f:{label}"), json!({}))).collect();
    Some(apply_merge_patch(&fields, &json!({ "f:metadata": { "f:labels": labels } })))
}

/// Returns an object as an apply configuration.
fn config(kind: &ServedKind, object: &Value) -> Value {
    apply_merge_patch(object, &json!({ "kind": kind.kind, "apiVersion": kind.api_version() }))
}

/// Checks applies of an object by two managers.
pub(crate) async fn check_apply(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.has_verb("patch") {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    // Some kinds default their labels to the labels of their template.
    let full_config =
        apply_merge_patch(&config(&kind, &sample.object), &json!({ "metadata": { "labels": { "kept": "yes" } } }));
    let dry = cluster.post(&format!("{}?dryRun=All", kind.collection()), full_config.to_string()).await.expect(201);
    let created = apply(&cluster, &path, "one", &full_config).await.expect(201);
    assert_eq!(cluster.get(&path).await.expect(200).text(), created.text(), "apply must return the stored object");
    let object = created.json();
    assert_eq!(
        without_volatile_fields(dry.json()),
        without_volatile_fields(object.clone()),
        "apply must create the same object as POST"
    );
    let entry_fields = owned_fields(&object, "one", "").expect("an entry of the manager");
    assert_eq!(entry_fields["f:metadata"]["f:labels"]["f:sweep"], json!({}), "{entry_fields}");
    assert!(entry_fields.get("f:status").is_none(), "{entry_fields}");
    if let Some(expect) = recorded_owned_fields(&kind, &["kept", "sweep"]) {
        assert_eq!(entry_fields, &expect);
    }
    assert_eq!(object["metadata"]["managedFields"].as_array().map(Vec::len), Some(1), "{object}");
    let again = apply(&cluster, &path, "one", &full_config).await.expect(200);
    assert_eq!(again.text(), created.text(), "an apply without a change");

    // A label of another manager is a conflict, and can be applied by force.
    let named = config(&kind, &json!({ "metadata": { "name": object["metadata"]["name"] } }));
    let label = apply_merge_patch(&named, &json!({ "metadata": { "labels": { "sweep": "no" } } }));
    let message = r#"Apply failed with 1 conflict: conflict with "one": .metadata.labels.sweep"#;
    apply(&cluster, &path, "two", &label).await.expect_error(409, "Conflict", message);
    assert_eq!(cluster.get(&path).await.expect(200).text(), created.text(), "after a conflict");
    let forced = apply(&cluster, &path, "two&force=true", &label).await.expect(200).json();
    assert_eq!(forced["metadata"]["labels"]["sweep"], "no", "{forced}");
    let label = json!({ "f:metadata": { "f:labels": { "f:sweep": {} } } });
    assert_eq!(owned_fields(&forced, "two", ""), Some(&label), "{forced}");
    let entry_fields =
        owned_fields(&forced, "one", "").map(|entry_fields| entry_fields["f:metadata"]["f:labels"].get("f:sweep"));
    assert_eq!(entry_fields.flatten(), None, "{forced}");

    // The server removes a field that no manager applies any more. Applying it again restores it.
    let given_up = apply(&cluster, &path, "two", &named).await.expect(200).json();
    assert_eq!(given_up["metadata"]["labels"].get("sweep"), None, "{given_up}");
    assert_eq!(owned_fields(&given_up, "two", ""), None, "{given_up}");
    let back = apply(&cluster, &path, "one", &full_config).await.expect(200).json();
    let without_generation = |object: &Value| {
        apply_merge_patch(&without_volatile_fields(object.clone()), &json!({ "metadata": { "generation": null } }))
    };
    assert_eq!(without_generation(&back), without_generation(&object));
    assert_eq!(owned_fields(&back, "one", ""), owned_fields(&object, "one", ""));
    kind.remove(&cluster, &sample.object).await;
}

/// Checks applies of the status, with a spec that is ignored.
pub(crate) async fn check_status(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    let sample = kind.sample();
    let (Some(new_status), true) = (&sample.status, kind.has_verb("patch")) else { return };
    let path = kind.path(&sample.object);
    let status_path = format!("{path}/status");
    let full_config = apply_merge_patch(&config(&kind, &sample.object), &json!({ "status": new_status }));
    let missing = apply(&cluster, &status_path, "two", &full_config).await.expect(404).json();
    assert_eq!(missing["reason"], "NotFound", "{missing}");

    let created = apply(&cluster, &path, "one", &config(&kind, &sample.object)).await.expect(201).json();
    let mut change = sample.change.clone();
    change.as_object_mut().expect("a patch").remove("metadata");
    let after =
        apply(&cluster, &status_path, "two", &apply_merge_patch(&full_config, &change)).await.expect(200).json();
    assert!(contains(&after["status"], new_status), "{} does not contain {new_status}", after["status"]);
    for (key, value) in created.as_object().expect("an object") {
        if key != "metadata" && key != "status" {
            assert_eq!(&after[key], value, "{key} after an apply of the status");
        }
    }
    assert_eq!(owned_fields(&after, "one", ""), owned_fields(&created, "one", ""));
    let entry_fields = owned_fields(&after, "two", "status").expect("an entry of the manager");
    // The status strategy of signing requests resets the conditions.
    assert!(entry_fields.get("f:status").is_some() || kind.kind == "CertificateSigningRequest", "{entry_fields}");
    // Upstream's strategy of storage versions declares no reset fields.
    assert!(entry_fields.get("f:spec").is_none() || kind.kind == "StorageVersion", "{entry_fields}");
    let again =
        apply(&cluster, &status_path, "two", &apply_merge_patch(&full_config, &change)).await.expect(200).json();
    assert_eq!(again, after, "an apply of the status without a change");
    // The server ignores a status that is applied through the main resource, and no manager owns it. Upstream's
    // strategies of these kinds do not declare the status as a reset field.
    if !["PodCertificateRequest", "StorageVersion"].contains(&&*kind.kind) {
        let mut other = full_config.clone();
        other["status"] = json!({});
        let unchanged = apply(&cluster, &path, "one", &other).await.expect(200).json();
        assert_eq!(unchanged, after, "an apply of the object with a status");
    }
    kind.remove(&cluster, &sample.object).await;
}

/// Checks the ownership of replicas that are applied through the scale.
pub(crate) async fn check_scale(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if kind.subresource("scale").is_none() {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let scale_path = format!("{path}/scale");
    let full_config = apply_merge_patch(&config(&kind, &sample.object), &json!({ "spec": { "replicas": 2 } }));
    let _ = apply(&cluster, &path, "one", &full_config).await.expect(201);
    let name = &sample.object["metadata"]["name"];
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": name }, "spec": { "replicas": 7 },
    });
    let message = r#"Apply failed with 1 conflict: conflict with "one": .spec.replicas"#;
    apply(&cluster, &scale_path, "two", &scale).await.expect_error(409, "Conflict", message);
    let scaled = apply(&cluster, &scale_path, "two&force=true", &scale).await.expect(200).json();
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(7)));
    let object = cluster.get(&path).await.expect(200).json();
    assert_eq!(object["spec"]["replicas"], 7, "{object}");
    assert_eq!(owned_fields(&object, "two", "scale"), Some(&json!({ "f:spec": { "f:replicas": {} } })), "{object}");
    let entry_fields = owned_fields(&object, "one", "").expect("an entry of the manager");
    assert_eq!(entry_fields["f:spec"].get("f:replicas"), None, "{entry_fields}");
    let message = r#"Apply failed with 1 conflict: conflict with "two" with subresource "scale": .spec.replicas"#;
    apply(&cluster, &path, "one", &full_config).await.expect_error(409, "Conflict", message);
    kind.remove(&cluster, &sample.object).await;
}
