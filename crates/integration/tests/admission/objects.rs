//! The admission plugins for limits, claims, volumes and ingresses from a client's view, and the controllers that
//! remove the finalizers of storage objects. Tests in `pintle-admission` cover the decisions of each plugin.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const ATTRIBUTES_CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";
const LIMIT_RANGES: &str = "/api/v1/namespaces/default/limitranges";
const NETWORKING: &str = "/apis/networking.k8s.io/v1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

async fn create(cluster: &Cluster, path: &str, object: Value) -> Value {
    cluster.post(path, object.to_string()).await.expect(201).json()
}

async fn patch(cluster: &Cluster, path: &str, patch: Value) -> Value {
    cluster.patch(path, "merge", patch.to_string()).await.expect(200).json()
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn volume(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/v"}}})
}

/// A pod with a container without resources, and a claim if it has a name.
fn pod(name: &str, claim: &str) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    if !claim.is_empty() {
        spec["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn create_limit_range(cluster: &Cluster, name: &str, item: Value) {
    create(cluster, LIMIT_RANGES, json!({"metadata": {"name": name}, "spec": {"limits": [item]}})).await;
}

/// Deletes an object that stays until its finalizer is removed.
async fn begin_deletion(cluster: &Cluster, path: &str, finalizer: &str) {
    let terminating = cluster.delete(path).await.expect(200).json();
    assert!(terminating["metadata"]["deletionTimestamp"].is_string(), "{terminating}");
    assert_eq!(terminating["metadata"]["finalizers"], json!([finalizer]));
}

/// Waits until an object of a collection is deleted.
async fn wait_until_gone(cluster: &Cluster, collection: &str, name: &str) {
    let list = cluster.get(&format!("{collection}?fieldSelector=metadata.name%3D{name}")).await.expect(200).json();
    if list["items"] == json!([]) {
        return;
    }
    let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
    let path = format!("{collection}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
    let mut watch = cluster.watch(&path).await;
    while watch.next().await.expect("an event")["type"] != "DELETED" {}
}

/// Waits until a controller has retried an item.
async fn wait_for_retry(cluster: &Cluster, queue: &str) {
    let retries = format!("workqueue_retries_total{{name=\"{queue}\"}} ");
    let is_retried =
        |text: &str| text.lines().find_map(|line| line.strip_prefix(&*retries)).is_some_and(|count| count != "0");
    cluster.get_until("/metrics", |metrics| is_retried(&metrics.text())).await;
}

#[test]
fn pods_get_defaults_and_are_refused_by_limit_ranges() {
    run(async {
        let cluster = Cluster::start().await;
        let plain = create(&cluster, PODS, pod("plain", "")).await;
        assert_eq!(plain["spec"]["containers"][0]["resources"], json!({}));
        let defaults = json!({"type": "Container", "default": {"cpu": "200m", "memory": "128Mi"},
            "defaultRequest": {"cpu": "100m", "memory": "64Mi"}, "max": {"cpu": "500m"}});
        create_limit_range(&cluster, "limits", defaults).await;
        let found = create(&cluster, PODS, pod("a", "")).await;
        assert_eq!(
            found["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "200m", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}})
        );
        assert_eq!(
            found["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
            "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
        );
        assert_eq!(found["status"]["qosClass"], "Burstable");

        let mut big = pod("big", "");
        big["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
        let message = "pods \"big\" is forbidden: maximum cpu usage per Container is 500m, but limit is 1";
        for path in [PODS.to_owned(), format!("{PODS}?dryRun=All")] {
            let status = cluster.post(&path, big.to_string()).await.expect(403).json();
            assert_eq!((&status["message"], &status["reason"]), (&json!(message), &json!("Forbidden")));
        }
        // Existing pods are not checked when they change, except when they are resized.
        create_limit_range(&cluster, "more", json!({"type": "Pod", "max": {"memory": "1Mi"}})).await;
        patch(&cluster, &format!("{PODS}/plain"), json!({"metadata": {"labels": {"a": "b"}}})).await;
        let resize = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "150m"}}}]}});
        let refused = cluster.patch(&format!("{PODS}/a/resize"), "strategic-merge", resize.to_string()).await;
        refused.expect_error(
            403,
            "Forbidden",
            "pods \"a\" is forbidden: maximum memory usage per Pod is 1Mi, but limit is 128Mi",
        );
        cluster.stop().await;
    });
}

