//! Tokens of issuers that flags or the configuration file name.

use std::path::Path;

use pintle::{AccessOptions, AuthenticationOptions, AuthorizationMode, OidcOptions};
use pintle_auth::jwt::write_jwks;
use pintle_integration::{Cluster, Options, advance_clock_until, eventually, manual_clock, run};
use serde_json::{Value, json};

use super::issuer::{Issuer, new_key};
use super::{check_refused, initialized, metric, review, self_review, uncached, whoami};

pub(crate) fn options(authentication: AuthenticationOptions) -> Options {
    uncached(AccessOptions { authentication, ..AccessOptions::default() })
}

pub(crate) fn write(folder: &Path, name: &str, content: &str) -> std::path::PathBuf {
    let (path, temporary) = (folder.join(name), folder.join(format!("{name}.new")));
    // The rename is atomic, so the server never reads a partial file.
    std::fs::write(&temporary, content).expect("a file");
    std::fs::rename(&temporary, &path).expect("a file");
    path
}

/// A cluster with an issuer from flags. The server has fetched its keys.
async fn with_flags(issuer: &Issuer, change: impl FnOnce(&mut OidcOptions)) -> Cluster {
    let folder = tempfile::tempdir().expect("a folder");
    let mut oidc = OidcOptions {
        issuer_url: issuer.url.clone(),
        client_id: "pintle".to_owned(),
        ca_file: Some(write(folder.path(), "ca", &issuer.authority)),
        signing_algorithms: vec!["ES256".to_owned(), "RS256".to_owned()],
        ..OidcOptions::default()
    };
    change(&mut oidc);
    let authentication = AuthenticationOptions { oidc: Some(oidc), ..AuthenticationOptions::default() };
    let cluster = Cluster::with_options(options(authentication)).await;
    initialized(&cluster, &issuer.token(json!({}))).await;
    cluster
}

