//! Verifies the tokens of one issuer, and turns their claims into users.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_codec::json;
use pintle_value::Str;
use pintle_value::print::quote;
use pintle_value::time::Time;

use super::IssuerKeys;
use super::claims::{Claims, StandardClaims, go_time};
use crate::authenticate::AuthenticationResult;
use crate::authentication_config::{JwtConfig, JwtExpressions, RuleError, compile_jwt};
use crate::jwt::{CompactJws, PublicKey};
use crate::service_account::credential_id;
use crate::user::CREDENTIAL_ID;
use crate::{AuthFuture, AuthenticationError, TokenAuthenticator, UserInfo};

/// The names of all signature algorithms that issuers may use, sorted. No key verifies `ES512` here.
pub const ALL_SIGNING_ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];

/// How long a token may be used before the claim `nbf`, in seconds.
const NOT_BEFORE_LEEWAY: i64 = 60;

const GOOGLE: &str = "https://accounts.google.com";
/// What Google has as `iss` in some tokens.
const GOOGLE_WITHOUT_SCHEME: &str = "accounts.google.com";

const UNVERIFIED: &str = "failed to verify id token signature";

/// The claim `iss` of a token, which nobody has verified.
#[must_use]
pub fn untrusted_issuer(token: &str) -> Option<Str> {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims = json::decode(&payload, json::DecodeOptions::default()).ok()?.value;
    match claims.str_at(&["iss"]) {
        "" => None,
        GOOGLE_WITHOUT_SCHEME => Some(GOOGLE.into()),
        issuer => Some(issuer.into()),
    }
}

/// Authenticates the tokens of one issuer.
pub struct JwtAuthenticator {
    config: JwtConfig,
    expressions: JwtExpressions,
    algorithms: Vec<Str>,
    keys: Arc<dyn IssuerKeys>,
    now: Box<dyn Fn() -> Time + Send + Sync>,
}

impl JwtAuthenticator {
    /// An authenticator of tokens that are signed with one of some algorithms.
    ///
    /// # Errors
    /// The configuration is not valid, or there is no such algorithm.
    pub fn new(
        config: JwtConfig,
        algorithms: Vec<Str>,
        keys: Arc<dyn IssuerKeys>,
        now: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let expressions = compile_jwt(&config)?;
        if let Some(unknown) = algorithms.iter().find(|name| !ALL_SIGNING_ALGORITHMS.contains(&name.as_str())) {
            return Err(format!("oidc: unsupported signing alg: {}", quote(unknown)));
        }
        Ok(Self { config, expressions, algorithms, keys, now: Box::new(now) })
    }

    /// The issuer.
    #[must_use]
    pub fn issuer(&self) -> &Str {
        &self.config.issuer.url
    }

    /// The user of a token whose signature is verified.
    fn user(&self, payload: &[u8]) -> Result<UserInfo, String> {
        let verify = |error| format!("oidc: verify token: {error}");
        let claims = Claims::parse(payload)
            .and_then(|claims| claims.standard().map(|standard| (claims, standard)))
            .map_err(|error| verify(format!("oidc: failed to unmarshal claims: {error}")));
        let (claims, standard) = claims?;
        self.check_standard(&standard).map_err(verify)?;
        self.map(&claims)
    }

