//! Reviews of authentication and authorization, which admission webhooks do not see since 1.37.

use std::collections::BTreeMap;

use pintle_gates::Gates;
use pintle_integration::{Cluster, Options, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::json;

use super::webhook::{Behavior, MUTATING, VALIDATING, Webhook, allow, configure, rule};
use super::{CONFIGMAPS, config_map};

#[test]
fn webhooks_see_no_reviews_since_1_37() {
    let gates = |minor: u8, changed: &BTreeMap<String, bool>| {
        let (gates, _) =
            Gates::of(EffectiveVersion::of(Minor::new(minor))).overridden(changed).expect("settable feature gates");
        gates
    };
    let off = BTreeMap::from([("ExcludeAdmissionWebhookVirtualResources".to_owned(), false)]);
    run(async move {
        let webhook = Webhook::start(Behavior::Respond(allow)).await;
        for (gates, sees_reviews) in
            [(gates(36, &BTreeMap::new()), true), (gates(37, &off), true), (gates(37, &BTreeMap::new()), false)]
        {
            let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
            for path in [MUTATING, VALIDATING] {
                let rules = [rule(&["*"], &["*"])];
                configure(&cluster, path, "w", &[webhook.configured("w.example.com", &rules, &json!({}))]).await;
                for review in [
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
                    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                    "/apis/authentication.k8s.io/v1/tokenreviews",
                ] {
                    let _ = webhook.take();
                    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
                    let spec = json!({"resourceAttributes": attributes, "user": "u", "token": "t"});
                    let _ = cluster.post(review, json!({ "spec": spec }).to_string()).await.expect(201);
                    assert_eq!(webhook.take().len(), usize::from(sees_reviews), "{path} {review}");
                }
                let _ = cluster.post(&format!("{CONFIGMAPS}?dryRun=All"), config_map("c")).await.expect(201);
                assert_eq!(webhook.take().len(), 1, "{path}");
                let _ = cluster.delete(&format!("{path}/w")).await.expect(200);
            }
            cluster.stop().await;
        }
    });
}
