//! Deletes of corrupt objects. They ignore finalizers and need a permission of their own (KEP-3926; upstream:
//! `registry/generic/registry/corrupt_obj_deleter.go`).

use std::sync::Arc;

use http::StatusCode;
use pintle_cache::{CorruptObject, Object};
use pintle_gates::Change;
use pintle_registry::{ApiError, GroupResource, GroupVersionKind, Resource};
use pintle_value::{Errors, FieldPath, Str, object};

use crate::cluster::{Cluster, check_key, object_key};
use crate::context::RequestContext;
use crate::conversion::VersionView;
use crate::http::Response;
use crate::represent::{ResponseFormat, success_with_code};
use crate::request::query::IGNORE_READ_ERROR;
use crate::write::commit::{CommitOutcome, ObjectChange, commit};

/// The verb for which the client must be authorized in addition to `delete`.
const UNSAFE_DELETE_VERB: &str = "unsafe-delete-ignore-read-errors";

/// Deletes a corrupt object, for a request with `ignoreStoreReadErrorWithClusterBreakingPotential`.
pub(super) async fn delete_corrupt_object(
    request: &RequestContext,
    resource: &Arc<Resource>,
    format: &ResponseFormat,
    is_dry_run: bool,
) -> Result<Response, ApiError> {
    authorize(request).await?;
    let (cluster, name) = (&request.cluster, &request.info.name);
    check_key(name)?;
    cluster.storage_of_resource(resource).catch_up().await?;
    let hub = cluster.hub(resource);
    let key = object_key(request.namespace_of(resource), name);
    let details = object! { "name": name.as_str(), "kind": resource.kind.as_str() };
    let success = || success_with_code(request, format, StatusCode::OK, details);
    // Another client may write the object in between. If the object is readable then, it is not deleted.
    loop {
        let revision = match read_decodable((cluster, &hub), &format.view, &key).await? {
            Err(corrupt) => corrupt.revision,
            Ok(None) if cluster.gates().has(Change::PRECISE_UNSAFE_DELETION) => {
                return Err(ApiError::NotFound { resource: resource.group_resource(), name: name.clone() });
            }
            Ok(Some(_)) if cluster.gates().has(Change::PRECISE_UNSAFE_DELETION) => {
                return Err(decodable_error(cluster, resource, &key, name));
            }
            Ok(_) => return Err(not_corrupt_error(resource, name)),
        };
        if is_dry_run {
            return Ok(success());
        }
        match commit(cluster, &hub, &key, ObjectChange::delete(revision), None).await? {
            CommitOutcome::Committed(_) => break,
            CommitOutcome::Conflict | CommitOutcome::ConditionFailed => {}
        }
    }
    tracing::warn!(resource = %resource.group_resource(), %key, "Deleted a corrupt object");
    Ok(success())
}

async fn authorize(request: &RequestContext) -> Result<(), ApiError> {
    let authorization = request.decide(UNSAFE_DELETE_VERB).await;
    // An error of an authorizer forbids the delete, even if the request is allowed.
    let why = match authorization.error {
        Some(error) => format!("error while checking permission for \"{UNSAFE_DELETE_VERB}\", {error}"),
        None if authorization.is_allowed() => return Ok(()),
        None => format!("not permitted to do \"{UNSAFE_DELETE_VERB}\", reason: {}", authorization.reason),
    };
    let resource = GroupResource::new(request.info.group.clone(), request.info.resource.clone());
    Err(ApiError::Forbidden { resource, name: request.info.name.clone(), why, causes: Vec::new() })
}

/// The error for an object that is readable or does not exist. Upstream's message contains the resource instead of the
/// kind.
fn not_corrupt_error(resource: &Resource, name: &str) -> ApiError {
    let mut errors = Errors::new();
    errors.invalid(
        &FieldPath::new(IGNORE_READ_ERROR),
        true,
        "is exclusively used to delete corrupt object(s), try again by removing this option",
    );
    let kind = GroupVersionKind::new(resource.group.clone(), resource.version.clone(), resource.plural.clone());
    ApiError::Invalid { kind, name: name.into(), errors }
}

/// Reads an object, and converts it to the version of the request. The inner error is an object that cannot be decoded
/// or converted.
async fn read_decodable(
    (cluster, hub): (&Cluster, &Resource),
    view: &VersionView,
    key: &str,
) -> Result<Result<Option<Arc<Object>>, CorruptObject>, ApiError> {
    let object = match cluster.watch_cache(hub)?.read(key) {
        Ok(Some(object)) => object,
        other => return Ok(other),
    };
    match view.convert_one(&object).await {
        Ok(_) => Ok(Ok(Some(object))),
        Err(error) => view.as_corrupt(&object, &error).map_or(Err(error), |corrupt| Ok(Err(corrupt))),
    }
}

/// The error for a readable object.
fn decodable_error(cluster: &Cluster, resource: &Resource, key: &str, name: &Str) -> ApiError {
    let prefix = resource.collection().map(|collection| collection.prefix.clone()).unwrap_or_default();
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not \
         allowed because the object is decodable from storage",
        cluster.stores.cache.store_key(&prefix, key)
    );
    ApiError::Conflict { resource: resource.group_resource(), name: name.clone(), why }
}

/// The error for a deletecollection with this option.
pub(super) fn collection_not_supported_error() -> ApiError {
    let mut errors = Errors::new();
    let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
    errors.invalid(&FieldPath::new(IGNORE_READ_ERROR), true, why);
    ApiError::Invalid { kind: GroupVersionKind::new("meta.k8s.io", "v1", "DeleteOptions"), name: "".into(), errors }
}