#[test]
fn claims_are_refused_by_limit_ranges() {
    run(async {
        let cluster = Cluster::start().await;
        let item = json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}, "min": {"storage": "1Mi"}});
        create_limit_range(&cluster, "storage", item).await;
        create(&cluster, CLAIMS, claim("a")).await;
        let mut big = claim("b");
        big["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
        cluster.post(CLAIMS, big.to_string()).await.expect_error(
            403,
            "Forbidden",
            "persistentvolumeclaims \"b\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but \
             request is 2Gi",
        );
        cluster.stop().await;
    });
}

#[test]
fn claims_and_ingresses_get_the_default_class() {
    run(async {
        let cluster = Cluster::start().await;
        let without_class = create(&cluster, CLAIMS, claim("none")).await;
        assert_eq!(without_class["spec"]["storageClassName"], Value::Null);
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let class = json!({"metadata": {"name": "gold", "annotations": annotations}, "provisioner": "example.com/p"});
        create(&cluster, STORAGE_CLASSES, class).await;
        assert_eq!(create(&cluster, CLAIMS, claim("a")).await["spec"]["storageClassName"], "gold");

        let annotations = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
        let class = json!({"metadata": {"name": "front", "annotations": annotations},
            "spec": {"controller": "example.com/c"}});
        create(&cluster, &format!("{NETWORKING}/ingressclasses"), class).await;
        let ingress = json!({"metadata": {"name": "i"},
            "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
        let found = create(&cluster, &format!("{NETWORKING}/namespaces/default/ingresses"), ingress).await;
        assert_eq!(found["spec"]["ingressClassName"], "front");
        cluster.stop().await;
    });
}

#[test]
fn only_bound_claims_of_an_expandable_class_are_expanded() {
    run(async {
        let cluster = Cluster::start().await;
        let class = json!({"metadata": {"name": "gold"}, "provisioner": "example.com/p"});
        create(&cluster, STORAGE_CLASSES, class).await;
        let mut object = claim("a");
        object["spec"]["storageClassName"] = json!("gold");
        object["spec"]["volumeName"] = json!("v");
        create(&cluster, CLAIMS, object).await;
        let path = format!("{CLAIMS}/a");
        patch(&cluster, &format!("{path}/status"), json!({"status": {"phase": "Bound"}})).await;
        let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        cluster.patch(&path, "merge", grow.to_string()).await.expect_error(
            403,
            "Forbidden",
            "persistentvolumeclaims \"a\" is forbidden: only dynamically provisioned pvc can be resized and the \
             storageclass that provisions the pvc must support resize",
        );
        patch(&cluster, &format!("{STORAGE_CLASSES}/gold"), json!({"allowVolumeExpansion": true})).await;
        let found = patch(&cluster, &path, grow).await;
        assert_eq!(found["spec"]["resources"]["requests"]["storage"], "2Gi");
        cluster.stop().await;
    });
}

#[test]
fn a_terminating_claim_stays_while_a_pod_on_a_node_uses_it() {
    run(async {
        let cluster = Cluster::start().await;
        for name in ["used", "unused", "waiting"] {
            let found = create(&cluster, CLAIMS, claim(name)).await;
            assert_eq!(found["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
        }
        let mut bound = pod("bound", "used");
        bound["spec"]["nodeName"] = json!("n");
        create(&cluster, PODS, bound).await;
        create(&cluster, PODS, pod("unscheduled", "waiting")).await;
        begin_deletion(&cluster, &format!("{CLAIMS}/used"), "kubernetes.io/pvc-protection").await;
        // The controller examines these two after the first.
        for name in ["unused", "waiting"] {
            begin_deletion(&cluster, &format!("{CLAIMS}/{name}"), "kubernetes.io/pvc-protection").await;
            wait_until_gone(&cluster, CLAIMS, name).await;
        }
        let _ = cluster.get(&format!("{CLAIMS}/used")).await.expect(200);
        let _ = cluster.delete(&format!("{PODS}/bound?gracePeriodSeconds=0")).await.expect(200);
        wait_until_gone(&cluster, CLAIMS, "used").await;
        cluster.stop().await;
    });
}

#[test]
fn a_terminating_volume_stays_while_it_is_bound() {
    run(async {
        let cluster = Cluster::start().await;
        for name in ["bound", "free"] {
            let found = create(&cluster, VOLUMES, volume(name)).await;
            assert_eq!(found["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
        }
        let path = format!("{VOLUMES}/bound");
        patch(&cluster, &format!("{path}/status"), json!({"status": {"phase": "Bound"}})).await;
        for name in ["bound", "free"] {
            begin_deletion(&cluster, &format!("{VOLUMES}/{name}"), "kubernetes.io/pv-protection").await;
        }
        wait_until_gone(&cluster, VOLUMES, "free").await;
        let _ = cluster.get(&path).await.expect(200);
        patch(&cluster, &format!("{path}/status"), json!({"status": {"phase": "Released"}})).await;
        wait_until_gone(&cluster, VOLUMES, "bound").await;
        cluster.stop().await;
    });
}

#[test]
fn a_terminating_attributes_class_stays_while_it_is_used() {
    run(async {
        let cluster = Cluster::start().await;
        for name in ["claimed", "free"] {
            let class = json!({"metadata": {"name": name}, "driverName": "example.com", "parameters": {"iops": "1"}});
            let found = create(&cluster, ATTRIBUTES_CLASSES, class).await;
            assert_eq!(found["metadata"]["finalizers"], json!(["kubernetes.io/vac-protection"]));
        }
        let mut object = claim("c");
        object["spec"]["volumeAttributesClassName"] = json!("claimed");
        create(&cluster, CLAIMS, object).await;
        for name in ["claimed", "free"] {
            begin_deletion(&cluster, &format!("{ATTRIBUTES_CLASSES}/{name}"), "kubernetes.io/vac-protection").await;
        }
        wait_until_gone(&cluster, ATTRIBUTES_CLASSES, "free").await;
        let _ = cluster.get(&format!("{ATTRIBUTES_CLASSES}/claimed")).await.expect(200);
        let _ = cluster.delete(&format!("{CLAIMS}/c")).await.expect(200);
        wait_until_gone(&cluster, ATTRIBUTES_CLASSES, "claimed").await;
        cluster.stop().await;
    });
}

#[test]
fn objects_that_lost_their_finalizer_get_it_again() {
    run(async {
        let cluster = Cluster::start().await;
        create(&cluster, VOLUMES, volume("v")).await;
        let mut watch = cluster.watch(&format!("{VOLUMES}?watch=1")).await;
        patch(&cluster, &format!("{VOLUMES}/v"), json!({"metadata": {"finalizers": null}})).await;
        let mut is_missing = false;
        loop {
            let object = watch.next().await.expect("an event")["object"].clone();
            let is_present = object["metadata"]["finalizers"] == json!(["kubernetes.io/pv-protection"]);
            if is_missing && is_present {
                break;
            }
            is_missing |= !is_present;
        }
        cluster.stop().await;
    });
}

#[test]
fn a_terminating_namespace_loses_its_claims() {
    run(async {
        let cluster = Cluster::start().await;
        create(&cluster, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
        create(&cluster, "/api/v1/namespaces/n/persistentvolumeclaims", claim("c")).await;
        let _ = cluster.delete("/api/v1/namespaces/n").await.expect(200);
        wait_until_gone(&cluster, "/api/v1/namespaces", "n").await;
        cluster.stop().await;
    });
}

#[test]
fn no_finalizer_is_removed_while_a_controller_manager_holds_its_lease() {
    run(async {
        let cluster = Cluster::start().await;
        let lease = |renewed: &str| {
            json!({
                "metadata": {"name": "kube-controller-manager"},
                "spec": {"holderIdentity": "someone", "leaseDurationSeconds": 3600, "renewTime": renewed},
            })
        };
        create(&cluster, LEASES, lease("2200-01-01T00:00:00.000000Z")).await;
        create(&cluster, CLAIMS, claim("c")).await;
        begin_deletion(&cluster, &format!("{CLAIMS}/c"), "kubernetes.io/pvc-protection").await;
        wait_for_retry(&cluster, "pvcprotection").await;
        let _ = cluster.get(&format!("{CLAIMS}/c")).await.expect(200);
        patch(&cluster, &format!("{LEASES}/kube-controller-manager"), lease("2020-01-01T00:00:00.000000Z")).await;
        wait_until_gone(&cluster, CLAIMS, "c").await;
        cluster.stop().await;
    });
}
