//! Tokens in secrets: how the server fills them in, tracks their use, invalidates and removes them.

use std::time::Duration;

use pintle::Options;
use pintle_integration::{Cluster, eventually, manual_clock, run};
use serde_json::{Value, json};

use super::{ACCOUNTS, ISSUER, PODS, SECRETS, check_refused, claims, create, review, start, whoami, with_token};

/// Waits until an object meets a condition, and returns it.
async fn wait_for(cluster: &Cluster, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
    cluster.get_until(path, |found| condition(&found.json())).await.json()
}

fn data(secret: &Value, key: &str) -> String {
    use base64::Engine as _;
    let text = secret["data"][key].as_str().unwrap_or_default();
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).expect("base64")).expect("UTF-8")
}

/// Creates a token secret of the account `robot`, and returns its token as soon as the controller has filled it in.
async fn legacy_token(cluster: &Cluster, name: &str) -> String {
    legacy_token_in(cluster, SECRETS, name).await
}

/// Like [`legacy_token`], in the namespace of a path of secrets.
async fn legacy_token_in(cluster: &Cluster, secrets: &str, name: &str) -> String {
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let metadata = json!({"name": name, "annotations": annotations});
    create(cluster, secrets, json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"})).await;
    let filled = wait_for(cluster, &format!("{secrets}/{name}"), |secret| !data(secret, "token").is_empty()).await;
    data(&filled, "token")
}

#[test]
fn token_secrets_are_filled_in_and_authenticate() {
    run(async {
        let cluster = start(Options::default()).await;
        let token = legacy_token(&cluster, "s").await;
        let path = format!("{SECRETS}/s");
        let secret = cluster.get(&path).await.expect(200).json();
        assert_eq!((data(&secret, "namespace"), data(&secret, "ca.crt")), ("default".to_owned(), cluster.authority()));
        let robot = cluster.get(&format!("{ACCOUNTS}/robot")).await.expect(200).json();
        let uid = &robot["metadata"]["uid"];
        assert_eq!(&secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"], uid);
        let claims = claims(&token);
        assert_eq!((&claims["iss"], claims.get("exp")), (&json!("kubernetes/serviceaccount"), None));
        let user = json!({
            "username": "system:serviceaccount:default:robot",
            "uid": uid,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        });
        assert_eq!(whoami(&cluster, &token).await, user);
        // The server records the use before it answers the request.
        let used = cluster.get(&path).await.expect(200).json();
        let label = used["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"].as_str().expect("a date");
        assert_eq!(label.len(), "2022-10-24".len());
        let reviewed = review(&cluster, &token, &["other"]).await;
        assert_eq!(
            reviewed["error"],
            format!(
                "[invalid bearer token, token audiences [\"{ISSUER}\"] is invalid for the target audiences [\"other\"]]"
            )
        );
        // The controller fills removed fields in again, with another signature.
        let removed = r#"{"data": {"token": null, "namespace": null}}"#;
        let _ = cluster.patch(&path, "merge", removed).await.expect(200);
        let filled = wait_for(&cluster, &path, |secret| !data(secret, "token").is_empty()).await;
        assert_eq!(data(&filled, "namespace"), "default");
        check_refused(&cluster, &token, "service account token does not match server's copy").await;
        let _ = whoami(&cluster, &data(&filled, "token")).await;
        cluster.stop().await;
    });
}

#[test]
fn generated_token_secrets_warn_and_can_be_invalidated() {
    run(async {
        let cluster = start(Options::default()).await;
        let token = legacy_token(&cluster, "s").await;
        let referenced = r#"{"secrets": [{"name": "s"}]}"#;
        let _ = cluster.patch(&format!("{ACCOUNTS}/robot"), "merge", referenced).await.expect(200);
        let used = with_token(&cluster, &token, "GET", ACCOUNTS).await.expect(200);
        assert_eq!(
            used.header("warning"),
            "299 - \"Use tokens from the TokenRequest API or manually created secret-based tokens instead of \
             auto-generated secret-based tokens.\""
        );
        let path = format!("{SECRETS}/s");
        let invalid = r#"{"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2023-10-27"}}}"#;
        let _ = cluster.patch(&path, "merge", invalid).await.expect(200);
        check_refused(
            &cluster,
            &token,
            "the token in secret default/s for service account default/robot has been marked invalid. Use tokens from \
             the TokenRequest API or manually created secret-based tokens, or remove the \
             'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token",
        )
        .await;
        let valid = r#"{"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": null}}}"#;
        let _ = cluster.patch(&path, "merge", valid).await.expect(200);
        let _ = whoami(&cluster, &token).await;
        let _ = cluster.delete(&path).await.expect(200);
        check_refused(&cluster, &token, "service account token has been invalidated").await;
        // The controller removes the reference, and the empty list with it.
        wait_for(&cluster, &format!("{ACCOUNTS}/robot"), |robot| robot.get("secrets").is_none()).await;
        let metrics = cluster.get("/metrics").await.expect(200).text();
        for (name, count) in [
            ("serviceaccount_legacy_tokens_total", 6),
            ("serviceaccount_legacy_auto_token_uses_total", 4),
            ("serviceaccount_invalid_legacy_auto_token_uses_total", 2),
            ("serviceaccount_legacy_manual_token_uses_total", 0),
            ("serviceaccount_valid_tokens_total", 0),
        ] {
            let line = format!("\n{name} {count}\n");
            assert!(metrics.contains(&line), "{name}: {:?}", metrics.lines().find(|line| line.starts_with(name)));
        }
        cluster.stop().await;
    });
}

#[test]
fn token_secrets_of_a_corrupt_service_account_are_kept() {
    run(async {
        let cluster = start(Options::default()).await;
        let key = "/registry/serviceaccounts/default/robot";
        cluster.write_to_store(key, "{").await;
        let annotations = json!({"kubernetes.io/service-account.name": "robot"});
        let metadata = json!({"name": "s", "annotations": annotations});
        create(&cluster, SECRETS, json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"})).await;
        let path = format!("{SECRETS}/s");
        let is_retried = |metrics: String| {
            let retries = "workqueue_retries_total{name=\"serviceaccount_tokens_service\"} ";
            metrics.lines().find_map(|line| line.strip_prefix(retries)).expect("the metric") != "0"
        };
        let is_retried = || async {
            let _ = cluster.get(&path).await.expect(200);
            is_retried(cluster.get("/metrics").await.expect(200).text())
        };
        eventually("the controller tries again", is_retried).await;
        let metadata = json!({"name": "robot", "namespace": "default", "uid": "1"});
        let mended = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata});
        cluster.write_to_store(key, mended.to_string()).await;
        wait_for(&cluster, &path, |secret| !data(secret, "token").is_empty()).await;
        cluster.stop().await;
    });
}

#[test]
fn token_secrets_are_left_to_an_active_controller_manager() {
    run(async {
        let clock = manual_clock();
        let cluster = start(Options { clock: clock.clone(), ..Options::default() }).await;
        let spec = json!({
            "holderIdentity": "manager", "leaseDurationSeconds": 15, "renewTime": "2023-11-14T22:13:20.000000Z",
        });
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        create(&cluster, leases, json!({"metadata": {"name": "kube-controller-manager"}, "spec": spec})).await;
        let annotations = json!({"kubernetes.io/service-account.name": "robot"});
        let metadata = json!({"name": "s", "annotations": annotations});
        create(&cluster, SECRETS, json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"})).await;
        let path = format!("{SECRETS}/s");
        clock.advance(Duration::from_secs(10));
        assert_eq!(cluster.get(&path).await.expect(200).json()["data"], Value::Null);
        clock.advance(Duration::from_secs(10));
        let filled = wait_for(&cluster, &path, |secret| !data(secret, "token").is_empty()).await;
        assert_eq!(data(&filled, "namespace"), "default");
        cluster.stop().await;
    });
}

/// Makes the cluster look as if it had tracked legacy tokens for years.
async fn track_legacy_tokens(cluster: &Cluster) {
    let tracking = json!({
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking"},
        "data": {"since": "2020-01-01"},
    });
    create(cluster, "/api/v1/namespaces/kube-system/configmaps", tracking).await;
}

#[test]
fn generated_token_secrets_that_nobody_uses_are_invalidated_and_deleted() {
    run(async {
        let clock = manual_clock();
        let cluster = start(Options { clock: clock.clone(), ..Options::default() }).await;
        track_legacy_tokens(&cluster).await;
        for name in ["by-hand", "mounted", "unused"] {
            legacy_token(&cluster, name).await;
        }
        let referenced = r#"{"secrets": [{"name": "mounted"}, {"name": "unused"}]}"#;
        let _ = cluster.patch(&format!("{ACCOUNTS}/robot"), "merge", referenced).await.expect(200);
        let spec = json!({
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
        });
        create(&cluster, PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await;
        let (unused, label) = (format!("{SECRETS}/unused"), "kubernetes.io/legacy-token-invalid-since");
        let year = Duration::from_secs(366 * 24 * 60 * 60);
        clock.advance(year);
        let marked = wait_for(&cluster, &unused, |secret| !secret["metadata"]["labels"][label].is_null()).await;
        assert_eq!(marked["metadata"]["labels"][label], "2024-11-14");
        clock.advance(year);
        wait_for(&cluster, &unused, |object| object["code"] == 404).await;
        let left = cluster.get(SECRETS).await.expect(200).json();
        let left: Vec<_> =
            left["items"].as_array().expect("secrets").iter().map(|secret| &secret["metadata"]).collect();
        assert_eq!(left.iter().map(|metadata| &metadata["name"]).collect::<Vec<_>>(), ["by-hand", "mounted"]);
        assert!(left.iter().all(|metadata| metadata["labels"].is_null()));
        cluster.stop().await;
    });
}

#[test]
fn generated_token_secrets_that_a_corrupt_pod_may_mount_are_kept() {
    run(async {
        let clock = manual_clock();
        let cluster = start(Options { clock: clock.clone(), ..Options::default() }).await;
        track_legacy_tokens(&cluster).await;
        create(&cluster, "/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
        let other = "/api/v1/namespaces/other";
        create(&cluster, &format!("{other}/serviceaccounts"), json!({"metadata": {"name": "robot"}})).await;
        for namespace in ["/api/v1/namespaces/default", other] {
            legacy_token_in(&cluster, &format!("{namespace}/secrets"), "s").await;
            let account = format!("{namespace}/serviceaccounts/robot");
            let _ = cluster.patch(&account, "merge", r#"{"secrets": [{"name": "s"}]}"#).await.expect(200);
        }
        cluster.write_to_store("/registry/pods/default/p", "{").await;
        let _ = cluster.get(&format!("{PODS}/p")).await.expect(500);
        clock.advance(Duration::from_secs(366 * 24 * 60 * 60));
        // The controller examines secrets in the order of namespace and name.
        wait_for(&cluster, &format!("{other}/secrets/s"), |secret| !secret["metadata"]["labels"].is_null()).await;
        let kept = cluster.get(&format!("{SECRETS}/s")).await.expect(200).json();
        assert_eq!(kept["metadata"].get("labels"), None);
        cluster.stop().await;
    });
}
