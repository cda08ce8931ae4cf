//! Deletecollection: the options apply to each object.

use std::sync::Arc;

use pintle_integration::{Cluster, Options};
use serde_json::{Value, json};

use super::{NO_BODY, Scenario, any, configmap, with_finalizers};

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
fn each_pod_has_its_own_grace_period() {
    let terminating =
        |name: &str, seconds: Value| json!({"metadata": {"name": name, "deletionGracePeriodSeconds": seconds}});
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        scenario
            .run_steps(&[
                ("POST pods", pod("a", 10), 201, any()),
                ("POST pods", pod("b", 20), 201, any()),
                ("POST pods", pod("c", 0), 201, any()),
                ("DELETE pods", NO_BODY, 200, json!({"kind": "PodList"})),
                ("GET pods/a", NO_BODY, 200, terminating("a", json!(10))),
                ("GET pods/b", NO_BODY, 200, terminating("b", json!(20))),
                ("GET pods/c", NO_BODY, 404, any()),
                ("DELETE pods?gracePeriodSeconds=15", NO_BODY, 200, any()),
                ("GET pods/a", NO_BODY, 200, terminating("a", json!(10))),
                ("GET pods/b", NO_BODY, 200, terminating("b", json!(15))),
                ("DELETE pods?gracePeriodSeconds=0&dryRun=All", NO_BODY, 200, any()),
                ("GET pods/b", NO_BODY, 200, terminating("b", json!(15))),
                ("DELETE pods", json!({"gracePeriodSeconds": 0}), 200, any()),
                ("GET pods", NO_BODY, 200, json!({"items": []})),
            ])
            .await;
        scenario.stop().await;
    });
}

#[test]
fn deletecollection_returns_the_list_before_the_deletion() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        scenario
            .run_steps(&[
                ("POST configmaps", configmap("a"), 201, any()),
                ("POST configmaps", with_finalizers("b", &["example.com/b"]), 201, any()),
            ])
            .await;
        let before = scenario.cluster.get(maps).await.expect(200).json();
        let response = scenario.cluster.delete(&format!("{maps}?propagationPolicy=Orphan")).await.expect(200).json();
        assert_eq!(response, before);
        let after = scenario.cluster.get(maps).await.expect(200).json();
        assert_eq!(names(&after), ["a", "b"]);
        assert_eq!(after["items"][1]["metadata"]["finalizers"], json!(["example.com/b", "orphan"]));
        scenario.stop().await;
    });
}

/// A resourceVersion in the query selects the list, and is also a precondition of each object if the request has no
/// body.
#[test]
fn resource_version_in_the_query_is_also_a_precondition() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        let conflict = |name: &str, rv: &str| {
            let mismatch = format!("the ResourceVersion in the precondition ({rv}) does not match");
            json!({"reason": "Conflict", "message": format!(
                "Operation cannot be fulfilled on ConfigMap \"{name}\": {mismatch} the ResourceVersion in record (${name}.rv). The \
                 object might have been modified"
            )})
        };
        scenario
            .run_steps(&[
                ("POST configmaps", configmap("a"), 201, any()),
                ("DELETE configmaps?resourceVersion=0", NO_BODY, 409, conflict("a", "0")),
                ("GET configmaps/a", NO_BODY, 200, any()),
                ("DELETE configmaps?resourceVersion=0", json!({}), 200, any()),
                ("GET configmaps/a", NO_BODY, 404, any()),
                ("POST configmaps", configmap("a"), 201, any()),
            ])
            .await;
        let at = format!("DELETE configmaps?resourceVersion={}", scenario.variables["a.rv"]);
        scenario.run_steps(&[(&at, NO_BODY, 200, any()), ("GET configmaps/a", NO_BODY, 404, any())]).await;
        scenario.stop().await;
    });
}

/// The first failed delete ends the request. Objects that were deleted before stay deleted.
#[test]
fn deletecollection_stops_at_the_first_error() {
    pintle_integration::run(async move {
        let mut scenario = Scenario::start().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        for name in ["a", "b", "c"] {
            scenario.run_steps(&[("POST configmaps", configmap(name), 201, any())]).await;
        }
        let only = json!({"preconditions": {"uid": scenario.variables["b.uid"]}});
        scenario.run_steps(&[("DELETE configmaps", only, 409, json!({"reason": "Conflict"}))]).await;
        let remaining = scenario.cluster.get(maps).await.expect(200).json();
        assert!(names(&remaining).contains(&"a") && names(&remaining).contains(&"c"), "{remaining}");
        scenario.stop().await;
    });
}

/// A client that disconnects cancels the request.
#[test]
fn deletecollection_stops_when_the_client_disconnects() {
    const OBJECTS: usize = 3000;
    pintle_integration::run(async move {
        let cluster = Arc::new(Cluster::with_options(Options { controllers: false, ..Options::default() }).await);
        let maps = "/api/v1/namespaces/default/configmaps";
        let creators = (0..8).map(|creator| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                for n in (creator..OBJECTS).step_by(8) {
                    let _ = cluster.post(maps, configmap(&format!("m{n:05}")).to_string()).await.expect(201);
                }
            })
        });
        for creator in creators.collect::<Vec<_>>() {
            creator.await.expect("a creator");
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
        // Deletes that were in progress complete.
        let mut remaining = usize::MAX;
        loop {
            let count = names(&cluster.get(maps).await.expect(200).json()).len();
            if count == remaining {
                break;
            }
            remaining = count;
        }
        assert!(remaining > 0 && remaining < OBJECTS, "{remaining}");
        let response = cluster.delete(maps).await.expect(200).json();
        assert_eq!(names(&response).len(), remaining);
        Arc::into_inner(cluster).expect("no other reference").stop().await;
    });
}
