//! Tokens of other issuers: JSON Web Tokens that follow OpenID Connect (upstream:
//! `plugin/pkg/authenticator/token/oidc` and the library go-oidc, whose errors the log shows).
//!
//! - `claims`: the claims of a token as Go reads them.
//! - `authenticator`: verifies a token and turns its claims into a user.
//! - `discovery`: what an issuer publishes.

mod authenticator;
mod claims;
mod discovery;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use authenticator::{ALL_SIGNING_ALGORITHMS, JwtAuthenticator, untrusted_issuer};
pub use discovery::{DISCOVERY_PATH, DiscoveryError, jwks_uri, max_age};

use crate::AuthFuture;
use crate::jwt::PublicKey;

/// The keys of an issuer, which are fetched from it.
pub trait IssuerKeys: Send + Sync {
    /// The keys that were fetched last; none before the first time. `None` as long as it is not known where they are.
    fn current(&self) -> Option<Arc<Vec<PublicKey>>>;

    /// Fetches the keys again. `None` if those that were fetched last must do for now.
    fn fetch(&self) -> Option<AuthFuture<'_, Result<Arc<Vec<PublicKey>>, String>>>;
}
