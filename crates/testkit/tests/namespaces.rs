//! Namespaces that go, with all that is in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pintle_testkit::Cluster;
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";

fn named(name: &str) -> String {
    json!({"metadata": {"name": name}}).to_string()
}

/// The path of something in the namespace `n`.
fn within(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((group, plural)) => format!("/apis/{group}/namespaces/n/{plural}"),
        None => format!("{NAMESPACES}/n/{path}"),
    }
}

/// A cluster with a namespace `n`.
async fn with_namespace(cluster: Cluster) -> Cluster {
    let _ = cluster.post(NAMESPACES, named("n")).await.expect(201);
    cluster
}

/// Waits until a namespace is gone.
async fn gone(cluster: &Cluster, name: &str) {
    let mut watch = cluster.watch(&format!("{NAMESPACES}?watch=1&fieldSelector=metadata.name%3D{name}")).await;
    if cluster.get(&format!("{NAMESPACES}/{name}")).await.status == 404 {
        return;
    }
    while watch.next().await.expect("an event")["type"] != "DELETED" {}
}

/// Waits for a condition of the namespace `n`, and gives its message.
async fn condition(cluster: &Cluster, kind: &str, status: &str) -> String {
    let mut watch = cluster.watch(&format!("{NAMESPACES}?watch=1&fieldSelector=metadata.name%3Dn")).await;
    loop {
        let event = watch.next().await.expect("an event");
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if let Some(found) = conditions.iter().find(|c| c["type"] == kind && c["status"] == status) {
            return found["message"].as_str().expect("a message").to_owned();
        }
    }
}

