//! Server-side apply: of the object, against another manager, and of its status.

use std::sync::Arc;

use pintle_testkit::{Cluster, Response};
use serde_json::{Value, json};

use crate::kind::{Kind, blanked, contains, merged};

async fn apply(cluster: &Cluster, path: &str, manager: &str, config: &Value) -> Response {
    let path = format!("{path}?fieldManager={manager}");
    cluster.request("PATCH", &path).body("application/apply-patch+yaml", config.to_string()).send().await
}

/// What a manager owns by applying.
fn owned<'o>(object: &'o Value, manager: &str, subresource: &str) -> Option<&'o Value> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut own = entries.filter(|e| {
        let through = e["subresource"].as_str().unwrap_or_default();
        (&e["manager"], &e["operation"], through) == (&json!(manager), &json!("Apply"), subresource)
    });
    own.next().map(|entry| &entry["fieldsV1"])
}

/// What of each sample who applies it owns, says upstream's own field manager: a line for each kind whose schema client-go
/// has. `tools/owners` writes it.
const OWNED: &str = include_str!("owned.txt");

/// What upstream says that who applies the sample and some labels owns.
fn owned_upstream(kind: &Kind, labels: &[&str]) -> Option<Value> {
    let prefix = format!("{kind} ");
    let fields = OWNED.lines().find_map(|line| line.strip_prefix(&prefix))?;
    let mut fields: Value = serde_json::from_str(fields).expect("a set");
    if kind.kind == "CertificateSigningRequest" {
        // Who asks for a certificate does not set the spec again.
        fields["f:spec"].take();
        fields = merged(&json!({}), &fields);
    }
    let labels: serde_json::Map<_, _> = labels.iter().map(|label| (format!("f:{label}"), json!({}))).collect();
    Some(merged(&fields, &json!({ "f:metadata": { "f:labels": labels } })))
}

/// The object of a sample as a configuration.
fn config(kind: &Kind, object: &Value) -> Value {
    merged(object, &json!({ "kind": kind.kind, "apiVersion": kind.api_version() }))
}

