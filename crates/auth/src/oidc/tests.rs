//! The users that result from claims, with the cases of upstream's `oidc_test.go` and go-oidc's `verify_test.go`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderMap;
use http::header::CACHE_CONTROL;
use pintle_value::Str;
use pintle_value::time::Time;
use serde_json::{Value, json};

use super::{
    ALL_SIGNING_ALGORITHMS, ClaimEndpoint, ClaimSource, DiscoveryError, EndpointResponse, IssuerKeys, JwtAuthenticator,
    jwks_uri, max_age,
};
use crate::authentication_config::{JwtConfig, load};
use crate::jwt::{PublicKey, SigningKey};
use crate::{AuthFuture, AuthenticationError, TokenAuthenticator, UserInfo};

const NOW: i64 = 1_000_000;

/// Fetched keys; `None` if their URL is not known yet.
struct Keys(Option<Vec<PublicKey>>);

impl IssuerKeys for Keys {
    fn current(&self) -> Option<Arc<Vec<PublicKey>>> {
        self.0.clone().map(Arc::new)
    }

    fn fetch(&self) -> Option<AuthFuture<'_, Result<Arc<Vec<PublicKey>>, String>>> {
        None
    }
}

/// The source of distributed claims for tokens without such claims.
struct NoSource;

impl ClaimSource for NoSource {
    fn get<'a>(&'a self, endpoint: &'a ClaimEndpoint) -> AuthFuture<'a, Result<EndpointResponse, String>> {
        panic!("a request to {endpoint:?}")
    }

    fn issuer_keys<'a>(&'a self, issuer: &'a str) -> AuthFuture<'a, Option<Arc<dyn IssuerKeys>>> {
        panic!("keys of {issuer}")
    }
}

/// The endpoint `https://e/groups` with a response, and the keys of the issuer `https://e`.
struct Endpoint {
    response: Result<EndpointResponse, String>,
    keys: Option<Vec<PublicKey>>,
}

impl ClaimSource for Endpoint {
    fn get<'a>(&'a self, endpoint: &'a ClaimEndpoint) -> AuthFuture<'a, Result<EndpointResponse, String>> {
        assert_eq!(*endpoint, ClaimEndpoint { url: "https://e/groups".into(), access_token: "secret".into() });
        AuthFuture::boxed(async { self.response.clone() })
    }

