//! Tokens of service accounts: how they are requested, what they are bound to, and who they are refused to.

use std::time::Duration;

use pintle::{AccessOptions, AuthorizationMode, Options, ServiceAccountOptions, TokenCacheTtl};
use pintle_auth::jwt::SigningKey;
use pintle_testkit::{Cluster, Protocol, Response, manual_clock, run};
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = pintle::DEFAULT_SERVICE_ACCOUNT_ISSUER;

/// A cluster that caches no tokens, with the service account `robot`.
async fn start(options: Options) -> Cluster {
    let service_accounts = ServiceAccountOptions { token_cache: TokenCacheTtl::DISABLED, ..options.service_accounts };
    let cluster = Cluster::with_options(Options { service_accounts, ..options }).await;
    create(&cluster, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    cluster
}

/// Creates an object and returns its uid.
async fn create(cluster: &Cluster, path: &str, object: Value) -> String {
    let created = cluster.post(path, object.to_string()).await.expect(201).json();
    created["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

async fn create_pod(cluster: &Cluster, name: &str, account: &str) -> String {
    let spec = json!({"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]});
    create(cluster, PODS, json!({"metadata": {"name": name}, "spec": spec})).await
}

async fn request_token(cluster: &Cluster, account: &str, spec: Value) -> Response {
    cluster.post(&format!("{ACCOUNTS}/{account}/token"), json!({ "spec": spec }).to_string()).await
}

/// A token of the account `robot`.
async fn token(cluster: &Cluster, spec: Value) -> String {
    let created = request_token(cluster, "robot", spec).await.expect(201).json();
    created["status"]["token"].as_str().expect("a token").to_owned()
}

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}})
}

/// Sends a request with a bearer token and without a certificate.
async fn with_token(cluster: &Cluster, token: &str, method: &str, path: &str) -> Response {
    // The server ends connections of HTTP/2 after requests that it refuses.
    let client = cluster.client(Protocol::Http1);
    let request = client.request(method, path).anonymous().header("authorization", &format!("Bearer {token}"));
    if method == "POST" { request.json("{}").send().await } else { request.send().await }
}

/// The user info of a token's owner.
async fn whoami(cluster: &Cluster, token: &str) -> Value {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    with_token(cluster, token, "POST", path).await.expect(201).json()["status"]["userInfo"].clone()
}

/// The status of a review of a token.
async fn review(cluster: &Cluster, token: &str, audiences: &[&str]) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    cluster.post(REVIEWS, json!({ "spec": spec }).to_string()).await.expect(201).json()["status"].clone()
}

/// Checks that a token is refused, as the token of a request and in a review.
async fn check_refused(cluster: &Cluster, token: &str, why: &str) {
    let refused = with_token(cluster, token, "GET", ACCOUNTS).await;
    refused.expect_error(401, "Unauthorized", "Unauthorized");
    let error = if why.is_empty() { "invalid bearer token".into() } else { format!("[invalid bearer token, {why}]") };
    assert_eq!(review(cluster, token, &[]).await, json!({"user": {}, "error": error}), "{token}");
}

fn decode(part: &str) -> Value {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).expect("base64url");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn claims(token: &str) -> Value {
    decode(token.split('.').nth(1).expect("a payload"))
}

#[test]
fn requested_tokens_authenticate_their_service_account() {
    run(async {
        let cluster = start(Options::default()).await;
        let created = request_token(&cluster, "robot", json!({})).await.expect(201).json();
        assert_eq!(
            (&created["apiVersion"], &created["kind"]),
            (&json!("authentication.k8s.io/v1"), &json!("TokenRequest"))
        );
        assert_eq!(
            (&created["metadata"]["name"], &created["metadata"]["namespace"]),
            (&json!("robot"), &json!("default"))
        );
        let spec = json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null});
        assert_eq!(created["spec"], spec);
        let token = created["status"]["token"].as_str().expect("a token");
        let claims = claims(token);
        assert_eq!((&claims["iss"], &claims["aud"]), (&json!(ISSUER), &json!([ISSUER])));
        let time = |claim: &str| claims[claim].as_i64().expect("a time");
        assert_eq!((time("exp") - time("iat"), time("nbf")), (3600, time("iat")));
        let robot = cluster.get(&format!("{ACCOUNTS}/robot")).await.expect(200).json();
        let uid = &robot["metadata"]["uid"];
        let kubernetes = json!({"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}});
        assert_eq!(claims["kubernetes.io"], kubernetes);
        let id = format!("JTI={}", claims["jti"].as_str().expect("an id"));
        let user = json!({
            "username": "system:serviceaccount:default:robot",
            "uid": uid,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": [id]},
        });
        assert_eq!(whoami(&cluster, token).await, user);
        let reviewed = json!({"authenticated": true, "user": user, "audiences": [ISSUER]});
        assert_eq!(review(&cluster, token, &[]).await, reviewed);
        cluster.stop().await;
    });
}

