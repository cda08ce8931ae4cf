//! A webhook that reviews tokens, made of upstream's types.

use std::path::PathBuf;
use std::time::Duration;

use pintle::{AccessOptions, AuthenticationOptions, DEFAULT_SERVICE_ACCOUNT_ISSUER, TokenWebhookOptions};
use pintle_testkit::{AccessServices, Cluster, Options, run};
use serde_json::{Value, json};

use super::{check_refused, review, self_review, uncached, whoami};

/// Options with a webhook that reviews tokens, whose answers are not cached.
fn with_token_reviewer(kubeconfig: PathBuf, version: &str) -> Options {
    let (config_file, version) = (Some(kubeconfig), version.to_owned());
    let webhook = TokenWebhookOptions { config_file, version, cache_ttl: Duration::ZERO };
    let authentication = AuthenticationOptions { webhook, ..AuthenticationOptions::default() };
    uncached(AccessOptions { authentication, ..AccessOptions::default() })
}

#[test]
fn a_token_webhook_of_upstreams_types_understands_reviews() {
    run(async {
        for version in ["v1", "v1beta1"] {
            let services = AccessServices::start();
            let cluster = Cluster::with_options(with_token_reviewer(services.token_reviewer(), version)).await;
            let user = json!({
                "username": "jane",
                "uid": "1234",
                "groups": ["developers", "testers", "system:authenticated"],
                "extra": {"example.org/scopes": ["read", "write"], "example.org/version": [version]},
            });
            assert_eq!(whoami(&cluster, "token-of-jane").await, user);
            let audiences = [DEFAULT_SERVICE_ACCOUNT_ISSUER];
            let reviewed = json!({"authenticated": true, "user": user, "audiences": audiences});
            assert_eq!(review(&cluster, "token-of-jane", &[]).await, reviewed);
            let unknown = json!({"user": {}, "error": "invalid bearer token"});
            assert_eq!(review(&cluster, "token-of-jane", &["vault"]).await, unknown);
            // A token for other audiences is none for this server.
            let user = json!({"username": "robot", "groups": ["system:authenticated"]});
            for (asked, found) in
                [(&["vault"][..], json!(["vault"])), (&["a", "backup", "vault"], json!(["vault", "backup"]))]
            {
                let reviewed = json!({"authenticated": true, "user": user, "audiences": found});
                assert_eq!(review(&cluster, "token-of-robot", asked).await, reviewed);
            }
            check_refused(&cluster, "token-of-robot", "the token is not for these audiences").await;
            // Reviews have the error of the webhook, and refused requests do not.
            check_refused(&cluster, "expired-token", "the token has expired").await;
            check_refused(&cluster, "token-of-nobody", "").await;
            // Nobody knows the tokens of a webhook that is not there.
            drop(services);
            self_review(&cluster, "token-of-jane").await.expect_error(401, "Unauthorized", "Unauthorized");
            let Value::String(error) = review(&cluster, "token-of-jane", &[]).await["error"].clone() else {
                panic!("an error")
            };
            assert!(error.starts_with("[invalid bearer token, Post \"https://127.0.0.1:"), "{error}");
            assert!(error.ends_with(": connect: connection refused]"), "{error}");
            cluster.stop().await;
        }
    });
}

#[test]
fn a_token_webhook_that_refuses_the_server_lets_nobody_in() {
    run(async {
        let services = AccessServices::start();
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = std::fs::read_to_string(services.token_reviewer()).expect("a kubeconfig");
        let other = kubeconfig.replace("token: webhook-token", "token: other");
        assert_ne!(kubeconfig, other);
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, other).expect("a file");
        let cluster = Cluster::with_options(with_token_reviewer(file, "v1")).await;
        self_review(&cluster, "token-of-jane").await.expect_error(401, "Unauthorized", "Unauthorized");
        let error = review(&cluster, "token-of-jane", &[]).await["error"].clone();
        let expect = "[invalid bearer token, the server has asked for the client to provide credentials]";
        assert_eq!(error, expect);
        cluster.stop().await;
    });
}
