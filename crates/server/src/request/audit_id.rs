//! The ID of a request for audit (upstream: `filters.WithAuditInit`).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the ID, in requests and responses.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The ID of a request. It is the client's ID, unchanged, if the client sends one, otherwise a new ID.
pub(crate) fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let own = headers.get(AUDIT_ID).filter(|id| !id.is_empty()).cloned();
    own.unwrap_or_else(|| {
        let id = uuid::Uuid::new_v4().to_string();
        HeaderValue::from_maybe_shared(Bytes::from(id)).unwrap_or_else(|_| HeaderValue::from_static(""))
    })
}
