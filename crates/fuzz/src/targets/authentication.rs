//! The inputs of token authenticators: their configuration, the documents that an issuer publishes, and the claims of
//! its tokens.

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};
use pintle_auth::authentication_config::{
    AuthenticationConfiguration, ClaimRule, JwtConfig, PrefixedMapping, compile_jwt, load, validate,
};
use pintle_auth::jwt::{PublicKey, SigningKey, parse_jwks, public_keys_from_pem, write_jwks};
use pintle_auth::oidc::{
    ALL_SIGNING_ALGORITHMS, ClaimEndpoint, ClaimSource, DiscoveryError, EndpointResponse, IssuerKeys, JwtAuthenticator,
    jwks_uri, max_age, untrusted_issuer,
};
use pintle_auth::{AuthFuture, TokenAuthenticator, UserInfo};
use pintle_codec::json;
use pintle_value::time::Time;
use pintle_value::{Str, Value, object};

use crate::{MemoryLimit, with_memory_limit};

/// Compiled expressions are larger than their text.
const CONFIGURATION_LIMIT: MemoryLimit = MemoryLimit { per_byte: 4 << 10, base: 4 << 20 };
const LIMIT: MemoryLimit = MemoryLimit { per_byte: 600, base: 256 << 10 };

/// The time of all tokens, in seconds.
const NOW: i64 = 1_000_000;
const ISSUER: &str = "https://i";
/// The issuer of the tokens that endpoints of distributed claims return.
const ENDPOINT_ISSUER: &str = "https://e";
/// The issuer of service account tokens.
const DISALLOWED: &str = "https://kubernetes";

const HEADER: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
/// A configuration that maps users by expressions.
const WITH_EXPRESSIONS: &str = "jwt:
- issuer: {url: 'https://i', audiences: [a, b], audienceMatchPolicy: MatchAny}
  claimMappings:
    username: {expression: '\"u:\" + claims.sub'}
    groups: {expression: 'dyn(claims.?groups.orValue([])).map(g, \"g:\" + g)'}
    uid: {expression: 'claims.?uid.orValue(\"\")'}
    extra: [{key: example.com/tenant, valueExpression: 'claims.?tenant.orValue(null)'}]
  claimValidationRules: [{expression: '!has(claims.hd) || claims.hd.endsWith(\"x\")', message: other domain}]
  userValidationRules: [{expression: '!user.username.startsWith(\"u:system:\")', message: reserved}]
";
/// A configuration that maps users by claims.
const WITH_CLAIMS: &str = "jwt:
- issuer: {url: 'https://i', audiences: [a]}
  claimMappings:
    username: {claim: email, prefix: 'u:'}
    groups: {claim: groups, prefix: 'g:'}
    uid: {claim: sub}
  claimValidationRules: [{claim: hd, requiredValue: x}]
";
const WITH_EMAIL: &str = "apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: 'https://j/', discoveryURL: 'https://d/.well-known', audiences: [a]}
  claimMappings: {username: {expression: claims.email}}
  claimValidationRules: [{expression: claims.email_verified == true}]
- issuer: {url: 'https://accounts.google.com', audiences: [a], egressSelectorType: cluster}
  claimMappings: {username: {claim: sub, prefix: ''}}
anonymous: {enabled: true, conditions: [{path: /livez}]}
";
const DISCOVERY: &str =
    r#"{"issuer":"https://i","jwks_uri":"https://i/keys","id_token_signing_alg_values_supported":["ES256"]}"#;

fn key(pem: &str) -> SigningKey {
    SigningKey::from_pem(pem.as_bytes()).expect("a key")
}

/// The issuer's key.
static KEY: LazyLock<SigningKey> = LazyLock::new(|| key(include_str!("../../../auth/tests/jwt/p256.sec1.pem")));
/// A key that the issuer does not have. The issuer of the endpoints' tokens has it.
static OTHER_KEY: LazyLock<SigningKey> = LazyLock::new(|| key(include_str!("../../../auth/tests/jwt/p384.sec1.pem")));

/// Keys that were fetched.
struct FetchedKeys(Arc<Vec<PublicKey>>);

impl IssuerKeys for FetchedKeys {
    fn current(&self) -> Option<Arc<Vec<PublicKey>>> {
        Some(self.0.clone())
    }

