//! The answers of webhooks for authentication and authorization, and the kubeconfigs with their addresses.

use std::path::Path;

use http::Uri;
use pintle_auth::{Authentication, Decision};
use pintle_codec::{json, yaml};
use pintle_schema::base64;
use pintle_server::fuzzing::{read_access_review, read_kubeconfig, read_token_review};
use pintle_value::{Object, Str, Value, object};

use crate::{MemoryLimit, round_trips_in_yaml, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 600, base: 256 << 10 };

const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const ACCESS: &str = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","metadata":{},"spec":{},"status":{"allowed":true,"denied":false,"reason":"r","evaluationError":"e"}}"#;
const TOKEN: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","metadata":{},"spec":{"token":"t"},"status":{"authenticated":true,"user":{"username":"u","uid":"1","groups":["g","h"],"extra":{"k":["a","b"],"l":["c"]}},"audiences":["api","other"],"error":""}}"#;
const FAILURE: &str = r#"{"apiVersion":"v1","kind":"Status","status":"Failure","message":"why","code":500}"#;
const KUBECONFIG: &str = "apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: ns}}]
clusters:
- {name: k, cluster: {server: 'http://a:6443/b?c=d'}}
users:
- {name: u, user: {username: jane, password: secret}}
preferences: {}
";
const INSECURE: &str = r#"{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k"}}],"clusters":[{"name":"k","cluster":{"server":"https://a","insecure-skip-tls-verify":true}}],"users":[]}"#;

/// The version that the first byte of an input selects, and the rest.
fn split_version(input: &[u8]) -> Option<(&'static str, &[u8])> {
    let (version, body) = input.split_first()?;
    Some((VERSIONS[usize::from(*version) % VERSIONS.len()], body))
}

/// The seeds of reviews, in both versions.
fn in_versions(texts: &[&str]) -> Vec<Vec<u8>> {
    let v1 = texts.iter().map(|text| [&[0], text.as_bytes()].concat());
    let v1beta1 = texts.iter().map(|text| [&[1], text.replace("k8s.io/v1", "k8s.io/v1beta1").as_bytes()].concat());
    v1.chain(v1beta1).collect()
}

/// The status of a review, if another decoder reads it.
fn status(body: &[u8]) -> Option<serde_json::Value> {
    serde_json::from_slice(body).ok().map(|review: serde_json::Value| review["status"].clone())
}

/// A request is allowed only by an answer that allows it and does not deny it.
pub(super) fn subject_access_review(input: &[u8]) {
    let Some((version, body)) = split_version(input) else { return };
    let Ok(found) = with_memory_limit(body.len(), LIMIT, || read_access_review(version, body)) else { return };
    let [allowed, denied] = [Decision::Allow, Decision::Deny].map(|decision| found.decision == decision);
    let written = json::encode(&object! {
        "apiVersion": format!("authorization.k8s.io/{version}"), "kind": "SubjectAccessReview",
        "status": object! {
            "allowed": allowed || found.error.is_some(), "denied": denied, "reason": &*found.reason,
        },
    });
    assert_eq!(read_access_review(version, &written), Ok(found));
    if let Some(status) = status(body) {
        assert_eq!(
            (allowed, denied),
            (status["allowed"] == true && status["denied"] != true, status["denied"] == true)
        );
    }
}

pub(super) fn subject_access_review_seeds() -> Vec<Vec<u8>> {
    in_versions(&[ACCESS, FAILURE])
}

