//! The validation of tokens: their issuers, expiry and audiences.

use std::time::Duration;

use pintle::{AccessOptions, AuthorizationMode, Options, ServiceAccountOptions};
use pintle_auth::jwt::SigningKey;
use pintle_integration::{Cluster, Protocol, manual_clock, run};
use serde_json::{Value, json};

use super::{
    ACCOUNTS, PODS, SECRETS, bound_to, check_refused, claims, create, create_pod, decode, review, start, token, whoami,
    with_token,
};

#[test]
fn tokens_are_refused_for_other_audiences() {
    run(async {
        let service_accounts = ServiceAccountOptions {
            api_audiences: vec!["api".into(), "more".into()],
            ..ServiceAccountOptions::default()
        };
        let access = AccessOptions { tokens: Some("static,alice,7\n".to_owned()), ..AccessOptions::default() };
        let cluster = start(Options { service_accounts, access, ..Options::default() }).await;
        let vault = token(&cluster, json!({"audiences": ["vault"]})).await;
        let own = token(&cluster, json!({})).await;
        assert_eq!(claims(&own)["aud"], json!(["api", "more"]));
        check_refused(
            &cluster,
            &vault,
            "token audiences [\"vault\"] is invalid for the target audiences [\"api\" \"more\"]",
        )
        .await;
        for (token, audiences, expect) in [
            (&vault, &["vault"][..], json!(["vault"])),
            (&vault, &["api", "vault"], json!(["vault"])),
            (&own, &["more"], json!(["more"])),
            (&"static".to_owned(), &["more", "vault"], json!(["more"])),
            (&"static".to_owned(), &[], json!(["api", "more"])),
        ] {
            let status = review(&cluster, token, audiences).await;
            assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &expect), "{audiences:?}");
        }
        for (token, error) in [
            (
                &own,
                "[invalid bearer token, token audiences [\"api\" \"more\"] is invalid for the target audiences \
                 [\"vault\"]]",
            ),
            (&"static".to_owned(), "invalid bearer token"),
        ] {
            let status = review(&cluster, token, &["vault"]).await;
            assert_eq!(status, json!({"user": {}, "error": error}));
        }
        cluster.stop().await;
    });
}

