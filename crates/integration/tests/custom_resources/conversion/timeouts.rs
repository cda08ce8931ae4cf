//! Requests that wait for a conversion: their time limits, and writes that outlive their requests.

use std::sync::Arc;

use pintle_integration::{Cluster, expect_waiting};
use serde_json::json;
use tokio::sync::Semaphore;

use super::webhook::{ConversionWebhook, WebhookBehavior};
use super::{convert, crd, define, webhook_conversion, widget_path, widget_v1, widget_v2, widgets_path};

/// A cluster with the widget `a`, whose webhook converts only with a permit.
async fn cluster_with_waiting_webhook() -> (Cluster, ConversionWebhook, Arc<Semaphore>) {
    let cluster = Cluster::durable().await;
    let permits = Arc::new(Semaphore::new(0));
    let webhook = ConversionWebhook::start(WebhookBehavior::ConvertWhenAllowed(permits.clone(), convert)).await;
    define(&cluster, &crd("v1", &webhook_conversion(&webhook.client_config()))).await;
    let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
    (cluster, webhook, permits)
}

#[test]
fn a_read_that_takes_too_long_is_answered_with_a_timeout() {
    pintle_integration::run(async {
        let (cluster, webhook, permits) = cluster_with_waiting_webhook().await;
        let response = cluster.get(&format!("{}?timeout=200ms", widget_path("v2", "a"))).await.expect(504);
        assert_eq!(response.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(
            response.json(),
            json!({
                "metadata": {},
                "status": "Failure",
                "message": "Timeout: request did not complete within the allotted timeout",
                "reason": "Timeout",
                "details": {},
                "code": 504,
            })
        );
        assert!(webhook.request_count() > 0);
        permits.add_permits(Semaphore::MAX_PERMITS);
        let _ = cluster.get(&widget_path("v2", "a")).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn a_write_that_takes_too_long_goes_on_after_its_timeout() {
    pintle_integration::run(async {
        let (cluster, _webhook, permits) = cluster_with_waiting_webhook().await;
        let path = format!("{}?timeout=200ms", widgets_path("v2"));
        let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
        let response = cluster.post(&path, widget_v2("b", "red").to_string()).await;
        response.expect_error(504, "Timeout", message);
        let _ = cluster.get(&widget_path("v1", "b")).await.expect(404);
        permits.add_permits(Semaphore::MAX_PERMITS);
        cluster.get_until_status(&widget_path("v1", "b"), 200).await;
        cluster.stop().await;
    });
}

#[test]
fn a_server_stops_only_after_the_writes_whose_clients_have_gone() {
    pintle_integration::run(async {
        let (cluster, webhook, permits) = cluster_with_waiting_webhook().await;
        let path = format!("{}?timeout=200ms", widgets_path("v2"));
        let _ = cluster.post(&path, widget_v2("b", "red").to_string()).await.expect(504);
        assert!(webhook.request_count() > 0);
        let mut stop = Box::pin(cluster.stop_server());
        expect_waiting("the stop of the server", &mut stop).await;
        permits.add_permits(Semaphore::MAX_PERMITS);
        stop.await;
        cluster.start_server().await;
        let _ = cluster.get(&widget_path("v1", "b")).await.expect(200);
        cluster.stop().await;
    });
}
