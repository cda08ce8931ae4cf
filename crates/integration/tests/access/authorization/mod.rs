//! The chain of authorizers: webhooks, ABAC, AlwaysDeny, and the configuration file with its reload.

mod program;
mod webhook;

use std::path::PathBuf;
use std::time::Duration;

use pintle_integration::{
    AccessOptions, AuthorizationMode, AuthorizationOptions, Cluster, Options, Response, advance_clock_until,
    eventually, manual_clock, run,
};
use serde_json::{Value, json};

use webhook::AuthorizationWebhook;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TOKENS: &str = "alice,alice,1,dev\nbob,bob,2\n";

/// The files of a test. The drop removes them.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pintle-authorization-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        // The rename is atomic, so the server never reads a partial file.
        let temporary = self.0.join(format!("{name}.new"));
        std::fs::write(&temporary, content).expect("a file");
        std::fs::rename(&temporary, &path).expect("a file");
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(modes: &[AuthorizationMode], authorization: AuthorizationOptions) -> Options {
    let access = AccessOptions {
        tokens: Some(TOKENS.to_owned()),
        authorization_modes: modes.to_vec(),
        authorization,
        ..AccessOptions::default()
    };
    Options { access, ..Options::default() }
}

async fn get_as(cluster: &Cluster, user: &str, path: &str) -> Response {
    cluster.request("GET", path).anonymous().header("Authorization", &format!("Bearer {user}")).send().await
}

/// The end of the message of a forbidden request, after the scope.
async fn reason(cluster: &Cluster, user: &str, path: &str) -> String {
    let message = get_as(cluster, user, path).await.expect(403).json()["message"].clone();
    let message = message.as_str().unwrap_or_default();
    message.rsplit_once("\"default\"").map_or(message, |(_, end)| end).to_owned()
}

/// The value of a metric, by its name and labels; 0 if there is none.
async fn metric(cluster: &Cluster, name: &str, labels: &[(&str, &str)]) -> u64 {
    let text = cluster.get("/metrics").await.expect(200).text();
    let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let is_series = |line: &&str| {
        line.split_once('{')
            .is_some_and(|(found, rest)| found == name && labels.iter().all(|label| rest.contains(label)))
    };
    let line = text.lines().find(is_series);
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or(0)
}

/// The message for a request whose authorization failed.
async fn error(cluster: &Cluster, user: &str, path: &str) -> String {
    get_as(cluster, user, path).await.expect(500).text().trim_end().to_owned()
}

/// Allows alice, denies requests for `secrets`, and has no opinion on others.
fn by_user(spec: &Value) -> (u16, Value) {
    let status = match (spec["resourceAttributes"]["resource"].as_str(), spec["user"].as_str()) {
        (Some("secrets"), _) => json!({"allowed": false, "denied": true, "reason": "no secrets"}),
        (_, Some("alice")) => json!({"allowed": true}),
        _ => json!({"allowed": false, "reason": "unknown to the webhook"}),
    };
    (200, status)
}

