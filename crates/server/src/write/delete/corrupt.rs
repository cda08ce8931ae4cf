//! Deletion of what cannot be read: without a look at its finalizers, and only by those who may (KEP-3926; upstream:
//! `registry/generic/registry/corrupt_obj_deleter.go`).

use std::sync::Arc;

use http::StatusCode;
use pintle_registry::{ApiError, GroupVersionKind, Resource};
use pintle_value::{Errors, FieldPath, object};

use crate::cluster::{check_key, object_key};
use crate::context::RequestContext;
use crate::http::Response;
use crate::represent::{ResponseFormat, done};
use crate::request::query::UNSAFE;
use crate::write::commit::{CommitOutcome, at, commit};

/// The verb that is needed beside `delete`.
const VERB: &str = "unsafe-delete-ignore-read-errors";

/// Deletes an object that cannot be read, for a client who says so.
pub(super) async fn delete(
    call: &RequestContext,
    resource: &Arc<Resource>,
    form: &ResponseFormat,
) -> Result<Response, ApiError> {
    authorize(call).await?;
    let (cluster, name) = (&call.cluster, &call.info.name);
    check_key(name)?;
    cluster.catch_up().await?;
    let hub = cluster.hub(resource);
    let key = object_key(call.namespace_of(resource), name);
    // Others may write it meanwhile; if it can be read then, it is theirs.
    loop {
        let Err(corrupt) = cluster.watch_cache(&hub)?.read(&key) else { return Err(readable(resource, name)) };
        match commit(cluster, &hub, &key, at(corrupt.revision), None).await? {
            CommitOutcome::Done(_) => break,
            CommitOutcome::Conflict => {}
        }
    }
    tracing::warn!(resource = %resource.group_resource(), %key, "Deleted a corrupt object");
    let details = object! { "name": name.as_str(), "kind": resource.kind.as_str() };
    Ok(done(call, form, StatusCode::OK, details))
}

async fn authorize(call: &RequestContext) -> Result<(), ApiError> {
    call.authorize(VERB).await.map_err(|error| match error {
        ApiError::Forbidden { resource, name, why, causes } => {
            let why = format!("not permitted to do \"{VERB}\", reason: {why}");
            ApiError::Forbidden { resource, name, why, causes }
        }
        other => other,
    })
}

/// The error of what can be read, or is not there. Upstream names the resource, not the kind.
fn readable(resource: &Resource, name: &str) -> ApiError {
    let mut errors = Errors::new();
    errors.invalid(
        &FieldPath::new(UNSAFE),
        true,
        "is exclusively used to delete corrupt object(s), try again by removing this option",
    );
    let kind = GroupVersionKind::new(resource.group.clone(), resource.version.clone(), resource.plural.clone());
    ApiError::Invalid { kind, name: name.into(), errors }
}

/// The error of who asks for this of many.
pub(super) fn not_of_many() -> ApiError {
    let mut errors = Errors::new();
    let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
    errors.invalid(&FieldPath::new(UNSAFE), true, why);
    ApiError::Invalid { kind: GroupVersionKind::new("meta.k8s.io", "v1", "DeleteOptions"), name: "".into(), errors }
}