#[test]
fn tokens_end_with_their_time_and_with_what_they_are_bound_to() {
    run(async {
        let clock = manual_clock();
        let cluster = start(Options { clock: clock.clone(), ..Options::default() }).await;
        create_pod(&cluster, "p", "robot").await;
        let of_pod = token(&cluster, bound_to("Pod", "p")).await;
        let of_account = token(&cluster, json!({})).await;
        let _ = whoami(&cluster, &of_pod).await;
        let _ = cluster.delete(&format!("{PODS}/p?gracePeriodSeconds=0")).await.expect(200);
        let invalidated = "service account token has been invalidated";
        check_refused(&cluster, &of_pod, invalidated).await;
        let uid = create_pod(&cluster, "p", "robot").await;
        let claimed = claims(&of_pod)["kubernetes.io"]["pod"]["uid"].as_str().expect("a uid").to_owned();
        let why = format!("pod UID ({uid}) does not match service account pod ref claim ({claimed})");
        check_refused(&cluster, &of_pod, &why).await;
        let _ = cluster.delete(&format!("{ACCOUNTS}/robot")).await.expect(200);
        check_refused(&cluster, &of_account, "serviceaccounts \"robot\" not found").await;
        let uid = create(&cluster, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
        let claimed = claims(&of_account)["kubernetes.io"]["serviceaccount"]["uid"].clone();
        let why = format!("service account UID ({uid}) does not match claim ({})", claimed.as_str().expect("a uid"));
        check_refused(&cluster, &of_account, &why).await;
        let short = token(&cluster, json!({"expirationSeconds": 600})).await;
        let _ = whoami(&cluster, &short).await;
        clock.advance(Duration::from_secs(662));
        check_refused(&cluster, &short, "service account token has expired").await;
        cluster.stop().await;
    });
}

#[test]
fn forged_tokens_are_refused() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    run(async {
        let cluster = start(Options::default()).await;
        let genuine = token(&cluster, json!({})).await;
        let [header, payload, signature] = genuine.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let kid = decode(header)["kid"].clone();
        let crypto = "go-jose/go-jose: error in cryptographic primitive";
        let no_keys = "invalid signature, no keys found";
        let mut admin = claims(&genuine);
        admin["sub"] = "system:serviceaccount:kube-system:admin".into();
        let mut foreign = claims(&genuine);
        foreign["iss"] = "https://foreign".into();
        let own_key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        let own_key = SigningKey::from_pem(own_key.as_bytes()).expect("a key");
        let signed = own_key.sign(&claims(&genuine)).expect("a token");
        let (_, of_other_key) = signed.split_once('.').expect("a header");
        for (token, why) in [
            (format!("{header}.{}.{signature}", encode(&admin)), crypto),
            (format!("{header}.{}.{signature}", encode(&foreign)), ""),
            (format!("{header}.{payload}."), crypto),
            (format!("{}.{payload}.", encode(&json!({"alg": "none"}))), crypto),
            (format!("{}.{payload}.", encode(&json!({"alg": "none", "kid": kid}))), crypto),
            (format!("{}.{payload}.{signature}", encode(&json!({"alg": "HS256", "kid": kid}))), crypto),
            (format!("{}.{payload}.{signature}", encode(&json!({"alg": "ES256", "kid": "../sa.key"}))), no_keys),
            (signed.clone(), no_keys),
            (format!("{header}.{of_other_key}"), crypto),
            (format!("{}.{of_other_key}", encode(&json!({"alg": "ES256", "jwk": {"kty": "EC"}}))), crypto),
            (format!("{genuine}x"), ""),
            (format!("{genuine}.x"), ""),
            ("A".repeat(100_000), ""),
            ("\u{fffd}".to_owned(), ""),
        ] {
            check_refused(&cluster, &token, why).await;
        }
        let client = cluster.client(Protocol::Http1);
        let not_utf8 = client.request("GET", ACCOUNTS).anonymous().header_bytes("authorization", b"Bearer \xff\xfe");
        not_utf8.send().await.expect_error(401, "Unauthorized", "Unauthorized");
        let oversized = "A".repeat(2 << 20);
        let status = review(&cluster, &oversized, &[]).await;
        assert_eq!(status, json!({"user": {}, "error": "invalid bearer token"}));
        let _ = whoami(&cluster, &genuine).await;
        cluster.stop().await;
    });
}

#[test]
fn service_accounts_are_authorized_by_their_name_and_groups() {
    run(async {
        let access = AccessOptions { authorization_modes: vec![AuthorizationMode::Rbac], ..AccessOptions::default() };
        let cluster = start(Options { access, rbac_bootstrap: Some(true), ..Options::default() }).await;
        let token = token(&cluster, json!({})).await;
        // The bootstrap policy lets service accounts read the documents of their issuer, but not anonymous users.
        for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
            let _ = with_token(&cluster, &token, "GET", path).await.expect(200);
            let anonymous = cluster.client(Protocol::Http1).request("GET", path).anonymous().send().await;
            let why = format!("forbidden: User \"system:anonymous\" cannot get path \"{path}\"");
            anonymous.expect_error(403, "Forbidden", &why);
        }
        let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
        let role = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let account = json!({"kind": "ServiceAccount", "namespace": "default", "name": "robot"});
        let group = json!({
            "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:default",
        });
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        for (resource, path, subject) in [("pods", PODS, account), ("secrets", SECRETS, group)] {
            with_token(&cluster, &token, "GET", path).await.expect_error(
                403,
                "Forbidden",
                &format!(
                    "{resource} is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \
                     \"{resource}\" in API group \"\" in the namespace \"default\""
                ),
            );
            let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": [resource]}]);
            create(&cluster, roles, json!({"metadata": {"name": resource}, "rules": rules})).await;
            let binding = json!({"metadata": {"name": resource}, "roleRef": role(resource), "subjects": [subject]});
            create(&cluster, bindings, binding).await;
            let _ = with_token(&cluster, &token, "GET", path).await.expect(200);
        }
        cluster.stop().await;
    });
}

#[test]
fn tokens_stay_valid_after_a_restart() {
    run(async {
        let cluster = Cluster::durable().await;
        create(&cluster, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
        let token = token(&cluster, json!({})).await;
        let _ = whoami(&cluster, &token).await;
        let cluster = cluster.restart().await;
        let _ = whoami(&cluster, &token).await;
        cluster.stop().await;
    });
}
