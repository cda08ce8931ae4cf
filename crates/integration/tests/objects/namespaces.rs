//! Deletion of namespaces and their content.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use pintle::Options;
use pintle_integration::Cluster;
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";

fn object_named(name: &str) -> String {
    json!({"metadata": {"name": name}}).to_string()
}

/// The path of a collection in the namespace `n`.
fn path_in_n(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((group, plural)) => format!("/apis/{group}/namespaces/n/{plural}"),
        None => format!("{NAMESPACES}/n/{path}"),
    }
}

/// Creates the namespace `n`.
async fn create_namespace_n(cluster: Cluster) -> Cluster {
    let _ = cluster.post(NAMESPACES, object_named("n")).await.expect(201);
    cluster
}

/// Waits until a namespace is deleted.
async fn wait_for_removal(cluster: &Cluster, name: &str) {
    let mut watch = cluster.watch(&format!("{NAMESPACES}?watch=1&fieldSelector=metadata.name%3D{name}")).await;
    if cluster.get(&format!("{NAMESPACES}/{name}")).await.status == 404 {
        return;
    }
    while watch.next().await.expect("an event")["type"] != "DELETED" {}
}

/// Waits for a condition of the namespace `n`, and returns its message.
async fn wait_for_condition(cluster: &Cluster, kind: &str, status: &str) -> String {
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
fn deletion_of_a_namespace_deletes_its_content_and_nothing_else() {
    pintle_integration::run(async {
        let cluster = create_namespace_n(Cluster::start().await).await;
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
            let _ = cluster.post(&path_in_n(path), object.to_string()).await.expect(201);
        }
        let other = format!("{NAMESPACES}/default/configmaps");
        let _ = cluster.post(&other, object_named("x")).await.expect(201);
        let mut watch = cluster.watch(&format!("{NAMESPACES}?watch=1&fieldSelector=metadata.name%3Dn")).await;
        watch.expect("ADDED", "n").await;
        let answer = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200).json();
        assert_eq!((&answer["kind"], &answer["status"]["phase"]), (&json!("Namespace"), &json!("Terminating")));
        // The status goes through the phases and conditions that kubectl shows.
        assert_eq!(watch.expect("MODIFIED", "n").await["status"]["phase"], "Terminating");
        let conditions = watch.expect("MODIFIED", "n").await["status"]["conditions"].clone();
        assert_eq!(conditions.as_array().map(Vec::len), Some(5));
        assert!(conditions.as_array().into_iter().flatten().all(|c| c["status"] == "False"), "{conditions}");
        // The DELETED event shows the last stored version.
        let last = watch.expect("DELETED", "n").await;
        assert_eq!(last["spec"], json!({"finalizers": ["kubernetes"]}));
        for path in ["/api/v1/configmaps", "/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/services"] {
            let items = cluster.get(path).await.expect(200).json()["items"].clone();
            let left = items.as_array().expect("items").iter().filter(|item| item["metadata"]["namespace"] == "n");
            assert_eq!(left.count(), 0, "{path}");
        }
        assert_eq!(count(&cluster, &other).await, 1);
        // The name can be used again.
        let _ = cluster.post(NAMESPACES, object_named("n")).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn conditions_report_content_with_finalizers() {
    pintle_integration::run(async {
        let cluster = create_namespace_n(Cluster::durable().await).await;
        let with_finalizer = json!({"metadata": {"name": "x", "finalizers": ["example.com/mine"]}}).to_string();
        let _ = cluster.post(&path_in_n("configmaps"), with_finalizer).await.expect(201);
        let _ = cluster.post(&path_in_n("secrets"), object_named("x")).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let message = wait_for_condition(&cluster, "NamespaceFinalizersRemaining", "True").await;
        assert_eq!(
            message,
            "Some content in the namespace has finalizers remaining: example.com/mine in 1 resource instances"
        );
        let message = wait_for_condition(&cluster, "NamespaceContentRemaining", "True").await;
        assert_eq!(message, "Some resources are remaining: configmaps. has 1 resource instances");
        cluster.post(&path_in_n("configmaps"), object_named("y")).await.expect_error(
            403,
            "Forbidden",
            "configmaps \"y\" is forbidden: unable to create new content in namespace n because it is being terminated",
        );
        // The deletion continues after a restart.
        let cluster = cluster.restart().await;
        let path = format!("{}/x", path_in_n("configmaps"));
        let _ = cluster.patch(&path, "merge", r#"{"metadata": {"finalizers": null}}"#).await.expect(200);
        wait_for_removal(&cluster, "n").await;
        cluster.stop().await;
    });
}

#[test]
fn other_namespace_finalizers_delay_the_deletion() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let with_finalizer =
            json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/mine"]}}).to_string();
        let created = cluster.post(NAMESPACES, with_finalizer).await.expect(201).json();
        assert_eq!(created["spec"]["finalizers"], json!(["example.com/mine", "kubernetes"]));
        let _ = cluster.post(&path_in_n("configmaps"), object_named("x")).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let mut found = Value::Null;
        while found["spec"]["finalizers"] != json!(["example.com/mine"]) {
            found = cluster.get(&format!("{NAMESPACES}/n")).await.expect(200).json();
        }
        assert_eq!(count(&cluster, &path_in_n("configmaps")).await, 0);
        found["spec"] = json!({});
        let _ = cluster.put(&format!("{NAMESPACES}/n/finalize"), found.to_string()).await.expect(200);
        wait_for_removal(&cluster, "n").await;
        cluster.stop().await;
    });
}

