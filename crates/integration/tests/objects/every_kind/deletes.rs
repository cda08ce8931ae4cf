//! Deletes of objects and collections, the responses to them, and unsupported verbs.

use std::sync::Arc;

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::served_kind::{SELECTOR, ServedKind, name};

/// Checks that the response to a DELETE is the object or a `Status`, as the catalog specifies for the kind. A
/// terminating object is always returned.
fn check_answer(kind: &ServedKind, response: &Value, object: &Value) {
    let uid = &object["metadata"]["uid"];
    let terminating = response["metadata"].get("deletionTimestamp").is_some();
    if terminating || kind.facts().storage().is_some_and(|s| s.returns_deleted) {
        assert_eq!((&response["kind"], &response["metadata"]["uid"]), (&json!(kind.kind), uid), "{response}");
        return;
    }
    let mut details = json!({ "name": name(object), "kind": kind.plural, "uid": uid });
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    let expect =
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
    assert_eq!(response, &expect);
}

/// Checks the delete of one object.
pub(crate) async fn check_delete(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.has_verb("delete") {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let object = kind.create(&cluster, &sample.object).await.json();
    let wrong_uid = json!({ "preconditions": { "uid": "another" } });
    let error = cluster.request("DELETE", &path).json(wrong_uid.to_string()).send().await.expect(409).json();
    assert_eq!(error["reason"], "Conflict", "{error}");
    let response = cluster.delete(&format!("{path}?propagationPolicy=Background")).await.expect(200).json();
    check_answer(&kind, &response, &object);
    kind.remove_finalizers(&cluster, &path).await;
    let message = format!("{} \"{}\" not found", kind.group_resource(), name(&object));
    cluster.get(&path).await.expect_error(404, "NotFound", &message);
    cluster.delete(&path).await.expect_error(404, "NotFound", &message);

    // Finalizers keep an object until the last one is removed.
    let mut with_finalizer = sample.object.clone();
    with_finalizer["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let created = kind.create(&cluster, &with_finalizer).await.json();
    let finalizers = created["metadata"]["finalizers"].as_array().expect("finalizers");
    assert_eq!(finalizers[0], "example.com/keep", "{created}");
    let response = cluster.delete(&format!("{path}?propagationPolicy=Background")).await.expect(200).json();
    assert_eq!(response["metadata"]["finalizers"], created["metadata"]["finalizers"], "{response}");
    let terminating = cluster.get(&path).await.expect(200).json();
    assert_eq!(terminating["metadata"]["finalizers"][0], "example.com/keep", "{terminating}");
    if kind.subresource("finalize").is_some() || finalizers.len() > 1 {
        // The server updates the object in the meantime, and removes its own finalizer.
        let check_unchanged =
            |field: &str| assert_eq!(terminating["metadata"][field], response["metadata"][field], "{field}");
        ["uid", "deletionTimestamp", "labels"].into_iter().for_each(check_unchanged);
    } else {
        assert_eq!(terminating, response);
    }
    assert!(terminating["metadata"]["deletionTimestamp"].is_string(), "{terminating}");
    kind.remove_finalizers(&cluster, &path).await;
    let _ = cluster.get(&path).await.expect(404);
}

/// Checks the delete of a collection with a selector that excludes one object.
pub(crate) async fn check_deletecollection(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.has_verb("deletecollection") {
        return;
    }
    let sample = kind.sample();
    let mut excluded = sample.second.clone();
    excluded["metadata"]["labels"]["sweep"] = json!("no");
    let object = kind.create(&cluster, &sample.object).await.json();
    let other = kind.create(&cluster, &excluded).await.json();
    let path = format!("{}?{SELECTOR}&propagationPolicy=Background", kind.collection());
    let deleted = cluster.delete(&path).await.expect(200).json();
    assert_eq!(deleted["kind"], json!(kind.facts().list_kind), "{deleted}");
    let uids: Vec<&Value> =
        deleted["items"].as_array().expect("items").iter().map(|item| &item["metadata"]["uid"]).collect();
    assert_eq!(uids, [&object["metadata"]["uid"]]);
    kind.remove_finalizers(&cluster, &kind.path(&sample.object)).await;
    let _ = cluster.get(&kind.path(&sample.object)).await.expect(404);
    assert_eq!(cluster.get(&kind.path(&excluded)).await.expect(200).json(), other);
    kind.remove(&cluster, &excluded).await;
}

/// Checks that verbs which discovery does not list are not allowed.
pub(crate) async fn check_unsupported_verbs(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    let sample = kind.sample();
    let (collection, path) = (kind.collection(), kind.path(&sample.object));
    for (verb, method, path) in [
        ("create", "POST", &collection),
        ("deletecollection", "DELETE", &collection),
        ("list", "GET", &collection),
        ("get", "GET", &path),
        ("update", "PUT", &path),
        ("patch", "PATCH", &path),
        ("delete", "DELETE", &path),
    ] {
        let code = cluster.request(method, path).json(sample.object.to_string()).send().await.status.as_u16();
        // A resource without named objects does not serve the path at all.
        let not_allowed = code == 405 || (code == 404 && !kind.is_stored());
        assert!(kind.has_verb(verb) || not_allowed, "{verb}: {code}");
        assert!(!kind.has_verb(verb) || code != 405, "{verb} is listed by discovery: {code}");
    }
    if kind.is_stored() {
        kind.remove(&cluster, &sample.object).await;
    }
}
