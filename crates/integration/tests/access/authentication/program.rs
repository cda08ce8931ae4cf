//! A webhook that reviews tokens and an issuer of JSON Web Tokens. Both are written in Go with widely used libraries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pintle::{AccessOptions, AuthenticationOptions, DEFAULT_SERVICE_ACCOUNT_ISSUER, OidcOptions, TokenWebhookOptions};
use pintle_integration::{AccessServices, Cluster, Options, run};
use serde_json::{Value, json};

use super::{check_refused, initialized, review, self_review, uncached, whoami};

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
            // A token for other audiences is not valid for this server.
            let user = json!({"username": "robot", "groups": ["system:authenticated"]});
            for (asked, found) in
                [(&["vault"][..], json!(["vault"])), (&["a", "backup", "vault"], json!(["vault", "backup"]))]
            {
                let reviewed = json!({"authenticated": true, "user": user, "audiences": found});
                assert_eq!(review(&cluster, "token-of-robot", asked).await, reviewed);
            }
            check_refused(&cluster, "token-of-robot", "the token is not for these audiences").await;
            // Reviews show the error of the webhook. Answers to refused requests do not.
            check_refused(&cluster, "expired-token", "the token has expired").await;
            check_refused(&cluster, "token-of-nobody", "").await;
            // Without the webhook, no authenticator knows its tokens.
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

/// Flags for the issuer, for some signature algorithms.
fn issuer_of_flags(services: &AccessServices, algorithms: &[&str]) -> AuthenticationOptions {
    let oidc = OidcOptions {
        issuer_url: services.issuer(),
        client_id: "pintle".to_owned(),
        ca_file: Some(services.authority()),
        username_prefix: "oidc:".to_owned(),
        groups_claim: "groups".to_owned(),
        groups_prefix: "oidc:".to_owned(),
        signing_algorithms: algorithms.iter().map(|&name| name.to_owned()).collect(),
        ..OidcOptions::default()
    };
    AuthenticationOptions { oidc: Some(oidc), ..AuthenticationOptions::default() }
}

/// A configuration file with the same meaning as the flags, for all signature algorithms.
fn issuer_of_file(services: &AccessServices, folder: &Path) -> AuthenticationOptions {
    let authority = std::fs::read_to_string(services.authority()).expect("a certificate");
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {"url": services.issuer(), "certificateAuthority": authority, "audiences": ["pintle"]},
            "claimMappings": {
                "username": {"claim": "sub", "prefix": "oidc:"},
                "groups": {"claim": "groups", "prefix": "oidc:"},
            },
        }],
    });
    let path = folder.join("authentication.json");
    std::fs::write(&path, configuration.to_string()).expect("a file");
    AuthenticationOptions { config_file: Some(path), ..AuthenticationOptions::default() }
}

/// Starts a cluster that has read the issuer's discovery document.
async fn start_with_issuer(services: &AccessServices, authentication: AuthenticationOptions) -> Cluster {
    let access = AccessOptions { authentication, ..AccessOptions::default() };
    let cluster = Cluster::with_options(uncached(access)).await;
    initialized(&cluster, &services.issue_token("ES256", 600, claims()).await).await;
    cluster
}

fn claims() -> Value {
    json!({"sub": "jane", "aud": ["pintle", "other"], "groups": ["dev", "test"], "jti": "1"})
}

fn jane() -> Value {
    json!({
        "username": "oidc:jane",
        "groups": ["oidc:dev", "oidc:test", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
    })
}

#[test]
fn tokens_of_a_go_issuer_are_users_until_they_expire() {
    run(async {
        let (services, folder) = (AccessServices::start(), tempfile::tempdir().expect("a folder"));
        for authentication in
            [issuer_of_flags(&services, &["RS256", "ES256"]), issuer_of_file(&services, folder.path())]
        {
            let cluster = start_with_issuer(&services, authentication).await;
            for algorithm in ["RS256", "ES256"] {
                let issue = async |expires_in, changes: Value| {
                    let mut claims = claims();
                    for (claim, value) in changes.as_object().into_iter().flatten() {
                        claims[claim] = value.clone();
                    }
                    services.issue_token(algorithm, expires_in, claims).await
                };
                assert_eq!(whoami(&cluster, &issue(600, json!({})).await).await, jane(), "{algorithm}");
                let error = "oidc: verify token: oidc: expected audience \"pintle\" got [\"other\"]";
                check_refused(&cluster, &issue(600, json!({"aud": "other"})).await, error).await;
                let expired = issue(-1, json!({})).await;
                self_review(&cluster, &expired).await.expect_error(401, "Unauthorized", "Unauthorized");
                let error = review(&cluster, &expired, &[]).await["error"].to_string();
                assert!(error.contains("oidc: verify token: oidc: token is expired (Token Expiry: 2"), "{error}");
                // The server trusts the issuer only for its own tokens.
                check_refused(&cluster, &issue(600, json!({"iss": "https://other"})).await, "").await;
            }
            cluster.stop().await;
        }
    });
}

#[test]
fn keys_of_a_go_issuer_are_rotated() {
    run(async {
        let (services, folder) = (AccessServices::start(), tempfile::tempdir().expect("a folder"));
        for authentication in
            [issuer_of_flags(&services, &["RS256", "ES256"]), issuer_of_file(&services, folder.path())]
        {
            let cluster = start_with_issuer(&services, authentication).await;
            let issue = async || {
                [services.issue_token("RS256", 600, claims()).await, services.issue_token("ES256", 600, claims()).await]
            };
            let first = issue().await;
            services.rotate_keys(true).await;
            let second = issue().await;
            for token in second.iter().chain(&first) {
                assert_eq!(whoami(&cluster, token).await, jane());
            }
            services.rotate_keys(false).await;
            // The server knows the previous keys until it sees a token with a new key.
            for token in issue().await.iter().chain(&second).rev() {
                assert_eq!(whoami(&cluster, token).await, jane());
            }
            let error = "oidc: verify token: failed to verify signature: failed to verify id token signature";
            for token in second.iter().chain(&first) {
                check_refused(&cluster, token, error).await;
            }
            cluster.stop().await;
        }
    });
}

#[test]
fn all_signatures_of_a_go_issuer_are_verified_unless_flags_exclude_them() {
    run(async {
        let (services, folder) = (AccessServices::start(), tempfile::tempdir().expect("a folder"));
        let from_file = start_with_issuer(&services, issuer_of_file(&services, folder.path())).await;
        let from_flags = start_with_issuer(&services, issuer_of_flags(&services, &["ES256"])).await;
        for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"] {
            let token = services.issue_token(algorithm, 600, claims()).await;
            assert_eq!(whoami(&from_file, &token).await, jane(), "{algorithm}");
            let error = "oidc: verify token: oidc: id token signed with unsupported algorithm";
            let error = format!("{error}, expected [\"ES256\"] got \"{algorithm}\"");
            if algorithm == "ES256" {
                assert_eq!(whoami(&from_flags, &token).await, jane());
            } else {
                check_refused(&from_flags, &token, &error).await;
            }
        }
        from_file.stop().await;
        from_flags.stop().await;
    });
}
