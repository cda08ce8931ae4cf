//! The health endpoints `/livez`, `/readyz` and `/healthz`, and the metrics of feature gates.

use pintle::Options;
use pintle_gates::Gates;
use pintle_integration::{Cluster, run};

#[test]
fn health_checks_pass() {
    run(async {
        let cluster = Cluster::durable().await;
        for path in ["/livez", "/readyz", "/healthz"] {
            let response = cluster.get(path).await.expect(200);
            assert_eq!(response.text(), "ok", "{path}");
            assert_eq!(response.headers["content-type"], "text/plain; charset=utf-8");
            assert_eq!(response.headers["x-content-type-options"], "nosniff");
        }
        let _ = cluster.request("GET", "/metrics").anonymous().send().await.expect(401);
        cluster.stop().await;
    });
}

/// The checks of a server with all tasks, in the order of kube-apiserver. Checks that only `/readyz` has are marked.
const CHECKS: &[(&str, bool)] = &[
    ("ping", false),
    ("log", false),
    ("etcd", false),
    ("etcd-readiness", true),
    ("informer-sync", true),
    ("poststarthook/start-apiserver-admission-initializer", false),
    ("poststarthook/generic-apiserver-start-informers", false),
    ("poststarthook/priority-and-fairness-config-consumer", false),
    ("poststarthook/priority-and-fairness-filter", false),
    ("poststarthook/start-apiextensions-informers", false),
    ("poststarthook/start-apiextensions-controllers", false),
    ("poststarthook/crd-informer-synced", false),
    ("poststarthook/start-system-namespaces-controller", false),
    ("poststarthook/start-kube-apiserver-identity-lease-controller", false),
    ("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", false),
    ("poststarthook/start-legacy-token-tracking-controller", false),
    ("poststarthook/storage-readiness", false),
    ("poststarthook/start-service-ip-repair-controllers", false),
    ("poststarthook/rbac/bootstrap-roles", false),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", false),
    ("poststarthook/priority-and-fairness-config-producer", false),
    ("poststarthook/bootstrap-controller", false),
    ("poststarthook/start-kubernetes-service-cidr-controller", false),
    ("poststarthook/apiservice-status-local-available-controller", false),
    ("poststarthook/apiservice-status-remote-available-controller", false),
    ("poststarthook/apiservice-discovery-controller", false),
    ("poststarthook/kube-apiserver-autoregistration", false),
    ("autoregister-completion", false),
    ("poststarthook/apiservice-openapi-controller", false),
    ("poststarthook/apiservice-openapiv3-controller", false),
    ("namespace-controller", false),
    ("garbage-collector-controller", false),
    ("serviceaccount-token-controller", false),
    ("legacy-serviceaccount-token-cleaner-controller", false),
    ("clusterrole-aggregation-controller", false),
    ("persistentvolumeclaim-protection-controller", false),
    ("persistentvolume-protection-controller", false),
    ("volumeattributesclass-protection-controller", false),
    ("service-cidr-controller", false),
    ("resourcequota-controller", false),
    ("validatingadmissionpolicy-status-controller", false),
    ("watch-terminator", false),
    ("certificates", false),
    ("listener", false),
    ("shutdown", true),
];

#[test]
fn health_checks_have_the_names_and_the_order_of_upstream() {
    run(async {
        let options = Options {
            register: true,
            rbac_bootstrap: Some(true),
            resource_quotas: true,
            policy_type_checks: true,
            flow_control: true,
            service_cidr_protection: true,
            api_services: true,
            ..Options::default()
        };
        let cluster = Cluster::with_options(options).await;
        let text = async |path: &str| cluster.get(path).await.expect(200).text();
        let mut paths: Vec<String> = Vec::new();
        for endpoint in ["livez", "readyz", "healthz"] {
            let checks = CHECKS.iter().filter(|(_, only_readyz)| !only_readyz || endpoint == "readyz");
            let checks: Vec<&str> = checks.map(|(name, _)| *name).collect();
            let lines: String = checks.iter().map(|name| format!("[+]{name} ok\n")).collect();
            let passed = format!("{endpoint} check passed\n");
            assert_eq!(text(&format!("/{endpoint}?verbose")).await, format!("{lines}{passed}"));
            let excluded = lines.replace("]etcd ok", "]etcd excluded: ok").replace("]log ok", "]log excluded: ok");
            let warning = "warn: some health checks cannot be excluded: no matches for \"a\",\"b c\"\n";
            let query = "verbose=1&exclude=b+c&exclude=log&exclude=etcd&exclude=a&exclude=log";
            assert_eq!(text(&format!("/{endpoint}?{query}")).await, format!("{excluded}{warning}{passed}"));
            assert_eq!(text(&format!("/{endpoint}?exclude=a")).await, "ok");
            for name in checks {
                assert_eq!(text(&format!("/{endpoint}/{name}")).await, "ok", "{name}");
                paths.push(format!("/{endpoint}/{name}"));
            }
            let unknown = cluster.get(&format!("/{endpoint}/unknown")).await.expect(404);
            assert_eq!(unknown.text(), "404 page not found\n");
        }
        let _ = cluster.get("/livez/shutdown").await.expect(404);
        let index = cluster.get("/").await.expect(200).json();
        let listed: Vec<&str> =
            index["paths"].as_array().expect("paths").iter().filter_map(|path| path.as_str()).collect();
        assert!(paths.iter().all(|path| listed.contains(&path.as_str())), "{listed:?}");
        cluster.stop().await;
    });
}

#[test]
fn tasks_that_a_server_does_not_have_are_not_checked() {
    run(async {
        let cluster = Cluster::with_options(Options { controllers: false, ..Options::default() }).await;
        let text = cluster.get("/readyz?verbose").await.expect(200).text();
        assert!(!text.contains("identity-lease") && !text.contains("namespace-controller"), "{text}");
        assert!(text.contains("[+]poststarthook/crd-informer-synced ok"), "{text}");
        cluster.stop().await;
    });
}

#[test]
fn metrics_list_the_enabled_features() {
    run(async {
        let settings = [("CBORServingAndStorage".to_owned(), true), ("APIResponseCompression".to_owned(), false)];
        let (gates, _) = Gates::with_overrides(&settings.into()).expect("settable feature gates");
        let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
        let metrics = cluster.get("/metrics").await.expect(200).text();
        for line in [
            r#"kubernetes_feature_enabled{name="CBORServingAndStorage",stage="ALPHA"} 1"#,
            r#"kubernetes_feature_enabled{name="APIResponseCompression",stage="BETA"} 0"#,
            r#"kubernetes_feature_enabled{name="DynamicResourceAllocation",stage=""} 1"#,
            r#"kubernetes_feature_enabled{name="KMSv1",stage="DEPRECATED"} 0"#,
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line}");
        }
        cluster.stop().await;
    });
}
