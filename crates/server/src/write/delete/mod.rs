//! Delete: at once, or in two steps where a grace period, finalizers or the kind say so (upstream:
//! `registry/rest/delete.go`, `registry/generic/registry/store.go`).

mod collection;
mod corrupt;
mod dependents;
mod grace;
mod options;

pub(crate) use collection::{delete_all, delete_collection, delete_internally, delete_kind};

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use pintle_admission::AdmissionOperation;
use pintle_cache::Object;
use pintle_registry::{ApiError, GroupResource, Resource, WriteOperation};
use pintle_value::{Object as Members, Value};

use self::grace::Grace;
use self::options::options;
use super::allocation::Allocated;
use super::commit::{CommitOutcome, as_cached, at, commit};
use super::internal_client::InternalClient;
use super::update::GuaranteedUpdate;
use super::writer::Writer;
use crate::cluster::{check_key, tree};
use crate::context::RequestContext;
use crate::http::Response;
use crate::objects::decode::ExpectedKind;
use crate::represent::{ResponseFormat, from_hub, success};
use crate::request::query::DeleteOptions;

/// What became of a delete.
enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
    /// The object would be gone, in a trial that began as a change of its finalizers.
    Tried,
    /// The object is still there, terminating.
    Terminating(Arc<Object>),
}

/// Answers a delete.
pub(crate) async fn delete(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = ResponseFormat::negotiate(call, resource, false)?;
    let options = options(call).await?;
    if options.ignores_read_error {
        return corrupt::delete(call, resource, &form).await;
    }
    if let Some(why) = resource.strategy.delete_forbidden(&call.info.name) {
        let (resource, name) = (resource.group_resource(), call.info.name.clone());
        return Err(ApiError::Forbidden { resource, name, why: why.to_owned(), causes: Vec::new() });
    }
    warn_of_silence(call, resource, &options);
    let writer = Writer::of(call, &options, options.dry_run);
    let change = GuaranteedUpdate::by(writer, resource, (call.namespace_of(resource), &call.info.name));
    let returned = resource.collection().is_some_and(|c| c.returns_deleted);
    let (code, object) = match carry_out(&change, &options).await? {
        // Upstream says "accepted" only to those who ask in the old way.
        Deleted::Terminating(object) if options.orphan_dependents == Some(false) => (StatusCode::ACCEPTED, object),
        Deleted::Terminating(object) => (StatusCode::OK, object),
        Deleted::Tried => return Ok(form.respond(StatusCode::OK, form.body_of(nothing(resource))?)),
        Deleted::Gone(object) if returned => (StatusCode::OK, object),
        Deleted::Gone(object) => {
            let tree = tree(&object)?;
            return Ok(success(call, &form, details(resource, tree.name(), tree.uid())));
        }
    };
    Ok(form.respond(code, form.body(&form.view.convert_one(&object).await?)?))
}

/// An object of which nothing is known, which is what upstream shows where it did not come to a change.
fn nothing(resource: &Arc<Resource>) -> Value {
    let (mut object, expected) = (Value::object(), ExpectedKind::of(resource));
    expected.set_type(&mut object);
    expected.model.normalise(expected.schema, None, &mut object);
    object
}

/// Tells those who do not say what is to happen to dependents, where that is worth a word.
fn warn_of_silence(call: &RequestContext, resource: &Resource, options: &DeleteOptions) {
    let silent = options.propagation.is_none() && options.orphan_dependents.is_none();
    if let Some(warning) = resource.strategy.default_propagation_warning().filter(|_| silent) {
        call.warn(warning);
    }
}

fn details(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = Members::new();
    for (key, value) in [("name", name), ("group", &resource.group), ("kind", &resource.plural), ("uid", uid)] {
        if !value.is_empty() {
            details.insert(key, value);
        }
    }
    Value::Object(details)
}

/// True if a change leaves nothing that keeps an object which was terminating before.
pub(crate) fn is_final(hub: &Resource, object: &Value, old: &Value) -> bool {
    old.is_terminating()
        && object.items_at(&["metadata", "finalizers"]).is_empty()
        && old.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        && hub.strategy.is_finalized(object)
}

/// Deletes one object, as often as others get in between.
async fn carry_out(change: &GuaranteedUpdate<'_>, options: &DeleteOptions) -> Result<Deleted, ApiError> {
    check_key(&change.name)?;
    change.writer.cluster.catch_up().await?;
    loop {
        let current = change.read()?.map_err(|corrupt| change.writer.cluster.unreadable(change.resource, &corrupt))?;
        let Some(current) = current else { return Err(change.not_found()) };
        if let Some(deleted) = attempt(change, options, &current).await? {
            return Ok(deleted);
        }
    }
}