#[test]
fn custom_resources_of_later_crds_are_deleted_too() {
    pintle_integration::run(async {
        let cluster = create_namespace_n(Cluster::start().await).await;
        let crd = json!({
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
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let _ = cluster.post(crds, crd.to_string()).await.expect(201);
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "finalizers": ["example.com/mine"]}});
        while cluster.post(&path_in_n("example.com/v1/widgets"), widget.to_string()).await.status != 201 {}
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        let message = wait_for_condition(&cluster, "NamespaceContentRemaining", "True").await;
        assert_eq!(message, "Some resources are remaining: widgets.example.com has 1 resource instances");
        let path = format!("{}/w", path_in_n("example.com/v1/widgets"));
        let _ = cluster.patch(&path, "merge", r#"{"metadata": {"finalizers": null}}"#).await.expect(200);
        wait_for_removal(&cluster, "n").await;
        cluster.stop().await;
    });
}

#[test]
fn a_burst_of_deletions_beyond_the_history_removes_all_namespaces() {
    pintle_integration::run(async {
        // No event fits into the history, and a few namespaces fill the buffer of the controller's watch.
        let mut options = Options::default();
        options.history.bytes = 1;
        let cluster = Cluster::with_options(options).await;
        let paths: Vec<String> = (0..40).map(|index| format!("{NAMESPACES}/n{index}")).collect();
        let creates = (0..40).map(|index| {
            let metadata = json!({"name": format!("n{index}"), "annotations": {"long": "x".repeat(30_000)}});
            let (cluster, body) = (&cluster, json!({"metadata": metadata}).to_string());
            async move { cluster.post(NAMESPACES, body).await.expect(201) }
        });
        drop(join_all(creates).await);
        drop(join_all(paths.iter().map(|path| async { cluster.delete(path).await.expect(200) })).await);
        for path in &paths {
            cluster.get_until_status(path, 404).await;
        }
        cluster.stop().await;
    });
}

/// Clients create objects as fast as they can while the namespace is being deleted. None of the objects remains.
#[test]
fn concurrent_creates_leave_nothing_behind() {
    pintle_integration::run(async {
        let cluster = Arc::new(Cluster::start().await);
        for round in 0..5 {
            let _ = cluster.post(NAMESPACES, object_named("n")).await.expect(201);
            let stop = Arc::new(AtomicBool::new(false));
            let writers: Vec<_> = (0..8)
                .map(|writer| {
                    let (cluster, stop) = (cluster.clone(), stop.clone());
                    tokio::spawn(async move {
                        let mut created = 0;
                        while !stop.load(Ordering::Relaxed) {
                            let object = object_named(&format!("w{writer}-{created}"));
                            match cluster.post(&path_in_n("configmaps"), object).await.status.as_u16() {
                                201 => created += 1,
                                403 | 404 => return created,
                                other => panic!("{other}"),
                            }
                        }
                        created
                    })
                })
                .collect();
            while count(&cluster, &path_in_n("configmaps")).await < 20 {}
            let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
            wait_for_removal(&cluster, "n").await;
            stop.store(true, Ordering::Relaxed);
            let mut created = 0;
            for writer in writers {
                created += writer.await.expect("the writer succeeds");
            }
            assert!(created >= 20);
            assert_eq!(count(&cluster, "/api/v1/configmaps").await, 0, "round {round}");
        }
        Arc::into_inner(cluster).expect("the only reference").stop().await;
    });
}

#[test]
fn namespace_deletion_waits_while_a_controller_manager_holds_its_lease() {
    pintle_integration::run(async {
        let cluster = create_namespace_n(Cluster::start().await).await;
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        let lease = |renewed: &str| {
            json!({
                "metadata": {"name": "kube-controller-manager"},
                "spec": {"holderIdentity": "someone", "leaseDurationSeconds": 3600, "renewTime": renewed},
            })
            .to_string()
        };
        let _ = cluster.post(leases, lease("2200-01-01T00:00:00.000000Z")).await.expect(201);
        let _ = cluster.post(&path_in_n("configmaps"), object_named("x")).await.expect(201);
        let _ = cluster.delete(&format!("{NAMESPACES}/n")).await.expect(200);
        // By the time that the test has finalized another namespace itself, the namespace controller would have acted.
        let mut other = cluster.post(NAMESPACES, object_named("other")).await.expect(201).json();
        let _ = cluster.delete(&format!("{NAMESPACES}/other")).await.expect(200);
        other["spec"] = json!({});
        other["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        let _ = cluster.put(&format!("{NAMESPACES}/other/finalize"), other.to_string()).await.expect(200);
        wait_for_removal(&cluster, "other").await;
        let namespace = cluster.get(&format!("{NAMESPACES}/n")).await.expect(200).json();
        assert_eq!(namespace["status"], json!({"phase": "Terminating"}));
        assert_eq!(count(&cluster, &path_in_n("configmaps")).await, 1);
        // The lease of the controller manager expires.
        let path = format!("{leases}/kube-controller-manager");
        let _ = cluster.patch(&path, "merge", lease("2020-01-01T00:00:00.000000Z")).await.expect(200);
        wait_for_removal(&cluster, "n").await;
        cluster.stop().await;
    });
}
