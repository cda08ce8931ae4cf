//! Quantities that are written as numbers: JSON keeps how they are written, YAML is made JSON first and does not.

use pintle_testkit::{Cluster, run};

#[test]
fn a_bare_number_is_a_quantity() {
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
            let made = cluster.request("POST", path).body(media_type, body).send().await.expect(201).json();
            assert_eq!(made["spec"]["limits"][0]["max"]["cpu"], expect, "{number} in {media_type}");
        }
        cluster.stop().await;
    });
}