/// One try; `None` if someone else was faster.
async fn attempt(
    change: &GuaranteedUpdate<'_>,
    options: &DeleteOptions,
    current: &Arc<Object>,
) -> Result<Option<Deleted>, ApiError> {
    let (cluster, resource, context) = (change.writer.cluster, change.resource, &change.writer.context);
    let hub = cluster.hub(resource);
    let shown = change.view(&hub);
    let old = shown.tree(current).await?;
    let two_phase_deletion = hub.strategy.two_phase_deletion();
    preconditions(change, options, &old, current.revision, two_phase_deletion.is_some())?;
    let is_deletion_pending = old.is_terminating()
        && two_phase_deletion.is_some_and(|two_phase_deletion| two_phase_deletion.is_deletion_pending(&old));
    let grace = Grace::settle(&hub, &old, options.grace_period_seconds);
    if is_deletion_pending || grace == Grace::Pending {
        // It goes on as it is: nobody need be asked, and not even its finalizers change.
        return Ok(Some(Deleted::Terminating(current.clone())));
    }
    let client = InternalClient(cluster.clone());
    admit(change, &old, &client).await?;

    let mut object = old.clone();
    object.remove_at(&["metadata", "resourceVersion"]);
    if let Some(two_phase_deletion) = two_phase_deletion.filter(|_| !old.is_terminating()) {
        object.set_at(&["metadata", "deletionTimestamp"], context.now.rfc3339());
        if two_phase_deletion.decides_propagation() {
            dependents::set_finalizers_at_mark(&mut object, options);
        }
        two_phase_deletion.mark(&mut object);
        let marked = store(change, &hub, current, shown.store(&object).await?).await?;
        return Ok(marked.map(Deleted::Terminating));
    }
    dependents::settle(&hub, &mut object, options);
    let waits = !object.items_at(&["metadata", "finalizers"]).is_empty();
    if grace == Grace::None && !waits {
        if context.dry_run && !old.items_at(&["metadata", "finalizers"]).is_empty() {
            return Ok(Some(Deleted::Tried));
        }
        return remove(change, &hub, current, &old, &client).await;
    }
    let seconds = grace.mark(&mut object, context.now);
    let Some(marked) = store(change, &hub, current, shown.store(&object).await?).await? else { return Ok(None) };
    if waits || seconds > 0 {
        return Ok(Some(Deleted::Terminating(marked)));
    }
    // Gracefully and at once: watchers see the mark, and then the end.
    match remove(change, &hub, &marked, &object, &client).await? {
        // Someone else has finished what began here.
        None if change.current()?.is_none() => Ok(Some(Deleted::Gone(marked))),
        removed => Ok(removed),
    }
}

/// Runs both phases of admission for a delete.
async fn admit(change: &GuaranteedUpdate<'_>, old: &Value, client: &InternalClient) -> Result<(), ApiError> {
    let view = from_hub(change.resource, old.clone());
    let target = ("", &*change.namespace, &*change.name);
    let attributes = change.writer.attributes(AdmissionOperation::Delete, change.resource, target, Some(&view), client);
    let plugins = change.writer.plugins();
    plugins.mutate(&attributes, &mut Value::Null).await?;
    plugins.validate(&attributes, &Value::Null).await
}

/// Stores a marked object, if that is a change. `None` if someone else was faster.
async fn store(
    change: &GuaranteedUpdate<'_>,
    hub: &Arc<Resource>,
    current: &Arc<Object>,
    json: Bytes,
) -> Result<Option<Arc<Object>>, ApiError> {
    if json == current.json {
        return Ok(Some(current.clone()));
    }
    if change.writer.context.dry_run {
        return as_cached(&current.key, current.revision, json).map(Some);
    }
    match commit(change.writer.cluster, hub, &current.key, at(current.revision), Some(json.clone())).await? {
        CommitOutcome::Done(revision) => as_cached(&current.key, revision, json).map(Some),
        CommitOutcome::Conflict => Ok(None),
    }
}

/// Removes an object; `None` if someone else was faster.
async fn remove(
    change: &GuaranteedUpdate<'_>,
    hub: &Arc<Resource>,
    current: &Arc<Object>,
    old: &Value,
    client: &InternalClient,
) -> Result<Option<Deleted>, ApiError> {
    let (cluster, context) = (change.writer.cluster, &change.writer.context);
    if context.dry_run {
        return Ok(Some(Deleted::Gone(current.clone())));
    }
    match commit(cluster, hub, &current.key, at(current.revision), None).await? {
        CommitOutcome::Done(revision) => {
            release(change, hub, &current.key, old, client).await;
            let last = Object::new(current.key.clone(), revision, current.json.clone(), current.index.clone());
            Ok(Some(Deleted::Gone(Arc::new(last))))
        }
        CommitOutcome::Conflict => Ok(None),
    }
}

/// Releases what a deleted object had allocated.
pub(crate) async fn release(
    change: &GuaranteedUpdate<'_>,
    hub: &Resource,
    key: &str,
    old: &Value,
    client: &InternalClient,
) {
    let (hooks, context) = (hub.strategy.allocation(), &change.writer.context);
    match Allocated::begin(hooks, context, client, WriteOperation::Delete(old)).await {
        Ok(allocated) => allocated.finish(client, true).await,
        Err(error) => tracing::warn!(%error, %key, "Failed to release the allocations of a deleted object"),
    }
}

/// Whether the object is what it has to be. Kinds that are marked first say so in other words.
fn preconditions(
    change: &GuaranteedUpdate<'_>,
    options: &DeleteOptions,
    old: &Value,
    revision: u64,
    marks: bool,
) -> Result<(), ApiError> {
    let (resource, revision) = (&change.resource, revision.to_string());
    let conflict = |what: &str, wanted: &str, found: &str, perhaps: &str| {
        // Upstream names the kind here, where it does not name the resource.
        let (named, why) = if marks {
            let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
            (resource.group_resource(), why)
        } else {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {perhaps}"
            );
            (GroupResource::new(resource.group.clone(), resource.kind.clone()), why)
        };
        ApiError::Conflict { resource: named, name: change.name.as_str().into(), why }
    };
    let differs = |wanted: &Option<String>, found: &str| wanted.clone().filter(|wanted| wanted != found);
    if let Some(uid) = differs(&options.preconditions.uid, old.uid()) {
        return Err(conflict("UID", &uid, old.uid(), "deleted and then recreated"));
    }
    if let Some(version) = differs(&options.preconditions.version, &revision) {
        return Err(conflict("ResourceVersion", &version, &revision, "modified"));
    }
    Ok(())
}