#[test]
fn bound_tokens_name_what_they_are_bound_to() {
    run(async {
        let cluster = start(Options::default()).await;
        let node = create(&cluster, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
        let secret = create(&cluster, SECRETS, json!({"metadata": {"name": "s"}})).await;
        let mut pods = Vec::new();
        for (name, target) in [("unbound", None), ("on-node", Some("n")), ("on-no-node", Some("gone"))] {
            pods.push(create_pod(&cluster, name, "robot").await);
            if let Some(target) = target {
                let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": target}});
                let _ = cluster.post(&format!("{PODS}/{name}/binding"), binding.to_string()).await.expect(201);
            }
        }
        for (kind, name, expect) in [
            ("Pod", "unbound", json!({"pod-name": "unbound", "pod-uid": pods[0]})),
            ("Pod", "on-node", json!({"pod-name": "on-node", "pod-uid": pods[1], "node-name": "n", "node-uid": node})),
            ("Pod", "on-no-node", json!({"pod-name": "on-no-node", "pod-uid": pods[2], "node-name": "gone"})),
            ("Node", "n", json!({"node-name": "n", "node-uid": node})),
            ("Secret", "s", json!({})),
        ] {
            let token = token(&cluster, bound_to(kind, name)).await;
            let user = whoami(&cluster, &token).await;
            let mut extra = user["extra"].as_object().expect("extra attributes").clone();
            extra.remove("authentication.kubernetes.io/credential-id").expect("a credential id");
            let found: Value = extra
                .into_iter()
                .map(|(key, values)| {
                    (key.trim_start_matches("authentication.kubernetes.io/").to_owned(), values[0].clone())
                })
                .collect();
            assert_eq!(found, expect, "{kind} {name}");
        }
        let of_secret = token(&cluster, bound_to("Secret", "s")).await;
        assert_eq!(claims(&of_secret)["kubernetes.io"]["secret"], json!({"name": "s", "uid": secret}));
        cluster.stop().await;
    });
}

#[test]
fn invalid_requests_for_tokens_are_rejected_as_upstream_does() {
    run(async {
        let cluster = start(Options::default()).await;
        create_pod(&cluster, "robots", "robot").await;
        create_pod(&cluster, "others", "other").await;
        let with_uid = |mut reference: Value| {
            reference["boundObjectRef"]["uid"] = "u".into();
            reference
        };
        let expiration = |seconds: i64| json!({"expirationSeconds": seconds});
        let invalid = |seconds: i64, why: &str| {
            format!(
                "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: {seconds}: \
                 may not specify a duration {why}"
            )
        };
        for (account, spec, code, reason, message) in [
            ("nobody", json!({}), 404, "NotFound", "serviceaccounts \"nobody\" not found".to_owned()),
            ("robot", expiration(599), 422, "Invalid", invalid(599, "less than 10 minutes")),
            ("robot", expiration((1 << 32) + 1), 422, "Invalid", invalid((1 << 32) + 1, "larger than 2^32 seconds")),
            ("robot", bound_to("Pod", "gone"), 404, "NotFound", "pods \"gone\" not found".to_owned()),
            ("robot", bound_to("Node", "gone"), 404, "NotFound", "nodes \"gone\" not found".to_owned()),
            ("robot", bound_to("Secret", "gone"), 404, "NotFound", "secrets \"gone\" not found".to_owned()),
            (
                "robot",
                bound_to("ConfigMap", "gone"),
                400,
                "BadRequest",
                "cannot bind token to object of type /v1, Kind=ConfigMap".to_owned(),
            ),
            (
                "robot",
                json!({"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Pod", "name": "robots"}}),
                400,
                "BadRequest",
                "cannot bind token to object of type apps/v1, Kind=Pod".to_owned(),
            ),
            (
                "robot",
                bound_to("Pod", "others"),
                400,
                "BadRequest",
                "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name."
                    .to_owned(),
            ),
            (
                "robot",
                with_uid(bound_to("Pod", "robots")),
                409,
                "Conflict",
                "Operation cannot be fulfilled on Pod \"robots\": the UID in the bound object reference (u) does not \
                 match the UID in record. The object might have been deleted and then recreated"
                    .to_owned(),
            ),
        ] {
            request_token(&cluster, account, spec).await.expect_error(code, reason, &message);
        }
        let path = format!("{ACCOUNTS}/robot/token");
        let uid = cluster.get(&format!("{ACCOUNTS}/robot")).await.json()["metadata"]["uid"].clone();
        for (metadata, code, reason, message) in [
            (
                json!({"name": "other"}),
                422,
                "Invalid",
                "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"other\": must \
                 match the service account name if specified"
                    .to_owned(),
            ),
            (
                json!({"namespace": "other"}),
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request".to_owned(),
            ),
            (
                json!({"uid": "u"}),
                409,
                "Conflict",
                format!(
                    "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"robot\": the UID in the token \
                     request (u) does not match the UID of the service account ({})",
                    uid.as_str().expect("a uid")
                ),
            ),
        ] {
            let refused = cluster.post(&path, json!({"metadata": metadata, "spec": {}}).to_string()).await;
            refused.expect_error(code, reason, &message);
        }
        let same = json!({"metadata": {"name": "robot", "namespace": "default", "uid": uid}, "spec": {}});
        let _ = cluster.post(&path, same.to_string()).await.expect(201);
        let _ = cluster.get(&path).await.expect(405);
        cluster.stop().await;
    });
}

