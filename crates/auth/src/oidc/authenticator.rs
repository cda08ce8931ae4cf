//! Authenticates the tokens of one issuer: turns the claims of a verified token into a user.

use std::sync::Arc;

use pintle_value::Str;
use pintle_value::print::quote;
use pintle_value::time::Time;

use super::claims::Claims;
use super::distributed_claims::ClaimResolver;
use super::verifier::{ALL_SIGNING_ALGORITHMS, TokenVerifier, VerifierRules, untrusted_issuer};
use super::{ClaimSource, IssuerKeys};
use crate::authenticate::AuthenticationResult;
use crate::authentication_config::{ClaimMappings, ClaimRule, JwtConfig, JwtExpressions, RuleError, compile_jwt};
use crate::service_account::credential_id;
use crate::user::CREDENTIAL_ID;
use crate::{AuthFuture, AuthenticationError, TokenAuthenticator, UserInfo};

/// Authenticates the tokens of one issuer.
pub struct JwtAuthenticator {
    verifier: TokenVerifier,
    /// Resolves the claim of groups, if the configuration names the claim.
    resolver: Option<ClaimResolver>,
    mappings: ClaimMappings,
    claim_rules: Vec<ClaimRule>,
    expressions: JwtExpressions,
}

impl JwtAuthenticator {
    /// An authenticator of tokens that are signed with one of these algorithms. Distributed claims are fetched with
    /// `source`.
    ///
    /// # Errors
    /// The configuration is not valid, or one of the algorithms does not exist.
    pub fn new(
        config: JwtConfig,
        algorithms: Vec<Str>,
        keys: Arc<dyn IssuerKeys>,
        source: Arc<dyn ClaimSource>,
        now: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let expressions = compile_jwt(&config)?;
        if let Some(unknown) = algorithms.iter().find(|name| !ALL_SIGNING_ALGORITHMS.contains(&name.as_str())) {
            return Err(format!("oidc: unsupported signing alg: {}", quote(unknown)));
        }
        let JwtConfig { issuer, claim_rules, mappings, .. } = config;
        let rules = Arc::new(VerifierRules { audiences: issuer.audiences, algorithms, now: Box::new(now) });
        let claim = mappings.groups.claim.clone();
        let resolver = (!claim.is_empty()).then(|| ClaimResolver { claim, rules: rules.clone(), source });
        let verifier = TokenVerifier { issuer: issuer.url, rules, keys };
        Ok(Self { verifier, resolver, mappings, claim_rules, expressions })
    }

    /// The issuer.
    #[must_use]
    pub fn issuer(&self) -> &Str {
        &self.verifier.issuer
    }

    /// The user of a token's claims, or the reason why the token is not accepted.
    fn authenticated(&self, verified: Result<Claims, String>) -> AuthFuture<'_, AuthenticationResult> {
        let mut claims = match verified {
            Ok(claims) => claims,
            Err(error) => return AuthFuture::ready(failed(format!("oidc: verify token: {error}"))),
        };
        let Some(resolver) = &self.resolver else { return AuthFuture::ready(self.mapped(&claims)) };
        let unresolved = |error| failed(format!("oidc: could not expand distributed claims: {error}"));
        let endpoint = match resolver.endpoint(&claims) {
            Ok(Some(endpoint)) => endpoint,
            Ok(None) => return AuthFuture::ready(self.mapped(&claims)),
            Err(error) => return AuthFuture::ready(unresolved(error)),
        };
        AuthFuture::boxed(async move {
            match resolver.resolve(&endpoint).await {
                Ok(value) => {
                    claims.set(&resolver.claim, value);
                    self.mapped(&claims)
                }
                Err(error) => unresolved(error),
            }
        })
    }

    fn mapped(&self, claims: &Claims) -> AuthenticationResult {
        match self.user(claims) {
            Ok(user) => Ok(Some(user.into())),
            Err(error) => failed(error),
        }
    }

    /// The user that results from claims.
    fn user(&self, claims: &Claims) -> Result<UserInfo, String> {
        let user = UserInfo {
            name: self.username(claims)?,
            groups: self.groups(claims)?,
            uid: self.uid(claims)?,
            extra: self.extra(claims)?,
        };
        for rule in self.claim_rules.iter().filter(|rule| !rule.claim.is_empty()) {
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

    fn username(&self, claims: &Claims) -> Result<Str, String> {
        if let Some(name) = self.expressions.username(&claims.0) {
            let failed = |RuleError(error)| format!("oidc: error evaluating username claim expression: {error}");
            let name = name.map_err(failed)?;
            return match name.is_empty() {
                true => Err("oidc: empty username via CEL expression is not allowed".to_owned()),
                false => Ok(name),
            };
        }
        let mapping = &self.mappings.username;
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
        let mapping = &self.mappings.groups;
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
        let claim = &self.mappings.uid.claim;
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

impl TokenAuthenticator for JwtAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        if untrusted_issuer(token).is_none_or(|issuer| issuer != *self.issuer()) {
            return AuthFuture::ready(Ok(None));
        }
        match self.verifier.verify(token) {
            None => AuthFuture::ready(failed("oidc: authenticator not initialized".to_owned())),
            Some(AuthFuture::Ready(Some(verified))) => self.authenticated(verified),
            Some(pending) => AuthFuture::boxed(async move { self.authenticated(pending.await).await }),
        }
    }
}
