//! The writes that quotas refuse, and the messages.

use std::collections::BTreeMap;

use pintle::Options;
use pintle_admission::AdmissionConfiguration;
use pintle_integration::run;

use super::*;

#[test]
fn pods_are_refused_beyond_their_quota() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}})).await;
        check_forbidden(
            cluster.post(PODS, pod("a", json!({})).to_string()).await,
            "pods \"a\"",
            "failed quota: q: must specify limits.memory for: c; requests.cpu for: c",
        );
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"memory": "100Mi"}});
        create(&cluster, PODS, pod("a", resources("700m"))).await;
        check_forbidden(
            cluster.post(PODS, pod("b", resources("500m")).to_string()).await,
            "pods \"b\"",
            "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=700m, limited: requests.cpu=1",
        );
        create(&cluster, PODS, pod("b", resources("300m"))).await;
        check_forbidden(
            cluster.post(PODS, pod("c", resources("1m")).to_string()).await,
            "pods \"c\"",
            "exceeded quota: q, requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1, limited: \
             pods=2,requests.cpu=1",
        );
        assert_eq!(
            status(&cluster, "q").await,
            json!({
                "hard": {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"},
                "used": {"pods": "2", "requests.cpu": "1", "limits.memory": "200Mi"},
            })
        );
        cluster.stop().await;
    });
}

#[test]
fn quotas_with_scopes_count_the_pods_in_them() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "best-effort", json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})).await;
        create_quota(&cluster, "ending", json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]})).await;
        let selector =
            json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
        create_quota(&cluster, "high", json!({"hard": {"pods": "0"}, "scopeSelector": selector})).await;
        let class = json!({"metadata": {"name": "high"}, "value": 1});
        create(&cluster, "/apis/scheduling.k8s.io/v1/priorityclasses", class).await;

        let burstable = json!({"requests": {"cpu": "1"}});
        create(&cluster, PODS, pod("burstable", burstable.clone())).await;
        create(&cluster, PODS, pod("best-effort", json!({}))).await;
        let exceeded = |quota: &str, limit: i64| {
            format!("exceeded quota: {quota}, requested: pods=1, used: pods={limit}, limited: pods={limit}")
        };
        let second = cluster.post(PODS, pod("second", json!({})).to_string()).await;
        check_forbidden(second, "pods \"second\"", &exceeded("best-effort", 1));
        let mut important = pod("important", burstable.clone());
        important["spec"]["priorityClassName"] = json!("high");
        check_forbidden(cluster.post(PODS, important.to_string()).await, "pods \"important\"", &exceeded("high", 0));

        // A pod that gets a deadline enters a scope.
        let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
        patch(&cluster, &format!("{PODS}/burstable"), deadline.clone()).await;
        assert_eq!(status(&cluster, "ending").await["used"], json!({"pods": "1"}));
        let refused = cluster.patch(&format!("{PODS}/best-effort"), "merge", deadline.to_string()).await;
        check_forbidden(refused, "pods \"best-effort\"", &exceeded("ending", 1));
        cluster.stop().await;
    });
}

#[test]
fn services_and_claims_are_limited_by_their_type_and_class() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let hard = json!({
            "services.nodeports": "1", "services.loadbalancers": "0",
            "requests.storage": "10Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
        });
        create_quota(&cluster, "q", json!({"hard": hard})).await;
        let service = |name: &str, kind: &str| json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 1}]}});
        create(&cluster, SERVICES, service("a", "NodePort")).await;
        check_forbidden(
            cluster.post(SERVICES, service("b", "LoadBalancer").to_string()).await,
            "services \"b\"",
            "exceeded quota: q, requested: services.loadbalancers=1,services.nodeports=1, used: \
             services.loadbalancers=0,services.nodeports=1, limited: services.loadbalancers=0,services.nodeports=1",
        );
        create(&cluster, SERVICES, service("b", "ClusterIP")).await;
        let refused =
            cluster.patch(&format!("{SERVICES}/b"), "merge", json!({"spec": {"type": "NodePort"}}).to_string()).await;
        check_forbidden(
            refused,
            "services \"b\"",
            "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: \
             services.nodeports=1",
        );
        let claim = |name: &str, size: &str, class: &str| {
            json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": size}}}})
        };
        create(&cluster, CLAIMS, claim("a", "6Gi", "")).await;
        check_forbidden(
            cluster.post(CLAIMS, claim("b", "6Gi", "gold").to_string()).await,
            "persistentvolumeclaims \"b\"",
            "exceeded quota: q, requested: gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             requests.storage=6Gi, used: gold.storageclass.storage.k8s.io/persistentvolumeclaims=0,\
             requests.storage=6Gi, limited: gold.storageclass.storage.k8s.io/persistentvolumeclaims=0,\
             requests.storage=10Gi",
        );
        cluster.stop().await;
    });
}

