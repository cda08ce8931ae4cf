//! Deletion: of one object, of a collection, what a DELETE answers with, and the verbs that there are not.

use std::sync::Arc;

use pintle_testkit::Cluster;
use serde_json::{Value, json};

use crate::kind::{Kind, SELECTOR, name};

/// True if the answer of a DELETE is the object, terminating or gone as the facts of the kind say, or a `Status` about it.
fn check_answer(kind: &Kind, answer: &Value, object: &Value) {
    let uid = &object["metadata"]["uid"];
    let terminating = answer["metadata"].get("deletionTimestamp").is_some();
    if terminating || kind.facts().storage().is_some_and(|s| s.returns_deleted) {
        assert_eq!((&answer["kind"], &answer["metadata"]["uid"]), (&json!(kind.kind), uid), "{answer}");
        return;
    }
    let mut details = json!({ "name": name(object), "kind": kind.plural, "uid": uid });
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    let expect =
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
    assert_eq!(answer, &expect);
}

/// One object.
pub(crate) async fn one(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.can("delete") {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let object = kind.create(&cluster, &sample.object).await.json();
    let wrong = json!({ "preconditions": { "uid": "another" } });
    let refused = cluster.request("DELETE", &path).json(wrong.to_string()).send().await.expect(409).json();
    assert_eq!(refused["reason"], "Conflict", "{refused}");
    let answer = cluster.delete(&format!("{path}?propagationPolicy=Background")).await.expect(200).json();
    check_answer(&kind, &answer, &object);
    kind.let_go(&cluster, &path).await;
    let message = format!("{} \"{}\" not found", kind.group_resource(), name(&object));
    cluster.get(&path).await.expect_error(404, "NotFound", &message);
    cluster.delete(&path).await.expect_error(404, "NotFound", &message);

    // Finalizers keep an object until the last one is gone.
    let mut kept = sample.object.clone();
    kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let _ = kind.create(&cluster, &kept).await;
    let answer = cluster.delete(&format!("{path}?propagationPolicy=Background")).await.expect(200).json();
    assert_eq!(answer["metadata"]["finalizers"], json!(["example.com/keep"]), "{answer}");
    let terminating = cluster.get(&path).await.expect(200).json();
    if kind.subresource("finalize").is_some() {
        // The server itself works on it meanwhile.
        let still = |field: &str| assert_eq!(terminating["metadata"][field], answer["metadata"][field], "{field}");
        ["uid", "finalizers", "deletionTimestamp", "labels"].into_iter().for_each(still);
    } else {
        assert_eq!(terminating, answer);
    }
    assert!(terminating["metadata"]["deletionTimestamp"].is_string(), "{terminating}");
    kind.let_go(&cluster, &path).await;
    let _ = cluster.get(&path).await.expect(404);
}

/// A collection, of which a selector spares one.
pub(crate) async fn collection(cluster: Arc<Cluster>, kind: Arc<Kind>) {
    if !kind.can("deletecollection") {
        return;
    }
    let sample = kind.sample();
    let mut spared = sample.second.clone();
    spared["metadata"]["labels"]["sweep"] = json!("no");
    let object = kind.create(&cluster, &sample.object).await.json();
    let other = kind.create(&cluster, &spared).await.json();
    let path = format!("{}?{SELECTOR}&propagationPolicy=Background", kind.collection());
    let deleted = cluster.delete(&path).await.expect(200).json();
    assert_eq!(deleted["kind"], json!(kind.facts().list_kind), "{deleted}");
    let uids: Vec<&Value> =
        deleted["items"].as_array().expect("items").iter().map(|item| &item["metadata"]["uid"]).collect();
    assert_eq!(uids, [&object["metadata"]["uid"]]);
    kind.let_go(&cluster, &kind.path(&sample.object)).await;
    let _ = cluster.get(&kind.path(&sample.object)).await.expect(404);
    assert_eq!(cluster.get(&kind.path(&spared)).await.expect(200).json(), other);
    kind.remove(&cluster, &spared).await;
}

/// The verbs that a resource does not have.
pub(crate) async fn other_verbs(cluster: Arc<Cluster>, kind: Arc<Kind>) {
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
        // A resource without named objects has no such path at all.
        let refused = code == 405 || (code == 404 && !kind.stored());
        assert!(kind.can(verb) || refused, "{verb}: {code}");
        assert!(!kind.can(verb) || code != 405, "{verb} is named by discovery: {code}");
    }
    if kind.stored() {
        kind.remove(&cluster, &sample.object).await;
    }
}
