//! The documents from which relying parties learn how to verify tokens: the OpenID Connect discovery document and the set
//! of keys (upstream: `pkg/serviceaccount/openidmetadata.go`).

use std::collections::BTreeSet;

use pintle_value::url::{Url, parse_reference};
use serde::Serialize;

use super::PublicKeys;
use crate::jwt::write_jwks;

/// The path of the discovery document.
pub const OPENID_CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// The path of the set of keys.
pub const JWKS_PATH: &str = "/openid/v1/jwks";

/// Why the documents are not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MetadataError(String);

/// Both documents, in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenIdMetadata {
    /// The discovery document.
    pub configuration: String,
    /// The set of keys.
    pub keys: String,
}

/// The discovery document.
#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: BTreeSet<&'static str>,
}

impl OpenIdMetadata {
    /// The documents of an issuer. Without `jwks_uri`, the document refers to the keys at the server's address.
    ///
    /// # Errors
    /// The issuer is not a URL that OpenID Connect allows, or there are no keys.
    pub fn new(
        issuer: &str,
        jwks_uri: Option<&str>,
        external_address: &str,
        keys: &PublicKeys,
    ) -> Result<Self, MetadataError> {
        let (Url { scheme, query, .. }, fragment) = parse_reference(issuer).map_err(MetadataError)?;
        if scheme != "https" {
            return Err(MetadataError(format!("issuer URL must use https scheme, got: {issuer}")));
        }
        if !query.is_empty() {
            return Err(MetadataError(format!("issuer URL may not include a query, got: {issuer}")));
        }
        if !fragment.is_empty() {
            return Err(MetadataError(format!("issuer URL may not include a fragment, got: {issuer}")));
        }
        if keys.0.is_empty() {
            return Err(MetadataError("no keys provided for validating keyset".to_owned()));
        }
        let own_uri = format!("https://{external_address}{JWKS_PATH}");
        let configuration = Configuration {
            issuer,
            jwks_uri: jwks_uri.unwrap_or(&own_uri),
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: keys.0.iter().map(|key| key.algorithm().name()).collect(),
        };
        let configuration = serde_json::to_string(&configuration).map_err(|error| MetadataError(error.to_string()))?;
        Ok(Self { configuration, keys: write_jwks(&keys.0) })
    }
}