#[test]
fn a_webhook_decides_and_its_answers_are_cached() {
    run(async {
        let (files, hook, clock) = (Files::new("flags"), AuthorizationWebhook::start(by_user).await, manual_clock());
        let authorization = AuthorizationOptions {
            webhook_config_file: Some(files.write("kubeconfig", &hook.kubeconfig())),
            ..AuthorizationOptions::default()
        };
        let options = options(&[AuthorizationMode::Webhook, AuthorizationMode::Rbac], authorization);
        let cluster = Cluster::with_options(Options { clock: clock.clone(), ..options }).await;
        let path = format!("{MAPS}?fieldSelector=metadata.name%3Da&labelSelector=b%3Dc");
        let _ = get_as(&cluster, "alice", &path).await.expect(200);
        let reviews = hook.take_reviews();
        let expect = json!([{
            "apiVersion": "authorization.k8s.io/v1beta1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {
                "user": "alice",
                "uid": "1",
                "group": ["dev", "system:authenticated"],
                "resourceAttributes": {
                    "namespace": "default", "verb": "list", "version": "v1", "resource": "configmaps", "name": "a",
                    "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                    "labelSelector": {"requirements": [{"key": "b", "operator": "In", "values": ["c"]}]},
                },
            },
            "status": {"allowed": false},
        }]);
        assert_eq!(json!(reviews), expect);
        // The answer is cached for this request only.
        let _ = get_as(&cluster, "alice", &path).await.expect(200);
        assert_eq!(hook.take_reviews(), Vec::<Value>::new());
        let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        assert_eq!(hook.take_reviews().len(), 1);
        assert_eq!(reason(&cluster, "bob", MAPS).await, ": unknown to the webhook");
        assert_eq!(reason(&cluster, "alice", "/api/v1/namespaces/default/secrets").await, ": no secrets");
        // The server does not ask about members of system:masters.
        let _ = cluster.get(MAPS).await.expect(200);
        assert_eq!(hook.take_reviews().len(), 2);
        // Other answers than "allowed" are cached for a shorter time.
        clock.advance(Duration::from_secs(31));
        assert_eq!(reason(&cluster, "bob", MAPS).await, ": unknown to the webhook");
        let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        assert_eq!(hook.take_reviews().len(), 1);
        clock.advance(Duration::from_secs(270));
        let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        assert_eq!(hook.take_reviews().len(), 1);
        for (decision, expect) in [("allowed", 5), ("denied", 1)] {
            let labels = [("type", "Webhook"), ("name", "default"), ("decision", decision)];
            assert_eq!(metric(&cluster, "apiserver_authorization_decisions_total", &labels).await, expect);
        }
        let labels = [("name", "default"), ("result", "success")];
        assert_eq!(metric(&cluster, "apiserver_authorization_webhook_evaluations_total", &labels).await, 6);
        assert_eq!(metric(&cluster, "apiserver_authorization_webhook_duration_seconds_count", &labels).await, 6);
        cluster.stop().await;
    });
}

#[test]
fn a_webhook_that_fails_leaves_the_decision_to_others() {
    run(async {
        let (files, hook, clock) = (Files::new("failing"), AuthorizationWebhook::start(by_user).await, manual_clock());
        let authorization = AuthorizationOptions {
            webhook_config_file: Some(files.write("kubeconfig", &hook.kubeconfig())),
            webhook_version: "v1".to_owned(),
            webhook_authorized_ttl: Duration::ZERO,
            webhook_unauthorized_ttl: Duration::ZERO,
            ..AuthorizationOptions::default()
        };
        let options = options(&[AuthorizationMode::Webhook, AuthorizationMode::AlwaysDeny], authorization);
        let cluster = Cluster::with_options(Options { clock: clock.clone(), ..options }).await;
        let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        let reviews = hook.take_reviews();
        assert_eq!((reviews.len(), &reviews[0]["apiVersion"]), (2, &json!("authorization.k8s.io/v1")));
        // If no other authorizer allows the request, the answer is the error, as upstream. A client error is not
        // retried.
        let failed = format!("Internal Server Error: \"{MAPS}\": ");
        hook.set_answer(|_| (400, Value::Null));
        let expect = format!("{failed}the server rejected our request for an unknown reason");
        assert_eq!(error(&cluster, "alice", MAPS).await, expect);
        assert_eq!(hook.take_reviews().len(), 1);
        // The server does not retry after an answer that is not a review either.
        hook.set_answer(|_| (200, json!({"allowed": "yes"})));
        let expect =
            "json: cannot unmarshal string into Go struct field SubjectAccessReviewStatus.status.allowed of type bool";
        assert_eq!(error(&cluster, "alice", MAPS).await, format!("{failed}{expect}"));
        assert_eq!(hook.take_reviews().len(), 1);
        // The server retries four times after an internal error.
        hook.set_answer(|_| (500, Value::Null));
        let message = advance_clock_until(&clock, error(&cluster, "alice", MAPS)).await;
        let expect = "an error on the server (\"unknown\") has prevented the request from succeeding";
        assert_eq!(message, format!("{failed}{expect}"));
        assert_eq!(hook.take_reviews().len(), 5);
        let labels = [("name", "default"), ("result", "error")];
        let failed_open = "apiserver_authorization_webhook_evaluations_fail_open_total";
        assert_eq!(metric(&cluster, failed_open, &labels).await, 3);
        assert_eq!(metric(&cluster, "apiserver_authorization_webhook_evaluations_total", &labels).await, 7);
        cluster.stop().await;
    });
}

