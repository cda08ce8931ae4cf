//! Deletes: immediately, or in two steps because of a grace period, finalizers or the kind's strategy (upstream:
//! `registry/rest/delete.go`, `registry/generic/registry/store.go`).

mod collection;
mod corrupt;
mod gc_finalizers;
mod grace;
mod options;

pub(crate) use collection::{delete_all, delete_collection, delete_internally, delete_kind};

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use pintle_admission::AdmissionOperation;
use pintle_cache::Object;
use pintle_registry::{ApiError, GroupResource, Resource, WriteOperation};
use pintle_value::{Object as JsonObject, Value};

use self::grace::GracePeriod;
use self::options::delete_options;
use super::allocation::Allocated;
use super::commit::{CommitOutcome, ObjectChange, WriteEnd, cached_object, commit, committed_object};
use super::internal_client::InternalClient;
use super::update::{GuaranteedUpdate, UpdateMode};
use super::writer::Writer;
use crate::cluster::object_index::is_same_object;
use crate::cluster::{check_key, tree};
use crate::context::RequestContext;
use crate::conversion::from_hub;
use crate::http::Response;
use crate::objects::decode::ExpectedKind;
use crate::represent::{ResponseFormat, success};
use crate::request::query::DeleteOptions;

/// Deletes one object as a part of a write that was already admitted (`pods/eviction` deletes the pod).
///
/// # Errors
/// Returns an error if the object does not exist or fails the preconditions.
pub(crate) async fn delete_as_part_of(
    writer: Writer<'_>,
    resource: &Arc<Resource>,
    target: (&str, &str),
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let update = GuaranteedUpdate::new(writer, resource, target);
    delete_object(&update, options).await.map(drop)
}

/// The outcome of a delete.
enum DeleteOutcome {
    /// The object is deleted. The value is its last state.
    Removed(Arc<Object>),
    /// A dry run would have deleted the object after an update of its finalizers. As in upstream, the response is an
    /// empty object.
    DryRunEmpty,
    /// The object still exists and is terminating.
    Terminating(Arc<Object>),
}

/// Handles a delete request.
pub(crate) async fn delete(request: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(request, resource, false)?;
    let options = delete_options(request).await?;
    if options.ignores_read_error {
        return corrupt::delete_corrupt_object(request, resource, &format, options.dry_run).await;
    }
    if let Some(why) = resource.strategy.delete_forbidden(&request.info.name) {
        let (resource, name) = (resource.group_resource(), request.info.name.clone());
        return Err(ApiError::Forbidden { resource, name, why: why.to_owned(), causes: Vec::new() });
    }
    warn_about_default_propagation(request, resource, &options);
    let writer = Writer::for_request(request, &options, options.dry_run);
    let update = GuaranteedUpdate::new(writer, resource, (request.namespace_of(resource), &request.info.name));
    let returns_deleted = resource.collection().is_some_and(|c| c.returns_deleted);
    let (code, object) = match delete_object(&update, &options).await? {
        // Upstream responds with 202 only if the client set the deprecated `orphanDependents: false`.
        DeleteOutcome::Terminating(object) if options.orphan_dependents == Some(false) => {
            (StatusCode::ACCEPTED, object)
        }
        DeleteOutcome::Terminating(object) => (StatusCode::OK, object),
        DeleteOutcome::DryRunEmpty => {
            return Ok(format.respond(StatusCode::OK, format.encode_tree(empty_object(resource))?));
        }
        DeleteOutcome::Removed(object) if returns_deleted => (StatusCode::OK, object),
        DeleteOutcome::Removed(object) => {
            let tree = tree(&object)?;
            return Ok(success(request, &format, status_details(resource, tree.name(), tree.uid())));
        }
    };
    Ok(format.respond(code, format.encode_object(&format.view.convert_one(&object).await?)?))
}

/// An object without any fields set. Upstream responds with it if a dry run ended before an update.
fn empty_object(resource: &Arc<Resource>) -> Value {
    let (mut object, expected) = (Value::object(), ExpectedKind::of(resource));
    expected.set_type(&mut object);
    expected.model.normalise(expected.schema, None, &mut object, None);
    object
}

/// Adds a warning for kinds with an unexpected default propagation policy, if the client did not set a policy.
fn warn_about_default_propagation(request: &RequestContext, resource: &Resource, options: &DeleteOptions) {
    let is_default = options.propagation.is_none() && options.orphan_dependents.is_none();
    if let Some(warning) = resource.strategy.default_propagation_warning().filter(|_| is_default) {
        request.warn(warning);
    }
}

/// The `details` of the `Status` of a delete.
fn status_details(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = JsonObject::new();
    for (key, value) in [("name", name), ("group", &resource.group), ("kind", &resource.plural), ("uid", uid)] {
        if !value.is_empty() {
            details.insert(key, value);
        }
    }
    Value::Object(details)
}

