//! Service accounts: the claims of their tokens, who issues and who validates them (upstream: `pkg/serviceaccount`).
//!
//! A token is bound to a service account, and to a pod, a node or a secret if one was requested. It is valid while the
//! server finds them with the same uids, which [`ServiceAccountLookup`] tells. Legacy tokens are in secrets and do not
//! expire.

mod authenticator;
mod claims;
mod issuer;
mod legacy;
mod lookup;
mod metadata;
#[cfg(test)]
mod tests;
mod validate;

pub use authenticator::{PublicKeys, ServiceAccountAuthenticator, ServiceAccountTokens};
pub use issuer::{BoundObject, BoundTokenRequest, IssuedToken, TokenIssuer};
pub use legacy::{INVALID_SINCE_LABEL, LAST_USED_LABEL, LEGACY_ISSUER};
pub use lookup::{ObjectIdentity, SecretToken, ServiceAccountLookup, TokenUse};
pub use metadata::{JWKS_PATH, MetadataError, OPENID_CONFIGURATION_PATH, OpenIdMetadata};

/// How long a token lives that an injected volume of a pod requests, in seconds. Clients that do not refresh it are only
/// warned about when this has passed (upstream: `WarnOnlyBoundTokenExpirationSeconds`).
pub const WARN_ONLY_EXPIRATION_SECONDS: i64 = 60 * 60 + 7;
/// How long such a token lives in fact, in seconds (upstream: `ExpirationExtensionSeconds`).
pub const EXTENDED_EXPIRATION_SECONDS: i64 = 24 * 365 * 60 * 60;

/// The credential id of a token, as `authentication.kubernetes.io/credential-id` has it.
#[must_use]
pub fn credential_id(token_id: &str) -> String {
    format!("JTI={token_id}")
}
