//! What claims become, with the cases of upstream's `oidc_test.go` and go-oidc's `verify_test.go`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderMap;
use http::header::CACHE_CONTROL;
use pintle_value::Str;
use pintle_value::time::Time;
use serde_json::{Value, json};

use super::{ALL_SIGNING_ALGORITHMS, DiscoveryError, IssuerKeys, JwtAuthenticator, jwks_uri, max_age};
use crate::authentication_config::{JwtConfig, load};
use crate::jwt::{PublicKey, SigningKey};
use crate::{AuthFuture, AuthenticationError, TokenAuthenticator, UserInfo};

const NOW: i64 = 1_000_000;

/// Keys that were fetched, or that are not known yet.
struct Keys(Option<Vec<PublicKey>>);

impl IssuerKeys for Keys {
    fn current(&self) -> Option<Arc<Vec<PublicKey>>> {
        self.0.clone().map(Arc::new)
    }

    fn fetch(&self) -> Option<AuthFuture<'_, Result<Arc<Vec<PublicKey>>, String>>> {
        None
    }
}

fn new_key() -> SigningKey {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let key = STANDARD.encode(pair.serialize_der());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
    SigningKey::from_pem(pem.as_bytes()).expect("a key")
}

/// An issuer whose user name is the claim `sub`, with changed fields of its configuration.
fn config(changes: &str) -> JwtConfig {
    let default = "{issuer: {url: 'https://i', audiences: [c]}, claimMappings: {username: {claim: sub, prefix: ''}}}";
    let jwt = if changes.is_empty() { default } else { changes };
    let header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
    let text = format!("{header}jwt: [{jwt}]");
    load(text.as_bytes()).expect("a configuration").jwt.remove(0)
}

fn authenticate(config: JwtConfig, keys: Option<&SigningKey>, token: &str) -> Result<Option<UserInfo>, String> {
    let keys = Keys(keys.map(|key| vec![key.public_key().clone()]));
    let algorithms = ALL_SIGNING_ALGORITHMS.map(Str::from).to_vec();
    let now = || Time { seconds: NOW, nanos: 1 };
    let authenticator = JwtAuthenticator::new(config, algorithms, Arc::new(keys), now).expect("an authenticator");
    match authenticator.authenticate_token(token, &[]) {
        AuthFuture::Ready(Some(result)) => {
            result.map(|found| found.map(|found| found.user)).map_err(|AuthenticationError(error)| error)
        }
        _ => panic!("not ready"),
    }
}

/// Checks the user, as JSON, or the error that claims become.
#[track_caller]
fn check(jwt: &str, claims: Value, expect: Result<Value, &str>) {
    let key = new_key();
    let mut complete = json!({"iss": "https://i", "aud": "c", "sub": "jane", "exp": NOW + 1});
    for (claim, value) in claims.as_object().into_iter().flatten() {
        complete[claim] = value.clone();
    }
    let token = key.sign(&complete).expect("a token");
    let found = authenticate(config(jwt), Some(&key), &token).map(|user| {
        let user = user.expect("a user");
        let mut shown = json!({"name": user.name.as_str()});
        if !user.uid.is_empty() {
            shown["uid"] = json!(user.uid.as_str());
        }
        if !user.groups.is_empty() {
            shown["groups"] = user.groups.iter().map(Str::as_str).collect();
        }
        for (key, values) in &user.extra {
            shown[key.as_str()] = values.iter().map(Str::as_str).collect();
        }
        shown
    });
    assert_eq!(found, expect.map_err(str::to_owned), "{jwt} {claims}");
}

/// A configuration with these mappings and rules.
fn mapped(mappings: &str, rules: &str) -> String {
    format!("{{issuer: {{url: 'https://i', audiences: [c]}}, claimMappings: {{{mappings}}}{rules}}}")
}

