//! Actions: create requests for resources and subresources that store no object of their own. Examples are bindings,
//! evictions, reviews and requests for tokens.

use std::sync::Arc;

use http::StatusCode;
use pintle_admission::AdmissionOperation;
use pintle_registry::{Action, ApiError, Resource};
use pintle_value::{Value, object};

use super::eviction::{evict, prepare_eviction};
use super::internal_client::InternalClient;
use super::metadata;
use super::review::{check_review, run_review};
use super::subresource::respond_typed;
use super::token_request;
use super::update::{GuaranteedUpdate, ValidationRules};
use super::writer::Writer;
use crate::context::RequestContext;
use crate::http::Response;
use crate::represent::status_response;
use crate::request::negotiate;
use crate::request::query::WriteOptions;
use crate::request::work_memory::budget_error;

/// Runs the action of a create request. The namespace of `object` is the namespace of the request.
///
/// # Errors
/// Returns an error if the object is malformed or the action is denied.
pub(crate) async fn run_action(
    request: &RequestContext,
    resource: &Arc<Resource>,
    action: Action,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Response, ApiError> {
    match action {
        Action::Bind => {
            let check = |binding: &mut Value| {
                check_binding_name(request, binding)?;
                pintle_kinds::check_binding(&request.cluster.settings.gates, binding)
            };
            admit(request, resource, &mut object, options, check).await?;
            bind(request, Writer::for_request(request, options, options.dry_run), object).await
        }
        Action::Evict => {
            metadata::wipe_system_fields(&mut object);
            metadata::dedup_owner_references(&mut object, &request.recorder, false);
            let check = |eviction: &mut Value| prepare_eviction(request, eviction);
            admit(request, resource, &mut object, options, check).await?;
            evict(request, resource, &object, options).await?;
            respond_created(request)
        }
        Action::RequestToken => token_request::create(request, resource, object, options).await,
        Action::Review(review) => {
            let check = |object: &mut Value| check_review(request, resource, review, object);
            admit(request, resource, &mut object, options, check).await?;
            let reviewed = run_review(request, review, object).await?;
            respond_typed(request, StatusCode::CREATED, &reviewed, &resource.schema)
        }
    }
}

/// Runs both phases of admission, and checks and completes the object between them. So the check covers the result of
/// the mutating plugins, and validating plugins never see an invalid object.
async fn admit(
    request: &RequestContext,
    resource: &Arc<Resource>,
    object: &mut Value,
    options: &WriteOptions,
    check: impl Fn(&mut Value) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let writer = Writer::for_request(request, options, options.dry_run);
    let client = InternalClient(request.cluster.clone());
    let (namespace, given_name) = (object.namespace().to_owned(), object.name().to_owned());
    let name = if request.info.subresource.is_empty() { &*given_name } else { &*request.info.name };
    let target = (&*request.info.subresource, &*namespace, name);
    let attributes = writer.attributes(AdmissionOperation::Create, resource, target, None, &client);
    writer.mutate(&attributes, object).await?;
    check(object)?;
    writer.plugins.validate(&attributes, object).await?;
    pintle_budget::check().map_err(budget_error)
}

/// Checks that a binding has the name of the pod in the path, if the path contains a pod.
fn check_binding_name(request: &RequestContext, binding: &Value) -> Result<(), ApiError> {
    if request.info.subresource.is_empty() || binding.name() == request.info.name {
        return Ok(());
    }
    Err(ApiError::BadRequest("name in URL does not match name in Binding object".to_owned()))
}

/// Binds a pod to a node. Admission ran for the binding, so it does not run for the update of the pod.
async fn bind(request: &RequestContext, writer: Writer<'_>, binding: Value) -> Result<Response, ApiError> {
    let registry = request.cluster.registry();
    let pods = registry.resource("", "v1", "pods").ok_or(ApiError::NoSuchPath)?;
    let now = writer.context.now;
    let target = (request.namespace_of(pods), binding.name());
    let update = GuaranteedUpdate {
        subresource: "binding",
        rules: ValidationRules::None,
        ..GuaranteedUpdate::new(writer.without_admission(), pods, target)
    };
    update
        .run(|old| {
            let mut pod = old.clone();
            pintle_kinds::bind(&request.cluster.settings.gates, &mut pod, &binding, now)?;
            Ok(pod)
        })
        .await?;
    respond_created(request)
}

/// The response to an action that returns no object.
fn respond_created(request: &RequestContext) -> Result<Response, ApiError> {
    let accepted = negotiate::output(&request.headers, &request.query, request.endpoint())?;
    let value = object! {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": Value::object(),
        "status": "Success",
        "code": 201,
    };
    Ok(status_response(request, StatusCode::CREATED, &value, accepted.encoding, accepted.pretty))
}
