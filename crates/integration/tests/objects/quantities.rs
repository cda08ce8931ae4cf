//! Quantities that are written as numbers. In JSON, the server parses the number as written. YAML is converted to JSON
//! first, which normalizes the number.

use pintle_integration::{Cluster, run};

#[test]
fn quantities_can_be_written_as_numbers() {
    run(async {
        let cluster = Cluster::start().await;
        let path = "/api/v1/namespaces/default/limitranges?dryRun=All";
        for (media_type, number, expect) in [
            ("application/json", "2", "2"),
            ("application/json", "1.5", "1500m"),
            ("application/json", "2e3", "2e3"),
            ("application/yaml", "1.5", "1500m"),
            ("application/yaml", "2e3", "2k"),
            ("application/yaml", "2e21", "2e+21"),
        ] {
            let body = format!(
                r#"{{"metadata": {{"name": "x"}}, "spec": {{"limits": [{{"type": "Pod", "max": {{"cpu": {number}}}}}]}}}}"#
            );
            let created = cluster.request("POST", path).body(media_type, body).send().await.expect(201).json();
            assert_eq!(created["spec"]["limits"][0]["max"]["cpu"], expect, "{number} in {media_type}");
        }
        cluster.stop().await;
    });
}
