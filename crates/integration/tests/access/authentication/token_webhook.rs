//! The webhook that reviews tokens.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle::{AccessOptions, AuthenticationOptions, DEFAULT_SERVICE_ACCOUNT_ISSUER, TokenWebhookOptions};
use pintle_integration::{Cluster, HttpsServer, Options, SentResponse, advance_clock_until, manual_clock, run};
use serde_json::{Value, json};

use super::{check_refused, review, self_review, uncached, whoami};

/// The webhook's answer to the spec of a review: a status code and, for 200, the status of the review.
type Answer = fn(&Value) -> (u16, Value);

struct TokenWebhook {
    server: HttpsServer,
    answer: Arc<Mutex<Answer>>,
    reviews: Arc<Mutex<Vec<Value>>>,
}

impl TokenWebhook {
    async fn start(answer: Answer) -> Self {
        let (answer, reviews) = (Arc::new(Mutex::new(answer)), Arc::new(Mutex::new(Vec::new())));
        let (answering, receiving) = (answer.clone(), reviews.clone());
        let server = HttpsServer::start_with_http2(&["127.0.0.1"], move |request| {
            let review: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let is_expected = request.protocol() == "HTTP/2.0"
                && request.path == "/review?timeout=30s"
                && request.header("authorization") == Some("Bearer hook-token");
            let (code, status) = if is_expected { (*answering.lock())(&review["spec"]) } else { (401, Value::Null) };
            let answer = json!({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status});
            receiving.lock().push(review);
            let body = if code == 200 { answer.to_string() } else { String::new() };
            std::future::ready(SentResponse::json(code, body))
        })
        .await;
        Self { server, answer, reviews }
    }

    /// Options with this webhook.
    fn options(&self, folder: &Path, version: &str, cache_ttl: Duration) -> Options {
        let path = folder.join("kubeconfig");
        std::fs::write(&path, self.server.kubeconfig("/review")).expect("a file");
        let webhook = TokenWebhookOptions { config_file: Some(path), version: version.to_owned(), cache_ttl };
        let authentication = AuthenticationOptions { webhook, ..AuthenticationOptions::default() };
        uncached(AccessOptions { authentication, ..AccessOptions::default() })
    }

    fn set_answer(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    /// The number of reviews since the last call.
    fn take_reviews(&self) -> usize {
        std::mem::take(&mut *self.reviews.lock()).len()
    }
}

/// Knows the token "jane", which names no audiences, and the token "bob", which is for some audiences.
fn by_token(spec: &Value) -> (u16, Value) {
    let status = match spec["token"].as_str() {
        Some("jane") => json!({"authenticated": true, "user": {
            "username": "jane", "uid": "1", "groups": ["dev"], "extra": {"k": ["a", "b"]},
        }}),
        Some("bob") => json!({"authenticated": true, "user": {"username": "bob"}, "audiences": ["x", "y"]}),
        Some("expired") => json!({"authenticated": false, "error": "the token has expired"}),
        _ => json!({"authenticated": false}),
    };
    (200, status)
}

#[test]
fn a_webhook_reviews_tokens_that_nobody_else_knows() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        for version in ["v1", "v1beta1"] {
            let hook = TokenWebhook::start(by_token).await;
            let cluster = Cluster::with_options(hook.options(folder.path(), version, Duration::ZERO)).await;
            let user = json!({
                "username": "jane", "uid": "1", "groups": ["dev", "system:authenticated"], "extra": {"k": ["a", "b"]},
            });
            assert_eq!(whoami(&cluster, "jane").await, user);
            let sent = json!([{
                "apiVersion": format!("authentication.k8s.io/{version}"),
                "kind": "TokenReview",
                "metadata": {},
                "spec": {"token": "jane", "audiences": [DEFAULT_SERVICE_ACCOUNT_ISSUER]},
                "status": {"user": {}},
            }]);
            assert_eq!(json!(*hook.reviews.lock()), sent);
            let audience = [DEFAULT_SERVICE_ACCOUNT_ISSUER];
            let reviewed = json!({"authenticated": true, "user": user, "audiences": audience});
            assert_eq!(review(&cluster, "jane", &[]).await, reviewed);
            // The webhook names no audiences, so its tokens are for this server only.
            let unknown = json!({"user": {}, "error": "invalid bearer token"});
            assert_eq!(review(&cluster, "jane", &["x"]).await, unknown);
            let user = json!({"username": "bob", "groups": ["system:authenticated"]});
            let reviewed = json!({"authenticated": true, "user": user, "audiences": ["y"]});
            assert_eq!(review(&cluster, "bob", &["y", "z"]).await, reviewed);
            check_refused(&cluster, "bob", "").await;
            check_refused(&cluster, "expired", "the token has expired").await;
            check_refused(&cluster, "unknown", "").await;
            // The server asks other authenticators first.
            hook.take_reviews();
            let _ = cluster.get("/api").await.expect(200);
            assert_eq!(hook.take_reviews(), 0);
            cluster.stop().await;
        }
    });
}

#[test]
fn answers_of_the_webhook_are_cached_and_its_errors_are_not() {
    run(async {
        let (folder, hook) = (tempfile::tempdir().expect("a folder"), TokenWebhook::start(by_token).await);
        let ttl = TokenWebhookOptions::default().cache_ttl;
        let cluster = Cluster::with_options(hook.options(folder.path(), "v1", ttl)).await;
        for (token, code, reviews) in [("jane", 201, 1), ("unknown", 401, 1), ("expired", 401, 2)] {
            for _ in 0..2 {
                assert_eq!(self_review(&cluster, token).await.status, code, "{token}");
            }
            assert_eq!(hook.take_reviews(), reviews, "{token}");
        }
        // An answer applies only to the requested audiences.
        assert_eq!(review(&cluster, "jane", &["x"]).await["authenticated"], Value::Null);
        assert_eq!(review(&cluster, "jane", &["x"]).await["authenticated"], Value::Null);
        assert_eq!(hook.take_reviews(), 1);
        cluster.stop().await;
    });
}

#[test]
fn a_webhook_that_fails_is_asked_again_and_lets_nobody_in() {
    run(async {
        let (folder, hook, clock) =
            (tempfile::tempdir().expect("a folder"), TokenWebhook::start(|_| (500, Value::Null)).await, manual_clock());
        let options = hook.options(folder.path(), "v1", Duration::ZERO);
        let cluster = Cluster::with_options(Options { clock: clock.clone(), ..options }).await;
        let refused = advance_clock_until(&clock, self_review(&cluster, "jane")).await;
        refused.expect_error(401, "Unauthorized", "Unauthorized");
        assert_eq!(hook.take_reviews(), 5);
        for (answer, calls) in [
            ((|_| (403, Value::Null)) as Answer, 1),
            (|_| (200, json!({"authenticated": "yes"})), 1),
            (|_| (200, json!({"authenticated": true, "user": {"username": "jane", "groups": "all"}})), 1),
            (|_| (200, Value::Null), 1),
        ] {
            hook.set_answer(answer);
            let refused = advance_clock_until(&clock, self_review(&cluster, "jane")).await;
            refused.expect_error(401, "Unauthorized", "Unauthorized");
            assert_eq!(hook.take_reviews(), calls);
        }
        hook.set_answer(by_token);
        assert_eq!(whoami(&cluster, "jane").await["username"], json!("jane"));
        cluster.stop().await;
    });
}