    fn fetch(&self) -> Option<AuthFuture<'_, Result<Arc<Vec<PublicKey>>, String>>> {
        None
    }
}

/// Endpoints whose response is a token with the access token of the request as its payload.
struct Endpoints;

impl ClaimSource for Endpoints {
    fn get<'a>(&'a self, endpoint: &'a ClaimEndpoint) -> AuthFuture<'a, Result<EndpointResponse, String>> {
        let token = OTHER_KEY.sign_payload(endpoint.access_token.as_bytes()).expect("a token");
        AuthFuture::ready(Ok(EndpointResponse { code: 200, status: "200 OK".to_owned(), body: Ok(token.into_bytes()) }))
    }

    fn issuer_keys<'a>(&'a self, issuer: &'a str) -> AuthFuture<'a, Option<Arc<dyn IssuerKeys>>> {
        let keys = || Arc::new(FetchedKeys(Arc::new(vec![OTHER_KEY.public_key().clone()]))) as Arc<dyn IssuerKeys>;
        AuthFuture::ready((issuer == ENDPOINT_ISSUER).then(keys))
    }
}

fn authenticator(config: JwtConfig, keys: Vec<PublicKey>) -> JwtAuthenticator {
    let algorithms = ALL_SIGNING_ALGORITHMS.map(Str::from).to_vec();
    let now = || Time { seconds: NOW, nanos: 0 };
    let keys = Arc::new(FetchedKeys(Arc::new(keys)));
    JwtAuthenticator::new(config, algorithms, keys, Arc::new(Endpoints), now).expect("a valid configuration")
}

fn issuer(text: &str) -> JwtConfig {
    load(format!("{HEADER}{text}").as_bytes()).expect("a configuration").jwt.remove(0)
}

/// The user of a token; `None` if the token is not accepted.
fn user(authenticator: &JwtAuthenticator, token: &str) -> Option<UserInfo> {
    let authenticated = pin!(authenticator.authenticate_token(token, &[]));
    let Poll::Ready(result) = authenticated.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("known keys and responses are not waited for")
    };
    result.ok().flatten().map(|found| found.user)
}

/// A token with the payload of the first token and the signature of the second.
fn with_signature(payload: &str, signature: &str) -> String {
    let (payload, _) = payload.rsplit_once('.').expect("a token");
    let (_, signature) = signature.rsplit_once('.').expect("a token");
    format!("{payload}.{signature}")
}

/// True if the access token of a source is the payload of an endpoint's token with groups. The field's name may be in
/// any case, and the other decoder does not read all payloads.
fn has_endpoint_claims(source: &serde_json::Value) -> bool {
    let fields = source.as_object().into_iter().flatten();
    let mut texts =
        fields.filter(|(key, _)| key.eq_ignore_ascii_case("access_token")).filter_map(|(_, it)| it.as_str());
    texts.any(|text| match serde_json::from_str::<serde_json::Value>(text) {
        Ok(claims) => claims["iss"] == ENDPOINT_ISSUER && !claims["groups"].is_null(),
        Err(_) => true,
    })
}

/// Claims that every authenticator of an issuer with this audience accepts.
fn claims(issuer: &str, audience: &str) -> Value {
    object! {
        "iss": issuer, "aud": audience, "exp": NOW + 10, "sub": "s", "email": "e@x", "email_verified": true,
        "groups": Value::Array(vec!["g".into()]), "hd": "x", "jti": "1",
    }
}

/// Encoding a configuration and loading it again gives the same configuration. A valid configuration can be used, and
/// its authenticators accept only tokens of the issuer's key and audiences.
pub(super) fn authentication_config(input: &[u8]) {
    let Ok(configuration) = with_memory_limit(input.len(), CONFIGURATION_LIMIT, || load(input)) else { return };
    assert_eq!(load(&json::encode(&written(&configuration))).as_ref(), Ok(&configuration));
    let errors = validate(&configuration, &[DISALLOWED.into()], true);
    for config in &configuration.jwt {
        let compiled = compile_jwt(config);
        if !errors.is_empty() {
            continue;
        }
        assert!(compiled.is_ok(), "{compiled:?}");
        check_issuer(config);
    }
}

