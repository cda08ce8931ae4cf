//! Delete and deletecollection: at once, or in two steps where a grace period or finalizers say so (upstream:
//! `registry/rest/delete.go`, `registry/generic/registry/store.go`).

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use http::StatusCode;
use pintle_admission::{Operation, Request};
use pintle_cache::Object;
use pintle_registry::{ApiError, GroupResource, Objects, Resource, Write};
use pintle_value::time::Duration;
use pintle_value::{Object as Members, Value};

use super::commit::{Outcome, as_cached, at, commit, stored_bytes};
use super::decode::{Expected, decode};
use super::update::Change;
use crate::cluster::tree;
use crate::http::{Body, Response};
use crate::negotiate;
use crate::pipeline::Call;
use crate::query::{DeleteOptions, FieldValidation, ListOptions, Propagation, parse_revision};
use crate::read::{Selection, collect};
use crate::represent::{Form, ListBody, ListHead, Source, from_hub, success};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// How many objects of a collection are deleted at a time.
const DELETIONS: usize = 64;

/// What became of a delete.
enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
    /// The object is still there, terminating.
    Terminating(Arc<Object>),
}

/// Answers a delete.
pub(crate) async fn delete(call: &Call, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = Form::negotiate(call, resource, false)?;
    let options = options(call).await?;
    let change = Change::of(call, resource, options.dry_run);
    let deleted = carry_out(&change, &options).await?;
    match deleted {
        Deleted::Terminating(object) => {
            // Upstream says "accepted" only to those who ask in the old way.
            let code = match options.orphan_dependents {
                Some(false) => StatusCode::ACCEPTED,
                _ => StatusCode::OK,
            };
            Ok(form.respond(code, form.body(&object)?))
        }
        Deleted::Gone(object) => {
            let returned = resource.collection.as_ref().is_some_and(|c| c.returns_deleted);
            if returned {
                return Ok(form.respond(StatusCode::OK, form.body(&object)?));
            }
            let tree = tree(&object)?;
            success(call, details(resource, tree.name(), tree.uid()))
        }
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

/// The options, from the body or else from the query.
async fn options(call: &Call) -> Result<DeleteOptions, ApiError> {
    let body = call.body().await?;
    if body.is_empty() {
        return DeleteOptions::from_query(&call.query);
    }
    let encoding = negotiate::input(&call.headers, true)?;
    let catalog = &call.cluster.catalog;
    let schema = catalog
        .struct_type("meta/v1.DeleteOptions")
        .map(|id| catalog.schema(id))
        .ok_or_else(|| ApiError::Internal("DeleteOptions are not known".to_owned()))?;
    // The options' own group and version is whatever group and version the client likes to name.
    let found = pintle_codec::json::decode(&body, pintle_codec::json::Options::default());
    let named = found.ok().map(|d| d.value.api_version().to_owned()).unwrap_or_default();
    let group_version =
        pintle_registry::GroupVersion::parse(if named.is_empty() { "v1" } else { &named }).unwrap_or_default();
    let expected = Expected { group_version, kind: "DeleteOptions", schema: &schema };
    let value = decode(call, &body, encoding, &expected, FieldValidation::Ignore)?;
    DeleteOptions::from_body(&value)
}

/// True if an object that is terminating has nothing left that keeps it.
pub(crate) fn is_over(hub: &Resource, object: &Value) -> bool {
    object.is_terminating()
        && object.items_at(&["metadata", "finalizers"]).is_empty()
        && object.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        && hub.behaviour.is_finalized(object)
}

/// Deletes one object, as often as others get in between.
async fn carry_out(change: &Change<'_>, options: &DeleteOptions) -> Result<Deleted, ApiError> {
    change.cluster.catch_up().await?;
    loop {
        let Some(current) = change.current()? else { return Err(change.not_found()) };
        if let Some(deleted) = attempt(change, options, &current).await? {
            return Ok(deleted);
        }
    }
}

async fn attempt(
    change: &Change<'_>,
    options: &DeleteOptions,
    current: &Arc<Object>,
) -> Result<Option<Deleted>, ApiError> {
    let Change { cluster, resource, context, .. } = change;
    let hub = cluster.hub(resource);
    let old = tree(current)?;
    preconditions(change, options, &old, current.revision)?;
    let view = from_hub(resource, old.clone());
    let access = super::objects::Access((*cluster).clone());
    let objects: &dyn Objects = &access;
    let request = Request {
        operation: Operation::Delete,
        resource,
        subresource: "",
        namespace: &change.namespace,
        name: &change.name,
        identity: change.identity,
        dry_run: context.dry_run,
        old: Some(&view),
        objects,
    };
    cluster.admission.mutate(&request, &mut Value::Null).await?;
    cluster.admission.validate(&request, &Value::Null).await?;

    let mut object = old.clone();
    object.remove_at(&["metadata", "resourceVersion"]);
    let grace = settle_grace(&hub, &old, options);
    settle_finalizers(&hub, &mut object, options);
    let waits = !object.items_at(&["metadata", "finalizers"]).is_empty() || !hub.behaviour.is_finalized(&object);
    if grace == 0 && !waits {
        return remove(change, &hub, current, &old, objects).await;
    }
    mark(&hub, &mut object, grace, context.now);
    let json = stored_bytes(&hub, &object);
    let key = current.key.clone();
    if json == current.json {
        return Ok(Some(Deleted::Terminating(current.clone())));
    }
    if context.dry_run {
        return Ok(Some(Deleted::Terminating(as_cached(&key, current.revision, json)?)));
    }
    match commit(cluster, &hub, &key, at(current.revision), Some(json.clone())).await? {
        Outcome::Done(revision) => Ok(Some(Deleted::Terminating(as_cached(&key, revision, json)?))),
        Outcome::Conflict => Ok(None),
    }
}

async fn remove(
    change: &Change<'_>,
    hub: &Arc<Resource>,
    current: &Arc<Object>,
    old: &Value,
    objects: &dyn Objects,
) -> Result<Option<Deleted>, ApiError> {
    let Change { cluster, context, .. } = change;
    if context.dry_run {
        return Ok(Some(Deleted::Gone(current.clone())));
    }
    match commit(cluster, hub, &current.key, at(current.revision), None).await? {
        Outcome::Done(revision) => {
            if let Some(allocation) = hub.behaviour.allocation() {
                match allocation.begin(context, objects, Write::Delete(old)).await {
                    Ok(ticket) => allocation.commit(objects, ticket).await,
                    Err(error) => tracing::warn!(%error, key = %current.key, "what the object held is not released"),
                }
            }
            let last = Object {
                key: current.key.clone(),
                revision,
                json: current.json.clone(),
                outline: current.outline.clone(),
            };
            Ok(Some(Deleted::Gone(Arc::new(last))))
        }
        Outcome::Conflict => Ok(None),
    }
}

fn preconditions(change: &Change<'_>, options: &DeleteOptions, old: &Value, revision: u64) -> Result<(), ApiError> {
    // Upstream names the kind here, not the resource.
    let conflict = |why: String| ApiError::Conflict {
        resource: GroupResource::new(change.resource.group.clone(), change.resource.kind.clone()),
        name: change.name.as_str().into(),
        why,
    };
    if let Some(uid) = &options.precondition_uid
        && uid != old.uid()
    {
        return Err(conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            old.uid()
        )));
    }
    if let Some(version) = &options.precondition_version
        && parse_revision(version) != Ok(revision)
    {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        )));
    }
    Ok(())
}