    fn issuer_keys<'a>(&'a self, issuer: &'a str) -> AuthFuture<'a, Option<Arc<dyn IssuerKeys>>> {
        let keys = || self.keys.clone().map(|keys| Arc::new(Keys(Some(keys))) as Arc<dyn IssuerKeys>);
        AuthFuture::ready(if issuer == "https://e" { keys() } else { None })
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

/// Authenticates a token. Only a token with distributed claims makes the test wait.
fn authenticate_with(
    source: Option<Endpoint>,
    config: JwtConfig,
    keys: Option<&SigningKey>,
    token: &str,
) -> Result<Option<UserInfo>, String> {
    let keys = Keys(keys.map(|key| vec![key.public_key().clone()]));
    let algorithms = ALL_SIGNING_ALGORITHMS.map(Str::from).to_vec();
    let now = || Time { seconds: NOW, nanos: 1 };
    let is_ready = source.is_none();
    let source: Arc<dyn ClaimSource> = match source {
        Some(source) => Arc::new(source),
        None => Arc::new(NoSource),
    };
    let authenticator =
        JwtAuthenticator::new(config, algorithms, Arc::new(keys), source, now).expect("an authenticator");
    let mut authenticated = authenticator.authenticate_token(token, &[]);
    assert_eq!(matches!(authenticated, AuthFuture::Ready(_)), is_ready);
    match Pin::new(&mut authenticated).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => {
            result.map(|found| found.map(|found| found.user)).map_err(|AuthenticationError(error)| error)
        }
        Poll::Pending => panic!("not ready"),
    }
}

fn authenticate(config: JwtConfig, keys: Option<&SigningKey>, token: &str) -> Result<Option<UserInfo>, String> {
    authenticate_with(None, config, keys, token)
}

/// Checks the user, as JSON, or the error that results from claims.
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
    // The headers name a key of another algorithm, an unknown key, or a key of their own.
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

/// A configuration with groups from a claim.
fn with_groups() -> String {
    mapped("username: {claim: sub, prefix: ''}, groups: {claim: groups, prefix: 'g:'}", "")
}

#[test]
fn tokens_without_endpoints_are_not_waited_for() {
    let (groups, jane) = (with_groups(), || Ok(json!({"name": "jane"})));
    let unresolved = |claims: Value, error: &str| {
        check(&groups, claims, Err(&format!("oidc: could not expand distributed claims: {error}")));
    };
    let sources = || json!({"s": {"endpoint": "https://e/groups"}});
    // A claim of the token itself wins, and other claims are not resolved.
    let own = json!({"groups": ["a"], "_claim_names": {"groups": "s"}, "_claim_sources": sources()});
    check(&groups, own, Ok(json!({"name": "jane", "groups": ["g:a"]})));
    check(&groups, json!({"groups": null, "_claim_names": {}}), jane());
    check(&groups, json!({"_claim_names": {"other": "s"}, "_claim_sources": sources()}), jane());
    check(&groups, json!({"_claim_names": null, "_claim_sources": null}), jane());
    check(&groups, json!({"_claim_sources": sources()}), jane());
    unresolved(json!({"_claim_names": null}), "oidc: no claim sources");
    unresolved(json!({"_claim_names": {}}), "oidc: no claim sources");
    // Aggregated claims are ignored.
    for source in [json!({"JWT": "a.b.c"}), json!({"endpoint": null}), json!(null)] {
        check(&groups, json!({"_claim_names": {"groups": "s"}, "_claim_sources": {"s": source}}), jane());
    }
    let error = "oidc: could not parse claim sources: json: cannot unmarshal number into Go struct field endpoint.JWT of \
                 type string";
    unresolved(json!({"_claim_names": {}, "_claim_sources": {"s": {"JWT": 5}}}), error);
    // Groups from an expression, or no groups at all, are not resolved. Sources of claims are read all the same.
    let expression =
        mapped("username: {claim: sub, prefix: ''}, groups: {expression: 'claims.?groups.orValue([])'}", "");
    for config in [&*expression, ""] {
        check(config, json!({"_claim_names": {"groups": "s"}, "_claim_sources": sources()}), jane());
        check(config, json!({"_claim_names": {}}), jane());
    }
    for config in [&*groups, &*expression, ""] {
        let verify = |claims: Value, error: &str| check(config, claims, Err(&format!("oidc: verify token: {error}")));
        verify(json!({"_claim_names": {"groups": "s"}}), "oidc: source does not exist");
        verify(json!({"_claim_names": {"x": "t"}, "_claim_sources": sources()}), "oidc: source does not exist");
        for source in [json!(""), json!(null)] {
            let error = "oidc: failed to obtain source from claim name";
            verify(json!({"_claim_names": {"x": source}, "_claim_sources": sources()}), error);
        }
        for (claim, value, error) in [
            ("_claim_names", json!(5), "number into Go struct field idToken._claim_names of type map[string]string"),
            ("_claim_names", json!({"x": 5}), "number into Go struct field idToken._claim_names of type string"),
            (
                "_claim_sources",
                json!("x"),
                "string into Go struct field idToken._claim_sources of type map[string]oidc.claimSource",
            ),
            (
                "_claim_sources",
                json!({"x": 5}),
                "number into Go struct field idToken._claim_sources of type oidc.claimSource",
            ),
            (
                "_claim_sources",
                json!({"x": {"Endpoint": 5}}),
                "number into Go struct field claimSource._claim_sources.endpoint of type string",
            ),
            (
                "_claim_sources",
                json!({"x": {"access_token": {}}}),
                "object into Go struct field claimSource._claim_sources.access_token of type string",
            ),
        ] {
            let error = format!("oidc: failed to unmarshal claims: json: cannot unmarshal {error}");
            verify(json!({ claim: value }), &error);
        }
    }
}

/// Checks the groups, or the error, that result from the response of an endpoint. `keys` are the keys of the endpoint's
/// issuer.
#[track_caller]
fn check_response(
    audiences: &str,
    response: Result<EndpointResponse, &str>,
    keys: Option<&SigningKey>,
    expect: Result<&[&str], &str>,
) {
    let key = new_key();
    let token = json!({
        "iss": "https://i", "aud": "c", "sub": "jane", "exp": NOW + 1,
        "_claim_names": {"groups": "s"},
        "_claim_sources": {"s": {"endpoint": "https://e/groups", "access_token": "secret"}},
    });
    let config = config(&with_groups().replace("audiences: [c]", audiences));
    let keys = keys.map(|key| vec![key.public_key().clone()]);
    let source = Endpoint { response: response.map_err(str::to_owned), keys };
    let found = authenticate_with(Some(source), config, Some(&key), &key.sign(&token).expect("a token"));
    let found = found.map(|user| user.expect("a user").groups);
    let groups = expect.map(|groups| groups.iter().map(|group| Str::from(*group)).collect::<Vec<_>>());
    assert_eq!(found, groups.map_err(|error| format!("oidc: could not expand distributed claims: {error}")));
}

#[test]
fn endpoints_have_distributed_groups() {
    let (key, other) = (new_key(), new_key());
    let one = "audiences: [c]";
    let with_code = |code: u16, status: &str, body: &str| {
        Ok(EndpointResponse { code, status: status.to_owned(), body: Ok(body.as_bytes().to_vec()) })
    };
    let response = |body: &str| with_code(200, "200 OK", body);
    let signed = |changes: Value| {
        let mut claims = json!({"iss": "https://e", "aud": "c", "groups": ["a", "b"], "exp": NOW + 1});
        for (claim, value) in changes.as_object().into_iter().flatten() {
            claims[claim] = value.clone();
        }
        claims.as_object_mut().expect("an object").retain(|_, value| *value != "missing");
        key.sign(&claims).expect("a token")
    };
    let groups: &[&str] = &["g:a", "g:b"];
    let valid = signed(json!({}));
    for code in [200, 202, 226] {
        check_response(one, with_code(code, "", &valid), Some(&key), Ok(groups));
    }
    check_response(one, response(&format!(" {valid}\r\n")), Some(&key), Ok(groups));
    check_response(one, response(&signed(json!({"groups": "a"}))), Some(&key), Ok(&["g:a"]));
    check_response(one, response(&signed(json!({"groups": null}))), Some(&key), Ok(&[]));
    let several = "audiences: [d, c], audienceMatchPolicy: MatchAny";
    for audience in [json!("c"), json!(["x", "d"])] {
        check_response(several, response(&signed(json!({ "aud": audience }))), Some(&key), Ok(groups));
    }
    // The requests fail.
    let request = |response, error: &str| {
        let error = format!("while getting distributed claim \"groups\": {error}");
        check_response(one, response, Some(&key), Err(&error));
    };
    request(Err("Get \"https://e/groups\": EOF"), "Get \"https://e/groups\": EOF");
    for (code, status) in [(404, "404 Not Found"), (199, "199 x"), (227, "227 "), (302, "302 Found"), (500, "500 x")] {
        let error = format!("error while getting distributed claim JWT: {status}");
        request(with_code(code, status, &valid), &error);
    }
    let broken = EndpointResponse { code: 200, status: String::new(), body: Err("EOF".to_owned()) };
    request(Ok(broken), "could not decode distributed claim response");
    // The responses are no tokens.
    for (body, error) in [
        ("{}", "token is not compact JWT"),
        ("", "malformed token"),
        ("a.b", "malformed token"),
        ("a.b.c.d", "malformed token"),
        ("a.b*.c", "error decoding token: illegal base64 data at input byte 1"),
        ("a.abcde.c", "error decoding token: illegal base64 data at input byte 4"),
        ("a..c", "while unmarshaling token: unexpected end of JSON input"),
        (
            "a.W10.c",
            r#"while unmarshaling token: json: cannot unmarshal array into Go value of type struct { Issuer string "json:\"iss\"" }"#,
        ),
        (
            "a.eyJpc3MiOjV9.c",
            "while unmarshaling token: json: cannot unmarshal number into Go struct field .iss of type string",
        ),
    ] {
        let error =
            format!("getting untrusted issuer from endpoint https://e/groups failed for claim \"groups\": {error}");
        check_response(one, response(body), Some(&key), Err(&error));
    }
    // The tokens are not accepted.
    let unknown = |issuer: &str| {
        format!("verifying untrusted issuer {issuer} failed: verifier not initialized for issuer: \"{issuer}\"")
    };
    check_response(one, response(&valid), None, Err(&unknown("https://e")));
    check_response(one, response(&signed(json!({"iss": "https://x"}))), Some(&key), Err(&unknown("https://x")));
    check_response(one, response(&signed(json!({"iss": "missing"}))), Some(&key), Err(&unknown("")));
    let verify = |audiences: &str, changes: Value, error: &str| {
        let error = format!("verify distributed claim token: {error}");
        check_response(audiences, response(&signed(changes)), Some(&key), Err(&error));
    };
    let expired = "oidc: token is expired (Token Expiry: 1970-01-12 13:46:40 +0000 UTC)";
    verify(one, json!({"exp": NOW}), expired);
    verify(one, json!({"aud": "d"}), "oidc: expected audience \"c\" got [\"d\"]");
    verify(several, json!({"aud": "e"}), "oidc: expected audience in [\"c\" \"d\"] got [\"e\"]");
    // A single audience is checked before the times, several audiences after them.
    verify(one, json!({"aud": "d", "exp": NOW}), "oidc: expected audience \"c\" got [\"d\"]");
    verify(several, json!({"aud": "e", "exp": NOW}), expired);
    verify(one, json!({"_claim_names": {"groups": "t"}}), "oidc: source does not exist");
    let unverified = "verify distributed claim token: failed to verify signature: failed to verify id token signature";
    check_response(one, response(&valid), Some(&other), Err(unverified));
    let missing = "jwt returned by distributed claim endpoint \"https://e/groups\" did not contain claim: groups";
    check_response(one, response(&signed(json!({"groups": "missing"}))), Some(&key), Err(missing));
}

#[test]
fn urls_of_endpoints_are_parsed() {
    let key = new_key();
    let token = json!({
        "iss": "https://i", "aud": "c", "sub": "jane", "exp": NOW + 1,
        "_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": "https://[x"}},
    });
    let source = Endpoint { response: Err("a request".to_owned()), keys: None };
    let token = key.sign(&token).expect("a token");
    let error = "oidc: could not expand distributed claims: while getting distributed claim \"groups\": while calling \
                 https://[x: parse \"https://[x\": missing ']' in host";
    assert_eq!(authenticate_with(Some(source), config(&with_groups()), Some(&key), &token), Err(error.to_owned()));
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
