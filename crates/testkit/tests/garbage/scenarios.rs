//! One thing at a time: what becomes of dependents when an owner goes in this way or that.

use pintle_testkit::Cluster;
use serde_json::{Value, json};

use crate::random::{DEFINITIONS, define};
use crate::thing::KINDS;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A reference to an owner.
fn owned_by(owner: &Value, block: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    })
}

/// Makes a map that others own.
async fn make(cluster: &Cluster, name: &str, owners: &[Value]) -> Value {
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    cluster.post(MAPS, object.to_string()).await.expect(201).json()
}

/// The names of the maps that there are.
async fn names(cluster: &Cluster) -> Vec<String> {
    let list = cluster.get(MAPS).await.expect(200).json();
    let name = |item: &Value| item["metadata"]["name"].as_str().expect("a name").to_owned();
    list["items"].as_array().expect("items").iter().map(name).collect()
}

/// Waits until there are these maps and no others.
async fn settles(cluster: &Cluster, expect: &[&str]) {
    let mut watch = cluster.watch(&format!("{MAPS}?watch=1")).await;
    while names(cluster).await != expect {
        let _ = watch.next().await.expect("an event");
    }
}

async fn delete(cluster: &Cluster, name: &str, policy: &str) {
    let _ = cluster.delete(&format!("{MAPS}/{name}?propagationPolicy={policy}")).await.expect(200);
}

#[test]
fn dependents_go_after_their_last_owner() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let a = make(&cluster, "a", &[]).await;
        let b = make(&cluster, "b", &[]).await;
        let child = make(&cluster, "child", &[owned_by(&a, true)]).await;
        make(&cluster, "grandchild", &[owned_by(&child, true)]).await;
        make(&cluster, "shared", &[owned_by(&a, true), owned_by(&b, true)]).await;
        make(&cluster, "stranger", &[]).await;
        delete(&cluster, "a", "Background").await;
        settles(&cluster, &["b", "shared", "stranger"]).await;
        // What is gone owns nothing any more.
        let mut shared = Value::Null;
        while shared["metadata"]["ownerReferences"] != json!([owned_by(&b, true)]) {
            shared = cluster.get(&format!("{MAPS}/shared")).await.expect(200).json();
        }
        delete(&cluster, "b", "Background").await;
        settles(&cluster, &["stranger"]).await;
        cluster.stop().await;
    });
}

#[test]
fn dependents_go_before_an_owner_that_waits() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let a = make(&cluster, "a", &[]).await;
        let held = make(&cluster, "held", &[owned_by(&a, true)]).await;
        make(&cluster, "under", &[owned_by(&held, true)]).await;
        make(&cluster, "free", &[owned_by(&a, false)]).await;
        let hold = r#"{"metadata": {"finalizers": ["example.com/mine"]}}"#;
        let _ = cluster.patch(&format!("{MAPS}/held"), "merge", hold).await.expect(200);
        delete(&cluster, "a", "Foreground").await;
        settles(&cluster, &["a", "held"]).await;
        let a = cluster.get(&format!("{MAPS}/a")).await.expect(200).json();
        assert_eq!(a["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        let free = r#"{"metadata": {"finalizers": null}}"#;
        let _ = cluster.patch(&format!("{MAPS}/held"), "merge", free).await;
        // Its own finalizer is off, and foreground deletion has put one on: both have to go.
        settles(&cluster, &[]).await;
        cluster.stop().await;
    });
}

#[test]
fn orphans_are_left_behind() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let a = make(&cluster, "a", &[]).await;
        let other = make(&cluster, "other", &[]).await;
        make(&cluster, "child", &[owned_by(&a, true)]).await;
        make(&cluster, "shared", &[owned_by(&a, true), owned_by(&other, false)]).await;
        delete(&cluster, "a", "Orphan").await;
        settles(&cluster, &["child", "other", "shared"]).await;
        let owners = async |name: &str| {
            let object = cluster.get(&format!("{MAPS}/{name}")).await.expect(200).json();
            object["metadata"]["ownerReferences"].clone()
        };
        assert_eq!(owners("child").await, Value::Null);
        assert_eq!(owners("shared").await, json!([owned_by(&other, false)]));
        cluster.stop().await;
    });
}

#[test]
fn owners_that_never_were_own_nothing() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let a = make(&cluster, "a", &[]).await;
        let mut another = owned_by(&a, true);
        another["uid"] = json!("00000000-0000-0000-0000-000000000000");
        make(&cluster, "of-another-a", &[another]).await;
        let mut nobody = owned_by(&a, true);
        nobody["name"] = json!("nobody");
        make(&cluster, "of-nobody", &[nobody]).await;
        // Of a kind that is not known nothing can be said.
        let unknown = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "1"});
        make(&cluster, "of-a-widget", &[unknown]).await;
        // In another namespace there is no owner of this one.
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
        let far = json!({"metadata": {"name": "far", "ownerReferences": [owned_by(&a, true)]}}).to_string();
        let there = "/api/v1/namespaces/n/configmaps";
        let _ = cluster.post(there, far).await.expect(201);
        settles(&cluster, &["a", "of-a-widget"]).await;
        while cluster.get(&format!("{there}/far")).await.status != 404 {}
        cluster.stop().await;
    });
}

