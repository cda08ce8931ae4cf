//! The discovery document of an issuer, which has the URL of the keys (OpenID Connect Discovery 1.0, section 4). This
//! module also reads the time for which keys may be used.

use http::HeaderMap;
use http::header::CACHE_CONTROL;
use pintle_codec::json;
use pintle_value::Value;
use pintle_value::print::quote;

/// The path of the document, below the URL of the issuer.
pub const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// A discovery document that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// The document is not a JSON object.
    #[error("oidc: failed to decode provider discovery object: {0}")]
    Malformed(String),
    /// The document belongs to another issuer.
    #[error("oidc: issuer did not match the issuer returned by provider, expected {} got {}", quote(.expected), quote(.found))]
    OtherIssuer {
        /// The issuer of the configuration.
        expected: String,
        /// The issuer of the document.
        found: String,
    },
    /// The document has no URL of keys.
    #[error("provider did not return JWKS URL")]
    NoKeys,
}

/// The URL of the keys of an issuer, from its discovery document.
///
/// # Errors
/// See [`DiscoveryError`].
pub fn jwks_uri(issuer: &str, document: &[u8]) -> Result<String, DiscoveryError> {
    let decoded = json::decode(document, json::DecodeOptions::default());
    let document = decoded.map_err(|error| DiscoveryError::Malformed(error.to_string()))?.value;
    if document.as_object().is_none() {
        return Err(DiscoveryError::Malformed("not an object".to_owned()));
    }
    let text = |field: &str| match document.get(field) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(_) => Err(DiscoveryError::Malformed(format!("{field} is not a string"))),
    };
    let (found, uri) = (text("issuer")?, text("jwks_uri")?);
    if found != issuer {
        return Err(DiscoveryError::OtherIssuer { expected: issuer.to_owned(), found });
    }
    if uri.is_empty() { Err(DiscoveryError::NoKeys) } else { Ok(uri) }
}

/// The time for which a response may be used, in seconds; 0 if the response does not say it (RFC 9111, section 5.2.2).
#[must_use]
pub fn max_age(headers: &HeaderMap) -> u64 {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut age = 0;
    for directive in values.flat_map(|value| value.split(',')) {
        let directive = directive.trim().to_ascii_lowercase();
        match directive.split_once('=') {
            Some(("max-age", seconds)) => age = seconds.trim_matches('"').parse().unwrap_or(0),
            _ if matches!(&*directive, "no-store" | "no-cache") => return 0,
            _ => {}
        }
    }
    age
}
