//! Scenarios of the garbage collector: what happens to dependents when their owner is deleted.

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::object::KINDS;
use super::random_workload::{CRDS, define};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An owner reference to a ConfigMap.
fn owned_by(owner: &Value, block_owner_deletion: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block_owner_deletion,
    })
}

/// Creates a ConfigMap with owners.
async fn create(cluster: &Cluster, name: &str, owners: &[Value]) -> Value {
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    cluster.post(CONFIGMAPS, object.to_string()).await.expect(201).json()
}

/// The names of all ConfigMaps.
async fn names(cluster: &Cluster) -> Vec<String> {
    let list = cluster.get(CONFIGMAPS).await.expect(200).json();
    let name = |item: &Value| item["metadata"]["name"].as_str().expect("a name").to_owned();
    list["items"].as_array().expect("items").iter().map(name).collect()
}

/// Waits until exactly these ConfigMaps exist.
async fn wait_for_names(cluster: &Cluster, expect: &[&str]) {
    let mut watch = cluster.watch(&format!("{CONFIGMAPS}?watch=1")).await;
    while names(cluster).await != expect {
        let _ = watch.next().await.expect("an event");
    }
}

async fn delete(cluster: &Cluster, name: &str, policy: &str) {
    let _ = cluster.delete(&format!("{CONFIGMAPS}/{name}?propagationPolicy={policy}")).await.expect(200);
}

#[test]
fn dependents_are_deleted_after_their_last_owner() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let a = create(&cluster, "a", &[]).await;
        let b = create(&cluster, "b", &[]).await;
        let child = create(&cluster, "child", &[owned_by(&a, true)]).await;
        create(&cluster, "grandchild", &[owned_by(&child, true)]).await;
        create(&cluster, "shared", &[owned_by(&a, true), owned_by(&b, true)]).await;
        create(&cluster, "stranger", &[]).await;
        delete(&cluster, "a", "Background").await;
        wait_for_names(&cluster, &["b", "shared", "stranger"]).await;
        // The reference to the deleted owner is removed.
        let mut shared = Value::Null;
        while shared["metadata"]["ownerReferences"] != json!([owned_by(&b, true)]) {
            shared = cluster.get(&format!("{CONFIGMAPS}/shared")).await.expect(200).json();
        }
        delete(&cluster, "b", "Background").await;
        wait_for_names(&cluster, &["stranger"]).await;
        cluster.stop().await;
    });
}

#[test]
fn foreground_deletion_deletes_dependents_first() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let a = create(&cluster, "a", &[]).await;
        let held = create(&cluster, "held", &[owned_by(&a, true)]).await;
        create(&cluster, "under", &[owned_by(&held, true)]).await;
        create(&cluster, "free", &[owned_by(&a, false)]).await;
        let hold = r#"{"metadata": {"finalizers": ["example.com/mine"]}}"#;
        let _ = cluster.patch(&format!("{CONFIGMAPS}/held"), "merge", hold).await.expect(200);
        delete(&cluster, "a", "Foreground").await;
        wait_for_names(&cluster, &["a", "held"]).await;
        let a = cluster.get(&format!("{CONFIGMAPS}/a")).await.expect(200).json();
        assert_eq!(a["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        let remove_finalizers = r#"{"metadata": {"finalizers": null}}"#;
        let _ = cluster.patch(&format!("{CONFIGMAPS}/held"), "merge", remove_finalizers).await;
        // The object had its own finalizer, and the collector may have added the foreground finalizer in the meantime.
        wait_for_names(&cluster, &[]).await;
        cluster.stop().await;
    });
}

#[test]
fn orphan_deletion_keeps_dependents() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let a = create(&cluster, "a", &[]).await;
        let other = create(&cluster, "other", &[]).await;
        create(&cluster, "child", &[owned_by(&a, true)]).await;
        create(&cluster, "shared", &[owned_by(&a, true), owned_by(&other, false)]).await;
        delete(&cluster, "a", "Orphan").await;
        wait_for_names(&cluster, &["child", "other", "shared"]).await;
        let owners = async |name: &str| {
            let object = cluster.get(&format!("{CONFIGMAPS}/{name}")).await.expect(200).json();
            object["metadata"]["ownerReferences"].clone()
        };
        assert_eq!(owners("child").await, Value::Null);
        assert_eq!(owners("shared").await, json!([owned_by(&other, false)]));
        cluster.stop().await;
    });
}