/// True if an update removes the last reason that keeps a terminating object (upstream: `ShouldDeleteDuringUpdate`).
pub(crate) fn should_delete_during_update(hub: &Resource, object: &Value, old: &Value) -> bool {
    old.is_terminating()
        && object.items_at(&["metadata", "finalizers"]).is_empty()
        && old.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        && hub.strategy.is_finalized(object)
}

/// Deletes one object. After a conflict it tries again.
async fn delete_object(update: &GuaranteedUpdate<'_>, options: &DeleteOptions) -> Result<DeleteOutcome, ApiError> {
    check_key(&update.name)?;
    update.writer.cluster.storage_of_resource(update.resource).catch_up().await?;
    loop {
        let current =
            update.read()?.map_err(|corrupt| update.writer.cluster.corrupt_read_error(update.resource, &corrupt))?;
        let Some(current) = current else { return Err(update.not_found()) };
        if update.writer.recorder.set_large_by_length(current.json.len()).await {
            continue;
        }
        if let Some(deleted) = attempt(update, options, &current).await? {
            return Ok(deleted);
        }
    }
}

/// Makes one attempt. Returns `None` after a conflict.
async fn attempt(
    update: &GuaranteedUpdate<'_>,
    options: &DeleteOptions,
    current: &Arc<Object>,
) -> Result<Option<DeleteOutcome>, ApiError> {
    let (cluster, resource, context) = (update.writer.cluster, update.resource, &update.writer.context);
    let hub = cluster.hub(resource);
    let view = update.version_view(&hub);
    let old = view.tree(current).await.map_err(|error| view.read_error(current, error))?;
    let two_phase_deletion = hub.strategy.two_phase_deletion();
    let failed_precondition = two_phase_deletion.map(|strategy| strategy.failed_precondition(&context.gates));
    check_preconditions(update, options, &old, current.revision, failed_precondition)?;
    let is_deletion_pending =
        old.is_terminating() && two_phase_deletion.is_some_and(|strategy| strategy.is_deletion_pending(&old));
    let grace = GracePeriod::decide(&hub, &old, options.grace_period_seconds);
    if is_deletion_pending || grace == GracePeriod::Unchanged {
        // The deletion that is in progress continues, without admission and without a change of the finalizers.
        return Ok(Some(DeleteOutcome::Terminating(current.clone())));
    }
    let client = InternalClient(cluster.clone());
    admit(update, &old, &client).await?;

    let mut object = old.clone();
    object.remove_at(&["metadata", "resourceVersion"]);
    if let Some(two_phase_deletion) = two_phase_deletion.filter(|_| !old.is_terminating()) {
        object.set_at(&["metadata", "deletionTimestamp"], context.now.rfc3339());
        if two_phase_deletion.sets_propagation_finalizers() {
            gc_finalizers::set_gc_finalizers_two_phase(&mut object, options);
        }
        two_phase_deletion.mark_terminating(&mut object);
        let terminating =
            store_terminating(update, &hub, current, view.encode_for_storage(&object, None).await?).await?;
        return Ok(terminating.map(DeleteOutcome::Terminating));
    }
    gc_finalizers::set_gc_finalizers(&hub, &mut object, options);
    let has_finalizers = !object.items_at(&["metadata", "finalizers"]).is_empty();
    if grace == GracePeriod::None && !has_finalizers {
        if context.dry_run && !old.items_at(&["metadata", "finalizers"]).is_empty() {
            return Ok(Some(DeleteOutcome::DryRunEmpty));
        }
        return remove(update, &hub, current, &old, &client).await;
    }
    let seconds = grace.mark_terminating(&mut object, context.now);
    let Some(terminating) =
        store_terminating(update, &hub, current, view.encode_for_storage(&object, None).await?).await?
    else {
        return Ok(None);
    };
    if has_finalizers || seconds > 0 {
        return Ok(Some(DeleteOutcome::Terminating(terminating)));
    }
    // This is a graceful deletion without a grace period. Watchers first get an update to the terminating object, then
    // the delete.
    match remove(update, &hub, &terminating, &object, &client).await? {
        // Another writer has deleted the object in between.
        None if update.current()?.is_none() => Ok(Some(DeleteOutcome::Removed(terminating))),
        removed => Ok(removed),
    }
}

/// Runs both phases of admission for a delete.
async fn admit(update: &GuaranteedUpdate<'_>, old: &Value, client: &InternalClient) -> Result<(), ApiError> {
    let view = from_hub(update.resource, old.clone());
    let name = if update.mode == UpdateMode::CollectionDelete { "" } else { &*update.name };
    let target = ("", &*update.namespace, name);
    let attributes = update.writer.attributes(AdmissionOperation::Delete, update.resource, target, Some(&view), client);
    update.writer.plugins.mutate(&attributes, &mut Value::Null).await?;
    update.writer.plugins.validate(&attributes, &Value::Null).await
}

