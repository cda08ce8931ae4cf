//! Tokens of service accounts against a cluster with few objects.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_locks::Mutex;
use pintle_value::Str;
use pintle_value::time::Time;
use serde_json::{Value, json};

use super::*;
use crate::jwt::{CompactJws, SigningKey, parse_claims};
use crate::{AuthFuture, Authentication, TokenAuthenticator};

const NOW: i64 = 1_800_000_000;
const ISSUER: &str = "https://issuer";

/// The objects of a cluster, by kind and by namespace and name, and the recorded effects.
#[derive(Default)]
struct FakeCluster {
    now: Mutex<i64>,
    objects: Mutex<HashMap<(&'static str, String), ObjectIdentity>>,
    token: Mutex<SecretToken>,
    used: Mutex<Vec<TokenUse>>,
    last_used: Mutex<Vec<String>>,
}

impl FakeCluster {
    /// A cluster with a service account, a pod, a node and a secret, each with its kind as uid.
    fn new() -> Arc<Self> {
        let cluster = Self { now: Mutex::new(NOW), ..Self::default() };
        for (kind, key) in [("account", "ns/robot"), ("pod", "ns/p"), ("secret", "ns/s"), ("node", "/n")]
            .into_iter()
            .chain(KINDS.map(|kind| (kind.name(), "/w")))
        {
            cluster.put(kind, key, kind, None);
        }
        Arc::new(cluster)
    }

    fn put(&self, kind: &'static str, key: &str, uid: &str, deleted_at: Option<i64>) {
        let identity = ObjectIdentity { uid: uid.into(), deleted_at: deleted_at.map(Time::from_seconds) };
        self.objects.lock().insert((kind, key.to_owned()), identity);
    }

    fn find(&self, kind: &'static str, namespace: &str, name: &str) -> Option<ObjectIdentity> {
        self.objects.lock().get(&(kind, format!("{namespace}/{name}"))).cloned()
    }
}

impl ServiceAccountLookup for FakeCluster {
    fn now(&self) -> Time {
        Time::from_seconds(*self.now.lock())
    }