/// A configuration file with one issuer.
pub(crate) fn configuration(issuer: &Issuer, more: &Value, rest: &Value) -> String {
    let mut jwt = json!({
        "issuer": {"url": issuer.url, "certificateAuthority": issuer.authority, "audiences": ["pintle"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        for (name, value) in value.as_object().into_iter().flatten() {
            jwt[field][name] = value.clone();
        }
        if value.is_array() {
            jwt[field] = value.clone();
        }
    }
    let mut configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [jwt],
    });
    for (field, value) in rest.as_object().into_iter().flatten() {
        configuration[field] = value.clone();
    }
    configuration.to_string()
}

pub(crate) fn from_file(file: std::path::PathBuf) -> AuthenticationOptions {
    AuthenticationOptions { config_file: Some(file), ..AuthenticationOptions::default() }
}

#[test]
fn tokens_of_the_issuer_of_flags_are_users() {
    run(async {
        let issuer = Issuer::start().await;
        let cluster = with_flags(&issuer, |oidc| {
            oidc.groups_claim = "groups".to_owned();
            oidc.groups_prefix = "oidc:".to_owned();
            oidc.required_claims = vec![("team".to_owned(), "a".to_owned())];
        })
        .await;
        let token = issuer.token(json!({"team": "a", "groups": ["x", "y"], "jti": "1"}));
        let user = json!({
            "username": format!("{}#jane", issuer.url),
            "groups": ["oidc:x", "oidc:y", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
        });
        assert_eq!(whoami(&cluster, &token).await, user);
        let audience = pintle::DEFAULT_SERVICE_ACCOUNT_ISSUER;
        let reviewed = json!({"authenticated": true, "user": user, "audiences": [audience]});
        assert_eq!(review(&cluster, &token, &[]).await, reviewed);
        // The server is not among these audiences, whatever the audience of the token.
        let unknown = json!({"user": {}, "error": "invalid bearer token"});
        assert_eq!(review(&cluster, &token, &["pintle"]).await, unknown);
        let error = "oidc: required claim team not present in ID token";
        check_refused(&cluster, &issuer.token(json!({})), error).await;
        let error = "oidc: required claim team value does not match. Got = b, want = a";
        check_refused(&cluster, &issuer.token(json!({"team": "b"})), error).await;
        let latency = "apiserver_authentication_jwt_authenticator_latency_seconds_count";
        assert!(metric(&cluster, latency, &[("result", "success")]).await > 0);
        assert!(metric(&cluster, latency, &[("result", "failure")]).await > 0);
        let fetched = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds";
        assert!(metric(&cluster, fetched, &[("result", "success")]).await > 0);
        let keys = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info";
        assert_eq!(metric(&cluster, keys, &[("hash", "sha256:")]).await, 0);
        assert_eq!(metric(&cluster, keys, &[]).await, 1);
        cluster.stop().await;
    });
}

#[test]
fn forged_tokens_are_refused() {
    run(async {
        let issuer = Issuer::start().await;
        let cluster = with_flags(&issuer, |_| {}).await;
        let verify = |error: &str| format!("oidc: verify token: {error}");
        let now = issuer.claims(json!({}))["exp"].as_i64().expect("a time") - 3600;
        for (changes, error) in [
            (json!({"aud": "other"}), "oidc: expected audience \"pintle\" got [\"other\"]"),
            (json!({"aud": null}), "oidc: expected audience \"pintle\" got []"),
            (json!({"exp": 0}), "oidc: token is expired (Token Expiry: 1970-01-01 00:00:00 +0000 UTC)"),
            (json!({"exp": null}), "oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)"),
        ] {
            check_refused(&cluster, &issuer.token(changes), &verify(error)).await;
        }
        let early = issuer.token(json!({"nbf": now + 600}));
        self_review(&cluster, &early).await.expect_error(401, "Unauthorized", "Unauthorized");
        assert!(review(&cluster, &early, &[]).await["error"].to_string().contains("before the nbf"));
        // The server has no user for tokens of other issuers.
        for issuer_url in [json!("https://other"), json!(null), json!(format!("{}/", issuer.url)), json!(5)] {
            check_refused(&cluster, &issuer.token(json!({"iss": issuer_url})), "").await;
        }
        let unverified = verify("failed to verify signature: failed to verify id token signature");
        let forged = new_key().sign(&issuer.claims(json!({}))).expect("a token");
        check_refused(&cluster, &forged, &unverified).await;
        let valid = issuer.token(json!({}));
        let (signing_input, signature) = valid.rsplit_once('.').expect("a signature");
        let payload = signing_input.split('.').nth(1).expect("a payload");
        check_refused(&cluster, &format!("{signing_input}."), &unverified).await;
        check_refused(&cluster, &format!("{signing_input}.{}", &signature[4..]), &unverified).await;
        // {"alg":"none"} and {"alg":"HS256"}
        for (header, name) in [("eyJhbGciOiJub25lIn0", "none"), ("eyJhbGciOiJIUzI1NiJ9", "HS256")] {
            let algorithms = "[\"ES256\" \"RS256\"]";
            let error = "oidc: id token signed with unsupported algorithm";
            let error = verify(&format!("{error}, expected {algorithms} got \"{name}\""));
            check_refused(&cluster, &format!("{header}.{payload}.{signature}"), &error).await;
        }
        assert_eq!(whoami(&cluster, &valid).await["username"], json!(format!("{}#jane", issuer.url)));
        cluster.stop().await;
    });
}

#[test]
fn new_keys_are_fetched_and_unknown_keys_do_not_cause_endless_fetches() {
    run(async {
        let issuer = Issuer::start().await;
        let cluster = with_flags(&issuer, |_| {}).await;
        let _ = whoami(&cluster, &issuer.token(json!({}))).await;
        assert_eq!(issuer.key_fetches(), 1);
        // The server fetches a key when a token first uses it.
        let new = new_key();
        issuer.change(|behavior| behavior.jwks = write_jwks([new.public_key()]).into_bytes());
        let _ = whoami(&cluster, &issuer.token(json!({}))).await;
        assert_eq!(issuer.key_fetches(), 1);
        let _ = whoami(&cluster, &new.sign(&issuer.claims(json!({}))).expect("a token")).await;
        assert_eq!(issuer.key_fetches(), 2);
        self_review(&cluster, &issuer.token(json!({}))).await.expect_error(401, "Unauthorized", "Unauthorized");
        // Keys that are malformed or too large do not replace the known keys.
        for jwks in [b"{".to_vec(), vec![b' '; 2 << 20]] {
            issuer.change(|behavior| behavior.jwks = jwks);
            self_review(&cluster, &issuer.token(json!({}))).await.expect_error(401, "Unauthorized", "Unauthorized");
            let _ = whoami(&cluster, &new.sign(&issuer.claims(json!({}))).expect("a token")).await;
        }
        let started = std::time::Instant::now();
        let before = issuer.key_fetches();
        for _ in 0..60 {
            let unknown = new_key().sign(&issuer.claims(json!({}))).expect("a token");
            self_review(&cluster, &unknown).await.expect_error(401, "Unauthorized", "Unauthorized");
        }
        let allowed = 10 + usize::try_from(started.elapsed().as_secs()).expect("a number") + 1;
        assert!(issuer.key_fetches() - before <= allowed, "{} {allowed}", issuer.key_fetches() - before);
        cluster.stop().await;
    });
}

#[test]
fn keys_are_not_fetched_while_the_issuer_lets_them_be_used() {
    run(async {
        let issuer = Issuer::start().await;
        issuer.change(|behavior| behavior.header = "Cache-Control: public, max-age=3600".to_owned());
        let cluster = with_flags(&issuer, |_| {}).await;
        let _ = whoami(&cluster, &issuer.token(json!({}))).await;
        for _ in 0..3 {
            let unknown = new_key().sign(&issuer.claims(json!({}))).expect("a token");
            self_review(&cluster, &unknown).await.expect_error(401, "Unauthorized", "Unauthorized");
        }
        assert_eq!(issuer.key_fetches(), 1);
        cluster.stop().await;
    });
}

#[test]
fn an_issuer_that_does_not_answer_is_tried_again() {
    run(async {
        let (issuer, clock) = (Issuer::start().await, manual_clock());
        let folder = tempfile::tempdir().expect("a folder");
        let file = write(folder.path(), "config", &configuration(&issuer, &json!({}), &json!({})));
        issuer.change(|behavior| behavior.code = 500);
        let options = options(from_file(file));
        let cluster = Cluster::with_options(Options { clock: clock.clone(), ..options }).await;
        let token = || issuer.token(json!({"exp": 4_000_000_000_i64}));
        check_refused(&cluster, &token(), "oidc: authenticator not initialized").await;
        // The server does not use the discovery document of another issuer either.
        issuer.change(|behavior| (behavior.code, behavior.name) = (200, Some("https://other".to_owned())));
        check_refused(&cluster, &token(), "oidc: authenticator not initialized").await;
        issuer.change(|behavior| behavior.name = None);
        let found = async {
            loop {
                let response = self_review(&cluster, &token()).await;
                if response.status == 201 {
                    return response.json()["status"]["userInfo"]["username"].clone();
                }
            }
        };
        assert_eq!(advance_clock_until(&clock, found).await, json!("jane"));
        cluster.stop().await;
    });
}

#[test]
fn an_issuer_that_hangs_delays_nobody_else() {
    run(async {
        let issuer = Issuer::start().await;
        let cluster = with_flags(&issuer, |_| {}).await;
        let _ = whoami(&cluster, &issuer.token(json!({}))).await;
        issuer.change(|behavior| behavior.hangs = true);
        let unknown = new_key().sign(&issuer.claims(json!({}))).expect("a token");
        let known = issuer.token(json!({}));
        // The request with the unknown key waits; other requests do not.
        tokio::select! {
            response = self_review(&cluster, &unknown) => panic!("{}", response.text()),
            user = whoami(&cluster, &known) => {
                assert_eq!(user["username"], json!(format!("{}#jane", issuer.url)));
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn expressions_map_claims_and_decide() {
    run(async {
        let issuer = Issuer::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let more = json!({
            "issuer": {"discoveryURL": format!("{}/elsewhere", issuer.url), "url": "https://pintle.test"},
            "claimMappings": {
                "username": {"claim": "", "expression": "'x:' + claims.sub", "prefix": null},
                "groups": {"expression": "claims.roles.split(',')"},
                "uid": {"claim": "uid"},
                "extra": [
                    {"key": "pintle.test/tenant", "valueExpression": "claims.tenant"},
                    {"key": "pintle.test/none", "valueExpression": "claims.?none.orValue('')"},
                ],
            },
            "claimValidationRules": [{"expression": "claims.exp - claims.iat <= 7200.0", "message": "too long"}],
            "userValidationRules": [{"expression": "!user.username.startsWith('x:system')", "message": "reserved"}],
        });
        let file = write(folder.path(), "config", &configuration(&issuer, &more, &json!({})));
        issuer.change(|behavior| behavior.name = Some("https://pintle.test".to_owned()));
        let cluster = Cluster::with_options(options(from_file(file))).await;
        let exp = issuer.claims(json!({}))["exp"].as_i64().expect("a time");
        let token = |changes: Value| {
            let mut claims = json!({"iss": "https://pintle.test", "iat": exp - 3600, "roles": "a,,b", "uid": "7", "tenant": ["t", ""]});
            for (claim, value) in changes.as_object().into_iter().flatten() {
                claims[claim] = value.clone();
            }
            issuer.token(claims)
        };
        initialized(&cluster, &token(json!({}))).await;
        let user = json!({
            "username": "x:jane",
            "uid": "7",
            "groups": ["a", "b", "system:authenticated"],
            "extra": {"pintle.test/tenant": ["t"]},
        });
        assert_eq!(whoami(&cluster, &token(json!({}))).await, user);
        let rule = "oidc: error evaluating claim validation expression: validation expression \
                    'claims.exp - claims.iat <= 7200.0' failed: too long";
        check_refused(&cluster, &token(json!({"iat": exp - 7201})), rule).await;
        let rule = "oidc: error evaluating user info validation rule: validation expression \
                    '!user.username.startsWith('x:system')' failed: reserved";
        check_refused(&cluster, &token(json!({"sub": "system:admin"})), rule).await;
        let missing = "oidc: parse uid claim \"uid\": claim not present";
        check_refused(&cluster, &token(json!({"uid": null})), missing).await;
        cluster.stop().await;
    });
}

#[test]
fn the_configuration_is_reloaded() {
    run(async {
        let (first, second) = (Issuer::start().await, Issuer::start().await);
        let folder = tempfile::tempdir().expect("a folder");
        let file = write(folder.path(), "config", &configuration(&first, &json!({}), &json!({})));
        let cluster = Cluster::with_options(options(from_file(file))).await;
        initialized(&cluster, &first.token(json!({}))).await;
        assert_eq!(whoami(&cluster, &first.token(json!({}))).await["username"], json!("jane"));
        check_refused(&cluster, &second.token(json!({})), "").await;
        let reloads = "apiserver_authentication_config_controller_automatic_reloads_total";
        // The server uses neither a broken file nor other rules for anonymous requests.
        for (text, failures) in [
            ("jwt: []".to_owned(), 1),
            (configuration(&second, &json!({}), &json!({"anonymous": {"enabled": true}})), 2),
        ] {
            write(folder.path(), "config", &text);
            let failed = || async { metric(&cluster, reloads, &[("status", "failure")]).await >= failures };
            eventually("the reload fails", failed).await;
            assert_eq!(whoami(&cluster, &first.token(json!({}))).await["username"], json!("jane"));
        }
        write(folder.path(), "config", &configuration(&second, &json!({}), &json!({})));
        let succeeded = || async { metric(&cluster, reloads, &[("status", "success")]).await >= 1 };
        eventually("the reload succeeds", succeeded).await;
        // The new configuration is in use, and its issuer is ready.
        assert_eq!(whoami(&cluster, &second.token(json!({}))).await["username"], json!("jane"));
        check_refused(&cluster, &first.token(json!({})), "").await;
        let info = "apiserver_authentication_config_controller_last_config_info";
        assert_eq!(metric(&cluster, info, &[]).await, 1);
        cluster.stop().await;
    });
}

#[test]
fn anonymous_requests_are_allowed_for_configured_paths() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n\
                    anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}]}\n";
        let access = AccessOptions {
            authentication: from_file(write(folder.path(), "config", text)),
            authorization_modes: vec![AuthorizationMode::AlwaysAllow],
            ..AccessOptions::default()
        };
        let cluster = Cluster::with_options(uncached(access)).await;
        for (path, code) in [("/livez", 200), ("/readyz", 200), ("/healthz", 401), ("/livez/ping", 401), ("/api", 401)]
        {
            let response = cluster.request("GET", path).anonymous().send().await;
            assert_eq!(response.status, code, "{path}");
        }
        // The server does not ignore invalid credentials.
        let request = cluster.request("GET", "/livez").anonymous().header("authorization", "Bearer x");
        assert_eq!(request.send().await.status, 401);
        cluster.stop().await;
    });
}
