//! Service accounts: the claims of their tokens, and the code that issues and validates tokens (upstream:
//! `pkg/serviceaccount`).
//!
//! A token is bound to a service account, and to a pod, a node, a secret or a configuration of webhooks if one was
//! requested. It is valid while
//! these objects exist with the same uids; [`ServiceAccountLookup`] finds them. Legacy tokens are in secrets and do not
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
pub use lookup::{ObjectIdentity, SecretToken, ServiceAccountLookup, TokenUse, WebhookConfigurationKind};
pub use metadata::{JWKS_PATH, MetadataError, OPENID_CONFIGURATION_PATH, OpenIdMetadata};

/// The lifetime of a token that the injected volume of a pod requests, in seconds. Use of the token after this time
/// only causes a warning that the client has not refreshed it (upstream: `WarnOnlyBoundTokenExpirationSeconds`).
pub const WARN_ONLY_EXPIRATION_SECONDS: i64 = 60 * 60 + 7;
/// The actual lifetime of such a token, in seconds (upstream: `ExpirationExtensionSeconds`).
pub const EXTENDED_EXPIRATION_SECONDS: i64 = 24 * 365 * 60 * 60;

/// The credential id of a token, in the form of `authentication.kubernetes.io/credential-id`.
#[must_use]
pub fn credential_id(token_id: &str) -> String {
    format!("JTI={token_id}")
}
