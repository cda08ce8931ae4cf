//! What has lost its owners goes, and nothing else does.

use pintle_testkit::Cluster;
use serde_json::{Value, json};

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

/// Numbers that look random, the same for a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// What is there, by name, with the names of the owners that each has.
type Model = std::collections::BTreeMap<String, Vec<String>>;

/// Takes an object away, and whatever has no owner left then. Who is orphaned stays without an owner.
fn take(model: &mut Model, name: &str, orphans: bool) {
    if model.remove(name).is_none() {
        return;
    }
    let mut gone = Vec::new();
    for (dependent, owners) in model.iter_mut() {
        let before = owners.len();
        owners.retain(|owner| owner != name);
        if before > 0 && owners.is_empty() && !orphans {
            gone.push(dependent.clone());
        }
    }
    gone.iter().for_each(|name| take(model, name, false));
}

/// Builds things that own each other, deletes some one after the other in one way or another, and expects what a model says.
async fn check_random(seed: u64) {
    let mut random = Random(seed);
    let mut cluster = Cluster::durable().await;
    let mut model = Model::new();
    let mut made: Vec<Value> = Vec::new();
    for i in 0..24 {
        let mut owners: Vec<usize> = (0..random.below(4)).filter(|_| i > 0).map(|_| random.below(i)).collect();
        owners.sort_unstable();
        owners.dedup();
        let references: Vec<Value> = owners.iter().map(|owner| owned_by(&made[*owner], random.below(2) == 0)).collect();
        let name = format!("m{i:02}");
        made.push(make(&cluster, &name, &references).await);
        model.insert(name, owners.iter().map(|owner| format!("m{owner:02}")).collect());
    }
    // A circle here and there: an older one is owned by a newer one as well.
    for _ in 0..random.below(3) {
        let (older, newer) = (random.below(12), 12 + random.below(12));
        let (older, newer) = (format!("m{older:02}"), format!("m{newer:02}"));
        let path = format!("{MAPS}/{older}");
        let found = cluster.get(&path).await.expect(200).json();
        let mut references = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let owner = made.iter().find(|object| object["metadata"]["name"] == *newer).expect("it was made");
        references.push(owned_by(owner, true));
        let body = json!({"metadata": {"ownerReferences": references}}).to_string();
        let _ = cluster.patch(&path, "merge", body).await.expect(200);
        model.get_mut(&older).expect("it was made").push(newer);
    }
    while !model.is_empty() {
        let there: Vec<String> = model.keys().cloned().collect();
        let name = &there[random.below(there.len())];
        let policy = ["Background", "Foreground", "Orphan"][random.below(3)];
        let before = model.clone();
        delete(&cluster, name, policy).await;
        take(&mut model, name, policy == "Orphan");
        // In the middle of it the server stops, as it should or not.
        match random.below(6) {
            0 => cluster = cluster.restart().await,
            1 => {
                cluster.kill_server().await;
                cluster.start_server().await;
            }
            _ => {}
        }
        let expect: Vec<&str> = model.keys().map(String::as_str).collect();
        let settled = tokio::time::timeout(std::time::Duration::from_secs(60), settles(&cluster, &expect)).await;
        assert!(settled.is_ok(), "seed {seed}: {policy} of {name} in {before:?} leaves {:?}", names(&cluster).await);
        // Nobody is left who says that something is an owner which is not.
        for (name, owners) in &model {
            loop {
                let found = cluster.get(&format!("{MAPS}/{name}")).await.expect(200).json();
                let references = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                if references.iter().map(|owner| owner["name"].as_str().unwrap_or_default()).eq(owners.iter()) {
                    break;
                }
            }
        }
    }
    cluster.stop().await;
}

#[test]
fn whatever_is_deleted_a_model_knows_what_stays() {
    pintle_testkit::run(async {
        for seed in 1..=6 {
            check_random(seed).await;
        }
    });
}