#[test]
fn references_to_owners_that_never_existed_are_dangling() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let a = create(&cluster, "a", &[]).await;
        let mut another = owned_by(&a, true);
        another["uid"] = json!("00000000-0000-0000-0000-000000000000");
        create(&cluster, "of-another-a", &[another]).await;
        let mut nobody = owned_by(&a, true);
        nobody["name"] = json!("nobody");
        create(&cluster, "of-nobody", &[nobody]).await;
        // The collector does nothing for an owner of an unknown kind.
        let unknown = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "1"});
        create(&cluster, "of-a-widget", &[unknown]).await;
        // The owner is in another namespace.
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
        let dependent_in_n = json!({"metadata": {"name": "far", "ownerReferences": [owned_by(&a, true)]}}).to_string();
        let configmaps_in_n = "/api/v1/namespaces/n/configmaps";
        let _ = cluster.post(configmaps_in_n, dependent_in_n).await.expect(201);
        wait_for_names(&cluster, &["a", "of-a-widget"]).await;
        cluster.get_until_status(&format!("{configmaps_in_n}/far"), 404).await;
        cluster.stop().await;
    });
}

#[test]
fn a_reference_to_an_owner_in_another_namespace_records_an_event() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "other"}}"#).await.expect(201);
        let owner = r#"{"metadata": {"name": "owner"}}"#;
        let owner = cluster.post("/api/v1/namespaces/other/configmaps", owner).await.expect(201).json();
        let uid = owner["metadata"]["uid"].as_str().expect("a uid");
        let dependent = create(&cluster, "dependent", &[owned_by(&owner, false)]).await;
        wait_for_names(&cluster, &[]).await;
        let mut watch = cluster
            .watch("/api/v1/namespaces/default/events?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
            .await;
        let event = watch.next().await.expect("an event")["object"].take();
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        assert!(name.starts_with("dependent."), "{name}");
        let expect = json!({
            "involvedObject": {
                "kind": "ConfigMap", "apiVersion": "v1", "namespace": "default", "name": "dependent",
                "uid": dependent["metadata"]["uid"],
            },
            "type": "Warning",
            "reason": "OwnerRefInvalidNamespace",
            "message": format!(
                r#"ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] does not exist in namespace "default""#
            ),
            "source": {"component": "garbage-collector-controller"},
            "count": 1,
        });
        for (field, value) in expect.as_object().into_iter().flatten() {
            assert_eq!(event[field], *value, "{field}");
        }
    });
}

#[test]
fn cycles_are_deleted_completely() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for policy in ["Background", "Foreground"] {
            let a = create(&cluster, "a", &[]).await;
            let b = create(&cluster, "b", &[owned_by(&a, true)]).await;
            let c = create(&cluster, "c", &[owned_by(&b, true)]).await;
            let back = json!({"metadata": {"ownerReferences": [owned_by(&c, true)]}}).to_string();
            let _ = cluster.patch(&format!("{CONFIGMAPS}/a"), "merge", back).await.expect(200);
            delete(&cluster, "a", policy).await;
            wait_for_names(&cluster, &[]).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn a_cascading_deletion_continues_after_a_restart() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        let a = create(&cluster, "a", &[]).await;
        for i in 0..200 {
            let child = create(&cluster, &format!("child-{i:03}"), &[owned_by(&a, true)]).await;
            create(&cluster, &format!("under-{i:03}"), &[owned_by(&child, true)]).await;
        }
        create(&cluster, "stranger", &[]).await;
        delete(&cluster, "a", "Background").await;
        let cluster = cluster.restart().await;
        wait_for_names(&cluster, &["stranger"]).await;
        cluster.stop().await;
    });
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// Creates an object in any collection, with owners and finalizers.
async fn create_in(cluster: &Cluster, path: &str, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
    let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
    let mut object = json!({"metadata": metadata});
    if path.starts_with("/apis/example.com/v1/zones") {
        // The server adds the type only for built-in kinds.
        (object["apiVersion"], object["kind"]) = (json!("example.com/v1"), json!("Zone"));
    }
    cluster.post(path, object.to_string()).await.expect(201).json()
}