#[test]
fn claims_become_users() {
    let name = |name: &str| Ok(json!({ "name": name }));
    check("", json!({}), name("jane"));
    check(
        "",
        json!({"jti": "1"}),
        Ok(json!({"name": "jane", "authentication.kubernetes.io/credential-id": ["JTI=1"]})),
    );
    check("", json!({"jti": 1}), name("jane"));
    let email = mapped("username: {claim: email, prefix: ''}", "");
    check(&email, json!({"email": "j@x"}), name("j@x"));
    check(&email, json!({"email": "j@x", "email_verified": true}), name("j@x"));
    check(&email, json!({"email": "j@x", "email_verified": false}), Err("oidc: email not verified"));
    let error = "oidc: parse 'email_verified' claim: json: cannot unmarshal string into Go value of type bool";
    check(&email, json!({"email": "j@x", "email_verified": "false"}), Err(error));
    check(&email, json!({}), Err("oidc: parse username claims \"email\": claim not present"));
    let error = "oidc: parse username claims \"email\": json: cannot unmarshal number into Go value of type string";
    check(&email, json!({"email": 5}), Err(error));
    let groups = mapped("username: {claim: sub, prefix: 'u:'}, groups: {claim: groups, prefix: 'g:'}", "");
    check(&groups, json!({}), name("u:jane"));
    check(&groups, json!({"groups": null}), name("u:jane"));
    check(&groups, json!({"groups": "a"}), Ok(json!({"name": "u:jane", "groups": ["g:a"]})));
    check(&groups, json!({"groups": ["a", "b"]}), Ok(json!({"name": "u:jane", "groups": ["g:a", "g:b"]})));
    let error = "oidc: parse groups claim \"groups\": json: cannot unmarshal number into Go value of type string";
    check(&groups, json!({"groups": 42}), Err(error));
    let error = "oidc: parse groups claim \"groups\": json: cannot unmarshal array into Go value of type string";
    check(&groups, json!({"groups": ["a", 42]}), Err(error));
    let distributed = json!({"_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": "https://s"}}});
    let error = "oidc: could not expand distributed claims: distributed claims are not supported";
    check(&groups, distributed, Err(error));
    check(&groups, json!({"_claim_names": {"other": "s"}, "_claim_sources": {}}), name("u:jane"));
    let uid = mapped("username: {claim: sub, prefix: ''}, uid: {claim: uid}", "");
    check(&uid, json!({"uid": "7"}), Ok(json!({"name": "jane", "uid": "7"})));
    check(&uid, json!({}), Err("oidc: parse uid claim \"uid\": claim not present"));
}

#[test]
fn standard_claims_are_validated() {
    let verify = |claims: Value, error: &str| check("", claims, Err(&format!("oidc: verify token: {error}")));
    let expired = "oidc: token is expired (Token Expiry: 1970-01-12 13:46:40 +0000 UTC)";
    verify(json!({"exp": NOW}), expired);
    verify(json!({"exp": "1000000"}), expired);
    verify(json!({"exp": 1_000_000.9}), expired);
    for (claim, value, kind, field_type) in [
        ("exp", json!(null), "null", "json.Number"),
        ("exp", json!("soon"), "string", "json.Number"),
        ("exp", json!(1e300), "number", "json.Number"),
        ("iat", json!({}), "object", "json.Number"),
        ("nbf", json!(true), "bool", "json.Number"),
        ("sub", json!(5), "number", "string"),
        ("nonce", json!(5), "number", "string"),
        ("at_hash", json!([]), "array", "string"),
        ("aud", json!(5), "number", "[]string"),
        ("aud", json!({}), "object", "[]string"),
        ("aud", json!(["c", 5]), "number", "string"),
    ] {
        let field = format!("Go struct field idToken.{claim} of type {field_type}");
        let error = format!("oidc: failed to unmarshal claims: json: cannot unmarshal {kind} into {field}");
        verify(json!({ claim: value }), &error);
    }
    verify(json!({"aud": ["d", "e"]}), "oidc: expected audience \"c\" got [\"d\" \"e\"]");
    verify(
        json!({"nbf": NOW + 61}),
        "oidc: current time 1970-01-12 13:46:40 +0000 UTC before the nbf (not before) time: 1970-01-12 13:47:41 +0000 UTC",
    );
    let jane = || Ok(json!({"name": "jane"}));
    check("", json!({"nbf": NOW + 60}), jane());
    check("", json!({"nbf": null, "iat": NOW + 1000, "aud": ["d", "c"]}), jane());
    let several = "{issuer: {url: 'https://i', audiences: [d, c], audienceMatchPolicy: MatchAny}, claimMappings: \
                   {username: {claim: sub, prefix: ''}}}";
    check(several, json!({"aud": ["e", "d"]}), jane());
    check(
        several,
        json!({"aud": "e"}),
        Err("oidc: verify token: oidc: expected audience in [\"c\" \"d\"] got [\"e\"]"),
    );
}

