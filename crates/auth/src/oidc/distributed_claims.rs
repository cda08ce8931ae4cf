//! Distributed claims. A token names an endpoint for them instead of having them (OpenID Connect Core 1.0, section
//! 5.6.2; upstream: `claimResolver`). Only the claim of groups is resolved.

use std::sync::Arc;

use pintle_value::print::quote;
use pintle_value::url::parse_reference;
use pintle_value::{Object, Str, Value};

use super::claims::{Claims, field_mismatch, mismatch, text};
use super::verifier::{TokenVerifier, VerifierRules, read_untrusted_issuer};
use super::{ClaimEndpoint, ClaimSource};

/// The claim that maps the names of claims to the names of their sources.
const NAMES: &str = "_claim_names";
/// The claim that maps the names of sources to the sources.
const SOURCES: &str = "_claim_sources";

/// The status codes of successful responses.
const SUCCESS: std::ops::RangeInclusive<u16> = 200..=226;

/// The names and sources of distributed claims of one token.
pub(super) struct ClaimSources<'c> {
    /// Sources by claim; `None` if the claim is missing or null.
    names: Option<&'c Object>,
    /// Endpoints by source; `None` if the claim is missing or null.
    sources: Option<&'c Object>,
}

/// The text of a field of a Go structure. Go ignores the case of its name.
fn text_field(object: &Object, field: &str, path: &str) -> Result<Str, String> {
    let mut found = Str::default();
    for (_, value) in object.iter().filter(|(key, value)| key.eq_ignore_ascii_case(field) && !value.is_null()) {
        found = text(value).ok_or_else(|| field_mismatch(value, &format!("{path}.{field}"), "string"))?;
    }
    Ok(found)
}

impl Claims {
    /// The sources of distributed claims. They are read from every token.
    pub(super) fn sources(&self) -> Result<ClaimSources<'_>, String> {
        let object = |claim: &str, expected: &str| match self.get(claim) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(value) => Err(field_mismatch(value, &format!("idToken.{claim}"), expected)),
        };
        let names = object(NAMES, "map[string]string")?;
        if let Some(value) = names.and_then(|names| names.values().find(|source| text(source).is_none())) {
            return Err(field_mismatch(value, &format!("idToken.{NAMES}"), "string"));
        }
        let sources = object(SOURCES, "map[string]oidc.claimSource")?;
        for source in sources.into_iter().flat_map(Object::values).filter(|source| !source.is_null()) {
            let of_field = |source| field_mismatch(source, &format!("idToken.{SOURCES}"), "oidc.claimSource");
            let source = source.as_object().ok_or_else(|| of_field(source))?;
            for field in ["endpoint", "access_token"] {
                text_field(source, field, &format!("claimSource.{SOURCES}"))?;
            }
        }
        Ok(ClaimSources { names, sources })
    }
}

impl ClaimSources<'_> {
    /// Checks that the source of every claim exists, as the library does before it validates other claims.
    pub(super) fn check(&self) -> Result<(), String> {
        for source in self.names.into_iter().flat_map(Object::values) {
            let source = source.as_str().unwrap_or_default();
            if source.is_empty() {
                return Err("oidc: failed to obtain source from claim name".to_owned());
            }
            if !self.sources.is_some_and(|sources| sources.contains_key(source)) {
                return Err("oidc: source does not exist".to_owned());
            }
        }
        Ok(())
    }
}

/// Reads all sources of a token, and returns the named source.
fn find_source(sources: &Value, name: &str) -> Result<Option<ClaimEndpoint>, String> {
    let sources = match sources {
        Value::Null => return Ok(None),
        Value::Object(sources) => sources,
        value => return Err(mismatch(value, "map[string]oidc.endpoint")),
    };
    let mut found = None;
    for (key, source) in sources.iter() {
        let endpoint = match source {
            Value::Null => ClaimEndpoint::default(),
            Value::Object(source) => {
                // This is an aggregated claim, which is ignored.
                text_field(source, "JWT", "endpoint")?;
                let field = |field| text_field(source, field, "endpoint");
                ClaimEndpoint { url: field("endpoint")?, access_token: field("access_token")? }
            }
            value => return Err(mismatch(value, "oidc.endpoint")),
        };
        if key == name {
            found = Some(endpoint);
        }
    }
    Ok(found)
}

/// Resolves one claim of the tokens of an issuer.
pub(super) struct ClaimResolver {
    pub(super) claim: Str,
    /// The requirements on the tokens of endpoints.
    pub(super) rules: Arc<VerifierRules>,
    pub(super) source: Arc<dyn ClaimSource>,
}

impl ClaimResolver {
    /// The endpoint that has the claim of a verified token; `None` if the token has the claim or names no endpoint.
    pub(super) fn endpoint(&self, claims: &Claims) -> Result<Option<ClaimEndpoint>, String> {
        if claims.get(&self.claim).is_some() {
            return Ok(None);
        }
        let Some(names) = claims.get(NAMES) else { return Ok(None) };
        let sources = claims.get(SOURCES).ok_or("oidc: no claim sources")?;
        let source = names.get(&self.claim).map(|source| source.as_str().unwrap_or_default());
        let endpoint = find_source(sources, source.unwrap_or_default())
            .map_err(|error| format!("oidc: could not parse claim sources: {error}"))?;
        let Some(source) = source else { return Ok(None) };
        let missing = || format!("id token _claim_names contained a source {source} missing in _claims_sources");
        let endpoint = endpoint.ok_or_else(missing)?;
        Ok((!endpoint.url.is_empty()).then_some(endpoint))
    }

    /// Gets the claim from an endpoint, whose response is a token.
    pub(super) async fn resolve(&self, endpoint: &ClaimEndpoint) -> Result<Value, String> {
        let (claim, url) = (&self.claim, &endpoint.url);
        let token = self.get_token(endpoint).await;
        let token = token.map_err(|error| format!("while getting distributed claim {}: {error}", quote(claim)))?;
        let issuer = read_untrusted_issuer(&token).map_err(|error| {
            let claim = quote(claim);
            format!("getting untrusted issuer from endpoint {url} failed for claim {claim}: {error}")
        })?;
        let not_initialized = || {
            let quoted = quote(&issuer);
            format!("verifying untrusted issuer {issuer} failed: verifier not initialized for issuer: {quoted}")
        };
        let keys = self.source.issuer_keys(&issuer).await.ok_or_else(not_initialized)?;
        let verifier = TokenVerifier { issuer: issuer.clone(), rules: self.rules.clone(), keys };
        let verified = verifier.verify(&token).ok_or_else(not_initialized)?.await;
        let claims = verified.map_err(|error| format!("verify distributed claim token: {error}"))?;
        let missing =
            || format!("jwt returned by distributed claim endpoint {} did not contain claim: {claim}", quote(url));
        claims.get(claim).cloned().ok_or_else(missing)
    }

    /// The token that an endpoint returns.
    async fn get_token(&self, endpoint: &ClaimEndpoint) -> Result<String, String> {
        let url = &endpoint.url;
        parse_reference(url).map_err(|error| format!("while calling {url}: {error}"))?;
        let response = self.source.get(endpoint).await?;
        if !SUCCESS.contains(&response.code) {
            return Err(format!("error while getting distributed claim JWT: {}", response.status));
        }
        let body = response.body.map_err(|_| "could not decode distributed claim response")?;
        let token = String::from_utf8_lossy(&body);
        // go-jose ignores white space, such as a line break at the end.
        Ok(token.chars().filter(|letter| !letter.is_whitespace()).collect())
    }
}
