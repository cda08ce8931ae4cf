//! Lists with label and field selectors.

use pintle_integration::Options;
use serde_json::json;

use super::{CONFIGMAPS, PODS, check, cluster, create, url_encode};

#[test]
fn label_selectors_filter_lists() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for (name, labels) in [
            ("a", json!({"app": "x", "tier": "f", "n": "1"})),
            ("b", json!({"app": "x", "n": "10"})),
            ("c", json!({"app": "y", "tier": "b", "example.com/long": ""})),
            ("d", json!({})),
        ] {
            create(&cluster, CONFIGMAPS, json!({"metadata": {"name": name, "labels": labels}})).await;
        }
        for (selector, expect) in [
            ("", "a b c d"),
            ("app=x", "a b"),
            ("app==x", "a b"),
            ("app!=x", "c d"),
            ("app in (x,y)", "a b c"),
            ("app in ( x )", "a b"),
            ("app notin (x)", "c d"),
            ("app notin (x,y)", "d"),
            ("app", "a b c"),
            ("!app", "d"),
            ("app=x,tier", "a"),
            ("!tier,app=x", "b"),
            ("tier in (f,b),app!=y", "a"),
            ("n>1", "b"),
            ("n<10", "a"),
            ("example.com/long", "c"),
            ("example.com/long=", "c"),
            ("app=z", ""),
        ] {
            check(&cluster, CONFIGMAPS, &format!("labelSelector={}", url_encode(selector)), expect).await;
            check(&cluster, "/api/v1/configmaps", &format!("labelSelector={}", url_encode(selector)), expect).await;
        }
        for selector in ["===", "a in", "a in (", "a,,b", "-a=b", "a=b c", "a>x"] {
            let response = cluster.get(&format!("{CONFIGMAPS}?labelSelector={}", url_encode(selector))).await;
            assert_eq!(response.expect(400).json()["reason"], "BadRequest", "{selector}");
        }
    });
}

#[test]
fn field_selectors_filter_lists() {
    pintle_integration::run(async {
        let cluster = cluster(Options::default()).await;
        for (name, node, policy) in [("a", "n1", "Always"), ("b", "n2", "Never"), ("c", "", "Always")] {
            let containers = json!([{"name": "c", "image": "i"}]);
            let spec = json!({"containers": containers, "nodeName": node, "restartPolicy": policy});
            create(&cluster, PODS, json!({"metadata": {"name": name}, "spec": spec})).await;
        }
        let _ = cluster
            .patch(&format!("{PODS}/b/status"), "merge", r#"{"status": {"phase": "Running"}}"#)
            .await
            .expect(200);
        for (selector, expect) in [
            ("", "a b c"),
            ("metadata.name=a", "a"),
            ("metadata.name==a", "a"),
            ("metadata.name!=a", "b c"),
            ("metadata.name=a,metadata.name=b", ""),
            ("metadata.namespace=n", "a b c"),
            ("metadata.namespace=other", ""),
            ("spec.nodeName=n1", "a"),
            ("spec.nodeName=", "c"),
            ("spec.nodeName!=n1", "b c"),
            ("spec.nodeName!=n1,spec.restartPolicy=Always", "c"),
            ("status.phase=Running", "b"),
            ("status.phase=Pending", "a c"),
        ] {
            check(&cluster, PODS, &format!("fieldSelector={}", url_encode(selector)), expect).await;
            check(&cluster, "/api/v1/pods", &format!("fieldSelector={}", url_encode(selector)), expect).await;
        }
        for (path, selector, message) in [
            (PODS, "spec.hostname=a", "field label not supported: spec.hostname"),
            (
                CONFIGMAPS,
                "data.k=1",
                "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            (CONFIGMAPS, "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        ] {
            let response = cluster.get(&format!("{path}?fieldSelector={}", url_encode(selector))).await;
            response.expect_error(400, "BadRequest", message);
        }
    });
}
