//! Admission of connections (upstream: `handlers.ConnectResource`). The object of a connection is its options.

use std::sync::Arc;

use pintle_admission::{AdmissionOperation, RequestOptions};
use pintle_registry::{ApiError, Resource};
use pintle_value::Value;

use super::internal_client::InternalClient;
use super::writer::Writer;
use crate::context::RequestContext;

/// Connections have no options of the request itself.
struct NoOptions;

impl RequestOptions for NoOptions {
    fn to_object(&self, _: AdmissionOperation) -> Value {
        Value::Null
    }
}

/// Runs both phases of admission for a connection. Plugins may change its options.
///
/// # Errors
/// A plugin refuses the connection.
pub(crate) async fn admit_connection(
    request: &RequestContext,
    resource: &Arc<Resource>,
    options: &mut Value,
) -> Result<(), ApiError> {
    let writer = Writer::for_request(request, &NoOptions, false);
    let client = InternalClient(request.cluster.clone());
    let info = &request.info;
    let target = (&*info.subresource, request.namespace_of(resource), &*info.name);
    let attributes = writer.attributes(AdmissionOperation::Connect, resource, target, None, &client);
    writer.mutate(&attributes, options).await?;
    writer.plugins.validate(&attributes, options).await
}