/// The grace period in seconds; 0 for kinds that are not deleted gracefully.
fn settle_grace(hub: &Resource, old: &Value, options: &DeleteOptions) -> i64 {
    let Some(graceful) = hub.behaviour.graceful() else { return 0 };
    // A negative period means the least there is that is not at once.
    let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(period) = graceful.grace_period(old, asked) else { return 0 };
    match old.int_at(&["metadata", "deletionGracePeriodSeconds"]) {
        // A period that runs can be made shorter, not longer.
        Some(running) if old.is_terminating() => period.min(running),
        _ => period,
    }
}

/// Adds or removes the finalizers that make the garbage collector look after dependents.
fn settle_finalizers(hub: &Resource, object: &mut Value, options: &DeleteOptions) {
    let mut finalizers: Vec<Value> = object.items_at(&["metadata", "finalizers"]).to_vec();
    let has = |list: &[Value], name: &str| list.iter().any(|f| f.as_str() == Some(name));
    let (orphan, foreground) = match (options.propagation, options.orphan_dependents) {
        (Some(policy), _) => (policy == Propagation::Orphan, policy == Propagation::Foreground),
        (None, Some(orphan)) => (orphan, false),
        // Without a word from the client, a finalizer that is there already decides.
        (None, None) => {
            let (orphan, foreground) = (has(&finalizers, ORPHAN), has(&finalizers, FOREGROUND));
            (orphan || (hub.behaviour.orphans_by_default() && !foreground), foreground)
        }
    };
    finalizers.retain(|f| !matches!(f.as_str(), Some(ORPHAN | FOREGROUND)));
    if orphan {
        finalizers.push(ORPHAN.into());
    }
    if foreground {
        finalizers.push(FOREGROUND.into());
    }
    if finalizers.is_empty() {
        object.remove_at(&["metadata", "finalizers"]);
    } else {
        object.set_at(&["metadata", "finalizers"], finalizers);
    }
}