#[test]
fn expressions_become_users() {
    let all = mapped(
        "username: {expression: 'claims.name'}, groups: {expression: 'claims.groups'}, uid: {expression: \
         'string(claims.id)'}, extra: [{key: x.org/a, valueExpression: 'claims.a'}]",
        "",
    );
    let user =
        |name: &str, groups: Value, a: Value| Ok(json!({"name": name, "uid": "7", "groups": groups, "x.org/a": a}));
    let claims = |name: Value, groups: Value, a: Value| json!({"name": name, "groups": groups, "id": 7, "a": a});
    check(&all, claims(json!("j"), json!(["x", "", "y"]), json!("v")), user("j", json!(["x", "y"]), json!(["v"])));
    check(&all, claims(json!("j"), json!(null), json!([""])), Ok(json!({"name": "j", "uid": "7"})));
    let error = "oidc: empty username via CEL expression is not allowed";
    check(&all, claims(json!(""), json!([]), json!([])), Err(error));
    let error = "oidc: error evaluating username claim expression: username claim expression must return a string";
    check(&all, claims(json!(1), json!([]), json!([])), Err(error));
    let error = "oidc: error evaluating group claim expression: expression must return a string or a list of strings";
    check(&all, claims(json!("j"), json!([1]), json!([])), Err(error));
    check(&all, claims(json!("j"), json!({}), json!([])), Err(error));
    let error = "oidc: error evaluating extra claim expression: claims.a: expression must return a string or a list of \
                 strings";
    check(&all, claims(json!("j"), json!([]), json!(true)), Err(error));
    let error = "oidc: error evaluating username claim expression: expression 'claims.name' resulted in error: no such \
                 key: name";
    check(&all, json!({}), Err(error));
    let nested = mapped("username: {expression: 'claims.a__dot__b.c__dash__d[0] + claims[\"x.y\"]'}", "");
    check(&nested, json!({"a.b": {"c-d": ["p"]}, "x.y": "q"}), Ok(json!({"name": "pq"})));
}

#[test]
fn rules_decide_about_claims_and_users() {
    let base = "username: {claim: sub, prefix: ''}, groups: {claim: groups, prefix: ''}";
    let required = mapped(base, ", claimValidationRules: [{claim: hd, requiredValue: x}]");
    let jane = || Ok(json!({"name": "jane"}));
    check(&required, json!({"hd": "x"}), jane());
    check(&required, json!({"hd": "y"}), Err("oidc: required claim hd value does not match. Got = y, want = x"));
    check(&required, json!({}), Err("oidc: required claim hd not present in ID token"));
    let error = "oidc: parse claim hd: json: cannot unmarshal array into Go value of type string";
    check(&required, json!({"hd": ["x"]}), Err(error));
    let rules = mapped(
        base,
        ", claimValidationRules: [{expression: 'claims.n == 1.0', message: m}], userValidationRules: [{expression: \
         '!user.groups.exists(g, g.startsWith(\"system:\"))', message: reserved}]",
    );
    check(&rules, json!({"n": 1}), jane());
    let error = "oidc: error evaluating claim validation expression: validation expression 'claims.n == 1.0' failed: m";
    check(&rules, json!({"n": 2}), Err(error));
    let error = "oidc: error evaluating user info validation rule: validation expression '!user.groups.exists(g, \
                 g.startsWith(\"system:\"))' failed: reserved";
    check(&rules, json!({"n": 1, "groups": "system:masters"}), Err(error));
    check(&rules, json!({"n": 1, "groups": "a"}), Ok(json!({"name": "jane", "groups": ["a"]})));
}

