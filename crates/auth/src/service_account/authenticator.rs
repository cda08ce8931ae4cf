//! Authenticates tokens of service accounts (upstream: `jwt.go`).

use std::sync::Arc;

use pintle_value::{Str, print};
use serde::Deserialize;

use super::claims::{BoundClaims, LegacyClaims, ObjectClaim, TokenOwner};
use super::legacy::{LEGACY_ISSUER, LegacyEffects, validate_legacy};
use super::lookup::{ServiceAccountLookup, TokenUse};
use super::validate::validate_bound;
use crate::authenticate::AuthenticationResult;
use crate::jwt::{CompactJws, PublicKey, RegisteredClaims, parse_claims};
use crate::rbac::aggregate;
use crate::text::quote_list;
use crate::token::intersect;
use crate::user::{
    ADMISSION_REVIEW_GROUPS, CREDENTIAL_ID, MUTATING_WEBHOOK_NAME, MUTATING_WEBHOOK_UID, NODE_NAME, NODE_UID, POD_NAME,
    POD_UID, VALIDATING_WEBHOOK_NAME, VALIDATING_WEBHOOK_UID, service_account_groups, service_account_user,
};
use crate::{AuthFuture, Authentication, AuthenticationError, TokenAuthenticator, UserInfo};

/// The keys that verify tokens of service accounts.
#[derive(Clone, Debug, Default)]
pub struct PublicKeys(pub Vec<PublicKey>);

impl PublicKeys {
    /// The keys with an id; all keys if the id is empty.
    fn with_id<'k>(&'k self, id: &'k str) -> impl Iterator<Item = &'k PublicKey> {
        self.0.iter().filter(move |key| id.is_empty() || key.id() == id)
    }
}

/// The tokens that an authenticator accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceAccountTokens {
    /// Bound tokens from these issuers.
    Bound {
        /// The issuers.
        issuers: Vec<Str>,
    },
    /// Legacy tokens, which are stored in secrets.
    Legacy {
        /// Whether the secret and the account have to exist (`--service-account-lookup`).
        look_up: bool,
    },
}

/// Authenticates tokens of service accounts.
pub struct ServiceAccountAuthenticator {
    /// The accepted tokens.
    pub tokens: ServiceAccountTokens,
    /// The keys that verify the tokens.
    pub keys: Arc<PublicKeys>,
    /// The audiences of the server. A token must be for one of them if the request asks for no other audiences.
    pub audiences: Vec<Str>,
    /// Finds the objects to which tokens are bound.
    pub lookup: Arc<dyn ServiceAccountLookup>,
}

/// The claim that is read before the signature is verified.
#[derive(Default, Deserialize)]
#[serde(default)]
struct IssuerClaim {
    iss: Option<String>,
}

/// A token whose signature, issuer and audiences are valid.
struct VerifiedToken<'t> {
    token: &'t str,
    payload: &'t [u8],
    registered: RegisteredClaims,
    /// The requested audiences for which the token is valid.
    audiences: Vec<Str>,
    is_legacy: bool,
}

impl ServiceAccountAuthenticator {
    fn is_issuer(&self, issuer: &str) -> bool {
        match &self.tokens {
            ServiceAccountTokens::Bound { issuers } => issuers.iter().any(|known| known == issuer),
            ServiceAccountTokens::Legacy { .. } => issuer == LEGACY_ISSUER,
        }
    }

    /// Verifies the signature with the keys that the token names. Returns the claims.
    fn verify(&self, jws: &CompactJws<'_>) -> Result<RegisteredClaims, String> {
        let mut errors = Vec::new();
        for key in self.keys.with_id(&jws.header().kid) {
            let verified = jws.verify(key).map_err(|error| error.to_string());
            match verified.and_then(|payload| parse_claims(payload).map_err(|error| error.to_string())) {
                Ok(claims) => return Ok(claims),
                Err(error) => errors.push(error),
            }
        }
        Err(aggregate(errors).unwrap_or_else(|| "invalid signature, no keys found".to_owned()))
    }

    /// The requested audiences for which a token is valid.
    fn accepted_audiences(&self, registered: &RegisteredClaims, requested: &[Str]) -> Result<Vec<Str>, String> {
        let of_token = if registered.audiences.0.is_empty() { &self.audiences } else { &registered.audiences.0 };
        let requested = if requested.is_empty() { &self.audiences } else { requested };
        let accepted = intersect(of_token, requested);
        if accepted.is_empty() && !self.audiences.is_empty() {
            let (of_token, requested) = (quote_list(of_token), quote_list(requested));
            return Err(format!("token audiences {of_token} is invalid for the target audiences {requested}"));
        }
        Ok(accepted)
    }

