//! Bootstrap tokens, with which nodes join a cluster (upstream: `plugin/pkg/auth/authenticator/token/bootstrap`,
//! `k8s.io/cluster-bootstrap`). Each token is a secret in `kube-system`.

use std::collections::BTreeSet;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_value::time::Time;
use pintle_value::{Str, Value};

use crate::authenticate::AuthenticationResult;
use crate::{AuthFuture, AuthenticationError, TokenAuthenticator, UserInfo};

/// The namespace of the secrets.
pub const BOOTSTRAP_TOKEN_NAMESPACE: &str = "kube-system";

const SECRET_NAME_PREFIX: &str = "bootstrap-token-";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const USER_PREFIX: &str = "system:bootstrap:";
const DEFAULT_GROUP: &str = "system:bootstrappers";
/// The prefix of additional groups, and the maximum length of the rest of a group's name.
const GROUP_PREFIX: &str = "system:bootstrappers:";
const MAX_GROUP_LENGTH: usize = 256;
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// Finds the secrets of bootstrap tokens.
pub trait BootstrapTokenLookup: Send + Sync {
    /// The current time.
    fn now(&self) -> Time;

    /// A secret in [`BOOTSTRAP_TOKEN_NAMESPACE`].
    ///
    /// # Errors
    /// The secret cannot be read.
    fn secret(&self, name: &str) -> Result<Option<Value>, String>;
}

/// Authenticates bootstrap tokens. A token that does not match its secret is an unknown token, as in upstream.
pub struct BootstrapTokenAuthenticator(pub Arc<dyn BootstrapTokenLookup>);

/// The id and the secret of a token.
fn parse(token: &str) -> Option<(&str, &str)> {
    let is_part = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let (id, secret) = token.split_once('.')?;
    (is_part(id, ID_LENGTH) && is_part(secret, SECRET_LENGTH)).then_some((id, secret))
}

/// Why a secret does not authenticate a token. The reason never shows the content of the secret or of the token.
#[derive(Debug)]
enum Mismatch {
    Terminating,
    Type,
    Value(&'static str),
    MalformedExpiration,
    Expired,
    Usage,
    Group,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminating => f.write_str("is deleted and awaiting removal"),
            Self::Type => write!(f, "has invalid type, expected {SECRET_TYPE}"),
            Self::Value(key) => write!(f, "has invalid value for key {key}"),
            Self::MalformedExpiration => f.write_str("has unparsable expiration time, treating as expired"),
            Self::Expired => f.write_str("has expired"),
            Self::Usage => f.write_str("not marked usage-bootstrap-authentication=true"),
            Self::Group => f.write_str("has invalid value for key auth-extra-groups"),
        }
    }
}

/// The content of a key of a secret; empty if there is none.
fn content(secret: &Value, key: &str) -> Vec<u8> {
    STANDARD.decode(secret.str_at(&["data", key])).unwrap_or_default()
}

/// The text of a key of a secret. Bytes that are not a text match nothing.
fn text(secret: &Value, key: &str) -> String {
    String::from_utf8(content(secret, key)).unwrap_or_else(|_| "\u{fffd}".to_owned())
}

/// Compares in a time that depends on the lengths only.
fn equals(left: &[u8], right: &[u8]) -> bool {
    let difference = left.iter().zip(right).fold(0, |difference, (left, right)| black_box(difference | (left ^ right)));
    left.len() == right.len() && difference == 0
}

/// True for a valid additional group (upstream: `ValidateBootstrapGroupName`).
fn is_group(group: &str) -> bool {
    let Some(name) = group.strip_prefix(GROUP_PREFIX) else { return false };
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=MAX_GROUP_LENGTH).contains(&name.len())
        && name.bytes().all(|byte| is_alphanumeric(byte) || matches!(byte, b':' | b'-'))
        && name.bytes().next_back().is_some_and(is_alphanumeric)
}

/// The user of a token whose secret was found.
fn user(secret: &Value, token_id: &str, token_secret: &str, now: Time) -> Result<UserInfo, Mismatch> {
    if secret.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Err(Mismatch::Terminating);
    }
    if secret.str_at(&["type"]) != SECRET_TYPE || secret.get("data").is_none() {
        return Err(Mismatch::Type);
    }
    if !equals(&content(secret, "token-secret"), token_secret.as_bytes()) {
        return Err(Mismatch::Value("token-secret"));
    }
    if content(secret, "token-id") != token_id.as_bytes() {
        return Err(Mismatch::Value("token-id"));
    }
    let expiration = text(secret, "expiration");
    if !expiration.is_empty() {
        let expires = Time::parse_rfc3339(&expiration).map_err(|_| Mismatch::MalformedExpiration)?;
        if expires <= now {
            return Err(Mismatch::Expired);
        }
    }
    if content(secret, "usage-bootstrap-authentication") != b"true" {
        return Err(Mismatch::Usage);
    }
    let extra = text(secret, "auth-extra-groups");
    let mut groups = BTreeSet::from([DEFAULT_GROUP]);
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        if !is_group(group) {
            return Err(Mismatch::Group);
        }
        groups.insert(group);
    }
    Ok(UserInfo {
        name: format!("{USER_PREFIX}{token_id}").into(),
        groups: groups.into_iter().map(Str::from).collect(),
        ..UserInfo::default()
    })
}

