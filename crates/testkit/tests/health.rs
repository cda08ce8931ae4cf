//! The health endpoints `/livez`, `/readyz` and `/healthz`, and the metrics of feature gates.

use pintle::Options;
use pintle_gates::Gates;
use pintle_testkit::{Cluster, run};

#[test]
fn health_checks_pass_for_anonymous_clients() {
    run(async {
        let cluster = Cluster::durable().await;
        for path in ["/livez", "/readyz", "/healthz", "/readyz/etcd", "/readyz/informer-sync"] {
            let response = cluster.request("GET", path).anonymous().send().await.expect(200);
            assert_eq!(response.text(), "ok", "{path}");
        }
        let verbose = cluster.request("GET", "/readyz?verbose&exclude=log").anonymous().send().await.expect(200).text();
        assert_eq!(
            verbose,
            "[+]ping ok\n[+]log excluded: ok\n[+]etcd ok\n[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n"
        );
        let _ = cluster.request("GET", "/metrics").anonymous().send().await.expect(401);
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