fn check_issuer(config: &JwtConfig) {
    let (url, name) = (&config.issuer.url, &config.mappings.username);
    assert!(url.to_ascii_lowercase().starts_with("https:") && url != DISALLOWED, "{url}");
    assert_ne!(name.claim.is_empty(), name.expression.is_empty());
    let authenticator = authenticator(config.clone(), vec![KEY.public_key().clone()]);
    let audience = config.issuer.audiences.first().expect("an audience");
    let token = KEY.sign_payload(&json::encode(&claims(url, audience))).expect("a token");
    let forged = OTHER_KEY.sign_payload(&json::encode(&claims(url, audience))).expect("a token");
    if let Some(user) = user(&authenticator, &token) {
        assert!(!name.expression.is_empty() || user.name.starts_with(name.prefix.as_deref().unwrap_or_default()));
        assert!(!user.name.is_empty(), "an expression has no user name");
    }
    let other = KEY.sign_payload(&json::encode(&claims(url, "\u{1}"))).expect("a token");
    let is_accepted = config.issuer.audiences.iter().any(|audience| audience == "\u{1}");
    for refused in [forged.clone(), with_signature(&token, &forged), other] {
        assert!(is_accepted || user(&authenticator, &refused).is_none(), "a token of another key or audience");
    }
}

/// A configuration as the content of its file.
fn written(configuration: &AuthenticationConfiguration) -> Value {
    let list = |items: &[Str]| Value::Array(items.iter().cloned().map(Value::from).collect());
    let claim_rule = |rule: &ClaimRule| {
        object! {
            "claim": rule.claim.clone(), "requiredValue": rule.required_value.clone(),
            "expression": rule.expression.clone(), "message": rule.message.clone(),
        }
    };
    let prefixed = |mapping: &PrefixedMapping| {
        let prefix = mapping.prefix.clone().map_or(Value::Null, Value::from);
        object! {"claim": mapping.claim.clone(), "prefix": prefix, "expression": mapping.expression.clone()}
    };
    let jwt = |config: &JwtConfig| {
        let (issuer, mappings) = (&config.issuer, &config.mappings);
        let extra = mappings.extra.iter();
        let extra = extra.map(|it| object! {"key": it.key.clone(), "valueExpression": it.expression.clone()});
        let user_rules = config.user_rules.iter();
        let user_rules =
            user_rules.map(|it| object! {"expression": it.expression.clone(), "message": it.message.clone()});
        object! {
            "issuer": object! {
                "url": issuer.url.clone(), "discoveryURL": issuer.discovery_url.clone(),
                "certificateAuthority": issuer.certificate_authority.clone(), "audiences": list(&issuer.audiences),
                "audienceMatchPolicy": issuer.audience_match_policy.clone(),
                "egressSelectorType": issuer.egress_selector_type.clone(),
            },
            "claimValidationRules": Value::Array(config.claim_rules.iter().map(claim_rule).collect()),
            "claimMappings": object! {
                "username": prefixed(&mappings.username), "groups": prefixed(&mappings.groups),
                "uid": object! {"claim": mappings.uid.claim.clone(), "expression": mappings.uid.expression.clone()},
                "extra": Value::Array(extra.collect()),
            },
            "userValidationRules": Value::Array(user_rules.collect()),
        }
    };
    let anonymous = configuration.anonymous.as_ref().map_or(Value::Null, |anonymous| {
        let conditions = anonymous.paths.iter().map(|path| object! {"path": path.clone()});
        object! {"enabled": anonymous.enabled, "conditions": Value::Array(conditions.collect())}
    });
    object! {
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "jwt": Value::Array(configuration.jwt.iter().map(jwt).collect()), "anonymous": anonymous,
    }
}

pub(super) fn authentication_config_seeds() -> Vec<Vec<u8>> {
    let complete = [WITH_EXPRESSIONS, WITH_CLAIMS].map(|text| format!("{HEADER}{text}"));
    complete.into_iter().chain([WITH_EMAIL.to_owned()]).map(String::into_bytes).collect()
}

