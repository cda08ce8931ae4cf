//! Requests for subresources: subresources that read and write the object itself (`status`), `scale`, and actions on
//! the object.

use std::sync::Arc;

use http::StatusCode;
use pintle_registry::{ApiError, Resource, Subresource, SubresourceRole, Verb};
use pintle_schema::Schema;
use pintle_value::Value;

use super::action::run_action;
use super::managed_fields::ManagedFieldsUpdater;
use super::metadata;
use super::patch::patch;
use super::scale::ScaleRequest;
use super::update::update;
use crate::context::RequestContext;
use crate::http::Response;
use crate::objects::decode::{ExpectedKind, decode};
use crate::objects::encode::Shape;
use crate::objects::model;
use crate::read::get;
use crate::represent::respond_shaped;
use crate::request::negotiate;
use crate::request::query::{WriteOptions, WriteVerb};

/// Handles a request for a subresource.
pub(crate) async fn subresource(
    request: &RequestContext,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    verb: Verb,
) -> Result<Response, ApiError> {
    if subresource.role == SubresourceRole::Object {
        return match verb {
            Verb::Get => get(request, resource).await,
            Verb::Update => update(request, resource).await,
            Verb::Patch => patch(request, resource).await,
            _ => Err(ApiError::MethodNotAllowed),
        };
    }
    let schema = request
        .cluster
        .served
        .catalog
        .kind_schema(&subresource.kind.group, &subresource.kind.version, &subresource.kind.kind)
        .ok_or(ApiError::NoSuchPath)?;
    let (group_version, kind) = (subresource.kind.group_version(), &subresource.kind.kind);
    let accepts = subresource.accepts.as_ref();
    let expected = ExpectedKind { accepts, ..ExpectedKind::of_type(group_version, kind, &schema) };
    match (&subresource.role, verb) {
        (SubresourceRole::Scale(paths), verb) => {
            let expected = ExpectedKind { scheme: model(resource).scale_scheme(), ..expected };
            ScaleRequest { request, resource, paths, expected }.respond(verb).await
        }
        (SubresourceRole::Action(action), Verb::Create) => {
            // If the client does not accept the response, the action does not run.
            negotiate::output(&request.headers, &request.query, request.endpoint())?;
            let encoding = negotiate::input(&request.headers, request.endpoint())?;
            let body = request.body().await?;
            let options = WriteOptions::read(&request.query, WriteVerb::Create)?;
            let mut object = decode(request.decoding(), &body, encoding, &expected, options.field_validation)?;
            request.audit_object(&object, expected.shape());
            metadata::ensure_namespace(&mut object, resource, &request.info.namespace)?;
            ManagedFieldsUpdater::for_request(request, &expected, &options).create(&mut object);
            run_action(request, resource, *action, object, &options).await
        }
        _ => Err(ApiError::MethodNotAllowed),
    }
}

/// Responds with an object that is encoded by a schema.
pub(crate) fn respond_typed(
    request: &RequestContext,
    code: StatusCode,
    value: &Value,
    schema: &Schema,
) -> Result<Response, ApiError> {
    let accepted = negotiate::output(&request.headers, &request.query, request.endpoint())?;
    Ok(respond_shaped(request, accepted, code, value, Shape::Typed(&schema.types, schema.root)))
}