impl TokenAuthenticator for BootstrapTokenAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        let Some((id, token_secret)) = parse(token) else { return AuthFuture::ready(Ok(None)) };
        let name = format!("{SECRET_NAME_PREFIX}{id}");
        AuthFuture::ready(match self.0.secret(&name) {
            Ok(Some(secret)) => match user(&secret, id, token_secret, self.0.now()) {
                Ok(user) => Ok(Some(user.into())),
                Err(mismatch) => {
                    tracing::debug!(secret = name, %mismatch, "Bootstrap secret does not match bearer token");
                    Ok(None)
                }
            },
            Ok(None) => Ok(None),
            Err(error) => Err(AuthenticationError(error)),
        })
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    const SECRET: &str = "0123456789abcdef";
    const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };

    struct Secret(Result<Option<Value>, String>);

    impl BootstrapTokenLookup for Secret {
        fn now(&self) -> Time {
            NOW
        }

        fn secret(&self, name: &str) -> Result<Option<Value>, String> {
            if name == "bootstrap-token-abcdef" { self.0.clone() } else { Ok(None) }
        }
    }

    fn authenticate(secret: Result<Option<Value>, String>, token: &str) -> AuthenticationResult {
        let authenticator = BootstrapTokenAuthenticator(Arc::new(Secret(secret)));
        match authenticator.authenticate_token(token, &[]) {
            AuthFuture::Ready(Some(result)) => result,
            _ => panic!("not ready"),
        }
    }

    fn secret(data: &[(&str, &str)]) -> Value {
        let complete = [("token-id", "abcdef"), ("token-secret", SECRET), ("usage-bootstrap-authentication", "true")];
        let mut secret = object! {"type": SECRET_TYPE, "data": object! {}};
        for (key, text) in complete.iter().chain(data) {
            secret.set_at(&["data", key], STANDARD.encode(text).as_str());
        }
        secret
    }

    #[track_caller]
    fn check(secret: Value, expect: Option<&[&str]>) {
        let token = format!("abcdef.{SECRET}");
        let found = authenticate(Ok(Some(secret.clone())), &token).expect("no error");
        let found = found.map(|found| {
            assert_eq!(found.user.name, "system:bootstrap:abcdef");
            found.user.groups
        });
        let expect = expect.map(|groups| groups.iter().map(|group| Str::from(*group)).collect());
        assert_eq!(found, expect, "{secret:?}");
    }

    #[test]
    fn a_token_is_valid_as_long_as_its_secret_allows() {
        let default: Option<&[&str]> = Some(&["system:bootstrappers"]);
        check(secret(&[]), default);
        check(secret(&[("usage-bootstrap-authentication", "True")]), None);
        check(secret(&[("usage-bootstrap-authentication", "")]), None);
        check(secret(&[("token-id", "fedcba")]), None);
        check(secret(&[("token-secret", "0123456789abcdeX")]), None);
        check(secret(&[("token-secret", "")]), None);
        check(secret(&[("expiration", "2099-01-01T00:00:00Z")]), default);
        check(secret(&[("expiration", &NOW.rfc3339())]), None);
        check(secret(&[("expiration", "2009-01-01T00:00:00Z")]), None);
        check(secret(&[("expiration", "soon")]), None);
        let mut terminating = secret(&[]);
        terminating.set_at(&["metadata", "deletionTimestamp"], "2009-01-01T00:00:00Z");
        check(terminating, None);
        let mut opaque = secret(&[]);
        opaque.set("type", "Opaque");
        check(opaque, None);
        check(object! {"type": SECRET_TYPE}, None);
        let mut malformed = secret(&[]);
        malformed.set_at(&["data", "token-secret"], "*");
        check(malformed, None);
    }

    #[test]
    fn additional_groups_are_those_of_bootstrappers() {
        let groups = |groups: &str| secret(&[("auth-extra-groups", groups)]);
        check(
            groups("system:bootstrappers:z,system:bootstrappers:a-1:b,system:bootstrappers:z"),
            Some(&["system:bootstrappers", "system:bootstrappers:a-1:b", "system:bootstrappers:z"]),
        );
        check(groups(&format!("{GROUP_PREFIX}{}", "a".repeat(257))), None);
        for invalid in
            ["system:masters", "system:bootstrappers", "system:bootstrappers:", "system:bootstrappers:a-", ","]
        {
            check(groups(invalid), None);
        }
        check(groups("system:bootstrappers:A"), None);
        check(groups("system:bootstrappers:a, system:bootstrappers:b"), None);
    }

    #[test]
    fn other_tokens_are_not_handled() {
        let failing = || Err("not readable".to_owned());
        for token in ["", "abcdef", "abcdef.", "abcde.0123456789abcdef", "ABCDEF.0123456789abcdef"] {
            assert_eq!(authenticate(failing(), token), Ok(None), "{token}");
        }
        assert_eq!(authenticate(failing(), &format!("abcdef.{SECRET}\n")), Ok(None));
        assert_eq!(authenticate(failing(), &format!("fedcba.{SECRET}")), Ok(None));
        let error = Err(AuthenticationError("not readable".to_owned()));
        assert_eq!(authenticate(failing(), &format!("abcdef.{SECRET}")), error);
    }
}