/// The claims of an accepted token are of the issuer, for an audience, and not expired. The user is mapped by the
/// configuration. A token with the same claims but with another key or signature is never accepted.
pub(super) fn token_claims(input: &[u8]) {
    static AUTHENTICATORS: LazyLock<[JwtAuthenticator; 2]> = LazyLock::new(|| {
        [WITH_EXPRESSIONS, WITH_CLAIMS].map(|text| authenticator(issuer(text), vec![KEY.public_key().clone()]))
    });
    let Some((chosen, payload)) = input.split_first() else { return };
    let authenticator = &AUTHENTICATORS[usize::from(*chosen) % AUTHENTICATORS.len()];
    let token = KEY.sign_payload(payload).expect("a token");
    let Some(found) = user(authenticator, &token) else { return };
    assert_eq!(untrusted_issuer(&token).as_deref(), Some(ISSUER));
    let changed = KEY.sign_payload(&[payload, b" "].concat()).expect("a token");
    let forged = OTHER_KEY.sign_payload(payload).expect("a token");
    for refused in [with_signature(&changed, &token), with_signature(&token, &forged), forged] {
        assert_eq!(user(authenticator, &refused), None, "a token is accepted that the issuer has not signed");
    }
    assert!(found.name.starts_with("u:"), "{found:?}");
    assert!(found.groups.iter().all(|group| group.starts_with("g:")), "{found:?}");
    // The other decoder reads fewer texts, but it reads none differently.
    let Ok(claims) = serde_json::from_slice::<serde_json::Value>(payload) else { return };
    assert_eq!(claims["iss"], ISSUER);
    let audiences = claims["aud"].as_array().cloned().unwrap_or_else(|| vec![claims["aud"].clone()]);
    assert!(audiences.iter().any(|audience| audience == "a" || audience == "b"), "{claims}");
    let time = |claim: &str| claims[claim].as_f64().or_else(|| claims[claim].as_str()?.parse().ok());
    assert!(time("exp").is_some_and(|expiry| expiry >= NOW as f64), "{claims}");
    assert!(time("nbf").is_none_or(|not_before| not_before < (NOW + 61) as f64), "{claims}");
    if chosen.is_multiple_of(2) {
        assert!(!found.name.starts_with("u:system:"), "{claims}");
    } else {
        assert!(claims["hd"] == "x" && claims["email_verified"] != false, "{claims}");
        if !found.groups.is_empty() && claims.get("groups").is_none() {
            let source = claims["_claim_names"]["groups"].as_str().expect("a source");
            assert!(has_endpoint_claims(&claims["_claim_sources"][source]), "{claims}");
        }
    }
}

pub(super) fn token_claims_seeds() -> Vec<Vec<u8>> {
    let common = claims(ISSUER, "a");
    let mut more = common.clone();
    more.set("aud", Value::Array(vec!["c".into(), "b".into()]));
    more.set("tenant", Value::Array(vec!["t".into(), Value::from("")]));
    more.set("uid", "7");
    more.set("nbf", NOW + 60);
    more.set("iat", NOW as f64 + 0.5);
    more.set("hd", "a.x");
    more.set("_claim_names", object! {"other": "s"});
    more.set("_claim_sources", object! {"s": object! {}});
    let payload = json::encode(&claims(ENDPOINT_ISSUER, "a"));
    let payload = String::from_utf8(payload).expect("JSON");
    let mut distributed = common.clone();
    distributed.remove("groups");
    distributed.set("_claim_names", object! {"groups": "s"});
    let source = object! {"endpoint": "https://e/groups", "access_token": payload};
    distributed.set("_claim_sources", object! {"s": source});
    let with = |chosen: u8, claims: &Value| [&[chosen], &json::encode(claims)[..]].concat();
    vec![with(0, &common), with(1, &common), with(0, &more), with(1, &distributed)]
}

/// An accepted document names this issuer and the keys, and is refused for another issuer. A document with only these
/// members gives the same result.
pub(super) fn discovery_document(input: &[u8]) {
    let read = |issuer: &str| with_memory_limit(input.len(), LIMIT, || jwks_uri(issuer, input));
    let Ok(uri) = read(ISSUER) else { return };
    assert!(!uri.is_empty());
    let other = read("https://j");
    assert!(matches!(other, Err(DiscoveryError::OtherIssuer { .. })), "{other:?}");
    let written = json::encode(&object! {"issuer": ISSUER, "jwks_uri": uri.as_str()});
    assert_eq!(jwks_uri(ISSUER, &written).as_ref(), Ok(&uri));
    if let Ok(document) = serde_json::from_slice::<serde_json::Value>(input) {
        assert!(document["issuer"] == ISSUER && document["jwks_uri"] == *uri, "{document}");
    }
}

