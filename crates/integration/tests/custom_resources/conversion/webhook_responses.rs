//! Valid and invalid responses of conversion webhooks. The cases of `answers.json` are ours. Their results were
//! recorded by `tools/conversion`, in which upstream's converter (`apiextensions-apiserver`, 1.36) converts the widget
//! `a` from v1 to v2.

use std::sync::Arc;
use std::time::Duration;

use pintle::Options;
use pintle_integration::{Cluster, advance_clock_until, eventually, manual_clock};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::webhook::{ConversionWebhook, WebhookBehavior};
use super::{
    CRD, cluster_with_webhook, convert, crd, define, webhook_conversion, widget_path, widget_v1, widgets_path,
};

/// A response of the webhook and the recorded result.
#[derive(Deserialize)]
struct RecordedCase {
    name: String,
    /// The CRD's `conversionReviewVersions`; only v1 if empty.
    #[serde(default)]
    reviews: Vec<String>,
    code: Option<u16>,
    r#type: Option<String>,
    /// The response body, as text or JSON. `$UID` is replaced with the request's UID.
    #[serde(rename = "answer")]
    response: Value,
    /// The expected object of a get at v2, without name and UID.
    shown: Option<Value>,
    /// The expected error message of a get at v2.
    error: Option<String>,
}

/// The widget that is converted.
fn widget() -> Value {
    let mut widget = widget_v1("a", "red");
    widget["metadata"]["labels"] = json!({"l": "1"});
    widget["metadata"]["annotations"] = json!({"n": "1"});
    widget
}

/// A CRD whose v2 has no schema, so that it preserves all fields.
fn schemaless_crd(webhook: &ConversionWebhook, reviews: &[String]) -> Value {
    let mut crd = crd("v1", &webhook_conversion(&webhook.client_config()));
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = anything;
    crd["spec"]["versions"][1]["selectableFields"].take();
    if !reviews.is_empty() {
        crd["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = json!(reviews);
    }
    crd
}

async fn check(cluster: &Cluster, webhook: &ConversionWebhook, uid: &str, case: &RecordedCase) {
    let body = match &case.response {
        Value::String(text) => text.clone(),
        json => json.to_string(),
    };
    webhook.set_behavior(WebhookBehavior::Respond {
        code: case.code.unwrap_or(200),
        media_type: case.r#type.clone().unwrap_or_else(|| "application/json".to_owned()),
        body: body.replace("\"u1\"", &format!("\"{uid}\"")).replace("uid: u1", &format!("uid: {uid}")),
    });
    let response = cluster.get(&widget_path("v2", "a")).await;
    if let Some(expect) = &case.error {
        let status = response.expect(500).json();
        let (_, review) = webhook.last_request();
        let request_uid = review["request"]["uid"].as_str().unwrap_or_default();
        let expect = expect.replace("$UID", request_uid).replace("u1", uid);
        assert_eq!(status["message"].as_str().unwrap_or_default(), expect, "{}", case.name);
        assert_eq!(status.get("reason"), None, "{}", case.name);
        return;
    }
    let mut shown = response.expect(200).json();
    assert_eq!(shown["apiVersion"], "example.com/v2", "{}", case.name);
    let metadata = shown.as_object_mut().and_then(|shown| shown.remove("metadata")).unwrap_or_default();
    assert_eq!((&metadata["name"], &metadata["uid"]), (&json!("a"), &json!(uid)), "{}", case.name);
    let mut found = shown;
    for key in ["apiVersion", "kind"] {
        found.as_object_mut().map(|found| found.remove(key));
    }
    found["labels"] = metadata["labels"].clone();
    found["annotations"] = metadata["annotations"].clone();
    assert_eq!(Some(&found), case.shown.as_ref(), "{}", case.name);
}

#[test]
fn responses_are_handled_as_recorded() {
    pintle_integration::run(async {
        let cases: Vec<RecordedCase> = serde_json::from_str(include_str!("answers.json")).expect("the recorded cases");
        let webhook = ConversionWebhook::start(WebhookBehavior::ConvertAll(convert)).await;
        let mut sets: Vec<&[String]> = cases.iter().map(|case| case.reviews.as_slice()).collect();
        sets.sort_unstable();
        sets.dedup();
        for reviews in sets {
            let cluster = Cluster::start().await;
            define(&cluster, &schemaless_crd(&webhook, reviews)).await;
            let created = cluster.post(&widgets_path("v1"), widget().to_string()).await.expect(201).json();
            let uid = created["metadata"]["uid"].as_str().expect("a uid");
            for case in cases.iter().filter(|case| case.reviews == reviews) {
                check(&cluster, &webhook, uid, case).await;
            }
            cluster.stop().await;
        }
    });
}

#[test]
fn the_request_is_the_same_as_upstreams() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        let created = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201).json();
        let _ = cluster.get(&widget_path("v2", "a")).await.expect(200);
        let (head, review) = webhook.last_request();
        assert!(head.starts_with("POST /convert?timeout=30s HTTP/1.1\r\n"), "{head}");
        for line in [
            "accept: application/json, */*",
            "content-type: application/json",
            "user-agent: kube-apiserver-admission",
            &format!("host: 127.0.0.1:{}", webhook.port()),
        ] {
            assert!(head.lines().any(|found| found == line), "{line} in {head}");
        }
        let mut stored = created;
        stored["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
        let uid = review["request"]["uid"].clone();
        assert_eq!(uid.as_str().map(str::len), Some(36));
        let expect = json!({
            "kind": "ConversionReview",
            "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": "example.com/v2", "objects": [stored]},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        });
        assert_eq!(review, expect);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let counted = "apiserver_conversion_webhook_request_total{failure_type=\"\",result=\"success\"} 1";
        assert!(metrics.contains(counted), "{metrics}");
        cluster.stop().await;
    });
}