#[test]
fn the_rules_of_users_are_incomplete_with_a_webhook() {
    run(async {
        let (files, hook) = (Files::new("rules"), AuthorizationWebhook::start(by_user).await);
        let authorization = AuthorizationOptions {
            webhook_config_file: Some(files.write("kubeconfig", &hook.kubeconfig())),
            ..AuthorizationOptions::default()
        };
        let cluster = Cluster::with_options(options(&[AuthorizationMode::Webhook], authorization)).await;
        let request = cluster.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews").anonymous();
        let request = request.header("Authorization", "Bearer alice");
        let review = request.json(json!({"spec": {"namespace": "default"}}).to_string()).send().await;
        let status = review.expect(201).json()["status"].clone();
        assert_eq!(status["incomplete"], true);
        assert_eq!(status["evaluationError"], "webhook authorizer does not support user rule resolution");
        cluster.stop().await;
    });
}

#[test]
fn policies_of_a_file_allow_requests() {
    run(async {
        let files = Files::new("abac");
        let policies = "# policies\n{\"user\":\"alice\",\"readonly\":true,\"resource\":\"configmaps\"}\n";
        let authorization = AuthorizationOptions {
            policy_file: Some(files.write("policies.jsonl", policies)),
            ..AuthorizationOptions::default()
        };
        let cluster = Cluster::with_options(options(&[AuthorizationMode::Abac], authorization)).await;
        let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        assert_eq!(reason(&cluster, "bob", MAPS).await, ": No policy matched.");
        let body = json!({"metadata": {"name": "a"}}).to_string();
        let create = cluster.request("POST", MAPS).anonymous().header("Authorization", "Bearer alice").json(body);
        let _ = create.send().await.expect(403);
        cluster.stop().await;
    });
}

/// A configuration with RBAC and a webhook for requests about config maps.
fn configuration(kubeconfig: &std::path::Path, failure_policy: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- type: Webhook\n  \
         name: hook\n  webhook:\n    timeout: 3s\n    subjectAccessReviewVersion: v1\n    \
         matchConditionSubjectAccessReviewVersion: v1\n    failurePolicy: {failure_policy}\n    connectionInfo: \
         {{type: KubeConfigFile, kubeConfigFile: '{}'}}\n    matchConditions:\n    - expression: \
         has(request.resourceAttributes)\n    - expression: request.resourceAttributes.resource == 'configmaps'\n    \
         cacheAuthorizedRequests: false\n    cacheUnauthorizedRequests: false\n- {{type: RBAC, name: rbac}}\n",
        kubeconfig.display()
    )
}

#[test]
fn a_configuration_file_makes_a_chain_with_match_conditions() {
    run(async {
        let hook = AuthorizationWebhook::start_with_name(by_user, "hook.example.com").await;
        let files = Files::new("config");
        let kubeconfig = files.write("kubeconfig", &hook.kubeconfig());
        let authorization = AuthorizationOptions {
            config_file: Some(files.write("config.yaml", &configuration(&kubeconfig, "Deny"))),
            ..AuthorizationOptions::default()
        };
        let cluster = Cluster::with_options(options(&[], authorization)).await;
        let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        assert_eq!(hook.take_reviews().len(), 2);
        // Match conditions exclude these requests.
        assert_eq!(reason(&cluster, "alice", "/api/v1/namespaces/default/secrets").await, "");
        let _ = get_as(&cluster, "alice", "/healthz").await.expect(403);
        assert_eq!(hook.take_reviews(), Vec::<Value>::new());
        // With the failure policy `Deny`, a failure denies the request.
        hook.set_answer(|_| (403, Value::Null));
        assert_eq!(error(&cluster, "alice", MAPS).await, format!("Internal Server Error: \"{MAPS}\": unknown"));
        let labels = [("type", "Webhook"), ("name", "hook")];
        let denied = [("type", "Webhook"), ("name", "hook"), ("decision", "denied")];
        for (name, labels, expect) in [
            ("apiserver_authorization_decisions_total", &denied[..], 1),
            ("apiserver_authorization_match_condition_exclusions_total", &labels, 2),
            ("apiserver_authorization_match_condition_evaluation_seconds_count", &labels, 5),
        ] {
            assert_eq!(metric(&cluster, name, labels).await, expect, "{name}");
        }
        cluster.stop().await;
    });
}