/// Marks an object as terminating.
fn mark(hub: &Resource, object: &mut Value, grace: i64, now: pintle_value::time::Time) {
    let running = object.int_at(&["metadata", "deletionGracePeriodSeconds"]);
    let generation = object.generation();
    let first = !object.is_terminating();
    if first {
        let end = now.plus(Duration::from_seconds(grace));
        object.set_at(&["metadata", "deletionTimestamp"], end.rfc3339());
        if generation > 0 {
            object.set_at(&["metadata", "generation"], generation + 1);
        }
    } else if let (Some(running), Some(end)) = (running, object.time_at(&["metadata", "deletionTimestamp"]))
        && grace < running
    {
        let end = end.plus(Duration::from_seconds(grace - running));
        object.set_at(&["metadata", "deletionTimestamp"], end.rfc3339());
    }
    if first || running.is_some_and(|running| grace < running) {
        object.set_at(&["metadata", "deletionGracePeriodSeconds"], grace);
    }
    if first {
        hub.behaviour.mark_terminating(object);
    }
}

/// Answers a deletecollection: every selected object is deleted by itself; the answer is the list of them as they were.
pub(crate) async fn delete_collection(call: &Call, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = Form::negotiate(call, resource, false)?;
    let list = ListOptions::read(&call.query, false)?;
    let options = options(call).await?;
    let at = call.cluster.catch_up().await?;
    let namespace = call.namespace_of(resource);
    let selection = Selection::compile(resource, &form.hub, namespace, &list.label_selector, &list.field_selector)?;
    let objects = collect(call, resource, &selection, at)?;
    // Many at a time, so that they share commits.
    let deletions = objects.clone().into_iter().map(|object| {
        let mut change = Change::of(call, resource, options.dry_run);
        change.namespace = object.namespace().to_owned();
        change.name = object.name().to_owned();
        let options = &options;
        async move {
            match carry_out(&change, options).await {
                // Someone else was faster.
                Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
    });
    stream::iter(deletions).buffer_unordered(DELETIONS).try_collect::<()>().await?;
    let head = ListHead { revision: at.to_string(), ..ListHead::default() };
    let source = Source::Objects(objects.into_iter());
    Ok(match ListBody::make(form.clone(), &head, source)? {
        Ok(body) => form.respond(StatusCode::OK, Body::from_producer(Box::new(body))),
        Err(bytes) => form.respond(StatusCode::OK, bytes),
    })
}
