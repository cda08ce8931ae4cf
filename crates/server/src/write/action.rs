//! Actions: creates of resources and subresources that store no object of their own (bindings and reviews).

use std::sync::Arc;

use http::StatusCode;
use pintle_admission::AdmissionOperation;
use pintle_registry::{Action, ApiError, Resource};
use pintle_value::{Value, object};

use super::internal_client::InternalClient;
use super::review::review;
use super::subresource::answer;
use super::update::{GuaranteedUpdate, ValidationRules};
use super::writer::{AdmissionMode, Writer};
use crate::context::RequestContext;
use crate::http::Response;
use crate::represent::status_response;
use crate::request::negotiate;
use crate::request::query::WriteOptions;

/// Carries out the action of a create request. `object` is in the namespace of the request.
///
/// # Errors
/// The object is malformed, or the action is refused.
pub(crate) async fn act(
    call: &RequestContext,
    resource: &Arc<Resource>,
    action: Action,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Response, ApiError> {
    let writer = Writer::of(call, options, options.dry_run);
    let client = InternalClient(call.cluster.clone());
    let plugins = writer.plugins();
    let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
    let target = (&*call.info.subresource, &*namespace, &*name);
    let attributes = writer.attributes(AdmissionOperation::Create, resource, target, None, &client);
    plugins.mutate(&attributes, &mut object).await?;
    plugins.validate(&attributes, &object).await?;
    match action {
        Action::Bind => bind(call, writer, object).await,
        Action::Review(question) => {
            let reviewed = review(call, resource, question, object).await?;
            answer(call, StatusCode::CREATED, &reviewed, &resource.schema)
        }
    }
}

/// Binds a pod to a node. The binding was admitted; the change of the pod is not admitted again.
async fn bind(call: &RequestContext, writer: Writer<'_>, binding: Value) -> Result<Response, ApiError> {
    let registry = call.cluster.registry();
    let pods = registry.resource("", "v1", "pods").ok_or(ApiError::NoSuchPath)?;
    let now = writer.context.now;
    let writer = Writer { admission: AdmissionMode::Skip, ..writer };
    let target = (call.namespace_of(pods), binding.name());
    let update = GuaranteedUpdate {
        subresource: "binding",
        rules: ValidationRules::None,
        ..GuaranteedUpdate::by(writer, pods, target)
    };
    update
        .run(|old| {
            let mut pod = old.clone();
            pintle_kinds::bind(&mut pod, &binding, now)?;
            Ok(pod)
        })
        .await?;
    let accepted = negotiate::output(&call.headers, &call.query, call.endpoint())?;
    let value = object! {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": Value::object(),
        "status": "Success",
        "code": 201,
    };
    Ok(status_response(call, StatusCode::CREATED, &value, accepted.encoding, accepted.pretty))
}
