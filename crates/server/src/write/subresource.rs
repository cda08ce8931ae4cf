//! Subresources: those that show and write the object itself (`status`), the `Scale` view of it, and actions on it.

use std::sync::Arc;

use http::StatusCode;
use pintle_registry::{ApiError, Resource, Subresource, SubresourceRole, Verb};
use pintle_schema::Schema;
use pintle_value::Value;

use super::action::act;
use super::managed_fields::ManagedFieldsUpdater;
use super::metadata;
use super::patch::patch;
use super::scale::Scale;
use super::update::update;
use crate::context::RequestContext;
use crate::http::Response;
use crate::objects::decode::{ExpectedKind, decode};
use crate::objects::encode::{Shape, encode};
use crate::read::get;
use crate::represent::respond;
use crate::request::negotiate;
use crate::request::query::{WriteOptions, Writing};

/// Answers a request for a subresource.
pub(crate) async fn subresource(
    call: &RequestContext,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    verb: Verb,
) -> Result<Response, ApiError> {
    if subresource.role == SubresourceRole::Object {
        return match verb {
            Verb::Get => get(call, resource).await,
            Verb::Update => update(call, resource).await,
            Verb::Patch => patch(call, resource).await,
            _ => Err(ApiError::MethodNotAllowed),
        };
    }
    let schema = call
        .cluster
        .catalog
        .kind_schema(&subresource.kind.group, &subresource.kind.version, &subresource.kind.kind)
        .ok_or(ApiError::NoSuchPath)?;
    let (group_version, kind) = (subresource.kind.group_version(), &subresource.kind.kind);
    let expected = ExpectedKind::of_type(group_version, kind, &schema);
    match (&subresource.role, verb) {
        (SubresourceRole::Scale(paths), verb) => Scale { call, resource, paths, expected }.respond(verb).await,
        (SubresourceRole::Action(action), Verb::Create) => {
            let encoding = negotiate::input(&call.headers, call.endpoint())?;
            let body = call.body().await?;
            let options = WriteOptions::read(&call.query, Writing::Create)?;
            let mut object = decode(call, &body, encoding, &expected, options.field_validation)?;
            metadata::ensure_namespace(&mut object, resource, &call.info.namespace)?;
            if object.name().is_empty() {
                object.set_at(&["metadata", "name"], call.info.name.clone());
            }
            if object.name() != call.info.name {
                let kind = &subresource.kind.kind;
                return Err(ApiError::BadRequest(format!("name in URL does not match name in {kind} object")));
            }
            ManagedFieldsUpdater::of(call, &expected, &options).create(&mut object);
            act(call, resource, *action, object, &options).await
        }
        _ => Err(ApiError::MethodNotAllowed),
    }
}

/// An object of a kind as an answer.
pub(crate) fn answer(
    call: &RequestContext,
    code: StatusCode,
    value: &Value,
    schema: &Schema,
) -> Result<Response, ApiError> {
    let accepted = negotiate::output(&call.headers, &call.query, call.endpoint())?;
    let bytes = encode(value, Shape::Typed(&schema.types, schema.root), accepted.encoding, accepted.pretty);
    Ok(respond(code, accepted.encoding, bytes))
}