    /// Validates the claims that every token has.
    fn check_standard(&self, claims: &StandardClaims) -> Result<(), String> {
        let issuer = self.issuer();
        let is_google = issuer == GOOGLE && claims.issuer == GOOGLE_WITHOUT_SCHEME;
        if claims.issuer != *issuer && !is_google {
            let (expected, found) = (quote(issuer), quote(&claims.issuer));
            return Err(format!("oidc: id token issued by a different provider, expected {expected} got {found}"));
        }
        let accepted = &self.config.issuer.audiences;
        if !claims.audiences.iter().any(|audience| accepted.contains(audience)) {
            let found = quote_list(&claims.audiences);
            return Err(match &accepted[..] {
                [audience] => format!("oidc: expected audience {} got {found}", quote(audience)),
                accepted => {
                    let mut accepted = accepted.to_vec();
                    accepted.sort_unstable();
                    format!("oidc: expected audience in {} got {found}", quote_list(&accepted))
                }
            });
        }
        let now = (self.now)();
        // The time that a token without one has is Go's first.
        if claims.expiry.is_none_or(|expiry| (expiry, 0) < (now.seconds, now.nanos)) {
            let expiry = claims.expiry.map_or("0001-01-01 00:00:00 +0000 UTC".to_owned(), go_time);
            return Err(format!("oidc: token is expired (Token Expiry: {expiry})"));
        }
        match claims.not_before {
            Some(not_before) if now.seconds.saturating_add(NOT_BEFORE_LEEWAY) < not_before => {
                let (now, not_before) = (go_time(now.seconds), go_time(not_before));
                Err(format!("oidc: current time {now} before the nbf (not before) time: {not_before}"))
            }
            _ => Ok(()),
        }
    }

    /// The user that claims become.
    fn map(&self, claims: &Claims) -> Result<UserInfo, String> {
        self.refuse_distributed_groups(claims)?;
        let user = UserInfo {
            name: self.username(claims)?,
            groups: self.groups(claims)?,
            uid: self.uid(claims)?,
            extra: self.extra(claims)?,
        };
        for rule in self.config.claim_rules.iter().filter(|rule| !rule.claim.is_empty()) {
            let claim = &rule.claim;
            if claims.get(claim).is_none() {
                return Err(format!("oidc: required claim {claim} not present in ID token"));
            }
            let found = claims.text(claim).map_err(|error| format!("oidc: parse claim {claim}: {error}"))?;
            if found != rule.required_value {
                let want = &rule.required_value;
                return Err(format!("oidc: required claim {claim} value does not match. Got = {found}, want = {want}"));
            }
        }
        let failed = |what: &str, RuleError(error): RuleError| format!("oidc: error evaluating {what}: {error}");
        self.expressions.check_claims(&claims.0).map_err(|error| failed("claim validation expression", error))?;
        self.expressions.check_user(&user).map_err(|error| failed("user info validation rule", error))?;
        Ok(user)
    }

    /// Groups that another server has would have to be fetched from there. Without them, the user would be another one.
    fn refuse_distributed_groups(&self, claims: &Claims) -> Result<(), String> {
        let groups = &self.config.mappings.groups.claim;
        let is_distributed = !groups.is_empty()
            && claims.get(groups).is_none()
            && claims
                .get("_claim_names")
                .is_some_and(|names| names.get(groups).is_some() || names.as_object().is_none());
        match is_distributed {
            true => Err("oidc: could not expand distributed claims: distributed claims are not supported".to_owned()),
            false => Ok(()),
        }
    }

    fn username(&self, claims: &Claims) -> Result<Str, String> {
        if let Some(name) = self.expressions.username(&claims.0) {
            let failed = |RuleError(error)| format!("oidc: error evaluating username claim expression: {error}");
            let name = name.map_err(failed)?;
            return match name.is_empty() {
                true => Err("oidc: empty username via CEL expression is not allowed".to_owned()),
                false => Ok(name),
            };
        }
        let mapping = &self.config.mappings.username;
        let failed = |error| format!("oidc: parse username claims {}: {error}", quote(&mapping.claim));
        let name = claims.text(&mapping.claim).map_err(failed)?;
        if mapping.claim == "email"
            && let Some(is_verified) = claims.flag("email_verified")
            && !is_verified.map_err(|error| format!("oidc: parse 'email_verified' claim: {error}"))?
        {
            return Err("oidc: email not verified".to_owned());
        }
        Ok(with_prefix(mapping.prefix.as_ref(), name))
    }

