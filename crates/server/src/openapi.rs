//! OpenAPI documents.

use pintle_registry::ApiError;

use crate::http::Response;
use crate::pipeline::Call;

/// Answers, if the path is one of OpenAPI.
pub(crate) fn answer(_call: &Call) -> Result<Option<Response>, ApiError> {
    Ok(None)
}