async fn count(cluster: &Cluster, path: &str) -> usize {
    cluster.get(path).await.expect(200).json()["items"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_namespace_takes_its_content_with_it_and_nothing_else() {
    pintle_testkit::run(async {
        let cluster = with_namespace(Cluster::start().await).await;
        let labels = json!({"app": "a"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let pod = json!({"metadata": {"name": "x"}, "spec": template["spec"]});
        let workload =
            json!({"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
        let service = json!({"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}});
        let role = json!({"metadata": {"name": "x"}, "rules": []});
        for (path, object) in [
            ("configmaps", json!({"metadata": {"name": "x"}})),
            ("secrets", json!({"metadata": {"name": "x"}})),
            ("pods", pod),
            ("services", service),
            ("apps/v1/deployments", workload),
            ("rbac.authorization.k8s.io/v1/roles", role),
            ("coordination.k8s.io/v1/leases", json!({"metadata": {"name": "x"}})),
        ] {
            let _ = cluster.post(&within(path), object.to_string()).await.expect(201);
        }
        let kept = format!("{NAMESPACES}/default/configmaps");
        let _ = cluster.post(&kept, named("x")).await.expect(201);
        let mut watch = cluster.watch(&format!("{NAMESPACES}?watch=1&fieldSelector=metadata.name%3Dn")).await;
        watch.expect("ADDED", "n").await;
        let answer = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200).json();
        assert_eq!((&answer["kind"], &answer["status"]["phase"]), (&json!("Namespace"), &json!("Terminating")));
        // It goes through the stages that kubectl shows.
        assert_eq!(watch.expect("MODIFIED", "n").await["status"]["phase"], "Terminating");
        let conditions = watch.expect("MODIFIED", "n").await["status"]["conditions"].clone();
        assert_eq!(conditions.as_array().map(Vec::len), Some(5));
        assert!(conditions.as_array().into_iter().flatten().all(|c| c["status"] == "False"), "{conditions}");
        // The last change is its end, and shows what was there before it.
        let last = watch.expect("DELETED", "n").await;
        assert_eq!(last["spec"], json!({"finalizers": ["kubernetes"]}));
        for path in ["/api/v1/configmaps", "/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/services"] {
            let items = cluster.get(path).await.expect(200).json()["items"].clone();
            let left = items.as_array().expect("items").iter().filter(|item| item["metadata"]["namespace"] == "n");
            assert_eq!(left.count(), 0, "{path}");
        }
        assert_eq!(count(&cluster, &kept).await, 1);
        // The name is free again.
        let _ = cluster.post(NAMESPACES, named("n")).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn what_has_finalizers_is_told_and_waited_for() {
    pintle_testkit::run(async {
        let cluster = with_namespace(Cluster::durable().await).await;
        let held = json!({"metadata": {"name": "x", "finalizers": ["example.com/mine"]}}).to_string();
        let _ = cluster.post(&within("configmaps"), held).await.expect(201);
        let _ = cluster.post(&within("secrets"), named("x")).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let message = condition(&cluster, "NamespaceFinalizersRemaining", "True").await;
        assert_eq!(
            message,
            "Some content in the namespace has finalizers remaining: example.com/mine in 1 resource instances"
        );
        let message = condition(&cluster, "NamespaceContentRemaining", "True").await;
        assert_eq!(message, "Some resources are remaining: configmaps. has 1 resource instances");
        cluster.post(&within("configmaps"), named("y")).await.expect_error(
            403,
            "Forbidden",
            "configmaps \"y\" is forbidden: unable to create new content in namespace n because it is being terminated",
        );
        // It goes on after a restart.
        let cluster = cluster.restart().await;
        let path = format!("{}/x", within("configmaps"));
        let _ = cluster.patch(&path, "merge", r#"{"metadata": {"finalizers": null}}"#).await.expect(200);
        gone(&cluster, "n").await;
        cluster.stop().await;
    });
}

#[test]
fn others_may_hold_a_namespace_too() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let held = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/mine"]}}).to_string();
        let made = cluster.post(NAMESPACES, held).await.expect(201).json();
        assert_eq!(made["spec"]["finalizers"], json!(["example.com/mine", "kubernetes"]));
        let _ = cluster.post(&within("configmaps"), named("x")).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let mut found = Value::Null;
        while found["spec"]["finalizers"] != json!(["example.com/mine"]) {
            found = cluster.get(&format!("{NAMESPACES}/n")).await.expect(200).json();
        }
        assert_eq!(count(&cluster, &within("configmaps")).await, 0);
        found["spec"] = json!({});
        let _ = cluster.put(&format!("{NAMESPACES}/n/finalize"), found.to_string()).await.expect(200);
        gone(&cluster, "n").await;
        cluster.stop().await;
    });
}

#[test]
fn custom_objects_go_too_whenever_their_kind_came() {
    pintle_testkit::run(async {
        let cluster = with_namespace(Cluster::start().await).await;
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let _ = cluster.post(definitions, definition.to_string()).await.expect(201);
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "finalizers": ["example.com/mine"]}});
        while cluster.post(&within("example.com/v1/widgets"), widget.to_string()).await.status != 201 {}
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let message = condition(&cluster, "NamespaceContentRemaining", "True").await;
        assert_eq!(message, "Some resources are remaining: widgets.example.com has 1 resource instances");
        let path = format!("{}/w", within("example.com/v1/widgets"));
        let _ = cluster.patch(&path, "merge", r#"{"metadata": {"finalizers": null}}"#).await.expect(200);
        gone(&cluster, "n").await;
        cluster.stop().await;
    });
}

/// Writers who create as fast as they can while the namespace goes leave nothing behind.
#[test]
fn nothing_slips_in_while_a_namespace_goes() {
    pintle_testkit::run(async {
        let cluster = Arc::new(Cluster::start().await);
        for round in 0..5 {
            let _ = cluster.post(NAMESPACES, named("n")).await.expect(201);
            let over = Arc::new(AtomicBool::new(false));
            let writers: Vec<_> = (0..8)
                .map(|writer| {
                    let (cluster, over) = (cluster.clone(), over.clone());
                    tokio::spawn(async move {
                        let mut made = 0;
                        while !over.load(Ordering::Relaxed) {
                            let object = named(&format!("w{writer}-{made}"));
                            match cluster.post(&within("configmaps"), object).await.status.as_u16() {
                                201 => made += 1,
                                403 | 404 => return made,
                                other => panic!("{other}"),
                            }
                        }
                        made
                    })
                })
                .collect();
            while count(&cluster, &within("configmaps")).await < 20 {}
            let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
            gone(&cluster, "n").await;
            over.store(true, Ordering::Relaxed);
            let mut made = 0;
            for writer in writers {
                made += writer.await.expect("a writer");
            }
            assert!(made >= 20);
            assert_eq!(count(&cluster, "/api/v1/configmaps").await, 0, "round {round}");
        }
        Arc::into_inner(cluster).expect("nobody else").stop().await;
    });
}

#[test]
fn a_controller_manager_is_not_interfered_with() {
    pintle_testkit::run(async {
        let cluster = with_namespace(Cluster::start().await).await;
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        let held = |renewed: &str| {
            json!({
                "metadata": {"name": "kube-controller-manager"},
                "spec": {"holderIdentity": "someone", "leaseDurationSeconds": 3600, "renewTime": renewed},
            })
            .to_string()
        };
        let _ = cluster.post(leases, held("2200-01-01T00:00:00.000000Z")).await.expect(201);
        let _ = cluster.post(&within("configmaps"), named("x")).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        // Whoever would act at once would have done so by the time that another namespace has gone by hand.
        let mut other = cluster.post(NAMESPACES, named("other")).await.expect(201).json();
        let _ = cluster.delete(&format!("{NAMESPACES}/other")).await.expect(200);
        other["spec"] = json!({});
        other["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        let _ = cluster.put(&format!("{NAMESPACES}/other/finalize"), other.to_string()).await.expect(200);
        gone(&cluster, "other").await;
        let namespace = cluster.get(&format!("{NAMESPACES}/n")).await.expect(200).json();
        assert_eq!(namespace["status"], json!({"phase": "Terminating"}));
        assert_eq!(count(&cluster, &within("configmaps")).await, 1);
        // It has not renewed its lease for long.
        let lease = format!("{leases}/kube-controller-manager");
        let _ = cluster.patch(&lease, "merge", held("2020-01-01T00:00:00.000000Z")).await.expect(200);
        gone(&cluster, "n").await;
        cluster.stop().await;
    });
}
