//! How the controller updates the status of quotas.

use std::time::Duration;

use pintle::Options;
use pintle_integration::{manual_clock, run};

use super::*;

#[test]
fn objects_that_exist_are_counted() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create(&cluster, CONFIG_MAPS, config_map("a")).await;
        create(&cluster, PODS, pod("a", json!({"requests": {"cpu": "500m"}}))).await;
        create(&cluster, PODS, pod("b", json!({"requests": {"cpu": "250m"}}))).await;
        let hard = json!({"configmaps": "5", "pods": "1", "requests.cpu": "2"});
        create(&cluster, QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
        wait_for_used(&cluster, "q", json!({"configmaps": "1", "pods": "2", "requests.cpu": "750m"})).await;
        assert_eq!(status(&cluster, "q").await["hard"], hard);
        create(
            &cluster,
            QUOTAS,
            json!({"metadata": {"name": "scoped"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}),
        )
        .await;
        wait_for_used(&cluster, "scoped", json!({"pods": "0"})).await;
        cluster.stop().await;
    });
}

#[test]
fn deletions_and_ends_of_pods_give_their_share_back() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"pods": "5", "count/pods": "5", "configmaps": "5"}})).await;
        let used =
            |pods: &str, objects: &str, maps: &str| json!({"pods": pods, "count/pods": objects, "configmaps": maps});
        for name in ["a", "b", "c"] {
            create(&cluster, PODS, pod(name, json!({}))).await;
            create(&cluster, CONFIG_MAPS, config_map(name)).await;
        }
        assert_eq!(status(&cluster, "q").await["used"], used("3", "3", "3"));
        patch(&cluster, &format!("{PODS}/a/status"), json!({"status": {"phase": "Succeeded"}})).await;
        wait_for_used(&cluster, "q", used("2", "3", "3")).await;
        let _ = cluster.delete(&format!("{PODS}/b?gracePeriodSeconds=0")).await.expect(200);
        wait_for_used(&cluster, "q", used("1", "2", "3")).await;
        let _ = cluster.delete(CONFIG_MAPS).await.expect(200);
        wait_for_used(&cluster, "q", used("1", "2", "0")).await;
        cluster.stop().await;
    });
}

#[test]
fn services_give_their_ports_back_with_their_type() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"services.nodeports": "5"}})).await;
        let service = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}});
        create(&cluster, SERVICES, service).await;
        assert_eq!(status(&cluster, "q").await["used"], json!({"services.nodeports": "1"}));
        patch(&cluster, &format!("{SERVICES}/a"), json!({"spec": {"type": "ClusterIP"}})).await;
        wait_for_used(&cluster, "q", json!({"services.nodeports": "0"})).await;
        cluster.stop().await;
    });
}

#[test]
fn changed_limits_are_enforced() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"configmaps": "1"}})).await;
        create(&cluster, CONFIG_MAPS, config_map("a")).await;
        let _ = cluster.post(CONFIG_MAPS, config_map("b").to_string()).await.expect(403);
        let hard = json!({"configmaps": "2", "secrets": "3"});
        patch(&cluster, &format!("{QUOTAS}/q"), json!({"spec": {"hard": hard}})).await;
        wait_for_used(&cluster, "q", json!({"configmaps": "1", "secrets": "0"})).await;
        assert_eq!(status(&cluster, "q").await["hard"], hard);
        create(&cluster, CONFIG_MAPS, config_map("b")).await;
        patch(&cluster, &format!("{QUOTAS}/q"), json!({"spec": {"hard": {"configmaps": null}}})).await;
        wait_for_used(&cluster, "q", json!({"secrets": "0"})).await;
        create(&cluster, CONFIG_MAPS, config_map("c")).await;
        cluster.stop().await;
    });
}