#[test]
fn validity_of_tokens_is_limited_and_extended_as_configured() {
    run(async {
        let service_accounts = ServiceAccountOptions {
            max_token_expiration: Duration::from_secs(7200),
            ..ServiceAccountOptions::default()
        };
        let cluster = start(Options { service_accounts, ..Options::default() }).await;
        create_pod(&cluster, "p", "robot").await;
        let lifetime = |token: &str| {
            let claims = claims(token);
            let exp = claims["exp"].as_i64().expect("a time") - claims["iat"].as_i64().expect("a time");
            let after = claims["kubernetes.io"]["warnafter"].as_i64();
            (exp, after.map(|after| after - claims["iat"].as_i64().expect("a time")))
        };
        let long = request_token(&cluster, "robot", json!({"expirationSeconds": 7201})).await.expect(201);
        assert_eq!(long.header("warning"), "299 - \"requested expiration of 7201 seconds shortened to 7200 seconds\"");
        assert_eq!(long.json()["spec"]["expirationSeconds"], 7200);
        assert_eq!(lifetime(long.json()["status"]["token"].as_str().expect("a token")), (7200, None));
        let mut to_pod = bound_to("Pod", "p");
        to_pod["expirationSeconds"] = 3607.into();
        let year = 365 * 24 * 60 * 60;
        let extended = request_token(&cluster, "robot", to_pod.clone()).await.expect(201).json();
        assert_eq!(lifetime(extended["status"]["token"].as_str().expect("a token")), (year, Some(3607)));
        // The client does not learn of it.
        assert_eq!(extended["spec"]["expirationSeconds"], 3607);
        for (key, value) in [("expirationSeconds", json!(3608)), ("audiences", json!([ISSUER, "other"]))] {
            let mut other = to_pod.clone();
            other[key] = value;
            assert_eq!(lifetime(&token(&cluster, other).await).1, None, "{key}");
        }
        assert_eq!(lifetime(&token(&cluster, json!({"expirationSeconds": 3607})).await), (3607, None));
        cluster.stop().await;
    });
}

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
fn relying_parties_find_the_keys_of_the_issuer() {
    run(async {
        let cluster = start(Options::default()).await;
        let configuration = cluster.get("/.well-known/openid-configuration").await.expect(200);
        assert_eq!(configuration.header("content-type"), "application/json");
        assert_eq!(configuration.header("cache-control"), "public, max-age=3600");
        let jwks_uri = format!("{}/openid/v1/jwks", cluster.url());
        let expect = json!({
            "issuer": ISSUER,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        });
        assert_eq!(configuration.json(), expect);
        let keys = cluster.get("/openid/v1/jwks").await.expect(200);
        assert_eq!(keys.header("content-type"), "application/jwk-set+json");
        assert_eq!(keys.header("cache-control"), "public, max-age=3600");
        let token = token(&cluster, json!({})).await;
        let published = pintle_auth::jwt::parse_jwks(keys.text().as_bytes()).expect("keys");
        let jws = pintle_auth::jwt::CompactJws::parse(&token).expect("a token");
        assert!(published.len() == 1 && jws.verify(&published[0]).is_ok());
        assert_eq!(published[0].id(), jws.header().kid);
        let paths = cluster.get("/").await.expect(200).json();
        let paths = paths["paths"].as_array().expect("paths");
        for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
            assert!(paths.contains(&path.into()), "{path}");
            let _ = cluster.request("POST", path).json("{}").send().await.expect(405);
        }
        let refused = cluster.request("GET", "/openid/v1/jwks").header("accept", "application/json").send().await;
        refused.expect_error(
            406,
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json",
        );
        cluster.stop().await;
    });
}