#[test]
fn the_retries_of_a_busy_webhook_end_with_its_timeout() {
    run(async {
        let hook = AuthorizationWebhook::start(|_| (429, Value::Null)).await;
        let files = Files::new("busy");
        let kubeconfig = files.write("kubeconfig", &hook.kubeconfig());
        let configuration = configuration(&kubeconfig, "Deny").replace("timeout: 3s", "timeout: 1s");
        let authorization = AuthorizationOptions {
            config_file: Some(files.write("config.yaml", &configuration)),
            ..AuthorizationOptions::default()
        };
        let cluster = Cluster::with_options(options(&[], authorization)).await;
        let message = error(&cluster, "alice", MAPS).await;
        assert!(message.contains("context deadline exceeded"), "{message}");
        cluster.stop().await;
    });
}

#[test]
fn a_changed_configuration_file_is_used_and_a_broken_one_is_not() {
    run(async {
        let files = Files::new("reload");
        let config = |authorizers: &str| {
            format!(
                "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthorizationConfiguration\nauthorizers: {authorizers}"
            )
        };
        let hook = AuthorizationWebhook::start(by_user).await;
        let denying = config("[{type: RBAC, name: rbac}]");
        let allowing = configuration(&files.write("kubeconfig", &hook.kubeconfig()), "NoOpinion");
        let file = files.write("config.yaml", &denying);
        let authorization = AuthorizationOptions { config_file: Some(file), ..AuthorizationOptions::default() };
        let cluster = Cluster::with_options(options(&[], authorization)).await;
        let until = async |code: u16| {
            let answered = || async { get_as(&cluster, "alice", MAPS).await.status == code };
            eventually(&format!("Alice gets {code}"), answered).await;
        };
        let reloads = async |status: &str| {
            let name = "apiserver_authorization_config_controller_automatic_reloads_total";
            metric(&cluster, name, &[("status", status)]).await
        };
        assert_eq!(reason(&cluster, "alice", MAPS).await, "");
        assert_eq!((reloads("success").await, reloads("failure").await), (1, 0));
        files.write("config.yaml", &allowing);
        until(200).await;
        assert_eq!((reloads("success").await, reloads("failure").await), (2, 0));
        // None of these changes the chain.
        for (failures, broken) in (1..).zip([
            "broken: [".to_owned(),
            config("[]"),
            config("[{type: AlwaysDeny, name: alwaysdeny}]"),
            config("[{type: RBAC, name: rbac}, {type: AlwaysAllow, name: alwaysallow}]"),
            config("[{type: RBAC, name: rbac}, {type: Node, name: node}]"),
        ]) {
            files.write("config.yaml", &broken);
            eventually("the reload fails", || async { reloads("failure").await == failures }).await;
            let _ = get_as(&cluster, "alice", MAPS).await.expect(200);
        }
        files.write("config.yaml", &denying);
        until(403).await;
        assert_eq!((reloads("success").await, reloads("failure").await), (3, 5));
        let text = cluster.get("/metrics").await.expect(200).text();
        let info = text.lines().find(|line| line.contains("authorization_config_controller_last_config_info{"));
        assert!(info.is_some_and(|line| line.contains("hash=\"sha256:")), "{info:?}");
        cluster.stop().await;
    });
}
