//! The protocol of calls to webhooks, and the sharing of connections.

use std::sync::Arc;

use pintle_integration::{Cluster, eventually, run};
use serde_json::json;
use tokio::sync::Semaphore;

use super::webhook::{Behavior, VALIDATING, Webhook, allow, configure, rule};
use super::{CONFIGMAPS, config_map};

#[test]
fn webhooks_of_the_own_host_are_called_in_http2_and_services_in_http1() {
    run(async {
        let cluster = Cluster::start().await;
        let service =
            json!({"metadata": {"name": "hooks"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
        let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
        let (modern, old) =
            (Webhook::start_with_http2(Behavior::Respond(allow)).await, Webhook::start(Behavior::Respond(allow)).await);
        let rules = [rule(&["*"], &["configmaps"])];
        let reference = |webhook: &Webhook| {
            let service = json!({"namespace": "default", "name": "hooks", "port": webhook.server.port});
            json!({"clientConfig": {"service": service, "caBundle": webhook.server.ca_bundle()}})
        };
        for (webhook, client, expect) in [
            (&modern, json!({}), "HTTP/2.0"),
            (&modern, reference(&modern), "HTTP/1.1"),
            (&old, json!({}), "HTTP/1.1"),
            (&old, reference(&old), "HTTP/1.1"),
        ] {
            configure(&cluster, VALIDATING, "w", &[webhook.configured("w.example.com", &rules, &client)]).await;
            let _ = cluster.post(&format!("{CONFIGMAPS}?dryRun=All"), config_map("c")).await.expect(201);
            assert_eq!(webhook.last().0.protocol(), expect, "{client}");
        }
        cluster.stop().await;
    });
}

#[test]
fn concurrent_calls_share_an_http2_connection() {
    const CALLS: usize = 64;
    run(async {
        let cluster = Arc::new(Cluster::start().await);
        let permits = Arc::new(Semaphore::new(0));
        let webhook = Webhook::start_with_http2(Behavior::Wait(permits.clone())).await;
        let rules = [rule(&["*"], &["configmaps"])];
        configure(&cluster, VALIDATING, "w", &[webhook.configured("w.example.com", &rules, &json!({}))]).await;
        let creates = (0..CALLS).map(|number| {
            let cluster = cluster.clone();
            tokio::spawn(async move { cluster.post(CONFIGMAPS, config_map(&format!("c{number}"))).await.expect(201) })
        });
        let creates: Vec<_> = creates.collect();
        // All calls are in progress before the first one is answered.
        let mut count = 0;
        let all_called = || {
            count += webhook.take().len();
            std::future::ready(count >= CALLS)
        };
        eventually("all creates call the webhook", all_called).await;
        permits.add_permits(CALLS);
        for create in creates {
            let _ = create.await.expect("a created object");
        }
        assert_eq!(webhook.server.connection_count(), 1);
        Arc::into_inner(cluster).expect("no other user").stop().await;
    });
}

#[test]
fn responses_of_http2_webhooks_are_bounded() {
    run(async {
        let cluster = Cluster::start().await;
        let webhook = Webhook::start_with_http2(Behavior::Endless).await;
        let rules = [rule(&["*"], &["configmaps"])];
        configure(&cluster, VALIDATING, "w", &[webhook.configured("w.example.com", &rules, &json!({}))]).await;
        let call = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: ";
        let response = cluster.post(CONFIGMAPS, config_map("c")).await;
        response.expect_error(500, "InternalError", &format!("{call}the response is too large"));
        webhook.set(Behavior::CutOff);
        let message = cluster.post(CONFIGMAPS, config_map("c")).await.expect(500).json()["message"].to_string();
        // The server may drop the head of the response with its body.
        assert!(message.contains("; INTERNAL_ERROR; received from peer"), "{message}");
        // The connection is still usable.
        webhook.set(Behavior::Respond(allow));
        let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        assert_eq!(webhook.server.connection_count(), 1);
        cluster.stop().await;
    });
}