    fn groups(&self, claims: &Claims) -> Result<Vec<Str>, String> {
        let mapping = &self.config.mappings.groups;
        if !mapping.claim.is_empty()
            && let Some(groups) = claims.texts(&mapping.claim)
        {
            let failed = |error| format!("oidc: parse groups claim {}: {error}", quote(&mapping.claim));
            let groups = groups.map_err(failed)?;
            return Ok(groups.into_iter().map(|group| with_prefix(mapping.prefix.as_ref(), group)).collect());
        }
        let groups = self.expressions.groups(&claims.0).unwrap_or(Ok(Vec::new()));
        groups.map_err(|RuleError(error)| format!("oidc: error evaluating group claim expression: {error}"))
    }

    fn uid(&self, claims: &Claims) -> Result<Str, String> {
        let claim = &self.config.mappings.uid.claim;
        if !claim.is_empty() {
            return claims.text(claim).map_err(|error| format!("oidc: parse uid claim {}: {error}", quote(claim)));
        }
        let uid = self.expressions.uid(&claims.0).unwrap_or(Ok(Str::default()));
        uid.map_err(|RuleError(error)| format!("oidc: error evaluating uid claim expression: {error}"))
    }

    /// The extra attributes, ordered by key.
    fn extra(&self, claims: &Claims) -> Result<Vec<(Str, Vec<Str>)>, String> {
        let mut extra = self.expressions.extra(&claims.0).map_err(|RuleError(error)| error)?;
        if let Ok(id) = claims.text("jti")
            && !id.is_empty()
        {
            extra.push((CREDENTIAL_ID.into(), vec![credential_id(&id).into()]));
        }
        extra.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(extra)
    }
}

fn failed(error: String) -> AuthenticationResult {
    Err(AuthenticationError(error))
}

fn with_prefix(prefix: Option<&Str>, text: Str) -> Str {
    match prefix.map(Str::as_str).unwrap_or_default() {
        "" => text,
        prefix => format!("{prefix}{text}").into(),
    }
}

/// Texts as Go prints a list of them with `%q`.
fn quote_list(texts: &[Str]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

/// True if one of the keys that a token names verifies it. A token that names none is verified with all.
fn is_signed(jws: &CompactJws<'_>, keys: &[PublicKey]) -> bool {
    let id = &*jws.header().kid;
    keys.iter().any(|key| (id.is_empty() || key.id() == id) && jws.verify(key).is_ok())
}

impl TokenAuthenticator for JwtAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        if untrusted_issuer(token).is_none_or(|issuer| issuer != *self.issuer()) {
            return AuthFuture::ready(Ok(None));
        }
        let Some(keys) = self.keys.current() else {
            return AuthFuture::ready(failed("oidc: authenticator not initialized".to_owned()));
        };
        let jws = match CompactJws::parse(token) {
            Ok(jws) => jws,
            Err(error) => {
                return AuthFuture::ready(failed(format!("oidc: verify token: oidc: malformed jwt: {error}")));
            }
        };
        let algorithm = &*jws.header().alg;
        if !self.algorithms.iter().any(|name| name == algorithm) {
            let (expected, found) = (quote_list(&self.algorithms), quote(algorithm));
            let error = format!("oidc: id token signed with unsupported algorithm, expected {expected} got {found}");
            return AuthFuture::ready(failed(format!("oidc: verify token: {error}")));
        }
        let authenticated = |jws: &CompactJws<'_>| match self.user(jws.unverified_payload()) {
            Ok(user) => Ok(Some(user.into())),
            Err(error) => failed(error),
        };
        if is_signed(&jws, &keys) {
            return AuthFuture::ready(authenticated(&jws));
        }
        let unverified = move |why: &str| failed(format!("oidc: verify token: failed to verify signature: {why}"));
        let Some(fetch) = self.keys.fetch() else { return AuthFuture::ready(unverified(UNVERIFIED)) };
        AuthFuture::boxed(async move {
            match fetch.await {
                Ok(keys) if is_signed(&jws, &keys) => authenticated(&jws),
                Ok(_) => unverified(UNVERIFIED),
                Err(error) => unverified(&format!("fetching keys {error}")),
            }
        })
    }
}
