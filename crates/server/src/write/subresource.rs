//! Subresources: those that show and write the object itself (`status`), the `Scale` view of it, and bindings. Which it
//! is, is told by the kind that the subresource answers with.

use std::sync::Arc;

use http::StatusCode;
use pintle_kinds::scale::{ScaleError, ScalePaths, apply_scale, check_scale_uid, scale_of};
use pintle_registry::{ApiError, Resource, Subresource, Verb};
use pintle_schema::Schema;
use pintle_value::{Value, object};

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
use crate::represent::{Shape, encode, from_hub, respond, status};

/// Answers a request for a subresource.
pub(crate) async fn subresource(
    call: &Call,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    verb: Verb,
) -> Result<Response, ApiError> {
    if subresource.kind == resource.gvk() {
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
    match (subresource.kind.kind.as_str(), verb) {
        ("Scale", Verb::Get) => {
            call.cluster.catch_up().await?;
            let object = tree(&*find(call, resource)?)?;
            answer(call, StatusCode::OK, &scale(resource, &object)?, &schema)
        }
        ("Scale", Verb::Update) => replace_scale(call, resource, &expected).await,
        ("Scale", Verb::Patch) => patch_scale(call, resource, &expected).await,
        ("Binding", Verb::Create) => {
            let encoding = negotiate::input(&call.headers, true)?;
            let body = call.body().await?;
            let options = WriteOptions::read(&call.query, "CreateOptions")?;
            let mut binding = decode(call, &body, encoding, &expected, options.field_validation)?;
            metadata::ensure_namespace(&mut binding, resource, &call.info.namespace)?;
            if binding.name().is_empty() {
                binding.set_at(&["metadata", "name"], call.info.name.clone());
            }
            if binding.name() != call.info.name {
                return Err(ApiError::BadRequest("name in URL does not match name in Binding object".to_owned()));
            }
            bind(call, resource, binding, options.dry_run).await
        }
        _ => Err(ApiError::MethodNotAllowed),
    }
}

/// Answers a create of a resource that keeps nothing.
///
/// # Errors
/// The resource does nothing of the kind.
pub(crate) async fn unstored(
    call: &Call,
    resource: &Arc<Resource>,
    mut object: Value,
    dry_run: bool,
) -> Result<Response, ApiError> {
    metadata::ensure_namespace(&mut object, resource, &call.info.namespace)?;
    let registry = call.cluster.registry();
    match registry.resource("", "v1", "pods") {
        Some(pods) if resource.kind == "Binding" => bind(call, pods, object, dry_run).await,
        _ => {
            let answered = super::review::review(call, resource, object)?;
            answer(call, StatusCode::CREATED, &answered, &resource.schema)
        }
    }
}

/// Binds a pod to a node.
async fn bind(call: &Call, pods: &Arc<Resource>, binding: Value, dry_run: bool) -> Result<Response, ApiError> {
    let mut change = Change::of(call, pods, dry_run);
    change.name = binding.name().to_owned();
    change.subresource = "binding";
    change.judge = Judge::Nobody;
    let now = change.context.now;
    change
        .run(|old| {
            let mut pod = old.clone();
            pintle_kinds::bind(&mut pod, &binding, now)?;
            Ok(pod)
        })
        .await?;
    let accepted = negotiate::output(&call.headers, &call.query, Endpoint::PLAIN)?;
    let value = object! {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": Value::object(),
        "status": "Success",
        "code": 201,
    };
    Ok(status(call, StatusCode::CREATED, &value, accepted.encoding, accepted.pretty))
}

fn answer(call: &Call, code: StatusCode, value: &Value, schema: &Schema) -> Result<Response, ApiError> {
    let accepted = negotiate::output(&call.headers, &call.query, Endpoint::PLAIN)?;
    let bytes = encode(value, Shape::Typed(&schema.types, schema.root), accepted.encoding, accepted.pretty);
    Ok(respond(code, accepted.encoding, bytes))
}

async fn replace_scale(call: &Call, resource: &Arc<Resource>, expected: &Expected<'_>) -> Result<Response, ApiError> {
    let body = call.body().await?;
    let options = WriteOptions::read(&call.query, "UpdateOptions")?;
    let encoding = negotiate::input(&call.headers, true)?;
    let mut wanted = decode(call, &body, encoding, expected, options.field_validation)?;
    let mut change = Change::of(call, resource, options.dry_run);
    change.judge = Judge::Object;
    metadata::ensure_namespace(&mut wanted, resource, &change.namespace)?;
    metadata::ensure_name(&wanted, &change.name, &change.namespace)?;
    let updated = change.run(|old| scaled(resource, old, &wanted, expected)).await?;
    let object = from_hub(resource, tree(&updated.object)?);
    answer(call, StatusCode::OK, &scale(resource, &object)?, expected.schema)
}

async fn patch_scale(call: &Call, resource: &Arc<Resource>, expected: &Expected<'_>) -> Result<Response, ApiError> {
    let mut change = Change::of(call, resource, false);
    change.judge = Judge::Object;
    let (patch, change) = prepare(call, resource, change).await?;
    let updated = change
        .run(|old| {
            let mut wanted = patch.apply(call, expected, &scale(resource, old)?)?;
            metadata::ensure_namespace(&mut wanted, resource, &change.namespace)?;
            metadata::ensure_name(&wanted, &change.name, &change.namespace)?;
            scaled(resource, old, &wanted, expected)
        })
        .await?;
    let object = from_hub(resource, tree(&updated.object)?);
    answer(call, StatusCode::OK, &scale(resource, &object)?, expected.schema)
}

fn paths(resource: &Resource) -> Result<ScalePaths, ApiError> {
    ScalePaths::built_in(&resource.group, &resource.plural).ok_or(ApiError::NoSuchPath)
}

/// The scale of an object.
fn scale(resource: &Resource, object: &Value) -> Result<Value, ApiError> {
    scale_of(object, &paths(resource)?).map_err(|error| match error {
        ScaleError::NoReplicas(_) => ApiError::Internal(error.to_string()),
        ScaleError::Malformed(text) => ApiError::BadRequest(text),
    })
}

/// The object with the replicas that a scale asks for.
fn scaled(resource: &Resource, old: &Value, wanted: &Value, expected: &Expected<'_>) -> Result<Value, ApiError> {
    check_scale_uid(old, wanted, &resource.group_resource())?;
    let mut object = old.clone();
    let errors = apply_scale(&mut object, wanted, &paths(resource)?);
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