#[test]
fn owners_in_other_namespaces_own_nothing_and_are_told_of() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "other"}}"#).await.expect(201);
        let owner = r#"{"metadata": {"name": "owner"}}"#;
        let owner = cluster.post("/api/v1/namespaces/other/configmaps", owner).await.expect(201).json();
        let uid = owner["metadata"]["uid"].as_str().expect("a uid");
        let dependent = make(&cluster, "dependent", &[owned_by(&owner, false)]).await;
        settles(&cluster, &[]).await;
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
fn circles_go_as_a_whole() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        for policy in ["Background", "Foreground"] {
            let a = make(&cluster, "a", &[]).await;
            let b = make(&cluster, "b", &[owned_by(&a, true)]).await;
            let c = make(&cluster, "c", &[owned_by(&b, true)]).await;
            let back = json!({"metadata": {"ownerReferences": [owned_by(&c, true)]}}).to_string();
            let _ = cluster.patch(&format!("{MAPS}/a"), "merge", back).await.expect(200);
            delete(&cluster, "a", policy).await;
            settles(&cluster, &[]).await;
        }
        cluster.stop().await;
    });
}

#[test]
fn a_cascade_goes_on_after_a_restart() {
    pintle_testkit::run(async {
        let cluster = Cluster::durable().await;
        let a = make(&cluster, "a", &[]).await;
        for i in 0..200 {
            let child = make(&cluster, &format!("child-{i:03}"), &[owned_by(&a, true)]).await;
            make(&cluster, &format!("under-{i:03}"), &[owned_by(&child, true)]).await;
        }
        make(&cluster, "stranger", &[]).await;
        delete(&cluster, "a", "Background").await;
        let cluster = cluster.restart().await;
        settles(&cluster, &["stranger"]).await;
        cluster.stop().await;
    });
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// Makes an object anywhere, with owners and a finalizer or none.
async fn make_at(cluster: &Cluster, path: &str, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
    let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
    cluster.post(path, json!({"metadata": metadata}).to_string()).await.expect(201).json()
}

/// Waits until an object is as it should be, or gone where that is null.
async fn becomes(cluster: &Cluster, path: &str, is: impl Fn(&Value) -> bool) {
    let (list, name) = path.rsplit_once('/').expect("a path");
    let mut watch = cluster.watch(&format!("{list}?watch=1&fieldSelector=metadata.name={name}")).await;
    loop {
        let answer = cluster.get(path).await;
        let found = if answer.status == 404 { Value::Null } else { answer.expect(200).json() };
        if is(&found) {
            return;
        }
        let _ = watch.next().await.expect("an event");
    }
}

#[test]
fn who_names_an_owner_wrongly_holds_it_all_the_same() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
        let there = "/api/v1/namespaces/n/configmaps";
        let a = make(&cluster, "a", &[]).await;
        // In its namespace there is no such owner: it goes, as far as it can.
        make_at(&cluster, there, "far", &[owned_by(&a, true)], &["example.com/mine"]).await;
        becomes(&cluster, &format!("{there}/far"), |far| !far["metadata"]["deletionTimestamp"].is_null()).await;
        delete(&cluster, "a", "Foreground").await;
        assert_eq!(names(&cluster).await, ["a"]);
        let _ =
            cluster.patch(&format!("{there}/far"), "merge", r#"{"metadata": {"finalizers": null}}"#).await.expect(200);
        settles(&cluster, &[]).await;
        cluster.stop().await;
    });
}

#[test]
fn owners_are_judged_once_nothing_stands_in_the_way() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let role = make_at(&cluster, ROLES, "owner", &[], &[]).await;
        let of_role = |uid: &Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "owner", "uid": uid});
        let (lives, nobody) = (of_role(&role["metadata"]["uid"]), of_role(&json!("nobody")));
        // An object of the cluster has no owners in namespaces, and is let alone while it names one.
        let a = make(&cluster, "a", &[]).await;
        make_at(&cluster, ROLES, "one", &[owned_by(&a, true), lives.clone(), nobody.clone()], &[]).await;
        make_at(&cluster, ROLES, "two", &[owned_by(&a, true), nobody], &[]).await;
        delete(&cluster, "a", "Orphan").await;
        becomes(&cluster, &format!("{ROLES}/two"), Value::is_null).await;
        becomes(&cluster, &format!("{ROLES}/one"), |one| {
            let owners = one["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.len() == 1 && owners[0]["uid"] == lives["uid"])
        })
        .await;
        cluster.stop().await;
    });
}

#[test]
fn a_definition_that_goes_takes_what_depends_on_its_objects() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let kind = KINDS.iter().position(|kind| kind.kind == "Zone").expect("a kind");
        define(&cluster, kind).await;
        let zones = KINDS[kind].path("");
        let of = |zone: &Value, block: bool| {
            let mut owner = owned_by(zone, block);
            (owner["apiVersion"], owner["kind"]) = (json!("example.com/v1"), json!("Zone"));
            owner
        };
        let zone = make_at(&cluster, &zones, "zone", &[], &[]).await;
        // Its finalizer says what becomes of those it owns.
        let kind_zone = make_at(&cluster, &zones, "kind-zone", &[], &["orphan"]).await;
        for i in 0..100 {
            make(&cluster, &format!("child-{i:03}"), &[of(&zone, true)]).await;
        }
        make(&cluster, "orphan", &[of(&kind_zone, true)]).await;
        let definition = format!("{DEFINITIONS}/{}", KINDS[kind].definition_name());
        let _ = cluster.delete(&definition).await.expect(200);
        settles(&cluster, &["orphan"]).await;
        becomes(&cluster, &definition, Value::is_null).await;
        cluster.stop().await;
    });
}