/// A token is authenticated only by an answer that says so, and only for requested audiences.
pub(super) fn token_review(input: &[u8]) {
    let Some((version, body)) = split_version(input) else { return };
    let (requested, of_server) = ([Str::from("api")], [Str::from("api"), "server".into()]);
    let read = |body: &[u8], requested: &[Str]| read_token_review(version, body, requested, &of_server);
    let found = with_memory_limit(body.len(), LIMIT, || read(body, &requested));
    let anywhere = read(body, &[]);
    let Ok(Some(found)) = found else { return };
    assert!(!found.audiences.is_empty() && found.audiences.iter().all(|audience| requested.contains(audience)));
    assert_eq!(anywhere, Ok(Some(Authentication { audiences: Vec::new(), ..found.clone() })));
    let list = |texts: &[Str]| Value::Array(texts.iter().cloned().map(Value::from).collect());
    let user = &found.user;
    let extra: Object = user.extra.iter().map(|(key, values)| (key.clone(), list(values))).collect();
    let written = json::encode(&object! {
        "apiVersion": format!("authentication.k8s.io/{version}"), "kind": "TokenReview",
        "status": object! {
            "authenticated": true, "audiences": list(&found.audiences),
            "user": object! {
                "username": user.name.clone(), "uid": user.uid.clone(), "groups": list(&user.groups),
                "extra": Value::Object(extra),
            },
        },
    });
    if let Some(status) = status(body) {
        assert!(
            status["authenticated"] == true && status["user"]["username"].as_str().unwrap_or_default() == user.name
        );
        let named = status["audiences"].as_array().filter(|audiences| !audiences.is_empty());
        assert!(named.is_none_or(|audiences| audiences.iter().any(|audience| audience == "api")), "{status}");
    }
    assert_eq!(read(&written, &requested), Ok(Some(found)));
}

pub(super) fn token_review_seeds() -> Vec<Vec<u8>> {
    let implicit = TOKEN.replace(r#","audiences":["api","other"]"#, "");
    let refused = TOKEN.replace("true", "false").replace(r#""error":"""#, r#""error":"why""#);
    in_versions(&[TOKEN, &implicit, &refused, FAILURE])
}

/// The server of a kubeconfig is a URL. Passwords are sent only to servers whose certificate is verified. The same
/// content in another form means the same.
pub(super) fn kubeconfig(input: &[u8]) {
    let read = |text: &[u8]| read_kubeconfig(text, Path::new("/nonexistent"));
    let found = with_memory_limit(input.len(), LIMIT, || yaml::decode(input).map(|decoded| decoded.value));
    let Ok(config) = found else { return assert!(read(input).is_err()) };
    let Ok((url, authorization)) = read(input) else { return };
    assert!(url.parse::<Uri>().is_ok(), "{url}");
    if round_trips_in_yaml(&config) {
        assert_eq!(read(&yaml::encode(&config)), Ok((url.clone(), authorization.clone())));
    }
    let Some(authorization) = authorization else { return };
    assert!(url.to_ascii_lowercase().starts_with("https:"), "{url} gets a password");
    let encoded = authorization.as_bytes().strip_prefix(b"Basic ").expect("a password");
    let pair = base64::decode(encoded).expect("base64");
    let users = config.items_at(&["users"]).iter();
    let mut pairs = users.map(|user| ["username", "password"].map(|field| user.str_at(&["user", field])).join(":"));
    assert!(pairs.any(|known| known.as_bytes() == pair), "{}", pair.escape_ascii());
}

pub(super) fn kubeconfig_seeds() -> Vec<Vec<u8>> {
    // Without an authority, the system's authorities would be read again and again.
    let authority = base64::encode(include_bytes!("../../../auth/tests/jwt/rsa.certificate.pem"));
    let more = format!("https://a:6443/b', tls-server-name: x.example.com, certificate-authority-data: '{authority}");
    let verified = KUBECONFIG.replace("http://a:6443/b?c=d", &more);
    let with_token = verified.replace("username: jane, password: secret", "token: t");
    [KUBECONFIG, INSECURE, &verified, &with_token].map(|text| text.as_bytes().to_vec()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_accepted() {
        for seed in kubeconfig_seeds() {
            let error = read_kubeconfig(&seed, Path::new("/nonexistent")).err();
            assert_eq!(error, None, "{}", seed.escape_ascii());
        }
        for version in VERSIONS {
            let body = |text: &str| text.replace("k8s.io/v1", &format!("k8s.io/{version}"));
            assert!(read_access_review(version, body(ACCESS).as_bytes()).is_ok_and(|found| found.is_allowed()));
            let user = read_token_review(version, body(TOKEN).as_bytes(), &["api".into()], &[]);
            assert!(user.is_ok_and(|user| user.is_some()));
        }
    }
}