#[test]
fn signatures_are_verified() {
    let (key, other) = (new_key(), new_key());
    let claims = json!({"iss": "https://i", "aud": "c", "sub": "jane", "exp": NOW + 1});
    let token = key.sign(&claims).expect("a token");
    let verify = |error: &str| Err(format!("oidc: verify token: {error}"));
    let unverified = verify("failed to verify signature: failed to verify id token signature");
    assert_eq!(authenticate(config(""), None, &token), Err("oidc: authenticator not initialized".to_owned()));
    assert_eq!(authenticate(config(""), Some(&other), &token), unverified);
    let payload = token.split('.').nth(1).expect("a payload");
    let with_header = |header: &str| format!("{}.{payload}.AAAA", URL_SAFE_NO_PAD.encode(header));
    let algorithms = "[\"ES256\" \"ES384\" \"ES512\" \"PS256\" \"PS384\" \"PS512\" \"RS256\" \"RS384\" \"RS512\"]";
    for name in ["none", "HS256", "es256", ""] {
        let error = format!("oidc: id token signed with unsupported algorithm, expected {algorithms} got \"{name}\"");
        let token = with_header(&json!({ "alg": name }).to_string());
        assert_eq!(authenticate(config(""), Some(&key), &token), verify(&error));
    }
    // A key of another algorithm, an unknown key, and keys in the header.
    for header in
        [r#"{"alg":"RS256"}"#, r#"{"alg":"ES512"}"#, r#"{"alg":"ES256","kid":"x"}"#, r#"{"alg":"ES256","jwk":{}}"#]
    {
        assert_eq!(authenticate(config(""), Some(&key), &with_header(header)), unverified, "{header}");
    }
    let malformed = authenticate(config(""), Some(&key), &with_header("{"));
    assert!(malformed.is_err_and(|error| error.starts_with("oidc: verify token: oidc: malformed jwt: ")));
    let foreign = key.sign(&json!({"iss": "https://j"})).expect("a token");
    for token in ["", "a", "a.b.c", "a.b.c.d", &*format!("{token}.a"), &*foreign] {
        assert_eq!(authenticate(config(""), Some(&key), token), Ok(None), "{token}");
    }
}

#[test]
fn google_may_leave_out_the_scheme() {
    let key = new_key();
    let google = "{issuer: {url: 'https://accounts.google.com', audiences: [c]}, claimMappings: {username: {claim: sub, \
                  prefix: ''}}}";
    for issuer in ["accounts.google.com", "https://accounts.google.com"] {
        let claims = json!({"iss": issuer, "aud": "c", "sub": "jane", "exp": NOW + 1});
        let token = key.sign(&claims).expect("a token");
        let found = authenticate(config(google), Some(&key), &token).expect("no error");
        assert_eq!(found.map(|user| user.name), Some("jane".into()));
    }
}

#[test]
fn a_discovery_document_is_of_its_issuer() {
    let find = |document: &str| jwks_uri("https://i", document.as_bytes());
    assert_eq!(find(r#"{"issuer":"https://i","jwks_uri":"https://i/k","more":1}"#), Ok("https://i/k".to_owned()));
    let error = find(r#"{"issuer":"https://j","jwks_uri":"https://i/k"}"#).map_err(|error| error.to_string());
    let expect = "oidc: issuer did not match the issuer returned by provider, expected \"https://i\" got \"https://j\"";
    assert_eq!(error, Err(expect.to_owned()));
    assert_eq!(find(r#"{"issuer":"https://i"}"#), Err(DiscoveryError::NoKeys));
    for document in ["", "[]", "{", r#"{"issuer":1}"#] {
        assert!(matches!(find(document), Err(DiscoveryError::Malformed(_))), "{document}");
    }
}

#[test]
fn keys_may_be_used_as_long_as_their_response_says() {
    for (value, expect) in [
        ("max-age=60", 60),
        ("public, Max-Age=\"60\"", 60),
        ("max-age=60, no-store", 0),
        ("no-cache, max-age=60", 0),
        ("max-age=x", 0),
        ("private", 0),
    ] {
        let headers = HeaderMap::from_iter([(CACHE_CONTROL, value.parse().expect("a value"))]);
        assert_eq!(max_age(&headers), expect, "{value}");
    }
    assert_eq!(max_age(&HeaderMap::new()), 0);
}
