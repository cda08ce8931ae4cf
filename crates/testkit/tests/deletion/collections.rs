//! Deletecollection: the options hold for each object by itself.

use std::sync::Arc;

use pintle_testkit::{Cluster, Options};
use serde_json::{Value, json};

use crate::{NONE, Scene, any, held, map};

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name")).collect()
}

fn pod(name: &str, period: i64) -> Value {
    let containers = json!([{"name": "c", "image": "i"}]);
    json!({
        "metadata": {"name": name},
        "spec": {"nodeName": "n", "terminationGracePeriodSeconds": period, "containers": containers},
    })
}

#[test]
fn each_object_has_its_own_time() {
    let left = |name: &str, seconds: Value| json!({"metadata": {"name": name, "deletionGracePeriodSeconds": seconds}});
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        scene
            .check(&[
                ("POST pods", pod("a", 10), 201, any()),
                ("POST pods", pod("b", 20), 201, any()),
                ("POST pods", pod("c", 0), 201, any()),
                ("DELETE pods", NONE, 200, json!({"kind": "PodList"})),
                ("GET pods/a", NONE, 200, left("a", json!(10))),
                ("GET pods/b", NONE, 200, left("b", json!(20))),
                ("GET pods/c", NONE, 404, any()),
                ("DELETE pods?gracePeriodSeconds=15", NONE, 200, any()),
                ("GET pods/a", NONE, 200, left("a", json!(10))),
                ("GET pods/b", NONE, 200, left("b", json!(15))),
                ("DELETE pods?gracePeriodSeconds=0&dryRun=All", NONE, 200, any()),
                ("GET pods/b", NONE, 200, left("b", json!(15))),
                ("DELETE pods", json!({"gracePeriodSeconds": 0}), 200, any()),
                ("GET pods", NONE, 200, json!({"items": []})),
            ])
            .await;
        scene.end().await;
    });
}

#[test]
fn the_answer_shows_what_was_there() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        scene
            .check(&[
                ("POST configmaps", map("a"), 201, any()),
                ("POST configmaps", held("b", &["example.com/b"]), 201, any()),
            ])
            .await;
        let before = scene.cluster.get(maps).await.expect(200).json();
        let answer = scene.cluster.delete(&format!("{maps}?propagationPolicy=Orphan")).await.expect(200).json();
        assert_eq!(answer, before);
        let after = scene.cluster.get(maps).await.expect(200).json();
        assert_eq!(names(&after), ["a", "b"]);
        assert_eq!(after["items"][1]["metadata"]["finalizers"], json!(["example.com/b", "orphan"]));
        scene.end().await;
    });
}

/// Where options are in the query, a revision there is that of the list and a precondition of each object.
#[test]
fn a_revision_in_the_query_is_a_precondition_too() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        let of = |name: &str, rv: &str| {
            let wrong = format!("the ResourceVersion in the precondition ({rv}) does not match");
            json!({"reason": "Conflict", "message": format!(
                "Operation cannot be fulfilled on ConfigMap \"{name}\": {wrong} the ResourceVersion in record (${name}.rv). The \
                 object might have been modified"
            )})
        };
        scene
            .check(&[
                ("POST configmaps", map("a"), 201, any()),
                ("DELETE configmaps?resourceVersion=0", NONE, 409, of("a", "0")),
                ("GET configmaps/a", NONE, 200, any()),
                ("DELETE configmaps?resourceVersion=0", json!({}), 200, any()),
                ("GET configmaps/a", NONE, 404, any()),
                ("POST configmaps", map("a"), 201, any()),
            ])
            .await;
        let at = format!("DELETE configmaps?resourceVersion={}", scene.known["a.rv"]);
        scene.check(&[(&at, NONE, 200, any()), ("GET configmaps/a", NONE, 404, any())]).await;
        scene.end().await;
    });
}

/// One that cannot be deleted ends it; those that could are gone.
#[test]
fn what_goes_wrong_with_one_ends_it() {
    pintle_testkit::run(async move {
        let mut scene = Scene::begin().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        for name in ["a", "b", "c"] {
            scene.check(&[("POST configmaps", map(name), 201, any())]).await;
        }
        let only = json!({"preconditions": {"uid": scene.known["b.uid"]}});
        scene.check(&[("DELETE configmaps", only, 409, json!({"reason": "Conflict"}))]).await;
        let left = scene.cluster.get(maps).await.expect(200).json();
        assert!(names(&left).contains(&"a") && names(&left).contains(&"c"), "{left}");
        scene.end().await;
    });
}

/// Whoever goes away in the middle wants no more of it.
#[test]
fn it_ends_when_the_client_goes() {
    const MANY: usize = 3000;
    pintle_testkit::run(async move {
        let cluster = Arc::new(Cluster::with_options(Options { controllers: false, ..Options::default() }).await);
        let maps = "/api/v1/namespaces/default/configmaps";
        let makers = (0..8).map(|maker| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                for n in (maker..MANY).step_by(8) {
                    let _ = cluster.post(maps, map(&format!("m{n:05}")).to_string()).await.expect(201);
                }
            })
        });
        for maker in makers.collect::<Vec<_>>() {
            maker.await.expect("a maker");
        }
        let mut watch = cluster
            .watch(&format!(
                "{maps}?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
            ))
            .await;
        let deleting = {
            let cluster = cluster.clone();
            tokio::spawn(async move { cluster.delete(maps).await })
        };
        while watch.next().await.expect("an event")["type"] != "DELETED" {}
        deleting.abort();
        assert!(deleting.await.is_err_and(|error| error.is_cancelled()));
        // Those that had begun come to their end.
        let mut left = usize::MAX;
        loop {
            let now = names(&cluster.get(maps).await.expect(200).json()).len();
            if now == left {
                break;
            }
            left = now;
        }
        assert!(left > 0 && left < MANY, "{left}");
        let answer = cluster.delete(maps).await.expect(200).json();
        assert_eq!(names(&answer).len(), left);
        Arc::into_inner(cluster).expect("nobody else").stop().await;
    });
}
