//! Webhooks that deny requests, misbehave or cannot be reached.

use std::sync::Arc;

use pintle_integration::{
    Cluster, HttpsServer, Options, SentResponse, advance_clock_until, eventually, manual_clock, run,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::webhook::{Behavior, MUTATING, VALIDATING, Webhook, allow, configure, patch, rule};
use super::{CONFIGMAPS, config_map};

async fn start_kind(path: &str, more: &Value) -> (Cluster, Webhook) {
    let cluster = Cluster::start().await;
    let webhook = Webhook::start(Behavior::Respond(allow)).await;
    let rules = [rule(&["*"], &["configmaps"])];
    configure(&cluster, path, "w", &[webhook.configured("w.example.com", &rules, more)]).await;
    (cluster, webhook)
}

#[test]
fn a_denial_is_the_response_with_its_status() {
    run(async {
        for path in [MUTATING, VALIDATING] {
            let (cluster, webhook) = start_kind(path, &json!({})).await;
            for (status, code, reason, message) in [
                (Value::Null, 400, "", " without explanation"),
                (json!({"message": "no"}), 400, "", ": no"),
                (json!({"code": 403, "reason": "Forbidden"}), 403, "Forbidden", ": Forbidden"),
                (json!({"code": 409, "reason": "Conflict", "message": "so"}), 409, "Conflict", ": so"),
                (json!({"code": 200, "status": "Success", "message": "so"}), 400, "", ": so"),
            ] {
                let mut response = json!({"allowed": false, "warnings": ["w1", "w2"]});
                if !status.is_null() {
                    response["status"] = status;
                }
                webhook.set(Behavior::With(response));
                let denied = cluster.post(CONFIGMAPS, config_map("c")).await.expect(code);
                assert_eq!(denied.header("warning"), "299 - \"w1\"", "{path}");
                let mut expect = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                    "message": format!("admission webhook \"w.example.com\" denied the request{message}"),
                });
                if !reason.is_empty() {
                    expect["reason"] = json!(reason);
                }
                assert_eq!(denied.json(), expect, "{path}");
            }
            let _ = cluster.get(&format!("{CONFIGMAPS}/c")).await.expect(404);
            cluster.stop().await;
        }
    });
}

const CALL: &str = "Internal error occurred: failed calling webhook \"w.example.com\": ";

/// Checks the result of a create with each failure policy.
async fn check_failure(path: &str, behavior: Behavior, expect: &str) {
    let (cluster, webhook) = start_kind(path, &json!({})).await;
    webhook.set(behavior);
    let expect = expect.replace("$URL", &webhook.server.url("/review?timeout=10s"));
    cluster.post(CONFIGMAPS, config_map("c")).await.expect_error(500, "InternalError", &format!("{CALL}{expect}"));
    let rules = [rule(&["*"], &["configmaps"])];
    let ignoring = webhook.configured("w.example.com", &rules, &json!({"failurePolicy": "Ignore"}));
    configure(&cluster, path, "w", &[ignoring]).await;
    let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
    cluster.stop().await;
}

