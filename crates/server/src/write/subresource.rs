//! Subresources: those that show and write the object itself (`status`), the `Scale` view of it, and actions on it.

use std::sync::Arc;

use http::StatusCode;
use pintle_kinds::scale::{ScaleError, apply_scale, check_scale_uid, scale_of};
use pintle_registry::{ApiError, Resource, Role, ScalePaths, Subresource, Verb};
use pintle_schema::Schema;
use pintle_value::Value;

use super::action::act;
use super::decode::{Expected, decode};
use super::metadata;
use super::patch::{patch, prepare};
use super::update::{Change, Judge, update};
use crate::cluster::tree;
use crate::http::Response;
use crate::negotiate::{self, Endpoint};
use crate::pipeline::Call;
use crate::query::WriteOptions;
use crate::read::{find, get};
use crate::represent::{Shape, encode, from_hub, respond};

/// Answers a request for a subresource.
pub(crate) async fn subresource(
    call: &Call,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    verb: Verb,
) -> Result<Response, ApiError> {
    if subresource.role == Role::Object {
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
    let expected =
        Expected { group_version: subresource.kind.group_version(), kind: &subresource.kind.kind, schema: &schema };
    match (&subresource.role, verb) {
        (Role::Scale(paths), Verb::Get) => {
            call.cluster.catch_up().await?;
            let object = tree(&*find(call, resource)?)?;
            answer(call, StatusCode::OK, &scale(&object, paths)?, &schema)
        }
        (Role::Scale(paths), Verb::Update) => replace_scale(call, resource, paths, &expected).await,
        (Role::Scale(paths), Verb::Patch) => patch_scale(call, resource, paths, &expected).await,
        (Role::Action(action), Verb::Create) => {
            let encoding = negotiate::input(&call.headers, true)?;
            let body = call.body().await?;
            let options = WriteOptions::read(&call.query, "CreateOptions")?;
            let mut object = decode(call, &body, encoding, &expected, options.field_validation)?;
            metadata::ensure_namespace(&mut object, resource, &call.info.namespace)?;
            if object.name().is_empty() {
                object.set_at(&["metadata", "name"], call.info.name.clone());
            }
            if object.name() != call.info.name {
                let kind = &subresource.kind.kind;
                return Err(ApiError::BadRequest(format!("name in URL does not match name in {kind} object")));
            }
            act(call, resource, *action, object, options.dry_run).await
        }
        _ => Err(ApiError::MethodNotAllowed),
    }
}

/// An object of a kind as an answer.
pub(crate) fn answer(call: &Call, code: StatusCode, value: &Value, schema: &Schema) -> Result<Response, ApiError> {
    let accepted = negotiate::output(&call.headers, &call.query, Endpoint::PLAIN)?;
    let bytes = encode(value, Shape::Typed(&schema.types, schema.root), accepted.encoding, accepted.pretty);
    Ok(respond(code, accepted.encoding, bytes))
}

async fn replace_scale(
    call: &Call,
    resource: &Arc<Resource>,
    paths: &ScalePaths,
    expected: &Expected<'_>,
) -> Result<Response, ApiError> {
    let body = call.body().await?;
    let options = WriteOptions::read(&call.query, "UpdateOptions")?;
    let encoding = negotiate::input(&call.headers, true)?;
    let mut wanted = decode(call, &body, encoding, expected, options.field_validation)?;
    let mut change = Change::of(call, resource, options.dry_run);
    change.judge = Judge::Object;
    metadata::ensure_namespace(&mut wanted, resource, &change.namespace)?;
    metadata::ensure_name(&wanted, &change.name, &change.namespace)?;
    let updated = change.run(|old| scaled(resource, paths, old, &wanted, expected)).await?;
    let object = from_hub(resource, tree(&updated.object)?);
    answer(call, StatusCode::OK, &scale(&object, paths)?, expected.schema)
}

async fn patch_scale(
    call: &Call,
    resource: &Arc<Resource>,
    paths: &ScalePaths,
    expected: &Expected<'_>,
) -> Result<Response, ApiError> {
    let mut change = Change::of(call, resource, false);
    change.judge = Judge::Object;
    let (patch, change) = prepare(call, resource, change).await?;
    let updated = change
        .run(|old| {
            let mut wanted = patch.apply(call, expected, &scale(old, paths)?)?;
            metadata::ensure_namespace(&mut wanted, resource, &change.namespace)?;
            metadata::ensure_name(&wanted, &change.name, &change.namespace)?;
            scaled(resource, paths, old, &wanted, expected)
        })
        .await?;
    let object = from_hub(resource, tree(&updated.object)?);
    answer(call, StatusCode::OK, &scale(&object, paths)?, expected.schema)
}

/// The scale of an object.
fn scale(object: &Value, paths: &ScalePaths) -> Result<Value, ApiError> {
    scale_of(object, paths).map_err(|error| match error {
        ScaleError::NoReplicas(_) => ApiError::Internal(error.to_string()),
        ScaleError::Malformed(text) => ApiError::BadRequest(text),
    })
}

/// The object with the replicas that a scale asks for.
fn scaled(
    resource: &Resource,
    paths: &ScalePaths,
    old: &Value,
    wanted: &Value,
    expected: &Expected<'_>,
) -> Result<Value, ApiError> {
    check_scale_uid(old, wanted, &resource.group_resource())?;
    let mut object = old.clone();
    let errors = apply_scale(&mut object, wanted, paths);
    if errors.is_empty() {
        return Ok(object);
    }
    let version = &expected.group_version;
    Err(ApiError::Invalid {
        kind: pintle_registry::GroupVersionKind::new(version.group.clone(), version.version.clone(), expected.kind),
        name: wanted.name().into(),
        errors,
    })
}
