//! The configuration of tokens of service accounts.

use std::sync::Arc;

use pintle_auth::service_account::{OpenIdMetadata, TokenIssuer};
use pintle_value::Str;

/// The configuration of tokens of service accounts, and the documents that describe the server as their issuer.
#[derive(Debug)]
pub struct ServiceAccountConfig {
    /// Issues the tokens.
    pub issuer: Arc<TokenIssuer>,
    /// The audiences of the server. They are the audiences of a token whose request names none.
    pub audiences: Vec<Str>,
    /// The longest validity of a token, in seconds; `None` for no limit (`--service-account-max-token-expiration`).
    pub max_expiration_seconds: Option<i64>,
    /// Whether tokens of injected volumes are valid for longer than requested
    /// (`--service-account-extend-token-expiration`).
    pub extends_expiration: bool,
    /// The documents for relying parties; `None` if the issuer does not follow OpenID Connect.
    pub metadata: Option<OpenIdMetadata>,
}
