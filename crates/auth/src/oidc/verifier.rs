//! Verifies tokens: signature, issuer, audiences and times (go-oidc's `IDTokenVerifier` with upstream's check of
//! several audiences). Other modules interpret the claims.

use std::sync::Arc;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use pintle_codec::json;
use pintle_value::print::quote;
use pintle_value::time::Time;
use pintle_value::{Str, Value};

use super::IssuerKeys;
use super::claims::{Claims, StandardClaims, field_mismatch, go_time, mismatch, text};
use crate::AuthFuture;
use crate::jwt::{CompactJws, PublicKey};
use crate::text::quote_list;

/// The names of all signature algorithms that issuers may use, sorted. No key verifies `ES512` here.
pub const ALL_SIGNING_ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// How long a token may be used before the claim `nbf`, in seconds.
const NOT_BEFORE_LEEWAY: i64 = 60;

const GOOGLE: &str = "https://accounts.google.com";
/// The claim `iss` of some tokens of Google.
const GOOGLE_WITHOUT_SCHEME: &str = "accounts.google.com";

const UNVERIFIED: &str = "failed to verify id token signature";

/// The structure that upstream reads the issuer of an unverified token into, as Go's errors name it.
const UNVERIFIED_CLAIMS: &str = r#"struct { Issuer string "json:\"iss\"" }"#;

/// Why the issuer of a token is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UntrustedIssuerError {
    #[error("token is not compact JWT")]
    NotCompact,
    #[error("malformed token")]
    Parts,
    /// The offset of the first malformed byte.
    #[error("error decoding token: illegal base64 data at input byte {0}")]
    Base64(usize),
    #[error("while unmarshaling token: {0}")]
    Claims(String),
}

/// The claim `iss` of a token without verification. Empty if there is none.
///
/// # Errors
/// The text is not a token.
pub(super) fn read_untrusted_issuer(token: &str) -> Result<Str, UntrustedIssuerError> {
    if token.trim_start().starts_with('{') {
        return Err(UntrustedIssuerError::NotCompact);
    }
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(UntrustedIssuerError::Parts);
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|error| {
        UntrustedIssuerError::Base64(match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            // Go reports the start of the incomplete group.
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => payload.len() - payload.len() % 4,
        })
    })?;
    let claims = json::decode(&payload, json::DecodeOptions::default());
    let claims = claims.map_err(|error| UntrustedIssuerError::Claims(error.to_string()))?.value;
    let issuer = match &claims {
        Value::Null => None,
        Value::Object(claims) => claims.get("iss"),
        claims => return Err(UntrustedIssuerError::Claims(mismatch(claims, UNVERIFIED_CLAIMS))),
    };
    let issuer = issuer.map_or(Ok(Str::default()), |value| {
        text(value).ok_or_else(|| UntrustedIssuerError::Claims(field_mismatch(value, ".iss", "string")))
    })?;
    Ok(if issuer == GOOGLE_WITHOUT_SCHEME { GOOGLE.into() } else { issuer })
}

/// The claim `iss` of a token without verification.
#[must_use]
pub fn untrusted_issuer(token: &str) -> Option<Str> {
    read_untrusted_issuer(token).ok().filter(|issuer| !issuer.is_empty())
}

/// The requirements on tokens, for any issuer.
pub(super) struct VerifierRules {
    /// The accepted audiences of a token.
    pub(super) audiences: Vec<Str>,
    /// The accepted signature algorithms of a token.
    pub(super) algorithms: Vec<Str>,
    pub(super) now: Box<dyn Fn() -> Time + Send + Sync>,
}

/// Verifies the tokens of one issuer.
pub(super) struct TokenVerifier {
    pub(super) issuer: Str,
    pub(super) rules: Arc<VerifierRules>,
    pub(super) keys: Arc<dyn IssuerKeys>,
}

impl TokenVerifier {
    /// The claims of a token, or the reason why it is not accepted. `None` as long as the URL of the keys is not known.
    pub(super) fn verify<'a>(&'a self, token: &'a str) -> Option<AuthFuture<'a, Result<Claims, String>>> {
        let keys = self.keys.current()?;
        Some(self.verify_with(&keys, token))
    }