#[test]
fn answers_that_are_no_reviews_are_failures() {
    run(async {
        let answer = |fields: &str| {
            format!(
                r#"{{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                     "response": {{"uid": "$UID", "allowed": true{fields}}}}}"#
            )
        };
        let invalid = "received invalid webhook response: ";
        for (code, body, expect) in [
            (200, "{}".to_owned(), format!("{invalid}webhook response was absent")),
            (
                200,
                answer(r#", "patchType": "JSONPatch""#),
                format!("{invalid}webhook returned response.patchType but not response.patch"),
            ),
            (
                200,
                answer(r#", "patchType": "Other", "patch": "W3t9XQ==""#),
                "unsupported patch type \"Other\"".to_owned(),
            ),
            (
                200,
                answer(r#", "patchType": "JSONPatch", "patch": "eA==""#),
                "received undecodable patch in webhook response: invalid character 'x' looking for beginning of value"
                    .to_owned(),
            ),
            (
                200,
                r#"{"kind": "Pod", "apiVersion": "v1"}"#.to_owned(),
                "failed to call webhook: no kind \"Pod\" is registered for version \"v1\" in scheme \
                 \"k8s.io/apiserver/pkg/util/webhook/client.go:71\""
                    .to_owned(),
            ),
            (
                500,
                "oops".to_owned(),
                "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding"
                    .to_owned(),
            ),
            (404, String::new(), "failed to call webhook: the server could not find the requested resource".to_owned()),
        ] {
            check_failure(MUTATING, Behavior::Send(code, body), &expect).await;
        }
    });
}

#[test]
fn redirects_are_not_followed() {
    run(async {
        let (cluster, webhook) = start_kind(VALIDATING, &json!({})).await;
        let elsewhere = Webhook::start(Behavior::Respond(allow)).await;
        webhook.set(Behavior::Redirect(elsewhere.server.url("/review")));
        let why = "the server responded with the status code 307 but did not return more information";
        let message = format!("{CALL}failed to call webhook: {why}");
        cluster.post(CONFIGMAPS, config_map("c")).await.expect_error(500, "InternalError", &message);
        assert_eq!(elsewhere.take(), [Value::Null; 0]);
        cluster.stop().await;
    });
}

#[test]
fn a_wrong_uid_is_a_failure() {
    run(async {
        let (cluster, webhook) = start_kind(VALIDATING, &json!({})).await;
        let body = r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "wrong", "allowed": true}}"#;
        webhook.set(Behavior::Send(200, body.to_owned()));
        let error = cluster.post(CONFIGMAPS, config_map("c")).await.expect(500).json();
        let uid = webhook.last().1["request"]["uid"].as_str().expect("a uid").to_owned();
        let expect = format!("{CALL}received invalid webhook response: expected response.uid=\"{uid}\", got \"wrong\"");
        assert_eq!(error["message"], expect);
        cluster.stop().await;
    });
}

#[test]
fn a_validating_webhook_may_not_patch() {
    run(async {
        let why = "received invalid webhook response: validating webhook may not return response.patch";
        check_failure(VALIDATING, Behavior::With(patch(&json!([]))), why).await;
    });
}

#[test]
fn broken_and_endless_answers_are_failures() {
    run(async {
        let reading =
            "failed to call webhook: unexpected error when reading response body. Please retry. Original error: ";
        check_failure(VALIDATING, Behavior::CutOff, &format!("{reading}unexpected EOF")).await;
        check_failure(VALIDATING, Behavior::Endless, "failed to call webhook: the response is too large").await;
    });
}

#[test]
fn webhooks_that_cannot_be_reached_are_failures() {
    run(async {
        let (cluster, webhook) = start_kind(VALIDATING, &json!({})).await;
        let rules = [rule(&["*"], &["configmaps"])];
        let other = Webhook::start_with_names(&["other.example.com"], Behavior::Respond(allow)).await;
        let url = other.server.url("/review");
        for (client, expect) in [
            (
                json!({"url": url, "caBundle": other.server.ca_bundle()}),
                format!(
                    "failed to call webhook: Post \"{url}?timeout=10s\": tls: failed to verify certificate: x509: cannot \
                     validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
                ),
            ),
            (
                json!({"url": webhook.server.url("/x"), "caBundle": other.server.ca_bundle()}),
                format!(
                    "failed to call webhook: Post \"{}?timeout=10s\": tls: failed to verify certificate: x509: \
                     certificate signed by unknown authority",
                    webhook.server.url("/x")
                ),
            ),
            (
                json!({"service": {"namespace": "default", "name": "hooks", "path": "/a/b"}, "caBundle": webhook.server.ca_bundle()}),
                "failed to call webhook: Post \"https://hooks.default.svc:443/a/b?timeout=10s\": service \"hooks\" not found"
                    .to_owned(),
            ),
        ] {
            let configured = webhook.configured("w.example.com", &rules, &json!({"clientConfig": client}));
            configure(&cluster, VALIDATING, "w", &[configured]).await;
            cluster.post(CONFIGMAPS, config_map("c")).await.expect_error(500, "InternalError", &format!("{CALL}{expect}"));
        }
        cluster.stop().await;
    });
}

#[test]
fn services_are_called_at_their_address_by_their_name() {
    run(async {
        let (cluster, webhook) = start_kind(VALIDATING, &json!({})).await;
        let service =
            json!({"metadata": {"name": "hooks"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
        let _ = cluster.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
        let rules = [rule(&["*"], &["configmaps"])];
        // The certificate has to be for the name of the service, not for `localhost`.
        let named = Webhook::start_with_names(&["hooks.default.svc"], Behavior::Respond(allow)).await;
        let port = named.server.port;
        let reference = json!({"namespace": "default", "name": "hooks", "path": "/a", "port": port});
        let client = json!({"service": reference, "caBundle": named.server.ca_bundle()});
        let configured = webhook.configured("w.example.com", &rules, &json!({"clientConfig": client}));
        configure(&cluster, VALIDATING, "w", &[configured]).await;
        let _ = cluster.post(CONFIGMAPS, config_map("c")).await.expect(201);
        let (request, _) = named.last();
        assert_eq!(request.path, "/a?timeout=10s");
        let host = format!("hooks.default.svc:{port}");
        assert_eq!(request.header("host"), Some(&*host));
        cluster.stop().await;
    });
}

#[test]
fn a_slow_webhook_fails_after_its_timeout() {
    run(async {
        let clock = manual_clock();
        let cluster = Cluster::with_options(Options { clock: clock.clone(), ..Options::default() }).await;
        let permits = Arc::new(Semaphore::new(0));
        let webhook = Webhook::start(Behavior::Wait(permits)).await;
        let rules = [rule(&["*"], &["configmaps"])];
        let configured = webhook.configured("w.example.com", &rules, &json!({"timeoutSeconds": 2}));
        configure(&cluster, VALIDATING, "w", &[configured]).await;
        let response = advance_clock_until(&clock, cluster.post(CONFIGMAPS, config_map("c"))).await;
        let url = webhook.server.url("/review?timeout=2s");
        let expect = format!("{CALL}failed to call webhook: Post \"{url}\": context deadline exceeded");
        response.expect_error(500, "InternalError", &expect);
        cluster.stop().await;
    });
}

#[test]
fn validating_webhooks_are_called_at_the_same_time() {
    run(async {
        let cluster = Cluster::start().await;
        let permits = Arc::new(Semaphore::new(0));
        let (one, two) =
            (Webhook::start(Behavior::Wait(permits.clone())).await, Webhook::start(Behavior::Respond(allow)).await);
        let rules = [rule(&["*"], &["configmaps"])];
        configure(
            &cluster,
            VALIDATING,
            "v",
            &[
                one.configured("one.example.com", &rules, &json!({})),
                two.configured("two.example.com", &rules, &json!({})),
            ],
        )
        .await;
        let create = cluster.post(CONFIGMAPS, config_map("c"));
        let release = async {
            // The server calls the second webhook although the first has not answered.
            eventually("the second webhook is called", || async { !two.take().is_empty() }).await;
            permits.add_permits(1);
        };
        let (created, ()) = tokio::join!(create, release);
        let _ = created.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn webhooks_without_side_effects_see_dry_runs() {
    run(async {
        let cluster = Cluster::with_options(Options::default()).await;
        let webhook = Webhook::start(Behavior::Respond(allow)).await;
        let rules = [rule(&["*"], &["configmaps"])];
        for (path, side_effects, code) in
            [(MUTATING, "None", 201), (MUTATING, "NoneOnDryRun", 201), (VALIDATING, "NoneOnDryRun", 201)]
        {
            let more = json!({"sideEffects": side_effects});
            configure(&cluster, path, "w", &[webhook.configured("w.example.com", &rules, &more)]).await;
            let _ = cluster.post(&format!("{CONFIGMAPS}?dryRun=All"), config_map("c")).await.expect(code);
            assert_eq!(webhook.last().1["request"]["dryRun"], true);
            assert_eq!(webhook.last().1["request"]["options"]["dryRun"], json!(["All"]));
            let _ = cluster.delete(&format!("{path}/w")).await.expect(200);
        }
        cluster.stop().await;
    });
}

#[test]
fn connections_are_kept_between_calls() {
    run(async {
        let (cluster, webhook) = start_kind(VALIDATING, &json!({})).await;
        for i in 0..20 {
            let _ = cluster.post(CONFIGMAPS, config_map(&format!("c{i}"))).await.expect(201);
        }
        assert_eq!(webhook.server.connection_count(), 1);
        cluster.stop().await;
    });
}

#[test]
fn calls_are_counted() {
    run(async {
        let (cluster, webhook) = start_kind(VALIDATING, &json!({"failurePolicy": "Ignore"})).await;
        let _ = cluster.post(CONFIGMAPS, config_map("a")).await.expect(201);
        webhook.set(Behavior::With(json!({"allowed": false, "status": {"code": 700}})));
        let _ = cluster.post(CONFIGMAPS, config_map("b")).await;
        webhook.set(Behavior::Send(500, String::new()));
        let _ = cluster.post(CONFIGMAPS, config_map("b")).await.expect(201);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let labels = r#"name="w.example.com",operation="CREATE""#;
        for line in [
            format!(
                r#"apiserver_admission_webhook_request_total{{code="200",{labels},rejected="false",type="validating"}} 1"#
            ),
            format!(
                r#"apiserver_admission_webhook_request_total{{code="600",{labels},rejected="true",type="validating"}} 1"#
            ),
            format!(
                r#"apiserver_admission_webhook_request_total{{code="500",{labels},rejected="false",type="validating"}} 1"#
            ),
            format!(
                r#"apiserver_admission_webhook_rejection_count{{error_type="no_error",{labels},rejection_code="600",type="validating"}} 1"#
            ),
            r#"apiserver_admission_webhook_fail_open_count{name="w.example.com",type="validating"} 1"#.to_owned(),
            format!(
                r#"apiserver_admission_webhook_admission_duration_seconds_count{{{labels},rejected="false",type="validating"}} 2"#
            ),
        ] {
            assert!(metrics.contains(&line), "{line} in {metrics}");
        }
        cluster.stop().await;
    });
}

#[test]
fn an_expired_certificate_is_a_failure() {
    run(async {
        let cluster = Cluster::start().await;
        let server = HttpsServer::start_expired(|_| async { SentResponse::json(200, "{}") }).await;
        let url = server.url("/review");
        let webhook = json!({
            "name": "w.example.com",
            "clientConfig": {"url": url, "caBundle": server.ca_bundle()},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [rule(&["*"], &["configmaps"])],
        });
        configure(&cluster, VALIDATING, "w", &[webhook]).await;
        let expect = format!(
            "{CALL}failed to call webhook: Post \"{url}?timeout=10s\": tls: failed to verify certificate: x509: \
             certificate has expired or is not yet valid"
        );
        let error = cluster.post(CONFIGMAPS, config_map("c")).await.expect(500).json();
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(&expect), "{message}");
        cluster.stop().await;
    });
}