/// Waits until an object meets a condition. A missing object is null.
async fn wait_for_object(cluster: &Cluster, path: &str, condition: impl Fn(&Value) -> bool) {
    let (list, name) = path.rsplit_once('/').expect("a path");
    let mut watch = cluster.watch(&format!("{list}?watch=1&fieldSelector=metadata.name={name}")).await;
    loop {
        let response = cluster.get(path).await;
        let found = if response.status == 404 { Value::Null } else { response.expect(200).json() };
        if condition(&found) {
            return;
        }
        let _ = watch.next().await.expect("an event");
    }
}

#[test]
fn a_dependent_in_another_namespace_blocks_foreground_deletion() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
        let configmaps_in_n = "/api/v1/namespaces/n/configmaps";
        let a = create(&cluster, "a", &[]).await;
        // The namespace of the dependent has no such owner, so the collector deletes the dependent. Its finalizer
        // remains.
        create_in(&cluster, configmaps_in_n, "far", &[owned_by(&a, true)], &["example.com/mine"]).await;
        wait_for_object(&cluster, &format!("{configmaps_in_n}/far"), |dependent_in_n| {
            !dependent_in_n["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
        delete(&cluster, "a", "Foreground").await;
        assert_eq!(names(&cluster).await, ["a"]);
        let _ = cluster
            .patch(&format!("{configmaps_in_n}/far"), "merge", r#"{"metadata": {"finalizers": null}}"#)
            .await
            .expect(200);
        wait_for_names(&cluster, &[]).await;
        cluster.stop().await;
    });
}

#[test]
fn a_namespaced_owner_of_a_cluster_scoped_object_suspends_collection() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let role = create_in(&cluster, ROLES, "owner", &[], &[]).await;
        let of_role = |uid: &Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "owner", "uid": uid});
        let (live, missing) = (of_role(&role["metadata"]["uid"]), of_role(&json!("nobody")));
        // A cluster-scoped object cannot have a namespaced owner. The collector skips the object while it names such an
        // owner.
        let a = create(&cluster, "a", &[]).await;
        create_in(&cluster, ROLES, "one", &[owned_by(&a, true), live.clone(), missing.clone()], &[]).await;
        create_in(&cluster, ROLES, "two", &[owned_by(&a, true), missing], &[]).await;
        delete(&cluster, "a", "Orphan").await;
        wait_for_object(&cluster, &format!("{ROLES}/two"), Value::is_null).await;
        wait_for_object(&cluster, &format!("{ROLES}/one"), |one| {
            let owners = one["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.len() == 1 && owners[0]["uid"] == live["uid"])
        })
        .await;
        cluster.stop().await;
    });
}

#[test]
fn deletion_of_a_crd_deletes_the_dependents_of_its_objects() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let kind = KINDS.iter().position(|kind| kind.kind == "Zone").expect("a kind");
        define(&cluster, kind).await;
        let zones = KINDS[kind].path("");
        let of = |zone: &Value, block: bool| {
            let mut owner = owned_by(zone, block);
            (owner["apiVersion"], owner["kind"]) = (json!("example.com/v1"), json!("Zone"));
            owner
        };
        let zone = create_in(&cluster, &zones, "zone", &[], &[]).await;
        // The orphan finalizer keeps its dependents.
        let kind_zone = create_in(&cluster, &zones, "kind-zone", &[], &["orphan"]).await;
        for i in 0..100 {
            create(&cluster, &format!("child-{i:03}"), &[of(&zone, true)]).await;
        }
        create(&cluster, "orphan", &[of(&kind_zone, true)]).await;
        let crd = format!("{CRDS}/{}", KINDS[kind].crd_name());
        let _ = cluster.delete(&crd).await.expect(200);
        wait_for_names(&cluster, &["orphan"]).await;
        wait_for_object(&cluster, &crd, Value::is_null).await;
        cluster.stop().await;
    });
}
