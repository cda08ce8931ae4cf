//! Tokens of other issuers: JSON Web Tokens that follow OpenID Connect (upstream:
//! `plugin/pkg/authenticator/token/oidc` and the library go-oidc, whose errors the log shows).
//!
//! - `claims`: the claims of a token as Go reads them.
//! - `discovery`: the published documents of an issuer.
//! - `verifier`: verifies a token.
//! - `distributed_claims`: gets claims from endpoints that a token names.
//! - `authenticator`: turns the claims of a token into a user.

mod authenticator;
mod claims;
mod discovery;
mod distributed_claims;
#[cfg(test)]
mod tests;
mod verifier;

use std::sync::Arc;

pub use authenticator::JwtAuthenticator;
pub use discovery::{DISCOVERY_PATH, DiscoveryError, jwks_uri, max_age};
use pintle_value::Str;
pub use verifier::{ALL_SIGNING_ALGORITHMS, untrusted_issuer};

use crate::AuthFuture;
use crate::jwt::PublicKey;

/// The keys of an issuer, which the server fetches from it.
pub trait IssuerKeys: Send + Sync {
    /// The keys that were fetched last; an empty list before the first fetch. `None` as long as their URL is not known.
    fn current(&self) -> Option<Arc<Vec<PublicKey>>>;

    /// Fetches the keys again. `None` if the keys of the last fetch must be enough for now.
    fn fetch(&self) -> Option<AuthFuture<'_, Result<Arc<Vec<PublicKey>>, String>>>;
}

/// An endpoint that has a distributed claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimEndpoint {
    /// Its URL.
    pub url: Str,
    /// The bearer token of requests; empty for requests without a token.
    pub access_token: Str,
}

/// The response of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointResponse {
    /// The status code.
    pub code: u16,
    /// The status code with its reason, as in the response.
    pub status: String,
    /// The body, or the reason why it cannot be read.
    pub body: Result<Vec<u8>, String>,
}

/// Fetches the data for the distributed claims of an issuer's tokens.
pub trait ClaimSource: Send + Sync {
    /// Sends a request to an endpoint. The error says why the request failed.
    fn get<'a>(&'a self, endpoint: &'a ClaimEndpoint) -> AuthFuture<'a, Result<EndpointResponse, String>>;

    /// The keys of the issuer of an endpoint's token. `None` as long as their URL is not known.
    fn issuer_keys<'a>(&'a self, issuer: &'a str) -> AuthFuture<'a, Option<Arc<dyn IssuerKeys>>>;
}