    /// Verifies a token with the keys that were fetched last, and if necessary with newer ones.
    fn verify_with<'a>(&'a self, keys: &[PublicKey], token: &'a str) -> AuthFuture<'a, Result<Claims, String>> {
        let jws = match CompactJws::parse(token) {
            Ok(jws) => jws,
            Err(error) => return AuthFuture::ready(Err(format!("oidc: malformed jwt: {error}"))),
        };
        let (algorithm, accepted) = (&*jws.header().alg, &self.rules.algorithms);
        if !accepted.iter().any(|name| name == algorithm) {
            let (expected, found) = (quote_list(accepted), quote(algorithm));
            let error = format!("oidc: id token signed with unsupported algorithm, expected {expected} got {found}");
            return AuthFuture::ready(Err(error));
        }
        if is_signed(&jws, keys) {
            return AuthFuture::ready(self.claims(&jws));
        }
        let unverified = |why: &str| Err(format!("failed to verify signature: {why}"));
        let Some(fetch) = self.keys.fetch() else { return AuthFuture::ready(unverified(UNVERIFIED)) };
        AuthFuture::boxed(async move {
            match fetch.await {
                Ok(keys) if is_signed(&jws, &keys) => self.claims(&jws),
                Ok(_) => unverified(UNVERIFIED),
                Err(error) => unverified(&format!("fetching keys {error}")),
            }
        })
    }

    /// The claims of a token whose signature is verified.
    fn claims(&self, jws: &CompactJws<'_>) -> Result<Claims, String> {
        let malformed = |error| format!("oidc: failed to unmarshal claims: {error}");
        let claims = Claims::parse(jws.unverified_payload()).map_err(malformed)?;
        let standard = claims.standard().map_err(malformed)?;
        let sources = claims.sources().map_err(malformed)?;
        sources.check()?;
        self.check_standard(&standard)?;
        Ok(claims)
    }

    /// Validates the claims that every token has.
    fn check_standard(&self, claims: &StandardClaims) -> Result<(), String> {
        let is_google = self.issuer == GOOGLE && claims.issuer == GOOGLE_WITHOUT_SCHEME;
        if claims.issuer != self.issuer && !is_google {
            let (expected, found) = (quote(&self.issuer), quote(&claims.issuer));
            return Err(format!("oidc: id token issued by a different provider, expected {expected} got {found}"));
        }
        // The library checks the only audience of a configuration before the times. Upstream checks several audiences
        // after the times.
        let audiences = &self.rules.audiences;
        let has_audience = || claims.audiences.iter().any(|audience| audiences.contains(audience));
        if let [audience] = &audiences[..]
            && !has_audience()
        {
            return Err(format!("oidc: expected audience {} got {}", quote(audience), quote_list(&claims.audiences)));
        }
        let now = (self.rules.now)();
        // Without the claim, the error shows the zero time of Go.
        if claims.expiry.is_none_or(|expiry| (expiry, 0) < (now.seconds, now.nanos)) {
            let expiry = claims.expiry.map_or("0001-01-01 00:00:00 +0000 UTC".to_owned(), go_time);
            return Err(format!("oidc: token is expired (Token Expiry: {expiry})"));
        }
        if let Some(not_before) = claims.not_before
            && now.seconds.saturating_add(NOT_BEFORE_LEEWAY) < not_before
        {
            let (now, not_before) = (go_time(now.seconds), go_time(not_before));
            return Err(format!("oidc: current time {now} before the nbf (not before) time: {not_before}"));
        }
        if audiences.len() != 1 && !has_audience() {
            let mut accepted = audiences.clone();
            accepted.sort_unstable();
            let (accepted, found) = (quote_list(&accepted), quote_list(&claims.audiences));
            return Err(format!("oidc: expected audience in {accepted} got {found}"));
        }
        Ok(())
    }
}

/// True if one of the keys that a token names verifies it. A token that names no key is verified with all keys.
fn is_signed(jws: &CompactJws<'_>, keys: &[PublicKey]) -> bool {
    let id = &*jws.header().kid;
    keys.iter().any(|key| (id.is_empty() || key.id() == id) && jws.verify(key).is_ok())
}