    fn authenticate<'a>(&'a self, token: &'a str, requested: &[Str]) -> AuthFuture<'a, AuthenticationResult> {
        let Ok(jws) = CompactJws::parse(token) else { return AuthFuture::ready(Ok(None)) };
        let Ok(IssuerClaim { iss: Some(issuer) }) = parse_claims(jws.unverified_payload()) else {
            return AuthFuture::ready(Ok(None));
        };
        if !self.is_issuer(&issuer) {
            return AuthFuture::ready(Ok(None));
        }
        let verified = self.verify(&jws).and_then(|registered| {
            // The issuer was read before, but from claims whose signature was not verified.
            if !self.is_issuer(&registered.issuer) {
                return Err(format!("token issuer {} is invalid", print::quote(&registered.issuer)));
            }
            let is_legacy = registered.audiences.0.is_empty();
            if is_legacy {
                self.lookup.record_use(TokenUse::Legacy);
            }
            let audiences = self.accepted_audiences(&registered, requested)?;
            Ok(VerifiedToken { token, payload: jws.unverified_payload(), registered, audiences, is_legacy })
        });
        match verified {
            Ok(verified) => self.validate(verified),
            Err(error) => AuthFuture::ready(Err(AuthenticationError(error))),
        }
    }

    /// Validates the content of the claims.
    fn validate<'a>(&'a self, verified: VerifiedToken<'_>) -> AuthFuture<'a, AuthenticationResult> {
        let VerifiedToken { token, payload, registered, audiences, is_legacy } = verified;
        let mut annotations = Vec::new();
        if is_legacy {
            annotations.push(("authentication.k8s.io/legacy-token", registered.subject.to_string()));
        }
        match &self.tokens {
            ServiceAccountTokens::Bound { .. } => {
                let validated = parse_claims(payload)
                    .map_err(|error| error.to_string())
                    .and_then(|claims: BoundClaims| validate_bound(&*self.lookup, &registered, claims));
                AuthFuture::ready(match validated {
                    Ok((owner, more)) => {
                        annotations.extend(more);
                        Ok(Some(Authentication { audiences, annotations, ..user_info(&owner).into() }))
                    }
                    Err(error) => Err(AuthenticationError(error)),
                })
            }
            ServiceAccountTokens::Legacy { look_up } => {
                let claims: LegacyClaims = match parse_claims(payload) {
                    Ok(claims) => claims,
                    Err(error) => return AuthFuture::ready(Err(AuthenticationError(error.to_string()))),
                };
                let mut effects = LegacyEffects::default();
                let owner = validate_legacy(&*self.lookup, *look_up, token, &registered, &claims, &mut effects);
                annotations.extend(effects.annotations);
                let warnings = effects.warnings;
                let result = owner
                    .map_err(AuthenticationError)
                    .map(|owner| Some(Authentication { audiences, annotations, warnings, ..user_info(&owner).into() }));
                let Some((uid, date)) = effects.last_used else { return AuthFuture::ready(result) };
                AuthFuture::boxed(async move {
                    self.lookup.set_last_used(&claims.namespace, &claims.secret, &uid, date).await;
                    result
                })
            }
        }
    }
}

impl TokenAuthenticator for ServiceAccountAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        self.authenticate(token, audiences)
    }
}

type ExtraAttributes = Vec<(Str, Vec<Str>)>;

/// The user of a service account (upstream: `ServiceAccountInfo.UserInfo`). Extra attributes are ordered by key.
fn user_info(owner: &TokenOwner) -> UserInfo {
    let mut extra = Vec::new();
    if !owner.admission_review_groups.is_empty() {
        let groups = owner.admission_review_groups.iter().map(|group| Str::from(&**group));
        extra.push((Str::const_new(ADMISSION_REVIEW_GROUPS), groups.collect()));
    }
    if !owner.token_id.is_empty() {
        add(&mut extra, CREDENTIAL_ID, &super::credential_id(&owner.token_id));
    }
    add_object(&mut extra, [MUTATING_WEBHOOK_NAME, MUTATING_WEBHOOK_UID], owner.mutating.as_ref());
    if let Some(ObjectClaim { name, uid }) = &owner.node
        && !name.is_empty()
    {
        add(&mut extra, NODE_NAME, name);
        add(&mut extra, NODE_UID, uid);
    }
    add_object(&mut extra, [POD_NAME, POD_UID], owner.pod.as_ref());
    add_object(&mut extra, [VALIDATING_WEBHOOK_NAME, VALIDATING_WEBHOOK_UID], owner.validating.as_ref());
    UserInfo {
        name: service_account_user(&owner.namespace, &owner.name),
        uid: owner.uid.clone(),
        groups: service_account_groups(&owner.namespace),
        extra,
    }
}

/// Adds an attribute that has a value. The keys are constants, so copying a key allocates nothing.
fn add(extra: &mut ExtraAttributes, key: &'static str, value: &str) {
    if !value.is_empty() {
        extra.push((Str::const_new(key), vec![Str::from(value)]));
    }
}

/// Adds the name and the uid of an object that has both.
fn add_object(extra: &mut ExtraAttributes, [name_key, uid_key]: [&'static str; 2], object: Option<&ObjectClaim>) {
    if let Some(ObjectClaim { name, uid }) = object
        && !name.is_empty()
        && !uid.is_empty()
    {
        add(extra, name_key, name);
        add(extra, uid_key, uid);
    }
}