/// Asserts the error message of a get for a webhook with this behavior. `PORT` stands for the webhook's port.
async fn expect_failure(cluster: &Cluster, webhook: &ConversionWebhook, behavior: WebhookBehavior, expect: &str) {
    webhook.set_behavior(behavior);
    let status = cluster.get(&widget_path("v2", "a")).await.expect(500).json();
    let message = status["message"].as_str().unwrap_or_default().replace(&webhook.port().to_string(), "PORT");
    let expect = format!("conversion webhook for example.com/v1, Kind=Widget failed: {expect}");
    assert_eq!(message, expect);
}

#[test]
fn a_malicious_webhook_fails_only_its_requests() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        expect_failure(&cluster, &webhook, WebhookBehavior::SendForever, "the response is too large").await;
        let broken = "unexpected error when reading response body. Please retry. Original error: unexpected EOF";
        expect_failure(&cluster, &webhook, WebhookBehavior::Disconnect, broken).await;
        // Redirects are not followed.
        let away = WebhookBehavior::RespondWithHeader(307, "Location: https://127.0.0.1:1/", "");
        expect_failure(
            &cluster,
            &webhook,
            away,
            "the server responded with the status code 307 but did not return more information",
        )
        .await;
        let deep = WebhookBehavior::Respond {
            code: 200,
            media_type: String::new(),
            body: format!("{{\"response\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000)),
        };
        webhook.set_behavior(deep);
        let _ = cluster.get(&widget_path("v2", "a")).await.expect(500);
        // Requests without a conversion succeed.
        let _ = cluster.get(&widget_path("v1", "a")).await.expect(200);
        webhook.set_behavior(WebhookBehavior::ConvertAll(convert));
        let _ = cluster.get(&widget_path("v2", "a")).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn unreachable_webhooks_are_reported() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        let cases = [
            (
                json!({"url": "https://127.0.0.1:1/"}),
                "Post \"https://127.0.0.1:1/?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused",
            ),
            (
                json!({"url": format!("https://127.0.0.1:{}", webhook.port())}),
                "Post \"https://127.0.0.1:PORT/?timeout=30s\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
            (
                json!({"service": {"namespace": "default", "name": "none", "path": "/a/b/"}}),
                "Post \"https://none.default.svc:443/a/b?timeout=30s\": service \"none\" not found",
            ),
        ];
        for (client, expect) in cases {
            let merge = json!({"spec": {"conversion": webhook_conversion(&client)}});
            // A merge patch would keep the URL or service of the previous configuration.
            let clear = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
            let _ = cluster.patch(CRD, "merge", clear.to_string()).await.expect(200);
            let _ = cluster.patch(CRD, "merge", merge.to_string()).await.expect(200);
            let prefix = "conversion webhook for example.com/v1, Kind=Widget failed: ";
            loop {
                let response = cluster.get(&widget_path("v2", "a")).await;
                let message = response.json()["message"].as_str().unwrap_or_default().to_owned();
                if message.replace(&webhook.port().to_string(), "PORT") == format!("{prefix}{expect}") {
                    break;
                }
                // The changed CRD may not be in effect yet.
                assert!(!message.contains(expect.split(": ").next().unwrap_or_default()), "{message}");
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn services_of_webhooks_are_resolved() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let webhook = ConversionWebhook::start(WebhookBehavior::ConvertAll(convert)).await;
        let service = json!({"service": {"namespace": "default", "name": "hooks", "path": "/convert"}, "caBundle": webhook.ca_bundle()});
        define(&cluster, &crd("v1", &webhook_conversion(&service))).await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        let service = json!({
            "metadata": {"name": "hooks"},
            "spec": {"clusterIP": "None", "ports": [{"name": "https", "port": 443}]},
        });
        let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
        let refused = cluster.get(&widget_path("v2", "a")).await.expect(500).json();
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(message.ends_with("cannot route to service with ClusterIP \"None\""), "{message}");
        // Endpoints with a loopback address are forbidden, but an external name may be `localhost`.
        let outside =
            json!({"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": "", "clusterIPs": null}});
        let _ =
            cluster.patch("/api/v1/namespaces/default/services/hooks", "merge", outside.to_string()).await.expect(200);
        let port = json!([{"op": "replace", "path": "/spec/conversion/webhook/clientConfig/service/port", "value": webhook.port()}]);
        let _ = cluster.patch(CRD, "json", port.to_string()).await.expect(200);
        cluster.get_until_status(&widget_path("v2", "a"), 200).await;
        let (head, _) = webhook.last_request();
        let host = format!("host: hooks.default.svc:{}", webhook.port());
        assert!(head.lines().any(|line| line == host), "{head}");
        cluster.stop().await;
    });
}