pub(super) fn discovery_document_seeds() -> Vec<Vec<u8>> {
    vec![DISCOVERY.as_bytes().to_vec()]
}

/// The keys of an issuer as a response: the value of the header `Cache-Control` in the first line, then the body. A
/// token of the issuer is accepted exactly if the response has the issuer's key. A token with another signature is
/// never accepted, whatever keys the response has.
pub(super) fn issuer_keys(input: &[u8]) {
    static TOKENS: LazyLock<[String; 3]> = LazyLock::new(|| {
        let sign = |key: &SigningKey| key.sign_payload(&json::encode(&claims(ISSUER, "a"))).expect("a token");
        let (own, other) = (sign(&KEY), sign(&OTHER_KEY));
        let wrong = with_signature(&own, &KEY.sign_payload(b"{}").expect("a token"));
        [own, wrong, other]
    });
    static CONFIG: LazyLock<JwtConfig> = LazyLock::new(|| issuer(WITH_CLAIMS));
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return };
    let (head, body) = (&input[..end], &input[end + 1..]);
    check_max_age(head);
    let Ok(keys) = with_memory_limit(body.len(), LIMIT, || parse_jwks(body)) else { return };
    let own = KEY.public_key();
    let is_own =
        |key: &PublicKey| key.id() == own.id() && key.algorithm() == own.algorithm() && numbers(key) == numbers(own);
    let is_published = keys.iter().any(is_own);
    let authenticator = authenticator(CONFIG.clone(), keys);
    let [token, wrong, other] = &*TOKENS;
    assert_eq!(user(&authenticator, token).is_some(), is_published);
    assert_eq!(user(&authenticator, wrong), None);
    assert_eq!(user(&authenticator, other), None);
}

/// The numbers of a key, as a JSON Web Key Set has them.
fn numbers(key: &PublicKey) -> [serde_json::Value; 2] {
    let mut set: serde_json::Value = serde_json::from_str(&write_jwks([key])).expect("JSON");
    ["x", "y"].map(|number| set["keys"][0][number].take())
}

/// Whatever a header says, a later `max-age` replaces it, and `no-store` forbids any use.
fn check_max_age(head: &[u8]) {
    let age = |more: &str| {
        let value = HeaderValue::from_bytes(&[head, more.as_bytes()].concat()).ok()?;
        Some(max_age(&HeaderMap::from_iter([(CACHE_CONTROL, value)])))
    };
    let Some(seconds) = age("") else { return };
    assert_eq!(age(", no-store"), Some(0));
    assert!(seconds == 0 || age(", max-age=7") == Some(7), "{seconds}");
}

pub(super) fn issuer_keys_seeds() -> Vec<Vec<u8>> {
    let rsa = public_keys_from_pem(include_bytes!("../../../auth/tests/jwt/rsa.public.pem")).expect("a key");
    let (own, other) = (KEY.public_key().id(), OTHER_KEY.public_key().id());
    let only_own = write_jwks([KEY.public_key()]);
    let both = write_jwks([&rsa[0], KEY.public_key()]);
    // The RSA key has the name of the issuer's key. The issuer's key has the name of a key that is not in the set.
    let swapped = both.replace(own, "\u{1}").replace(rsa[0].id(), own).replace('\u{1}', other);
    [("max-age=60, must-revalidate", only_own), ("no-cache", swapped), ("public, max-age=\"3\"", both)]
        .map(|(head, body)| format!("{head}\n{body}").into_bytes())
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_accepted() {
        for seed in authentication_config_seeds() {
            let configuration = load(&seed).expect("a configuration");
            assert!(validate(&configuration, &[DISALLOWED.into()], true).is_empty(), "{}", seed.escape_ascii());
        }
        for (text, seeds) in [(WITH_EXPRESSIONS, &[0, 2][..]), (WITH_CLAIMS, &[1, 3])] {
            let authenticator = authenticator(issuer(text), vec![KEY.public_key().clone()]);
            for seed in seeds {
                let token = KEY.sign_payload(&token_claims_seeds()[*seed][1..]).expect("a token");
                let found = user(&authenticator, &token).expect("a user");
                assert_eq!(found.groups, [Str::from("g:g")], "{seed}");
            }
        }
    }
}