/// An object that two managers apply.
pub(crate) async fn applied(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.can("patch") {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    // Some kinds without any label take those of their template.
    let whole = merged(&config(&kind, &sample.object), &json!({ "metadata": { "labels": { "kept": "yes" } } }));
    let dry = cluster.post(&format!("{}?dryRun=All", kind.collection()), whole.to_string()).await.expect(201);
    let created = apply(&cluster, &path, "one", &whole).await.expect(201);
    assert_eq!(cluster.get(&path).await.expect(200).text(), created.text(), "what is applied is what is there");
    let object = created.json();
    assert_eq!(blanked(dry.json()), blanked(object.clone()), "it is what a create makes");
    let own = owned(&object, "one", "").expect("an owner");
    assert_eq!(own["f:metadata"]["f:labels"]["f:sweep"], json!({}), "{own}");
    assert!(own.get("f:status").is_none(), "{own}");
    if let Some(expect) = owned_upstream(&kind, &["kept", "sweep"]) {
        assert_eq!(own, &expect);
    }
    assert_eq!(object["metadata"]["managedFields"].as_array().map(Vec::len), Some(1), "{object}");
    let again = apply(&cluster, &path, "one", &whole).await.expect(200);
    assert_eq!(again.text(), created.text(), "an apply without a change");

    // Another one's label is a conflict, and can be taken.
    let named = config(&kind, &json!({ "metadata": { "name": object["metadata"]["name"] } }));
    let label = merged(&named, &json!({ "metadata": { "labels": { "sweep": "no" } } }));
    let message = r#"Apply failed with 1 conflict: conflict with "one": .metadata.labels.sweep"#;
    apply(&cluster, &path, "two", &label).await.expect_error(409, "Conflict", message);
    assert_eq!(cluster.get(&path).await.expect(200).text(), created.text(), "after a conflict");
    let taken = apply(&cluster, &path, "two&force=true", &label).await.expect(200).json();
    assert_eq!(taken["metadata"]["labels"]["sweep"], "no", "{taken}");
    let label = json!({ "f:metadata": { "f:labels": { "f:sweep": {} } } });
    assert_eq!(owned(&taken, "two", ""), Some(&label), "{taken}");
    let own = owned(&taken, "one", "").map(|own| own["f:metadata"]["f:labels"].get("f:sweep"));
    assert_eq!(own.flatten(), None, "{taken}");

    // What nobody applies any more goes, and comes again with who applies it.
    let given_up = apply(&cluster, &path, "two", &named).await.expect(200).json();
    assert_eq!(given_up["metadata"]["labels"].get("sweep"), None, "{given_up}");
    assert_eq!(owned(&given_up, "two", ""), None, "{given_up}");
    let back = apply(&cluster, &path, "one", &whole).await.expect(200).json();
    let but_generation =
        |object: &Value| merged(&blanked(object.clone()), &json!({ "metadata": { "generation": null } }));
    assert_eq!(but_generation(&back), but_generation(&object));
    assert_eq!(owned(&back, "one", ""), owned(&object, "one", ""));
    kind.remove(&cluster, &sample.object).await;
}

/// A status that is applied, with a spec that it does not set.
pub(crate) async fn status(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    let sample = kind.sample();
    let (Some(wanted), true) = (&sample.status, kind.can("patch")) else { return };
    let path = kind.path(&sample.object);
    let status_path = format!("{path}/status");
    let whole = merged(&config(&kind, &sample.object), &json!({ "status": wanted }));
    let missing = apply(&cluster, &status_path, "two", &whole).await.expect(404).json();
    assert_eq!(missing["reason"], "NotFound", "{missing}");

    let created = apply(&cluster, &path, "one", &config(&kind, &sample.object)).await.expect(201).json();
    let mut change = sample.change.clone();
    change.as_object_mut().expect("a patch").remove("metadata");
    let after = apply(&cluster, &status_path, "two", &merged(&whole, &change)).await.expect(200).json();
    assert!(contains(&after["status"], wanted), "{wanted} is not in {}", after["status"]);
    for (key, value) in created.as_object().expect("an object") {
        if key != "metadata" && key != "status" {
            assert_eq!(&after[key], value, "{key} after an apply of the status");
        }
    }
    assert_eq!(owned(&after, "one", ""), owned(&created, "one", ""));
    let own = owned(&after, "two", "status").expect("an owner");
    // Of signing requests, the status does not set the conditions.
    assert!(own.get("f:status").is_some() || kind.kind == "CertificateSigningRequest", "{own}");
    assert!(own.get("f:spec").is_none(), "{own}");
    let again = apply(&cluster, &status_path, "two", &merged(&whole, &change)).await.expect(200).json();
    assert_eq!(again, after, "an apply of the status without a change");
    // Through the object, a status is nobody's and stays.
    let mut other = whole.clone();
    other["status"] = json!({});
    let kept = apply(&cluster, &path, "one", &other).await.expect(200).json();
    assert_eq!(kept, after, "an apply of the object with a status");
    kind.remove(&cluster, &sample.object).await;
}

/// The replicas, as those own them who set them through the scale.
pub(crate) async fn scale(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if kind.subresource("scale").is_none() {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let scale_path = format!("{path}/scale");
    let whole = merged(&config(&kind, &sample.object), &json!({ "spec": { "replicas": 2 } }));
    let _ = apply(&cluster, &path, "one", &whole).await.expect(201);
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
    assert_eq!(owned(&object, "two", "scale"), Some(&json!({ "f:spec": { "f:replicas": {} } })), "{object}");
    let own = owned(&object, "one", "").expect("an owner");
    assert_eq!(own["f:spec"].get("f:replicas"), None, "{own}");
    let message = r#"Apply failed with 1 conflict: conflict with "two" with subresource "scale": .spec.replicas"#;
    apply(&cluster, &path, "one", &whole).await.expect_error(409, "Conflict", message);
    kind.remove(&cluster, &sample.object).await;
}