#[test]
fn slow_webhooks_delay_only_their_requests_and_time_out() {
    pintle_integration::run(async {
        let clock = manual_clock();
        let cluster = Cluster::with_options(Options { clock: clock.clone(), ..Options::default() }).await;
        let webhook = ConversionWebhook::start(WebhookBehavior::ConvertAll(convert)).await;
        define(&cluster, &crd("v1", &webhook_conversion(&webhook.client_config()))).await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        let _ = webhook.take_requests();
        let permits = Arc::new(Semaphore::new(0));
        webhook.set_behavior(WebhookBehavior::ConvertWhenAllowed(permits.clone(), convert));
        let (v2_path, list) = (widget_path("v2", "a"), widgets_path("v2"));
        let waiting = futures_util::future::join(cluster.get(&v2_path), cluster.get(&list));
        let meanwhile = async {
            eventually("both reads call the webhook", || async { webhook.request_count() >= 2 }).await;
            for _ in 0..3 {
                let _ = cluster.get(&widget_path("v1", "a")).await.expect(200);
                let change = r#"{"spec": {"colour": "green"}}"#;
                let _ = cluster.patch(&widget_path("v1", "a"), "merge", change).await.expect(200);
            }
            permits.add_permits(2);
        };
        let ((one, all), ()) = futures_util::future::join(waiting, meanwhile).await;
        assert_eq!(one.expect(200).json()["spec"]["hue"], "red");
        assert_eq!(all.expect(200).json()["items"][0]["spec"]["hue"], "red");
        // A response with Retry-After is retried.
        webhook.set_behavior(WebhookBehavior::RespondWithHeader(429, "Retry-After: 1", ""));
        let _ = webhook.take_requests();
        let recovers = async {
            eventually("the webhook is called", || async { webhook.request_count() > 0 }).await;
            webhook.set_behavior(WebhookBehavior::ConvertAll(convert));
        };
        let asking = futures_util::future::join(advance_clock_until(&clock, cluster.get(&v2_path)), recovers);
        let _ = asking.await.0.expect(200);
        webhook.set_behavior(WebhookBehavior::ConvertWhenAllowed(Arc::new(Semaphore::new(0)), convert));
        let given_up = advance_clock_until(&clock, cluster.get(&v2_path)).await.expect(500).json();
        let message = given_up["message"].as_str().unwrap_or_default().replace(&webhook.port().to_string(), "PORT");
        assert_eq!(
            message,
            "conversion webhook for example.com/v1, Kind=Widget failed: Post \"https://127.0.0.1:PORT/convert?timeout=30s\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
        );
        tokio::time::timeout(Duration::from_secs(60), cluster.stop()).await.expect("a stop");
    });
}