    fn service_account(&self, namespace: &str, name: &str) -> Result<ObjectIdentity, String> {
        self.find("account", namespace, name).ok_or_else(|| format!("serviceaccounts \"{name}\" not found"))
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<ObjectIdentity> {
        self.find("pod", namespace, name)
    }

    fn node(&self, name: &str) -> Option<ObjectIdentity> {
        self.find("node", "", name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<ObjectIdentity> {
        self.find("secret", namespace, name)
    }

    fn webhook_configuration(&self, kind: WebhookConfigurationKind, name: &str) -> Option<ObjectIdentity> {
        self.find(kind.name(), "", name)
    }

    fn secret_token(&self, namespace: &str, name: &str, _: &str) -> Option<SecretToken> {
        let identity = self.find("secret", namespace, name)?;
        Some(SecretToken { identity, ..self.token.lock().clone() })
    }

    fn set_last_used<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str, date: String) -> AuthFuture<'a, ()> {
        self.last_used.lock().push(date);
        AuthFuture::ready(())
    }

    fn record_use(&self, used: TokenUse) {
        self.used.lock().push(used);
    }
}

fn key(pem: &str) -> SigningKey {
    SigningKey::from_pem(pem.as_bytes()).expect("a key")
}

fn rsa() -> SigningKey {
    key(include_str!("../../tests/jwt/rsa.pkcs8.pem"))
}

fn other_key() -> SigningKey {
    key(include_str!("../../tests/jwt/p384.sec1.pem"))
}

fn texts(texts: &[&str]) -> Vec<Str> {
    texts.iter().map(|text| Str::from(*text)).collect()
}

fn request(bound: Option<BoundObject>) -> BoundTokenRequest {
    BoundTokenRequest {
        namespace: "ns".into(),
        name: "robot".into(),
        uid: "account".into(),
        bound,
        audiences: texts(&["api"]),
        now: Time::from_seconds(NOW),
        expiration_seconds: 600,
        warn_after_seconds: None,
        id: "id".into(),
    }
}

fn to_pod() -> Option<BoundObject> {
    Some(BoundObject::Pod { pod: ("p".into(), "pod".into()), node: Some(("gone".into(), Str::default())) })
}

const KINDS: [WebhookConfigurationKind; 2] = [WebhookConfigurationKind::Validating, WebhookConfigurationKind::Mutating];

fn to_webhooks(kind: WebhookConfigurationKind) -> Option<BoundObject> {
    let configuration = ("w".into(), kind.name().into());
    Some(BoundObject::WebhookConfiguration { kind, configuration, review_group: "apps".into() })
}

fn issue(request: BoundTokenRequest) -> String {
    TokenIssuer::new(ISSUER.into(), rsa()).issue(request).expect("a token").0
}

fn claims_of(token: &str) -> Value {
    parse_claims(CompactJws::parse(token).expect("a token").unverified_payload()).expect("claims")
}

fn authenticate(
    cluster: &Arc<FakeCluster>,
    tokens: ServiceAccountTokens,
    token: &str,
    audiences: &[&str],
) -> Result<Option<Authentication>, String> {
    let authenticator = ServiceAccountAuthenticator {
        tokens,
        keys: Arc::new(PublicKeys(vec![rsa().public_key().clone()])),
        audiences: texts(&["api", "more"]),
        lookup: cluster.clone(),
    };
    let audiences = texts(audiences);
    let mut authenticated = pin!(authenticator.authenticate_token(token, &audiences));
    match authenticated.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.map_err(|error| error.0),
        Poll::Pending => panic!("the result is pending"),
    }
}

fn bound() -> ServiceAccountTokens {
    ServiceAccountTokens::Bound { issuers: texts(&[ISSUER, "https://old"]) }
}

/// Authenticates a bound token. `Ok` has the user's name, or nothing if the token is not handled.
fn check(cluster: &Arc<FakeCluster>, token: &str, audiences: &[&str], expect: Result<Option<&str>, &str>) {
    let found = authenticate(cluster, bound(), token, audiences);
    let found = found.map(|found| found.map(|found| found.user.name));
    let found = found.as_ref().map(|name| name.as_deref()).map_err(String::as_str);
    assert_eq!(found, expect, "{}", CompactJws::parse(token).map_or(json!(null), |_| claims_of(token)));
}

const ROBOT: Result<Option<&str>, &str> = Ok(Some("system:serviceaccount:ns:robot"));

#[test]
fn claims_are_those_of_upstream() {
    let common = json!({
        "aud": ["api"], "exp": NOW + 600, "iat": NOW, "iss": ISSUER, "jti": "id", "nbf": NOW,
        "sub": "system:serviceaccount:ns:robot",
    });
    for (bound, expect) in [
        (None, json!({})),
        (to_pod(), json!({"pod": {"name": "p", "uid": "pod"}, "node": {"name": "gone"}})),
        (Some(BoundObject::Node("n".into(), "node".into())), json!({"node": {"name": "n", "uid": "node"}})),
        (Some(BoundObject::Secret("s".into(), "secret".into())), json!({"secret": {"name": "s", "uid": "secret"}})),
    ] {
        let mut kubernetes = json!({"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "account"}});
        kubernetes.as_object_mut().expect("an object").extend(expect.as_object().expect("an object").clone());
        let mut expect = common.clone();
        expect["kubernetes.io"] = kubernetes;
        assert_eq!(claims_of(&issue(request(bound))), expect);
    }
    let token = issue(BoundTokenRequest { warn_after_seconds: Some(7), ..request(None) });
    assert_eq!(claims_of(&token)["kubernetes.io"]["warnafter"], NOW + 7);
    let legacy = TokenIssuer::new(ISSUER.into(), rsa()).issue_legacy(("ns", "robot", "account"), "s").expect("a token");
    let expect = json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "ns",
        "kubernetes.io/serviceaccount/secret.name": "s",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": "account",
        "sub": "system:serviceaccount:ns:robot",
    });
    assert_eq!(claims_of(&legacy.0), expect);
}

#[test]
fn users_have_what_tokens_are_bound_to_as_extra_attributes() {
    let cluster = FakeCluster::new();
    for (bound_to, expect) in [
        (None, vec![("credential-id", "JTI=id")]),
        (to_pod(), vec![("credential-id", "JTI=id"), ("node-name", "gone"), ("pod-name", "p"), ("pod-uid", "pod")]),
        (
            Some(BoundObject::Node("n".into(), "node".into())),
            vec![("credential-id", "JTI=id"), ("node-name", "n"), ("node-uid", "node")],
        ),
        (Some(BoundObject::Secret("s".into(), "secret".into())), vec![("credential-id", "JTI=id")]),
    ] {
        let found = authenticate(&cluster, bound(), &issue(request(bound_to)), &[]);
        let found = found.expect("no error").expect("a user");
        assert_eq!(found.audiences, ["api"]);
        assert_eq!((&*found.user.name, &*found.user.uid), ("system:serviceaccount:ns:robot", "account"));
        assert_eq!(found.user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns"]);
        let expect: Vec<(Str, Vec<Str>)> = expect
            .into_iter()
            .map(|(key, value)| (format!("authentication.kubernetes.io/{key}").into(), vec![value.into()]))
            .collect();
        assert_eq!(found.user.extra, expect);
    }
}

#[test]
fn tokens_for_webhooks_name_their_configuration_and_their_groups() {
    let cluster = FakeCluster::new();
    for (kind, claim) in KINDS.into_iter().zip(["validatingwebhookconfiguration", "mutatingwebhookconfiguration"]) {
        let token = issue(request(to_webhooks(kind)));
        let expect = json!({
            "namespace": "ns",
            "serviceaccount": {"name": "robot", "uid": "account"},
            claim: {"name": "w", "uid": kind.name()},
            "attestations": {"admissionReviewAPIGroups": ["apps"]},
        });
        assert_eq!(claims_of(&token)["kubernetes.io"], expect);
        let found = authenticate(&cluster, bound(), &token, &[]).expect("no error").expect("a user");
        let mut extra = found.user.extra;
        assert!(extra.is_sorted());
        extra.retain(|(key, _)| key != "authentication.kubernetes.io/credential-id");
        let expect = [
            ("attestation.authentication.kubernetes.io/admissionReviewAPIGroups".to_owned(), "apps"),
            (format!("authentication.kubernetes.io/{claim}-name"), "w"),
            (format!("authentication.kubernetes.io/{claim}-uid"), kind.name()),
        ];
        assert_eq!(extra, expect.map(|(key, value)| (Str::from(key), vec![Str::from(value)])));
    }
}

#[test]
fn tokens_of_others_are_not_handled() {
    let cluster = FakeCluster::new();
    let foreign = rsa().sign(&json!({"iss": "https://foreign", "aud": "api"})).expect("a token");
    let without_issuer = rsa().sign(&json!({"aud": "api"})).expect("a token");
    for token in ["", "abcdef.0123456789abcdef", "a.b.c", "{}", "\u{fffd}", &foreign, &without_issuer] {
        check(&cluster, token, &[], Ok(None));
    }
    let legacy = TokenIssuer::new(ISSUER.into(), rsa()).issue_legacy(("ns", "robot", "account"), "s").expect("a token");
    check(&cluster, &legacy.0, &[], Ok(None));
    let oversized = format!("{}.{}", "A".repeat(crate::jwt::MAX_TOKEN_BYTES), issue(request(None)));
    check(&cluster, &oversized, &[], Ok(None));
}

#[test]
fn forged_tokens_are_rejected() {
    let cluster = FakeCluster::new();
    let token = issue(request(None));
    check(&cluster, &token, &[], ROBOT);
    let crypto = Err("go-jose/go-jose: error in cryptographic primitive");
    let no_keys = Err("invalid signature, no keys found");
    let [header, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    let mut claims = claims_of(&token);
    claims["sub"] = "system:serviceaccount:kube-system:admin".into();
    let forged = URL_SAFE_NO_PAD.encode(claims.to_string());
    check(&cluster, &format!("{header}.{forged}.{signature}"), &[], crypto);
    check(&cluster, &format!("{header}.{payload}."), &[], crypto);
    let id = rsa().public_key().id().to_owned();
    for (header, expect) in [
        (json!({"alg": "none"}), crypto),
        (json!({"alg": "none", "kid": id}), crypto),
        (json!({"alg": "HS256", "kid": id}), crypto),
        (json!({"alg": "PS256", "kid": id}), crypto),
        (json!({"alg": "RS256", "kid": "another"}), no_keys),
        (json!({"alg": "RS256", "kid": "../../etc/passwd"}), no_keys),
        (json!({"alg": "RS256", "kid": format!("{id}\u{0}")}), no_keys),
        (json!({"alg": "RS256", "kid": id.to_uppercase()}), no_keys),
    ] {
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        for signature in ["", signature] {
            check(&cluster, &format!("{header}.{payload}.{signature}"), &[], expect);
        }
    }
    // The public key is used as the secret of an HMAC.
    let signed = format!("{}.{payload}", URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": id}).to_string()));
    let public = include_str!("../../tests/jwt/rsa.public.pem");
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.as_bytes());
    let hmac = URL_SAFE_NO_PAD.encode(ring::hmac::sign(&secret, signed.as_bytes()));
    check(&cluster, &format!("{signed}.{hmac}"), &[], crypto);
    // The token is signed with another key. Its header names the trusted key, or contains the other key.
    let signed_by_other = TokenIssuer::new(ISSUER.into(), other_key()).issue(request(None)).expect("a token").0;
    check(&cluster, &signed_by_other, &[], no_keys);
    let (signed, _) = signed_by_other.rsplit_once('.').expect("a signature");
    for header in [json!({"alg": "ES384"}), json!({"alg": "ES384", "kid": id, "jwk": {"kty": "EC"}})] {
        let (_, payload) = signed.split_once('.').expect("a payload");
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        check(&cluster, &format!("{header}.{payload}.{signature}"), &[], crypto);
    }
    let duplicate = format!(r#"{{"iss":"{ISSUER}","iss":"{ISSUER}"}}"#);
    check(&cluster, &format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(duplicate)), &[], Ok(None));
}

#[test]
fn tokens_are_valid_for_their_audiences_only() {
    let cluster = FakeCluster::new();
    let with = |audiences: &[&str]| issue(BoundTokenRequest { audiences: texts(audiences), ..request(None) });
    check(&cluster, &with(&["other", "more"]), &[], ROBOT);
    check(&cluster, &with(&["other"]), &["other"], ROBOT);
    check(&cluster, &with(&[]), &["more"], ROBOT);
    let error = r#"token audiences ["other"] is invalid for the target audiences ["api" "more"]"#;
    check(&cluster, &with(&["other"]), &[], Err(error));
    let error = r#"token audiences ["api"] is invalid for the target audiences ["other"]"#;
    check(&cluster, &with(&["api"]), &["other"], Err(error));
    let error = r#"token audiences ["api" "more"] is invalid for the target audiences ["other"]"#;
    check(&cluster, &with(&[]), &["other"], Err(error));
    let found = authenticate(&cluster, bound(), &with(&["b", "a", "c"]), &["a", "b"]);
    assert_eq!(found.expect("no error").expect("a user").audiences, ["b", "a"]);
}

#[test]
fn tokens_are_valid_at_their_times_only() {
    let cluster = FakeCluster::new();
    let token = issue(request(None));
    for (now, expect) in [
        (NOW - 61, Err("service account token is not valid yet")),
        (NOW - 60, ROBOT),
        (NOW + 660, ROBOT),
        (NOW + 661, Err("service account token has expired")),
    ] {
        *cluster.now.lock() = now;
        check(&cluster, &token, &[], expect);
    }
    let mut claims = claims_of(&token);
    claims.as_object_mut().expect("claims").remove("nbf");
    claims["iat"] = (NOW + 722).into();
    let issued_later = rsa().sign(&claims).expect("a token");
    *cluster.now.lock() = NOW + 600;
    check(&cluster, &issued_later, &[], Err("service account token is issued in the future"));
    claims["iat"] = "soon".into();
    let malformed = rsa().sign(&claims).expect("a token");
    let found = authenticate(&cluster, bound(), &malformed, &[]).expect_err("an error");
    assert!(found.starts_with("malformed claims: "), "{found}");
}

#[test]
fn tokens_end_with_what_they_are_bound_to() {
    let invalidated = "service account token has been invalidated";
    let node = Some(BoundObject::Node("n".into(), "node".into()));
    let secret = Some(BoundObject::Secret("s".into(), "secret".into()));
    for (bound_to, kind, key, gone, deleted, recreated) in [
        (
            None,
            "account",
            "ns/robot",
            "serviceaccounts \"robot\" not found",
            "service account ns/robot has been deleted",
            "service account UID (new) does not match claim (account)",
        ),
        (
            to_pod(),
            "pod",
            "ns/p",
            invalidated,
            invalidated,
            "pod UID (new) does not match service account pod ref claim (pod)",
        ),
        (
            node,
            "node",
            "/n",
            invalidated,
            invalidated,
            "node UID (new) does not match service account node ref claim (node)",
        ),
        (
            secret,
            "secret",
            "ns/s",
            invalidated,
            invalidated,
            "secret UID (new) does not match service account secret ref claim (secret)",
        ),
        (
            to_webhooks(WebhookConfigurationKind::Validating),
            "ValidatingWebhookConfiguration",
            "/w",
            invalidated,
            invalidated,
            "ValidatingWebhookConfiguration UID (new) does not match service account validatingwebhookconfiguration ref claim (ValidatingWebhookConfiguration)",
        ),
        (
            to_webhooks(WebhookConfigurationKind::Mutating),
            "MutatingWebhookConfiguration",
            "/w",
            invalidated,
            invalidated,
            "MutatingWebhookConfiguration UID (new) does not match service account mutatingwebhookconfiguration ref claim (MutatingWebhookConfiguration)",
        ),
    ] {
        let cluster = FakeCluster::new();
        let token = issue(request(bound_to));
        check(&cluster, &token, &[], ROBOT);
        // An object that is being deleted counts for another minute.
        cluster.put(kind, key, kind, Some(NOW - 60));
        check(&cluster, &token, &[], ROBOT);
        cluster.put(kind, key, kind, Some(NOW - 61));
        check(&cluster, &token, &[], Err(deleted));
        cluster.put(kind, key, "new", None);
        check(&cluster, &token, &[], Err(recreated));
        cluster.objects.lock().remove(&(kind, key.to_owned()));
        check(&cluster, &token, &[], Err(gone));
    }
}

#[test]
fn stale_tokens_are_counted_and_annotated() {
    let cluster = FakeCluster::new();
    let token = issue(BoundTokenRequest { warn_after_seconds: Some(60), ..request(None) });
    let annotations = || {
        let found = authenticate(&cluster, bound(), &token, &[]).expect("no error").expect("a user");
        found.annotations
    };
    assert_eq!(annotations(), []);
    *cluster.now.lock() = NOW + 67;
    let text = "subject: system:serviceaccount:ns:robot, seconds after warning threshold: 7".to_owned();
    assert_eq!(annotations(), [("authentication.k8s.io/stale-token", text)]);
    assert_eq!(*cluster.used.lock(), [TokenUse::Valid, TokenUse::Stale]);
}

/// Authenticates a legacy token of the secret `ns/s`, whose stored copy `change` may change.
fn check_legacy(look_up: bool, claims: &Value, change: impl FnOnce(&FakeCluster), expect: Result<(), &str>) {
    let cluster = FakeCluster::new();
    let token = rsa().sign(claims).expect("a token");
    *cluster.token.lock() = SecretToken { token: token.clone().into(), ..SecretToken::default() };
    change(&cluster);
    let found = authenticate(&cluster, ServiceAccountTokens::Legacy { look_up }, &token, &[]);
    let found = found.as_ref().map_err(String::as_str).map(|found| {
        let found = found.as_ref().expect("a legacy token");
        assert_eq!((&*found.user.name, &*found.user.uid), ("system:serviceaccount:ns:robot", "account"));
        assert_eq!(found.audiences, ["api", "more"]);
    });
    assert_eq!(found, expect, "{claims}");
}

#[test]
fn legacy_tokens_are_valid_while_their_secret_holds_them() {
    let token = TokenIssuer::new(ISSUER.into(), rsa()).issue_legacy(("ns", "robot", "account"), "s").expect("a token");
    let claims = claims_of(&token.0);
    check_legacy(true, &claims, |_| {}, Ok(()));
    for (claim, value, error) in [
        ("sub", "", "sub claim is missing"),
        ("sub", "system:serviceaccount:ns:other", "sub claim is invalid"),
        ("sub", "system:serviceaccount:other:robot", "sub claim is invalid"),
        ("sub", "alice", "sub claim is invalid"),
        ("kubernetes.io/serviceaccount/namespace", "", "namespace claim is missing"),
        ("kubernetes.io/serviceaccount/secret.name", "", "secretName claim is missing"),
        ("kubernetes.io/serviceaccount/service-account.name", "", "serviceAccountName claim is missing"),
        ("kubernetes.io/serviceaccount/service-account.uid", "", "serviceAccountUID claim is missing"),
    ] {
        let mut claims = claims.clone();
        claims[claim] = value.into();
        check_legacy(true, &claims, |_| {}, Err(error));
    }
    let invalidated = Err("service account token has been invalidated");
    let no_secret = |cluster: &FakeCluster| drop(cluster.objects.lock().remove(&("secret", "ns/s".to_owned())));
    check_legacy(true, &claims, no_secret, invalidated);
    check_legacy(false, &claims, no_secret, Ok(()));
    check_legacy(true, &claims, |cluster| cluster.put("secret", "ns/s", "secret", Some(NOW)), invalidated);
    let changed = |cluster: &FakeCluster| cluster.token.lock().token.push(b'x');
    check_legacy(true, &claims, changed, Err("service account token does not match server's copy"));
    let no_account = |cluster: &FakeCluster| drop(cluster.objects.lock().remove(&("account", "ns/robot".to_owned())));
    check_legacy(true, &claims, no_account, Err("serviceaccounts \"robot\" not found"));
    let deleted = |cluster: &FakeCluster| cluster.put("account", "ns/robot", "account", Some(NOW));
    check_legacy(true, &claims, deleted, Err("service account ns/robot has been deleted"));
    let recreated = |cluster: &FakeCluster| cluster.put("account", "ns/robot", "new", None);
    check_legacy(true, &claims, recreated, Err("service account UID (new) does not match claim (account)"));
    let marked = |cluster: &FakeCluster| cluster.token.lock().invalid_since = "2026-01-01".into();
    check_legacy(
        true,
        &claims,
        marked,
        Err("the token in secret ns/s for service account ns/robot has been marked invalid. Use tokens from the \
             TokenRequest API or manually created secret-based tokens, or remove the \
             'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token"),
    );
}

#[test]
fn uses_of_legacy_tokens_are_tracked() {
    let token =
        TokenIssuer::new(ISSUER.into(), rsa()).issue_legacy(("ns", "robot", "account"), "s").expect("a token").0;
    let today = Time::from_seconds(NOW).rfc3339()[..10].to_owned();
    let tomorrow = Time::from_seconds(NOW + 24 * 60 * 60).rfc3339()[..10].to_owned();
    for (last_used, is_referenced, invalid_since, expect) in [
        ("", false, "", Some(&today)),
        ("2020-01-01", true, "", Some(&today)),
        ("2020-01-01", true, "2026-01-01", Some(&today)),
        (&today, true, "", None),
        (&tomorrow, false, "", None),
    ] {
        let cluster = FakeCluster::new();
        *cluster.token.lock() = SecretToken {
            token: token.clone().into(),
            last_used: last_used.into(),
            invalid_since: invalid_since.into(),
            is_referenced,
            ..SecretToken::default()
        };
        let found = authenticate(&cluster, ServiceAccountTokens::Legacy { look_up: true }, &token, &[]);
        assert_eq!(cluster.last_used.lock().first(), expect, "{last_used}");
        let kind = if is_referenced { TokenUse::LegacyAutoGenerated } else { TokenUse::LegacyManual };
        let mut uses = vec![TokenUse::Legacy, kind];
        uses.extend((!invalid_since.is_empty()).then_some(TokenUse::LegacyInvalidated));
        assert_eq!(*cluster.used.lock(), uses);
        if let Ok(found) = found {
            let Authentication { warnings, annotations, .. } = found.expect("a user");
            assert_eq!(warnings.len(), usize::from(is_referenced));
            let kind = if is_referenced { "autogenerated" } else { "manual" };
            let (key, value) = annotations.last().expect("annotations");
            assert_eq!((*key, &**value), (&*format!("authentication.k8s.io/legacy-token-{kind}-secret"), "s"));
        }
    }
}

#[test]
fn documents_of_the_issuer_are_those_of_upstream() {
    let keys = PublicKeys(vec![rsa().public_key().clone(), other_key().public_key().clone()]);
    let metadata = OpenIdMetadata::new(ISSUER, None, "10.0.0.1:6443", &keys).expect("metadata");
    let expect = r#"{"issuer":"https://issuer","jwks_uri":"https://10.0.0.1:6443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES384","RS256"]}"#;
    assert_eq!(metadata.configuration, expect);
    let metadata = OpenIdMetadata::new(ISSUER, Some("https://keys/jwks"), "h", &keys).expect("metadata");
    assert!(metadata.configuration.contains(r#""jwks_uri":"https://keys/jwks""#));
    for (issuer, error) in [
        ("http://issuer", "issuer URL must use https scheme, got: http://issuer"),
        ("issuer", "issuer URL must use https scheme, got: issuer"),
        ("https://issuer?a=b", "issuer URL may not include a query, got: https://issuer?a=b"),
        ("https://issuer#a", "issuer URL may not include a fragment, got: https://issuer#a"),
        (":issuer", "parse \":issuer\": missing protocol scheme"),
    ] {
        let found = OpenIdMetadata::new(issuer, None, "h", &keys).expect_err("an error");
        assert_eq!(found.to_string(), error);
    }
    assert!(OpenIdMetadata::new(ISSUER, None, "h", &PublicKeys::default()).is_err());
}