#[test]
fn resource_claims_are_limited_by_their_devices() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
        create(&cluster, "/apis/resource.k8s.io/v1/deviceclasses", class).await;
        let devices = "gpu.deviceclass.resource.k8s.io/devices";
        create_quota(&cluster, "q", json!({"hard": {devices: "3", "requests.example.com/gpu": "4"}})).await;
        let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
        let claim = |name: &str, count: i64| {
            let exactly = json!({"deviceClassName": "gpu", "count": count});
            json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
        };
        create(&cluster, claims, claim("a", 2)).await;
        check_forbidden(
            cluster.post(claims, claim("b", 2).to_string()).await,
            "resourceclaims.resource.k8s.io \"b\"",
            &format!("exceeded quota: q, requested: {devices}=2, used: {devices}=2, limited: {devices}=3"),
        );
        // Pods and claims share the extended resource of a class.
        let gpus = |count: &str| json!({"requests": {"example.com/gpu": count}, "limits": {"example.com/gpu": count}});
        create(&cluster, PODS, pod("a", gpus("1"))).await;
        let used = json!({devices: "2", "requests.example.com/gpu": "3"});
        assert_eq!(status(&cluster, "q").await["used"], used);
        check_forbidden(
            cluster.post(PODS, pod("b", gpus("2")).to_string()).await,
            "pods \"b\"",
            "exceeded quota: q, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=3, limited: \
             requests.example.com/gpu=4",
        );
        let _ = cluster.delete(&format!("{claims}/a")).await.expect(200);
        wait_for_used(&cluster, "q", json!({devices: "0", "requests.example.com/gpu": "1"})).await;
        cluster.stop().await;
    });
}

#[test]
fn resizes_of_pods_are_charged_for_what_they_add() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create_quota(&cluster, "q", json!({"hard": {"requests.cpu": "1"}})).await;
        create(&cluster, PODS, pod("a", json!({"requests": {"cpu": "400m"}}))).await;
        let resize = async |cpu: &str| {
            let containers = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
            let patch = json!({"spec": {"containers": containers}}).to_string();
            cluster.patch(&format!("{PODS}/a/resize"), "strategic-merge", patch).await
        };
        let _ = resize("900m").await.expect(200);
        assert_eq!(status(&cluster, "q").await["used"], json!({"requests.cpu": "900m"}));
        check_forbidden(
            resize("1100m").await,
            "pods \"a\"",
            "exceeded quota: q, requested: requests.cpu=200m, used: requests.cpu=900m, limited: requests.cpu=1",
        );
        cluster.stop().await;
    });
}

#[test]
fn objects_of_any_kind_are_counted() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        create(
            &cluster,
            QUOTAS,
            json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/widgets.example.com": "1", "count/leases.coordination.k8s.io": "0"}}}),
        )
        .await;
        wait_for_used(&cluster, "q", json!({"count/leases.coordination.k8s.io": "0"})).await;
        let crd = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        });
        create(&cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
        // The controller counts the objects of a kind as soon as the kind is served.
        let used = |number: &str| json!({"count/leases.coordination.k8s.io": "0", "count/widgets.example.com": number});
        wait_for_used(&cluster, "q", used("0")).await;
        let widgets = "/apis/example.com/v1alpha1/namespaces/default/widgets";
        let widget =
            |name: &str| json!({"apiVersion": "example.com/v1alpha1", "kind": "Widget", "metadata": {"name": name}});
        create(&cluster, widgets, widget("a")).await;
        let exceeded = |kind: &str, limit: i64| {
            format!(
                "exceeded quota: q, requested: count/{kind}=1, used: count/{kind}={limit}, limited: count/{kind}={limit}"
            )
        };
        let second = cluster.post(widgets, widget("b").to_string()).await;
        check_forbidden(second, "widgets.example.com \"b\"", &exceeded("widgets.example.com", 1));
        let lease =
            cluster.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", config_map("l").to_string()).await;
        check_forbidden(lease, "leases.coordination.k8s.io \"l\"", &exceeded("leases.coordination.k8s.io", 0));
        let _ = cluster.delete(&format!("{widgets}/a")).await.expect(200);
        wait_for_used(&cluster, "q", used("0")).await;
        create(&cluster, widgets, widget("b")).await;
        cluster.stop().await;
    });
}

#[test]
fn limited_resources_need_a_quota() {
    run(async {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources:\n- resource: \
                    configmaps\n  matchContains: [count/]\n- resource: pods\n  matchScopes:\n  - scopeName: \
                    CrossNamespacePodAffinity\n    operator: Exists\n";
        let plugins = BTreeMap::from([("ResourceQuota".to_owned(), text.as_bytes().to_vec())]);
        let admission = AdmissionConfiguration { plugins, ..AdmissionConfiguration::default() };
        let cluster = Cluster::with_options(Options { admission, ..options() }).await;
        let refused = cluster.post(CONFIG_MAPS, config_map("a").to_string()).await;
        check_forbidden(refused, "configmaps \"a\"", "insufficient quota to consume: count/configmaps");
        create_quota(&cluster, "q", json!({"hard": {"count/configmaps": "1"}})).await;
        create(&cluster, CONFIG_MAPS, config_map("a")).await;
        create(&cluster, PODS, pod("a", json!({}))).await;
        let mut crossing = pod("b", json!({}));
        let term = json!({"labelSelector": {}, "topologyKey": "t", "namespaces": ["other"]});
        crossing["spec"]["affinity"] =
            json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let refused = cluster.post(PODS, crossing.to_string()).await.expect(500).json();
        assert_eq!(
            refused["message"],
            "insufficient quota to match these scopes: [{CrossNamespacePodAffinity Exists []}]"
        );
        create_quota(&cluster, "crossing", json!({"hard": {"pods": "1"}, "scopes": ["CrossNamespacePodAffinity"]}))
            .await;
        create(&cluster, PODS, crossing).await;
        cluster.stop().await;
    });
}

#[test]
fn quotas_limit_nothing_without_the_plugin() {
    run(async {
        let disabled = vec!["ResourceQuota".to_owned()];
        let admission = AdmissionConfiguration { disabled, ..AdmissionConfiguration::default() };
        let cluster = Cluster::with_options(Options { admission, ..options() }).await;
        create_quota(&cluster, "q", json!({"hard": {"pods": "0"}})).await;
        create(&cluster, PODS, pod("a", json!({}))).await;
        cluster.stop().await;
    });
}