#[test]
fn all_quotas_are_counted_again_after_a_while() {
    run(async {
        let clock = manual_clock();
        let cluster = Cluster::with_options(Options { clock: clock.clone(), ..options() }).await;
        create_quota(&cluster, "q", json!({"hard": {"configmaps": "5"}})).await;
        create(&cluster, CONFIG_MAPS, config_map("a")).await;
        // No other client should write the status. The controller does not correct such a write at once.
        patch(&cluster, &format!("{QUOTAS}/q/status"), json!({"status": {"used": {"configmaps": "4"}}})).await;
        clock.advance(Duration::from_secs(5 * 60));
        wait_for_used(&cluster, "q", json!({"configmaps": "1"})).await;
        cluster.stop().await;
    });
}

#[test]
fn a_status_that_lacks_a_limit_refuses_writes() {
    run(async {
        let clock = manual_clock();
        let cluster = Cluster::with_options(Options { clock, ..options() }).await;
        create_quota(&cluster, "q", json!({"hard": {"configmaps": "5"}})).await;
        patch(&cluster, &format!("{QUOTAS}/q/status"), json!({"status": {"used": {"configmaps": null}}})).await;
        check_forbidden(
            cluster.post(CONFIG_MAPS, config_map("a").to_string()).await,
            "configmaps \"a\"",
            "status unknown for quota: q, resources: configmaps",
        );
        cluster.stop().await;
    });
}

/// Waits until the count of a quota is tried again.
async fn wait_for_retry(cluster: &Cluster) {
    let retries = "workqueue_retries_total{name=\"resourcequota_primary\"} ";
    let is_retried =
        |text: &str| text.lines().find_map(|line| line.strip_prefix(retries)).is_some_and(|count| count != "0");
    cluster.get_until("/metrics", |metrics| is_retried(&metrics.text())).await;
}

#[test]
fn a_status_stays_while_a_device_class_cannot_be_read() {
    run(async {
        const CLASS: &str = "/registry/deviceclasses/gpu";
        let class = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu", "uid": "u", "creationTimestamp": "2001-01-01T00:00:00Z"},
            "spec": {"extendedResourceName": "example.com/gpu"},
        })
        .to_string();
        let cluster = Cluster::with_options(options()).await;
        let _ = cluster.write_to_store(CLASS, class.clone()).await;
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
        let claim = json!({
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        });
        create(&cluster, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim).await;
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.example.com/gpu": "5"}}});
        create(&cluster, QUOTAS, quota).await;
        wait_for_used(&cluster, "q", json!({"requests.example.com/gpu": "2"})).await;

        let _ = cluster.write_to_store(CLASS, "{").await;
        patch(&cluster, &format!("{QUOTAS}/q"), json!({"spec": {"hard": {"count/pods": "1"}}})).await;
        wait_for_retry(&cluster).await;
        let before = json!({"hard": {"requests.example.com/gpu": "5"}, "used": {"requests.example.com/gpu": "2"}});
        assert_eq!(status(&cluster, "q").await, before);

        let _ = cluster.write_to_store(CLASS, class).await;
        wait_for_used(&cluster, "q", json!({"count/pods": "0", "requests.example.com/gpu": "2"})).await;
        cluster.stop().await;
    });
}

#[test]
fn no_quota_is_counted_while_a_controller_manager_holds_its_lease() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let lease = |renewed: &str| {
            json!({
                "metadata": {"name": "kube-controller-manager"},
                "spec": {"holderIdentity": "someone", "leaseDurationSeconds": 3600, "renewTime": renewed},
            })
        };
        create(&cluster, LEASES, lease("2200-01-01T00:00:00.000000Z")).await;
        create(&cluster, QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})).await;
        wait_for_retry(&cluster).await;
        assert_eq!(status(&cluster, "q").await, json!({}));
        // Without a status, the quota is not enforced.
        create(&cluster, PODS, pod("a", json!({}))).await;
        patch(&cluster, &format!("{LEASES}/kube-controller-manager"), lease("2020-01-01T00:00:00.000000Z")).await;
        wait_for_used(&cluster, "q", json!({"pods": "1"})).await;
        cluster.stop().await;
    });
}
