//! Serves the documents from which relying parties learn how to verify tokens of service accounts (upstream:
//! `pkg/routes/openidmetadata.go`).

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{Method, StatusCode};
use pintle_auth::service_account::{JWKS_PATH, OPENID_CONFIGURATION_PATH};
use pintle_registry::ApiError;

use crate::context::RequestContext;
use crate::http::{Response, set_header, text};

/// The paths of the documents.
pub(crate) const PATHS: [&str; 2] = [OPENID_CONFIGURATION_PATH, JWKS_PATH];
/// The time for which clients may cache the documents. Upstream's keys are static, too.
const CACHE_FOR: &str = "public, max-age=3600";

/// Responds if the path belongs to this file and the issuer has the documents.
///
/// # Errors
/// The method is not GET, or the client does not accept the document.
pub(crate) fn respond(request: &RequestContext) -> Result<Option<Response>, ApiError> {
    let Some(metadata) = &request.cluster.settings.service_accounts.metadata else { return Ok(None) };
    let (document, content_type) = match request.info.path.trim_end_matches('/') {
        OPENID_CONFIGURATION_PATH => (&metadata.configuration, "application/json"),
        JWKS_PATH => (&metadata.keys, "application/jwk-set+json"),
        _ => return Ok(None),
    };
    if request.method != Method::GET {
        return Err(ApiError::MethodNotAllowed);
    }
    if !is_accepted(request, content_type) {
        return Err(ApiError::NotAcceptable(format!(
            "406: Not Acceptable\n\nAvailable representations: {content_type}"
        )));
    }
    let mut response = text(StatusCode::OK, document.clone());
    set_header(response.headers_mut(), CONTENT_TYPE, content_type);
    set_header(response.headers_mut(), CACHE_CONTROL, CACHE_FOR);
    Ok(Some(response))
}

/// True if the client accepts a type by its name or accepts all types, as upstream's router understands it.
fn is_accepted(request: &RequestContext, content_type: &str) -> bool {
    let Some(accept) = request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()) else { return true };
    let types = accept.split(',').map(|accepted| accepted.split(';').next().unwrap_or_default().trim());
    accept.is_empty() || types.into_iter().any(|accepted| matches!(accepted, "*/*") || accepted == content_type)
}