/// Stores a terminating object, if it changed. Returns `None` after a conflict.
async fn store_terminating(
    update: &GuaranteedUpdate<'_>,
    hub: &Arc<Resource>,
    current: &Arc<Object>,
    json: Bytes,
) -> Result<Option<Arc<Object>>, ApiError> {
    if is_same_object(&json, &current.json) {
        return Ok(Some(current.clone()));
    }
    if update.writer.context.dry_run {
        return cached_object(&current.key, current.revision, json).map(Some);
    }
    let change = ObjectChange::update(current.revision, json.clone());
    match commit(update.writer.cluster, hub, &current.key, change, None).await? {
        CommitOutcome::Committed(revision) => {
            committed_object(update.writer.cluster, hub, &current.key, revision, json).map(Some)
        }
        CommitOutcome::Conflict | CommitOutcome::ConditionFailed => Ok(None),
    }
}

/// Removes an object from the store. Returns `None` after a conflict.
async fn remove(
    update: &GuaranteedUpdate<'_>,
    hub: &Arc<Resource>,
    current: &Arc<Object>,
    old: &Value,
    client: &InternalClient,
) -> Result<Option<DeleteOutcome>, ApiError> {
    let (cluster, context) = (update.writer.cluster, &update.writer.context);
    if context.dry_run {
        return Ok(Some(DeleteOutcome::Removed(current.clone())));
    }
    match commit(cluster, hub, &current.key, ObjectChange::delete(current.revision), None).await? {
        CommitOutcome::Committed(revision) => {
            release_allocations(update, hub, &current.key, old, client).await;
            let last = Object::new(
                current.key.clone(),
                revision,
                Bytes::copy_from_slice(&current.json),
                current.index.clone(),
            );
            Ok(Some(DeleteOutcome::Removed(Arc::new(last))))
        }
        CommitOutcome::Conflict | CommitOutcome::ConditionFailed => Ok(None),
    }
}

/// Releases the allocations of a deleted object.
pub(crate) async fn release_allocations(
    update: &GuaranteedUpdate<'_>,
    hub: &Resource,
    key: &str,
    old: &Value,
    client: &InternalClient,
) {
    let (hooks, context) = (hub.strategy.allocation(), &update.writer.context);
    match Allocated::begin(hooks, context, client, WriteOperation::Delete(old)).await {
        Ok(allocated) => allocated.finish(client, WriteEnd::Stored).await,
        Err(error) => tracing::warn!(%error, %key, "Failed to release the allocations of a deleted object"),
    }
}

/// The error for an object that fails a precondition: the field that differs, with its required and its stored value.
/// Upstream's message contains the kind instead of the resource.
pub(crate) fn precondition_conflict(
    resource: &Resource,
    name: &str,
    (what, wanted, stored): (&str, &str, &str),
    possible_cause: &str,
) -> ApiError {
    let why = format!(
        "the {what} in the precondition ({wanted}) does not match the {what} in record ({stored}). The object might have been {possible_cause}"
    );
    let resource = GroupResource::new(resource.group.clone(), resource.kind.clone());
    ApiError::Conflict { resource, name: name.into(), why }
}

/// Checks the preconditions of a delete. Kinds with a two-phase deletion have other error messages, which begin with
/// `failed_precondition`.
fn check_preconditions(
    update: &GuaranteedUpdate<'_>,
    options: &DeleteOptions,
    old: &Value,
    revision: u64,
    failed_precondition: Option<&str>,
) -> Result<(), ApiError> {
    let (resource, revision) = (update.resource, revision.to_string());
    let conflict = |what: &str, wanted: &str, stored: &str, possible_cause: &str| {
        let Some(failed) = failed_precondition else {
            return precondition_conflict(resource, &update.name, (what, wanted, stored), possible_cause);
        };
        let why = format!("{failed}: {what} in precondition: {wanted}, {what} in object meta: {stored}");
        ApiError::Conflict { resource: resource.group_resource(), name: update.name.as_str().into(), why }
    };
    let differs = |wanted: &Option<String>, stored: &str| wanted.clone().filter(|wanted| wanted != stored);
    if let Some(uid) = differs(&options.preconditions.uid, old.uid()) {
        return Err(conflict("UID", &uid, old.uid(), "deleted and then recreated"));
    }
    if let Some(version) = differs(&options.preconditions.version, &revision) {
        return Err(conflict("ResourceVersion", &version, &revision, "modified"));
    }
    Ok(())
}