#[test]
fn service_accounts_are_authorized_by_their_name_and_groups() {
    run(async {
        let access = AccessOptions { authorization_modes: vec![AuthorizationMode::Rbac], ..AccessOptions::default() };
        let cluster = start(Options { access, rbac_bootstrap: Some(true), ..Options::default() }).await;
        let token = token(&cluster, json!({})).await;
        // The bootstrap policy lets service accounts read the documents of their issuer, and anonymous users not.
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
fn issuer_that_is_no_url_has_no_documents() {
    run(async {
        let service_accounts =
            ServiceAccountOptions { issuers: vec!["mine".into(), ISSUER.into()], ..ServiceAccountOptions::default() };
        let cluster = start(Options { service_accounts, ..Options::default() }).await;
        let _ = cluster.get("/.well-known/openid-configuration").await.expect(404);
        let token = token(&cluster, json!({})).await;
        assert_eq!(claims(&token)["iss"], "mine");
        assert_eq!(claims(&token)["aud"], json!(["mine", ISSUER]));
        let _ = whoami(&cluster, &token).await;
        cluster.stop().await;
    });
}

#[test]
fn tokens_of_all_configured_keys_and_issuers_are_accepted() {
    run(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        // The tests of the keys' formats have these.
        let rsa = include_str!("../../auth/tests/jwt/rsa.pkcs1.pem");
        let p384 = include_str!("../../auth/tests/jwt/p384.sec1.pem");
        let certificate = file("sa-signer.crt", include_str!("../../auth/tests/jwt/rsa.certificate.pem"));
        let public = file("old.pub", include_str!("../../auth/tests/jwt/p384.public.pem"));
        let service_accounts = ServiceAccountOptions {
            issuers: vec![ISSUER.into(), "https://old".into()],
            signing_key_file: Some(file("sa-signer.key", rsa)),
            key_files: vec![certificate, public],
            ..ServiceAccountOptions::default()
        };
        let cluster = start(Options { service_accounts, ..Options::default() }).await;
        let signed = token(&cluster, json!({})).await;
        assert_eq!(decode(signed.split('.').next().expect("a header"))["alg"], "RS256");
        let mut claims = claims(&signed);
        let old = SigningKey::from_pem(p384.as_bytes()).expect("a key");
        for issuer in [ISSUER, "https://old"] {
            claims["iss"] = issuer.into();
            let user = whoami(&cluster, &old.sign(&claims).expect("a token")).await;
            assert_eq!(user["username"], "system:serviceaccount:default:robot");
        }
        let keys = cluster.get("/openid/v1/jwks").await.expect(200).json();
        let algorithms: Vec<_> = keys["keys"].as_array().expect("keys").iter().map(|key| key["alg"].clone()).collect();
        assert_eq!(algorithms, ["RS256", "ES384"]);
        cluster.stop().await;
    });
}

/// Waits until an object meets a condition, and returns it.
async fn wait_for(cluster: &Cluster, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let reached = async {
        loop {
            let object = cluster.get(path).await.json();
            if condition(&object) {
                return object;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reached).await.unwrap_or_else(|_| panic!("{path}: not reached"))
}

fn data(secret: &Value, key: &str) -> String {
    use base64::Engine as _;
    let text = secret["data"][key].as_str().unwrap_or_default();
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).expect("base64")).expect("UTF-8")
}

/// Creates a token secret of the account `robot`, and returns its token as soon as it is filled in.
async fn legacy_token(cluster: &Cluster, name: &str) -> String {
    legacy_token_in(cluster, SECRETS, name).await
}

/// Like [`legacy_token`], in a namespace by the path of its secrets.
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
        // The use has been tracked before the request was answered.
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
        // What is removed is filled in again, with another signature.
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
        while !is_retried(cluster.get("/metrics").await.expect(200).text()) {
            let _ = cluster.get(&path).await.expect(200);
            tokio::task::yield_now().await;
        }
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

/// Makes the uses of legacy tokens tracked for years.
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
        // The secrets are examined by namespace and name.
        wait_for(&cluster, &format!("{other}/secrets/s"), |secret| !secret["metadata"]["labels"].is_null()).await;
        let kept = cluster.get(&format!("{SECRETS}/s")).await.expect(200).json();
        assert_eq!(kept["metadata"].get("labels"), None);
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
